//! The part of a record at which a generation was cut, as data of the error.
//!
//! The error carries it as places: the JSON pointer, and the text of the unfinished value.
//!
//! # Alternatives considered
//! An error type of this module was rejected: callers match on one error type in all layers.

use crate::error::{Error, ErrorKind, Place};

/// Name of the document that the pointer of the error refers to.
const RECORD: &str = "record";

/// The unfinished value of a record that was cut.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use ffwd::Engine;
/// use ffwd::extract::{self, Extractor, Truncated};
///
/// # fn main() -> ffwd::Result<()> {
/// let engine = Engine::embedded()?;
/// let schema = r#"{"properties": {"note": {"type": "string", "minLength": 90}}, "required": ["note"]}"#;
/// let request = Extractor::new(&engine, schema)?.request("A short note.")?.max_tokens(12);
/// let error = extract::finished(engine.generate(&request)?).unwrap_err();
/// let cut = Truncated::of(&error).expect("the record was cut");
/// assert_eq!(cut.path, "/note");
/// assert!(cut.partial.starts_with('"'));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncated {
    /// JSON pointer of the unfinished value; empty for the whole record.
    pub path: String,
    /// The text of that value up to the cut.
    pub partial: String,
}

impl Truncated {
    /// Returns the data of an error of [`finished`](super::finished); `None` for other errors.
    pub fn of(error: &Error) -> Option<Truncated> {
        if !matches!(error.kind(), ErrorKind::Incomplete | ErrorKind::Cancelled) {
            return None;
        }
        let path = error.places().iter().find_map(|place| match place {
            Place::Document { uri, pointer } if uri == RECORD => Some(pointer.clone()),
            _ => None,
        })?;
        let partial = error.places().iter().find_map(|place| match place {
            Place::Span { text, .. } => Some(text.clone()),
            _ => None,
        });
        Some(Truncated { path, partial: partial.unwrap_or_default() })
    }

    /// Adds the data to an error.
    pub(super) fn add_to(self, error: Error) -> Error {
        let error = error.at(Place::Document { uri: RECORD.into(), pointer: self.path });
        let end = self.partial.len();
        match end {
            0 => error,
            _ => error.at(Place::Span { text: self.partial, start: end, end }),
        }
    }
}
