//! Orders of messages for templates that do not take the one that was sent.
//!
//! Many templates want one system message at the beginning, or none, and turns of the user and the
//! model in alternation. Clients send several system messages, or one in the middle. A template that
//! takes the messages as they are gets them so. For another, system messages are moved and joined, and
//! with them neighbours of one role. All texts reach the model.
//!
//! # Cost
//! A rendering for each order that is tried, only if the first one is refused or leaves out a text.
//!
//! # Alternatives considered
//! To read in the source of a template what it takes was rejected: only a rendering shows it.

use serde_json::Value;

use super::{Message, PromptPart};
use crate::error::{ErrorKind, Result};

/// What separates two texts that are joined.
const BETWEEN: &str = "\n\n";

/// Renders messages in the first order that the template takes.
///
/// # Errors
/// Those of the order that was sent, if no other is taken.
pub(super) fn render_in_order(
    messages: &[Message],
    render: impl Fn(&[Message]) -> Result<Vec<PromptPart>>,
) -> Result<Vec<PromptPart>> {
    let sent = render(messages);
    let taken = match &sent {
        Ok(parts) => shows_system(messages, parts),
        Err(error) => error.kind() != ErrorKind::InvalidOption,
    };
    if taken || !messages.iter().any(Message::is_system) {
        return sent;
    }
    for role in ["system", "user"] {
        let other = arranged(messages, role);
        if let Ok(parts) = render(&other)
            && shows_system(messages, &parts)
        {
            tracing::debug!("the chat template takes the messages in another order, which they get");
            return Ok(parts);
        }
    }
    sent
}

/// Returns true if the texts of all system messages but a first message stand in a prompt.
fn shows_system(messages: &[Message], parts: &[PromptPart]) -> bool {
    let mut texts = messages.iter().skip(1).filter(|m| m.is_system()).flat_map(Message::texts).peekable();
    if texts.peek().is_none() {
        return true;
    }
    let prompt: String = parts.iter().map(PromptPart::as_str).collect();
    texts.all(|text| prompt.contains(text.trim()))
}

/// Returns the messages with the texts of the system in one message of this role, the first. Neighbours of
/// the user are joined, and those of the model without calls.
fn arranged(messages: &[Message], role: &str) -> Vec<Message> {
    let (system, others): (Vec<&Message>, Vec<&Message>) = messages.iter().partition(|m| m.is_system());
    let texts: Vec<&str> = system.into_iter().flat_map(Message::texts).collect();
    let system = (!texts.is_empty()).then(|| Message::new(role, texts.join(BETWEEN)));
    let can_join = |m: &Message| match m.role() {
        "user" => true,
        "assistant" => m.0.get("tool_calls").is_none_or(Value::is_null),
        _ => false,
    };
    let mut all: Vec<Message> = system.into_iter().collect();
    for message in others {
        match all.last_mut().filter(|last| last.role() == message.role()) {
            Some(last) if can_join(last) && can_join(message) => {
                let texts: Vec<&str> = last.texts().into_iter().chain(message.texts()).collect();
                let text = Value::String(texts.join(BETWEEN));
                last.0.insert("content".into(), text);
            }
            _ => all.push(message.clone()),
        }
    }
    all
}
