//! Tensors of a file, whatever its format: their names, shapes, bytes, and the order of their rows.
//!
//! # Cost
//!
//! A tensor is a view of the mapped file.

use super::gguf::file::Gguf;
use super::precision::widened;
use super::safetensors::Safetensors;
use super::tensor_type::TensorType;
use crate::error::Result;
use crate::model::config::{LayerTensor, ModelConfig, Naming, TensorId, bad};

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

/// The files with a model's weights.
pub(crate) enum TensorSource<'a> {
    Gguf(Gguf<'a>),
    Safetensors(Safetensors<'a>),
}

impl TensorSource<'_> {
    fn name(&self, slot: TensorId) -> String {
        let naming = if self.is_gguf() { Naming::Gguf } else { Naming::Modules };
        let name = naming.tensor(slot);
        match self {
            // The text part of a model with a vision part.
            TensorSource::Safetensors(s) if s.contains("model.language_model.embed_tokens.weight") => {
                name.replacen("model.", "model.language_model.", 1)
            }
            _ => name,
        }
    }

    pub(super) fn is_gguf(&self) -> bool {
        matches!(self, TensorSource::Gguf(_))
    }

    pub(super) fn has(&self, slot: TensorId) -> bool {
        match self {
            TensorSource::Gguf(g) => g.info(&self.name(slot)).is_some(),
            TensorSource::Safetensors(s) => s.contains(&self.name(slot)),
        }
    }

    /// Returns a tensor as stored.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub(super) fn raw(&self, slot: TensorId, shape: &[usize]) -> Result<RawTensor<'_>> {
        self.read(&self.name(slot), shape)
    }

    /// Returns the tensor with this name as stored.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub(super) fn read(&self, name: &str, shape: &[usize]) -> Result<RawTensor<'_>> {
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

    /// Returns a matrix of one of `count` experts.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub(super) fn expert(
        &self,
        layer: usize,
        (expert, count): (usize, usize),
        part: LayerTensor,
        [outputs, inputs]: [usize; 2],
    ) -> Result<RawTensor<'_>> {
        let slot = TensorId::Expert(layer, expert, part);
        if !self.is_gguf() {
            return self.raw(slot, &[outputs, inputs]);
        }
        let all = self.raw(slot, &[count, outputs, inputs])?;
        let size = all.bytes.len() / count;
        let bytes = match all.bytes {
            std::borrow::Cow::Borrowed(bytes) => bytes[expert * size..(expert + 1) * size].into(),
            std::borrow::Cow::Owned(bytes) => bytes[expert * size..(expert + 1) * size].to_vec().into(),
        };
        Ok(RawTensor { dtype: all.dtype, bytes, outputs, inputs })
    }

    /// Reads the weights of a convolution, `[channel][position]`.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub(super) fn filter(&self, slot: TensorId, channels: usize, taps: usize) -> Result<Vec<f32>> {
        let shape = if self.is_gguf() { vec![channels, taps] } else { vec![channels, 1, taps] };
        Ok(widened(&self.raw(slot, &shape)?))
    }

    /// Returns the names of all tensors.
    pub(super) fn tensors(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            TensorSource::Safetensors(s) => Box::new(s.names()),
            TensorSource::Gguf(g) => Box::new(g.names()),
        }
    }

    /// Returns the shape of a tensor, if it exists.
    pub(super) fn shape(&self, name: &str) -> Option<&[usize]> {
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
    pub(super) fn vector(&self, slot: TensorId, width: usize) -> Result<Vec<f32>> {
        Ok(widened(&self.raw(slot, &[width])?))
    }

    /// Reads the weights of a norm, as they are multiplied.
    ///
    /// # Errors
    /// Returns an error if the tensor is missing or has another shape.
    pub(super) fn norm(&self, slot: TensorId, width: usize, config: &ModelConfig) -> Result<Vec<f32>> {
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
    /// ones, as the kernels need them. Gates of the attention's output follow the query of each head.
    pub(super) fn row_in_file(&self, part: LayerTensor, row: usize, config: &ModelConfig) -> usize {
        let width = config.head_dim;
        match part {
            LayerTensor::GatedQ => return row / width * 2 * width + row % width,
            LayerTensor::QGate => return row / width * 2 * width + width + row % width,
            _ => {}
        }
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
