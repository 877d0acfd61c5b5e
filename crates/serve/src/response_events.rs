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
enum OpenItem {
    Reasoning { id: String, text: String },
    Message { id: String, text: String },
    Call { id: String, call: AnswerCall },
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
    pub fn new(object: ResponseObject) -> Self {
        ItemWriter { object, open: None, items: Vec::new(), number: 0 }
    }

    fn send(&mut self, events: &mut Events, name: &str, mut data: Value) {
        data["type"] = name.into();
        data["sequence_number"] = self.number.into();
        self.number += 1;
        events.named(name, &data);
    }

    /// Opens an item.
    fn begin_item(&mut self, item: OpenItem, events: &mut Events) {
        let index = self.items.len();
        let added = match &item {
            OpenItem::Reasoning { id, .. } => {
                json!({"id": id, "type": "reasoning", "summary": [], "content": []})
            }
            OpenItem::Message { id, .. } => {
                json!({"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []})
            }
            OpenItem::Call { id, call } => call_item(id, call, "in_progress"),
        };
        self.send(events, "response.output_item.added", json!({"output_index": index, "item": added}));
        if let OpenItem::Message { id, .. } = &item {
            let data =
                json!({"item_id": id, "output_index": index, "content_index": 0, "part": text_part("")});
            self.send(events, "response.content_part.added", data);
        }
        self.open = Some(item);
    }

    /// Ends the open item, if there is one.
    fn end_item(&mut self, status: &str, events: &mut Events) {
        let index = self.items.len();
        let item = match self.open.take() {
            None => return,
            Some(OpenItem::Reasoning { id, text }) => {
                let data = json!({"item_id": id, "output_index": index, "content_index": 0, "text": text});
                self.send(events, "response.reasoning_text.done", data);
                reasoning_item(&id, &text)
            }
            Some(OpenItem::Message { id, text }) => {
                let mut data = json!({"item_id": id, "output_index": index, "content_index": 0});
                data["text"] = text.as_str().into();
                data["logprobs"] = json!([]);
                self.send(events, "response.output_text.done", data);
                let part = text_part(&text);
                let data = json!({"item_id": id, "output_index": index, "content_index": 0, "part": part});
                self.send(events, "response.content_part.done", data);
                message_item(&id, &text, status)
            }
            Some(OpenItem::Call { id, call }) => {
                let (name, member) = call_event(&call, "done");
                let mut data = json!({"item_id": id, "output_index": index, "name": call.name});
                data[member] = call.arguments.as_str().into();
                self.send(events, &name, data);
                call_item(&id, &call, status)
            }
        };
        self.send(events, "response.output_item.done", json!({"output_index": index, "item": item}));
        self.items.push(item);
    }

    /// Adds text to the open item.
    fn grow(&mut self, more: &str, events: &mut Events) {
        let index = self.items.len();
        let (name, data) = match &mut self.open {
            None => return,
            Some(OpenItem::Reasoning { id, text }) => {
                text.push_str(more);
                let data = json!({"item_id": id, "output_index": index, "content_index": 0, "delta": more});
                ("response.reasoning_text.delta".to_owned(), data)
            }
            Some(OpenItem::Message { id, text }) => {
                text.push_str(more);
                let data = json!({"item_id": id, "output_index": index, "content_index": 0, "delta": more,
                    "logprobs": []});
                ("response.output_text.delta".to_owned(), data)
            }
            Some(OpenItem::Call { id, call }) => {
                call.arguments.push_str(more);
                let data = json!({"item_id": id, "output_index": index, "delta": more});
                (call_event(call, "delta").0, data)
            }
        };
        self.send(events, &name, data);
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
            ReplyPiece::Reasoning(text) => {
                if !matches!(self.open, Some(OpenItem::Reasoning { .. })) {
                    self.end_item("completed", events);
                    let id = new_id("rs");
                    self.begin_item(OpenItem::Reasoning { id, text: String::new() }, events);
                }
                self.grow(text, events);
            }
            ReplyPiece::Content(text) => {
                if !matches!(self.open, Some(OpenItem::Message { .. })) {
                    self.end_item("completed", events);
                    let id = new_id("msg");
                    self.begin_item(OpenItem::Message { id, text: String::new() }, events);
                }
                self.grow(text, events);
            }
            ReplyPiece::Call { name, custom, checked } => {
                self.end_item("completed", events);
                self.object.unchecked |= !checked;
                let call = AnswerCall {
                    id: new_id("call"),
                    name: name.clone(),
                    custom: *custom,
                    checked: *checked,
                    arguments: String::new(),
                };
                self.begin_item(OpenItem::Call { id: new_id("fc"), call }, events);
            }
            ReplyPiece::Arguments(text) => self.grow(text, events),
        }
    }

    fn done(&mut self, _: usize, output: &Output, events: &mut Events) {
        if self.open.is_none() && self.items.is_empty() {
            let id = new_id("msg");
            self.begin_item(OpenItem::Message { id, text: String::new() }, events);
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
