//! The state that all connections share: models, limits, and the way of a request through them.

use std::sync::Arc;

use axum::body::Body;
use axum::http::StatusCode;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::ServeOptions;
use super::answer::unix_seconds;
use super::api_error::{ApiError, ApiResult};
use super::body_text::body_text;
use super::fields::Fields;
use super::metrics::Metrics;
use super::model::{LoadedModel, ModelSource, ServedModel};
use super::prepare::{ReadyRequest, prepare};
use super::request::{FormatKind, GenerationRequest};
use super::running::timed_out;
use ffwd_runtime::sample::SamplingParams;

/// Length of a constraint in bytes from which on only one is compiled at a time.
const LARGE_CONSTRAINT: usize = 64 << 10;
/// Number of requests that are made ready at the same time.
const PREPARED_AT_ONCE: usize = 4;

/// The state.
pub(super) struct App {
    pub options: ServeOptions,
    pub models: Vec<ServedModel>,
    pub metrics: Metrics,
    /// The time of the start, in seconds since 1970.
    pub created: u64,
    ready: Arc<Semaphore>,
    large: Arc<Semaphore>,
    pub page: Arc<Semaphore>,
    pub extractions: Arc<Semaphore>,
}

impl App {
    pub(crate) fn new(models: Vec<ModelSource>, options: ServeOptions) -> Self {
        let served = models.into_iter().map(|source| ServedModel::new(source, options.scheduler.clone()));
        App {
            models: served.collect(),
            metrics: Metrics::default(),
            created: unix_seconds(),
            ready: Arc::new(Semaphore::new(PREPARED_AT_ONCE)),
            large: Arc::new(Semaphore::new(1)),
            page: Arc::new(Semaphore::new(1)),
            extractions: Arc::new(Semaphore::new(PREPARED_AT_ONCE)),
            options,
        }
    }

    /// Returns the time at which a request that begins now must have ended.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.options.timeout
    }

    /// Reads a body as text.
    ///
    /// # Errors
    /// 413 above the limit, 408 if it comes too slowly, 400 if it is no text.
    pub(crate) async fn body(&self, body: Body) -> ApiResult<String> {
        let most = self.options.max_body;
        let read = tokio::time::timeout(self.options.body_timeout, axum::body::to_bytes(body, most));
        let bytes = match read.await {
            Err(_) => {
                let message = "the body did not arrive in time";
                return Err(ApiError::new(StatusCode::REQUEST_TIMEOUT, "timeout", message));
            }
            Ok(Err(error)) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                let is_long = source.is_some_and(|text| text.contains("length limit"));
                let (status, message) = match is_long {
                    true => (StatusCode::PAYLOAD_TOO_LARGE, format!("the body has more than {most} bytes")),
                    false => (StatusCode::BAD_REQUEST, format!("the body cannot be read: {error}")),
                };
                return Err(ApiError::new(status, "invalid_body", message));
            }
            Ok(Ok(bytes)) => bytes,
        };
        body_text(bytes.into()).ok_or_else(|| ApiError::field("", "the body is not UTF-8"))
    }

    /// Reads a body into a request, on another thread.
    ///
    /// # Errors
    /// Those of the body and of the function, which gets the default sampling, too. A field that it
    /// does not read is an error.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        body: Body,
        read: impl FnOnce(&mut Fields, &SamplingParams) -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let text = self.body(body).await?;
        let defaults = self.options.sampling.clone();
        let read = move || {
            let mut fields = Fields::body(&text)?;
            let request = read(&mut fields, &defaults)?;
            fields.finish().map(|()| request)
        };
        blocking(read).await
    }

    /// Returns a model; `None` is the first one.
    ///
    /// # Errors
    /// 404 with the names that exist.
    pub(crate) async fn model(&self, name: Option<&str>) -> ApiResult<Arc<LoadedModel>> {
        let found = match name {
            None => self.models.first(),
            Some(name) => self.models.iter().find(|model| model.source.name == name),
        };
        match found {
            Some(model) => model.get().await,
            None => {
                let names: Vec<&str> = self.models.iter().map(|model| model.source.name.as_str()).collect();
                let message = format!("there is no model `{}`", name.unwrap_or_default());
                let error = ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message);
                Err(error.with_param("model").hint(format!("there are: {}", names.join(", "))))
            }
        }
    }

    /// Makes a request ready for its model, on another thread.
    ///
    /// # Errors
    /// 400 for a fault of the request, 504 at the deadline.
    pub(crate) async fn prepare(
        &self,
        request: GenerationRequest,
        events: bool,
        deadline: Instant,
    ) -> ApiResult<(Arc<LoadedModel>, ReadyRequest)> {
        let model = self.model(request.model.as_deref()).await?;
        let size = constraint_size(&request);
        let most = self.options.max_constraint;
        if size > most {
            let message = format!("the constraint has {size} bytes, the limit is {most}");
            return Err(ApiError::new(StatusCode::BAD_REQUEST, "too_complex", message));
        }
        let ready = self.ready.clone();
        let large = (size > LARGE_CONSTRAINT).then(|| self.large.clone());
        let permits = async {
            // Closed by nothing.
            let large = match large {
                Some(large) => large.acquire_owned().await.ok(),
                None => None,
            };
            (large, ready.acquire_owned().await.ok())
        };
        let held = timeout_at(deadline, permits).await.map_err(|_| timed_out())?;
        let of = model.clone();
        let work = blocking(move || {
            let _held = held;
            prepare(&of, request, events)
        });
        let prepared = timeout_at(deadline, work).await.map_err(|_| timed_out())??;
        let arrival = deadline - self.options.timeout;
        self.metrics.admission(arrival.elapsed().as_secs_f64());
        Ok((model, prepared))
    }

    /// Runs work on another thread once it has one of the turns, of which there are only some.
    ///
    /// # Errors
    /// Those of the work; 504 at the deadline, after which the work ends without an answer.
    pub(crate) async fn work_of<T: Send + 'static>(
        &self,
        turns: &Arc<Semaphore>,
        deadline: Instant,
        work: impl FnOnce() -> ApiResult<T> + Send + 'static,
    ) -> ApiResult<T> {
        let turn = timeout_at(deadline, turns.clone().acquire_owned());
        // Closed by nothing.
        let turn = turn.await.map_err(|_| timed_out())?.ok();
        let work = blocking(move || {
            let _turn = turn;
            work()
        });
        timeout_at(deadline, work).await.map_err(|_| timed_out())?
    }
}

/// Runs work on a thread that may block.
///
/// # Errors
/// Those of the work; 500 if it panics, which ends this request only.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or_else(|_| {
        let message = "the request failed inside; this is a fault of the program";
        Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "internal", message))
    })
}

/// Returns the length of the texts of the constraint.
fn constraint_size(request: &GenerationRequest) -> usize {
    let format = request.format.as_ref().map_or(0, |format| match &format.kind {
        FormatKind::JsonObject => 0,
        FormatKind::Choice(list) => list.iter().map(String::len).sum(),
        FormatKind::JsonSchema(text)
        | FormatKind::Regex(text)
        | FormatKind::Grammar(text)
        | FormatKind::StructuralTag(text)
        | FormatKind::Pattern(text) => text.len(),
    });
    format + request.tools.as_ref().map_or(0, |tools| tools.key.len())
}
