//! `Many`: the records of many texts, in their order.
//!
//! This is `ffwd_runtime::extract::Records` for an iterator of Python: texts are taken on the calling thread
//! with Python's lock, and the wait for a record can be interrupted and continued.
//!
//! # Cost
//!
//! At most two batches of texts are in work, so memory does not grow with the number of texts.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use ffwd_runtime::Scheduler;
use ffwd_runtime::decode::{CancelToken, Handle, SchedulerOptions};
use pyo3::exceptions::{PyException, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString};

use crate::error::ForPython;
use crate::extractor::Shared;
use crate::options::Options;
use crate::results::{Record, Wanted};
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
    /// Declared before the scheduler, so that its requests are cancelled first.
    in_work: VecDeque<Item>,
    /// `None` once it is dropped.
    scheduler: Option<Arc<Scheduler>>,
    /// Largest number of texts in work.
    ahead: usize,
}

/// A text in work, or one that failed.
enum Item {
    /// The handle is used by one call at a time, so it is never waited for.
    Running(String, Mutex<Handle>),
    Failed(PyErr),
    /// The iterator of texts raised.
    Broken(PyErr),
}

impl Many {
    pub fn new(
        py: Python<'_>,
        shared: Shared,
        texts: Py<PyIterator>,
        batch: usize,
        helpers: Option<usize>,
        options: Py<Options>,
        wanted: Wanted,
    ) -> PyResult<Self> {
        let ahead = batch.saturating_mul(2);
        let mut limits = SchedulerOptions::with_batch(batch);
        // Submitting never waits.
        limits.queue = limits.queue.max(ahead);
        limits.helpers = helpers.unwrap_or(limits.helpers);
        let engine = shared.engine.clone();
        let scheduler = py.detach(|| Scheduler::new(engine, limits)).for_python(py)?;
        let (in_work, scheduler) = (VecDeque::new(), Some(Arc::new(scheduler)));
        Ok(Many { shared, texts: Some(texts), is_broken: false, options, wanted, in_work, scheduler, ahead })
    }

    /// Takes texts until enough are in work. An exception of the iterator of texts comes after the
    /// records of the texts before it.
    fn take_texts(&mut self, py: Python<'_>) -> PyResult<()> {
        while self.in_work.len() < self.ahead
            && let Some(texts) = &self.texts
        {
            let item = match texts.bind(py).clone().next() {
                Some(Ok(text)) => self.submit(py, &text)?,
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
            self.in_work.push_back(item);
        }
        Ok(())
    }

    fn submit(&self, py: Python<'_>, text: &Bound<'_, PyAny>) -> PyResult<Item> {
        let Ok(text) = text.cast::<PyString>() else {
            let name = text.get_type().name()?;
            return Ok(Item::Failed(PyTypeError::new_err(format!("a text is {name}; expected str"))));
        };
        let text = match text.extract::<String>() {
            Ok(text) => text,
            Err(error) => return Ok(Item::Failed(error)),
        };
        let Some(scheduler) = self.scheduler.clone() else {
            return Ok(Item::Failed(closed()));
        };
        let submitted = py.detach(|| {
            let request = self.options.get().apply(self.shared.request(&text)?, &CancelToken::new());
            scheduler.submit(request)
        });
        Ok(match submitted.for_python(py) {
            Ok(handle) => Item::Running(text, Mutex::new(handle)),
            Err(error) => Item::Failed(error),
        })
    }

    /// Waits until the first text in work has ended. If a signal's handler raises, it stays in work.
    fn wait(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(Item::Running(_, handle)) = self.in_work.front_mut() else { return Ok(()) };
        let handle = handle.get_mut().unwrap_or_else(PoisonError::into_inner);
        while !py.detach(|| handle.wait_for(PATIENCE)) {
            py.check_signals()?;
        }
        Ok(())
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
        match self.in_work.pop_front() {
            None => Ok(None),
            Some(Item::Failed(error)) => Err(error),
            Some(Item::Broken(error)) => {
                self.is_broken = true;
                Err(error)
            }
            Some(Item::Running(text, handle)) => {
                // It has ended.
                let output = unlocked(handle).wait().for_python(py)?;
                let (shared, wanted, options) =
                    (self.shared.clone(), self.wanted, self.options.clone_ref(py));
                let record = move |cancel: &_| shared.record(&text, output, wanted, options.get(), cancel);
                match wanted.alternatives {
                    true => run(py, record)?,
                    false => record(&CancelToken::new()),
                }
                .map(Some)
                .for_python(py)
            }
        }
    }

    /// True if the last exception was that of the iterator of texts.
    #[getter]
    fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// Cancels the texts in work.
    fn close(&mut self) {
        let (in_work, scheduler) = (std::mem::take(&mut self.in_work), self.scheduler.take());
        self.texts = None;
        let handles: Vec<Handle> = in_work
            .into_iter()
            .filter_map(|item| match item {
                Item::Running(_, handle) => Some(unlocked(handle)),
                _ => None,
            })
            .collect();
        // The end of the forward that runs is not waited for with Python's lock. A thread that cannot
        // be started drops both here.
        drop(std::thread::Builder::new().spawn(move || {
            drop(handles);
            drop(scheduler);
        }));
    }
}

impl Drop for Many {
    fn drop(&mut self) {
        self.close();
    }
}

fn unlocked(handle: Mutex<Handle>) -> Handle {
    handle.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn closed() -> PyErr {
    PyException::new_err("the iterator of records is closed")
}
