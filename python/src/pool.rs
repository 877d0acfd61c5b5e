//! The threads that fill batches.
//!
//! The work begins on the calling thread, and other threads join once it takes longer than their
//! start. A pool belongs to the process that made it: after `fork` its threads are gone, so the
//! child makes its own.
//!
//! # Alternatives considered
//!
//! The global pool of rayon was rejected: a process that forks after its first batch would wait
//! forever in the child. Threads for each call were rejected: starting them takes longer than most
//! batches.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

/// Time that the calling thread works alone.
const ALONE: Duration = Duration::from_micros(50);

static POOL: Mutex<Option<(u32, Arc<ThreadPool>)>> = Mutex::new(None);

/// Returns the threads of this process; `None` if there is one core or none can be started. Must be
/// called with Python's lock held, so that no other thread forks meanwhile.
pub(crate) fn threads(_py: Python<'_>) -> Option<Arc<ThreadPool>> {
    let process = std::process::id();
    let mut pool = POOL.lock().unwrap_or_else(|e| e.into_inner());
    if let Some((owner, threads)) = &*pool
        && *owner == process
    {
        return (threads.current_num_threads() > 1).then(|| threads.clone());
    }
    // Threads of another process cannot be joined.
    std::mem::forget(pool.take());
    let named = ThreadPoolBuilder::new().thread_name(|i| format!("ffwd-{i}"));
    let threads = Arc::new(named.build().ok()?);
    *pool = Some((process, threads.clone()));
    (threads.current_num_threads() > 1).then_some(threads)
}

/// Applies `work` to every item, on several threads if it takes long enough.
pub(crate) fn for_each<T: Send>(
    threads: Option<&ThreadPool>,
    mut items: Vec<T>,
    work: impl Fn(&mut T) + Sync,
) {
    let Some(threads) = threads else {
        items.iter_mut().for_each(work);
        return;
    };
    let start = Instant::now();
    for i in 0..items.len() {
        if i + 1 < items.len() && start.elapsed() > ALONE {
            return threads.install(|| items[i..].par_iter_mut().for_each(&work));
        }
        work(&mut items[i]);
    }
}
