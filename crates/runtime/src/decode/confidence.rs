//! Confidence of the values of a JSON output, from the probabilities of their tokens.
//!
//! A token counts for a value if their bytes overlap. A number ends only with the token after it, so
//! that token counts for the number too. A token that lies in two values counts for both. Tokens
//! whose bytes the constraint forced say nothing about the model and are left out, whether or not a
//! draft proposed them. So the confidence is the same in the modes `off` and `exact`.
//!
//! # Cost
//!
//! Linear in tokens and values. The log-probabilities cost what
//! [`Request::logprobs`](super::Request::logprobs) costs.
//!
//! # Alternatives considered
//!
//! The probability of all tokens, forced ones included, was rejected. It falls with the length of
//! the keys, because the mask allows other tokens for the same bytes.

use std::ops::Range;

use serde::Serialize;

use super::json_values::leaf_values;
use crate::matcher::{CompiledGrammar, Matcher};
use crate::sample::TokenLogprob;
use crate::vocab::{TokenId, Vocabulary};

/// The confidence in a value of a JSON output: a string, number or literal, or an empty object or
/// array.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ValueConfidence {
    /// JSON pointer of the value; empty for the whole output.
    #[serde(skip)]
    pub pointer: String,
    /// Its bytes in [`Output::answer`](super::Output::answer), quotation marks included.
    #[serde(skip)]
    pub bytes: Range<usize>,
    /// Product of the probabilities of its free tokens among the legal tokens, after penalties and
    /// bias, before temperature: 1 if the constraint leaves no choice.
    pub probability: f64,
    /// The smallest margin of its free tokens: the probability of the token less that of the most
    /// probable other legal token. Negative if another token was more probable, 1 if the constraint
    /// leaves no choice.
    pub margin: f32,
    /// The smallest legal mass of its free tokens: the share of the model's probability on legal
    /// tokens. Near 0 if the model preferred a text that the constraint forbids.
    pub legal_mass: f32,
}

/// A token of an output.
pub(super) struct ScoredToken {
    /// Number of its bytes.
    pub len: usize,
    /// `None` if no model chose the token.
    pub logprob: Option<TokenLogprob>,
    /// True if the constraint left a choice about its bytes.
    pub free: bool,
}

/// Returns the confidence of the values of an answer, which begins at byte `offset` of the tokens'
/// text. Values with free tokens that no model chose have none.
pub(super) fn confidence_of(
    answer: &[u8],
    offset: usize,
    tokens: impl Iterator<Item = ScoredToken>,
) -> Vec<ValueConfidence> {
    let mut ends = Vec::new();
    let mut at = 0;
    let mut scored = Vec::new();
    for token in tokens {
        at += token.len;
        ends.push(at);
        scored.push(token);
    }
    let mut values = Vec::new();
    for leaf in leaf_values(answer) {
        let bytes = offset + leaf.bytes.start..offset + leaf.bytes.end;
        let mut tokens = overlapping(&ends, &bytes);
        if answer[leaf.bytes.end - 1].is_ascii_digit() && ends[..tokens.end].last() == Some(&bytes.end) {
            tokens.end = (tokens.end + 1).min(ends.len());
        }
        let free = scored[tokens].iter().filter(|token| token.free);
        let Some(known) = free.map(|token| token.logprob.as_ref()).collect::<Option<Vec<_>>>() else {
            continue;
        };
        values.push(ValueConfidence {
            pointer: leaf.pointer,
            bytes: leaf.bytes,
            probability: known.iter().map(|token| f64::from(token.masked)).sum::<f64>().exp(),
            margin: known.iter().fold(1.0, |least, token| token.margin.min(least)),
            legal_mass: known.iter().fold(1.0, |least, token| token.legal_mass.min(least)),
        });
    }
    values
}

/// Returns the indices of the tokens that overlap `bytes`, which are not empty. `ends` are the ends
/// of the tokens.
fn overlapping(ends: &[usize], bytes: &Range<usize>) -> Range<usize> {
    let first = ends.partition_point(|&end| end <= bytes.start);
    let last = ends.partition_point(|&end| end < bytes.end);
    first..(last + 1).min(ends.len()).max(first)
}

/// Returns true if the constraint forces the bytes of a token that comes next.
pub(super) fn is_forced(matcher: &mut Matcher, vocab: &Vocabulary, token: TokenId) -> bool {
    let bytes = vocab.token_bytes(token);
    match matcher.forced_bytes_after(b"", bytes.len()) {
        Some(run) => !bytes.is_empty() && run.starts_with(bytes),
        // A machine over tokens.
        None => matcher.is_forced(),
    }
}

/// Returns the share of the tokens that were forced: the constraint allowed no other bytes than
/// theirs, or no other token.
pub fn forced_share(grammar: &CompiledGrammar, tokens: &[TokenId]) -> f64 {
    let mut matcher = grammar.matcher();
    let mut forced = 0;
    for &token in tokens {
        forced += usize::from(is_forced(&mut matcher, grammar.vocabulary(), token));
        if matcher.accept_token(token).is_err() {
            break;
        }
    }
    forced as f64 / tokens.len().max(1) as f64
}
