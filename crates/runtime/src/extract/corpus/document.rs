//! A text with its origin, and the reading of files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ffwd_engine::text::decode;
use serde_json::Value;

use super::places::Places;
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum length of a text in bytes.
pub const MAX_INPUT: u64 = 64 << 20;
/// Bytes of a file of which the encoding and the delimiter are found.
pub(super) const BUFFER: usize = 64 << 10;

/// A text with its origin.
#[derive(Debug)]
pub struct Document {
    /// The file, and the line or row in it; empty for a text that comes from no file.
    pub source: PathBuf,
    /// What identifies the text for whoever wrote it.
    pub id: Option<Value>,
    /// The text, or why it cannot be read.
    pub text: Result<String>,
    /// Where its words stand, if it has pages.
    pub places: Option<Arc<Places>>,
}

impl Document {
    /// Returns a text without an identifier and without pages.
    pub fn of_file(source: PathBuf, text: Result<String>) -> Document {
        Document { source, id: None, text, places: None }
    }
}

/// Returns a line or row of a file, as compilers write it.
pub fn place(path: &Path, line: usize) -> PathBuf {
    let mut place = path.as_os_str().to_owned();
    place.push(format!(":{line}"));
    PathBuf::from(place)
}

/// Reads a text, of which a byte order mark is dropped; `-` is standard input.
///
/// # Errors
/// `Io` if the file cannot be read or is not in UTF-8 or UTF-16, `TooComplex` if it is larger than
/// [`MAX_INPUT`].
pub fn read_text(path: &Path) -> Result<String> {
    decode(read_bytes(path)?).map_err(|e| e.at(Place::File(path.into())))
}

/// Reads a file, or standard input for `-`.
///
/// # Errors
/// `Io` if it cannot be read, `TooComplex` if it is larger than [`MAX_INPUT`].
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let fail = |e: &std::io::Error| Error::io(path, e);
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        std::io::stdin().lock().take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    } else {
        let file = std::fs::File::open(path).map_err(|e| fail(&e))?;
        file.take(MAX_INPUT + 1).read_to_end(&mut bytes).map_err(|e| fail(&e))?;
    }
    if bytes.len() as u64 > MAX_INPUT {
        let message = format!("the input is larger than {} MiB", MAX_INPUT >> 20);
        return Err(Error::new(ErrorKind::TooComplex, message).at(Place::File(path.into())));
    }
    Ok(bytes)
}
