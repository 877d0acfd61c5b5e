//! The style in which a model calls tools: what its chat template writes for a call.
//!
//! The template renders a conversation with a call, and the style is the one whose reader finds the
//! call in it. Some templates write no calls of earlier turns. Then the special tokens of the model
//! decide.
//!
//! # Cost
//! At most two renderings of a short chat.
//!
//! # Alternatives considered
//! Words in the source of the template were rejected: many templates mention several forms.

use serde_json::{Value, json};

use super::{ChatOptions, ChatTemplate, Message};
use crate::constraint::tools::{ToolStyle, Tools};
use crate::vocab::Vocabulary;

/// A text that no template writes by itself.
const QUESTION: &str = "What is f of b?";
/// Special tokens that only models of a style have.
const TOKENS: [(&str, ToolStyle); 8] = [
    ("<|tool_calls_section_begin|>", ToolStyle::Kimi),
    ("<｜tool▁calls▁begin｜>", ToolStyle::DeepSeek),
    ("<|tool_call_start|>", ToolStyle::Lfm2),
    ("<minimax:tool_call>", ToolStyle::MiniMax),
    ("<arg_key>", ToolStyle::Glm),
    ("[ARGS]", ToolStyle::MistralArgs),
    ("[TOOL_CALLS]", ToolStyle::Mistral),
    ("<|python_tag|>", ToolStyle::Llama),
];

impl ChatTemplate {
    /// Returns the style of the calls that the template writes; `None` if it writes none, or in a
    /// form that is not known here. The format of gpt-oss is none of these: it takes all of a reply.
    pub fn tool_style(&self) -> Option<ToolStyle> {
        let list = json!([{"type": "function", "function": {"name": "f", "description": "A function.",
            "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}}}]);
        let tools = Tools::parse(&list.to_string()).ok()?;
        // Some templates take the arguments as an object, some as its text.
        [json!({"a": "b"}), json!(r#"{"a": "b"}"#)].into_iter().find_map(|arguments| {
            let call = json!({"id": "callabcde", "type": "function",
                "function": {"name": "f", "arguments": arguments}});
            let reply = json!({"role": "assistant", "content": "", "tool_calls": [call]});
            let options =
                ChatOptions { add_generation_prompt: false, ..ChatOptions::with_tools(tools.for_prompt()) };
            let text =
                self.render(&[Message::user(QUESTION), Message::from_json(reply).ok()?], &options).ok()?;
            let (_, written) = text.rsplit_once(QUESTION)?;
            let writes = |style: &ToolStyle| {
                let Some(at) = written.find(style.trigger()) else { return false };
                let read = tools.read_beginning(*style, &written[at..]);
                let fits = |call: &str| call.parse::<Value>().is_ok_and(|read| read == json!({"a": "b"}));
                matches!(&read.calls[..], [call] if fits(&call.arguments))
            };
            // Bare JSON is also a part of other styles.
            let bare = |style: &ToolStyle| *style == ToolStyle::Llama;
            let (last, first): (Vec<_>, Vec<_>) = ToolStyle::ALL.into_iter().partition(bare);
            first.into_iter().chain(last).filter(|style| *style != ToolStyle::Harmony).find(writes)
        })
    }
}

/// Returns the style of a chat template, or that which the special tokens suggest;
/// [`ToolStyle::Hermes`] without either.
pub(crate) fn tool_style(template: Option<&ChatTemplate>, vocab: &Vocabulary) -> ToolStyle {
    let suggested = || TOKENS.into_iter().find(|(token, _)| vocab.token_id(token).is_some());
    let written = template.and_then(ChatTemplate::tool_style);
    written.or_else(|| suggested().map(|(_, style)| style)).unwrap_or(ToolStyle::Hermes)
}
