//! A line of the output: a JSON object about one text.

use std::path::PathBuf;

use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::grounding::Grounding;
use super::journal::Key;
use super::json;
use super::run::Outcome;
use crate::error::{Error, Place, Result};
use crate::extract::{Chunk, MergedRecord};

/// A text of a run.
#[derive(Debug, Clone)]
pub struct Task {
    /// Number of the text in this run.
    pub number: usize,
    /// See [`Document`](super::Document).
    pub source: PathBuf,
    /// See [`Document`](super::Document).
    pub id: Option<Value>,
    /// Only with a journal.
    pub(super) key: Option<Key>,
}

/// The members of a line, in their order.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(skip_serializing_if = "String::is_empty")]
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    record: Option<Option<&'a RawValue>>,
    /// Instead of `record`, if texts are cut into parts.
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<Vec<PartRecord<'a>>>,
    finish: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<&'a Map<String, Value>>,
    /// The text of an incomplete record.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// Only in a journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
}

/// A record of some parts of a text.
#[derive(Serialize)]
struct PartRecord<'a> {
    record: Option<&'a RawValue>,
    chunks: &'a [Chunk],
    #[serde(skip_serializing_if = "Option::is_none")]
    confidence: Option<&'a Map<String, Value>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<&'a Map<String, Value>>,
}

impl PartRecord<'_> {
    fn of((merged, grounding): &(MergedRecord, Grounding)) -> PartRecord<'_> {
        let (confidence, spans) = (grounding.confidence.as_ref(), grounding.spans.as_ref());
        PartRecord { record: raw(&merged.json), chunks: &merged.chunks, confidence, spans }
    }
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

    /// Returns the line for a text with an output.
    pub(super) fn line(&self, outcome: &Outcome) -> Result<String> {
        let records = outcome.records.as_ref().map(|records| records.iter().map(PartRecord::of).collect());
        let (record, partial) = match outcome.incomplete {
            _ if outcome.records.is_some() => (None, None),
            None => (Some(raw(&outcome.text)), None),
            Some(_) => (Some(None), Some(&*outcome.text)),
        };
        json(&Line {
            source: self.name(),
            id: self.id.as_ref(),
            record,
            records,
            finish: outcome.finish,
            confidence: outcome.grounding.confidence.as_ref(),
            spans: outcome.grounding.spans.as_ref(),
            partial,
            error: outcome.incomplete.as_ref().map(Error::to_string),
            key: self.key.map(Key::hex),
        })
    }

    /// Returns the line for a text that failed without an output.
    pub(super) fn failure(&self, error: &Error) -> Result<String> {
        json(&Line {
            source: self.name(),
            id: self.id.as_ref(),
            record: Some(None),
            records: None,
            finish: "error",
            confidence: None,
            spans: None,
            partial: None,
            error: Some(error.to_string()),
            key: None,
        })
    }
}

fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}
