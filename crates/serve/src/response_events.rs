//! The typed events of a streamed answer of `/v1/responses`.
//!
//! One item is open at a time: thinking, a message, or a call. Each begins with `added`, grows by
//! deltas, and ends with `done`.

use serde_json::{Value, json};

use super::answer::{AnswerCall, new_id};
use super::api_error::ApiError;
use super::reply::ReplyPiece;
use super::response_object::{ResponseObject, call_item, message_item, reasoning_item, status_of, text_part};
use super::stream::{EventWriter, Events};
use ffwd_runtime::decode::Output;

/// The item that grows.
struct OpenItem {
    id: String,
    kind: ItemKind,
    /// The text so far; of a call its arguments.
    text: String,
}

enum ItemKind {
    Reasoning,
    Message,
    Call(AnswerCall),
}

/// Writes the events.
pub(super) struct ItemWriter {
    object: ResponseObject,
    open: Option<OpenItem>,
    /// The items that have ended.
    items: Vec<Value>,
    number: u64,
}

impl ItemWriter {
    pub(crate) fn new(object: ResponseObject) -> Self {
        ItemWriter { object, open: None, items: Vec::new(), number: 0 }
    }

    fn send(&mut self, events: &mut Events, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        events.named(name, &data);
    }

    /// Sends an event about the open item with these members.
    fn send_of(&mut self, events: &mut Events, name: &str, item: &OpenItem, members: &[(&str, Value)]) {
        let mut data = json!({"item_id": item.id, "output_index": self.items.len()});
        if !matches!(item.kind, ItemKind::Call(_)) {
            data["content_index"] = 0.into();
        }
        for (name, value) in members {
            data[name] = value.clone();
        }
        self.send(events, name, data);
    }

    /// Opens an item.
    fn begin_item(&mut self, kind: ItemKind, events: &mut Events) {
        let (id, added) = match &kind {
            ItemKind::Reasoning => {
                let id = new_id("rs");
                let added = json!({"id": id, "type": "reasoning", "summary": [], "content": []});
                (id, added)
            }
            ItemKind::Message => {
                let id = new_id("msg");
                let added = json!({"id": id, "type": "message", "role": "assistant",
                    "status": "in_progress", "content": []});
                (id, added)
            }
            ItemKind::Call(call) => {
                let id = new_id("fc");
                let added = call_item(&id, call, "in_progress");
                (id, added)
            }
        };
        let place = json!({"output_index": self.items.len(), "item": added});
        self.send(events, "response.output_item.added", place);
        let item = OpenItem { id, kind, text: String::new() };
        if matches!(item.kind, ItemKind::Message) {
            self.send_of(events, "response.content_part.added", &item, &[("part", text_part(""))]);
        }
        self.open = Some(item);
    }

    /// Ends the open item, if there is one.
    fn end_item(&mut self, status: &str, events: &mut Events) {
        let Some(mut open) = self.open.take() else { return };
        let text = std::mem::take(&mut open.text);
        let item = match &mut open.kind {
            ItemKind::Reasoning => {
                let members = [("text", text.as_str().into())];
                self.send_of(events, "response.reasoning_text.done", &open, &members);
                reasoning_item(&open.id, &text)
            }
            ItemKind::Message => {
                let members = [("text", text.as_str().into()), ("logprobs", json!([]))];
                self.send_of(events, "response.output_text.done", &open, &members);
                self.send_of(events, "response.content_part.done", &open, &[("part", text_part(&text))]);
                message_item(&open.id, &text, status)
            }
            ItemKind::Call(call) => {
                let (name, member) = call_event(call, "done");
                let members = [("name", call.name.as_str().into()), (member, text.as_str().into())];
                call.arguments = text;
                let item = call_item(&open.id, call, status);
                self.send_of(events, &name, &open, &members);
                item
            }
        };
        let place = json!({"output_index": self.items.len(), "item": item});
        self.send(events, "response.output_item.done", place);
        self.items.push(item);
    }

    /// Adds text to the open item.
    fn grow(&mut self, more: &str, events: &mut Events) {
        let Some(mut open) = self.open.take() else { return };
        open.text.push_str(more);
        let delta = ("delta", more.into());
        match &open.kind {
            ItemKind::Reasoning => self.send_of(events, "response.reasoning_text.delta", &open, &[delta]),
            ItemKind::Message => {
                let members = [delta, ("logprobs", json!([]))];
                self.send_of(events, "response.output_text.delta", &open, &members);
            }
            ItemKind::Call(call) => self.send_of(events, &call_event(call, "delta").0, &open, &[delta]),
        }
        self.open = Some(open);
    }

    /// Adds text to an item of this kind, which begins unless one is open.
    fn grow_or_begin(&mut self, kind: ItemKind, more: &str, events: &mut Events) {
        let same = |open: &OpenItem| std::mem::discriminant(&open.kind) == std::mem::discriminant(&kind);
        if !self.open.as_ref().is_some_and(same) {
            self.end_item("completed", events);
            self.begin_item(kind, events);
        }
        self.grow(more, events);
    }
}

/// Returns the name of an event of a call, and of the member with its text.
fn call_event(call: &AnswerCall, what: &str) -> (String, &'static str) {
    match call.custom {
        true => (format!("response.custom_tool_call_input.{what}"), "input"),
        false => (format!("response.function_call_arguments.{what}"), "arguments"),
    }
}

impl EventWriter for ItemWriter {
    fn begin(&mut self, events: &mut Events) {
        let object = self.object.with("in_progress", &[]);
        self.send(events, "response.created", json!({"response": object}));
        self.send(events, "response.in_progress", json!({"response": object}));
    }

    fn piece(&mut self, _: usize, piece: &ReplyPiece, events: &mut Events) {
        match piece {
            ReplyPiece::Reasoning(text) => self.grow_or_begin(ItemKind::Reasoning, text, events),
            ReplyPiece::Content(text) => self.grow_or_begin(ItemKind::Message, text, events),
            ReplyPiece::Call { name, custom } => {
                self.end_item("completed", events);
                let call = AnswerCall {
                    id: new_id("call"),
                    name: name.clone(),
                    custom: *custom,
                    arguments: String::new(),
                };
                self.begin_item(ItemKind::Call(call), events);
            }
            ReplyPiece::Arguments(text) => self.grow(text, events),
        }
    }

    fn done(&mut self, _: usize, output: &Output, events: &mut Events) {
        if self.open.is_none() && self.items.is_empty() {
            self.begin_item(ItemKind::Message, events);
        }
        self.end_item(status_of(output), events);
    }

    fn end(&mut self, outputs: &[&Output], events: &mut Events) {
        let Some(output) = outputs.first() else { return };
        let object = self.object.finished(&self.items, output);
        let name =
            if status_of(output) == "completed" { "response.completed" } else { "response.incomplete" };
        self.send(events, name, json!({"response": object}));
    }

    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        let mut object = self.object.with("failed", &self.items);
        object["error"] = json!({"code": "server_error", "message": error.text()});
        self.send(events, "response.failed", json!({"response": object}));
    }
}
