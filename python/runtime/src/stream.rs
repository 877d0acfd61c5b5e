//! `Stream`: an output while it is generated.
//!
//! # Cost
//!
//! The channel is unbounded, but holds no more than the output. Each partial record is written as
//! JSON when it is taken.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use ffwd_runtime::decode::{CancelToken, Event, Field, Request};
use ffwd_runtime::extract::PartialRecord;
use ffwd_runtime::{Engine, Output};
use pyo3::prelude::*;

use crate::error::{Failure, ForPython};
use crate::options::Options;
use crate::results::{json, output_json, record};
use crate::run::{panicked, receive, spawn};

/// An output while it is generated: an iterator of pieces of text, or of partial records.
#[pyclass(module = "ffwd_runtime")]
pub struct Stream {
    /// Used by one call at a time, so it is never waited for.
    messages: Mutex<Receiver<Message>>,
    cancel: CancelToken,
    /// For partial records.
    partial: Option<PartialRecord>,
    /// The output as JSON, once it has ended.
    result: Option<String>,
    ended: bool,
}

enum Message {
    Text(String),
    Field(Field),
    Done(Box<ffwd_runtime::Result<Output>>),
}

impl Stream {
    /// Streams the text of an output.
    pub fn texts(
        engine: Arc<Engine>,
        options: Py<Options>,
        request: impl FnOnce() -> ffwd_runtime::Result<Request> + Send + 'static,
    ) -> PyResult<Self> {
        Self::start(engine, options, request, None, |event| match event {
            Event::Text(text) => Some(Message::Text(text.to_owned())),
            _ => None,
        })
    }

    /// Streams the values of a record.
    pub fn records(
        engine: Arc<Engine>,
        options: Py<Options>,
        request: impl FnOnce() -> ffwd_runtime::Result<Request> + Send + 'static,
    ) -> PyResult<Self> {
        Self::start(engine, options, request, Some(PartialRecord::default()), |event| match event {
            Event::Field(field) => Some(Message::Field(field.clone())),
            _ => None,
        })
    }

    fn start(
        engine: Arc<Engine>,
        options: Py<Options>,
        request: impl FnOnce() -> ffwd_runtime::Result<Request> + Send + 'static,
        partial: Option<PartialRecord>,
        message: fn(Event) -> Option<Message>,
    ) -> PyResult<Self> {
        let cancel = CancelToken::new();
        let (sender, messages) = channel();
        let token = cancel.clone();
        spawn(move || {
            let output = request().and_then(|request| {
                let request = options.get().apply(request, &token);
                engine.generate_events(&request, &mut |event| {
                    if let Some(message) = message(event) {
                        send(&sender, message);
                    }
                })
            });
            send(&sender, Message::Done(Box::new(output)));
        })?;
        Ok(Stream { messages: Mutex::new(messages), cancel, partial, result: None, ended: false })
    }

    fn end(&mut self, output: ffwd_runtime::Result<Output>) -> Result<(), Failure> {
        self.ended = true;
        let output = output?;
        let is_record = self.partial.is_some();
        self.result = Some(if is_record { record(output)?.text } else { output_json(&output) });
        Ok(())
    }
}

/// Sends a message. The receiver may be gone; dropping it has cancelled the generation.
fn send(sender: &Sender<Message>, message: Message) {
    drop(sender.send(message));
}

#[pymethods]
impl Stream {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    /// Returns more text; or the record so far as JSON, and the pointers of its complete values.
    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<(String, Vec<String>)>> {
        if self.ended {
            return Ok(None);
        }
        let messages = self.messages.get_mut().unwrap_or_else(PoisonError::into_inner);
        match receive(py, messages)? {
            Some(Message::Text(text)) => Ok(Some((text, Vec::new()))),
            Some(Message::Field(field)) => {
                let partial = self.partial.get_or_insert_default();
                partial.update(&field);
                Ok(Some((json(partial.value()), partial.done().map(str::to_owned).collect())))
            }
            Some(Message::Done(output)) => self.end(*output).map(|()| None).for_python(py),
            None => {
                self.ended = true;
                Err(panicked())
            }
        }
    }

    /// The output or the record, as JSON; None before the end, and after an error.
    #[getter]
    fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// Cancels the generation: it ends before its next forward.
    fn close(&mut self) {
        self.ended = true;
        self.cancel.cancel();
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
