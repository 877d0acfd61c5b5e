//! The options of a request, checked for type and range.

use ffwd_runtime::decode::{CancelToken, Request};
use ffwd_runtime::sample::SamplingParams;
use ffwd_runtime::{Mode, TokenId};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// The options of a request; their meaning is described in `ffwd.options`.
#[pyclass(frozen, module = "ffwd_runtime")]
pub struct Options(Set);

#[derive(Debug, Clone)]
struct Set {
    sampling: SamplingParams,
    mode: Mode,
    max_tokens: usize,
    stop: Vec<String>,
    stop_tokens: Vec<TokenId>,
    close_before_limit: bool,
    guard: Option<bool>,
    end_at_words: Option<bool>,
    think: Option<(String, usize)>,
    draft: bool,
    lookup: bool,
    confidence: bool,
    logprobs: bool,
}

#[pymethods]
impl Options {
    #[new]
    #[pyo3(signature = (*, max_tokens=512, temperature=0.0, seed=0, top_k=None, top_p=1.0, min_p=0.0,
        repetition_penalty=1.0, presence_penalty=0.0, frequency_penalty=0.0, logit_bias=None,
        mode="exact", stop=None, stop_tokens=None, close_before_limit=false, guard=None,
        end_at_words=None, think_until=None, think_budget=256, draft_model=true, lookup=true,
        confidence=false, logprobs=false))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        max_tokens: i64,
        temperature: f32,
        seed: i128,
        top_k: Option<i64>,
        top_p: f32,
        min_p: f32,
        repetition_penalty: f32,
        presence_penalty: f32,
        frequency_penalty: f32,
        logit_bias: Option<Vec<(i64, f32)>>,
        mode: &str,
        stop: Option<Vec<String>>,
        stop_tokens: Option<Vec<i64>>,
        close_before_limit: bool,
        guard: Option<bool>,
        end_at_words: Option<bool>,
        think_until: Option<String>,
        think_budget: i64,
        draft_model: bool,
        lookup: bool,
        confidence: bool,
        logprobs: bool,
    ) -> PyResult<Self> {
        let token = |id: i64| in_range("a token id", i128::from(id), 0);
        let bias = logit_bias.unwrap_or_default().into_iter();
        let sampling = SamplingParams {
            temperature,
            top_k: top_k.map(|k| in_range("top_k", k.into(), 0)).transpose()?,
            top_p,
            min_p,
            seed: in_range("seed", seed, 0)?,
            repetition_penalty,
            presence_penalty,
            frequency_penalty,
            logit_bias: bias.map(|(id, bias)| Ok((token(id)?, bias))).collect::<PyResult<_>>()?,
        };
        let stop = stop.unwrap_or_default();
        if stop.iter().any(String::is_empty) {
            return Err(PyValueError::new_err("a stop text is empty"));
        }
        let budget = in_range("think_budget", think_budget.into(), 0)?;
        Ok(Options(Set {
            sampling,
            mode: mode.parse().map_err(PyValueError::new_err)?,
            max_tokens: in_range("max_tokens", max_tokens.into(), 1)?,
            stop,
            stop_tokens: stop_tokens.unwrap_or_default().into_iter().map(token).collect::<PyResult<_>>()?,
            close_before_limit,
            guard,
            end_at_words,
            think: think_until.map(|end| (end, budget)),
            draft: draft_model,
            lookup,
            confidence,
            logprobs,
        }))
    }
}

impl std::fmt::Display for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Options {
    pub fn wants_confidence(&self) -> bool {
        self.0.confidence
    }

    /// Sets the options on a request, which `cancel` ends.
    pub fn apply(&self, request: Request, cancel: &CancelToken) -> Request {
        let set = self.0.clone();
        let mut request = request
            .sampling(set.sampling)
            .mode(set.mode)
            .max_tokens(set.max_tokens)
            .close_before_limit(set.close_before_limit)
            .draft_model(set.draft)
            .lookup(set.lookup)
            .confidence(set.confidence)
            .logprobs(set.logprobs)
            .cancel(cancel);
        request = set.stop.into_iter().fold(request, Request::stop);
        request = set.stop_tokens.into_iter().fold(request, Request::stop_token);
        if let Some(on) = set.guard {
            request = request.guard(on);
        }
        if let Some(on) = set.end_at_words {
            request = request.end_at_words(on);
        }
        match set.think {
            Some((end, budget)) => request.think_until(end, budget),
            None => request,
        }
    }
}

/// Returns a number of another type, if it has that many and is not smaller than `least`.
pub fn in_range<T: TryFrom<i128>>(name: &str, value: i128, least: i128) -> PyResult<T> {
    match T::try_from(value) {
        Ok(number) if value >= least => Ok(number),
        _ => Err(PyValueError::new_err(format!("{name} is {value}; expected a number from {least} up"))),
    }
}
