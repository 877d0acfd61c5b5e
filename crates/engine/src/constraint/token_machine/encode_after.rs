//! The tokenizer's own spelling of a text that follows another one.
//!
//! Tokenizers spell the beginning of a text in their own ways: some put a space in front of it, some see a
//! word where it only goes on. So a spelling counts only if its tokens give back the text byte for byte, as
//! it stands or behind a piece of context whose tokens can be cut off. Cost: an encoding of the text, and
//! another one for each context that is needed.

use crate::error::Result;
use crate::vocab::{TokenId, Vocabulary};

/// Texts behind which a label may stand: each is one token, or ends with one, in all tokenizers seen.
const CONTEXTS: [&str; 3] = [":", "\n", "a\""];

/// The tokens of `text` as the tokenizer writes it, standing alone or behind some other text; none if no
/// encoding gives it back.
pub(super) fn alone(vocab: &Vocabulary, text: &str) -> Result<Option<Vec<TokenId>>> {
    let tokens = vocab.encode(text)?;
    if spells(vocab, &tokens, text) {
        return Ok(Some(tokens));
    }
    for context in CONTEXTS {
        if let Some((_, tokens)) = behind(vocab, context, text)? {
            return Ok(Some(tokens));
        }
    }
    Ok(None)
}

/// The tokens of `context` and those of `text` behind it, if the tokenizer has a boundary between them.
pub(super) fn behind(
    vocab: &Vocabulary,
    context: &str,
    text: &str,
) -> Result<Option<(Vec<TokenId>, Vec<TokenId>)>> {
    let mut tokens = vocab.encode(&[context, text].concat())?;
    let (mut bytes, mut at) = (0, tokens.len());
    while bytes < text.len() && at > 0 {
        at -= 1;
        bytes += vocab.token_bytes(tokens[at]).len();
    }
    let rest = tokens.split_off(at);
    Ok(spells(vocab, &rest, text).then_some((tokens, rest)))
}

/// Whether these tokens are text tokens and spell `text`.
pub(super) fn spells(vocab: &Vocabulary, tokens: &[TokenId], text: &str) -> bool {
    let mut rest = text.as_bytes();
    for &token in tokens {
        let bytes = vocab.token_bytes(token);
        match rest.strip_prefix(bytes) {
            Some(more) if !bytes.is_empty() => rest = more,
            _ => return false,
        }
    }
    rest.is_empty()
}
