//! Vocabularies of byte-level BPE without a list of merges: of two neighbours, those whose joined
//! bytes are the token with the lowest id are joined first. Tokenizers of tiktoken are of this kind.
//!
//! # Cost
//!
//! Every division of a token into two tokens becomes a merge: the sum of the squared lengths.
//!
//! # Alternatives considered
//!
//! Only the division by which the tokenizer arrives at a token was rejected: in another text it may
//! arrive there by another one.

use rustc_hash::FxHashSet;
use serde_json::json;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::{AddedToken, PreTokenizerWrapper, Tokenizer};

use super::sentencepiece::{ListNames, Piece, merges};
use super::token_bytes::byte_level_text;
use super::token_table::TokenTableBuilder;
use super::{MAX_TOKENS, TokenId, TokenSpelling, Vocabulary};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of special tokens.
const MAX_SPECIAL: usize = 1 << 16;
/// Maximum number of bytes of all tokens.
const MAX_BYTES: usize = 1 << 28;

impl Vocabulary {
    /// Builds a vocabulary from the bytes of each token, in the order of ids and of ranks.
    ///
    /// `special` are the ids that are never text, with their names; their bytes in `tokens` do not
    /// count. `pattern` is the regular expression whose matches are cut into tokens one by one.
    /// Where the ranks cannot be represented, [`Vocabulary::has_tokenizer`] is false: texts are
    /// then encoded in the longest tokens.
    ///
    /// # Errors
    /// Fails if there are no tokens or too many, if an id is out of range, or if the pattern is not
    /// a regular expression.
    pub fn from_ranked_tokens<T: AsRef<[u8]>>(
        tokens: &[T],
        special: &[(TokenId, String)],
        pattern: &str,
        eos: Vec<TokenId>,
    ) -> Result<Self> {
        if tokens.len() > MAX_TOKENS || special.len() > MAX_SPECIAL {
            return Err(fault("there are too many tokens"));
        }
        if tokens.iter().map(|token| token.as_ref().len()).sum::<usize>() > MAX_BYTES {
            return Err(fault("the tokens have too many bytes"));
        }
        let mut ids: Vec<TokenId> = special.iter().map(|(id, _)| *id).chain(eos.iter().copied()).collect();
        ids.sort_unstable();
        ids.dedup();
        if let Some(id) = ids.last().filter(|id| **id as usize >= tokens.len()) {
            return Err(fault(&format!("token {id} is not one of the {} tokens", tokens.len())));
        }
        match tokenizer(tokens, special, &ids, pattern) {
            Ok(tokenizer) => {
                let mut table = TokenTableBuilder::new(tokens.len());
                for (id, token) in (0..).zip(tokens) {
                    table.push(|bytes| {
                        bytes.extend_from_slice(token.as_ref());
                        ids.binary_search(&id).is_err()
                    });
                }
                Ok(Self::from_parts(tokenizer, TokenSpelling::ByteLevel, table, &ids, eos))
            }
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::TooComplex) => {
                Self::from_token_bytes(tokens, &ids, eos)
            }
            Err(error) => Err(error),
        }
    }
}

fn tokenizer<T: AsRef<[u8]>>(
    tokens: &[T],
    special: &[(TokenId, String)],
    never_text: &[TokenId],
    pattern: &str,
) -> Result<Tokenizer> {
    let mut vocab = Vocab::with_capacity(tokens.len());
    let mut texts = Vec::with_capacity(tokens.len());
    let mut known = FxHashSet::default();
    for (id, token) in (0..).zip(tokens) {
        let text = byte_level_text(token.as_ref());
        if never_text.binary_search(&id).is_err() && !text.is_empty() && known.insert(text.clone()) {
            vocab.insert(text.clone(), id);
            texts.push((text, id));
        }
    }
    if let Some(byte) = (0..=255u8).find(|byte| !known.contains(&byte_level_text(&[*byte]))) {
        return Err(Error::new(ErrorKind::Unsupported, format!("there is no token for the byte {byte}")));
    }
    let pieces: Vec<Piece> = texts.iter().map(|(text, id)| Piece { text, score: -f64::from(*id) }).collect();
    let merges = merges(&pieces, ListNames { pieces: "tokens", scores: "ranks" })?;
    let mut added = Vec::new();
    for (id, name) in special {
        // A name that is also the text of a token has no id of its own in a tokenizer.
        if !name.is_empty() && !vocab.contains_key(name) {
            vocab.insert(name.clone(), *id);
            added.push(AddedToken::from(name.as_str(), true).normalized(false));
        }
    }
    // As tiktoken does, a match that is a token stays one, whatever the merges.
    let bpe = BPE::builder().vocab_and_merges(vocab, merges).ignore_merges(true).build();
    let mut tokenizer = Tokenizer::new(bpe.map_err(inconsistent)?);
    let split = json!({ "type": "Split", "pattern": { "Regex": pattern }, "behavior": "Isolated",
        "invert": false });
    let bytes = json!({ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
        "use_regex": false });
    let cut: PreTokenizerWrapper =
        serde_json::from_value(json!({ "type": "Sequence", "pretokenizers": [split, bytes] }))
            .map_err(inconsistent)?;
    tokenizer.with_pre_tokenizer(Some(cut));
    tokenizer.add_special_tokens(added).map_err(inconsistent)?;
    Ok(tokenizer)
}

