//! `Model::forward_batch`: one forward over several sequences (segments), cut into chunks and shards.
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
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::config::{ModelConfig, bad};
use super::runner::Runner;
use super::{KvCache, Model};
use crate::error::{Error, ErrorKind, Result};
use crate::threads;
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

/// Returns the error for a caught panic.
pub(crate) fn internal(doing: &str) -> Error {
    Error::new(ErrorKind::Model, format!("the request failed inside while {doing}"))
        .hint("this is a fault of the program; other requests are not concerned")
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

/// A function that sees the tokens of a segment, the number of segments in the forward, and the
/// logits, which it may change. If it returns an error, the forward fails.
#[doc(hidden)]
pub type LogitsHook = dyn Fn(&[TokenId], usize, &mut [Vec<f32>]) -> Result<()> + Send + Sync;

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
    pub fn positions(&self) -> Range<usize> {
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

impl Model {
    /// Runs several sequences in one forward and returns the logits of each, as
    /// [`forward`](Self::forward) does.
    ///
    /// A sequence whose segment is not valid fails alone. If the forward fails as a whole, the
    /// sequences run one by one, so only those fail that cannot run.
    ///
    /// If [`is_batch_invariant`](Self::is_batch_invariant) is true, the logits are those of
    /// separate forwards, bit for bit.
    pub fn forward_batch(&self, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
        self.threads.install(|| self.run_valid(segments))
    }

    /// Runs the valid segments with the threads that are installed.
    fn run_valid(&self, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
        let mut results: Vec<_> =
            segments.iter().map(|s| self.inner.runner.check(s).map(|()| Vec::new())).collect();
        let valid = results.iter().map(Result::is_ok).collect::<Vec<_>>();
        let mut runnable: Vec<Segment> = segments
            .iter_mut()
            .zip(valid)
            .filter(|(_, valid)| *valid)
            .map(|(s, _)| Segment { tokens: s.tokens, cache: s.cache, rows: s.rows.clone(), only: s.only })
            .collect();
        let logits = match self.run(&mut runnable) {
            Ok(logits) => logits.into_iter().map(Ok).collect::<Vec<_>>(),
            Err(error) if runnable.len() < 2 => vec![Err(error); runnable.len()],
            Err(error) => {
                tracing::warn!(%error, "a forward of {} sequences failed; they run alone", runnable.len());
                let alone = |s: &mut Segment| self.run(std::slice::from_mut(s)).map(|mut l| l.remove(0));
                runnable.iter_mut().map(alone).collect()
            }
        };
        let places = results.iter_mut().filter(|r| r.is_ok());
        places.zip(logits).for_each(|(place, logits)| *place = logits);
        results
    }

    /// Does the same on this thread alone, while other threads run other sequences.
    pub(crate) fn forward_batch_here(&self, segments: &mut [Segment]) -> Vec<Result<Vec<Vec<f32>>>> {
        threads::alone(|| self.run_valid(segments))
    }

    /// Returns true if parts of a batch should run as forwards of their own, one on each thread,
    /// instead of sharing out the products of one forward. The threads then meet once in a forward
    /// instead of at every product, but each reads the weights. This pays while the weights are
    /// small or the rows many. The largest part has `largest` of `rows` rows.
    pub(crate) fn runs_in_parts(&self, rows: usize, parts: usize, largest: usize) -> bool {
        // Candle distributes its products itself, over threads that may not wait for each other.
        if self.is_on_device() {
            return false;
        }
        let each = rows / parts;
        let cheap = pays_to_read_weights_for(each, || self.weight_bytes());
        // A part with nearly all rows would leave the other threads idle.
        cheap && largest * 4 <= rows * 3
    }

    /// Returns true if candle runs the model, on whatever device.
    pub(crate) fn is_on_device(&self) -> bool {
        matches!(self.inner.runner, Runner::Tensors(_))
    }

    /// Runs all segments or none: after a failure the caches are unchanged.
    fn run(&self, segments: &mut [Segment]) -> Result<Vec<Vec<Vec<f32>>>> {
        let before: Vec<usize> = segments.iter().map(|s| s.cache.len()).collect();
        let forward = || {
            let mut logits = self.inner.runner.forward(segments)?;
            let (count, mut seen) = (segments.len(), segments.iter().zip(&mut logits));
            if let Some(tamper) = &self.hook {
                seen.try_for_each(|(s, logits)| tamper(s.tokens, count, logits))?;
            }
            Ok(logits)
        };
        // A panic on any thread. An unfinished forward has appended nothing that counts.
        let logits = catch_unwind(AssertUnwindSafe(forward))
            .unwrap_or_else(|_| Err(internal("passing through the model")));
        if logits.is_err() {
            segments.iter_mut().zip(before).for_each(|(segment, before)| segment.cache.truncate(before));
        }
        logits
    }

    /// Returns the same model with a hook that may change its logits. For tests of failing models.
    #[doc(hidden)]
    pub fn with_logits_hook(
        mut self,
        tamper: impl Fn(&[TokenId], usize, &mut [Vec<f32>]) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.hook = Some(std::sync::Arc::new(tamper));
        self
    }

    /// Returns the bytes that a cache takes with `positions` tokens.
    pub fn cache_bytes(&self, positions: usize) -> usize {
        self.inner.runner.cache_bytes(positions)
    }
}
