//! Texts of documents, as `ffwd extract` reads them.
//!
//! # Cost
//! The texts of one file are in memory at a time.

use std::path::PathBuf;

use ffwd::documents;
use ffwd_runtime::extract::corpus::{Document, TextOptions};
use pyo3::prelude::*;

use crate::error::ForPython;

/// A text of a file, which `Many` takes once.
#[pyclass(module = "ffwd_runtime")]
pub(crate) struct FileText(pub(crate) Option<Document>);

/// Returns the files of names, folders and patterns.
#[pyfunction]
pub(crate) fn list_files(py: Python<'_>, files: Vec<PathBuf>) -> PyResult<Vec<PathBuf>> {
    TextOptions { files, ..TextOptions::default() }.files().for_python(py)
}

/// Reads a file: its text, those of what is attached to it, and what was not read. A text that cannot be
/// read fails in its place.
#[pyfunction]
pub(crate) fn read_file(py: Python<'_>, file: PathBuf) -> (Vec<FileText>, Vec<String>) {
    py.detach(|| {
        let options = TextOptions { document: Some(documents::texts), ..TextOptions::default() };
        let mut texts = options.read(vec![file]);
        let found = texts.by_ref().map(|document| FileText(Some(document))).collect();
        (found, texts.warnings)
    })
}
