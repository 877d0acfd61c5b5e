//! Many requests in one batch.
//!
//! Requests wait in a bounded queue, have their constraints compiled on threads of their own, and join the
//! batch in the order in which they became ready, as far as the memory for caches goes. Each round is one
//! forward over the rows of all of them: tokens to be judged first, then pieces of prompts. A round costs
//! that forward and one of the draft model per proposal; what is not a model's (`Session::step`, sampling,
//! masks) is spread over helper threads where there is enough of it. An output does not depend on its
//! neighbours, and a request that fails, in whatever way, fails alone.
//!
//! Batches that are put together once and run to their end were rejected: they wait for their longest
//! member, and a request waits for a batch.

mod handle;
mod queue;
mod runner;
mod sequence;
mod workers;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub use handle::{Handle, HandleEvent};
pub use queue::Rejected;

use super::engine::Engine;
use super::prefix_cache::DEFAULT_BYTES;
use super::request::Request;
use crate::error::{Error, ErrorKind, Result};
use queue::Queue;
use runner::Runner;

/// What a [`Scheduler`] may use.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchedulerOptions {
    /// Most requests in the batch (default 16).
    pub batch: usize,
    /// Most requests that wait: for their constraint to be compiled, or for a place (default 64).
    pub queue: usize,
    /// Most rows of a forward (default 256); drafts that do not fit wait a round, prompts are cut.
    pub rows: usize,
    /// Most bytes of the caches of all requests in the batch, each counted as long as it may become
    /// (default 1 GiB).
    pub cache_bytes: usize,
    /// Most bytes of keys and values kept for prompts to come that begin alike (default 64 MiB).
    pub prefix_bytes: usize,
    /// By how many percent drafts may lengthen a forward in which some sequence has no constraint, or no
    /// drafts (default 5); without such neighbours drafts are as long as pays off.
    pub slack: u32,
    /// Threads that compile constraints (default 1).
    pub compilers: usize,
    /// Threads that fill masks while a forward runs, and step and judge sequences beside the scheduler's
    /// own thread (default: one less than the machine has cores).
    pub helpers: usize,
}

impl Default for SchedulerOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        SchedulerOptions {
            batch: 16,
            queue: 64,
            rows: 256,
            cache_bytes: 1 << 30,
            prefix_bytes: DEFAULT_BYTES,
            slack: 5,
            compilers: 1,
            helpers: cores - 1,
        }
    }
}

impl SchedulerOptions {
    /// The defaults with a batch of this many requests.
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

/// What a scheduler has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SchedulerStats {
    /// Forwards of the target model.
    pub forwards: usize,
    /// Rows in them.
    pub rows: usize,
    /// Most rows in one of them.
    pub most_rows: usize,
    /// Most sequences in one of them.
    pub most_sequences: usize,
    /// Forwards of the draft model.
    pub draft_forwards: usize,
    /// Tokens of prompts whose keys and values were there already.
    pub shared_tokens: usize,
    /// Bytes of keys and values kept for prompts to come.
    pub prefix_bytes: usize,
    /// Most bytes set aside for the caches of the batch.
    pub most_cache_bytes: usize,
    /// Requests in the batch now.
    pub running: usize,
    /// Requests that came to an end, well or not.
    pub ended: usize,
}

/// Runs requests together. Shareable between threads; dropping it cancels what is not done.
pub struct Scheduler {
    queue: Arc<Queue>,
    figures: Arc<Mutex<SchedulerStats>>,
    threads: Vec<JoinHandle<()>>,
}

impl Scheduler {
    /// Starts the threads. Measures what forwards cost, if that has not been done.
    ///
    /// # Errors
    /// If an option is out of range or a thread cannot be started.
    pub fn new(engine: Arc<Engine>, options: SchedulerOptions) -> Result<Scheduler> {
        options.check()?;
        // Beside other forwards the measurement would be wrong.
        engine.measure();
        let queue = Arc::new(Queue::new(options.queue));
        let figures = Arc::new(Mutex::new(SchedulerStats::default()));
        let runner = Runner::new(engine.clone(), queue.clone(), figures.clone(), &options)?;
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

    /// Hands in a request; waits while the queue is full.
    ///
    /// # Errors
    /// Only once the scheduler is being dropped. What is wrong with the request itself is told by the
    /// handle.
    pub fn submit(&self, request: Request) -> Result<Handle> {
        self.queue.push(request, true).map_err(|rejected| rejected.error)
    }

    /// Hands in a request, or hands it back if the queue is full.
    ///
    /// # Errors
    /// [`Busy`](ErrorKind::Busy) if the queue is full.
    pub fn try_submit(&self, request: Request) -> Result<Handle, Box<Rejected>> {
        self.queue.push(request, false)
    }

    /// What was done so far.
    pub fn figures(&self) -> SchedulerStats {
        *self.figures.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // Its panics were caught and reported where they belong.
            drop(thread.join());
        }
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("figures", &self.figures()).finish_non_exhaustive()
    }
}
