//! A sequence of the batch: one request with its session.
//!
//! All work of a single request goes through here, with errors and panics caught: they end this
//! request and no other.
//!
//! # Cost
//!
//! Nothing beyond the cost of the session.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::handle::Answer;
use super::queue::Ready;
use crate::decode::Event;
use crate::decode::drafting::BatchContext;
use crate::decode::output::Output;
use crate::decode::prefix_cache::{MIN_PREFIX_TOKENS, PrefixCache, common};
use crate::decode::session::{NextForward, Session};
use crate::error::Result;
use crate::model::internal;

/// A request in the batch.
pub(super) struct Sequence {
    pub ticket: u64,
    /// `None` once the request has ended.
    pub session: Option<Session>,
    pub answer: Answer,
    compile_seconds: f64,
    /// Bytes reserved for its caches.
    pub bytes: usize,
    /// The forward it needs; `TargetModel` if it has not begun.
    pub need: NextForward,
    /// The result, once the request has ended.
    pub output: Option<Result<Output>>,
    /// (ticket, length): waits for that request to run the common prefix of this length.
    pub follows: Option<(u64, usize)>,
    /// Length of the prompt prefix to be kept for other requests.
    pub keep: Option<usize>,
    /// True if a part of its prompt went through the draft model in this round.
    pub held: bool,
}

impl Sequence {
    pub(super) fn new(ready: Ready, bytes: usize) -> Sequence {
        let Ready { ticket, mut session, answer, compile_seconds, .. } = ready;
        session.start_clock();
        Sequence {
            ticket,
            session: Some(session),
            answer,
            compile_seconds,
            bytes,
            need: NextForward::TargetModel,
            output: None,
            follows: None,
            keep: None,
            held: false,
        }
    }

    /// Returns true if the sequence takes part in this round with this forward.
    pub(super) fn needs(&self, need: &NextForward) -> bool {
        self.session.is_some() && self.follows.is_none() && !self.held && self.need == *need
    }

    pub(super) fn join(&mut self, company: BatchContext) {
        if let Some(session) = &mut self.session {
            session.set_batch_context(company);
        }
    }

    /// Steps the sequence to its next forward, or to its end.
    pub(super) fn step(&mut self) {
        // The sequence it waits for will change its caches.
        let Some(session) = self.session.as_mut().filter(|_| self.follows.is_none()) else { return };
        let answer = &self.answer;
        let mut tell = |event: Event| answer.send(event);
        let mut on_event: Option<&mut dyn FnMut(Event)> =
            if answer.wants_events() { Some(&mut tell) } else { None };
        let step = catch_unwind(AssertUnwindSafe(|| session.step(&mut on_event)));
        match step.unwrap_or_else(|_| Err(internal("being generated"))) {
            Ok(NextForward::Finished(finish)) => {
                let Some(session) = self.session.take() else { return };
                let close = AssertUnwindSafe(|| session.into_output(&finish, &mut on_event));
                let output = catch_unwind(close).map_err(|_| internal("being ended"));
                self.output = Some(output.map(|mut output| {
                    output.stats.compile_seconds = self.compile_seconds;
                    output
                }));
            }
            Ok(need) => self.need = need,
            Err(error) => self.fail(error),
        }
    }

    /// Continues with logits.
    pub(super) fn take(&mut self, rows: Result<Vec<Vec<f32>>>) {
        let Some(session) = &mut self.session else { return };
        let taken = catch_unwind(AssertUnwindSafe(|| session.resume(rows)));
        if let Err(error) = taken.unwrap_or_else(|_| Err(internal("being judged"))) {
            self.fail(error);
        }
    }

    pub(super) fn fail(&mut self, error: crate::error::Error) {
        self.session = None;
        self.output = Some(Err(error));
    }

    /// Begins with the cached prefix of its prompt; returns the number of tokens.
    pub(super) fn adopt(&mut self, prefixes: &mut PrefixCache) -> usize {
        let Some(session) = &mut self.session else { return 0 };
        if let Some(found) = prefixes.find(session.prompt()) {
            session.restore_prefix(found.copy());
        }
        session.cached()
    }

    /// Keeps the prefix of its prompt for other requests once the model has run it.
    pub(super) fn share(&mut self, prefixes: &mut PrefixCache) {
        if let (Some(session), Some(len)) = (&self.session, self.keep)
            && session.cached() >= len
        {
            prefixes.keep(&session.prompt()[..len], session.prefix(len));
            self.keep = None;
        }
    }

    /// Returns the length of the prompt prefix that this sequence runs and `other` could begin
    /// with, if it is long enough to wait for.
    pub(super) fn leads(&self, other: &Session) -> Option<usize> {
        let session = self.session.as_ref().filter(|_| self.follows.is_none())?;
        let most = other.prompt().len().saturating_sub(1);
        let shared = common(session.prompt(), other.prompt()).min(most);
        (shared >= MIN_PREFIX_TOKENS).then_some(shared)
    }
}
