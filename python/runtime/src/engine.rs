//! `Engine`: the loaded models.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use _ffwd::constraint::Constraint;
use ffwd_runtime::chat::{ChatOptions, ChatTemplate, Message};
use ffwd_runtime::decode::Request;
use ffwd_runtime::error::{Error, ErrorKind};
use ffwd_runtime::model::LoadOptions;
use ffwd_runtime::{Prompt, TokenId, Whitespace};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::error::ForPython;
use crate::options::{Options, in_range};
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

/// The prompt of a generation: a text, or a conversation as a JSON array of messages.
pub enum PromptArgument {
    Text(String),
    Messages(String),
}

#[pymethods]
impl Engine {
    #[new]
    #[pyo3(signature = (*, model=None, adapter=None, model_folders=Vec::new(), draft=None, without_draft=false,
        precision="stored", kv="f32", max_context=None, threads=None, chat_template=None, markers=Vec::new()))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        model: Option<PathBuf>,
        adapter: Option<String>,
        model_folders: Vec<PathBuf>,
        draft: Option<PathBuf>,
        without_draft: bool,
        precision: &str,
        kv: &str,
        max_context: Option<i64>,
        threads: Option<i64>,
        chat_template: Option<String>,
        markers: Vec<String>,
    ) -> PyResult<Self> {
        check_process()?;
        let max_context = max_context.map(|n| in_range("max_context", n.into(), 1)).transpose()?;
        let threads: Option<usize> = threads.map(|n| in_range("threads", n.into(), 1)).transpose()?;
        let precision = precision.parse().map_err(PyValueError::new_err)?;
        let kv = kv.parse().map_err(PyValueError::new_err)?;
        let options = LoadOptions { kv, max_context, ..LoadOptions::with_precision(precision) };
        let load = move || -> ffwd_runtime::Result<ffwd_runtime::Engine> {
            let mut builder = ffwd_runtime::Engine::builder().options(options).markers(markers);
            if let Some(threads) = threads {
                builder = builder.threads(threads);
            }
            if let Some(model) = model {
                builder = builder.model(model);
            }
            if let Some(adapter) = adapter {
                builder = builder.adapter(adapter);
            }
            for folder in model_folders {
                builder = builder.model_folder(folder);
            }
            if let Some(template) = chat_template {
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
    #[pyo3(signature = (prompt, messages, constraint, options))]
    fn generate(
        &self,
        py: Python<'_>,
        prompt: Option<String>,
        messages: Option<String>,
        constraint: Option<&Bound<'_, Constraint>>,
        options: Py<Options>,
    ) -> PyResult<String> {
        let (engine, prompt) = (self.engine()?.clone(), prompt_of(prompt, messages)?);
        let constraint = constraint.map(|constraint| constraint.get().inner.clone());
        let work = move |cancel: &_| {
            let request = request(&engine, prompt, constraint)?;
            engine.generate(&options.get().apply(request, cancel))
        };
        run(py, work)?.map(|output| output_json(&output)).for_python(py)
    }

    /// Generates an output; returns an iterator of the pieces of its text.
    #[pyo3(signature = (prompt, messages, constraint, options))]
    fn stream(
        &self,
        prompt: Option<String>,
        messages: Option<String>,
        constraint: Option<&Bound<'_, Constraint>>,
        options: Py<Options>,
    ) -> PyResult<Stream> {
        let (engine, prompt) = (self.engine()?.clone(), prompt_of(prompt, messages)?);
        let constraint = constraint.map(|constraint| constraint.get().inner.clone());
        Stream::texts(engine.clone(), options, move || request(&engine, prompt, constraint))
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
pub fn check_process() -> PyResult<()> {
    let process = std::process::id();
    match PROCESS.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed) {
        Err(owner) if owner != process => Err(PyRuntimeError::new_err(
            "this process was forked from one that has loaded a model, whose threads it lacks; load models \
             after the fork, or start processes with multiprocessing's method \"spawn\"",
        )),
        _ => Ok(()),
    }
}

fn prompt_of(prompt: Option<String>, messages: Option<String>) -> PyResult<PromptArgument> {
    match (prompt, messages) {
        (Some(prompt), None) => Ok(PromptArgument::Text(prompt)),
        (None, Some(messages)) => Ok(PromptArgument::Messages(messages)),
        _ => Err(PyValueError::new_err("either a prompt or messages are needed")),
    }
}

/// Returns the request for an output under a constraint.
fn request(
    engine: &ffwd_runtime::Engine,
    prompt: PromptArgument,
    constraint: Option<ffwd_runtime::Constraint>,
) -> ffwd_runtime::Result<Request> {
    let prompt = match prompt {
        PromptArgument::Text(text) => Prompt::text(text),
        PromptArgument::Messages(json) => {
            let messages: Vec<serde_json::Value> = serde_json::from_str(&json)
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
