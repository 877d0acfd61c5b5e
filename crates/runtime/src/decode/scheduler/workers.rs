//! Worker threads for the work of many sequences outside the models.
//!
//! The threads belong to this scheduler: the global pool may have a single thread or be busy.
//!
//! # Cost
//!
//! Waking a thread costs some microseconds, about as much as stepping a sequence over a small
//! vocabulary. Work is therefore spread only from a few sequences upwards.

use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::error::{Error, ErrorKind, Result};

/// Smallest number of sequences that are spread over threads.
const MIN_SPREAD_ITEMS: usize = 4;

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

    /// Returns the number of threads, the scheduler's own included.
    pub fn threads(&self) -> usize {
        1 + self.0.as_ref().map_or(0, ThreadPool::current_num_threads)
    }

    /// Applies `work` to each part, the first on this thread and the others on the helpers. Returns
    /// the results in the order of the parts.
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

    /// Applies `work` to each item, on this thread and the helpers.
    pub fn each<T: Send>(&self, items: &mut [T], work: impl Fn(&mut T) + Sync) {
        let Some(pool) = self.0.as_ref().filter(|_| items.len() >= MIN_SPREAD_ITEMS) else {
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

    /// Applies `aside` to all items on the helpers while `main` runs here. Returns false, without
    /// applying it, if there are no helpers.
    pub fn run_alongside<T: Send, R>(
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
