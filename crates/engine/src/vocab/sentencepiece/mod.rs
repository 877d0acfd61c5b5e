//! Vocabularies of SentencePiece models, `tokenizer.model`.
//!
//! A model of byte-pair encoding or of unigrams becomes a tokenizer that gives the same tokens. Of
//! other models only the bytes of the pieces are taken: masks are exact, and texts are encoded in
//! the longest tokens. Spaces in a row stay as they are when a text is encoded, whatever the model
//! says: the text of an output is not changed.
//!
//! # Cost
//!
//! About the cost of reading a `tokenizer.json` of the same size.
//!
//! # Alternatives considered
//!
//! The library of SentencePiece was rejected: it is in C++, and its pieces and scores are all that
//! is needed.

mod merges;
mod model;

use std::collections::HashSet;

use base64::Engine as _;
use serde_json::json;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::{AddedToken, NormalizerWrapper, Tokenizer};

use super::token_table::TokenTableBuilder;
use super::{TokenId, TokenSpelling, Vocabulary};
use crate::error::{Error, ErrorKind, Result};
pub(crate) use merges::{ListNames, Piece, merges};
use model::{Algorithm, Model, PieceKind};

/// The character that represents a space.
pub(crate) const SPACE: &str = "\u{2581}";

impl Vocabulary {
    /// Builds a vocabulary from the content of a SentencePiece model, `tokenizer.model`.
    /// [`Vocabulary::has_tokenizer`] is false for a model whose tokens cannot be reproduced.
    ///
    /// # Errors
    /// Fails if the bytes are not a model.
    pub fn from_sentencepiece(file: &[u8]) -> Result<Self> {
        let model = model::read(file)?;
        let mut special = Vec::new();
        let mut tokens: Vec<Vec<u8>> = vec![Vec::new(); model.pieces.len()];
        for (id, (text, _, kind)) in (0..).zip(&model.pieces) {
            match kind {
                PieceKind::Unknown | PieceKind::Control => special.push(id),
                PieceKind::Unused => {}
                PieceKind::Normal | PieceKind::UserDefined | PieceKind::Byte => {
                    TokenSpelling::SentencePiece.append(text, &mut tokens[id as usize]);
                }
            }
        }
        let is_piece = |id: &i64| usize::try_from(*id).is_ok_and(|id| id < model.pieces.len());
        let eos: Vec<TokenId> =
            Some(model.eos).filter(is_piece).into_iter().map(|id| id as TokenId).collect();
        let bos: Vec<TokenId> =
            Some(model.bos).filter(is_piece).into_iter().map(|id| id as TokenId).collect();
        let built = match tokenizer(&model) {
            Ok(tokenizer) => {
                let mut table = TokenTableBuilder::new(tokens.len());
                for token in &tokens {
                    table.push(|bytes| {
                        bytes.extend_from_slice(token);
                        true
                    });
                }
                Self::from_parts(tokenizer, TokenSpelling::SentencePiece, table, &special, eos)
            }
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::TooComplex) => {
                Self::from_token_bytes(&tokens, &special, eos)?
            }
            Err(error) => return Err(error),
        };
        Ok(built.with_bos(bos))
    }
}

/// Builds the tokenizer of a model.
///
/// # Errors
/// `Unsupported` if it cannot give the same tokens as the model.
fn tokenizer(model: &Model) -> Result<Tokenizer> {
    let mut tokenizer = match model.algorithm {
        Algorithm::Bpe => Tokenizer::new(byte_pairs(model)?),
        Algorithm::Unigram => {
            let pieces = model.pieces.iter().map(|(text, score, _)| (text.clone(), *score)).collect();
            let unknown = model.pieces.iter().position(|(_, _, kind)| *kind == PieceKind::Unknown);
            Tokenizer::new(Unigram::from(pieces, unknown, model.byte_fallback).map_err(inconsistent)?)
        }
        Algorithm::Other => return Err(unsupported("a model of words or characters")),
    };
    if model.space_at_end {
        return Err(unsupported("a model with spaces at the ends of words"));
    }
    let mut steps = vec![json!({ "type": "Replace", "pattern": { "String": " " }, "content": SPACE })];
    if model.dummy_prefix {
        steps.insert(0, json!({ "type": "Prepend", "prepend": SPACE }));
    }
    if !model.characters.is_empty() {
        let table = base64::engine::general_purpose::STANDARD.encode(&model.characters);
        steps.insert(0, json!({ "type": "Precompiled", "precompiled_charsmap": table }));
    }
    let normalizer: NormalizerWrapper =
        serde_json::from_value(json!({ "type": "Sequence", "normalizers": steps })).map_err(inconsistent)?;
    tokenizer.with_normalizer(Some(normalizer)).map_err(inconsistent)?;
    // A user-defined piece with spaces is no text of the input, in which they are other characters.
    let added = model.pieces.iter().filter_map(|(text, _, kind)| match kind {
        PieceKind::Unknown | PieceKind::Control => Some((text, true)),
        PieceKind::UserDefined if !text.contains(SPACE) => Some((text, false)),
        _ => None,
    });
    let added: Vec<AddedToken> = added
        .filter(|(text, _)| !text.is_empty())
        .map(|(text, special)| AddedToken::from(text.as_str(), special).normalized(false))
        .collect();
    tokenizer.add_tokens(added).map_err(inconsistent)?;
    Ok(tokenizer)
}

