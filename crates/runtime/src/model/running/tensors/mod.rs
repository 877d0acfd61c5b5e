//! The forward pass from candle's tensors, on any device that candle has.
//!
//! It computes the same function as the forward on this crate's own kernels, with the same
//! segments, logits and caches.

mod attention_mask;
mod cache;
mod forward;
mod linear;

pub(super) use cache::TensorCache;
pub(crate) use forward::TensorTransformer;
pub(crate) use linear::{Linear, Weight, failed};
