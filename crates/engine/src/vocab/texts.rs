//! Collects the bytes of the tokens of a tokenizer.
//!
//! # Cost
//!
//! One lookup and one copy for each token.
//!
//! # Alternatives considered
//!
//! The tokenizer's own list of texts and ids was rejected where ids have no gaps: it is a copy of
//! the whole hash table.

use tokenizers::{Model, Tokenizer};

use super::token_table::TokenTableBuilder;
use super::{MAX_TOKENS, TokenId, TokenSpelling};
use crate::error::{Error, ErrorKind, Result};

/// Returns the bytes of all tokens that are text.
///
/// # Errors
/// Fails if there are no tokens or too many.
pub(super) fn token_table(tokenizer: &Tokenizer, spelling: TokenSpelling) -> Result<TokenTableBuilder> {
    let (model, added) = (tokenizer.get_model(), tokenizer.get_added_tokens_decoder());
    let of_model = model.get_vocab_size();
    let with_added = added.keys().max().map_or(0, |&id| id as usize + 1);
    let collect = |len: usize, texts: &mut dyn FnMut(TokenId, &mut Vec<u8>) -> bool| {
        if len == 0 || len > MAX_TOKENS {
            let message = format!("the vocabulary has {len} tokens, expected 1 to {MAX_TOKENS}");
            return Err(Error::new(ErrorKind::Tokenizer, message));
        }
        let mut table = TokenTableBuilder::new(len);
        for id in 0..len as TokenId {
            table.push(|bytes| {
                let is_text = texts(id, bytes);
                let Some(token) = added.get(&id) else { return is_text };
                bytes.extend_from_slice(token.content.as_bytes());
                !token.special
            });
        }
        Ok(table)
    };
    // Usually the ids of a model are the numbers from 0 on.
    let mut found = 0;
    if of_model <= MAX_TOKENS {
        let table = collect(with_added.max(of_model), &mut |id, bytes| {
            let Some(text) = model.id_to_token(id) else { return false };
            found += usize::from((id as usize) < of_model);
            !added.contains_key(&id) && spelling.append(&text, bytes)
        })?;
        if found == of_model {
            return Ok(table);
        }
    }
    let mut texts: Vec<(TokenId, String)> =
        tokenizer.get_vocab(true).into_iter().map(|(text, id)| (id, text)).collect();
    texts.sort_unstable();
    let len = texts.last().map_or(0, |last| last.0 as usize + 1);
    collect(len, &mut |id, bytes| {
        // Of several texts with the same id the last one counts.
        let at = texts.partition_point(|text| text.0 <= id);
        let text = texts[..at].last().filter(|text| text.0 == id);
        text.is_some_and(|text| !added.contains_key(&id) && spelling.append(&text.1, bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocab::Vocabulary;

    /// A tokenizer of these tokens with their ids, `<x>` among them as an added token.
    fn vocabulary(tokens: &[(&str, u32)], special: bool) -> Result<Vocabulary> {
        let vocab: serde_json::Map<String, serde_json::Value> =
            tokens.iter().map(|(text, id)| (text.to_string(), (*id).into())).collect();
        let id = vocab["<x>"].clone();
        let added = serde_json::json!([{ "id": id, "content": "<x>", "special": special, "single_word": false,
            "lstrip": false, "rstrip": false, "normalized": false }]);
        let file = serde_json::json!({ "version": "1.0", "added_tokens": added, "normalizer": null,
            "pre_tokenizer": null, "post_processor": null, "decoder": null,
            "model": { "type": "BPE", "vocab": vocab, "merges": [] } });
        Vocabulary::from_bytes(file.to_string().as_bytes())
    }

    #[test]
    fn ids_may_have_gaps() {
        let letters = [("<", 3), ("x", 4), (">", 5)];
        for (a, x) in [(0, 1), (9, 1), (0, 9), (7, 2_000)] {
            for special in [false, true] {
                let tokens: Vec<(&str, u32)> = letters.into_iter().chain([("a", a), ("<x>", x)]).collect();
                let vocab = vocabulary(&tokens, special).unwrap();
                assert_eq!(vocab.len(), a.max(x).max(5) as usize + 1);
                for id in 0..vocab.len() as u32 {
                    let text = tokens.iter().find(|t| t.1 == id).map_or("", |t| t.0);
                    let text = if special && id == x { "" } else { text };
                    assert_eq!(vocab.token_bytes(id), text.as_bytes(), "{id} of {tokens:?}");
                    assert_eq!(vocab.is_special(id), special && id == x);
                }
            }
        }
        let far = [("a", 0), ("<x>", MAX_TOKENS as u32)];
        assert_eq!(vocabulary(&far, false).unwrap_err().kind(), ErrorKind::Tokenizer);
    }
}
