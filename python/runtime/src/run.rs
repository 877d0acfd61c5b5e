//! Runs a model on a thread of its own while the calling thread watches for signals.
//!
//! # Cost
//!
//! A thread for each call, which takes far less time than a forward.
//!
//! # Alternatives considered
//!
//! Looking for signals in a callback of the generation was rejected: the first forward, over the
//! prompt, may take seconds and cannot be left.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use ffwd_runtime::decode::CancelToken;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

/// Time between two looks for signals.
pub(crate) const PATIENCE: Duration = Duration::from_millis(20);

/// Starts a thread of the model.
///
/// # Errors
/// `RuntimeError` if the system has no more threads.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> PyResult<()> {
    match std::thread::Builder::new().name("ffwd-run".into()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(PyRuntimeError::new_err(format!("a thread cannot be started: {error}"))),
    }
}

/// Waits for the next message without Python's lock; `None` once there are no more.
///
/// # Errors
/// What the handler of a signal raises, such as `KeyboardInterrupt`.
pub(crate) fn receive<T: Send>(py: Python<'_>, messages: &mut Receiver<T>) -> PyResult<Option<T>> {
    loop {
        let waiting = &mut *messages;
        match py.detach(move || waiting.recv_timeout(PATIENCE)) {
            Ok(message) => return Ok(Some(message)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
        }
    }
}

/// Runs `work` on a thread of its own and waits for its result. If the handler of a signal raises,
/// the work is cancelled and left behind: it ends before its next forward.
///
/// # Errors
/// What the handler of a signal raises, and `RuntimeError` if `work` panics.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&CancelToken) -> T + Send + 'static,
) -> PyResult<T> {
    let cancel = CancelToken::new();
    let (sender, mut receiver) = channel();
    let token = cancel.clone();
    // The caller may have left.
    spawn(move || drop(sender.send(work(&token))))?;
    match receive(py, &mut receiver) {
        Ok(Some(result)) => Ok(result),
        Ok(None) => Err(panicked()),
        Err(raised) => {
            cancel.cancel();
            Err(raised)
        }
    }
}

/// The exception for a thread that ended without a result.
pub(crate) fn panicked() -> PyErr {
    PyRuntimeError::new_err(
        "the thread of the model ended without a result; its message is on standard error",
    )
}
