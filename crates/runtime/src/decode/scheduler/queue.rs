//! Queue of requests that wait for their constraint to be compiled, then to join the batch.
//!
//! One bound holds for both stages together, so a slow compilation delays the callers, not the
//! batch. Among the compiled requests the order of submission decides.
//!
//! # Cost
//!
//! Each step costs a lock and a queue operation.
//!
//! # Alternatives considered
//!
//! A queue per stage was rejected: it has two bounds, and a request that is being compiled would
//! count in neither.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::handle::Answer;
use crate::decode::CancelToken;
use crate::decode::engine::Engine;
use crate::decode::request::Request;
use crate::decode::session::Session;
use crate::error::{Error, ErrorKind, Result};
use crate::model::internal;

/// A request that was rejected.
pub struct Rejected {
    /// The request, to be submitted again.
    pub request: Request,
    /// The reason.
    pub error: Error,
}

impl std::fmt::Debug for Rejected {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rejected").field("error", &self.error).finish_non_exhaustive()
    }
}

/// A request that waits to be compiled.
struct Waiting {
    ticket: u64,
    request: Request,
    answer: Answer,
    cancel: CancelToken,
}

/// A compiled request that waits to join the batch.
pub(super) struct Ready {
    /// Position in the order of submission.
    pub ticket: u64,
    pub session: Session,
    pub answer: Answer,
    pub cancel: CancelToken,
    pub compile_seconds: f64,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Waiting>,
    ready: BTreeMap<u64, Ready>,
    /// Number of requests being compiled.
    compiling: usize,
    tickets: u64,
    closed: bool,
}

/// The queue of both stages.
pub(super) struct Queue {
    most: usize,
    state: Mutex<QueueState>,
    /// Notified when the queue has room.
    room: Condvar,
    /// Notified when a request waits to be compiled.
    to_compile: Condvar,
    /// Notified when a request is ready.
    to_run: Condvar,
}

impl Queue {
    pub(super) fn new(most: usize) -> Queue {
        let state = Mutex::new(QueueState::default());
        let [room, to_compile, to_run] = [Condvar::new(), Condvar::new(), Condvar::new()];
        Queue { most, state, room, to_compile, to_run }
    }

    /// Locks the state. Nothing that can panic runs while it is locked.
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Adds a request, whose messages go to `answer`. If the queue is full, waits if `patient`.
    pub(super) fn push(
        &self,
        request: Request,
        answer: Answer,
        cancel: CancelToken,
        patient: bool,
    ) -> Result<(), Box<Rejected>> {
        let mut state = self.lock();
        while !state.closed && state.len() >= self.most {
            if !patient {
                let message = format!("{} requests are waiting, the limit", self.most);
                let error = Error::new(ErrorKind::Busy, message).hint("hand it in again later");
                return Err(Box::new(Rejected { request, error }));
            }
            state = self.room.wait(state).unwrap_or_else(|e| e.into_inner());
        }
        if state.closed {
            let error = Error::new(ErrorKind::Busy, "the scheduler takes no more requests");
            return Err(Box::new(Rejected { request, error }));
        }
        let ticket = state.tickets;
        state.tickets += 1;
        state.waiting.push_back(Waiting { ticket, request, answer, cancel });
        self.to_compile.notify_one();
        Ok(())
    }

    /// Waits for the next request to compile; returns `None` when the queue is closed.
    fn next_to_compile(&self) -> Option<Waiting> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(waiting) = state.waiting.pop_front() {
                state.compiling += 1;
                return Some(waiting);
            }
            state = self.to_compile.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Takes back the result of a compilation; `None` if it failed.
    fn compiled(&self, ready: Option<Ready>) {
        let mut state = self.lock();
        state.compiling -= 1;
        match ready {
            Some(ready) if !state.closed => {
                state.ready.insert(ready.ticket, ready);
                self.to_run.notify_one();
            }
            _ => self.room.notify_one(),
        }
    }

    /// Removes all cancelled requests, and the first ready one if `fits` accepts it. With `wait`,
    /// waits until there is one of these. Takes no first request when the queue is closed.
    pub(super) fn pop(&self, wait: bool, mut fits: impl FnMut(&Session) -> bool) -> Popped {
        let mut state = self.lock();
        loop {
            let gone = state.ready.values().filter(|r| r.cancel.is_cancelled());
            let gone: Vec<u64> = gone.map(|r| r.ticket).collect();
            let cancelled: Vec<Ready> = gone.iter().filter_map(|t| state.ready.remove(t)).collect();
            let first = state.ready.first_entry().filter(|e| fits(&e.get().session)).map(|e| e.remove());
            for _ in 0..cancelled.len() + usize::from(first.is_some()) {
                self.room.notify_one();
            }
            if state.closed || !wait || first.is_some() || !cancelled.is_empty() {
                return Popped { first, cancelled, closed: state.closed };
            }
            state = self.to_run.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }

    /// Closes the queue. Waiting requests are dropped, and their handles report that.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.waiting.clear();
        state.ready.clear();
        self.room.notify_all();
        self.to_compile.notify_all();
        self.to_run.notify_all();
    }
}

/// The requests removed from the queue.
pub(super) struct Popped {
    pub first: Option<Ready>,
    pub cancelled: Vec<Ready>,
    pub closed: bool,
}

impl QueueState {
    fn len(&self) -> usize {
        self.waiting.len() + self.compiling + self.ready.len()
    }
}

/// Compiles requests until the queue is closed.
pub(super) fn compile(engine: &Engine, queue: &Queue) {
    while let Some(waiting) = queue.next_to_compile() {
        let Waiting { ticket, request, answer, cancel } = waiting;
        let start = Instant::now();
        let session = if cancel.is_cancelled() {
            Err(cancelled())
        } else {
            let begin = || engine.session(&request, engine.grammar(&request)?, Some(cancel.clone()));
            // A panic in the compiler must fail this request only, not the batch.
            catch_unwind(AssertUnwindSafe(begin)).unwrap_or_else(|_| Err(internal("compiling it")))
        };
        let compile_seconds = start.elapsed().as_secs_f64();
        queue.compiled(match session {
            Ok(session) => Some(Ready { ticket, session, answer, cancel, compile_seconds }),
            Err(error) => {
                answer.end(Err(error));
                None
            }
        });
    }
}

pub(super) fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the request was cancelled before it began")
}
