//! `Many`: the records of many texts, in their order.
//!
//! This is `ffwd_runtime::extract::corpus::CorpusRun` for an iterator of Python: texts are taken on the
//! calling thread with Python's lock, and the wait for a record can be interrupted and continued.
//!
//! # Cost
//!
//! At most two batches of texts are in work, so memory does not grow with the number of texts.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use ffwd_runtime::decode::{CancelToken, SchedulerOptions};
use ffwd_runtime::extract::corpus::{CorpusOptions, CorpusRun, Document, GroundingOptions, Places, Start};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString, PyTuple};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ForPython;
use crate::extractor::Shared;
use crate::files::FileText;
use crate::options::Options;
use crate::results::{Record, Wanted, placed, resumed};
use crate::run::{PATIENCE, run};

/// The records of many texts.
#[pyclass(module = "ffwd_runtime")]
pub struct Many {
    shared: Shared,
    /// `None` once there are no more.
    texts: Option<Py<PyIterator>>,
    /// True once the iterator of texts has raised, and its exception was returned.
    is_broken: bool,
    options: Py<Options>,
    wanted: Wanted,
    /// What the next records are of.
    items: VecDeque<Item>,
    /// It is used by one call at a time, so it is never waited for; `None` once it has ended.
    run: Option<Mutex<CorpusRun>>,
    /// Largest number of texts in work.
    ahead: usize,
}

/// A text that was given to the run, or what is no text.
enum Item {
    Text(Origin),
    Failed(PyErr),
    /// The iterator of texts raised.
    Broken(PyErr),
}

/// A text in work, and where it comes from.
pub(crate) struct Origin {
    text: String,
    /// Of a file.
    pub source: Option<String>,
    pub places: Option<Arc<Places>>,
}

/// How many texts run, and what becomes of an output that exists; see `ffwd.options.RunOptions`.
#[derive(Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunOptions {
    batch: NonZeroUsize,
    start: Start,
    keep_stale: bool,
}

impl Default for RunOptions {
    fn default() -> Self {
        RunOptions { batch: NonZeroUsize::MIN.saturating_add(15), start: Start::New, keep_stale: false }
    }
}

impl Many {
    pub fn new(
        texts: Bound<'_, PyIterator>,
        shared: Shared,
        options: Py<Options>,
        wanted: Wanted,
        (output, run): (Option<PathBuf>, RunOptions),
    ) -> PyResult<Self> {
        let py = texts.py();
        let batch = run.batch.get();
        let confidence = options.get().wants_confidence() && output.is_some();
        let corpus = CorpusOptions {
            scheduler: SchedulerOptions::with_batch(batch),
            grounding: GroundingOptions { confidence, ..GroundingOptions::default() },
            output,
            start: run.start,
            keep_stale: run.keep_stale,
            made_by: vec![("options".to_owned(), options.get().__repr__())],
            ..CorpusOptions::default()
        };
        let set = options.clone_ref(py);
        let set = Box::new(move |request| Ok(set.get().apply(request, &CancelToken::new())));
        let (engine, extractor) = (shared.engine.clone(), shared.extractor());
        let run = py.detach(|| CorpusRun::new(engine, extractor, corpus, set)).for_python(py)?;
        let (texts, items, run) = (Some(texts.unbind()), VecDeque::new(), Some(Mutex::new(run)));
        Ok(Many {
            shared,
            texts,
            is_broken: false,
            options,
            wanted,
            items,
            run,
            ahead: batch.saturating_mul(2),
        })
    }

    /// Takes texts until enough are in work. An exception of the iterator of texts comes after the
    /// records of the texts before it.
    fn take_texts(&mut self, py: Python<'_>) -> PyResult<()> {
        while self.items.len() < self.ahead
            && let Some(texts) = &self.texts
        {
            let item = match texts.bind(py).clone().next() {
                Some(Ok(text)) => self.submit(py, text)?,
                Some(Err(error)) => {
                    self.texts = None;
                    if !error.is_instance_of::<PyException>(py) {
                        return Err(error);
                    }
                    Item::Broken(error)
                }
                None => {
                    self.texts = None;
                    break;
                }
            };
            self.items.push_back(item);
        }
        Ok(())
    }

    fn submit(&mut self, py: Python<'_>, text: Bound<'_, PyAny>) -> PyResult<Item> {
        if let Ok(file) = text.cast::<FileText>() {
            return Ok(file
                .borrow_mut()
                .0
                .take()
                .map_or_else(|| Item::Failed(closed()), |own| self.push(py, own)));
        }
        let (id, text) = match text.cast::<PyTuple>() {
            Ok(pair) if pair.len() == 2 => match id_of(&pair.get_item(0)?) {
                Ok(id) => (id, pair.get_item(1)?),
                Err(error) => return Ok(Item::Failed(error)),
            },
            _ => (None, text),
        };
        let Ok(text) = text.cast::<PyString>() else {
            let name = text.get_type().name()?;
            return Ok(Item::Failed(PyTypeError::new_err(format!("a text is {name}; expected str"))));
        };
        let text = match text.extract::<String>() {
            Ok(text) => text,
            Err(error) => return Ok(Item::Failed(error)),
        };
        Ok(self.push(py, Document { source: PathBuf::new(), id, text: Ok(text), places: None }))
    }

