//! `/v1/messages` and `/v1/messages/count_tokens`: Anthropic's protocol.
//!
//! Its messages consist of blocks. They become the conversation of a chat, and the answer becomes
//! blocks: thinking, text, and calls of tools. A last message of the assistant is continued.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::answer::{AnswerCall, AnswerParts, TokenCounts, finish_reason, new_id, statistics, stop_reason};
use super::api_error::{ApiError, ApiResult, json_response};
use super::app::{App, blocking};
use super::fields::Fields;
use super::format::{read_format, read_response_format};
use super::messages::{add_message, add_text, content_text, parts_text};
use super::model::LoadedModel;
use super::options::{read_options, reasoning_of};
use super::prepare::ReadyRequest;
use super::reply::ReplyPiece;
use super::request::{ChatInput, GenerationRequest, PromptInput, ReasoningRequest, ToolRequest};
use super::running::Running;
use super::stream::{self, EventWriter, Events};
use super::tokenize::chat_tokens;
use super::tool_fields::read_tools;
use ffwd_runtime::decode::{Finish, Output};
use ffwd_runtime::sample::SamplingParams;

pub(super) async fn messages(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let (generation, stream) = app.read(body, read).await?;
    let (model, mut prepared) = app.prepare(generation, stream, deadline).await?;
    let running = Running::start(&model, &mut prepared, deadline)?;
    let format = prepared.reply.clone();
    let (id, parts) = (new_id("msg"), AnswerParts::default());
    let mut writer = MessageWriter { id, model, prepared, parts, open: None, blocks: 0 };
    if stream {
        return stream::respond(app, running, &format, 1, writer).await;
    }
    let outputs = running.outputs(&app.metrics).await?;
    let Some(output) = outputs.first() else {
        return Err(ApiError::field("", "there is no answer"));
    };
    writer.parts = AnswerParts::of(&format, output);
    Ok(json_response(&writer.whole(output)))
}

pub(super) async fn count_tokens(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let (mut request, _) = app.read(body, read).await?;
    let model = app.model(request.model.as_deref()).await?;
    let tokens = blocking(move || chat_tokens(&model, &mut request)).await?;
    Ok(json_response(&json!({"input_tokens": tokens.len()})))
}

/// Reads the body; returns also whether the answer is streamed.
fn read(fields: &mut Fields, defaults: &SamplingParams) -> ApiResult<(GenerationRequest, bool)> {
    let mut chat = ChatInput::default();
    if let Some(system) = fields.raw("system") {
        add_text(&mut chat, "system", content_text(system, "system")?, "system")?;
    }
    for (message, path) in fields.list("messages")?.ok_or_else(|| ApiError::missing("messages"))? {
        add_turn(&mut chat, message, &path)?;
    }
    if let Some(begun) = chat.last_answer.take() {
        chat.messages.pop();
        chat.begun = Some(begun);
    }
    if chat.messages.is_empty() {
        return Err(ApiError::field("messages", "`messages` has no message of the user"));
    }
    let thinking = fields.object("thinking")?;
    let mut config = fields.object("output_config")?;
    let effort = config.as_mut().map(|config| config.text("effort")).transpose()?.flatten();
    let own = config.as_mut().map(|config| config.object("format")).transpose()?.flatten();
    // The name of the field while it was a test.
    let format = own.or(fields.object("output_format")?);
    config.map_or(Ok(()), Fields::finish)?;
    let first = format.map(|format| read_response_format(format, "schema")).transpose()?.flatten();
    let tools = read_own_tools(fields, &mut chat.warnings)?;
    let mut request = read_options(fields, PromptInput::Chat(chat), defaults)?;
    request.format = read_format(fields, first)?;
    request.tools = tools;
    request.reasoning = thinking.map(|thinking| read_thinking(thinking, effort)).transpose()?.flatten();
    request.max_tokens = fields.limit(&["max_tokens"])?;
    request.stop.extend(fields.texts("stop_sequences")?);
    fields.refuse("mcp_servers", &["[]"], "this server reaches no other")?;
    fields.refuse("container", &["null"], "tools run at the client")?;
    Ok((request, fields.flag("stream")?.unwrap_or(false)))
}

