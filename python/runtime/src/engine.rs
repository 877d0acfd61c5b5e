//! `Engine`: the loaded models.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use _ffwd::constraint::Constraint;
use _ffwd::options::{Kwargs, read};
use ffwd_runtime::chat::{ChatOptions, ChatTemplate, Message};
use ffwd_runtime::decode::Request;
use ffwd_runtime::error::{Error, ErrorKind};
use ffwd_runtime::model::LoadOptions;
use ffwd_runtime::{Prompt, TokenId, Whitespace};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::{Deserialize, Serialize};

use crate::error::ForPython;
use crate::options::Options;
use crate::results::output_json;
use crate::run::run;
use crate::stream::Stream;

/// The process that loaded the first model; 0 before.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The models of an engine.
#[pyclass(frozen, module = "ffwd_runtime")]
pub struct Engine {
    inner: Arc<ffwd_runtime::Engine>,
}

/// The options of an engine, but for files; `ffwd.Engine` describes them, and gives the defaults.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct EngineOptions {
    adapter: Option<String>,
    precision: String,
    kv: String,
    max_context: Option<NonZeroUsize>,
    threads: Option<NonZeroUsize>,
    chat_template: Option<String>,
    markers: Vec<String>,
    end_tokens: Vec<String>,
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (model, draft, without_draft, model_folders, **options))]
    fn new(
        py: Python<'_>,
        model: Option<PathBuf>,
        draft: Option<PathBuf>,
        without_draft: bool,
        model_folders: Vec<PathBuf>,
        options: Option<&Kwargs<'_>>,
    ) -> PyResult<Self> {
        check_process()?;
        let options: EngineOptions = read(py, options)?;
        let precision = options.precision.parse().map_err(PyValueError::new_err)?;
        let kv = options.kv.parse().map_err(PyValueError::new_err)?;
        let max_context = options.max_context.map(NonZeroUsize::get);
        let load = LoadOptions { kv, max_context, ..LoadOptions::with_precision(precision) };
        let load = move || -> ffwd_runtime::Result<ffwd_runtime::Engine> {
            let mut builder = ffwd_runtime::Engine::builder()
                .options(load)
                .markers(options.markers)
                .end_tokens(options.end_tokens);
            if let Some(threads) = options.threads {
                builder = builder.threads(threads.get());
            }
            if let Some(model) = model {
                builder = builder.model(model);
            }
            if let Some(adapter) = options.adapter {
                builder = builder.adapter(adapter);
            }
            for folder in model_folders {
                builder = builder.model_folder(folder);
            }
            if let Some(template) = options.chat_template {
                builder = builder.chat_template(ChatTemplate::new(&template)?);
            }
            builder = match draft {
                _ if without_draft => builder.without_draft_model(),
                Some(draft) => builder.draft_model(draft),
                None => builder,
            };
            builder.build()
        };
        let inner = run(py, move |_| load())?.for_python(py)?;
        Ok(Engine { inner: Arc::new(inner) })
    }

    /// Generates an output; returns it as JSON.
    #[pyo3(signature = (prompt, is_chat, constraint, options))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: String,
        is_chat: bool,
        constraint: Option<&Bound<'_, Constraint>>,
        options: Py<Options>,
    ) -> PyResult<String> {
        let engine = self.engine()?.clone();
        let constraint = constraint.map(|constraint| constraint.get().inner.clone());
        let work = move |cancel: &_| {
            let options = options.get();
            let request = request(&engine, prompt, is_chat, options.splits_special(), constraint)?;
            engine.generate(&options.apply(request, cancel))
        };
        run(py, work)?.map(|output| output_json(&output)).for_python(py)
    }

    /// Generates an output; returns an iterator of the pieces of its text.
    #[pyo3(signature = (prompt, is_chat, constraint, options))]
    fn stream(
        &self,
        prompt: String,
        is_chat: bool,
        constraint: Option<&Bound<'_, Constraint>>,
        options: Py<Options>,
    ) -> PyResult<Stream> {
        let engine = self.engine()?.clone();
        let constraint = constraint.map(|constraint| constraint.get().inner.clone());
        let splits = options.get().splits_special();
        Stream::texts(engine.clone(), options, move || request(&engine, prompt, is_chat, splits, constraint))
    }

    /// Returns the ids of a text.
    fn encode(&self, py: Python<'_>, text: &str) -> PyResult<Vec<TokenId>> {
        py.detach(|| self.inner.vocabulary().encode(text)).for_python(py)
    }

    /// Returns the bytes of ids; those that are no tokens have none.
    fn decode<'py>(&self, py: Python<'py>, tokens: Vec<TokenId>) -> PyResult<Bound<'py, PyBytes>> {
        let vocab = self.inner.vocabulary();
        match tokens.iter().find(|&&token| token as usize >= vocab.logits_size()) {
            Some(token) => Err(PyValueError::new_err(format!(
                "token {token} is out of range: ids are 0 to {}",
                vocab.logits_size() - 1
            ))),
            None => Ok(PyBytes::new(py, &vocab.decode(&tokens))),
        }
    }

    /// Width of the model's logits.
    #[getter]
    fn logits_size(&self) -> usize {
        self.inner.vocabulary().logits_size()
    }

    /// Largest number of tokens of a prompt and its output.
    #[getter]
    fn context_size(&self) -> usize {
        self.inner.target().config().context
    }

    /// Number of threads of a forward.
    #[getter]
    fn threads(&self) -> usize {
        self.inner.threads().number()
    }

    /// True if there is a draft model.
    #[getter]
    fn has_draft(&self) -> bool {
        self.inner.draft().is_some()
    }

    /// The whitespace in JSON that suits the model, as an option of constraints.
    #[getter]
    fn whitespace(&self) -> &'static str {
        match self.inner.whitespace() {
            Whitespace::SingleSpace => "single_space",
            _ => "compact",
        }
    }
}

impl Engine {
    /// Returns the engine.
    ///
    /// # Errors
    /// `RuntimeError` in another process than the one that loaded it: its threads are not there.
    pub fn engine(&self) -> PyResult<&Arc<ffwd_runtime::Engine>> {
        check_process().map(|()| &self.inner)
    }
}

/// # Errors
/// `RuntimeError` in a child that was forked from a process with a model.
pub(crate) fn check_process() -> PyResult<()> {
    let process = std::process::id();
    match PROCESS.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != process => Err(PyRuntimeError::new_err(
            "this process was forked from one that has loaded a model, whose threads it lacks; load models \
             after the fork, or start processes with multiprocessing's method \"spawn\"",
        )),
        _ => Ok(()),
    }
}

/// Returns the request for an output under a constraint. The prompt of a chat is a JSON array of its
/// messages.
fn request(
    engine: &ffwd_runtime::Engine,
    prompt: String,
    is_chat: bool,
    splits_special: bool,
    constraint: Option<ffwd_runtime::Constraint>,
) -> ffwd_runtime::Result<Request> {
    let prompt = match is_chat {
        false if splits_special => Prompt::text(prompt),
        false => Prompt::raw(prompt),
        true => {
            let messages: Vec<serde_json::Value> = serde_json::from_str(&prompt)
                .map_err(|error| Error::new(ErrorKind::InvalidJson, format!("the messages: {error}")))?;
            let messages =
                messages.into_iter().map(Message::from_json).collect::<ffwd_runtime::Result<Vec<_>>>()?;
            engine.chat_prompt(&messages, &ChatOptions::default())?
        }
    };
    let request = Request::new(prompt);
    Ok(match constraint {
        Some(constraint) => request.constraint(constraint),
        None => request,
    })
}