fn fault(message: &str) -> Error {
    Error::new(ErrorKind::Tokenizer, message)
}

fn inconsistent(error: impl std::fmt::Display) -> Error {
    fault(&format!("the tokenizer is inconsistent: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    /// Joins neighbours by the lowest rank, the leftmost of equal ones, as tiktoken does.
    fn joined(tokens: &[Vec<u8>], word: &[u8]) -> Vec<TokenId> {
        let rank = |bytes: &[u8]| tokens.iter().position(|token| token == bytes);
        if let Some(whole) = rank(word) {
            return vec![whole as TokenId];
        }
        let mut parts: Vec<Vec<u8>> = word.iter().map(|byte| vec![*byte]).collect();
        while let Some((_, at)) = (1..parts.len())
            .filter_map(|at| Some((rank(&[&parts[at - 1][..], &parts[at]].concat())?, at)))
            .min()
        {
            let right = parts.remove(at);
            parts[at - 1].extend(right);
        }
        parts.iter().filter_map(|part| rank(part).map(|id| id as TokenId)).collect()
    }

    #[test]
    fn tokens_are_joined_by_their_ranks() {
        let mut random = Random::new(3);
        for _ in 0..20 {
            let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
            for _ in 0..40 {
                // Each token is two others, as training makes them.
                let of = |i: usize, tokens: &[Vec<u8>]| {
                    if i < 3 { vec![b"abc"[i]] } else { tokens[tokens.len() - 1 - (i - 3) % 30].clone() }
                };
                let (left, right) = (of(random.below(12), &tokens), of(random.below(12), &tokens));
                let token = [left, right].concat();
                let letters = token.iter().all(u8::is_ascii_lowercase);
                if letters && token.len() < 9 && !tokens.contains(&token) {
                    tokens.push(token);
                }
            }
            let eos = tokens.len() as TokenId;
            tokens.push(Vec::new());
            let special = [(eos, "<end>".to_owned())];
            let vocab = Vocabulary::from_ranked_tokens(&tokens, &special, r"\s+|\S+", vec![eos]).unwrap();
            assert!(vocab.has_tokenizer() && vocab.is_special(eos));
            for _ in 0..50 {
                let word: Vec<u8> = (0..1 + random.below(14)).map(|_| *random.pick(b"abc")).collect();
                let text = String::from_utf8(word.clone()).unwrap();
                assert_eq!(vocab.encode(&text).unwrap(), joined(&tokens, &word), "{text}");
            }
        }
    }

    #[test]
    fn names_of_special_tokens_are_text_unless_they_are_recognised() {
        let mut tokens: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
        tokens.insert(0, Vec::new());
        let special = [(0, "<end>".to_owned())];
        let vocab = Vocabulary::from_ranked_tokens(&tokens, &special, r"\S+", vec![0]).unwrap();
        assert_eq!((vocab.token_id("<end>"), vocab.eos()), (Some(0), &[0][..]));
        assert_eq!(vocab.encode("<end>").unwrap(), b"<end>".map(|byte| TokenId::from(byte) + 1));
        assert_eq!(vocab.encode_template("<end>").unwrap(), [0]);
        for (tokens, special, pattern) in [(0, 0, r"\S"), (5, 5, r"\S"), (5, 0, "(")] {
            let tokens: Vec<Vec<u8>> = tokens_of(tokens);
            let special = [(special, "x".to_owned())];
            let made = Vocabulary::from_ranked_tokens(&tokens, &special, pattern, Vec::new());
            // A pattern that is wrong counts only where it is used.
            assert!(made.is_err() || pattern == "(" && !made.unwrap().has_tokenizer());
        }
    }

    fn tokens_of(len: usize) -> Vec<Vec<u8>> {
        (0..len as u8).map(|byte| vec![byte]).collect()
    }
}
