//! The bodies of `/v1/chat/completions` and `/v1/completions`.

use serde_json::Value;
use serde_json::value::RawValue;

use super::api_error::{ApiError, ApiResult};
use super::fields::Fields;
use super::format::{read_format, read_response_format};
use super::messages::read_messages;
use super::options::{read_nested_reasoning, read_options, read_prediction, reasoning_of};
use super::request::{ChatInput, GenerationRequest, PromptInput, RawPrompt, ReasoningRequest};
use super::tool_fields::read_tools;
use ffwd_runtime::sample::SamplingParams;

/// Largest number of further tokens with their log-probabilities.
const MAX_TOP: usize = 20;
/// Default limit of output tokens of `/v1/completions`, as its clients expect.
const DEFAULT_MAX_TOKENS: usize = 16;

/// A request with what only these protocols have.
pub(super) struct CompletionRequest {
    pub generation: GenerationRequest,
    pub stream: bool,
    pub include_usage: bool,
}

/// Reads the body of a chat.
pub(super) fn read_chat(fields: &mut Fields, defaults: &SamplingParams) -> ApiResult<CompletionRequest> {
    let mut chat = read_messages(fields)?;
    read_template_fields(fields, &mut chat)?;
    let mut request = read_shared(fields, PromptInput::Chat(chat), defaults)?;
    let generation = &mut request.generation;
    generation.tools = read_tools(fields, &mut generation.warnings)?;
    generation.reasoning = read_reasoning(fields, &mut generation.warnings)?;
    generation.max_tokens = fields.limit(&["max_completion_tokens", "max_tokens", "n_predict"])?;
    generation.logprobs = read_logprobs(fields)?;
    fields.refuse("modalities", &["[\"text\"]"], "this server writes text only")?;
    fields.refuse("audio", &[], "this server writes text only")?;
    fields.refuse("documents", &["[]"], "put texts into messages")?;
    if fields.text("verbosity")?.is_some_and(|verbosity| verbosity != "medium") {
        generation.warnings.push("`verbosity` has no effect: write it in a message".to_owned());
    }
    Ok(request)
}

/// Reads the body with a text to be continued.
pub(super) fn read_text(fields: &mut Fields, defaults: &SamplingParams) -> ApiResult<CompletionRequest> {
    let prompt = read_raw(fields, "prompt")?;
    let mut request = read_shared(fields, PromptInput::Text(prompt), defaults)?;
    // The last one is the name in llama.cpp.
    let limit = fields.limit(&["max_tokens", "max_completion_tokens", "n_predict"])?;
    request.generation.max_tokens = Some(limit.unwrap_or(DEFAULT_MAX_TOKENS));
    request.generation.logprobs = read_logprobs(fields)?;
    fields.refuse("suffix", &["\"\""], "this server continues texts only")?;
    Ok(request)
}

/// Reads `logprobs`, a flag in a chat and a number of further tokens for a text, and `top_logprobs`.
fn read_logprobs(fields: &mut Fields) -> ApiResult<Option<usize>> {
    let top = fields.count("top_logprobs")?;
    let most = match fields.raw("logprobs").map(RawValue::get) {
        None | Some("false") if top.is_some_and(|top| top > 0) => {
            return Err(ApiError::field("top_logprobs", "`top_logprobs` needs `logprobs`"));
        }
        None | Some("false") => return Ok(None),
        Some("true") => top.unwrap_or(0),
        Some(number) => number
            .parse()
            .map_err(|_| ApiError::field("logprobs", "`logprobs` must be a flag or a number of tokens"))?,
    };
    if most > MAX_TOP {
        return Err(ApiError::field("top_logprobs", format!("at most {MAX_TOP} tokens are reported")));
    }
    Ok(Some(most))
}

