//! Keys and values as tensors on a device.
//!
//! # Cost
//!
//! Appending copies the new rows. Truncating changes a number outside of this file. A clone shares
//! the memory; the first forward that appends to one of them copies what it holds.
//!
//! # Alternatives considered
//!
//! Concatenating a tensor per forward, as in candle's models, was rejected: it copies the whole
//! cache for each token.

use std::sync::Arc;

use candle_core::{DType, Device, Result, Tensor};

/// Number of positions by which the memory of a cache grows.
const STEP: usize = 256;

/// The shape of a cache's tensors, and their place.
#[derive(Clone)]
pub(crate) struct KvShape {
    pub layers: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub dtype: DType,
    pub device: Device,
}

/// The keys and the values of a layer, each `[kv_head][position][head_dim]`.
pub(super) type KvTensors = [Tensor; 2];

/// Keys and values of all layers.
#[derive(Clone)]
pub(crate) struct TensorCache {
    shape: KvShape,
    layers: Arc<Vec<KvTensors>>,
    /// Number of positions with memory.
    capacity: usize,
}

impl KvShape {
    /// Returns the bytes of a cache with `positions` positions.
    pub(crate) fn bytes(&self, positions: usize) -> usize {
        let position = self.layers * self.kv_heads * self.head_dim * 2 * self.dtype.size_in_bytes();
        positions.next_multiple_of(STEP).saturating_mul(position)
    }
}

impl TensorCache {
    pub(crate) fn new(shape: KvShape) -> Self {
        TensorCache { shape, layers: Arc::default(), capacity: 0 }
    }

    /// Returns the bytes taken on the device.
    pub(crate) fn bytes(&self) -> usize {
        self.shape.bytes(self.capacity)
    }

    /// Returns true if the cache fits a model with this shape.
    pub(crate) fn fits(&self, shape: &KvShape) -> bool {
        let s = &self.shape;
        (s.layers, s.kv_heads, s.head_dim, s.dtype)
            == (shape.layers, shape.kv_heads, shape.head_dim, shape.dtype)
            && s.device.same_device(&shape.device)
    }

    /// Makes room for `rows` entries after the first `len`, and owns the memory. Afterwards entries
    /// can be written.
    pub(crate) fn prepare(&mut self, len: usize, rows: usize) -> Result<()> {
        let wanted = len + rows;
        if wanted > self.capacity || Arc::get_mut(&mut self.layers).is_none() {
            let capacity = wanted.max(self.capacity).next_multiple_of(STEP);
            self.layers = Arc::new(self.copied(capacity, len.min(self.capacity))?);
            self.capacity = capacity;
        }
        Ok(())
    }

    /// Returns tensors of this capacity with the first `held` entries.
    fn copied(&self, capacity: usize, held: usize) -> Result<Vec<KvTensors>> {
        let s = &self.shape;
        let empty = || Tensor::zeros((s.kv_heads, capacity, s.head_dim), s.dtype, &s.device);
        let one = |layer: usize, side: usize| -> Result<Tensor> {
            let tensor = empty()?;
            if held > 0 {
                tensor.slice_set(&self.layers[layer][side].narrow(1, 0, held)?.contiguous()?, 1, 0)?;
            }
            Ok(tensor)
        };
        (0..s.layers).map(|layer| Ok([one(layer, 0)?, one(layer, 1)?])).collect()
    }

    /// Writes keys and values, `[kv_head][row][head_dim]`, to the entries from `at` on.
    pub(crate) fn write(&self, layer: usize, at: usize, rows: [&Tensor; 2]) -> Result<()> {
        for (tensor, rows) in self.layers[layer].iter().zip(rows) {
            tensor.slice_set(&rows.to_dtype(self.shape.dtype)?.contiguous()?, 1, at)?;
        }
        Ok(())
    }

    /// Returns the keys and the values of a layer.
    pub(crate) fn layer(&self, layer: usize) -> &KvTensors {
        &self.layers[layer]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> TensorCache {
        let (dtype, device) = (DType::F32, Device::Cpu);
        TensorCache::new(KvShape { layers: 2, kv_heads: 1, head_dim: 1, dtype, device })
    }

    fn write(cache: &mut TensorCache, at: usize, values: &[f32]) {
        cache.prepare(at, values.len()).unwrap();
        let rows = Tensor::from_slice(values, (1, values.len(), 1), &Device::Cpu).unwrap();
        (0..2).for_each(|layer| cache.write(layer, at, [&rows, &rows]).unwrap());
    }

    fn held(cache: &TensorCache, len: usize) -> Vec<f32> {
        let [k, v] = cache.layer(1);
        let read = |t: &Tensor| t.narrow(1, 0, len).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        assert_eq!(read(k), read(v));
        read(k)
    }

    #[test]
    fn clones_do_not_see_what_the_other_appends() {
        let mut a = cache();
        write(&mut a, 0, &[1.0, 2.0, 3.0]);
        let mut b = a.clone();
        write(&mut b, 2, &[9.0, 8.0]);
        write(&mut a, 3, &[4.0]);
        assert_eq!(held(&a, 4), [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(held(&b, 4), [1.0, 2.0, 9.0, 8.0]);
    }
}
