//! `/v1/completions`: a text continued.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};

use super::answer::{TokenCounts, finish_reason, new_id, statistics, stop_reason, unix_seconds};
use super::api_error::{ApiError, ApiResult, json_response};
use super::app::App;
use super::chat::{positive, read_stream_options};
use super::fields::Fields;
use super::format::{read_format, read_response_format};
use super::model::LoadedModel;
use super::options::{read_options, read_prediction};
use super::prepare::ReadyRequest;
use super::reply::ReplyPiece;
use super::request::{GenerationRequest, PromptInput};
use super::running::Running;
use super::stream::{self, EventWriter, Events};
use ffwd_runtime::decode::Output;
use ffwd_runtime::sample::SamplingParams;

/// Default limit of output tokens, as clients of this endpoint expect.
const DEFAULT_MAX_TOKENS: usize = 16;

/// A request with what only this protocol has.
struct CompletionRequest {
    generation: GenerationRequest,
    stream: bool,
    include_usage: bool,
}

pub(super) async fn completions(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let CompletionRequest { generation, stream, include_usage } = app.read(body, read).await?;
    let (choices, with_logprobs) = (generation.choices, generation.logprobs);
    let (model, mut prepared) = app.prepare(generation, stream, deadline).await?;
    let running = Running::start(&model, &mut prepared, deadline)?;
    let id = new_id("cmpl");
    let created = unix_seconds();
    if stream {
        let format = prepared.reply.clone();
        let writer = TextWriter { model, prepared, include_usage, with_logprobs, id, created, last: None };
        return stream::respond(app, running, &format, choices, writer).await;
    }
    let outputs = running.outputs().await?;
    outputs.iter().for_each(|output| app.metrics.output(output));
    let choice = |(index, output): (usize, &Output)| {
        json!({"index": index, "text": output.text, "finish_reason": finish_reason(output, false),
            "stop_reason": stop_reason(output), "logprobs": logprobs(output, &model, with_logprobs)})
    };
    let all: Vec<&Output> = outputs.iter().collect();
    Ok(json_response(&json!({
        "id": id,
        "object": "text_completion",
        "created": created,
        "model": model.name,
        "choices": outputs.iter().enumerate().map(choice).collect::<Vec<_>>(),
        "usage": TokenCounts::of(&all, 0).usage(),
        "ffwd": statistics(&all, &prepared.warnings, prepared.compile_seconds, prepared.seed),
    })))
}

/// Reads the body.
fn read(text: &str, defaults: &SamplingParams) -> ApiResult<CompletionRequest> {
    let mut fields = Fields::body(text)?;
    let prompt = read_prompt(&mut fields)?;
    let mut request = GenerationRequest::new(PromptInput::Text(prompt));
    read_options(&mut fields, &mut request, defaults)?;
    let response_format = fields.object("response_format")?;
    let first = response_format.map(|format| read_response_format(format, false)).transpose()?.flatten();
    request.format = read_format(&mut fields, first)?;
    request.prediction = read_prediction(&mut fields)?;
    // The name in llama.cpp.
    let limit = fields.count("max_tokens")?.or(fields.count("n_predict")?);
    request.max_tokens = Some(positive("max_tokens", limit)?.unwrap_or(DEFAULT_MAX_TOKENS));
    request.logprobs = match fields.raw("logprobs").map(|value| value.get()) {
        None | Some("false") => false,
        Some("0" | "1" | "true") => true,
        Some(_) => {
            let why = "only the log-probabilities of the chosen tokens are reported; use 1";
            return Err(ApiError::unsupported("logprobs", why));
        }
    };
    let mut warnings = Vec::new();
    let stream = fields.flag("stream")?.unwrap_or(false);
    let include_usage = read_stream_options(&mut fields, &mut warnings)?;
    fields.refuse("echo", &["false"], "the answer never has the prompt")?;
    fields.refuse("suffix", &["\"\""], "this server continues texts only")?;
    fields.finish()?;
    request.warnings.extend(warnings);
    Ok(CompletionRequest { generation: request, stream, include_usage })
}

/// Reads `prompt`: a text, or a list with one.
fn read_prompt(fields: &mut Fields) -> ApiResult<String> {
    let value = fields.needed("prompt")?;
    let prompt: Value = serde_json::from_str(value.get())
        .map_err(|error| ApiError::field("prompt", format!("`prompt`: {error}")))?;
    match prompt {
        Value::String(text) => Ok(text),
        Value::Array(list) => match &list[..] {
            [Value::String(text)] => Ok(text.clone()),
            [Value::String(_), ..] => Err(ApiError::unsupported("prompt", "send a request for each prompt")),
            _ => Err(ApiError::unsupported("prompt", "token numbers are no prompt here; send text")),
        },
        _ => Err(ApiError::field("prompt", "`prompt` must be a string")),
    }
}

/// Returns the log-probabilities in the form of this protocol.
fn logprobs(output: &Output, model: &LoadedModel, wanted: bool) -> Value {
    if !wanted {
        return Value::Null;
    }
    let vocab = model.engine.vocabulary();
    let (mut tokens, mut offsets, mut at) = (Vec::new(), Vec::new(), 0);
    for &token in &output.tokens {
        let text = String::from_utf8_lossy(vocab.token_bytes(token)).into_owned();
        offsets.push(at);
        at += text.chars().count();
        tokens.push(text);
    }
    let values: Vec<Value> =
        output.logprobs.iter().map(|known| known.map_or(Value::Null, |known| known.raw.into())).collect();
    json!({"tokens": tokens, "token_logprobs": values, "text_offset": offsets, "top_logprobs": null})
}

/// Writes the chunks of a stream.
struct TextWriter {
    model: Arc<LoadedModel>,
    prepared: ReadyRequest,
    include_usage: bool,
    with_logprobs: bool,
    id: String,
    created: u64,
    /// The last chunk, which waits for the statistics.
    last: Option<Value>,
}

impl TextWriter {
    fn chunk(&self, choices: Value) -> Value {
        json!({"id": self.id, "object": "text_completion", "created": self.created,
            "model": self.model.name, "choices": choices})
    }
}

impl EventWriter for TextWriter {
    fn begin(&mut self, _: &mut Events) {}

    fn piece(&mut self, index: usize, piece: &ReplyPiece, events: &mut Events) {
        if let ReplyPiece::Content(text) = piece {
            let choice = json!({"index": index, "text": text, "finish_reason": null, "logprobs": null});
            events.data(&self.chunk(json!([choice])));
        }
    }

    fn done(&mut self, index: usize, output: &Output, events: &mut Events) {
        let choice = json!({"index": index, "text": "", "finish_reason": finish_reason(output, false),
            "stop_reason": stop_reason(output),
            "logprobs": logprobs(output, &self.model, self.with_logprobs)});
        let chunk = self.chunk(json!([choice]));
        if let Some(earlier) = self.last.replace(chunk) {
            events.data(&earlier);
        }
    }

    fn end(&mut self, outputs: &[&Output], events: &mut Events) {
        let ReadyRequest { warnings, compile_seconds, seed, .. } = &self.prepared;
        if let Some(mut last) = self.last.take() {
            last["ffwd"] = statistics(outputs, warnings, *compile_seconds, *seed);
            events.data(&last);
        }
        if self.include_usage {
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = TokenCounts::of(outputs, 0).usage();
            events.data(&chunk);
        }
        events.end();
    }
}
