//! Limits and errors of pattern texts, in any dialect.

use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum length of a pattern text, in bytes.
pub(crate) const MAX_PATTERN_BYTES: usize = 64 * 1024;
/// Maximum nesting of groups and operators.
pub(crate) const MAX_NESTING: u32 = 200;
/// Creates an error about bytes `start..end` of a pattern.
pub(crate) fn fault(
    kind: ErrorKind,
    message: impl Into<String>,
    text: &str,
    start: usize,
    end: usize,
) -> Error {
    Error::new(kind, message).at(Place::Span { text: text.to_owned(), start, end })
}

/// Refuses pattern texts above [`MAX_PATTERN_BYTES`].
pub(crate) fn check_length(text: &str) -> Result<()> {
    if text.len() > MAX_PATTERN_BYTES {
        let message =
            format!("the pattern has {} bytes, more than the limit of {MAX_PATTERN_BYTES}", text.len());
        return Err(Error::new(ErrorKind::TooComplex, message).hint("split the pattern or use a choice"));
    }
    Ok(())
}
