//! What became of a text, and the line about it: a JSON object.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::grounding::Grounding;
use super::report::Shown;
use super::rows::RowCount;
use super::task::{Key, Task, json};
use crate::decode::{Output, Stats};
use crate::error::{Error, Result};
use crate::extract::{Chunk, MergedRecord};

/// The output of the model for one text.
#[derive(Default)]
pub struct Outcome {
    /// The record, or the part of it that was generated.
    pub text: String,
    /// The records of all parts, if the text was cut into parts.
    pub records: Option<Vec<(MergedRecord, Grounding)>>,
    /// Name of the reason why the generation ended.
    pub finish: &'static str,
    /// Statistics, summed over all parts.
    pub stats: Stats,
    /// Further members of its line.
    pub grounding: Grounding,
    /// The error of an incomplete record.
    pub incomplete: Option<Error>,
    /// Messages about its text.
    pub notes: Vec<&'static str>,
    /// The output itself, if the text was not cut.
    pub output: Option<Output>,
    pub(super) shown: Option<Shown>,
    /// What became of the rows of a long table.
    pub rows: Option<RowCount>,
}

/// The members of a line, in their order.
#[derive(Default, Serialize)]
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
    #[serde(flatten)]
    grounding: Option<&'a Grounding>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rows: Option<&'a RowCount>,
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
    #[serde(flatten)]
    grounding: &'a Grounding,
}

impl Task {
    /// Returns the line for a text with an output.
    pub(super) fn line(&self, outcome: &Outcome) -> Result<String> {
        let records = outcome.records.as_ref().map(|records| records.iter().map(of_part).collect());
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
            grounding: Some(&outcome.grounding),
            rows: outcome.rows.as_ref(),
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
            finish: "error",
            error: Some(error.to_string()),
            ..Line::default()
        })
    }
}

fn of_part((merged, grounding): &(MergedRecord, Grounding)) -> PartRecord<'_> {
    PartRecord { record: raw(&merged.json), chunks: &merged.chunks, grounding }
}

fn raw(json: &str) -> Option<&RawValue> {
    serde_json::from_str(json).ok()
}
