//! `ffwd_status` and `ffwd_error`.

use std::ffi::{CString, c_char};

use ffwd_engine::ErrorKind;
use ffwd_engine::error::Place;

/// Result of a function. Numbers keep their meaning between versions; new ones may be added.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// A null pointer, a buffer that is too short, an id or a number out of range, text that is not
    /// UTF-8.
    InvalidArgument = 1,
    /// A fault of the library: a panic that was caught. Please report it.
    Internal = 2,
    /// A schema, a tool list or options that are not JSON.
    InvalidJson = 3,
    /// A schema that breaks the rules of JSON Schema.
    InvalidSchema = 4,
    /// A feature that is not implemented; it is refused, never ignored in silence.
    Unsupported = 5,
    /// A constraint that no output satisfies.
    Unsatisfiable = 6,
    /// A regular expression, a pattern or a grammar that does not parse.
    InvalidPattern = 7,
    /// A limit was exceeded; the message names it.
    TooComplex = 8,
    /// A list of labels that is empty, ambiguous or not usable with the tokenizer.
    InvalidLabels = 9,
    /// A token that the constraint does not allow at this point.
    IllegalToken = 10,
    /// A tokenizer that cannot be loaded or used.
    Tokenizer = 11,
    /// A file that cannot be read.
    Io = 12,
    /// A kind that does not exist, an option that the kind does not have, or one with a value out of
    /// range.
    InvalidOption = 13,
    /// Another failure; `ffwd_error_name` names it.
    Other = 14,
}

/// What went wrong, where, and what to do about it.
///
/// Its texts are UTF-8, end with a zero byte, and live as long as the object.
pub struct Error {
    status: Status,
    name: CString,
    message: CString,
    text: CString,
    pointer: Option<CString>,
    line_column: (usize, usize),
    hint: Option<CString>,
}

/// Why a function fails.
#[derive(Debug)]
pub(crate) enum CallFailure {
    Engine(ffwd_engine::Error),
    /// Arguments that cannot be used.
    Argument(String),
    Panic(String),
}

pub(crate) type Result<T> = std::result::Result<T, CallFailure>;

impl From<ffwd_engine::Error> for CallFailure {
    fn from(error: ffwd_engine::Error) -> Self {
        CallFailure::Engine(error)
    }
}

impl CallFailure {
    pub(crate) fn argument(message: impl Into<String>) -> Self {
        CallFailure::Argument(message.into())
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            CallFailure::Argument(_) => Status::InvalidArgument,
            CallFailure::Panic(_) => Status::Internal,
            CallFailure::Engine(error) => match error.kind() {
                ErrorKind::InvalidJson => Status::InvalidJson,
                ErrorKind::InvalidSchema => Status::InvalidSchema,
                ErrorKind::Unsupported => Status::Unsupported,
                ErrorKind::Unsatisfiable => Status::Unsatisfiable,
                ErrorKind::InvalidPattern => Status::InvalidPattern,
                ErrorKind::TooComplex => Status::TooComplex,
                ErrorKind::InvalidLabels => Status::InvalidLabels,
                ErrorKind::IllegalToken => Status::IllegalToken,
                ErrorKind::Tokenizer => Status::Tokenizer,
                ErrorKind::Io => Status::Io,
                ErrorKind::InvalidOption => Status::InvalidOption,
                _ => Status::Other,
            },
        }
    }
}

impl Error {
    pub(crate) fn new(fault: &CallFailure) -> Self {
        let (name, message, text) = match fault {
            CallFailure::Engine(error) => (error.kind().code(), error.message(), error.to_string()),
            CallFailure::Argument(message) => {
                ("invalid_argument", &**message, format!("invalid argument: {message}"))
            }
            CallFailure::Panic(message) => {
                ("internal", &**message, format!("a fault of the library: {message}"))
            }
        };
        let error = if let CallFailure::Engine(error) = fault { Some(error) } else { None };
        Error {
            status: fault.status(),
            name: c_text(name),
            message: c_text(message),
            text: c_text(&text),
            pointer: error.and_then(|error| error.pointer()).map(c_text),
            line_column: error
                .and_then(|error| error.places().iter().find_map(Place::line_and_column))
                .unwrap_or_default(),
            hint: error.and_then(|error| error.hint_text()).map(c_text),
        }
    }
}

/// Returns a text for C. Zero bytes, which only a text of the caller can bring in, become spaces.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

fn shown(text: Option<&CString>) -> *const c_char {
    text.map_or(std::ptr::null(), |text| text.as_ptr())
}

/// Returns the status of the failure.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_status(error: Option<&Error>) -> Status {
    error.map_or(Status::Ok, |error| error.status)
}

/// Returns the stable name of the kind of failure, such as `invalid_schema`.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_name(error: Option<&Error>) -> *const c_char {
    shown(error.map(|error| &error.name))
}

/// Returns the message: one sentence without location and hint.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_message(error: Option<&Error>) -> *const c_char {
    shown(error.map(|error| &error.message))
}

/// Returns everything in some lines, for people: kind, message, location, hint.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_text(error: Option<&Error>) -> *const c_char {
    shown(error.map(|error| &error.text))
}

/// Returns the JSON pointer of the location in a JSON document, or null. The empty text is the whole
/// document.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_pointer(error: Option<&Error>) -> *const c_char {
    shown(error.and_then(|error| error.pointer.as_ref()))
}

/// Returns the line of the location in a text, from 1, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_line(error: Option<&Error>) -> usize {
    error.map_or(0, |error| error.line_column.0)
}

/// Returns the column of the location in a text, in characters from 1, or 0.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_column(error: Option<&Error>) -> usize {
    error.map_or(0, |error| error.line_column.1)
}

/// Returns what to do about it, or null.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_hint(error: Option<&Error>) -> *const c_char {
    shown(error.and_then(|error| error.hint.as_ref()))
}

/// Frees an error. Null has no effect.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_error_free(error: Option<Box<Error>>) {
    drop(error);
}

/// Returns the version of the library, such as `0.1.0`.
#[unsafe(no_mangle)]
pub extern "C" fn ffwd_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
