//! Examples in a prompt: texts with the records that they give.
//!
//! A record that the schema refuses would teach the model a wrong form, so each record is checked
//! by the constraint itself.

use std::path::PathBuf;

use ffwd_engine::text::without_mark;
use serde::Deserialize;
use serde_json::Value;

use super::schema::ExtractionSchema;
use crate::error::{Error, ErrorKind, Place, Result};
use crate::matcher::Compiler;

/// A text and the record that it gives, shown to the model before its own text.
///
/// ```
/// use ffwd::extract::Example;
///
/// # fn main() -> ffwd::Result<()> {
/// let example = Example::from_json(r#"{"text": "Two lamps, please.", "record": {"lamps": 2}}"#)?;
/// assert_eq!(example, Example::new("Two lamps, please.", serde_json::json!({"lamps": 2})));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The text.
    pub text: String,
    /// The record.
    pub record: Value,
    /// The file that it comes from, for error messages.
    #[serde(skip)]
    file: Option<PathBuf>,
}

impl Example {
    /// Creates an example.
    pub fn new(text: impl Into<String>, record: Value) -> Self {
        Example { text: text.into(), record, file: None }
    }

    /// Reads an example from a JSON object with `text` and `record`.
    ///
    /// # Errors
    /// `InvalidJson` with line and column.
    pub fn from_json(json: impl AsRef<str>) -> Result<Self> {
        serde_json::from_str(without_mark(json.as_ref())).map_err(|e| invalid(&e, e.line()))
    }

    /// Reads examples from JSON Lines, one on each line; blank lines are skipped.
    ///
    /// ```
    /// use ffwd::extract::Example;
    ///
    /// let lines = "{\"text\": \"One.\", \"record\": 1}\n\n{\"text\": \"Two.\", \"record\": 2}\n";
    /// assert_eq!(Example::from_json_lines(lines).unwrap()[1], Example::new("Two.", 2.into()));
    /// let error = Example::from_json_lines("{\"text\": 1}").unwrap_err();
    /// assert!(error.to_string().contains("line 1, column 10"));
    /// ```
    ///
    /// # Errors
    /// `InvalidJson` with line and column.
    pub fn from_json_lines(lines: impl AsRef<str>) -> Result<Vec<Self>> {
        let lines = without_mark(lines.as_ref()).lines().enumerate();
        let filled = lines.filter(|(_, line)| !line.trim().is_empty());
        filled.map(|(i, line)| serde_json::from_str(line).map_err(|e| invalid(&e, i + 1))).collect()
    }

    /// Sets the file that the example comes from, for error messages.
    pub fn in_file(mut self, file: impl Into<PathBuf>) -> Self {
        self.file = Some(file.into());
        self
    }

    /// Checks the record against a schema.
    pub(super) fn check(&self, compiler: &Compiler, schema: &ExtractionSchema) -> Result<()> {
        let Some(fault) = schema.fault(compiler, &self.text, &self.record.to_string())? else {
            return Ok(());
        };
        let error = Error::new(ErrorKind::InvalidOption, format!("the record of the example {}", fault.what))
            .at(Place::Pointer(format!("/record{}", fault.pointer)))
            .hint("correct the record or the schema; a wrong example misleads the model");
        Err(match &self.file {
            Some(file) => error.at(Place::File(file.clone())),
            None => error,
        })
    }
}

/// Returns the error of an example that does not parse.
fn invalid(error: &serde_json::Error, line: usize) -> Error {
    let message = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    let message = message.strip_suffix(&place).unwrap_or(&message);
    Error::new(ErrorKind::InvalidJson, format!("the example: {message}"))
        .at(Place::LineColumn(line, error.column()))
        .hint("an example is an object with `text` (a string) and `record` (as the schema has it)")
}
