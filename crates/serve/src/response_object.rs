//! The object of an answer of `/v1/responses`, and its items.

use std::sync::Arc;

use serde_json::{Value, json};

use super::answer::{
    AnswerCall, AnswerParts, TokenCounts, finish_reason, new_id, reasoning_tokens, statistics, unix_seconds,
};
use super::model::LoadedModel;
use super::prepare::ReadyRequest;
use super::reply::ReplyFormat;
use ffwd_runtime::decode::Output;

/// What all forms of one answer share.
pub(super) struct ResponseObject {
    id: String,
    created: u64,
    model: Arc<LoadedModel>,
    prepared: ReadyRequest,
    repeated: Value,
}

impl ResponseObject {
    pub(crate) fn new(model: Arc<LoadedModel>, prepared: ReadyRequest, repeated: Value) -> Self {
        ResponseObject { id: new_id("resp"), created: unix_seconds(), model, prepared, repeated }
    }

    /// Returns the object with this status and these items.
    pub(crate) fn with(&self, status: &str, items: &[Value]) -> Value {
        let mut object = json!({
            "id": self.id,
            "object": "response",
            "created_at": self.created,
            "status": status,
            "error": null,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "model": self.model.name,
            "output": items,
            "parallel_tool_calls": true,
            "previous_response_id": null,
            "store": false,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "usage": null,
            "metadata": {},
        });
        if let Value::Object(repeated) = &self.repeated {
            for (name, value) in repeated {
                object[name] = value.clone();
            }
        }
        object
    }

    /// Returns the items of a whole answer.
    pub(crate) fn items(&self, format: &ReplyFormat, output: &Output) -> Vec<Value> {
        let parts = AnswerParts::of(format, output);
        let mut items = Vec::new();
        if !parts.reasoning.is_empty() {
            items.push(reasoning_item(&new_id("rs"), &parts.reasoning));
        }
        if !parts.content.is_empty() || parts.calls.is_empty() {
            items.push(message_item(&new_id("msg"), &parts.content, status_of(output)));
        }
        items.extend(parts.calls.iter().map(|call| call_item(&new_id("fc"), call, "completed")));
        items
    }

    /// Returns the object at the end.
    pub(crate) fn finished(&self, items: &[Value], output: &Output) -> Value {
        let mut object = self.with(status_of(output), items);
        if status_of(output) == "incomplete" {
            object["incomplete_details"] = json!({"reason": "max_output_tokens"});
        }
        let thought = items.iter().filter(|item| item["type"] == "reasoning");
        let thought = thought.filter_map(|item| item["content"][0]["text"].as_str());
        let vocab = self.model.engine.vocabulary();
        let counts = TokenCounts::of(&[output], thought.map(|text| reasoning_tokens(vocab, text)).sum());
        object["usage"] = json!({
            "input_tokens": counts.prompt,
            "input_tokens_details": {"cached_tokens": counts.cached},
            "output_tokens": counts.output,
            "output_tokens_details": {"reasoning_tokens": counts.reasoning},
            "total_tokens": counts.prompt + counts.output,
        });
        let ReadyRequest { warnings, compile_seconds, seed, .. } = &self.prepared;
        object["ffwd"] = statistics(&[output], warnings, *compile_seconds, *seed);
        object
    }
}

/// Returns the status of a whole answer.
pub(super) fn status_of(output: &Output) -> &'static str {
    if finish_reason(output, false) == "length" { "incomplete" } else { "completed" }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

pub(super) fn message_item(id: &str, text: &str, status: &str) -> Value {
    json!({"id": id, "type": "message", "role": "assistant", "status": status, "content": [text_part(text)]})
}

pub(super) fn reasoning_item(id: &str, text: &str) -> Value {
    json!({"id": id, "type": "reasoning", "summary": [],
        "content": [{"type": "reasoning_text", "text": text}]})
}

pub(super) fn call_item(id: &str, call: &AnswerCall, status: &str) -> Value {
    let mut item = json!({"id": id, "type": "function_call", "status": status, "call_id": call.id,
        "name": call.name, "arguments": call.arguments});
    if call.custom {
        item = json!({"id": id, "type": "custom_tool_call", "status": status, "call_id": call.id,
            "name": call.name, "input": call.arguments});
    }
    item
}
