//! A request in the batch.
//!
//! All that a request does by itself goes through here, with errors and panics caught: they end it and
//! nobody else. Cost: nothing beside the session's own.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::handle::Answer;
use super::queue::{Ready, internal};
use crate::decode::Event;
use crate::decode::engine::Output;
use crate::decode::prefix_cache::{FEWEST, PrefixCache, common};
use crate::decode::session::{BatchContext, NextForward, Session};
use crate::error::Result;

/// A request with its place in the batch.
pub(super) struct Active {
    pub ticket: u64,
    /// None once it has come to its end.
    pub session: Option<Session>,
    pub answer: Answer,
    compile_seconds: f64,
    /// Bytes set aside for its caches.
    pub bytes: usize,
    /// What it needs; `Draft` if it has not begun.
    pub need: NextForward,
    /// The end.
    pub output: Option<Result<Output>>,
    /// Waits for a request (its ticket) that is running so many tokens both begin with.
    pub follows: Option<(u64, usize)>,
    /// How much of its prompt is to be kept for others.
    pub keep: Option<usize>,
    /// A part of its prompt went through the draft model in this round.
    pub held: bool,
}

impl Active {
    pub fn new(ready: Ready, bytes: usize) -> Active {
        let Ready { ticket, mut session, answer, compile_seconds, .. } = ready;
        session.start_clock();
        Active {
            ticket,
            session: Some(session),
            answer,
            compile_seconds,
            bytes,
            need: NextForward::Target,
            output: None,
            follows: None,
            keep: None,
            held: false,
        }
    }

    /// Whether it takes part in this round.
    pub fn needs(&self, need: &NextForward) -> bool {
        self.session.is_some() && self.follows.is_none() && !self.held && self.need == *need
    }

    pub fn join(&mut self, company: BatchContext) {
        if let Some(session) = &mut self.session {
            session.set_batch_context(company);
        }
    }

    /// Brings it to its next forward, or to its end.
    pub fn step(&mut self) {
        // What it follows will change its caches.
        let Some(session) = self.session.as_mut().filter(|_| self.follows.is_none()) else { return };
        let answer = &self.answer;
        let mut tell = |event: Event| answer.tell(event);
        let mut on_event: Option<&mut dyn FnMut(Event)> =
            if answer.wants_events() { Some(&mut tell) } else { None };
        let step = catch_unwind(AssertUnwindSafe(|| session.step(&mut on_event)));
        match step.unwrap_or_else(|_| Err(internal("being generated"))) {
            Ok(NextForward::Nothing(finish)) => {
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

    /// Goes on with logits.
    pub fn take(&mut self, rows: Result<Vec<Vec<f32>>>) {
        let Some(session) = &mut self.session else { return };
        let taken = catch_unwind(AssertUnwindSafe(|| session.resume(&self.need, rows)));
        if let Err(error) = taken.unwrap_or_else(|_| Err(internal("being judged"))) {
            self.fail(error);
        }
    }

    pub fn fail(&mut self, error: crate::error::Error) {
        self.session = None;
        self.output = Some(Err(error));
    }

    /// Begins with what is kept of its prompt; how many tokens that are.
    pub fn adopt(&mut self, prefixes: &mut PrefixCache) -> usize {
        let Some(session) = &mut self.session else { return 0 };
        if let Some(found) = prefixes.find(session.prompt()) {
            session.restore_prefix(found.copy());
        }
        session.cached()
    }

    /// Keeps the beginning of its prompt for others if that is through the model.
    pub fn share(&mut self, prefixes: &mut PrefixCache) {
        if let (Some(session), Some(len)) = (&self.session, self.keep)
            && session.cached() >= len
        {
            prefixes.keep(&session.prompt()[..len], session.prefix(len));
            self.keep = None;
        }
    }

    /// How much of `other`'s prompt this one is running for itself and `other` could begin with, if that
    /// is worth waiting for.
    pub fn leads(&self, other: &Session) -> Option<usize> {
        let session = self.session.as_ref().filter(|_| self.follows.is_none())?;
        let most = other.prompt().len().saturating_sub(1);
        let shared = common(session.prompt(), other.prompt()).min(most);
        (shared >= FEWEST).then_some(shared)
    }
}
