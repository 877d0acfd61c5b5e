//! The forward pass from candle's tensors, on any device that candle has.
//!
//! It computes the same function as the forward on this crate's own kernels, with the same
//! segments, logits and caches.

mod attention_mask;
mod cache;
mod forward;
mod linear;

pub(super) use cache::TensorCache;
pub use forward::TensorTransformer;
pub use linear::{Linear, Weight};

use crate::error::{Error, ErrorKind};

/// Returns the error for a failed operation of candle.
pub fn failed(e: candle_core::Error) -> Error {
    Error::new(ErrorKind::Model, format!("candle: {e}"))
}
