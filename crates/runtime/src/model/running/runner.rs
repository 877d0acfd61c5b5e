//! The two forward passes behind one interface: this crate's kernels, and candle's tensors on a
//! device.
//!
//! # Alternatives considered
//!
//! A trait was rejected: the two are all that there are, and a match shows what differs.

use super::batch::Segment;
use super::kv_cache::KvCache;
use super::low_rank::LayerAdapters;
use super::tensors::{Linear, TensorCache, TensorTransformer, Weight};
use super::transformer::Transformer;
use crate::error::Result;
use crate::model::config::{ModelConfig, bad};

/// A forward pass with its weights.
pub(crate) enum Runner {
    /// This crate's kernels, on the processor.
    Kernels(Transformer),
    /// Candle's tensors, on any device.
    Tensors(TensorTransformer),
}

impl Runner {
    pub(crate) fn config(&self) -> &ModelConfig {
        match self {
            Runner::Kernels(t) => &t.weights.config,
            Runner::Tensors(t) => &t.weights.config,
        }
    }

    /// Returns the same model with an adapter. Both share their weights.
    pub(crate) fn with_adapters(&self, adapters: Vec<LayerAdapters>) -> Result<Self> {
        Ok(match self {
            Runner::Kernels(t) => Runner::Kernels(t.with_adapters(adapters)),
            Runner::Tensors(t) => Runner::Tensors(t.with_adapters(adapters)?),
        })
    }

    /// Returns an empty cache.
    pub(crate) fn new_cache(&self) -> KvCache {
        match self {
            Runner::Kernels(t) => KvCache::new(&t.weights.config, t.kv),
            Runner::Tensors(t) => KvCache::of_tensors(TensorCache::new(t.shape.clone())),
        }
    }

    /// Returns the bytes that a cache takes with `positions` tokens.
    pub(crate) fn cache_bytes(&self, positions: usize) -> usize {
        match self {
            Runner::Kernels(t) => KvCache::bytes_for(&t.weights.config, t.kv, positions),
            Runner::Tensors(t) => t.shape.bytes(positions),
        }
    }

    /// Returns the bytes of the weight matrices.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Runner::Kernels(t) => t.bytes(),
            Runner::Tensors(t) => t.weights.bytes(Weight::bytes, Linear::bytes),
        }
    }

    /// Returns true if a row's logits may depend, in the last bits, on the number of rows that run
    /// with it.
    pub(crate) fn varies(&self) -> bool {
        match self {
            // No kernel depends on it.
            Runner::Kernels(_) => false,
            Runner::Tensors(t) => !t.row_by_row,
        }
    }

    /// Checks that the segment can run.
    pub(crate) fn check(&self, segment: &Segment) -> Result<()> {
        let own = match self {
            Runner::Kernels(t) => segment.cache.has_layers_of(&t.weights.config, t.kv),
            Runner::Tensors(t) => segment.cache.tensors().is_some_and(|held| held.fits(&t.shape)),
        };
        if !own {
            return Err(
                bad("the cache belongs to another model").hint("make it with this model's `new_cache`")
            );
        }
        segment.check(self.config())
    }

    /// Returns the logits that each segment wants. After a failure the caches are unchanged.
    pub(crate) fn forward(&self, segments: &mut [Segment]) -> Result<Vec<Vec<Vec<f32>>>> {
        match self {
            Runner::Kernels(t) => Ok(t.forward(segments)),
            Runner::Tensors(t) => t.forward(segments),
        }
    }
}
