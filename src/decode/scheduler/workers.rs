//! Threads that do for many sequences what no model does.
//!
//! Work is handed over only from a few sequences on: waking a thread costs some microseconds, about what
//! stepping a sequence over a small vocabulary does. They are threads of this scheduler: the global pool
//! may be one thread wide or busy.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};

/// Sequences from which on they are spread.
const FEWEST: usize = 4;

/// The threads; there may be none.
pub(super) struct Workers(Option<ThreadPool>);

impl Workers {
    pub fn new(threads: usize) -> Result<Workers> {
        if threads == 0 {
            return Ok(Workers(None));
        }
        let named = ThreadPoolBuilder::new().thread_name(|i| format!("ffwd-helper-{i}"));
        let pool = named.num_threads(threads).build().map_err(|e| {
            Error::new(ErrorKind::Busy, format!("threads cannot be started: {e}"))
                .hint("raise the limit on threads, or use fewer")
        })?;
        Ok(Workers(Some(pool)))
    }

    /// How many threads there are, the scheduler's own among them.
    pub fn threads(&self) -> usize {
        1 + self.0.as_ref().map_or(0, ThreadPool::current_num_threads)
    }

    /// Does `work` to each part, the first on this thread and the others on the helpers; the results in
    /// the order of the parts.
    pub fn parts<T: Send, R: Send>(
        &self,
        parts: Vec<&mut [T]>,
        work: impl Fn(&mut [T]) -> R + Sync,
    ) -> Vec<R> {
        let mut jobs: Vec<(&mut [T], Option<R>)> = parts.into_iter().map(|p| (p, None)).collect();
        let run = |job: &mut (&mut [T], Option<R>)| job.1 = Some(work(job.0));
        match (&self.0, jobs.split_first_mut()) {
            (Some(pool), Some((own, others))) => pool.in_place_scope(|scope| {
                for job in others {
                    scope.spawn(|_| run(job));
                }
                run(own);
            }),
            _ => jobs.iter_mut().for_each(run),
        }
        // Each has run: the scope ends with the last of them.
        jobs.into_iter().filter_map(|j| j.1).collect()
    }

    /// Does `work` to each item, on this thread and the helpers.
    pub fn each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync) {
        let Some(pool) = self.0.as_ref().filter(|_| items.len() >= FEWEST) else {
            items.iter_mut().for_each(work);
            return;
        };
        let share = items.len().div_ceil(pool.current_num_threads() + 1);
        let mut parts = items.chunks_mut(share);
        let own = parts.next().unwrap_or_default();
        pool.in_place_scope(|scope| {
            for part in parts {
                scope.spawn(|_| part.iter_mut().for_each(&work));
            }
            own.iter_mut().for_each(&work);
        });
    }

    /// Does `aside` to all items on the helpers while `main` runs here, if there are helpers; tells whether
    /// it was done.
    pub fn beside<T: Send, R>(
        &self,
        items: &mut [T],
        aside: impl Fn(&mut T) + Sync,
        main: impl FnOnce() -> R,
    ) -> (R, bool) {
        let Some(pool) = self.0.as_ref().filter(|_| !items.is_empty()) else { return (main(), false) };
        let share = items.len().div_ceil(pool.current_num_threads());
        let result = pool.in_place_scope(|scope| {
            for part in items.chunks_mut(share) {
                scope.spawn(|_| part.iter_mut().for_each(&aside));
            }
            main()
        });
        (result, true)
    }
}
