//! The forward pass from candle's tensors, on any device that candle has.
//!
//! It computes the same function as the forward on this crate's own kernels, with the same
//! segments, logits and caches.

mod cache;
mod forward;
mod linear;
mod load;
mod view;

pub(super) use cache::TensorCache;
pub(super) use forward::TensorTransformer;

use crate::error::{Error, ErrorKind};

/// Returns the error for a failed operation of candle.
fn failed(e: candle_core::Error) -> Error {
    Error::new(ErrorKind::Model, format!("candle: {e}"))
}
