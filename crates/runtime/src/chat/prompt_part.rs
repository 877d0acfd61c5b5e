//! Parts of a prompt: trusted text of a template, text from outside, and tokens.

use crate::vocab::TokenId;

/// A part of a prompt. Only in the parts of a template are special tokens recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PromptPart {
    /// Text of a template: special tokens in it are special.
    Template(String),
    /// Text from outside: special tokens in it are plain text.
    Text(String),
    /// Tokens, and their text.
    Tokens(Vec<TokenId>, String),
}

impl PromptPart {
    /// Returns the text of any kind.
    pub fn as_str(&self) -> &str {
        match self {
            PromptPart::Template(text) | PromptPart::Text(text) | PromptPart::Tokens(_, text) => text,
        }
    }

    /// Returns true for a part of a template.
    pub fn is_template(&self) -> bool {
        matches!(self, PromptPart::Template(_))
    }

    /// Appends a part. Joins it with the last part if both are of the same kind: neighbours are
    /// encoded as one text.
    pub(super) fn push(parts: &mut Vec<PromptPart>, part: PromptPart) {
        match (parts.last_mut(), part) {
            (Some(PromptPart::Template(last)), PromptPart::Template(text))
            | (Some(PromptPart::Text(last)), PromptPart::Text(text)) => last.push_str(&text),
            (_, part) => parts.push(part),
        }
    }
}
