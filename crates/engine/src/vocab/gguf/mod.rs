//! GGUF files: their metadata, and the tokenizer in them.

mod metadata;
mod tokenizer;

use std::fs::File;
use std::io::Read;

pub use metadata::{Cursor, MAGIC, Metadata, TEMPLATE};

use crate::error::Result;
use crate::vocab::Vocabulary;

/// Number of bytes that are read at first: tokenizers have a few megabytes.
const FIRST_BYTES: u64 = 1 << 23;

/// Returns true for the beginning of a GGUF file.
pub(super) fn is_gguf(content: &[u8]) -> bool {
    content.starts_with(MAGIC)
}

/// Reads the tokenizer of a file in memory.
pub(super) fn vocabulary(content: &[u8]) -> Result<Vocabulary> {
    let (metadata, _) = Metadata::read(&mut Cursor::new(content))?;
    Vocabulary::from_gguf_metadata(&metadata, content)
}

/// Reads as much of a file as its metadata need; `content` is its beginning.
///
/// # Errors
/// Returns the errors of reading.
pub(super) fn read_metadata(file: &mut File, content: &mut Vec<u8>) -> std::io::Result<()> {
    let mut more = FIRST_BYTES;
    while file.by_ref().take(more).read_to_end(content)? > 0 {
        let mut cursor = Cursor::new(content);
        // What is wrong with the metadata is said when they are read.
        if Metadata::read(&mut cursor).is_ok() || !cursor.ended() {
            break;
        }
        more = content.len() as u64;
    }
    Ok(())
}
