//! What the metadata of a GGUF file say about chats.

use crate::vocab::TokenId;

/// Chat templates from the metadata of a GGUF file.
#[derive(Debug, Clone, Default)]
pub(crate) struct ChatSources {
    /// Names and texts; `default` is the usual one.
    pub templates: Vec<(String, String)>,
    /// Special tokens that templates can name.
    pub tokens: Vec<(&'static str, TokenId)>,
}
