//! The keys and values of the tokens a model has seen.
//!
//! Appending costs the copy of one row per layer, truncation nothing but a length. Memory grows in
//! steps with the positions used and never beyond the model's context. Reserving the whole context at
//! once was rejected: with a context of 128 thousand positions and several sessions it is gigabytes that
//! are mostly never touched.

use super::config::ModelConfig;

/// Positions by which the memory of a cache grows.
const STEP: usize = 256;

/// One generation's cache; made by [`Model::new_cache`](super::Model::new_cache).
#[derive(Clone)]
pub struct KvCache {
    pub(super) layers: Vec<Layer>,
    pub(super) len: usize,
    pub(super) kv_dim: usize,
}

/// Keys and values of one layer, `[position][kv_head][head_dim]`.
#[derive(Clone, Default)]
pub(super) struct Layer {
    pub k: Vec<f32>,
    pub v: Vec<f32>,
}

impl KvCache {
    pub(super) fn new(config: &ModelConfig) -> Self {
        let layers = (0..config.layers).map(|_| Layer::default()).collect();
        KvCache { layers, len: 0, kv_dim: config.kv_dim() }
    }

    /// Number of tokens held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether no token is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens from position `len` on; does nothing if there are none. The memory is kept for
    /// what comes next.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// A copy of the first `len` tokens, or of all if there are fewer. Costs the copy of their keys and
    /// values: a small part of computing them.
    pub fn prefix(&self, len: usize) -> KvCache {
        let len = len.min(self.len);
        let used = len * self.kv_dim;
        let copy = |l: &Layer| Layer { k: l.k[..used].to_vec(), v: l.v[..used].to_vec() };
        KvCache { layers: self.layers.iter().map(copy).collect(), len, kv_dim: self.kv_dim }
    }

    /// Becomes a cache of `len` positions that hold zeros or what was there: for measuring.
    pub(super) fn pretend(&mut self, len: usize) {
        let used = len * self.kv_dim;
        for side in self.layers.iter_mut().flat_map(|l| [&mut l.k, &mut l.v]) {
            side.resize(used, 0.0);
        }
        self.len = len;
    }

    /// Bytes that a cache for this model takes once it holds `positions` tokens.
    pub(super) fn bytes_for(config: &ModelConfig, positions: usize) -> usize {
        let positions = positions.next_multiple_of(STEP);
        config.layers.saturating_mul(2 * config.kv_dim() * size_of::<f32>()).saturating_mul(positions)
    }

    /// Bytes of memory taken.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|l| (l.k.capacity() + l.v.capacity()) * size_of::<f32>()).sum()
    }

    /// Drops what was written beyond the length, and makes room for `rows` more positions.
    pub(super) fn prepare(&mut self, rows: usize) {
        let (used, wanted) = (self.len * self.kv_dim, (self.len + rows).next_multiple_of(STEP) * self.kv_dim);
        for layer in &mut self.layers {
            for side in [&mut layer.k, &mut layer.v] {
                side.truncate(used);
                side.reserve_exact(wanted - used);
            }
        }
    }
}

impl std::fmt::Debug for KvCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvCache").field("len", &self.len).field("bytes", &self.bytes()).finish()
    }
}
