//! GGUF files: the container, and the model configuration in its metadata; the engine reads the tokenizer.

pub(super) mod config;
pub(super) mod file;
mod split;

#[cfg(feature = "hub")]
pub(crate) use split::split_name;
pub(crate) use split::{open_gguf, split_files};

use std::path::Path;

use self::file::Gguf;
use crate::error::{Place, Result};
use crate::model::loading::file_data::FileData;
use crate::vocab::Vocabulary;

/// Reads the tokenizer in the metadata of a GGUF file, with the end tokens of the metadata. Reads
/// tokenizers of the kinds `gpt2` and `llama`, see `docs/models.md`.
///
/// # Errors
/// Returns an error if the file has no tokenizer, one of another kind, or one that contradicts
/// itself.
pub fn vocabulary_from_gguf(path: impl AsRef<Path>) -> Result<Vocabulary> {
    let path = path.as_ref();
    open_gguf(path).and_then(|gguf| gguf.vocabulary()).map_err(|e| e.at(Place::File(path.to_owned())))
}

/// Reads the tokenizer of a GGUF file in memory; see [`vocabulary_from_gguf`].
///
/// # Errors
/// Returns the errors of [`vocabulary_from_gguf`].
pub fn vocabulary_from_gguf_bytes(bytes: &[u8]) -> Result<Vocabulary> {
    Gguf::open(vec![FileData::Borrowed(bytes)])?.vocabulary()
}
