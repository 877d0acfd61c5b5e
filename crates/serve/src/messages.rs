//! Messages of a chat: from the JSON of a client to the messages of a chat template.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::api_error::{ApiError, ApiResult};
use super::body_text::without_lone_escapes;
use super::fields::Fields;
use super::request::ChatInput;
use ffwd_runtime::Message;
use ffwd_runtime::decode::JsonStream;
use ffwd_runtime::extract::PartialRecord;

/// Types of content parts with text. A part may also have none, or be the text itself.
const TEXT_PARTS: [&str; 6] = ["", "text", "input_text", "output_text", "refusal", "summary_text"];
/// Types of content parts with earlier thinking, which the model does not see.
const THOUGHTS: [&str; 4] = ["thinking", "redacted_thinking", "reasoning", "reasoning_text"];

/// Reads `messages`.
pub(super) fn read_messages(fields: &mut Fields) -> ApiResult<ChatInput> {
    let Some(list) = fields.list("messages")? else { return Err(ApiError::missing("messages")) };
    let mut chat = ChatInput::default();
    for (value, path) in list {
        let message: Value = serde_json::from_str(value.get())
            .map_err(|error| ApiError::field(path.clone(), format!("`{path}`: {error}")))?;
        add_message(&mut chat, message, &path)?;
    }
    if chat.messages.is_empty() {
        return Err(ApiError::field("messages", "`messages` is empty"));
    }
    Ok(chat)
}

/// Adds a message of a client.
pub(super) fn add_message(chat: &mut ChatInput, message: Value, path: &str) -> ApiResult<()> {
    let Value::Object(mut message) = message else {
        return Err(ApiError::field(path, format!("`{path}` must be an object")));
    };
    if let Some(content) = message.get_mut("content").filter(|content| content.is_array()) {
        let text = parts_text(content, &format!("{path}.content"))?;
        *content = Value::String(text);
    }
    match message.get("content") {
        None | Some(Value::Null) => {
            message.insert("content".into(), Value::String(String::new()));
        }
        Some(Value::String(_)) => {}
        Some(_) => {
            let param = format!("{path}.content");
            let text = format!("`{param}` must be a string or a list of parts");
            return Err(ApiError::field(param, text));
        }
    }
    // The form before there were lists of calls.
    if let Some(call) = message.remove("function_call").filter(|call| !call.is_null()) {
        message.insert("tool_calls".into(), json!([{"type": "function", "function": call}]));
    }
    // Templates know no developer.
    let role = message.get("role").and_then(Value::as_str);
    let other = match role {
        Some("developer") => Some("system"),
        Some("function") => Some("tool"),
        _ => None,
    };
    if let Some(other) = other {
        message.insert("role".into(), other.into());
    }
    read_arguments(&mut chat.warnings, &mut message, path);
    add(chat, message, path)
}

/// Adds a message whose content is a text.
pub(super) fn add_text(chat: &mut ChatInput, role: &str, content: String, path: &str) -> ApiResult<()> {
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    message.insert("content".into(), content.into());
    add(chat, message, path)
}

fn add(chat: &mut ChatInput, message: Map<String, Value>, path: &str) -> ApiResult<()> {
    let content = message.get("content").and_then(Value::as_str).unwrap_or_default();
    let role = message.get("role").and_then(Value::as_str);
    let is_user = role == Some("user");
    chat.last_answer = (role == Some("assistant")).then(|| content.to_owned());
    for text in [&mut chat.words].into_iter().chain(is_user.then_some(&mut chat.user_text)) {
        if !text.is_empty() && !content.is_empty() {
            text.push('\n');
        }
        text.push_str(content);
    }
    let message = Message::from_json(Value::Object(message));
    chat.messages.push(message.map_err(|error| ApiError::of(&error, path))?);
    Ok(())
}

/// Parses the arguments of calls: clients send them as texts, templates expect objects. Of arguments
/// that were cut, the values before the cut are kept.
fn read_arguments(warnings: &mut Vec<String>, message: &mut Map<String, Value>, path: &str) {
    let Some(Value::Array(calls)) = message.get_mut("tool_calls") else { return };
    for (i, call) in calls.iter_mut().enumerate() {
        let Some(Value::Object(function)) = call.get_mut("function") else { continue };
        let arguments = function.entry("arguments").or_insert(Value::Null);
        if let Value::String(text) = arguments {
            let text = without_lone_escapes(std::mem::take(text));
            *arguments = serde_json::from_str(&text).unwrap_or_else(|error| {
                if !text.trim().is_empty() {
                    let param = format!("{path}.tool_calls[{i}].function.arguments");
                    warnings.push(format!("`{param}` is not JSON; what can be read is kept: {error}"));
                }
                let mut partial = PartialRecord::default();
                JsonStream::new().feed(text.as_bytes()).iter().for_each(|field| partial.update(field));
                Some(partial.value().clone()).filter(Value::is_object).unwrap_or_default()
            });
        }
        if arguments.is_null() {
            *arguments = json!({});
        }
    }
}

/// Returns the text of a content: a string, or parts.
pub(super) fn content_text(value: &RawValue, path: &str) -> ApiResult<String> {
    let value: Value = serde_json::from_str(value.get())
        .map_err(|error| ApiError::field(path, format!("`{path}`: {error}")))?;
    match value {
        Value::String(text) => Ok(text),
        value => parts_text(&value, path),
    }
}

/// Returns the texts of parts.
pub(super) fn parts_text(parts: &Value, path: &str) -> ApiResult<String> {
    let Value::Array(parts) = parts else {
        let text = format!("`{path}` must be a string or a list of parts");
        return Err(ApiError::field(path, text));
    };
    let mut text = String::new();
    for (i, part) in parts.iter().enumerate() {
        if let Value::String(part) = part {
            text.push_str(part);
            continue;
        }
        let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
        if THOUGHTS.contains(&kind) {
            continue;
        }
        let param = format!("{path}[{i}].type");
        if !TEXT_PARTS.contains(&kind) {
            return Err(ApiError::unsupported(param, &format!("{kind:?} is no text")));
        }
        let content = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
        let Some(content) = content else {
            let param = format!("{path}[{i}].text");
            return Err(ApiError::missing(&param));
        };
        text.push_str(content);
    }
    Ok(text)
}
