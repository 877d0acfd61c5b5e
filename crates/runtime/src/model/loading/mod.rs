//! Models from files: formats, names of tensors, precision, adapters, tokenizers, and where models are
//! found.

mod adapter;
mod describe;
#[cfg(feature = "embedded")]
pub mod embedded;
mod file_data;
mod gguf;
#[cfg(feature = "hub")]
pub mod hub;
pub mod named;
mod open;
mod precision;
mod safetensors;
mod tensor_form;
mod tensor_source;
pub(super) mod tensor_type;
mod weights;

pub use adapter::Adapter;
pub use describe::{Description, describe};
pub use gguf::{vocabulary_from_gguf, vocabulary_from_gguf_bytes};
pub use open::vocabulary_of;
