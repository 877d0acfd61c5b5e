//! Scheduler: runs many requests in one batch.
//!
//! Requests wait in a bounded queue, and threads of their own compile their constraints. Requests
//! join the batch in the order in which they become ready, as far as the memory for caches permits.
//! Each round is one forward over the rows of all of them: tokens to be verified first, then pieces
//! of prompts. The work outside the models (`Session::step`, sampling, masks) is spread over the
//! engine's threads, as the forwards are. An output does not depend on its neighbours, and a request
//! that fails, in whatever way, fails alone.
//!
//! # Cost
//!
//! A round costs one forward of the target, and one forward of the draft model per proposal.
//!
//! # Alternatives considered
//!
//! Fixed batches that run to their end were rejected: they wait for their longest member, and a
//! request waits for a batch.

mod handle;
mod queue;
mod runner;
mod sequence;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub use handle::{Handle, HandleEvent, HandleMessage};
pub use queue::Rejected;

use super::engine::Engine;
use super::events::CancelToken;
use super::prefix_cache::DEFAULT_BYTES;
use super::request::Request;
use crate::error::{Error, ErrorKind, Result};
use handle::Answer;
use queue::Queue;
use runner::Runner;

/// Limits and resources of a [`Scheduler`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerOptions {
    /// Largest number of requests in the batch (default 16).
    pub batch: usize,
    /// Largest number of waiting requests, to be compiled or to join the batch (default 64).
    pub queue: usize,
    /// Largest number of rows in a forward (default 256); drafts that do not fit wait a round,
    /// prompts are cut.
    pub rows: usize,
    /// Largest size of the caches of all requests in the batch, in bytes, each counted at its
    /// greatest possible length (default 1 GiB).
    pub cache_bytes: usize,
    /// Largest size of the keys and values kept for later prompts with a common prefix, in bytes
    /// (default 64 MiB).
    pub prefix_bytes: usize,
    /// Percentage by which drafts may lengthen a forward in which some sequence has no constraint,
    /// or no drafts (default 5). Without such neighbours drafts are as long as pays off.
    pub slack: u32,
    /// Number of threads that compile constraints (default 1).
    pub compilers: usize,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        SchedulerOptions {
            batch: 16,
            queue: 64,
            rows: 256,
            cache_bytes: 1 << 30,
            prefix_bytes: DEFAULT_BYTES,
            slack: 5,
            compilers: 1,
        }
    }
}

impl SchedulerOptions {
    /// Returns the default options with a batch of at most `batch` requests.
    pub fn with_batch(batch: usize) -> Self {
        SchedulerOptions { batch, ..Self::default() }
    }

    fn check(&self) -> Result<()> {
        let numbers = [
            ("batch", self.batch),
            ("queue", self.queue),
            ("rows", self.rows),
            ("cache_bytes", self.cache_bytes),
            ("compilers", self.compilers),
        ];
        match numbers.into_iter().find(|n| n.1 == 0) {
            None => Ok(()),
            Some((name, _)) => {
                let message = format!("`{name}` of the scheduler is 0");
                Err(Error::new(ErrorKind::InvalidOption, message).hint("it must be at least 1"))
            }
        }
    }
}

/// Statistics of a scheduler so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SchedulerStats {
    /// Forwards of the target model.
    pub forwards: usize,
    /// Rows in these forwards.
    pub rows: usize,
    /// Largest number of rows in one forward.
    pub most_rows: usize,
    /// Largest number of sequences in one forward.
    pub most_sequences: usize,
    /// Forwards of the draft model.
    pub draft_forwards: usize,
    /// Prompt tokens whose keys and values were already present.
    pub shared_tokens: usize,
    /// Bytes of keys and values kept for later prompts.
    pub prefix_bytes: usize,
    /// Largest number of bytes reserved for the caches of the batch.
    pub most_cache_bytes: usize,
    /// Requests in the batch now.
    pub running: usize,
    /// Requests that have ended, successfully or not.
    pub ended: usize,
}

/// Runs requests together. It can be shared between threads; dropping it cancels unfinished
/// requests.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::sync::Arc;
///
/// use ffwd::{Constraint, Engine, Prompt, Request, Scheduler, SchedulerOptions};
///
/// # fn main() -> ffwd::Result<()> {
/// let scheduler = Scheduler::new(Arc::new(Engine::embedded()?), SchedulerOptions::default())?;
/// let request = |text| Request::new(Prompt::text(text)).max_tokens(4);
/// let handles = ["One ", "Two "].map(|text| scheduler.submit(request(text)));
/// for handle in handles {
///     assert!(handle?.wait()?.tokens.len() <= 4);
/// }
/// # Ok(())
/// # }
/// ```
pub struct Scheduler {
    queue: Arc<Queue>,
    figures: Arc<Mutex<SchedulerStats>>,
    threads: Vec<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts the threads.
    ///
    /// # Errors
    /// Fails if an option is out of range or a thread cannot be started.
    pub fn new(engine: Arc<Engine>, options: SchedulerOptions) -> Result<Scheduler> {
        options.check()?;
        let queue = Arc::new(Queue::new(options.queue));
        let figures = Arc::new(Mutex::new(SchedulerStats::default()));
        let runner = Runner::new(engine.clone(), queue.clone(), figures.clone(), &options);
        let mut scheduler = Scheduler { queue: queue.clone(), figures, threads: Vec::new() };
        scheduler.spawn("ffwd-batch", move || runner.run())?;
        for _ in 0..options.compilers {
            let (engine, queue) = (engine.clone(), queue.clone());
            scheduler.spawn("ffwd-compile", move || queue::compile(&engine, &queue))?;
        }
        Ok(scheduler)
    }

    fn spawn(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(work).map_err(|e| {
            Error::new(ErrorKind::Busy, format!("a thread cannot be started: {e}"))
                .hint("raise the limit on threads, or use fewer")
        })?;
        self.threads.push(thread);
        Ok(())
    }

    /// Submits a request; waits while the queue is full.
    ///
    /// # Errors
    /// Fails only once the scheduler is being dropped. The handle reports errors of the request
    /// itself.
    pub fn submit(&self, request: Request) -> Result<Handle> {
        self.push(request, true).map_err(|rejected| rejected.error)
    }

    /// Submits a request, or returns it if the queue is full.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) if the queue is full.
    pub fn try_submit(&self, request: Request) -> Result<Handle, Box<Rejected>> {
        self.push(request, false)
    }

    /// Submits a request like [`try_submit`](Self::try_submit). Its messages go to `listener`, which
    /// a thread of the scheduler calls; it must return at once and not panic. The token cancels the
    /// request. If the scheduler is dropped, the listener is dropped without a last message.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) if the queue is full.
    pub fn try_submit_to(
        &self,
        request: Request,
        listener: impl Fn(HandleMessage) + Send + 'static,
    ) -> Result<CancelToken, Box<Rejected>> {
        let cancel = CancelToken::new();
        let answer = Answer::new(listener, request.events);
        self.queue.push(request, answer, cancel.clone(), false)?;
        Ok(cancel)
    }

    fn push(&self, request: Request, patient: bool) -> Result<Handle, Box<Rejected>> {
        let cancel = CancelToken::new();
        let (handle, listener) = handle::connected(&cancel);
        let answer = Answer::new(listener, request.events);
        self.queue.push(request, answer, cancel, patient)?;
        Ok(handle)
    }

    /// Returns the statistics so far.
    pub fn stats(&self) -> SchedulerStats {
        *self.figures.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // Its panics were caught and reported to their requests.
            drop(thread.join());
        }
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("figures", &self.stats()).finish_non_exhaustive()
    }
}
