//! `Extractor`: one schema made ready for one model.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use _ffwd::options::{Kwargs, read};
use ffwd_engine::constraint::options::WhitespaceOption;
use ffwd_runtime::constraint::KeyOrder;
use ffwd_runtime::constraint::substring::SubstringOptions;
use ffwd_runtime::extract::{Example, PromptForm};
use ffwd_runtime::{Policy, Request};
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use serde::{Deserialize, Serialize};

use crate::engine::{Engine, check_process};
use crate::error::{Failure, ForPython};
use crate::many::Many;
use crate::options::Options;
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

/// The options of an extractor as `ffwd.options.SchemaOptions` describes them.
#[derive(Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct SchemaOptions {
    instructions: String,
    /// Texts with their records as JSON.
    examples: Vec<(String, String)>,
    system: Option<String>,
    prompt: Option<String>,
    prompt_form: Option<String>,
    verbatim: bool,
    whole_words: bool,
    open_objects: bool,
    whitespace: Option<WhitespaceOption>,
    key_order: KeyOrder,
    documents: HashMap<String, String>,
}

#[pymethods]
impl Extractor {
    #[new]
    #[pyo3(signature = (engine, schema, **options))]
    fn new(py: Python<'_>, engine: &Engine, schema: String, options: Option<&Kwargs<'_>>) -> PyResult<Self> {
        let engine = engine.engine()?.clone();
        let options: SchemaOptions = read(py, options)?;
        let policy = Policy {
            whitespace: options
                .whitespace
                .map_or(Ok(engine.whitespace()), WhitespaceOption::read)
                .for_python(py)?,
            key_order: options.key_order,
            closed_objects: !options.open_objects,
            ..Policy::default()
        };
        let spans = match options.whole_words {
            true => SubstringOptions::words(),
            false => SubstringOptions::default(),
        };
        let made = py.detach(|| -> ffwd_runtime::Result<Shared> {
            let mut builder = ffwd_runtime::extract::Extractor::builder(&engine)
                .policy(policy)
                .spans(spans)
                .verbatim(options.verbatim)
                .instructions(options.instructions);
            for (uri, document) in options.documents {
                builder = builder.document(uri, document);
            }
            for (number, (text, record)) in options.examples.into_iter().enumerate() {
                let record = serde_json::from_str(&record).map_err(|error| {
                    let message = format!("the record of example {}: {error}", number + 1);
                    ffwd_runtime::Error::new(ffwd_runtime::ErrorKind::InvalidJson, message)
                })?;
                builder = builder.example(Example::new(text, record));
            }
            if let Some(system) = options.system {
                builder = builder.system(system);
            }
            if let Some(name) = options.prompt_form {
                builder = builder.form(PromptForm::by_name(&name)?);
            }
            if let Some(prompt) = options.prompt {
                builder = builder.prompt(prompt);
            }
            let inner = Arc::new(builder.build(schema)?);
            Ok(Shared { engine: engine.clone(), inner })
        });
        made.map(Extractor).for_python(py)
    }

    /// Extracts a record: its JSON, and details as JSON if they are wanted.
    fn extract(
        &self,
        py: Python<'_>,
        text: String,
        options: Py<Options>,
        wanted: Wanted,
    ) -> PyResult<Record> {
        check_process()?;
        let shared = self.0.clone();
        let work = move |cancel: &_| {
            let request = options.get().apply(shared.request(&text)?, cancel);
            let output = shared.engine.generate(&request)?;
            shared.record(&text, output, wanted, options.get(), cancel)
        };
        run(py, work)?.for_python(py)
    }

    /// Returns an iterator of the partial records of a text, as JSON.
    fn stream(&self, text: String, options: Py<Options>) -> PyResult<Stream> {
        check_process()?;
        let shared = self.0.clone();
        Stream::records(shared.engine.clone(), options, move || shared.request(&text))
    }

    /// Returns an iterator of the records of many texts.
    #[pyo3(signature = (texts, output, options, wanted, **files))]
    fn many(
        &self,
        texts: Bound<'_, PyIterator>,
        output: Option<PathBuf>,
        options: Py<Options>,
        wanted: Wanted,
        files: Option<&Kwargs<'_>>,
    ) -> PyResult<Many> {
        check_process()?;
        let run = read(texts.py(), files)?;
        Many::new(texts, self.0.clone(), options, wanted, (output, run))
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
