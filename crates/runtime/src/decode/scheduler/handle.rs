//! The channel between a request in the batch and its caller.
//!
//! Messages are owned copies of the session's events. A caller with its own channel listens instead.
//!
//! # Cost
//!
//! The channel is unbounded, but holds no more than the output and a few numbers per forward.
//!
//! # Alternatives considered
//!
//! A bounded channel was rejected: a slow reader would delay the batch.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::decode::output::Output;
use crate::decode::{CancelToken, Event, Field, ForwardTrace, Stats};
use crate::error::{Error, ErrorKind, Result};

/// An event of a request; an [`Event`] that owns its data.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum HandleEvent {
    /// More text, in complete UTF-8.
    Text(String),
    /// A value of a JSON output has begun, grown or ended.
    Field(Field),
    /// The statistics so far.
    Stats(Box<Stats>),
    /// A step of a traced generation ([`Request::trace`](crate::Request::trace)).
    Forward(Box<ForwardTrace>),
}

/// A message to a listener ([`Scheduler::try_submit_to`](super::Scheduler::try_submit_to)).
#[derive(Debug)]
pub enum HandleMessage {
    /// An event; only requests with [`events`](crate::Request::events) have them.
    Event(HandleEvent),
    /// The request has ended; nothing follows.
    Done(Box<Result<Output>>),
}

/// A submitted request. Dropping the handle cancels the request.
#[derive(Debug)]
pub struct Handle {
    messages: Receiver<HandleMessage>,
    cancel: CancelToken,
    done: Option<Box<Result<Output>>>,
}

/// The scheduler's end of the channel.
pub(super) struct Answer {
    listener: Box<dyn Fn(HandleMessage) + Send>,
    events: bool,
}

/// Creates a handle and the listener that sends to it.
pub(super) fn connected(cancel: &CancelToken) -> (Handle, impl Fn(HandleMessage) + Send + use<>) {
    let (sender, receiver) = channel();
    let handle = Handle { messages: receiver, cancel: cancel.clone(), done: None };
    // The handle may be gone; dropping it has cancelled the request.
    (handle, move |message| drop(sender.send(message)))
}

impl Handle {
    /// Waits for the next event; returns `None` once the request has ended. A request without
    /// [`events`](crate::Request::events) has none: the call then waits for the end.
    pub fn next_event(&mut self) -> Option<HandleEvent> {
        if self.done.is_some() {
            return None;
        }
        self.done = Some(match self.messages.recv() {
            Ok(HandleMessage::Event(occurrence)) => return Some(occurrence),
            Ok(HandleMessage::Done(output)) => output,
            Err(_) => Box::new(Err(dropped())),
        });
        None
    }

    /// Waits for the end of the request, but no longer than `limit`; returns true if it has ended.
    /// [`wait`](Self::wait) then returns at once. Events that come meanwhile are dropped.
    pub fn wait_for(&mut self, limit: Duration) -> bool {
        let start = Instant::now();
        while self.done.is_none() {
            match self.messages.recv_timeout(limit.saturating_sub(start.elapsed())) {
                Ok(HandleMessage::Event(_)) => {}
                Ok(HandleMessage::Done(output)) => self.done = Some(output),
                Err(RecvTimeoutError::Timeout) => return false,
                Err(RecvTimeoutError::Disconnected) => self.done = Some(Box::new(Err(dropped()))),
            }
        }
        true
    }

    /// Waits for the output.
    ///
    /// # Errors
    /// Fails like [`Engine::generate`](crate::Engine::generate).
    /// [`Cancelled`](ErrorKind::Cancelled) if the request was cancelled before it began.
    pub fn wait(mut self) -> Result<Output> {
        while self.next_event().is_some() {}
        match self.done.take() {
            Some(output) => *output,
            // `next_event` has just set it.
            None => Err(dropped()),
        }
    }

    /// Cancels the request before its next forward; [`wait`](Self::wait) returns the output so far.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Returns a token that cancels the request, for other threads.
    pub fn cancel_token(&self) -> CancelToken {
        self.cancel.clone()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Answer {
    pub(super) fn new(listener: impl Fn(HandleMessage) + Send + 'static, events: bool) -> Self {
        Answer { listener: Box::new(listener), events }
    }

    /// Returns true if the request has events enabled.
    pub(super) fn wants_events(&self) -> bool {
        self.events
    }

    pub(super) fn send(&self, event: Event) {
        let occurrence = match event {
            Event::Text(text) => HandleEvent::Text(text.into()),
            Event::Field(field) => HandleEvent::Field(field.clone()),
            Event::Stats(stats) => HandleEvent::Stats(Box::new(stats.clone())),
            Event::Forward(trace) => HandleEvent::Forward(Box::new(trace.clone())),
        };
        (self.listener)(HandleMessage::Event(occurrence));
    }

    pub(super) fn end(self, output: Result<Output>) {
        (self.listener)(HandleMessage::Done(Box::new(output)));
    }
}

fn dropped() -> Error {
    Error::new(ErrorKind::Cancelled, "the scheduler was dropped before the request ended")
}
