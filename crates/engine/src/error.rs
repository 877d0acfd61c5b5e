//! The error type of `ffwd`: what went wrong, where, and what to do about it.
//!
//! Every failure that a user's input can cause is an [`Error`] with a matchable [`ErrorKind`], a
//! message, and where possible a [`Place`] (JSON pointer, byte span in a pattern, file) and a hint.
//!
//! # Alternatives considered
//! An error enum per module was rejected: callers match on what they can do about a failure, not on
//! the module it came from, and one type keeps `?` plain across the layers.

use std::fmt;
use std::path::PathBuf;

/// Result of the fallible functions of `ffwd`.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A JSON text (schema, tool list, configuration) that is not JSON.
    InvalidJson,
    /// A schema that breaks the rules of JSON Schema.
    InvalidSchema,
    /// A keyword or feature that is not implemented; it is refused, never ignored in silence.
    Unsupported,
    /// A constraint that no output can satisfy.
    Unsatisfiable,
    /// A regular expression or pattern that does not parse.
    InvalidPattern,
    /// A budget was exceeded; the message names the limit and the value reached.
    TooComplex,
    /// A list of labels that is empty, ambiguous or not usable with the tokenizer.
    InvalidLabels,
    /// A reply whose tool calls do not follow their style.
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
    /// An option with a value that is out of range or that does not fit the others.
    InvalidOption,
    /// A full queue, or a scheduler that accepts no more requests.
    Busy,
    /// A request that was cancelled.
    Cancelled,
    /// An output that ended before it satisfied its constraint.
    Incomplete,
}

/// Location of an [`Error`] in the input.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// A JSON pointer (RFC 6901) into a schema; the empty pointer is the whole document.
    Pointer(String),
    /// A JSON pointer into another document than the schema itself, to which the schema refers.
    Document {
        /// URI of that document.
        uri: String,
        /// The JSON pointer into it.
        pointer: String,
    },
    /// Bytes `start..end` of a pattern or regular expression, quoted in full in `text`.
    Span {
        /// The whole pattern.
        text: String,
        /// First byte of the fault.
        start: usize,
        /// One past the last byte of the fault.
        end: usize,
    },
    /// Line and column (both from 1, column in characters) of a text.
    LineColumn(usize, usize),
    /// A file.
    File(PathBuf),
}

impl Place {
    /// Returns line and column, both from 1 and the column in characters, of a location in a text.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        match self {
            Place::LineColumn(line, column) => Some((*line, *column)),
            Place::Span { text, start, .. } => {
                let before = text.get(..*start)?;
                let last = before.rsplit('\n').next().unwrap_or_default();
                Some((before.matches('\n').count() + 1, last.chars().count() + 1))
            }
            _ => None,
        }
    }
}

/// An error with its kind, location and hint.
///
/// `Debug` shows the same text as `Display`, so an error that ends `main` reads like one of the
/// program.
///
/// ```
/// use ffwd_engine::{Constraint, ErrorKind};
///
/// let error = Constraint::json_schema(r#"{"type": "strin"}"#).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::InvalidSchema);
/// assert_eq!(error.kind().code(), "invalid_schema");
/// assert_eq!(error.pointer(), Some("/type"));
/// ```
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    places: Vec<Place>,
    hint: Option<String>,
}

impl Error {
    /// Creates an error of `kind` with a one-sentence message (lower case, no full stop).
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, message: message.into(), places: Vec::new(), hint: None }))
    }

    /// Adds a location; a pointer inside a file carries both.
    pub fn at(mut self, place: Place) -> Self {
        self.0.places.push(place);
        self
    }

    /// Adds a hint: what the user can do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Creates an input or output error on `path`.
    pub fn io(path: impl Into<PathBuf>, error: &std::io::Error) -> Self {
        Error::new(ErrorKind::Io, error.to_string()).at(Place::File(path.into()))
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message without location and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Replaces the message.
    pub(crate) fn reworded(mut self, message: String) -> Self {
        self.0.message = message;
        self
    }

    /// Returns the locations, to be changed.
    pub(crate) fn places_mut(&mut self) -> &mut [Place] {
        &mut self.0.places
    }

    /// Returns the locations, innermost first; may be empty.
    pub fn places(&self) -> &[Place] {
        &self.0.places
    }

    /// Returns the JSON pointer, if the error is inside a JSON document.
    pub fn pointer(&self) -> Option<&str> {
        self.0.places.iter().find_map(|p| match p {
            Place::Pointer(s) | Place::Document { pointer: s, .. } => Some(s.as_str()),
            _ => None,
        })
    }

    /// Returns the hint.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl ErrorKind {
    /// Returns a stable name for programs, such as `invalid_schema`; it does not change between
    /// versions.
    pub fn code(self) -> &'static str {
        self.names().0
    }

    /// Returns the name for programs and that for people.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            ErrorKind::InvalidJson => ("invalid_json", "not valid JSON"),
            ErrorKind::InvalidSchema => ("invalid_schema", "invalid schema"),
            ErrorKind::Unsupported => ("unsupported", "not supported"),
            ErrorKind::Unsatisfiable => ("unsatisfiable", "cannot be satisfied"),
            ErrorKind::InvalidPattern => ("invalid_pattern", "invalid pattern"),
            ErrorKind::TooComplex => ("too_complex", "too complex"),
            ErrorKind::InvalidLabels => ("invalid_labels", "invalid labels"),
            ErrorKind::InvalidReply => ("invalid_reply", "invalid reply"),
            ErrorKind::IllegalToken => ("illegal_token", "illegal token"),
            ErrorKind::Tokenizer => ("tokenizer", "tokenizer"),
            ErrorKind::Model => ("model", "model"),
            ErrorKind::PromptTooLong => ("prompt_too_long", "prompt too long"),
            ErrorKind::Io => ("io", "file"),
            ErrorKind::InvalidOption => ("invalid_option", "invalid option"),
            ErrorKind::Busy => ("busy", "busy"),
            ErrorKind::Cancelled => ("cancelled", "cancelled"),
            ErrorKind::Incomplete => ("incomplete", "not complete"),
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.names().1)
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

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
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
