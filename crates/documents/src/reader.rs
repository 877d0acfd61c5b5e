//! What a reader of one kind of documents is.

use std::path::Path;

use ffwd_engine::{Error, ErrorKind, Result};

use crate::document::Text;

/// Levels of documents in documents, such as e-mails in e-mails.
const MAX_DEPTH: usize = 8;

/// A kind of documents.
pub(crate) trait DocumentKind: Sync {
    /// The endings of names.
    fn endings(&self) -> &'static [&'static str];

    /// Returns true if a file begins like this kind.
    fn is_begin(&self, _: &[u8]) -> bool {
        false
    }

    /// Reads a file: its text, and those of what is attached.
    ///
    /// # Errors
    /// If nothing of it can be read.
    fn read(&self, bytes: &[u8], nested: Nested<'_>) -> Result<Vec<Text>>;
}

/// Reads a document by its name and content; `None` if it is of another kind.
pub(crate) type ReadAny = dyn Fn(&Path, &[u8], Nested<'_>) -> Result<Option<Vec<Text>>>;

/// How a reader reads what is attached.
#[derive(Clone, Copy)]
pub(crate) struct Nested<'a> {
    pub read: &'a ReadAny,
    /// Number of documents around.
    pub depth: usize,
}

impl Nested<'_> {
    /// Returns this for a document one level deeper.
    ///
    /// # Errors
    /// `TooComplex` beyond a limit.
    pub(crate) fn deeper(self) -> Result<Self> {
        if self.depth >= MAX_DEPTH {
            let message = format!("more than {MAX_DEPTH} documents are inside each other");
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        Ok(Nested { depth: self.depth + 1, ..self })
    }
}

pub(crate) fn broken(what: &str, why: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("this is no {what} that can be read: {why}"))
}

/// For tests: reads nothing that is attached.
#[cfg(test)]
pub(crate) const ALONE: Nested<'static> = Nested { read: &|_, _, _| Ok(None), depth: 0 };