fn byte_pairs(model: &Model) -> Result<BPE> {
    let mut vocab = Vocab::with_capacity(model.pieces.len());
    for (id, (text, _, kind)) in (0..).zip(&model.pieces) {
        if *kind != PieceKind::Unused && !text.is_empty() && vocab.insert(text.clone(), id).is_some() {
            let message = format!("two pieces are both `{}`", text.escape_debug());
            return Err(Error::new(ErrorKind::Tokenizer, message));
        }
    }
    let bytes: HashSet<&str> =
        model.pieces.iter().filter(|p| p.2 == PieceKind::Byte).map(|p| p.0.as_str()).collect();
    if let Some(byte) = (0..=255u8).find(|byte| !bytes.contains(format!("<0x{byte:02X}>").as_str())) {
        return Err(unsupported(&format!("a model without a piece for the byte 0x{byte:02X}")));
    }
    let normal = model.pieces.iter().filter(|(text, _, kind)| *kind == PieceKind::Normal && !text.is_empty());
    let pieces: Vec<Piece> = normal.map(|(text, score, _)| Piece { text, score: *score }).collect();
    let merges = merges(&pieces, ListNames { pieces: "pieces", scores: "scores" })?;
    // Needs no token for unknown text: every byte has a token.
    BPE::builder().vocab_and_merges(vocab, merges).byte_fallback(true).build().map_err(inconsistent)
}

fn unsupported(what: &str) -> Error {
    Error::new(ErrorKind::Unsupported, what)
}

fn inconsistent(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Tokenizer, format!("the SentencePiece model is inconsistent: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message of a model of these pieces, with the number of the algorithm.
    fn message(algorithm: u8, pieces: &[(&str, f32, u8)]) -> Vec<u8> {
        let mut file = Vec::new();
        for (text, score, kind) in pieces {
            let mut piece = vec![0x0a, text.len() as u8];
            piece.extend_from_slice(text.as_bytes());
            piece.push(0x15);
            piece.extend_from_slice(&score.to_le_bytes());
            piece.extend_from_slice(&[0x18, *kind]);
            file.extend_from_slice(&[0x0a, piece.len() as u8]);
            file.extend_from_slice(&piece);
        }
        // The algorithm, and bytes for unknown characters.
        file.extend_from_slice(&[0x12, 5, 0x18, algorithm, 0x98, 0x02, 1]);
        file
    }

    fn model(algorithm: u8, more: &[(&str, f32, u8)]) -> Vocabulary {
        let bytes: Vec<String> = (0..=255).map(|byte| format!("<0x{byte:02X}>")).collect();
        let mut pieces = vec![("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)];
        pieces.extend(bytes.iter().map(|text| (text.as_str(), -99.0, 6)));
        pieces.extend_from_slice(more);
        Vocabulary::from_sentencepiece(&message(algorithm, &pieces)).unwrap()
    }

    const PIECES: [(&str, f32, u8); 8] = [
        ("\u{2581}", -5.0, 1),
        ("a", -6.0, 1),
        ("b", -7.0, 1),
        ("ab", -2.0, 1),
        ("\u{2581}ab", -1.0, 1),
        ("ba", -3.0, 1),
        ("<tag>", 0.0, 4),
        ("old", 0.0, 5),
    ];

    #[test]
    fn bytes_and_tokens_of_a_model_of_byte_pairs() {
        let vocab = model(2, &PIECES);
        assert!(vocab.has_tokenizer());
        assert_eq!((vocab.bos(), vocab.eos()), (&[1][..], &[2][..]));
        assert_eq!(vocab.token_bytes(263), b" ab");
        assert_eq!(vocab.token_bytes(3 + 10), b"\n");
        assert_eq!((vocab.token_bytes(265), vocab.token_bytes(266)), (&b"<tag>"[..], &b""[..]));
        assert!(vocab.is_special(1) && !vocab.is_special(266));
        assert_eq!(vocab.encode("abba").unwrap(), [263, 264]);
        assert_eq!(vocab.encode("ab<tag>\n").unwrap(), [263, 265, 259, 13], "a part has a prefix of its own");
    }

    #[test]
    fn unigrams_and_other_models() {
        let vocab = model(1, &PIECES);
        assert_eq!(vocab.encode("abba").unwrap(), [263, 264]);
        let vocab = model(3, &PIECES);
        assert!(!vocab.has_tokenizer());
        assert_eq!(vocab.encode("abba").unwrap(), [262, 264], "the longest tokens");
        // Two scores that are equal have no order.
        let mut same = PIECES;
        same[5].1 = -2.0;
        assert!(!model(2, &same).has_tokenizer());
    }
}
