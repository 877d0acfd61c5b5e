//! One error type for the whole crate: what went wrong, where, and what to do about it.
//!
//! Every failure that a user's input can cause is an [`Error`] with a matchable [`ErrorKind`], a
//! message, and where possible a [`Place`] (JSON pointer, byte span in a pattern, file) and a hint.
//! The alternative, an error enum per module, was rejected: callers match on what they can do about
//! a failure, not on the module it came from, and one type keeps `?` plain across the layers.

use std::fmt;
use std::path::PathBuf;

/// Result of the fallible functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What kind of failure an [`Error`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A JSON text (schema, tool list, configuration) that is not JSON.
    InvalidJson,
    /// A schema that breaks the rules of JSON Schema.
    InvalidSchema,
    /// A keyword or feature that is not implemented; nothing is ever ignored in silence.
    Unsupported,
    /// A constraint that no output can satisfy.
    Unsatisfiable,
    /// A regular expression or pattern that does not parse.
    InvalidPattern,
    /// A budget was exceeded; the message names the limit and the value reached.
    TooComplex,
    /// A list of labels that makes no sense.
    InvalidLabels,
    /// A reply that is not written as its tool calls should be.
    InvalidReply,
    /// A token that the constraint does not allow at this point.
    IllegalToken,
    /// A tokenizer that cannot be loaded or used.
    Tokenizer,
    /// A model that cannot be loaded or run.
    Model,
    /// The prompt does not fit into the model's context.
    PromptTooLong,
    /// A file that cannot be read or written.
    Io,
    /// An option with a value that makes no sense.
    InvalidOption,
    /// A queue that is full, or a scheduler that takes no more requests.
    Busy,
    /// A request that was cancelled.
    Cancelled,
    /// An output that ended before it satisfied its constraint.
    Incomplete,
}

/// Where in the input an [`Error`] arose.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A JSON pointer (RFC 6901) into a schema; the empty pointer is the whole document.
    Pointer(String),
    /// A JSON pointer into another document than the schema itself, to which the schema refers.
    Document {
        /// Where that document is known.
        uri: String,
        /// The JSON pointer into it.
        pointer: String,
    },
    /// Bytes `start..end` of a pattern or regular expression, quoted in full in `text`.
    Span {
        /// The whole pattern.
        text: String,
        /// First byte concerned.
        start: usize,
        /// One past the last byte concerned.
        end: usize,
    },
    /// Line and column (both from 1, column in characters) of a text.
    LineColumn(usize, usize),
    /// A file.
    File(PathBuf),
}

/// An error with its kind, place and hint.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    places: Vec<Place>,
    hint: Option<String>,
}

impl Error {
    /// An error of `kind` with a one-sentence message (lower case, no full stop).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), places: Vec::new(), hint: None }))
    }

    /// Adds a place; a pointer inside a file carries both.
    pub fn at(mut self, place: Place) -> Self {
        self.0.places.push(place);
        self
    }

    /// Adds what the user can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// An input or output error on `path`.
    pub fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        Error::new(ErrorKind::Io, error.to_string()).at(Place::File(path.into()))
    }

    /// The kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The message without place and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Where it arose, innermost first; may be empty.
    pub fn places(&self) -> &[Place] {
        &self.0.places
    }

    /// The JSON pointer, if the error lies inside a JSON document.
    pub fn pointer(&self) -> Option<&str> {
        self.0.places.iter().find_map(|p| match p {
            Place::Pointer(s) | Place::Document { pointer: s, .. } => Some(s.as_str()),
            _ => None,
        })
    }

    /// What to do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::InvalidJson => "not valid JSON",
            ErrorKind::InvalidSchema => "invalid schema",
            ErrorKind::Unsupported => "not supported",
            ErrorKind::Unsatisfiable => "cannot be satisfied",
            ErrorKind::InvalidPattern => "invalid pattern",
            ErrorKind::TooComplex => "too complex",
            ErrorKind::InvalidLabels => "invalid labels",
            ErrorKind::InvalidReply => "invalid reply",
            ErrorKind::IllegalToken => "illegal token",
            ErrorKind::Tokenizer => "tokenizer",
            ErrorKind::Model => "model",
            ErrorKind::PromptTooLong => "prompt too long",
            ErrorKind::Io => "file",
            ErrorKind::InvalidOption => "invalid option",
            ErrorKind::Busy => "busy",
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::Incomplete => "not complete",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.kind, self.0.message)?;
        for place in &self.0.places {
            match place {
                Place::Pointer(p) if p.is_empty() => write!(f, "\n  at: # (the whole schema)")?,
                Place::Pointer(p) => write!(f, "\n  at: #{p}")?,
                Place::Document { uri, pointer } => write!(f, "\n  at: {uri}#{pointer}")?,
                Place::LineColumn(line, column) => write!(f, "\n  at: line {line}, column {column}")?,
                Place::File(path) => write!(f, "\n  in: {}", path.display())?,
                Place::Span { text, start, end } => write_span(f, text, *start, *end)?,
            }
        }
        if let Some(hint) = &self.0.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

/// Shows at most about 60 characters of `text` around the span, with carets below it.
fn write_span(f: &mut fmt::Formatter<'_>, text: &str, start: usize, end: usize) -> fmt::Result {
    let chars: Vec<(usize, char)> = text.char_indices().collect();
    let index = |byte: usize| chars.iter().position(|&(i, _)| i >= byte).unwrap_or(chars.len());
    let (from, to) = (index(start.min(text.len())), index(end.min(text.len())));
    let first = from.saturating_sub(30);
    let last = (to.max(from + 1) + 30).min(chars.len());
    let shown: String =
        chars[first..last].iter().map(|&(_, c)| if c.is_control() { '\u{fffd}' } else { c }).collect();
    let carets = "^".repeat(to.min(last).saturating_sub(from).max(1));
    write!(f, "\n  at: {shown}\n      {}{carets}", " ".repeat(from - first))
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_point_at_the_fault() {
        let e = Error::new(ErrorKind::InvalidPattern, "unclosed group")
            .at(Place::Span { text: "ab(c".into(), start: 2, end: 3 })
            .hint("add a closing parenthesis");
        assert_eq!(
            e.to_string(),
            "invalid pattern: unclosed group\n  at: ab(c\n        ^\n  hint: add a closing parenthesis"
        );
    }

    #[test]
    fn spans_outside_the_text_do_not_panic() {
        let e = Error::new(ErrorKind::InvalidPattern, "x").at(Place::Span {
            text: "é".into(),
            start: 1,
            end: 99,
        });
        assert!(e.to_string().contains('^'));
    }
}