/// Adds a message, whose content is a text or a list of blocks.
fn add_turn(chat: &mut ChatInput, message: &RawValue, path: &str) -> ApiResult<()> {
    let mut fields = Fields::item(message, path.to_owned())?;
    let role = fields.needed_text("role")?;
    let content_path = fields.path_of("content");
    let content = fields.needed("content")?;
    fields.finish()?;
    let Ok(blocks) = serde_json::from_str::<Vec<Value>>(content.get()) else {
        return add_text(chat, &role, content_text(content, &content_path)?, path);
    };
    let (mut texts, mut calls) = (Vec::new(), Vec::new());
    for (i, block) in blocks.into_iter().enumerate() {
        let kind = block["type"].as_str().unwrap_or_default();
        match kind {
            "tool_use" => calls.push(json!({"id": block["id"], "type": "function",
                "function": {"name": block["name"], "arguments": block["input"]}})),
            "tool_result" => {
                let place = format!("{content_path}[{i}].content");
                let text = match &block["content"] {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    parts => parts_text(parts, &place)?,
                };
                let text = if block["is_error"] == true { format!("Error: {text}") } else { text };
                let result = json!({"role": "tool", "content": text, "tool_call_id": block["tool_use_id"]});
                add_message(chat, result, path)?;
            }
            // Traces of tools that run elsewhere.
            "server_tool_use" => {}
            kind if kind.ends_with("_tool_result") => {}
            _ => {
                let text = parts_text(&json!([block]), &content_path)?;
                texts.push(text);
            }
        }
    }
    let text = texts.concat();
    if calls.is_empty() {
        return if text.is_empty() { Ok(()) } else { add_text(chat, &role, text, path) };
    }
    add_message(chat, json!({"role": role, "content": text, "tool_calls": calls}), path)
}

/// Reads the tools in the form of chat completions.
fn read_own_tools(fields: &mut Fields, warnings: &mut Vec<String>) -> ApiResult<Option<ToolRequest>> {
    let mut value = |name| -> ApiResult<Option<Value>> { fields.value(name, "JSON") };
    let (mut tools, mut choice) = (value("tools")?.unwrap_or(json!([])), value("tool_choice")?);
    for tool in tools.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        tool.remove("cache_control");
        if tool.get("type").is_some_and(|kind| kind == "custom" || kind.is_null()) {
            tool.remove("type");
        }
    }
    let mut body = json!({"tools": tools});
    if let Some(choice) = choice.as_mut().filter(|choice| choice.is_object()) {
        let single = choice.as_object_mut().and_then(|own| own.remove("disable_parallel_tool_use"));
        body["parallel_tool_calls"] = (single != Some(true.into())).into();
        body["tool_choice"] = choice.clone();
    }
    let text = body.to_string();
    let mut own = Fields::body(&text)?;
    let tools = read_tools(&mut own, warnings)?;
    own.finish().map(|()| tools)
}

/// Reads `thinking`; an effort matters where the client leaves the budget open.
fn read_thinking(mut thinking: Fields, effort: Option<String>) -> ApiResult<Option<ReasoningRequest>> {
    let param = thinking.path_of("type");
    let kind = thinking.needed_text("type")?;
    let budget = thinking.count("budget_tokens")?;
    thinking.text("display")?;
    thinking.finish()?;
    match kind.as_str() {
        "disabled" => Ok(Some(ReasoningRequest { budget: None, param })),
        "enabled" | "adaptive" if budget.is_some() => Ok(Some(ReasoningRequest { budget, param })),
        "enabled" | "adaptive" => reasoning_of(effort.as_deref().unwrap_or("medium"), param),
        _ => Err(ApiError::unknown(&param, &kind, "enabled, adaptive and disabled")),
    }
}

/// Writes an answer: whole, or as events.
struct MessageWriter {
    id: String,
    model: Arc<LoadedModel>,
    prepared: ReadyRequest,
    parts: AnswerParts,
    /// The type of the block that grows.
    open: Option<&'static str>,
    /// Number of blocks that have begun.
    blocks: usize,
}

impl MessageWriter {
    fn message(&self, content: Value, usage: Value) -> Value {
        json!({"id": self.id, "type": "message", "role": "assistant", "model": self.model.name,
            "content": content, "stop_reason": null, "stop_sequence": null, "usage": usage})
    }

