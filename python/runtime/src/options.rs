//! The options of a generation.

use std::num::NonZeroUsize;

use _ffwd::options::{Kwargs, read};
use ffwd_runtime::TokenId;
use ffwd_runtime::decode::{CancelToken, Mode, Request};
use ffwd_runtime::sample::SamplingParams;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::{Deserialize, Serialize};

/// The options of a generation, checked for type and range.
#[pyclass(frozen, module = "ffwd_runtime")]
pub struct Options {
    options: GenerateOptions,
    mode: Mode,
}

/// The options that `ffwd.options.GenerateOptions` describes.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(default)]
struct GenerateOptions {
    #[serde(flatten)]
    sampling: SamplingParams,
    max_tokens: NonZeroUsize,
    mode: String,
    stop: Vec<String>,
    stop_tokens: Vec<TokenId>,
    close_before_limit: bool,
    guard: Option<Flag>,
    end_at_words: Option<Flag>,
    think_until: Option<String>,
    think_budget: usize,
    draft_model: bool,
    lookup: bool,
    confidence: bool,
    logprobs: bool,
    split_special_tokens: bool,
}

/// True or False where None means neither.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(untagged, expecting = "invalid type, expected True or False")]
pub(crate) enum Flag {
    Is(bool),
}

impl Default for GenerateOptions {
    fn default() -> Self {
        GenerateOptions {
            sampling: SamplingParams::default(),
            max_tokens: NonZeroUsize::MIN.saturating_add(511),
            mode: Mode::default().name().to_owned(),
            stop: Vec::new(),
            stop_tokens: Vec::new(),
            close_before_limit: false,
            guard: None,
            end_at_words: None,
            think_until: None,
            think_budget: 256,
            draft_model: true,
            lookup: true,
            confidence: false,
            logprobs: false,
            split_special_tokens: false,
        }
    }
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Kwargs<'_>>) -> PyResult<Self> {
        let options: GenerateOptions = read(py, options)?;
        if options.stop.iter().any(String::is_empty) {
            return Err(PyValueError::new_err("a stop text is empty"));
        }
        let mode = options.mode.parse().map_err(PyValueError::new_err)?;
        Ok(Options { options, mode })
    }

    /// The options as text, by which an output knows its own.
    pub fn __repr__(&self) -> String {
        format!("{:?}", self.options)
    }
}

impl Options {
    pub fn wants_confidence(&self) -> bool {
        self.options.confidence
    }

    /// Returns true if special tokens in a prompt that is a text are plain text.
    pub fn splits_special(&self) -> bool {
        self.options.split_special_tokens
    }

    /// Sets the options on a request, which `cancel` ends.
    pub fn apply(&self, request: Request, cancel: &CancelToken) -> Request {
        let set = self.options.clone();
        let mut request = request
            .sampling(set.sampling)
            .mode(self.mode)
            .max_tokens(set.max_tokens.get())
            .close_before_limit(set.close_before_limit)
            .draft_model(set.draft_model)
            .lookup(set.lookup)
            .confidence(set.confidence)
            .logprobs(set.logprobs)
            .cancel(cancel);
        request = set.stop.into_iter().fold(request, Request::stop);
        request = set.stop_tokens.into_iter().fold(request, Request::stop_token);
        if let Some(Flag::Is(on)) = set.guard {
            request = request.guard(on);
        }
        if let Some(Flag::Is(on)) = set.end_at_words {
            request = request.end_at_words(on);
        }
        match set.think_until {
            Some(end) => request.think_until(end, set.think_budget),
            None => request,
        }
    }
}
