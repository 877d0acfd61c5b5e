//! Encodes a text as the tokenizer encodes it after another text.
//!
//! Tokenizers treat the beginning of a text differently: some prepend a space, some continue a
//! word. So an encoding counts only if its tokens decode to the text byte for byte. The text is
//! encoded alone, or after a context whose tokens can be cut off.
//!
//! # Cost
//! One encoding of the text, and another for each context that is needed.

use crate::error::Result;
use crate::vocab::{TokenId, Vocabulary};

/// Contexts after which a label may follow: in all tokenizers seen, each is one token or ends with
/// one.
const CONTEXTS: [&str; 3] = [":", "\n", "a\""];

/// Returns the tokens of `text`, encoded alone or after a context; `None` if no encoding decodes to
/// the text.
pub(super) fn encode_alone(vocab: &Vocabulary, text: &str) -> Result<Option<Vec<TokenId>>> {
    let tokens = vocab.encode(text)?;
    if spells(vocab, &tokens, text) {
        return Ok(Some(tokens));
    }
    for context in CONTEXTS {
        if let Some((_, tokens)) = encode_after(vocab, context, text)? {
            return Ok(Some(tokens));
        }
    }
    Ok(None)
}

/// Returns the tokens of `context` and those of `text` after it, if the tokenizer has a boundary
/// between them.
pub(super) fn encode_after(
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

/// Returns true if these tokens are text tokens and decode to `text`.
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
