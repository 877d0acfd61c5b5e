//! Searches for several outputs of one request, best first: best of n and beam search.
//!
//! [`Engine::best_of`] samples outputs, and [`Engine::beam_search`] searches for the most probable
//! ones. Both run the prompt through the model once, copy its keys and values, fork the matcher,
//! and run all sequences in one forward.
//!
//! # Cost
//!
//! The cost of as many generations in one batch, with one prompt.
//!
//! # Alternatives considered
//!
//! Paged keys and values, shared between sequences, were rejected: attention would have to gather
//! them, and copies are cheap compared with forwards.
//!
//! [`Engine::best_of`]: super::Engine::best_of [`Engine::beam_search`]: super::Engine::beam_search

mod beam;
mod best_of;

use super::output::Output;
use crate::error::{Error, ErrorKind, Result};

pub use beam::BeamOptions;

/// Largest number of outputs of [`Engine::best_of`](super::Engine::best_of), and largest width of
/// [`Engine::beam_search`](super::Engine::beam_search). Each sequence has a cache of its own.
pub const MOST_SEQUENCES: usize = 256;

/// An output and its probability.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Scored {
    /// The output.
    pub output: Output,
    /// The ranking score of the output; higher is better. It is the log-probability; in a beam
    /// search with a length penalty it is divided by a power of the number of choices.
    pub score: f64,
    /// Natural logarithm of the output's probability under plain masked decoding at temperature 1,
    /// after penalties and bias. It is the sum over its tokens, and over the end token if the model
    /// chose it. Tokens emitted without verification (a completion, the end of thinking) do not
    /// count.
    pub log_probability: f64,
    /// Number of tokens in that sum, the end token included.
    pub choices: usize,
    /// The seed that gives this output; `None` for a beam search, which draws no random numbers.
    pub seed: Option<u64>,
}

impl Scored {
    /// Returns the mean log-probability of a token; 0 if there was no choice.
    pub fn mean(&self) -> f64 {
        if self.choices == 0 { 0.0 } else { self.log_probability / self.choices as f64 }
    }
}

/// Ranked outputs, best first.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ranked {
    /// Outputs that satisfy the constraint come before those that do not (cut at the token limit,
    /// by a stop text or by cancellation), then higher scores first. Each has the statistics of its
    /// own sequence.
    pub outputs: Vec<Scored>,
    /// Calls of the target model for all of them together, the one for the prompt included.
    pub forwards: usize,
    /// Calls of the draft model for all of them together.
    pub draft_forwards: usize,
}

impl Ranked {
    /// Returns the best output.
    pub fn best(&self) -> Option<&Scored> {
        self.outputs.first()
    }
}

/// Sorts the best first; equals stay in their order.
fn rank(outputs: &mut [Scored]) {
    outputs
        .sort_by(|a, b| b.output.complete.cmp(&a.output.complete).then_with(|| b.score.total_cmp(&a.score)));
}

/// # Errors
/// Fails if `count` is 0 or too large.
fn check_count(what: &str, count: usize) -> Result<()> {
    if (1..=MOST_SEQUENCES).contains(&count) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOption, format!("{what} is {count}"))
        .hint(format!("use a number from 1 to {MOST_SEQUENCES}")))
}

/// Returns the error for an option that this kind of search does not support.
fn refused(message: &str, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, message).hint(hint)
}