    fn push(&mut self, py: Python<'_>, document: Document) -> Item {
        let Some(run) = &mut self.run else { return Item::Failed(closed()) };
        let source = Some(document.source.display().to_string()).filter(|source| !source.is_empty());
        let text = document.text.clone().unwrap_or_default();
        let origin = Origin { text, source, places: document.places.clone() };
        py.detach(|| unlocked(run).push(document));
        Item::Text(origin)
    }

    /// Waits until the first text in work has ended. If a signal's handler raises, it stays in work.
    fn wait(&mut self, py: Python<'_>) -> PyResult<()> {
        let (Some(Item::Text(_)), Some(run)) = (self.items.front(), &mut self.run) else { return Ok(()) };
        while !py.detach(|| unlocked(run).wait_for(PATIENCE)) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// Returns the record of the first text in work, which has ended.
    fn take(&mut self, py: Python<'_>, origin: Origin) -> PyResult<Option<Record>> {
        let Some(run_of_texts) = &mut self.run else { return Err(closed()) };
        let Some(done) = py.detach(|| unlocked(run_of_texts).pop()).for_python(py)? else { return Ok(None) };
        let Some(outcome) = &done.outcome else {
            let line = unlocked(run_of_texts).resumed_line(&done).for_python(py)?;
            return Ok(Some(placed(resumed(&line, &origin.text, self.wanted), &origin)));
        };
        let outcome = outcome.as_ref().map_err(|e| e.clone()).for_python(py)?;
        let Some(output) = outcome.output.clone() else { return Ok(None) };
        let (shared, wanted, options) = (self.shared.clone(), self.wanted, self.options.clone_ref(py));
        let record = move |cancel: &_| {
            let record = shared.record(&origin.text, output, wanted, options.get(), cancel);
            record.map(|record| placed(record, &origin))
        };
        match wanted.alternatives {
            true => run(py, record)?,
            false => record(&CancelToken::new()),
        }
        .map(Some)
        .for_python(py)
    }

    /// Ends the run, whose texts in work are cancelled.
    fn end(&mut self, py: Python<'_>, all: bool) -> PyResult<()> {
        let Some(run) = self.run.take() else { return Ok(()) };
        let run = run.into_inner().unwrap_or_else(PoisonError::into_inner);
        py.detach(|| run.end(all)).map(drop).for_python(py)
    }
}

#[pymethods]
impl Many {
    fn __iter__(this: PyRef<'_, Self>) -> PyRef<'_, Self> {
        this
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Record>> {
        crate::engine::check_process()?;
        self.take_texts(py)?;
        self.wait(py)?;
        match self.items.pop_front() {
            None => self.end(py, !self.is_broken).map(|()| None),
            Some(Item::Failed(error)) => Err(error),
            Some(Item::Broken(error)) => {
                self.is_broken = true;
                Err(error)
            }
            Some(Item::Text(origin)) => self.take(py, origin),
        }
    }

    /// True if the last exception was that of the iterator of texts.
    #[getter]
    fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// The file of the failures, if there is an output.
    #[getter]
    fn failures(&mut self) -> Option<PathBuf> {
        self.run.as_mut().and_then(|run| unlocked(run).failures().map(PathBuf::from))
    }

    /// Cancels the texts in work.
    fn close(&mut self) {
        self.items.clear();
        self.texts = None;
        let run = self.run.take();
        // The end of the forward that runs is not waited for with Python's lock. A thread that cannot
        // be started drops it here. The outputs are as they are after an interrupt.
        drop(std::thread::Builder::new().spawn(move || {
            run.map(|run| run.into_inner().unwrap_or_else(PoisonError::into_inner).end(false).map(drop))
        }));
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.close();
    }
}

fn unlocked(run: &mut Mutex<CorpusRun>) -> &mut CorpusRun {
    run.get_mut().unwrap_or_else(PoisonError::into_inner)
}

fn id_of(id: &Bound<'_, PyAny>) -> PyResult<Option<Value>> {
    if id.is_none() {
        return Ok(None);
    }
    if let Ok(number) = id.extract::<i64>() {
        return Ok(Some(number.into()));
    }
    let text =
        id.extract::<String>().map_err(|_| PyTypeError::new_err("an identifier is a str, an int or None"));
    text.map(|text| Some(text.into()))
}

fn closed() -> PyErr {
    PyException::new_err("the iterator of records is closed")
}
