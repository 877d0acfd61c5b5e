//! Fields that the endpoints share: sampling, endings, decoding, and those that are refused or have
//! no effect.

use super::api_error::{ApiError, ApiResult};
use super::fields::Fields;
use super::request::{DecodingRequest, GenerationRequest, PromptInput, ReasoningRequest};
use ffwd_runtime::decode::Mode;
use ffwd_runtime::sample::{Sampler, SamplingParams};
use ffwd_runtime::vocab::TokenId;

/// Largest number of texts of one request.
const MAX_CHOICES: usize = 64;
/// Largest number of stop texts.
const MAX_STOPS: usize = 64;
/// A bias at or below this value forbids its token, as clients of OpenAI's API expect.
const FORBIDDING_BIAS: f32 = -100.0;

/// Fields that change the output in a way that this server does not know: name, values that change
/// nothing, reason.
const REFUSED: &[(&str, &[&str], &str)] = &[
    ("min_tokens", &["0"], "a constraint can bound the length, such as `minLength` or `{10,}`"),
    ("ignore_eos", &["false"], "the model decides where a text without a constraint ends"),
    ("best_of", &["1"], "use `n` and choose among the answers"),
    ("use_beam_search", &["false"], "use `ffwd generate --beams`"),
    ("length_penalty", &["1", "1.0"], "it belongs to beam search"),
    ("early_stopping", &["false"], "it belongs to beam search"),
    ("top_logprobs", &["0"], "only the log-probabilities of the chosen tokens are reported"),
    ("prompt_logprobs", &["0"], "only tokens of the output have log-probabilities"),
    ("n_probs", &["0"], "use `logprobs`"),
    ("include_stop_str_in_output", &["false"], "a stop text is never part of the output"),
    ("skip_special_tokens", &["true"], "special tokens are never part of the output"),
    ("spaces_between_special_tokens", &["true"], "special tokens are never part of the output"),
    ("truncate_prompt_tokens", &[], "shorten the prompt"),
    ("allowed_token_ids", &[], "use a constraint"),
    ("bad_words", &["[]"], "use a constraint, or `logit_bias`"),
    ("logits_processors", &["[]"], "programs of a client do not run here"),
    ("prompt_embeds", &[], "send text"),
    ("return_token_ids", &["false"], "use `/tokenize` on the answer"),
    ("return_tokens_as_token_ids", &["false"], "use `/tokenize` on the answer"),
    ("vllm_xargs", &["{}"], "there are no plug-ins"),
    ("lora", &["[]"], "load a merged model"),
    ("typical_p", &["1", "1.0"], "use `top_p` or `min_p`"),
    ("tfs_z", &["1", "1.0"], "use `top_p` or `min_p`"),
    ("mirostat", &["0"], "use `temperature`"),
    ("dry_multiplier", &["0", "0.0"], "use `frequency_penalty`"),
    ("xtc_probability", &["0", "0.0"], "use `min_p`"),
];

/// Fields without effect here: name, values that need no warning, reason.
const WITHOUT_EFFECT: &[(&str, &[&str], &str)] = &[
    ("user", &[], "this server keeps no accounts"),
    ("safety_identifier", &[], "this server keeps no accounts"),
    ("metadata", &["{}"], "nothing is stored"),
    ("store", &["false"], "nothing is stored"),
    ("service_tier", &["\"auto\"", "\"default\""], "there is one tier"),
    ("prompt_cache_key", &[], "common beginnings of prompts are found without a key"),
    ("prompt_cache_retention", &[], "the least recently used prefix is dropped"),
    ("cache_prompt", &["true"], "common beginnings of prompts are always kept"),
    ("cache_salt", &[], "the prefix cache is shared"),
    ("id_slot", &["-1"], "there are no slots"),
    ("slot_id", &["-1"], "there are no slots"),
    ("priority", &["0"], "requests run in the order of their arrival"),
    ("request_id", &[], "the server makes its own"),
    ("guided_decoding_backend", &["\"auto\"", "\"ffwd\""], "there is one engine of constraints"),
    ("add_special_tokens", &["false", "true"], "the chat template and the tokenizer decide"),
];

/// Reads the fields of all generations; the caller adds those of its protocol.
pub(super) fn read_options(
    fields: &mut Fields,
    prompt: PromptInput,
    defaults: &SamplingParams,
) -> ApiResult<GenerationRequest> {
    let mut warnings = Vec::new();
    let model = fields.text("model")?;
    let choices = fields.count("n")?.unwrap_or(1);
    if !(1..=MAX_CHOICES).contains(&choices) {
        return Err(ApiError::field("n", format!("`n` must be from 1 to {MAX_CHOICES}, not {choices}")));
    }
    let stop = fields.texts("stop")?;
    if stop.len() > MAX_STOPS || stop.iter().any(String::is_empty) {
        let message = format!("`stop` must be at most {MAX_STOPS} texts, none of them empty");
        return Err(ApiError::field("stop", message));
    }
    let stop_tokens = fields.tokens("stop_token_ids")?.unwrap_or_default();
    let (sampling, seeded) = read_sampling(fields, defaults)?;
    if choices > 1 && sampling.is_greedy() {
        warnings.push("`n`: at temperature 0 all answers are the same".to_owned());
    }
    let decoding = fields.object("ffwd")?.map_or_else(|| Ok(DecodingRequest::default()), read_decoding)?;
    for (name, harmless, why) in REFUSED {
        fields.refuse(name, harmless, why)?;
    }
    for (name, harmless, why) in WITHOUT_EFFECT {
        if fields.raw(name).is_some_and(|value| !harmless.contains(&value.get())) {
            warnings.push(format!("`{name}` has no effect: {why}"));
        }
    }
    Ok(GenerationRequest {
        model,
        prompt,
        sampling,
        seeded,
        choices,
        stop,
        stop_tokens,
        decoding,
        warnings,
        format: None,
        tools: None,
        reasoning: None,
        max_tokens: None,
        logprobs: false,
        prediction: None,
    })
}

