//! Weight matrices from files: precision, order of rows, fusion of projections, and products.
//!
//! A matrix keeps the format that it has in the file, unless another precision is requested.
//!
//! # Cost
//!
//! For few rows a product costs one pass over the matrix. Loading passes over each tensor once, on
//! all threads, and gives its pages back.
//!
//! # Alternatives considered
//!
//! Products by candle's kernels were rejected: they are slow for most formats, keep a second copy of
//! the weights, and round differently for different numbers of rows.

use std::sync::Arc;

use super::config::{ModelConfig, bad};
use super::gguf::file::Gguf;
use super::kernels::{Activations, Matrix, Out, Rows, multiply_all};
use super::low_rank::LowRank;
use super::precision::widened;
use super::safetensors::Safetensors;
use super::tensor_names::{LayerTensor, TensorId, gguf_name, safetensors_name};
use super::tensor_type::TensorType;
use crate::error::Result;

/// A tensor in a file, or a converted copy of one.
pub(crate) struct RawTensor<'a> {
    pub dtype: TensorType,
    pub bytes: std::borrow::Cow<'a, [u8]>,
    /// Number of outputs, or 1 for a vector.
    pub outputs: usize,
    /// Number of inputs, or the length of a vector.
    pub inputs: usize,
}

impl RawTensor<'_> {
    /// Returns the bytes of each output.
    pub(super) fn rows(&self) -> impl Iterator<Item = &[u8]> {
        self.bytes.chunks_exact(self.bytes.len() / self.outputs.max(1))
    }
}

/// Several matrices with the same input, whose outputs lie next to each other. Matrices of the same
/// format are one product.
#[derive(Clone)]
pub(crate) struct FusedLinear {
    parts: Vec<Arc<dyn Matrix>>,
    pub outputs: usize,
    inputs: usize,
    /// Added to each row, if not empty.
    bias: Vec<f32>,
    /// Added to each row.
    adapter: Option<Arc<LowRank>>,
}

impl FusedLinear {
    /// Computes all outputs of `rows` rows into `out`, as `[row][output]`.
    pub fn forward(&self, x: &[f32], rows: usize, out: &mut Vec<f32>) {
        assert_eq!(x.len(), rows * self.inputs, "input of a projection");
        out.resize(rows * self.outputs, 0.0);
        if rows == 0 {
            return;
        }
        let mut x = Activations::new(Rows::new(x, rows, self.inputs));
        multiply_all(&self.parts, &mut x, Out { data: out, stride: self.outputs });
        if !self.bias.is_empty() {
            for row in out.chunks_exact_mut(self.outputs) {
                row.iter_mut().zip(&self.bias).for_each(|(v, b)| *v += b);
            }
        }
        if let Some(adapter) = &self.adapter {
            adapter.add(&mut x, out, self.outputs);
        }
    }

    /// Returns the same matrices with an adapter beside them.
    pub fn with_adapter(&self, adapter: Option<Arc<LowRank>>) -> Self {
        FusedLinear { adapter, ..self.clone() }
    }

    /// Computes some elements of one output row of a single matrix without bias and adapter. The bits
    /// are those of [`forward`](Self::forward) over that row alone.
    ///
    /// # Panics
    /// If it is not a single matrix without these.
    pub fn forward_columns(&self, x: &[f32], outputs: &[u32], out: &mut [f32]) {
        let ([matrix], None) = (&self.parts[..], &self.adapter) else { unreachable!("a single matrix") };
        matrix.multiply_columns(x, outputs, out);
    }

    pub fn new(parts: Vec<Arc<dyn Matrix>>, outputs: usize, inputs: usize, bias: Vec<f32>) -> Self {
        FusedLinear { parts, outputs, inputs, bias, adapter: None }
    }

    pub fn single(matrix: Arc<dyn Matrix>) -> Self {
        let (outputs, inputs) = (matrix.outputs(), matrix.inputs());
        Self::new(vec![matrix], outputs, inputs, Vec::new())
    }

    pub fn bytes(&self) -> usize {
        let adapter = self.adapter.as_ref().map_or(0, |adapter| adapter.bytes());
        adapter + self.parts.iter().map(|part| part.bytes()).sum::<usize>()
    }
}

