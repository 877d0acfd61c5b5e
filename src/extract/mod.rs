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
pub mod embedded;
mod example;
mod extractor;
mod json_style;
mod members;
mod merge;
mod notes;
mod outline;
mod template;
mod wording;

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::decode::{Engine, Finish, Output, Stats};
use crate::error::{Error, ErrorKind, Result};

pub use chunks::{Chunk, ChunkOptions, chunks};
pub use example::Example;
pub use extractor::{Extractor, ExtractorBuilder};
#[cfg(feature = "cli")]
pub(crate) use members::Members;
pub use merge::{MergedRecord, merge_records};
#[cfg(feature = "cli")]
pub(crate) use template::Template;

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
        // From the text, in which integers have all of their digits.
        let record = serde_json::from_str(&text).map_err(|e| {
            Error::new(ErrorKind::InvalidSchema, format!("the record does not fit the type: {e}"))
        })?;
        Ok((record, stats))
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

/// Returns the record of a generation that ended; a truncated one is an error, never repaired.
///
/// # Errors
/// `Incomplete` if the generation reached the token limit or stopped within the record, `Cancelled`
/// if it was cancelled.
pub fn finished(output: Output) -> Result<Extraction> {
    let Output { text, finish, stats, complete, .. } = output;
    let tokens = stats.tokens;
    let (kind, message, hint) = match &finish {
        Finish::Length { path, .. } => (
            ErrorKind::Incomplete,
            format!("after {tokens} tokens the record ends inside #{path}"),
            "raise the token limit (--max-tokens), or bound long strings and arrays in the schema",
        ),
        Finish::Cancelled { path, .. } => (
            ErrorKind::Cancelled,
            format!("after {tokens} tokens, inside #{path}"),
            "the record is not complete",
        ),
        _ if !complete => (
            ErrorKind::Incomplete,
            format!("after {tokens} tokens the record ends by {}", finish.name()),
            "leave out stop texts and stop tokens: the schema says where a record ends",
        ),
        _ => {
            let record = serde_json::from_str(&text)
                .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("the generated record: {e}")))?;
            return Ok(Extraction { record, text, finish, stats });
        }
    };
    Err(Error::new(kind, message).hint(hint))
}
