//! The KV cache: keys and values of the tokens that a model has seen.
//!
//! # Cost
//!
//! Appending costs the copy of one row per layer, truncation only changes a length. Memory grows in
//! steps with the positions used, and never beyond the model's context.
//!
//! # Alternatives considered
//!
//! Reserving the whole context at once was rejected: with a long context and several sessions it is
//! gigabytes that are mostly never touched.

use super::config::ModelConfig;
use super::kernels::KEY_BLOCK;

/// Number of positions by which the memory of a cache grows; whole blocks of keys.
const STEP: usize = 256;
const _: () = assert!(STEP.is_multiple_of(KEY_BLOCK));

/// The cache of one generation; made by [`Model::new_cache`](super::Model::new_cache).
#[derive(Clone)]
pub struct KvCache {
    pub(super) layers: Vec<Layer>,
    pub(super) len: usize,
    pub(super) kv_dim: usize,
}

/// Keys and values of one layer.
#[derive(Clone, Default)]
pub(super) struct Layer {
    /// `[block of positions][kv_head][head_dim][KEY_BLOCK]`: attention reads contiguous memory. In
    /// the last block, positions beyond the length hold zeros or old values.
    pub k: Vec<f32>,
    /// `[position][kv_head][head_dim]`.
    pub v: Vec<f32>,
}

impl Layer {
    /// Appends a position; all earlier ones must be present.
    pub fn push(&mut self, key: &[f32], value: &[f32]) {
        let (width, position) = (key.len(), self.v.len() / key.len());
        let start = position / KEY_BLOCK * width * KEY_BLOCK;
        // If a block of keys begins, this adds it; otherwise the block already has room for this
        // position.
        self.k.resize(start + width * KEY_BLOCK, 0.0);
        for (element, block) in key.iter().zip(self.k[start..].chunks_exact_mut(KEY_BLOCK)) {
            block[position % KEY_BLOCK] = *element;
        }
        self.v.extend_from_slice(value);
    }
}

impl KvCache {
    pub(super) fn new(config: &ModelConfig) -> Self {
        let layers = (0..config.layers).map(|_| Layer::default()).collect();
        KvCache { layers, len: 0, kv_dim: config.kv_dim() }
    }

    /// Returns the number of tokens held.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no token is held.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets all tokens from position `len` on; does nothing if there are none. The memory is
    /// kept for later tokens.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Moves the `len` tokens at entry `from` to entry `at`, and forgets all tokens after them.
    /// This keeps one branch of a forward with branches. Does nothing if there are no such tokens.
    pub fn take_branch(&mut self, at: usize, from: usize, len: usize) {
        if at > from || from + len > self.len {
            return;
        }
        let width = self.kv_dim;
        for layer in &mut self.layers {
            layer.v.copy_within(from * width..(from + len) * width, at * width);
            for i in 0..len {
                let place = |p: usize| p / KEY_BLOCK * KEY_BLOCK * width + p % KEY_BLOCK;
                let (to, from) = (place(at + i), place(from + i));
                for element in 0..width {
                    layer.k[to + element * KEY_BLOCK] = layer.k[from + element * KEY_BLOCK];
                }
            }
        }
        self.len = at + len;
    }

    /// Returns a copy of the first `len` tokens, or of all if there are fewer. Costs the copy of
    /// their keys and values: a small part of computing them.
    pub fn prefix(&self, len: usize) -> KvCache {
        let len = len.min(self.len);
        let (keys, values) = self.used(len);
        let copy = |l: &Layer| Layer { k: l.k[..keys].to_vec(), v: l.v[..values].to_vec() };
        KvCache { layers: self.layers.iter().map(copy).collect(), len, kv_dim: self.kv_dim }
    }

    /// Returns the numbers of elements that the keys and the values of `len` positions take in each
    /// layer.
    fn used(&self, len: usize) -> (usize, usize) {
        (len.next_multiple_of(KEY_BLOCK) * self.kv_dim, len * self.kv_dim)
    }

    /// Sets the length to `len` positions that hold zeros or old values. For measuring.
    pub(super) fn set_len_for_timing(&mut self, len: usize) {
        let (keys, values) = self.used(len);
        for layer in &mut self.layers {
            layer.k.resize(keys, 0.0);
            layer.v.resize(values, 0.0);
        }
        self.len = len;
    }

    /// Returns the bytes that a cache for this model takes with `positions` tokens.
    pub(super) fn bytes_for(config: &ModelConfig, positions: usize) -> usize {
        let positions = positions.next_multiple_of(STEP);
        config.layers.saturating_mul(2 * config.kv_dim() * size_of::<f32>()).saturating_mul(positions)
    }

    /// Returns the bytes of memory taken.
    pub fn bytes(&self) -> usize {
        self.layers.iter().map(|l| (l.k.capacity() + l.v.capacity()) * size_of::<f32>()).sum()
    }

    /// Drops everything beyond the length, and reserves room for `rows` more positions.
    pub(super) fn prepare(&mut self, rows: usize) {
        let (keys, values) = self.used(self.len);
        let wanted = (self.len + rows).next_multiple_of(STEP) * self.kv_dim;
        for layer in &mut self.layers {
            for (side, used) in [(&mut layer.k, keys), (&mut layer.v, values)] {
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
