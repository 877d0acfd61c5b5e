//! Extraction of JSON records from text.
//!
//! The prompt contains the schema and the text, and the constraint is the schema itself, so the
//! output always parses and validates. The model may still invent values that the text does not
//! contain: the schema should allow `null` where a value may be missing.

use schemars::{JsonSchema, schema_for};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::chat::{ChatOptions, Message};
use crate::constraint::Constraint;
use crate::constraint::substring::SubstringOptions;
use crate::decode::{Engine, Finish, Output, Prompt, Request, Stats};
use crate::error::{Error, ErrorKind, Result};

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

/// The system message.
const SYSTEM: &str = "You extract structured data from text.";

fn task(schema: &str, text: &str) -> String {
    format!("Extract the data as JSON matching this schema:\n{schema}\n\nText:\n{text}")
}

/// Returns the prompt that the embedded models were trained on, in ChatML. For other models use
/// [`Engine::extraction_prompt`].
pub fn prompt(schema: impl AsRef<str>, text: impl AsRef<str>) -> Prompt {
    let (schema, text) = (schema.as_ref(), text.as_ref());
    Prompt::default()
        .with_template(format!("<|im_start|>system\n{SYSTEM}<|im_end|>\n<|im_start|>user\n"))
        .with_text(task(schema, text))
        .with_template("<|im_end|>\n<|im_start|>assistant\n")
}

/// Returns a request for a record of `schema` (JSON text) in `text`; set further options on it.
/// Strings with `"x-verbatim": true` in their schema are spans of `text`.
///
/// # Errors
/// Fails if the schema is not JSON, not supported or cannot be satisfied.
pub fn request(schema: impl AsRef<str>, text: impl AsRef<str>) -> Result<Request> {
    let (schema, text) = (schema.as_ref(), text.as_ref());
    let constraint = Constraint::builder().source(text, &SubstringOptions::default()).json_schema(schema)?;
    request_for(constraint, schema, text)
}

/// Returns a request like [`request`], with a constraint already made from the schema.
///
/// # Errors
/// Fails if the schema is not JSON.
pub fn request_for(
    constraint: Constraint,
    schema: impl AsRef<str>,
    text: impl AsRef<str>,
) -> Result<Request> {
    let (schema, text) = (schema.as_ref(), text.as_ref());
    let compact = compact_json(schema)?;
    Ok(Request::new(prompt(&compact, text)).constraint(constraint).source(text))
}

/// Returns true if a schema has strings that are spans of the text, so that each text has its own
/// constraint.
pub fn is_quoting(schema: impl AsRef<str>) -> bool {
    let Ok(schema) = serde_json::from_str::<Value>(schema.as_ref()) else { return false };
    let mut todo = vec![&schema];
    while let Some(value) = todo.pop() {
        match value {
            Value::Array(list) => todo.extend(list),
            Value::Object(members) if members.get("x-verbatim") == Some(&Value::Bool(true)) => return true,
            Value::Object(members) => todo.extend(members.values()),
            _ => {}
        }
    }
    false
}

/// Returns the schema on one line, its keys in order.
fn compact_json(schema: &str) -> Result<String> {
    serde_json::from_str::<Value>(schema)
        .map(|v| v.to_string())
        .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("the schema: {e}")))
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
        let Extraction { record, stats, .. } = self.extract_json(&schema, text)?;
        let record = serde_json::from_value(record).map_err(|e| {
            Error::new(ErrorKind::InvalidSchema, format!("the record does not fit the type: {e}"))
        })?;
        Ok((record, stats))
    }

    /// Returns the prompt for a record of `schema` (JSON text) in `text`: by the model's chat
    /// template, or as in [`prompt`] if the model has none. For templates without a system message,
    /// the user message contains everything.
    ///
    /// # Errors
    /// Fails if the schema is not JSON, or the template fails.
    pub fn extraction_prompt(&self, schema: impl AsRef<str>, text: impl AsRef<str>) -> Result<Prompt> {
        let (schema, text) = (compact_json(schema.as_ref())?, text.as_ref());
        if self.chat_template()?.is_none() {
            return Ok(prompt(&schema, text));
        }
        let (task, options) = (task(&schema, text), ChatOptions::default());
        let both = [Message::system(SYSTEM), Message::user(&task)];
        self.chat_prompt(&both, &options)
            .or_else(|_| self.chat_prompt(&[Message::user(format!("{SYSTEM}\n\n{task}"))], &options))
    }

    /// Extracts a record of a JSON Schema, with default options.
    ///
    /// # Errors
    /// Fails if the schema does not compile or the text is too long. `Incomplete` if the record
    /// does not end within the token limit.
    pub fn extract_json(&self, schema: impl AsRef<str>, text: impl AsRef<str>) -> Result<Extraction> {
        let (schema, text) = (schema.as_ref(), text.as_ref());
        let prompt = self.extraction_prompt(schema, text)?;
        finished(self.generate(&request(schema, text)?.prompt(prompt))?)
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
