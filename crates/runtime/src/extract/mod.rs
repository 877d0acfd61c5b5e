//! Extraction of JSON records from text.
//!
//! The prompt contains the schema and the text, and the constraint is the schema itself, so the
//! output always parses and validates. The model may still invent values that the text does not
//! contain: the schema should allow `null` where a value may be missing.
//!
//! An [`Extractor`] is made once from a model and a schema, and makes the request for each text.
//! Its prompt is in the model's own chat template, with the wording that suits the model. Objects
//! are closed: they have the properties that the schema mentions, unless it says otherwise. Its
//! requests end values that repeat themselves ([`Request::guard`](crate::Request::guard)), and
//! strings at words ([`Request::end_at_words`](crate::Request::end_at_words)).

mod chunks;
pub mod corpus;
pub mod embedded;
mod example;
mod extractor;
mod json_style;
mod label_prompt;
mod many;
mod members;
mod merge;
mod notes;
pub mod nuextract;
mod outline;
mod partial;
mod prompt_form;
mod quote_strings;
pub mod schema;
mod spans;
mod support;
mod template;
mod truncated;
mod wording;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decode::{Engine, Event, Finish, Output, Stats, ValueConfidence};
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::SourceSpan;

pub use chunks::{Chunk, ChunkOptions, chunks};
pub use example::Example;
pub use extractor::{Extractor, ExtractorBuilder};
pub use label_prompt::{LABEL_QUESTION, label_prompt};
pub use many::Records;
pub use members::Members;
pub use merge::{MergedRecord, merge_records};
pub use partial::PartialRecord;
pub use prompt_form::PromptForm;
pub use spans::{MAX_OCCURRENCES, TextSpan, ValueSpans, spans_of};
pub use template::Template;
pub use truncated::Truncated;

/// A record and details of its generation.
#[derive(Debug, Clone)]
pub struct Extraction {
    /// The record.
    pub record: Value,
    /// The record as the generated text.
    pub text: String,
    /// The reason why the generation ended: with [`Finish::Closed`] the last values are not the
    /// model's.
    pub finish: Finish,
    /// The statistics of the generation.
    pub stats: Stats,
    /// The confidence in each value, if requested with
    /// [`Request::confidence`](crate::Request::confidence).
    pub confidence: Vec<ValueConfidence>,
    /// The spans of the source in `text`, for schemas with `x-verbatim`.
    pub source_spans: Vec<SourceSpan>,
}

impl Extraction {
    /// Returns the spans of `text` that the values of the record were copied from, as
    /// [`spans_of`] does. `text` is the text that the record was extracted from. Offsets count all of
    /// it, a byte order mark at its beginning included.
    pub fn spans(&self, text: impl AsRef<str>) -> Vec<ValueSpans> {
        spans_of(&self.text, &self.source_spans, text.as_ref())
    }
}

/// # Errors
/// Fails if a text is blank: a record of it would be invented.
fn check_text(text: &str) -> Result<()> {
    if !text.trim().is_empty() {
        return Ok(());
    }
    let what = if text.is_empty() { "empty" } else { "blank" };
    Err(Error::new(ErrorKind::InvalidOption, format!("the text is {what}"))
        .hint("there is nothing to extract; a record would be invented"))
}

impl Engine {
    /// Extracts a typed record. The schema is that of `T`.
    ///
    /// # Errors
    /// Fails like [`extract_json`](Self::extract_json), and if the record is not a `T` (a schema
    /// looser than the type).
    pub fn extract<T: DeserializeOwned + JsonSchema>(&self, text: impl AsRef<str>) -> Result<T> {
        self.extract_with_stats(text).map(|(record, _)| record)
    }

    /// Extracts a typed record and returns it with its statistics.
    ///
    /// # Errors
    /// Fails like [`extract`](Self::extract).
    pub fn extract_with_stats<T: DeserializeOwned + JsonSchema>(
        &self,
        text: impl AsRef<str>,
    ) -> Result<(T, Stats)> {
        let schema = schema_for!(T).to_value().to_string();
        let Extraction { text, stats, .. } = self.extract_json(&schema, text)?;
        Ok((typed(&text)?, stats))
    }

    /// Extracts a typed record, and calls `on_partial` with the part of it that is generated, each
    /// time that a value begins, grows or ends.
    ///
    /// # Errors
    /// Fails like [`extract`](Self::extract).
    pub fn extract_streaming<T: DeserializeOwned + JsonSchema>(
        &self,
        text: impl AsRef<str>,
        on_partial: &mut dyn FnMut(&PartialRecord),
    ) -> Result<T> {
        let extractor = Extractor::new(self, schema_for!(T).to_value().to_string())?;
        let mut partial = PartialRecord::default();
        let output = self.generate_events(&extractor.request(text)?, &mut |event| {
            if let Event::Field(field) = event {
                partial.update(field);
                on_partial(&partial);
            }
        })?;
        typed(&finished(output)?.text)
    }

    /// Extracts a record of a JSON Schema, with default options. For several texts, an
    /// [`Extractor`] reads the schema only once.
    ///
    /// # Errors
    /// Fails if the schema does not compile, or the text is blank or too long. `Incomplete` if the record
    /// does not end within the token limit.
    pub fn extract_json(&self, schema: impl AsRef<str>, text: impl AsRef<str>) -> Result<Extraction> {
        finished(self.generate(&Extractor::new(self, schema)?.request(text)?)?)
    }
}

/// Reads a typed record from its text, in which integers have all of their digits.
fn typed<T: DeserializeOwned>(text: &str) -> Result<T> {
    serde_json::from_str(text)
        .map_err(|e| Error::new(ErrorKind::InvalidSchema, format!("the record does not fit the type: {e}")))
}

/// Returns the record of a generation that ended; a truncated one is an error, never repaired.
///
/// # Errors
/// `Incomplete` if the generation reached the token limit or stopped within the record, `Cancelled`
/// if it was cancelled. [`Truncated::of`] gives the value at which such a record was cut.
pub fn finished(output: Output) -> Result<Extraction> {
    if let Some(error) = incomplete(&output) {
        return Err(error);
    }
    let Output { text, answer, finish, stats, confidence, source_spans, .. } = output;
    // Without the thinking.
    let text = answer.unwrap_or(text);
    let record = serde_json::from_str(&text)
        .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("the generated record: {e}")))?;
    Ok(Extraction { record, text, finish, stats, confidence, source_spans })
}

/// Returns the error of an output that is no whole record.
fn incomplete(output: &Output) -> Option<Error> {
    let tokens = output.stats.tokens;
    let cut = |kind, path: &str, partial: &str, hint| {
        let error = Error::new(kind, format!("the record ends after {tokens} tokens"));
        Some(Truncated { path: path.into(), partial: partial.into() }.add_to(error).hint(hint))
    };
    match &output.finish {
        Finish::Length { path, partial } => cut(
            ErrorKind::Incomplete,
            path,
            partial,
            "raise the token limit (--max-tokens), or bound long strings and arrays in the schema",
        ),
        Finish::Cancelled { path, partial } => {
            cut(ErrorKind::Cancelled, path, partial, "the record is not complete")
        }
        finish if !output.complete => {
            let message = format!("after {tokens} tokens the record ends by {}", finish.name());
            Some(
                Error::new(ErrorKind::Incomplete, message)
                    .hint("leave out stop texts and stop tokens: the schema says where a record ends"),
            )
        }
        _ => None,
    }
}
