//! Entries of a `config.json`: read one by one, checked against limits, and named in errors.

use serde_json::Value;

use super::family::KNOWN;
use crate::error::{Error, ErrorKind, Place, Result};

/// Largest width, head count or feed-forward size accepted.
pub(super) const MAX_WIDTH: usize = 1 << 20;
/// Largest number of layers accepted.
pub(crate) const MAX_LAYERS: usize = 1 << 12;
/// Largest vocabulary accepted.
pub(super) const MAX_VOCAB: usize = 1 << 24;
/// Largest context accepted.
pub(super) const MAX_CONTEXT: usize = 1 << 24;

/// Rotary base of layers with a window, if the file has none.
pub(crate) const DEFAULT_LOCAL_THETA: f32 = 10_000.0;

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, message)
}

pub(crate) fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message).hint(KNOWN)
}

pub(crate) fn number(value: &Value, name: &str, max: usize) -> Result<usize> {
    optional(value, name, max)?.ok_or_else(|| bad(format!("the model configuration lacks `{name}`")))
}

pub(crate) fn optional(value: &Value, name: &str, max: usize) -> Result<Option<usize>> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => match v.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) if (1..=max).contains(&n) => Ok(Some(n)),
            _ => Err(bad(format!("`{name}` is {}, not a number from 1 to {max}", short(v)))
                .at(Place::Pointer(format!("/{name}")))),
        },
    }
}

pub(crate) fn float(value: &Value, name: &str, default: Option<f32>) -> Result<f32> {
    match (value.get(name), default) {
        (None | Some(Value::Null), Some(d)) => Ok(d),
        (v, _) => v
            .and_then(Value::as_f64)
            .map(|f| f as f32)
            .ok_or_else(|| bad(format!("`{name}` is not a number")).at(Place::Pointer(format!("/{name}")))),
    }
}

pub(crate) fn flag(value: &Value, name: &str) -> Result<bool> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(b)) => Ok(*b),
        Some(v) => Err(bad(format!("`{name}` is {}, not true or false", short(v)))
            .at(Place::Pointer(format!("/{name}")))),
    }
}

/// Returns a value for a message, cut off so that an untrusted file cannot flood the terminal.
pub(crate) fn short(v: &Value) -> String {
    let text = v.to_string();
    match text.char_indices().nth(60) {
        Some((i, _)) => format!("{}...", &text[..i]),
        None => text,
    }
}