/// The files with a model's weights.
pub(crate) enum TensorSource<'a> {
    Gguf(Gguf<'a>),
    Safetensors(Safetensors<'a>),
}

impl TensorSource<'_> {
    fn name(&self, slot: TensorId) -> String {
        match self {
            TensorSource::Gguf(_) => gguf_name(slot),
            TensorSource::Safetensors(_) => safetensors_name(slot),
        }
    }

    pub fn has(&self, slot: TensorId) -> bool {
        match self {
            TensorSource::Gguf(g) => g.info(&self.name(slot)).is_some(),
            TensorSource::Safetensors(s) => s.contains(&self.name(slot)),
        }
    }

    pub fn has_output(&self) -> bool {
        self.has(TensorId::Output)
    }

    /// Returns a tensor as stored.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub fn raw(&self, slot: TensorId, shape: &[usize]) -> Result<RawTensor<'_>> {
        self.read(&self.name(slot), shape)
    }

    /// Returns the tensor with this name as stored.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub fn read(&self, name: &str, shape: &[usize]) -> Result<RawTensor<'_>> {
        let (dtype, bytes) = match self {
            TensorSource::Safetensors(s) => s.tensor(name, shape)?,
            TensorSource::Gguf(g) => {
                let info = g.info(name).ok_or_else(|| bad(format!("the tensor `{name}` is missing")))?;
                if info.shape != shape {
                    return Err(bad(format!(
                        "tensor `{name}` has shape {:?}, the metadata ask for {shape:?}",
                        info.shape
                    )));
                }
                (info.dtype, g.read(name)?)
            }
        };
        let inputs = shape.last().copied().unwrap_or(1);
        let outputs = shape[..shape.len().saturating_sub(1)].iter().product();
        Ok(RawTensor { dtype, bytes: bytes.into(), outputs, inputs })
    }

    /// Returns the names of all tensors.
    pub fn tensors(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            TensorSource::Safetensors(s) => Box::new(s.names()),
            TensorSource::Gguf(g) => Box::new(g.names()),
        }
    }

    /// Returns the shape of a tensor, if it exists.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        match self {
            TensorSource::Safetensors(s) => s.shape(name),
            TensorSource::Gguf(g) => g.info(name).map(|info| &info.shape[..]),
        }
    }

    /// Gives the memory of a tensor's bytes back.
    pub(super) fn release(&self, slot: TensorId) {
        match self {
            TensorSource::Safetensors(s) => s.release(&self.name(slot)),
            TensorSource::Gguf(g) => g.release(&self.name(slot)),
        }
    }

    /// Reads a vector, always as `f32`.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub fn vector(&self, slot: TensorId, width: usize) -> Result<Vec<f32>> {
        Ok(widened(&self.raw(slot, &[width])?))
    }

    /// Reads the weights of a norm, as they are multiplied.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub fn norm(&self, slot: TensorId, width: usize, config: &ModelConfig) -> Result<Vec<f32>> {
        let mut weights = self.vector(slot, width)?;
        if config.architecture.family().norms_less_one && matches!(self, TensorSource::Safetensors(_)) {
            weights.iter_mut().for_each(|w| *w += 1.0);
        }
        Ok(weights)
    }

    /// Returns the row in the file of a matrix's output `row`.
    ///
    /// GGUF files of some families order the rows of each query and key head so that
    /// rotary pairs are neighbours. Elsewhere the first elements of all pairs come before the second
    /// ones, as the kernels need them.
    pub(super) fn row_in_file(&self, part: LayerTensor, row: usize, config: &ModelConfig) -> usize {
        let in_pairs = matches!(self, TensorSource::Gguf(_))
            && matches!(part, LayerTensor::Q | LayerTensor::K)
            && config.architecture.family().pairs_in_gguf;
        if !in_pairs {
            return row;
        }
        let (head, i, half) = (row / config.head_dim, row % config.head_dim, config.head_dim / 2);
        head * config.head_dim + if i < half { 2 * i } else { 2 * (i - half) + 1 }
    }
}

impl ModelConfig {
    pub(super) fn has_bias(&self, part: LayerTensor) -> bool {
        match part {
            LayerTensor::Q | LayerTensor::K | LayerTensor::V => self.qkv_bias,
            LayerTensor::O => self.attention_output_bias,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kernels::{Dense, Expansion};
    use super::super::low_rank::Expanded;
    use super::*;

    #[test]
    fn a_projection_and_its_adapted_copy_share_the_weights() {
        let matrix: Arc<dyn Matrix> = Arc::new(Dense::<f32>::new(&[&[0; 8], &[0; 8], &[0; 8]], 2));
        let plain = FusedLinear::new(vec![matrix.clone()], 3, 2, vec![1.0, 2.0, 3.0]);
        let row = |numbers: [f32; 2]| numbers.map(f32::to_le_bytes).concat();
        let reductions: Vec<Arc<dyn Matrix>> = vec![Arc::new(Dense::<f32>::new(&[&row([2.0, 0.5])], 2))];
        // The second and the third output.
        let expansion = Expansion::of_floats(&[10.0, -1.0], 2);
        let adapter = LowRank { reductions, expansions: vec![Expanded { expansion, output: 1 }] };
        let adapted = plain.with_adapter(Some(Arc::new(adapter)));
        assert!(Arc::ptr_eq(&adapted.parts[0], &matrix));
        assert!(adapted.bytes() > plain.bytes() && plain.adapter.is_none());
        let (mut before, mut out) = (Vec::new(), Vec::new());
        plain.forward(&[1.0, 4.0, 0.0, 2.0], 2, &mut before);
        adapted.forward(&[1.0, 4.0, 0.0, 2.0], 2, &mut out);
        assert_eq!(before, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
        assert_eq!(out, [1.0, 42.0, -1.0, 1.0, 12.0, 2.0]);
    }
}