    fn whole(&self, output: &Output) -> Value {
        let AnswerParts { reasoning, content, calls } = &self.parts;
        let mut blocks = Vec::new();
        if !reasoning.is_empty() {
            blocks.push(json!({"type": "thinking", "thinking": reasoning, "signature": ""}));
        }
        if !content.is_empty() || calls.is_empty() {
            blocks.push(json!({"type": "text", "text": content}));
        }
        blocks.extend(calls.iter().map(call_block));
        let mut message = self.message(blocks.into(), usage(output));
        let (reason, text) = self.stop(output);
        (message["stop_reason"], message["stop_sequence"]) = (reason.into(), text);
        message["ffwd"] = self.statistics(output);
        message
    }

    /// Returns the reason of the end, and the stop text.
    fn stop(&self, output: &Output) -> (&'static str, Value) {
        match finish_reason(output, !self.parts.calls.is_empty()) {
            "length" => ("max_tokens", Value::Null),
            "tool_calls" => ("tool_use", Value::Null),
            _ if matches!(output.finish, Finish::StopText { .. }) => ("stop_sequence", stop_reason(output)),
            _ => ("end_turn", Value::Null),
        }
    }

    fn statistics(&self, output: &Output) -> Value {
        let ReadyRequest { warnings, compile_seconds, seed, .. } = &self.prepared;
        statistics(&[output], warnings, *compile_seconds, *seed)
    }

    fn begin_block(&mut self, kind: &'static str, block: Value, events: &mut Events) {
        self.end_block(events);
        self.open = Some(kind);
        send(events, "content_block_start", json!({"index": self.blocks, "content_block": block}));
        self.blocks += 1;
    }

    fn end_block(&mut self, events: &mut Events) {
        if self.open.take().is_some() {
            send(events, "content_block_stop", json!({"index": self.blocks - 1}));
        }
    }
}

fn call_block(call: &AnswerCall) -> Value {
    // A limit may have cut the arguments.
    let input: Value = serde_json::from_str(&call.arguments).unwrap_or(json!({}));
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// Returns the counts; tokens of the cache are not among those of the input.
fn usage(output: &Output) -> Value {
    let counts = TokenCounts::of(&[output], 0);
    json!({"input_tokens": counts.prompt - counts.cached, "cache_read_input_tokens": counts.cached,
        "cache_creation_input_tokens": 0, "output_tokens": counts.output})
}

fn send(events: &mut Events, name: &str, mut data: Value) {
    data["type"] = name.into();
    events.named(name, &data);
}

impl EventWriter for MessageWriter {
    fn begin(&mut self, events: &mut Events) {
        let tokens = self.prepared.prompt.encode(self.model.engine.vocabulary()).map_or(0, |list| list.len());
        let message = self.message(json!([]), json!({"input_tokens": tokens, "output_tokens": 0}));
        send(events, "message_start", json!({"message": message}));
    }

    fn piece(&mut self, _: usize, piece: &ReplyPiece, events: &mut Events) {
        self.parts.add(piece);
        let (kind, empty, delta) = match piece {
            ReplyPiece::Reasoning(text) => (
                "thinking",
                json!({"type": "thinking", "thinking": "", "signature": ""}),
                json!({"type": "thinking_delta", "thinking": text}),
            ),
            ReplyPiece::Content(text) => {
                ("text", json!({"type": "text", "text": ""}), json!({"type": "text_delta", "text": text}))
            }
            ReplyPiece::Call { .. } => {
                let Some(block) = self.parts.calls.last().map(call_block) else { return };
                return self.begin_block("tool_use", block, events);
            }
            ReplyPiece::Arguments(text) => {
                ("tool_use", Value::Null, json!({"type": "input_json_delta", "partial_json": text}))
            }
        };
        if self.open != Some(kind) {
            self.begin_block(kind, empty, events);
        }
        send(events, "content_block_delta", json!({"index": self.blocks - 1, "delta": delta}));
    }

    fn done(&mut self, _: usize, _: &Output, events: &mut Events) {
        self.end_block(events);
    }

    fn end(&mut self, outputs: &[&Output], events: &mut Events) {
        let Some(output) = outputs.first() else { return };
        let (reason, text) = self.stop(output);
        let delta = json!({"stop_reason": reason, "stop_sequence": text});
        let data = json!({"delta": delta, "usage": usage(output), "ffwd": self.statistics(output)});
        send(events, "message_delta", data);
        send(events, "message_stop", json!({}));
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        send(events, "error", json!({"error": error.object()}));
    }
}
