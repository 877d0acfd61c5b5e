//! GGUF files: the container, and the model configuration and tokenizer in its metadata.

pub(super) mod config;
pub(super) mod file;
mod split;
mod tokenizer;

#[cfg(feature = "hub")]
pub(crate) use split::split_name;
pub(crate) use split::{open_gguf, split_files};
pub use tokenizer::{vocabulary_from_gguf, vocabulary_from_gguf_bytes};
