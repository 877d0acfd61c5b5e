//! A text of a run, and what its record is known by.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use super::places::Places;
use crate::error::{Error, ErrorKind, Place, Result};

/// A text of a run.
#[derive(Debug, Clone)]
pub struct Task {
    /// Number of the text in this run.
    pub number: usize,
    /// See [`Document`](super::Document).
    pub source: PathBuf,
    /// See [`Document`](super::Document).
    pub id: Option<Value>,
    /// See [`Document`](super::Document).
    pub(super) places: Option<Arc<Places>>,
    /// Only with a journal.
    pub(super) key: Option<Key>,
}

impl Task {
    /// Returns the name of the text.
    pub fn name(&self) -> String {
        self.source.display().to_string()
    }

    /// Returns an error with the place of the text, if it comes from a file.
    pub(super) fn placed(&self, error: Error) -> Error {
        if self.source.as_os_str().is_empty() { error } else { error.at(Place::File(self.source.clone())) }
    }
}

/// What a record was made of: by which run, and a digest of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// See [`MadeBy::run`](super::provenance::MadeBy::run).
    pub run: u64,
    pub text: u128,
}

impl Key {
    /// Returns the digits in a line.
    pub(super) fn hex(self) -> String {
        format!("{:016x}-{:032x}", self.run, self.text)
    }

    pub(super) fn parse(text: &str) -> Option<Key> {
        let (run, text) = text.split_once('-')?;
        Some(Key { run: u64::from_str_radix(run, 16).ok()?, text: u128::from_str_radix(text, 16).ok()? })
    }
}

/// Returns a line of JSON.
pub(super) fn json(line: &impl Serialize) -> Result<String> {
    serde_json::to_string(line)
        .map_err(|e| Error::new(ErrorKind::Io, format!("a record cannot be written as JSON: {e}")))
}
