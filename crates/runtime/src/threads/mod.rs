//! The threads of an engine: who helps with a product, and how many there are by default.
//!
//! An engine has a pool of its own if it was given a number of threads. All others share one pool
//! for the process, with a thread for each core ([`default_threads`]). A thread that runs a model
//! installs the pool, and the kernels below find it there. If two engines of one pool work at the
//! same time, the second works alone meanwhile, so that there are no more threads than cores.
//!
//! # Cost
//!
//! See [`pool`]. Workers start with the first work that is worth sharing.
//!
//! # Alternatives considered
//!
//! Passing the pool to every kernel was rejected: most of them only pass it on.

mod balance;
mod cores;
mod pool;

use std::cell::Cell;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

pub use cores::default_threads;
use pool::Pool;

/// Threads that work on forwards together: the one that asks, and workers. Clones are the same
/// threads.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # fn main() -> ffwd_runtime::Result<()> {
/// use ffwd_runtime::{Engine, Threads};
///
/// let two = Threads::new(2);
/// // Both engines take turns on them, with at most two threads at work.
/// let [first, second] = [Engine::builder().threads(&two).build()?, Engine::builder().threads(&two).build()?];
/// assert_eq!(first.threads().number() + second.threads().number(), 4);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Threads(Option<Arc<Pool>>);

thread_local! {
    /// The threads that are installed here. They are taken out while this thread works alone.
    static INSTALLED: Cell<Option<Threads>> = const { Cell::new(None) };
}

/// Puts the threads back that were installed.
struct Restore(Option<Threads>);

impl Restore {
    fn pool(&self) -> Option<&Pool> {
        self.0.as_ref()?.0.as_deref()
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        INSTALLED.set(self.0.take());
    }
}

impl Threads {
    /// Creates threads; none counts as one. They start when they are needed first.
    pub fn new(number: usize) -> Threads {
        Threads((number > 1).then(|| Arc::new(Pool::new(number - 1))))
    }

    /// Returns the threads of all engines that were not given any; see [`default_threads`].
    pub fn shared() -> Threads {
        static SHARED: OnceLock<Threads> = OnceLock::new();
        SHARED.get_or_init(|| Threads::new(default_threads())).clone()
    }

    /// Returns their number.
    pub fn number(&self) -> usize {
        1 + self.0.as_ref().map_or(0, |pool| pool.workers())
    }

    /// Runs `work` on this thread, with these threads as its helpers.
    pub(crate) fn install<R>(&self, work: impl FnOnce() -> R) -> R {
        let _before = Restore(INSTALLED.replace(Some(self.clone())));
        work()
    }

    /// Applies `work` to each item, on all threads; each works alone.
    pub(crate) fn each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync) {
        self.install(|| each(items, work));
    }
}

/// Returns the number of threads that may share the work of this one.
pub(crate) fn number() -> usize {
    let here = Restore(INSTALLED.take());
    1 + here.pool().map_or(0, Pool::workers)
}

/// Runs `work` with the threads that are installed, or with those that all engines share.
pub(crate) fn installed_or_shared<R>(work: impl FnOnce() -> R) -> R {
    let here = Restore(INSTALLED.take());
    let threads = here.0.clone().unwrap_or_else(Threads::shared);
    threads.install(work)
}

/// Runs `work` without help from other threads, which have work of their own.
pub(crate) fn alone<R>(work: impl FnOnce() -> R) -> R {
    let _here = Restore(INSTALLED.take());
    work()
}

/// Runs `work` over chunks of `0..items`, on this thread and at most `helpers` others. Each of them
/// works alone on its chunk.
pub(crate) fn in_chunks(items: usize, helpers: usize, work: impl Fn(Range<usize>) + Sync) {
    let here = Restore(INSTALLED.take());
    match here.pool() {
        Some(pool) if items > 1 && helpers > 0 => pool.run(items, helpers, &work),
        _ if items > 0 => work(0..items),
        _ => {}
    }
}

/// Applies `work` to each item, on all threads; each works alone.
pub(crate) fn each<T: Send>(items: &mut [T], work: impl Fn(&mut T) + Sync) {
    struct Start<T>(*mut T);
    // SAFETY: each item is claimed once, so one thread has it at a time, and it is `Send`.
    unsafe impl<T: Send> Sync for Start<T> {}
    let (start, len) = (&Start(items.as_mut_ptr()), items.len());
    in_chunks(len, usize::MAX, |range| {
        // The whole struct is captured, not the pointer in it.
        let Start(start) = start;
        for i in range {
            // SAFETY: `i` is below the length, and no other thread has this item.
            work(unsafe { &mut *start.add(i) });
        }
    });
}

impl From<&Threads> for Threads {
    fn from(threads: &Threads) -> Threads {
        threads.clone()
    }
}

impl From<usize> for Threads {
    fn from(number: usize) -> Threads {
        Threads::new(number)
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Threads({})", self.number())
    }
}

#[cfg(test)]
mod tests;
