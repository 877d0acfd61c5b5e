//! `/v1/chat/completions` and `/v1/completions`: both answer with a list of choices.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};

use super::answer::{
    AnswerCall, AnswerParts, TokenCounts, finish_reason, logprobs, new_id, reasoning_tokens, statistics,
    stop_reason, text_logprobs, unix_seconds,
};
use super::api_error::{ApiResult, json_response};
use super::app::App;
use super::completion_fields::{CompletionRequest, read_chat, read_text};
use super::fields::Fields;
use super::model::LoadedModel;
use super::prepare::ReadyRequest;
use super::reply::ReplyPiece;
use super::running::Running;
use super::stream::{self, EventWriter, Events};
use ffwd_runtime::decode::Output;

/// One of the two protocols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Chat,
    /// A text is continued.
    Text,
}

pub(super) async fn chat_completions(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    answer(app, body, Protocol::Chat).await
}

pub(super) async fn completions(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    answer(app, body, Protocol::Text).await
}

async fn answer(app: Arc<App>, body: Body, protocol: Protocol) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let (read, prefix): (fn(&mut Fields, &_) -> _, _) = match protocol {
        Protocol::Chat => (read_chat, "chatcmpl"),
        Protocol::Text => (read_text, "cmpl"),
    };
    let CompletionRequest { generation, stream, include_usage } = app.read(body, read).await?;
    let (choices, with_logprobs) = (generation.choices, generation.logprobs.is_some());
    let (model, mut prepared) = app.prepare(generation, stream, deadline).await?;
    let running = Running::start(&model, &mut prepared, deadline)?;
    let format = prepared.reply.clone();
    let parts = (0..choices).map(|_| AnswerParts::default()).collect();
    let (id, created) = (new_id(prefix), unix_seconds());
    let mut writer = ChoiceWriter {
        protocol,
        model,
        prepared,
        include_usage,
        with_logprobs,
        id,
        created,
        parts,
        last: None,
    };
    if stream {
        return stream::respond(app, running, &format, choices, writer).await;
    }
    let outputs = running.outputs(&app.metrics).await?;
    writer.parts = outputs.iter().map(|output| AnswerParts::of(&format, output)).collect();
    Ok(json_response(&writer.whole(&outputs)))
}

/// Writes an answer: whole, or as the chunks of a stream.
struct ChoiceWriter {
    protocol: Protocol,
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

impl ChoiceWriter {
    /// Returns the whole answer.
    fn whole(&self, outputs: &[Output]) -> Value {
        let choice = |(index, (output, parts)): (usize, (&Output, &AnswerParts))| {
            let content = match self.protocol {
                Protocol::Chat => message(parts),
                Protocol::Text => parts.content.as_str().into(),
            };
            self.choice(index, output, ("message", content))
        };
        let choices = outputs.iter().zip(&self.parts).enumerate().map(choice).collect();
        let object = match self.protocol {
            Protocol::Chat => "chat.completion",
            Protocol::Text => "text_completion",
        };
        let mut answer = self.object(object, choices);
        let outputs: Vec<&Output> = outputs.iter().collect();
        answer["usage"] = self.usage(&outputs);
        answer["ffwd"] = self.statistics(&outputs);
        answer
    }

    fn object(&self, name: &str, choices: Value) -> Value {
        json!({"id": self.id, "object": name, "created": self.created, "model": self.model.name,
            "choices": choices})
    }

    fn chunk(&self, choices: Value) -> Value {
        match self.protocol {
            Protocol::Text => self.object("text_completion", choices),
            Protocol::Chat => {
                let mut chunk = self.object("chat.completion.chunk", choices);
                if self.include_usage {
                    chunk["usage"] = Value::Null;
                }
                chunk
            }
        }
    }

    /// Returns a choice that has ended, with its content: in a chat under this name.
    fn choice(&self, index: usize, output: &Output, (name, content): (&str, Value)) -> Value {
        let vocab = self.model.engine.vocabulary();
        let reason = finish_reason(output, !self.parts[index].calls.is_empty());
        let logprobs = match self.protocol {
            _ if !self.with_logprobs => Value::Null,
            Protocol::Chat => logprobs(output, vocab),
            Protocol::Text => text_logprobs(output, vocab),
        };
        let stop = stop_reason(output);
        match self.protocol {
            Protocol::Chat => json!({"index": index, name: content, "logprobs": logprobs,
                "finish_reason": reason, "stop_reason": stop}),
            Protocol::Text => json!({"index": index, "text": content, "finish_reason": reason,
                "stop_reason": stop, "logprobs": logprobs}),
        }
    }

    fn usage(&self, outputs: &[&Output]) -> Value {
        let vocab = self.model.engine.vocabulary();
        let thought = self.parts.iter().map(|parts| reasoning_tokens(vocab, &parts.reasoning)).sum();
        TokenCounts::of(outputs, thought).usage()
    }

    fn statistics(&self, outputs: &[&Output]) -> Value {
        let ReadyRequest { warnings, compile_seconds, seed, .. } = &self.prepared;
        statistics(outputs, warnings, *compile_seconds, *seed)
    }

    /// Sends a part of the message of a chat.
    fn delta(&self, index: usize, delta: Value, events: &mut Events) {
        let choice = json!({"index": index, "delta": delta, "logprobs": null, "finish_reason": null});
        events.data(&self.chunk(json!([choice])));
    }
}

/// Returns the message of a chat.
fn message(parts: &AnswerParts) -> Value {
    let mut message = json!({"role": "assistant", "content": parts.content, "refusal": null});
    if !parts.calls.is_empty() {
        if parts.content.is_empty() {
            message["content"] = Value::Null;
        }
        message["tool_calls"] = parts.calls.iter().map(call).collect();
    }
    if !parts.reasoning.is_empty() {
        message["reasoning_content"] = parts.reasoning.as_str().into();
    }
    message
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

impl EventWriter for ChoiceWriter {
    fn begin(&mut self, events: &mut Events) {
        let messages = if self.protocol == Protocol::Chat { self.parts.len() } else { 0 };
        for index in 0..messages {
            self.delta(index, json!({"role": "assistant", "content": ""}), events);
        }
    }

    fn piece(&mut self, index: usize, piece: &ReplyPiece, events: &mut Events) {
        if self.protocol == Protocol::Text {
            if let ReplyPiece::Content(text) = piece {
                let choice = json!({"index": index, "text": text, "finish_reason": null, "logprobs": null});
                events.data(&self.chunk(json!([choice])));
            }
            return;
        }
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
        self.delta(index, delta, events);
    }

    fn done(&mut self, index: usize, output: &Output, events: &mut Events) {
        let content = if self.protocol == Protocol::Chat { json!({}) } else { "".into() };
        let chunk = self.chunk(json!([self.choice(index, output, ("delta", content))]));
        if let Some(earlier) = self.last.replace(chunk) {
            events.data(&earlier);
        }
    }

    fn end(&mut self, outputs: &[&Output], events: &mut Events) {
        if let Some(mut last) = self.last.take() {
            last["ffwd"] = self.statistics(outputs);
            events.data(&last);
        }
        if self.include_usage {
            let mut chunk = self.chunk(json!([]));
            chunk["usage"] = self.usage(outputs);
            events.data(&chunk);
        }
        events.end();
    }
}
