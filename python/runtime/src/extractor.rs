//! `Extractor`: one schema made ready for one model.

use std::collections::HashMap;
use std::sync::Arc;

use _ffwd::constraint::json_policy;
use ffwd_runtime::constraint::substring::SubstringOptions;
use ffwd_runtime::extract::Example;
use ffwd_runtime::{Policy, Request};
use pyo3::prelude::*;
use pyo3::types::PyIterator;

use crate::engine::Engine;
use crate::error::{Failure, ForPython};
use crate::many::{Many, Output};
use crate::options::{Options, in_range};
use crate::results::{Record, Wanted, record_of};
use crate::run::run;
use crate::stream::Stream;

/// A schema made ready for a model.
#[pyclass(frozen, module = "ffwd_runtime")]
pub struct Extractor(Shared);

/// What the threads of a call share.
#[derive(Clone)]
pub struct Shared {
    pub engine: Arc<ffwd_runtime::Engine>,
    inner: Arc<ffwd_runtime::extract::Extractor>,
}

#[pymethods]
impl Extractor {
    #[new]
    #[pyo3(signature = (engine, schema, *, instructions="", examples=Vec::new(), system=None, prompt=None,
        verbatim=false, whole_words=false, open_objects=false, whitespace=None, key_order="declared",
        documents=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        py: Python<'_>,
        engine: &Engine,
        schema: String,
        instructions: &str,
        examples: Vec<(String, String)>,
        system: Option<String>,
        prompt: Option<String>,
        verbatim: bool,
        whole_words: bool,
        open_objects: bool,
        whitespace: Option<&Bound<'_, PyAny>>,
        key_order: &str,
        documents: Option<HashMap<String, String>>,
    ) -> PyResult<Self> {
        let engine = engine.engine()?.clone();
        let own = Policy { whitespace: engine.whitespace(), ..json_policy(None, Some(key_order))? };
        let policy = match whitespace {
            None => own,
            some => json_policy(some, Some(key_order))?,
        };
        let policy = Policy { closed_objects: !open_objects, ..policy };
        let spans = if whole_words { SubstringOptions::words() } else { SubstringOptions::default() };
        let instructions = instructions.to_owned();
        let made = py.detach(|| -> ffwd_runtime::Result<Shared> {
            let mut builder = ffwd_runtime::extract::Extractor::builder(&engine)
                .policy(policy)
                .spans(spans)
                .verbatim(verbatim)
                .instructions(instructions);
            for (uri, document) in documents.into_iter().flatten() {
                builder = builder.document(uri, document);
            }
            for (number, (text, record)) in examples.into_iter().enumerate() {
                let record = serde_json::from_str(&record).map_err(|error| {
                    let message = format!("the record of example {}: {error}", number + 1);
                    ffwd_runtime::Error::new(ffwd_runtime::ErrorKind::InvalidJson, message)
                })?;
                builder = builder.example(Example::new(text, record));
            }
            if let Some(system) = system {
                builder = builder.system(system);
            }
            if let Some(prompt) = prompt {
                builder = builder.prompt(prompt);
            }
            let inner = Arc::new(builder.build(schema)?);
            Ok(Shared { engine: engine.clone(), inner })
        });
        made.map(Extractor).for_python(py)
    }

    /// Extracts a record: its JSON, and details as JSON if they are wanted.
    #[pyo3(signature = (text, options, details, alternatives))]
    fn extract(
        &self,
        py: Python<'_>,
        text: String,
        options: Py<Options>,
        details: bool,
        alternatives: bool,
    ) -> PyResult<Record> {
        self.check()?;
        let shared = self.0.clone();
        let wanted = Wanted { details, alternatives };
        let work = move |cancel: &_| {
            let request = options.get().apply(shared.request(&text)?, cancel);
            let output = shared.engine.generate(&request)?;
            shared.record(&text, output, wanted, options.get(), cancel)
        };
        run(py, work)?.for_python(py)
    }

    /// Returns an iterator of the partial records of a text, as JSON.
    fn stream(&self, text: String, options: Py<Options>) -> PyResult<Stream> {
        self.check()?;
        let shared = self.0.clone();
        Stream::records(shared.engine.clone(), options, move || shared.request(&text))
    }

    /// Returns an iterator of the records of many texts.
    #[pyo3(signature = (texts, batch, output, options, details, alternatives))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn many(
        &self,
        py: Python<'_>,
        texts: Py<PyIterator>,
        batch: i64,
        output: Output,
        options: Py<Options>,
        details: bool,
        alternatives: bool,
    ) -> PyResult<Many> {
        self.check()?;
        let batch = in_range("batch", batch.into(), 1)?;
        let wanted = Wanted { details, alternatives };
        Many::new(py, self.0.clone(), texts, batch, options, wanted, output)
    }

    /// Returns the prompt about a text.
    fn prompt(&self, py: Python<'_>, text: &str) -> PyResult<String> {
        self.0.inner.prompt(text).map(|prompt| prompt.to_text()).for_python(py)
    }

    /// The warnings about the schema.
    #[getter]
    fn warnings(&self) -> Vec<(&'static str, String, Option<&str>)> {
        let warnings = self.0.inner.warnings().iter();
        warnings.map(|w| (w.kind().code(), w.message().into(), w.pointer())).collect()
    }
}

impl Extractor {
    /// # Errors
    /// In another process than that of the engine.
    fn check(&self) -> PyResult<()> {
        crate::engine::check_process()
    }
}

impl Shared {
    pub fn extractor(&self) -> ffwd_runtime::extract::Extractor {
        ffwd_runtime::extract::Extractor::clone(&self.inner)
    }

    /// Returns the request for the record in a text.
    pub fn request(&self, text: &str) -> ffwd_runtime::Result<Request> {
        self.inner.request(text)
    }

    /// Returns the record of the output of a request about `text`.
    pub fn record(
        &self,
        text: &str,
        output: ffwd_runtime::Output,
        wanted: Wanted,
        options: &Options,
        cancel: &ffwd_runtime::decode::CancelToken,
    ) -> Result<Record, Failure> {
        let again = || Ok(options.apply(self.request(text)?, cancel));
        record_of(&self.engine, text, output, wanted, again)
    }
}
