//! The prompt and the request that the embedded models were trained on, whatever the model.
//!
//! These are for tests and benchmarks of the embedded models. An [`Extractor`](super::Extractor)
//! knows the model, and uses the prompt that suits it.

use ffwd_engine::text::without_mark;
use serde_json::Value;

use super::check_text;
use crate::constraint::Constraint;
use crate::constraint::substring::SubstringOptions;
use crate::decode::{Prompt, Request};
use crate::error::{Error, ErrorKind, Result};

/// Returns the prompt that the embedded models were trained on, in ChatML.
pub fn prompt(schema: impl AsRef<str>, text: impl AsRef<str>) -> Prompt {
    let (schema, text) = (without_mark(schema.as_ref()), without_mark(text.as_ref()));
    Prompt::default()
        .with_template(
            "<|im_start|>system\nYou extract structured data from text.<|im_end|>\n<|im_start|>user\n",
        )
        .with_text(format!("Extract the data as JSON matching this schema:\n{schema}\n\nText:\n{text}"))
        .with_template("<|im_end|>\n<|im_start|>assistant\n")
}

/// Returns a request for a record of `schema` (JSON text) in `text`, in the standard's reading of
/// the schema. Strings with `"x-verbatim": true` in their schema are spans of `text`.
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
/// Fails if the schema is not JSON, or the text is blank.
pub fn request_for(
    constraint: Constraint,
    schema: impl AsRef<str>,
    text: impl AsRef<str>,
) -> Result<Request> {
    let text = without_mark(text.as_ref());
    check_text(text)?;
    let compact = serde_json::from_str::<Value>(without_mark(schema.as_ref()))
        .map(|v| v.to_string())
        .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("the schema: {e}")))?;
    Ok(Request::new(prompt(&compact, text)).constraint(constraint).source(text))
}
