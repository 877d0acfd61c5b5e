//! `/v1/chat/completions`.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};

use super::answer::{
    AnswerCall, AnswerParts, TokenCounts, all_warnings, finish_reason, logprobs, new_id, reasoning_tokens,
    statistics, stop_reason, unix_seconds,
};
use super::api_error::{ApiError, ApiResult, json_response};
use super::app::App;
use super::fields::Fields;
use super::format::{read_format, read_response_format};
use super::messages::read_messages;
use super::model::LoadedModel;
use super::options::{read_options, read_prediction, reasoning_of};
use super::prepare::ReadyRequest;
use super::reply::ReplyPiece;
use super::request::{ChatInput, GenerationRequest, PromptInput, ReasoningRequest};
use super::running::Running;
use super::stream::{self, EventWriter, Events};
use super::tool_fields::read_tools;
use ffwd_runtime::decode::Output;
use ffwd_runtime::sample::SamplingParams;

/// A request with what only this protocol has.
struct ChatRequest {
    generation: GenerationRequest,
    stream: bool,
    include_usage: bool,
}

pub(super) async fn chat_completions(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let ChatRequest { generation, stream, include_usage } = app.read(body, read).await?;
    let (choices, with_logprobs) = (generation.choices, generation.logprobs);
    let (model, mut prepared) = app.prepare(generation, stream, deadline).await?;
    let running = Running::start(&model, &mut prepared, deadline)?;
    if stream {
        let format = prepared.reply.clone();
        let writer = ChunkWriter::new(model, prepared, choices, include_usage, with_logprobs);
        return stream::respond(app, running, &format, choices, writer).await;
    }
    let outputs = running.outputs().await?;
    outputs.iter().for_each(|output| app.metrics.output(output));
    Ok(json_response(&completion(&model, &prepared, &outputs, with_logprobs)))
}

/// Reads the body.
fn read(text: &str, defaults: &SamplingParams) -> ApiResult<ChatRequest> {
    let mut fields = Fields::body(text)?;
    let mut chat = read_messages(&mut fields)?;
    let mut warnings = Vec::new();
    read_template_fields(&mut fields, &mut chat)?;
    let mut request = GenerationRequest::new(PromptInput::Chat(chat));
    read_options(&mut fields, &mut request, defaults)?;
    let response_format = fields.object("response_format")?;
    let first = response_format.map(|format| read_response_format(format, false)).transpose()?.flatten();
    request.format = read_format(&mut fields, first)?;
    request.tools = read_tools(&mut fields)?;
    request.prediction = read_prediction(&mut fields)?;
    request.reasoning = read_reasoning(&mut fields, &mut warnings)?;
    let newer = fields.count("max_completion_tokens")?;
    request.max_tokens = positive("max_tokens", newer.or(fields.count("max_tokens")?))?;
    request.logprobs = fields.flag("logprobs")?.unwrap_or(false);
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = read_stream_options(&mut fields, &mut warnings)?;
    fields.refuse("modalities", &["[\"text\"]"], "this server writes text only")?;
    fields.refuse("audio", &[], "this server writes text only")?;
    fields.refuse("web_search_options", &[], "this server searches nothing")?;
    fields.refuse("echo", &["false"], "the answer never has the prompt")?;
    fields.refuse("documents", &["[]"], "put texts into messages")?;
    if fields.text("verbosity")?.is_some_and(|verbosity| verbosity != "medium") {
        warnings.push("`verbosity` has no effect: write it in a message".to_owned());
    }
    fields.finish()?;
    request.warnings.extend(warnings);
    Ok(ChatRequest { generation: request, stream, include_usage })
}

/// Checks a limit of tokens.
pub(super) fn positive(param: &str, limit: Option<usize>) -> ApiResult<Option<usize>> {
    match limit {
        Some(0) => Err(ApiError::field(param, format!("`{param}` is 0; allow at least one token"))),
        other => Ok(other),
    }
}

/// Reads the fields about the chat template.
fn read_template_fields(fields: &mut Fields, chat: &mut ChatInput) -> ApiResult<()> {
    let path = fields.path_of("chat_template_kwargs");
    if let Some(value) = fields.raw("chat_template_kwargs") {
        chat.variables = serde_json::from_str(value.get())
            .map_err(|_| ApiError::field(path.clone(), format!("`{path}` must be an object")))?;
    }
    fields.refuse("chat_template", &[], "start the server with --chat-template")?;
    let continues = fields.flag("continue_final_message")?.unwrap_or(false);
    let generates = fields.flag("add_generation_prompt")?;
    if continues {
        let Some(begun) = chat.last_answer.take() else {
            let message = "`continue_final_message` needs a last message of the assistant";
            return Err(ApiError::field("continue_final_message", message));
        };
        chat.messages.pop();
        chat.begun = Some(begun);
    } else if generates == Some(false) {
        let why = "use `continue_final_message` to continue a message";
        return Err(ApiError::unsupported("add_generation_prompt", why));
    }
    Ok(())
}

