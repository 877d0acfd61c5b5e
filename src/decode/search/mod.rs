//! Several outputs for one request, the best first: [`Engine::best_of`] samples them, and
//! [`Engine::beam_search`] looks for the most probable ones.
//!
//! Both bring the prompt through the model once, copy its keys and values, fork the matcher, and run all
//! sequences in one forward. Cost: that of as many generations in one batch, with one prompt. Pages of keys
//! and values that sequences point to were rejected: attention would have to gather them, and copies are
//! cheap against forwards.
//!
//! [`Engine::best_of`]: super::Engine::best_of
//! [`Engine::beam_search`]: super::Engine::beam_search

mod beam;
mod best_of;

use super::engine::Output;
use crate::error::{Error, ErrorKind, Result};

pub use beam::BeamOptions;

/// Most outputs of [`Engine::best_of`](super::Engine::best_of), and widest
/// [`Engine::beam_search`](super::Engine::beam_search): each sequence has a cache of its own.
pub const MOST_SEQUENCES: usize = 256;

/// An output and how probable it is.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Scored {
    /// The output.
    pub output: Output,
    /// What outputs are ranked by; higher is better. The log-probability; of a beam search with a length
    /// penalty, divided by a power of the number of choices.
    pub score: f64,
    /// Natural logarithm of the output's probability under plain masked decoding at temperature 1: the sum
    /// over its tokens and the end token, if the model chose that, after penalties and bias. Tokens that no
    /// model was asked about (closing, the end of thinking) do not count.
    pub log_probability: f64,
    /// How many tokens that sum is over, the end token among them.
    pub choices: usize,
    /// The seed that gives this output; none of a beam search, which draws no random numbers.
    pub seed: Option<u64>,
}

impl Scored {
    /// The log-probability of a token on average; 0 if there was no choice.
    pub fn mean(&self) -> f64 {
        if self.choices == 0 { 0.0 } else { self.log_probability / self.choices as f64 }
    }
}

/// Outputs, the best first.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Ranked {
    /// Those that satisfy the constraint in front of those that do not (cut at the token limit, by a stop
    /// text or by cancelling), higher scores first. The figures of each are those of its own sequence.
    pub outputs: Vec<Scored>,
    /// Calls of the target model for all of them together, the one for the prompt included.
    pub forwards: usize,
    /// Calls of the draft model for all of them together.
    pub draft_forwards: usize,
}

impl Ranked {
    /// The best output.
    pub fn best(&self) -> Option<&Scored> {
        self.outputs.first()
    }
}

/// Best first; equals stay in their order.
fn rank(outputs: &mut [Scored]) {
    outputs
        .sort_by(|a, b| b.output.complete.cmp(&a.output.complete).then_with(|| b.score.total_cmp(&a.score)));
}

/// # Errors
/// If there are none or too many sequences.
fn check_count(what: &str, count: usize) -> Result<()> {
    if (1..=MOST_SEQUENCES).contains(&count) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::InvalidOption, format!("{what} is {count}"))
        .hint(format!("use a number from 1 to {MOST_SEQUENCES}")))
}

/// An option that does not go with what was asked for.
fn refused(message: &str, hint: &str) -> Error {
    Error::new(ErrorKind::InvalidOption, message).hint(hint)
}
