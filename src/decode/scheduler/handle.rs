//! The two ends of the channel between a request in the batch and whoever asked for it.
//!
//! Messages are owned copies of the session's events; the channel is unbounded, but what goes through it
//! is no more than the output and a few numbers per forward. A bounded one was rejected: a slow reader
//! would hold up the batch.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::decode::engine::Output;
use crate::decode::{CancelToken, Event, Field, Stats};
use crate::error::{Error, ErrorKind, Result};

/// Something that has happened in a request; an [`Event`] that can be kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum HandleEvent {
    /// More text, in complete UTF-8.
    Text(String),
    /// A value of a JSON output has begun, grown or ended.
    Field(Field),
    /// The figures so far.
    Stats(Box<Stats>),
}

enum Message {
    Occurrence(HandleEvent),
    Done(Box<Result<Output>>),
}

/// A request that was handed in. Dropping it cancels the request.
#[derive(Debug)]
pub struct Handle {
    messages: Receiver<Message>,
    cancel: CancelToken,
    done: Option<Box<Result<Output>>>,
}

/// The other end.
pub(super) struct Answer {
    messages: Sender<Message>,
    events: bool,
}

/// Both ends.
pub(super) fn connected(events: bool) -> (Handle, Answer, CancelToken) {
    let (sender, receiver) = channel();
    let cancel = CancelToken::new();
    let handle = Handle { messages: receiver, cancel: cancel.clone(), done: None };
    (handle, Answer { messages: sender, events }, cancel)
}

impl Handle {
    /// The next thing that happens; none once the request has come to its end. Always none at once if the
    /// request did not ask for [`events`](crate::Request::events): then it waits for the end.
    pub fn next_event(&mut self) -> Option<HandleEvent> {
        if self.done.is_some() {
            return None;
        }
        match self.messages.recv() {
            Ok(Message::Occurrence(occurrence)) => Some(occurrence),
            Ok(Message::Done(output)) => {
                self.done = Some(output);
                None
            }
            Err(_) => {
                self.done = Some(Box::new(Err(dropped())));
                None
            }
        }
    }

    /// Waits for the output.
    ///
    /// # Errors
    /// What [`Engine::generate`](crate::Engine::generate) would report; and
    /// [`Cancelled`](ErrorKind::Cancelled) if the request was cancelled before it began.
    pub fn wait(mut self) -> Result<Output> {
        while self.next_event().is_some() {}
        match self.done.take() {
            Some(output) => *output,
            // `next_event` has just set it.
            None => Err(dropped()),
        }
    }

    /// Ends the request before its next forward; the output so far is what [`wait`](Self::wait) gives.
    pub fn cancel(&self) {
        self.cancel.cancel();
    }

    /// A token that cancels the request, for other threads.
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
    /// Whether anybody wants events.
    pub fn wants_events(&self) -> bool {
        self.events
    }

    pub fn tell(&self, event: Event) {
        let occurrence = match event {
            Event::Text(text) => HandleEvent::Text(text.into()),
            Event::Field(field) => HandleEvent::Field(field.clone()),
            Event::Stats(stats) => HandleEvent::Stats(Box::new(stats.clone())),
        };
        // Nobody may be left to be told; dropping the handle has cancelled the request.
        drop(self.messages.send(Message::Occurrence(occurrence)));
    }

    pub fn end(self, output: Result<Output>) {
        drop(self.messages.send(Message::Done(Box::new(output))));
    }
}

fn dropped() -> Error {
    Error::new(ErrorKind::Cancelled, "the scheduler was dropped before the request ended")
}
