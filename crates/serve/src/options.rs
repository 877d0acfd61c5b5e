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
    ("typ_p", &["1", "1.0"], "use `top_p` or `min_p`"),
    ("top_a", &["0", "0.0"], "use `top_p` or `min_p`"),
    ("dry_multiplier", &["0", "0.0"], "use `frequency_penalty`"),
    ("xtc_probability", &["0", "0.0"], "use `min_p`"),
];

/// Fields without effect here: names, values that need no warning, reason.
const WITHOUT_EFFECT: &[(&str, &[&str], &str)] = &[
    ("user safety_identifier", &[], "this server keeps no accounts"),
    ("metadata client_metadata", &["{}"], "nothing is stored"),
    ("store", &["false"], "nothing is stored"),
    ("service_tier", &["\"auto\"", "\"default\""], "there is one tier"),
    ("prompt_cache_key prompt_cache_options", &[], "common beginnings of prompts are found without a key"),
    ("prompt_cache_retention", &[], "the least recently used prefix is dropped"),
    ("cache_prompt", &["true"], "common beginnings of prompts are always kept"),
    ("cache_salt", &[], "the prefix cache is shared"),
    ("id_slot slot_id", &["-1"], "there are no slots"),
    ("priority", &["0"], "requests run in the order of their arrival"),
    ("request_id", &[], "the server makes its own"),
    ("guided_decoding_backend", &["\"auto\"", "\"ffwd\""], "there is one engine of constraints"),
    ("add_special_tokens", &["false", "true"], "the chat template and the tokenizer decide"),
    ("include", &["[]", "[\"reasoning.encrypted_content\"]"], "an answer has all that this server knows"),
    ("web_search_options plugins", &["[]"], "this server searches nothing, and has no plug-ins"),
    ("max_tool_calls", &[], "it counts calls that the server runs itself, of which there are none"),
    ("truncation", &["\"disabled\"", "\"auto\""], "the prompt is never shortened"),
    ("context_management transforms", &["[]"], "the prompt is never shortened"),
    ("n_keep n_discard", &["0"], "the prompt is never shortened"),
    ("num_ctx", &[], "the context is that of the model"),
    ("keep_alive ttl", &[], "models stay loaded"),
    ("options", &[], "its members belong into the body itself"),
    ("think thinking thinking_budget_tokens", &["false"], "use `reasoning_effort`"),
    ("reasoning_format", &["\"auto\"", "\"deepseek\""], "thinking is in `reasoning_content`"),
    ("separate_reasoning stream_reasoning parse_tool_calls", &["true"], "this is always done"),
    ("timings_per_token return_progress post_sampling_probs", &["false"], "an answer has its own statistics"),
    ("repeat_last_n penalize_nl", &["-1", "true"], "the penalties count all tokens"),
    ("samplers min_keep", &["0", "1"], "the order of the samplers is fixed, and one token is always kept"),
    ("dynatemp_range dynatemp_exponent", &["0", "0.0"], "the temperature is fixed"),
    ("mirostat_tau mirostat_eta xtc_threshold", &[], "this sampler is off"),
    ("dry_base dry_allowed_length dry_penalty_last_n dry_sequence_breakers", &[], "this sampler is off"),
    ("provider safe_prompt", &[], "there is one server, and the prompt stays as it is"),
    ("usage", &[], "an answer always has it, a stream with `stream_options.include_usage`"),
];

/// Reads the fields of all generations; the caller adds those of its protocol.
pub(super) fn read_options(
    fields: &mut Fields,
    mut prompt: PromptInput,
    defaults: &SamplingParams,
) -> ApiResult<GenerationRequest> {
    let mut warnings = match &mut prompt {
        PromptInput::Chat(chat) => std::mem::take(&mut chat.warnings),
        PromptInput::Text(_) => Vec::new(),
    };
    let model = fields.text("model")?;
    let choices = fields.count("n")?.unwrap_or(1);
    if !(1..=MAX_CHOICES).contains(&choices) {
        return Err(ApiError::field("n", format!("`n` must be from 1 to {MAX_CHOICES}, not {choices}")));
    }
    let mut stop = fields.texts("stop")?;
    // Some clients send an empty text for none.
    stop.retain(|text| !text.is_empty());
    if stop.len() > MAX_STOPS {
        return Err(ApiError::field("stop", format!("`stop` must be at most {MAX_STOPS} texts")));
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
    for (names, harmless, why) in WITHOUT_EFFECT {
        for name in names.split(' ') {
            if fields.raw(name).is_some_and(|value| !harmless.contains(&value.get())) {
                warnings.push(format!("`{name}` has no effect: {why}"));
            }
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
        logprobs: None,
        prediction: None,
    })
}

/// Returns the sampling parameters, and whether the client named a seed.
pub(super) fn read_sampling(
    fields: &mut Fields,
    defaults: &SamplingParams,
) -> ApiResult<(SamplingParams, bool)> {
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
    // As in OpenAI's API, the smallest part holds the most probable token.
    if params.top_p == 0.0 {
        params.top_p = f32::MIN_POSITIVE;
    }
    let seed = fields.value::<i128>("seed", "an integer")?;
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
    if fields.text_of("logit_bias") == Some("[]") {
        fields.raw("logit_bias");
        return Ok(Vec::new());
    }
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

/// Reads the object `reasoning`.
pub(super) fn read_nested_reasoning(
    fields: &mut Fields,
    warnings: &mut Vec<String>,
) -> ApiResult<Option<ReasoningRequest>> {
    let Some(mut reasoning) = fields.object("reasoning")? else { return Ok(None) };
    let param = reasoning.path_of("effort");
    let effort = reasoning.text("effort")?;
    for name in ["summary", "generate_summary", "exclude", "enabled", "max_tokens"] {
        if reasoning.raw(name).is_some_and(|value| value.get() != "false") {
            let why = "`effort` decides, and the whole thinking is in the answer";
            warnings.push(format!("`reasoning.{name}` has no effect: {why}"));
        }
    }
    reasoning.finish()?;
    effort.map_or(Ok(None), |effort| reasoning_of(&effort, param))
}

/// Returns the thinking that an effort asks for; `None` if it leaves that to the server.
pub(super) fn reasoning_of(effort: &str, param: String) -> ApiResult<Option<ReasoningRequest>> {
    let budget = match effort {
        "" | "auto" | "default" => return Ok(None),
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
    Ok(Some(ReasoningRequest { budget, param }))
}
