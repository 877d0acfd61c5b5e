//! The question that asks for one of some labels, as the embedded models were trained on it.

use crate::chat::{ChatOptions, Message};
use crate::decode::{Engine, Prompt};
use crate::error::Result;

/// The system message.
const SYSTEM: &str = "You are a text classifier. Answer with the label only.";
/// The message of the user, with places for the labels and the text.
pub const LABEL_QUESTION: &str = "Classify the text into one of these labels: {labels}.\n\nText: {text}";

/// Returns the prompt with this message of the user. In a chat the answer begins without a space.
pub fn label_prompt(engine: &Engine, user: &str) -> Result<Prompt> {
    if !engine.has_chat() {
        return Ok(Prompt::text(format!("{SYSTEM}\n\n{user}\n\nLabel:")));
    }
    let both = [Message::system(SYSTEM), Message::user(user)];
    let options = ChatOptions::default().without_thinking(engine.vocabulary());
    // Some templates have no place for a system message.
    engine
        .chat_prompt(&both, &options)
        .or_else(|_| engine.chat_prompt(&[Message::user(format!("{SYSTEM}\n\n{user}"))], &options))
}
