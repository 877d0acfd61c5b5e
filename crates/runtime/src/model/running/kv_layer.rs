//! Keys and values of one layer, as attention reads them, in single or in half precision.
//!
//! # Cost
//!
//! Appending and moving cost a copy of each element.
//!
//! # Alternatives considered
//!
//! - Keys by position were rejected: see [`Attention`](super::kernels::Attention).
//! - Halves with eight bits of exponent (BF16) were rejected: their mantissa is three bits shorter,
//!   and keys and values do not need the range.

use half::f16;

use super::kernels::{KEY_BLOCK, KvElement};
use crate::model::options::KvPrecision;

/// Keys and values of one layer.
#[derive(Clone)]
pub(super) enum Layer {
    Single(KeysAndValues<f32>),
    Half(KeysAndValues<f16>),
}

/// Keys and values of one layer in one format. `width` is that of the keys of a position, in all
/// methods.
#[derive(Clone, Default)]
pub(super) struct KeysAndValues<E> {
    /// `[block of positions][kv_head][head_dim][KEY_BLOCK]`: attention reads contiguous memory. In
    /// the last block, positions beyond the length hold zeros or old values.
    pub k: Vec<E>,
    /// `[position][kv_head][head_dim]`.
    pub v: Vec<E>,
}

/// A format of keys and values.
pub(super) trait KvFormat: KvElement {
    /// Returns the keys and values of a layer that has this format.
    fn of_layer(layer: &Layer) -> Option<&KeysAndValues<Self>>;
}

impl KvFormat for f32 {
    fn of_layer(layer: &Layer) -> Option<&KeysAndValues<f32>> {
        if let Layer::Single(both) = layer { Some(both) } else { None }
    }
}

impl KvFormat for f16 {
    fn of_layer(layer: &Layer) -> Option<&KeysAndValues<f16>> {
        if let Layer::Half(both) = layer { Some(both) } else { None }
    }
}

/// Runs an expression on the keys and values of a layer, whatever their format.
macro_rules! either {
    ($layer:expr, $both:ident => $result:expr) => {
        match $layer {
            Layer::Single($both) => $result,
            Layer::Half($both) => $result,
        }
    };
}

/// Returns the numbers of elements that the keys and the values of `len` positions take.
fn used(width: usize, len: usize) -> (usize, usize) {
    (len.next_multiple_of(KEY_BLOCK) * width, len * width)
}

impl<E: KvElement> KeysAndValues<E> {
    fn push(&mut self, key: &[f32], value: &[f32]) {
        let (width, position) = (key.len(), self.v.len() / key.len());
        let start = position / KEY_BLOCK * width * KEY_BLOCK;
        // If a block of keys begins, this adds it; otherwise the block already has room for this
        // position.
        self.k.resize(start + width * KEY_BLOCK, E::default());
        for (element, block) in key.iter().zip(self.k[start..].chunks_exact_mut(KEY_BLOCK)) {
            block[position % KEY_BLOCK] = E::of(*element);
        }
        self.v.extend(value.iter().map(|&x| E::of(x)));
    }

    fn prefix(&self, width: usize, len: usize) -> Self {
        let (keys, values) = used(width, len);
        KeysAndValues { k: self.k[..keys].to_vec(), v: self.v[..values].to_vec() }
    }

    fn resize(&mut self, width: usize, len: usize) {
        let (keys, values) = used(width, len);
        self.k.resize(keys, E::default());
        self.v.resize(values, E::default());
    }

    fn prepare(&mut self, width: usize, len: usize, room: usize) {
        let (keys, values) = used(width, len);
        for (side, used) in [(&mut self.k, keys), (&mut self.v, values)] {
            side.truncate(used);
            side.reserve_exact(room * width - used);
        }
    }

    fn bytes(&self) -> usize {
        (self.k.capacity() + self.v.capacity()) * size_of::<E>()
    }
}

impl Layer {
    pub(super) fn new(precision: KvPrecision) -> Self {
        match precision {
            KvPrecision::F32 => Layer::Single(KeysAndValues::default()),
            KvPrecision::F16 => Layer::Half(KeysAndValues::default()),
        }
    }

    /// Appends a position; all earlier ones must be present.
    pub(super) fn push(&mut self, key: &[f32], value: &[f32]) {
        either!(self, both => both.push(key, value));
    }

    /// Returns a copy of the first `len` positions.
    pub(super) fn prefix(&self, width: usize, len: usize) -> Layer {
        match self {
            Layer::Single(both) => Layer::Single(both.prefix(width, len)),
            Layer::Half(both) => Layer::Half(both.prefix(width, len)),
        }
    }

    /// Sets the length to `len` positions that hold zeros or old values.
    pub(super) fn resize(&mut self, width: usize, len: usize) {
        either!(self, both => both.resize(width, len));
    }

    /// Drops everything beyond `len` positions, and takes memory for `room` positions.
    pub(super) fn prepare(&mut self, width: usize, len: usize, room: usize) {
        either!(self, both => both.prepare(width, len, room));
    }

    /// Returns the bytes of memory taken.
    pub(super) fn bytes(&self) -> usize {
        either!(self, both => both.bytes())
    }
}
