//! Vocabularies of bare token bytes, for models whose tokenizer has no `tokenizer.json`.
//!
//! The bytes of the tokens are all that masks need. The merges of such a tokenizer are not known,
//! so [`Vocabulary::encode`] takes the longest tokens. Forced runs are better taken as bytes, or with
//! [`Matcher::longest_forced_tokens`](crate::Matcher::longest_forced_tokens).
//!
//! # Cost
//!
//! One copy of the bytes, one table of the tokens that are single bytes.
//!
//! # Alternatives considered
//!
//! An optional tokenizer was rejected: everything that encodes would need another error.

use std::sync::Arc;

use rustc_hash::FxHashSet;
use serde_json::json;

use super::token_bytes::byte_level_text;
use super::token_table::TokenTableBuilder;
use super::{Encoder, MAX_TOKENS, TokenId, TokenSpelling, Vocabulary, read};
use crate::error::{Error, ErrorKind, Result};

/// Largest number of bytes of all tokens.
const MAX_BYTES: usize = 1 << 30;

impl Vocabulary {
    /// Builds a vocabulary from the bytes of each token, in the order of ids. Tokens without bytes
    /// and those of `special` are never text. The end tokens `eos` are special as well. Several
    /// tokens may have the same bytes.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::{Compiler, Constraint, Vocabulary};
    ///
    /// let vocab = Vocabulary::from_token_bytes(&["a", "b", "ab", "</s>"], &[], vec![3])?;
    /// let mut matcher = Compiler::new(vocab).compile(&Constraint::choice(["ab"])?)?.matcher();
    /// assert!(matcher.allows(0) && matcher.allows(2) && !matcher.allows(1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Fails if there are no tokens or too many, if their bytes are too many, and if an id of
    /// `special` or `eos` is out of range.
    pub fn from_token_bytes<T: AsRef<[u8]>>(
        tokens: &[T],
        special: &[TokenId],
        eos: Vec<TokenId>,
    ) -> Result<Self> {
        let fail = |message: String| Error::new(ErrorKind::Tokenizer, message);
        if tokens.is_empty() || tokens.len() > MAX_TOKENS {
            let message = format!("the vocabulary has {} tokens, expected 1 to {MAX_TOKENS}", tokens.len());
            return Err(fail(message));
        }
        if tokens.iter().map(|t| t.as_ref().len()).sum::<usize>() > MAX_BYTES {
            return Err(fail(format!("the tokens have more than {MAX_BYTES} bytes in all")));
        }
        if let Some(id) = special.iter().chain(&eos).find(|id| **id as usize >= tokens.len()) {
            let message = format!("token {id} is not one of the {} tokens", tokens.len());
            return Err(fail(message).hint("special and end tokens are ids of the list"));
        }
        let special: FxHashSet<TokenId> = special.iter().chain(&eos).copied().collect();
        let mut table = TokenTableBuilder::new(tokens.len());
        for (id, token) in (0..).zip(tokens) {
            table.push(|bytes| {
                bytes.extend_from_slice(token.as_ref());
                !special.contains(&id)
            });
        }
        let mut singles = serde_json::Map::new();
        for (id, token) in (0..).zip(tokens).filter(|(id, _)| !special.contains(id)) {
            if let [_] = token.as_ref() {
                singles.entry(byte_level_text(token.as_ref())).or_insert(TokenId::into(id));
            }
        }
        let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
            "use_regex": false });
        let file = json!({ "version": "1.0", "added_tokens": [], "normalizer": null,
            "pre_tokenizer": bytes, "post_processor": null, "decoder": bytes,
            "model": { "type": "BPE", "vocab": singles, "merges": [] } });
        let tokenizer = read(file.to_string().as_bytes()).map_err(fail)?;
        let mut inner = Self::inner_of(tokenizer, TokenSpelling::ByteLevel, table);
        inner.special = special;
        inner.encoder = Encoder::Longest;
        let logits_size = inner.tokens.len();
        Ok(Vocabulary { inner: Arc::new(inner), bos: [].into(), eos: eos.into(), logits_size })
    }

    /// As [`from_token_bytes`](Self::from_token_bytes), with a function that encodes texts as the
    /// model's tokenizer does: without tokens before or after the text, and with no meaning of the
    /// names of special tokens.
    ///
    /// # Errors
    /// As [`from_token_bytes`](Self::from_token_bytes). [`encode`](Self::encode) has the errors of the
    /// function, and fails if it gives an id out of range.
    pub fn from_encoder<T: AsRef<[u8]>>(
        tokens: &[T],
        special: &[TokenId],
        eos: Vec<TokenId>,
        encode: impl Fn(&str) -> Result<Vec<TokenId>> + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut vocab = Self::from_token_bytes(tokens, special, eos)?;
        if let Some(inner) = Arc::get_mut(&mut vocab.inner) {
            inner.encoder = Encoder::Function(Box::new(encode));
        }
        Ok(vocab)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Compiler, Constraint};

    /// The tokens of a real vocabulary, through their bytes alone, have the same masks.
    #[test]
    fn masks_equal_those_of_the_tokenizer() -> Result<()> {
        let file = include_bytes!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../runtime/assets/extract-5m/tokenizer.json"
        ));
        let whole = Vocabulary::from_bytes(file)?;
        let ids = 0..whole.len() as TokenId;
        let tokens: Vec<&[u8]> = ids.clone().map(|id| whole.token_bytes(id)).collect();
        let special: Vec<TokenId> = ids.filter(|&id| whole.is_special(id)).collect();
        let bare = Vocabulary::from_token_bytes(&tokens, &special, whole.eos().to_vec())?;
        assert_eq!(bare.decode(&bare.encode("a date, é")?), "a date, é".as_bytes());
        let schema = r#"{"properties": {"a": {"type": "string", "maxLength": 9}, "b": {"type": "number"}}}"#;
        let constraint = Constraint::json_schema(schema)?;
        let mut one = Compiler::new(whole.clone()).compile(&constraint)?.matcher();
        let mut other = Compiler::new(bare).compile(&constraint)?.matcher();
        let (mut left, mut right) = (vec![0; whole.bitmask_words()], vec![0; whole.bitmask_words()]);
        for token in whole.encode(r#"{"a":"some","b":12.5}"#)? {
            one.fill_bitmask(&mut left);
            other.fill_bitmask(&mut right);
            assert!(left == right && left.iter().any(|&word| word != 0));
            one.accept_token(token)?;
            other.accept_token(token)?;
        }
        assert!(one.is_accepting() && other.is_accepting());
        Ok(())
    }

    #[test]
    fn refuses_ids_out_of_range_and_nothing() {
        let none: [&str; 0] = [];
        assert!(Vocabulary::from_token_bytes(&none, &[], vec![]).is_err());
        assert!(Vocabulary::from_token_bytes(&["a"], &[], vec![1]).is_err());
        assert!(Vocabulary::from_token_bytes(&["a"], &[7], vec![]).is_err());
        assert!(Vocabulary::from_token_bytes(&["a", "a", ""], &[], vec![2]).is_ok());
    }
}
