//! Streamed answers as server-sent events.
//!
//! One task drives an answer. It ends as soon as the client hangs up, which cancels the generation
//! before its next forward.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::http::{HeaderValue, Response, header};
use hyper::body::Frame;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::answer::is_cut;
use super::api_error::{ApiError, ApiResult};
use super::app::App;
use super::reply::{ReplyFormat, ReplyPiece, ReplyReader};
use super::running::{RunMessage, Running};
use ffwd_runtime::decode::Output;

/// Number of events that wait for a slow reader.
const WAITING_EVENTS: usize = 32;

/// Writes the events of one protocol.
pub(super) trait EventWriter: Send + 'static {
    /// The events before the first text.
    fn begin(&mut self, events: &mut Events);
    /// A part of an answer.
    fn piece(&mut self, index: usize, piece: &ReplyPiece, events: &mut Events);
    /// The end of an answer.
    fn done(&mut self, index: usize, output: &Output, events: &mut Events);
    /// The end of all answers.
    fn end(&mut self, outputs: &[&Output], events: &mut Events);
    /// A failure after the begin.
    fn fail(&mut self, error: &ApiError, events: &mut Events) {
        events.data(&json!({"error": error.object()}));
    }
}

/// Events as they are sent.
#[derive(Default)]
pub(super) struct Events(String);

impl Events {
    /// Adds an event without a name.
    pub(crate) fn data(&mut self, data: &Value) {
        self.0 += &format!("data: {data}\n\n");
    }

    /// Adds an event with a name.
    pub(crate) fn named(&mut self, name: &str, data: &Value) {
        self.0 += &format!("event: {name}\ndata: {data}\n\n");
    }

    /// Adds the mark of the end.
    pub(crate) fn end(&mut self) {
        self.0 += "data: [DONE]\n\n";
    }

    /// Sends what was added; returns false if the client is gone.
    pub(crate) async fn send(&mut self, sender: &Sender<Bytes>) -> bool {
        self.0.is_empty() || sender.send(std::mem::take(&mut self.0).into()).await.is_ok()
    }
}

/// The body of a streamed answer.
struct EventBody(Receiver<Bytes>);

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Answers with a stream.
///
/// # Errors
/// If the generation fails before its first event.
pub(super) async fn respond(
    app: Arc<App>,
    mut running: Running,
    format: &ReplyFormat,
    choices: usize,
    writer: impl EventWriter,
) -> ApiResult<Response<Body>> {
    // An error before the first event is an answer of its own.
    let first = running.next().await?;
    let readers = (0..choices).map(|_| ReplyReader::new(format.clone())).collect();
    let mut task = StreamTask { app: app.clone(), running, readers, writer, outputs: Vec::new() };
    Ok(event_response(app, |sender| async move { task.run(first, &sender).await }))
}

/// Answers with the events that a task sends. The task says whether it could send all of them; it is
/// dropped when the client hangs up.
pub(super) fn event_response<F>(app: Arc<App>, task: impl FnOnce(Sender<Bytes>) -> F) -> Response<Body>
where
    F: Future<Output = bool> + Send + 'static,
{
    let (sender, receiver) = channel(WAITING_EVENTS);
    let gone = sender.clone();
    let task = task(sender);
    tokio::spawn(async move {
        // The task may notice the hang-up first, by an event that it can not send.
        let sent = tokio::select! {
            () = gone.closed() => false,
            sent = task => sent,
        };
        if !sent {
            app.metrics.abandoned.fetch_add(1, Ordering::Relaxed);
        }
    });
    let mut response = Response::new(Body::new(EventBody(receiver)));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    // Proxies must not collect the events.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

struct StreamTask<W> {
    app: Arc<App>,
    running: Running,
    readers: Vec<ReplyReader>,
    writer: W,
    outputs: Vec<(usize, Output)>,
}

impl<W: EventWriter> StreamTask<W> {
    async fn run(&mut self, first: Option<(usize, RunMessage)>, sender: &Sender<Bytes>) -> bool {
        let mut events = Events::default();
        self.writer.begin(&mut events);
        let mut next: ApiResult<Option<(usize, RunMessage)>> = Ok(first);
        loop {
            match next {
                Ok(Some((index, message))) => self.message(index, message, &mut events),
                Ok(None) => {
                    self.outputs.sort_by_key(|(index, _)| *index);
                    let outputs: Vec<&Output> = self.outputs.iter().map(|(_, output)| output).collect();
                    self.writer.end(&outputs, &mut events);
                    break;
                }
                Err(error) => {
                    self.writer.fail(&error, &mut events);
                    break;
                }
            }
            if !events.send(sender).await {
                return false;
            }
            next = self.running.next().await;
        }
        events.send(sender).await
    }

    fn message(&mut self, index: usize, message: RunMessage, events: &mut Events) {
        let pieces = match &message {
            RunMessage::Text(text) => self.readers[index].push(text),
            RunMessage::Forward | RunMessage::Traced(_) => Vec::new(),
            RunMessage::Done(output) => self.readers[index].finish(is_cut(output)),
        };
        for piece in &pieces {
            self.writer.piece(index, piece, events);
        }
        if let RunMessage::Done(output) = message {
            self.app.metrics.output(&output);
            self.writer.done(index, &output, events);
            self.outputs.push((index, *output));
        }
    }
}
