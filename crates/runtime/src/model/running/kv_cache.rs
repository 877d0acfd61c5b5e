//! The cache of a sequence: keys and values of the tokens that a model has seen, and the states of
//! recurrent layers.
//!
//! # Cost
//!
//! Appending costs the copy of one row per layer, truncation only changes a length. A position
//! takes two numbers for each layer, key head and element of a head. Memory grows in steps with the
//! positions used, and never beyond the model's context.
//!
//! # Alternatives considered
//!
//! Reserving the whole context at once was rejected: with a long context and several sessions it is
//! gigabytes that are mostly never touched.

use super::kernels::KEY_BLOCK;
use super::kv_layer::Layer;
use super::state_cache::RecurrentStates;
use super::tensors::TensorCache;
use crate::model::config::ModelConfig;
use crate::model::options::KvPrecision;
use crate::vocab::TokenId;

/// Number of positions by which the memory of a cache grows; whole blocks of keys.
const STEP: usize = 256;
const _: () = assert!(STEP.is_multiple_of(KEY_BLOCK));

/// The cache of one generation; made by [`Model::new_cache`](super::Model::new_cache).
#[derive(Clone)]
pub struct KvCache {
    /// Of the layers with attention.
    pub(super) layers: Vec<Layer>,
    /// Of the recurrent layers, if there are any.
    pub(super) states: Option<Box<RecurrentStates>>,
    pub(super) len: usize,
    pub(super) kv_dim: usize,
    precision: KvPrecision,
    /// Holds keys and values in place of `layers`, which are then none.
    tensors: Option<TensorCache>,
}

impl KvCache {
    pub(super) fn new(config: &ModelConfig, precision: KvPrecision) -> Self {
        let layers = (0..config.attention_layers()).map(|_| Layer::new(precision)).collect();
        let states = RecurrentStates::new(config).map(Box::new);
        KvCache { layers, states, len: 0, kv_dim: config.kv_dim(), precision, tensors: None }
    }

    /// Returns a cache that holds tensors.
    pub(super) fn of_tensors(tensors: TensorCache) -> Self {
        let (precision, tensors) = (KvPrecision::F32, Some(tensors));
        KvCache { layers: Vec::new(), states: None, len: 0, kv_dim: 0, precision, tensors }
    }

    /// Returns true if the cache holds layers of this shape and precision for this crate's kernels.
    pub(super) fn has_layers_of(&self, config: &ModelConfig, precision: KvPrecision) -> bool {
        let shape = (self.layers.len(), self.kv_dim, self.precision);
        let states = RecurrentStates::fit(self.states.as_deref(), config);
        states && shape == (config.attention_layers(), config.kv_dim(), precision)
    }

    pub(super) fn tensors(&self) -> Option<&TensorCache> {
        self.tensors.as_ref()
    }

    pub(super) fn tensors_mut(&mut self) -> Option<&mut TensorCache> {
        self.tensors.as_mut()
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
    /// kept for later tokens. The states of recurrent layers are restored by the next forward, which
    /// runs tokens again if there is no state near by.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Sets the length that the cache had before a forward that failed.
    pub(super) fn undo(&mut self, len: usize) {
        self.len = len;
    }

    /// Returns a copy of the first `len` tokens, or of all if there are fewer. Costs the copy of
    /// their keys and values: a small part of computing them. On a device it shares the memory
    /// until one of the two appends tokens.
    pub fn prefix(&self, len: usize) -> KvCache {
        let len = len.min(self.len);
        let layers = self.layers.iter().map(|layer| layer.prefix(self.kv_dim, len)).collect();
        let (kv_dim, precision, tensors) = (self.kv_dim, self.precision, self.tensors.clone());
        let states = self.states.as_ref().map(|states| Box::new(states.prefix(len)));
        KvCache { layers, states, len, kv_dim, precision, tensors }
    }

    /// Sets the length to `len` positions that hold zeros or old values. For measuring.
    pub(super) fn set_len_for_timing(&mut self, len: usize) {
        let width = self.kv_dim;
        self.layers.iter_mut().for_each(|layer| layer.resize(width, len));
        self.len = len;
        self.states.iter_mut().for_each(|states| states.set_len_for_timing(len));
    }

    /// Returns the bytes that a cache for this model takes with `positions` tokens.
    pub(super) fn bytes_for(config: &ModelConfig, precision: KvPrecision, positions: usize) -> usize {
        let positions = positions.next_multiple_of(STEP);
        let position = config.attention_layers().saturating_mul(2 * config.kv_dim() * precision.bytes());
        position.saturating_mul(positions).saturating_add(RecurrentStates::bytes_for(config))
    }

    /// Returns the bytes of memory taken.
    pub fn bytes(&self) -> usize {
        let layers = self.layers.iter().map(Layer::bytes).sum::<usize>();
        let states = self.states.as_ref().map_or(0, |states| states.bytes());
        layers + states + self.tensors.as_ref().map_or(0, TensorCache::bytes)
    }

    /// Counts more tokens, which went through all layers.
    pub(super) fn finish(&mut self, tokens: &[TokenId]) {
        self.len += tokens.len();
        self.states.iter_mut().for_each(|states| states.finish(tokens));
    }

    /// Drops everything beyond the length, and reserves room for `rows` more positions.
    pub(super) fn prepare(&mut self, rows: usize) {
        let (width, len) = (self.kv_dim, self.len);
        let room = (len + rows).next_multiple_of(STEP);
        self.layers.iter_mut().for_each(|layer| layer.prepare(width, len, room));
        self.states.iter_mut().for_each(|states| states.begin(rows));
    }
}

impl std::fmt::Debug for KvCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KvCache").field("len", &self.len).field("bytes", &self.bytes()).finish()
    }
}