/// Returns the sampling parameters, and whether the client named a seed.
fn read_sampling(fields: &mut Fields, defaults: &SamplingParams) -> ApiResult<(SamplingParams, bool)> {
    let mut params = defaults.clone();
    let numbers: [(&'static str, &mut f32); 6] = [
        ("temperature", &mut params.temperature),
        ("top_p", &mut params.top_p),
        ("min_p", &mut params.min_p),
        ("repetition_penalty", &mut params.repetition_penalty),
        ("presence_penalty", &mut params.presence_penalty),
        ("frequency_penalty", &mut params.frequency_penalty),
    ];
    for (name, place) in numbers {
        if let Some(number) = fields.number(name)? {
            *place = number;
        }
    }
    // The name in llama.cpp.
    if let Some(number) = fields.number("repeat_penalty")? {
        params.repetition_penalty = number;
    }
    match fields.integer("top_k")? {
        None => {}
        // All tokens.
        Some(-1 | 0) => params.top_k = None,
        Some(n) if n > 0 => params.top_k = Some(n.unsigned_abs() as usize),
        Some(n) => {
            return Err(ApiError::field("top_k", format!("`top_k` is {n}")).hint("-1 keeps all"));
        }
    }
    let seed = fields.integer("seed")?;
    if let Some(seed) = seed.filter(|seed| *seed != -1) {
        params.seed = seed as u64;
    }
    params.logit_bias = logit_bias(fields)?;
    if let Err(error) = Sampler::new(params.clone()) {
        // The message begins with the name.
        let name = error.message().split(' ').next().unwrap_or_default().to_owned();
        let param = if fields.has(&name) { name } else { "logit_bias".to_owned() };
        return Err(ApiError::of(&error, param));
    }
    Ok((params, seed.is_some_and(|seed| seed != -1)))
}

fn logit_bias(fields: &mut Fields) -> ApiResult<Vec<(TokenId, f32)>> {
    let Some(mut biases) = fields.object("logit_bias")? else { return Ok(Vec::new()) };
    let mut list = Vec::new();
    for (name, value) in biases.rest() {
        let param = format!("logit_bias.{name}");
        let token = name.parse().map_err(|_| {
            ApiError::field(param.clone(), format!("`{param}` names no token")).hint("use token numbers")
        });
        let bias = serde_json::from_str::<f32>(value.get())
            .map_err(|_| ApiError::field(param.clone(), format!("`{param}` must be a number")));
        let bias = bias?;
        list.push((token?, if bias <= FORBIDDING_BIAS { f32::NEG_INFINITY } else { bias }));
    }
    Ok(list)
}

/// Reads the member `ffwd`.
fn read_decoding(mut own: Fields) -> ApiResult<DecodingRequest> {
    let mut decoding = DecodingRequest::default();
    if let Some(name) = own.text("mode")? {
        let mode: Result<Mode, String> = name.parse();
        decoding.mode = mode.map_err(|message| ApiError::field("ffwd.mode", message))?;
    }
    let flags: [(&'static str, &mut bool); 4] = [
        ("forced_runs", &mut decoding.forced_runs),
        ("lookup", &mut decoding.lookup),
        ("draft_model", &mut decoding.draft_model),
        ("close_before_limit", &mut decoding.close_before_limit),
    ];
    for (name, place) in flags {
        *place = own.flag(name)?.unwrap_or(*place);
    }
    decoding.guard = own.flag("guard")?;
    decoding.end_at_words = own.flag("end_at_words")?;
    decoding.max_draft = own.count("max_draft")?;
    decoding.source = own.text("source")?;
    own.finish()?;
    Ok(decoding)
}

/// Reads `prediction`, the content that an answer probably resembles.
pub(super) fn read_prediction(fields: &mut Fields) -> ApiResult<Option<String>> {
    let Some(mut prediction) = fields.object("prediction")? else { return Ok(None) };
    let kind = prediction.text("type")?;
    if kind.as_deref().is_some_and(|kind| kind != "content") {
        return Err(ApiError::field("prediction.type", "`prediction.type` must be `content`"));
    }
    let content = prediction.path_of("content");
    let Some(value) = prediction.raw("content") else {
        return Err(ApiError::field(content.clone(), format!("`{content}` is missing")));
    };
    let text = super::messages::content_text(value, &content)?;
    prediction.finish()?;
    Ok(Some(text))
}

/// Returns the thinking that an effort asks for.
pub(super) fn reasoning_of(effort: &str, param: String) -> ApiResult<ReasoningRequest> {
    let budget = match effort {
        "none" => None,
        "minimal" => Some(128),
        "low" => Some(512),
        "medium" => Some(2048),
        "high" => Some(8192),
        "xhigh" | "max" => Some(32_768),
        _ => {
            let known = "none, minimal, low, medium, high, xhigh and max";
            return Err(ApiError::unknown(&param, effort, known));
        }
    };
    Ok(ReasoningRequest { budget, param })
}
