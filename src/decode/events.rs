//! What a generation tells while it runs, and how it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::json_stream::Field;
use super::stats::Stats;

/// Something that has happened in a generation under way.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// More text, in complete UTF-8. Text that a stop text may still take away is held back.
    Text(&'a str),
    /// A value of a JSON output has begun, grown or ended.
    Field(&'a Field),
    /// The figures so far, after each forward.
    Stats(&'a Stats),
}

/// Ends generations from another thread, or from within a callback. Clones belong together. Once
/// cancelled it stays so.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// A token that cancels nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends the generations that hold this token before their next forward, be it of the target or of
    /// the draft model.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether [`cancel`](Self::cancel) was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}
