//! The sequences of one forward (segments), and how their rows are cut into chunks and shards.
//!
//! The rows of all segments run through the linear layers together, so the weights are read once
//! for all of them. Attention runs sequence by sequence over each one's own cache.
//!
//! # Cost
//!
//! The cost of one forward over as many rows.
//!
//! # Alternatives considered
//!
//! Padding the segments to one length was rejected: drafts and prompts have very different lengths,
//! and padded rows cost as much as others.

use std::ops::Range;

use super::kv_cache::KvCache;
use crate::error::{Error, ErrorKind, Result};
use crate::model::config::{ModelConfig, bad};
use crate::vocab::TokenId;

/// Number of rows from which a forward is bound by arithmetic, whatever the size of the weights.
const ARITHMETIC_BOUND_ROWS: usize = 32;
/// Bytes of weights that the caches of a processor hold, or nearly so.
const SMALL_WEIGHTS: usize = 32 << 20;

/// Returns true if a thread with `rows` rows of its own may read all weights for them: the rows are
/// many or the weights small.
pub(super) fn pays_to_read_weights_for(rows: usize, bytes: impl FnOnce() -> usize) -> bool {
    rows >= ARITHMETIC_BOUND_ROWS || rows >= 2 && bytes() <= SMALL_WEIGHTS
}

/// The input of one sequence to a forward.
pub struct Segment<'a> {
    /// New tokens, at the positions after those in the cache.
    pub tokens: &'a [TokenId],
    /// The KV cache of the sequence; the tokens are appended.
    pub cache: &'a mut KvCache,
    /// The tokens whose logits are wanted, as indices into `tokens`. May be empty.
    pub rows: Range<usize>,
    /// For each of these rows the tokens whose logits are wanted, sorted. All other logits are
    /// negative infinity and cost nothing. No tokens, or no entry, means all tokens.
    pub only: &'a [Vec<TokenId>],
}

/// The part of a segment that runs in one chunk.
pub(super) struct Span {
    pub segment: usize,
    /// Range of the segment's tokens.
    pub tokens: Range<usize>,
    /// Row number of the first token in the chunk.
    pub first: usize,
    /// Position of the first token.
    pub start: usize,
    /// Rows with logits, counted from `first`.
    pub wanted: Range<usize>,
}

impl Segment<'_> {
    /// Checks rows and tokens, and that the context suffices.
    pub(super) fn check(&self, c: &ModelConfig) -> Result<()> {
        let (tokens, rows, cached) = (self.tokens, &self.rows, self.cache.len());
        if rows.start > rows.end || rows.end > tokens.len() {
            return Err(Error::new(
                ErrorKind::InvalidOption,
                format!("logits of rows {rows:?} of {} tokens", tokens.len()),
            ));
        }
        let mut ids = tokens.iter().chain(self.only.iter().flatten());
        if let Some(id) = ids.find(|id| **id as usize >= c.vocab_size) {
            return Err(bad(format!("token {id} is not below the model's vocabulary size {}", c.vocab_size))
                .hint("use the tokenizer that belongs to the model"));
        }
        if cached + tokens.len() > c.context {
            return Err(Error::new(
                ErrorKind::PromptTooLong,
                format!(
                    "{} tokens after {cached} in the cache exceed the context of {}",
                    tokens.len(),
                    c.context
                ),
            )
            .hint("shorten the prompt or use a model with a longer context"));
        }
        Ok(())
    }
}

impl Span {
    pub(super) fn positions(&self) -> Range<usize> {
        self.start..self.start + self.tokens.len()
    }
}

/// Cuts the rows of all segments, in order, into chunks of at most `most` rows.
pub(super) fn chunks(segments: &[Segment], most: usize) -> Vec<Vec<Span>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let mut used = 0;
    for (i, segment) in segments.iter().enumerate() {
        let mut at = 0;
        while at < segment.tokens.len() {
            let end = segment.tokens.len().min(at + most - used);
            let clamp = |r: usize| r.clamp(at, end) - at;
            piece.push(Span {
                segment: i,
                tokens: at..end,
                first: used,
                start: segment.cache.len() + at,
                wanted: clamp(segment.rows.start)..clamp(segment.rows.end),
            });
            used += end - at;
            at = end;
            if used == most {
                pieces.push(std::mem::take(&mut piece));
                used = 0;
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(piece);
    }
    pieces
}

/// Cuts the spans of a chunk into shards of nearly equal numbers of rows. Rows are counted from the
/// first of the shard.
pub(super) fn shards(spans: &[Span], count: usize) -> Vec<Vec<Span>> {
    let rows: usize = spans.iter().map(|s| s.tokens.len()).sum();
    let mut shares = Vec::with_capacity(count);
    for share in 0..count {
        let (from, to) = (rows * share / count, rows * (share + 1) / count);
        let cut = spans.iter().filter_map(|span| {
            let (first, len) = (span.first, span.tokens.len());
            let within = from.clamp(first, first + len) - first..to.clamp(first, first + len) - first;
            let clamp = |row: usize| row.clamp(within.start, within.end) - within.start;
            (!within.is_empty()).then(|| Span {
                segment: span.segment,
                tokens: span.tokens.start + within.start..span.tokens.start + within.end,
                first: first + within.start - from,
                start: span.start + within.start,
                wanted: clamp(span.wanted.start)..clamp(span.wanted.end),
            })
        });
        shares.push(cut.collect());
    }
    shares
}
