//! A running request: the messages of all of its answers in one channel.
//!
//! Dropping it cancels the answers, which takes effect before their next forward. So a client that
//! hangs up, a time limit and an error all end in the same way.

use axum::http::StatusCode;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::Instant;

use super::api_error::{ApiError, ApiResult};
use super::metrics::Metrics;
use super::model::LoadedModel;
use super::prepare::ReadyRequest;
use ffwd_runtime::decode::{CancelToken, ForwardTrace, HandleEvent, HandleMessage, Output};

/// The answers of a request.
pub(super) struct Running {
    messages: UnboundedReceiver<(usize, HandleMessage)>,
    cancels: Vec<CancelToken>,
    deadline: Instant,
    /// Number of answers that have not ended.
    open: usize,
}

/// A message of an answer.
pub(super) enum RunMessage {
    /// New text.
    Text(String),
    /// A forward has run.
    Forward,
    /// The same, with its trace, if the request asks for it.
    Traced(Box<ForwardTrace>),
    /// The answer has ended.
    Done(Box<Output>),
}

impl Running {
    /// Submits the requests.
    ///
    /// # Errors
    /// 503 if the queue is full; nothing runs then.
    pub(crate) fn start(
        model: &LoadedModel,
        prepared: &mut ReadyRequest,
        deadline: Instant,
    ) -> ApiResult<Self> {
        let (sender, messages) = unbounded_channel();
        let mut running = Running { messages, cancels: Vec::new(), deadline, open: prepared.requests.len() };
        for (i, request) in prepared.requests.drain(..).enumerate() {
            let sender = sender.clone();
            // The receiver may be gone; dropping it has cancelled the request.
            let listener = move |message| drop(sender.send((i, message)));
            match model.scheduler.try_submit_to(request, listener) {
                Ok(cancel) => running.cancels.push(cancel),
                Err(rejected) => return Err(ApiError::general(&rejected.error)),
            }
        }
        Ok(running)
    }

    /// Waits for the next message; `None` if all answers have ended.
    ///
    /// # Errors
    /// The error of an answer, and 504 at the time limit. The others are then cancelled.
    pub(crate) async fn next(&mut self) -> ApiResult<Option<(usize, RunMessage)>> {
        if self.open == 0 {
            return Ok(None);
        }
        let received = tokio::time::timeout_at(self.deadline, self.messages.recv());
        let (index, message) = match received.await {
            Err(_) => return Err(timed_out()),
            Ok(None) => {
                let message = "the server is shutting down";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "shutting_down", message));
            }
            Ok(Some(message)) => message,
        };
        let message = match message {
            HandleMessage::Event(HandleEvent::Text(text)) => RunMessage::Text(text),
            HandleMessage::Event(HandleEvent::Forward(trace)) => RunMessage::Traced(trace),
            HandleMessage::Event(_) => RunMessage::Forward,
            HandleMessage::Done(output) => {
                self.open -= 1;
                RunMessage::Done(Box::new((*output).map_err(|error| ApiError::general(&error))?))
            }
        };
        Ok(Some((index, message)))
    }

    /// Waits for all outputs, and counts them.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub(crate) async fn outputs(mut self, metrics: &Metrics) -> ApiResult<Vec<Output>> {
        let mut outputs: Vec<(usize, Output)> = Vec::new();
        while let Some((index, message)) = self.next().await? {
            if let RunMessage::Done(output) = message {
                outputs.push((index, *output));
            }
        }
        outputs.sort_by_key(|(index, _)| *index);
        outputs.iter().for_each(|(_, output)| metrics.output(output));
        Ok(outputs.into_iter().map(|(_, output)| output).collect())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.cancels.iter().for_each(CancelToken::cancel);
    }
}

/// Returns the error of a request that took too long.
pub(super) fn timed_out() -> Box<ApiError> {
    let message = "the time limit of the server was reached";
    let error = ApiError::new(StatusCode::GATEWAY_TIMEOUT, "timeout", message);
    error.hint("lower `max_tokens`, or raise --timeout of the server")
}
