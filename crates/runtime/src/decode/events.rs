//! Events of a running generation, and the token that cancels it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::json_stream::Field;
use super::stats::Stats;
use super::trace::ForwardTrace;

/// An event of a running generation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// More text, in complete UTF-8. Text that a stop text may still remove is held back.
    Text(&'a str),
    /// A value of a JSON output has begun, grown or ended.
    Field(&'a Field),
    /// The statistics so far, after each forward.
    Stats(&'a Stats),
    /// A step of a traced generation ([`Request::trace`](super::Request::trace)).
    Forward(&'a ForwardTrace),
}

/// Cancels generations from another thread, or from within a callback. All clones share one state.
/// A cancelled token stays cancelled.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Creates a token that is not cancelled.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the generations that hold this token before their next forward, of the target or of the
    /// draft model.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns true if [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