fn read_reasoning(fields: &mut Fields, warnings: &mut Vec<String>) -> ApiResult<Option<ReasoningRequest>> {
    let effort = fields.text("reasoning_effort")?;
    if fields.flag("include_reasoning")? == Some(false) {
        warnings.push("`include_reasoning` has no effect: use `reasoning_effort` none".to_owned());
    }
    effort.map(|effort| reasoning_of(&effort, "reasoning_effort".to_owned())).transpose()
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

fn call(call: &AnswerCall) -> Value {
    match call.custom {
        true => {
            json!({"id": call.id, "type": "custom", "custom": {"name": call.name, "input": call.arguments}})
        }
        false => json!({"id": call.id, "type": "function",
            "function": {"name": call.name, "arguments": call.arguments}}),
    }
}

/// Returns the whole answer.
fn completion(
    model: &LoadedModel,
    prepared: &ReadyRequest,
    outputs: &[Output],
    with_logprobs: bool,
) -> Value {
    let vocab = model.engine.vocabulary();
    let mut thought = 0;
    let all: Vec<AnswerParts> =
        outputs.iter().map(|output| AnswerParts::of(&prepared.reply, &output.text)).collect();
    let warnings = all_warnings(&prepared.warnings, all.iter().any(AnswerParts::is_unchecked));
    let choices: Vec<Value> = outputs
        .iter()
        .zip(all)
        .enumerate()
        .map(|(index, (output, parts))| {
            thought += reasoning_tokens(vocab, &parts.reasoning);
            let mut message = json!({"role": "assistant", "content": parts.content, "refusal": null});
            if parts.content.is_empty() && !parts.calls.is_empty() {
                message["content"] = Value::Null;
            }
            if !parts.calls.is_empty() {
                message["tool_calls"] = parts.calls.iter().map(call).collect();
            }
            if !parts.reasoning.is_empty() {
                message["reasoning_content"] = parts.reasoning.into();
            }
            json!({
                "index": index,
                "message": message,
                "logprobs": if with_logprobs { logprobs(output, vocab) } else { Value::Null },
                "finish_reason": finish_reason(output, !parts.calls.is_empty()),
                "stop_reason": stop_reason(output),
            })
        })
        .collect();
    let outputs: Vec<&Output> = outputs.iter().collect();
    json!({
        "id": new_id("chatcmpl"),
        "object": "chat.completion",
        "created": unix_seconds(),
        "model": model.name,
        "choices": choices,
        "usage": TokenCounts::of(&outputs, thought).usage(),
        "ffwd": statistics(&outputs, &warnings, prepared.compile_seconds, prepared.seed),
    })
}

/// Writes the chunks of a stream.
struct ChunkWriter {
    model: Arc<LoadedModel>,
    prepared: ReadyRequest,
    include_usage: bool,
    with_logprobs: bool,
    id: String,
    created: u64,
    parts: Vec<AnswerParts>,
    /// The last chunk, which waits for the statistics.
    last: Option<Value>,
}

impl ChunkWriter {
    fn new(
        model: Arc<LoadedModel>,
        prepared: ReadyRequest,
        choices: usize,
        include_usage: bool,
        with_logprobs: bool,
    ) -> Self {
        let parts = (0..choices).map(|_| AnswerParts::default()).collect();
        let (id, created) = (new_id("chatcmpl"), unix_seconds());
        ChunkWriter { model, prepared, include_usage, with_logprobs, id, created, parts, last: None }
    }

    fn chunk(&self, choices: Value) -> Value {
        let mut chunk = json!({
            "id": self.id,
            "object": "chat.completion.chunk",
            "created": self.created,
            "model": self.model.name,
            "choices": choices,
        });
        if self.include_usage {
            chunk["usage"] = Value::Null;
        }
        chunk
    }

    fn delta(&self, index: usize, delta: Value) -> Value {
        self.chunk(json!([{"index": index, "delta": delta, "logprobs": null, "finish_reason": null}]))
    }
}

impl EventWriter for ChunkWriter {
    fn begin(&mut self, events: &mut Events) {
        for index in 0..self.parts.len() {
            events.data(&self.delta(index, json!({"role": "assistant", "content": ""})));
        }
    }

    fn piece(&mut self, index: usize, piece: &ReplyPiece, events: &mut Events) {
        self.parts[index].add(piece);
        let calls = &self.parts[index].calls;
        let number = calls.len().saturating_sub(1);
        let delta = match (piece, calls.last()) {
            (ReplyPiece::Reasoning(text), _) => json!({"reasoning_content": text}),
            (ReplyPiece::Content(text), _) => json!({"content": text}),
            (ReplyPiece::Call { .. }, Some(begun)) => {
                let mut begun = call(begun);
                begun["index"] = number.into();
                json!({"tool_calls": [begun]})
            }
            (ReplyPiece::Arguments(text), Some(begun)) if begun.custom => {
                json!({"tool_calls": [{"index": number, "custom": {"input": text}}]})
            }
            (ReplyPiece::Arguments(text), _) => {
                json!({"tool_calls": [{"index": number, "function": {"arguments": text}}]})
            }
            (ReplyPiece::Call { .. }, None) => return,
        };
        events.data(&self.delta(index, delta));
    }

    fn done(&mut self, index: usize, output: &Output, events: &mut Events) {
        let reason = finish_reason(output, !self.parts[index].calls.is_empty());
        let mut choice = json!({"index": index, "delta": {}, "logprobs": null, "finish_reason": reason,
            "stop_reason": stop_reason(output)});
        if self.with_logprobs {
            choice["logprobs"] = logprobs(output, self.model.engine.vocabulary());
        }
        let chunk = self.chunk(json!([choice]));
        if let Some(earlier) = self.last.replace(chunk) {
            events.data(&earlier);
        }
    }

    fn end(&mut self, outputs: &[&Output], events: &mut Events) {
        let ReadyRequest { warnings, compile_seconds, seed, .. } = &self.prepared;
        if let Some(mut last) = self.last.take() {
            let warnings = all_warnings(warnings, self.parts.iter().any(AnswerParts::is_unchecked));
            last["ffwd"] = statistics(outputs, &warnings, *compile_seconds, *seed);
            events.data(&last);
        }
        if self.include_usage {
            let vocab = self.model.engine.vocabulary();
            let thought = self.parts.iter().map(|parts| reasoning_tokens(vocab, &parts.reasoning)).sum();
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = TokenCounts::of(outputs, thought).usage();
            events.data(&chunk);
        }
        events.end();
    }
}