/// Reads the fields that both protocols have.
fn read_shared(
    fields: &mut Fields,
    prompt: PromptInput,
    defaults: &SamplingParams,
) -> ApiResult<CompletionRequest> {
    let mut generation = read_options(fields, prompt, defaults)?;
    let response_format = fields.object("response_format")?;
    let first =
        response_format.map(|format| read_response_format(format, "json_schema")).transpose()?.flatten();
    generation.format = read_format(fields, first)?;
    generation.prediction = read_prediction(fields)?;
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = read_stream_options(fields, &mut generation.warnings)?;
    fields.refuse("echo", &["false"], "the answer never has the prompt")?;
    Ok(CompletionRequest { generation, stream, include_usage })
}

/// Reads the fields about the chat template.
fn read_template_fields(fields: &mut Fields, chat: &mut ChatInput) -> ApiResult<()> {
    let path = fields.path_of("chat_template_kwargs");
    if let Some(value) = fields.raw("chat_template_kwargs") {
        chat.variables = serde_json::from_str(value.get())
            .map_err(|_| ApiError::field(path.clone(), format!("`{path}` must be an object")))?;
    }
    if let Some(thinks) = fields.flag("enable_thinking")? {
        chat.variables.entry("enable_thinking").or_insert(thinks.into());
    }
    fields.refuse("chat_template", &[], "start the server with --chat-template")?;
    let continues = fields.flag("continue_final_message")?.unwrap_or(false);
    chat.ends = fields.flag("add_generation_prompt")? == Some(false) && !continues;
    if continues {
        let Some(begun) = chat.last_answer.take() else {
            let message = "`continue_final_message` needs a last message of the assistant";
            return Err(ApiError::field("continue_final_message", message));
        };
        chat.messages.pop();
        chat.begun = Some(begun);
    }
    Ok(())
}

fn read_reasoning(fields: &mut Fields, warnings: &mut Vec<String>) -> ApiResult<Option<ReasoningRequest>> {
    let effort = fields.text("reasoning_effort")?;
    let nested = read_nested_reasoning(fields, warnings)?;
    if fields.flag("include_reasoning")? == Some(false) {
        warnings.push("`include_reasoning` has no effect: use `reasoning_effort` none".to_owned());
    }
    effort.map_or(Ok(nested), |effort| reasoning_of(&effort, "reasoning_effort".to_owned()))
}

/// Reads `stream_options`; returns whether a stream ends with the usage.
pub(super) fn read_stream_options(fields: &mut Fields, warnings: &mut Vec<String>) -> ApiResult<bool> {
    let Some(mut options) = fields.object("stream_options")? else { return Ok(false) };
    let usage = options.flag("include_usage")?.unwrap_or(false);
    options.flag("continuous_usage_stats")?;
    if options.flag("include_obfuscation")? == Some(true) {
        warnings.push("`stream_options.include_obfuscation` has no effect: nothing is padded".to_owned());
    }
    options.finish()?;
    Ok(usage)
}

/// Reads a prompt that is sent as it is: a text, a list with one, or a list of tokens, with the
/// fields about its special tokens.
pub(super) fn read_raw(fields: &mut Fields, name: &'static str) -> ApiResult<RawPrompt> {
    let value = fields.needed(name)?;
    let prompt: Value = serde_json::from_str(value.get())
        .map_err(|error| ApiError::field(name, format!("`{name}`: {error}")))?;
    let prompt = match prompt {
        Value::Array(mut list) if list.len() == 1 && !list[0].is_number() => list.remove(0),
        Value::Array(list) if !list.first().is_some_and(Value::is_number) => {
            return Err(ApiError::unsupported(name, "send a request for each prompt"));
        }
        prompt => prompt,
    };
    let wrong = |_| ApiError::field(name, format!("`{name}` must be a string or a list of token numbers"));
    let (text, tokens) = match prompt {
        Value::String(text) => (text, None),
        prompt => (String::new(), Some(serde_json::from_value(prompt).map_err(wrong)?)),
    };
    // The names in vLLM and transformers, and in llama.cpp.
    let begins = fields.flag("add_special_tokens")?.or(fields.flag("add_special")?).unwrap_or(true);
    let parses = fields.flag("parse_special")?.unwrap_or(true);
    let splits_special = fields.flag("split_special_tokens")?.unwrap_or(!parses);
    Ok(RawPrompt { text, tokens, splits_special, begins })
}
