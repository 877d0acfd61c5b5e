//! Tokens as JSON for the page.

use serde_json::{Value, json};

use ffwd_runtime::vocab::{TokenId, Vocabulary};

/// Returns the text of a token: that of its bytes, or the name of a special token.
pub(super) fn token_text(vocab: &Vocabulary, id: TokenId) -> String {
    match vocab.token_bytes(id) {
        [] => vocab.token_text(id).unwrap_or_default(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Returns a token with its text.
pub(super) fn token_json(vocab: &Vocabulary, id: TokenId) -> Value {
    json!({"id": id, "text": token_text(vocab, id)})
}

/// Returns tokens with their texts.
pub(super) fn tokens_json(vocab: &Vocabulary, ids: &[TokenId]) -> Vec<Value> {
    ids.iter().map(|&id| token_json(vocab, id)).collect()
}
