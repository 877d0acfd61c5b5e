//! GGUF files: the container, and the model settings and tokenizer in its metadata.

pub(super) mod config;
pub(super) mod file;
mod sentencepiece;
pub(super) mod tokenizer;
