//! Keys and values of one layer, as attention reads them.
//!
//! # Cost
//!
//! Appending and moving cost a copy of each element.
//!
//! # Alternatives considered
//!
//! Keys by position were rejected: see [`Attention`](super::kernels::Attention).

use super::kernels::KEY_BLOCK;

/// Keys and values of one layer. `width` is that of the keys of a position, in all methods.
#[derive(Clone, Default)]
pub(super) struct Layer {
    /// `[block of positions][kv_head][head_dim][KEY_BLOCK]`: attention reads contiguous memory. In
    /// the last block, positions beyond the length hold zeros or old values.
    pub k: Vec<f32>,
    /// `[position][kv_head][head_dim]`.
    pub v: Vec<f32>,
}

/// Returns the numbers of elements that the keys and the values of `len` positions take.
fn used(width: usize, len: usize) -> (usize, usize) {
    (len.next_multiple_of(KEY_BLOCK) * width, len * width)
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

    /// Moves `len` positions from entry `from` to entry `at`, which is not after it.
    pub fn take_branch(&mut self, width: usize, at: usize, from: usize, len: usize) {
        self.v.copy_within(from * width..(from + len) * width, at * width);
        for i in 0..len {
            let place = |p: usize| p / KEY_BLOCK * KEY_BLOCK * width + p % KEY_BLOCK;
            let (to, from) = (place(at + i), place(from + i));
            for element in 0..width {
                self.k[to + element * KEY_BLOCK] = self.k[from + element * KEY_BLOCK];
            }
        }
    }

    /// Returns a copy of the first `len` positions.
    pub fn prefix(&self, width: usize, len: usize) -> Layer {
        let (keys, values) = used(width, len);
        Layer { k: self.k[..keys].to_vec(), v: self.v[..values].to_vec() }
    }

    /// Sets the length to `len` positions that hold zeros or old values.
    pub fn resize(&mut self, width: usize, len: usize) {
        let (keys, values) = used(width, len);
        self.k.resize(keys, 0.0);
        self.v.resize(values, 0.0);
    }

    /// Drops everything beyond `len` positions, and takes memory for `room` positions.
    pub fn prepare(&mut self, width: usize, len: usize, room: usize) {
        let (keys, values) = used(width, len);
        for (side, used) in [(&mut self.k, keys), (&mut self.v, values)] {
            side.truncate(used);
            side.reserve_exact(room * width - used);
        }
    }

    /// Returns the bytes of memory taken.
    pub fn bytes(&self) -> usize {
        (self.k.capacity() + self.v.capacity()) * size_of::<f32>()
    }
}
