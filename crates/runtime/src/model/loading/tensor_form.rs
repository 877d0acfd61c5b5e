//! Puts the weights of a file on a device.
//!
//! # Cost
//!
//! Each weight is read once and converted on the processor.

use std::sync::Arc;

use candle_core::quantized::{QStorage, QTensor};
use candle_core::{DType, Device, Tensor};

use super::precision::with_precision;
use super::tensor_source::{RawTensor, TensorSource};
use super::tensor_type::TensorType;
use super::weights::{WeightForm, load_weights};
use crate::error::{Error, ErrorKind, Result};
use crate::model::config::{ModelConfig, bad};
use crate::model::options::{LoadOptions, Precision};
use crate::model::running::tensors::{Linear, TensorTransformer, Weight, failed};

/// Reads the weights of a model onto a device.
pub(super) fn load_tensors(
    config: ModelConfig,
    source: &TensorSource,
    options: &LoadOptions,
    device: Device,
) -> Result<TensorTransformer> {
    if config.is_mixed() {
        let what = format!("a device for the family `{}`", config.architecture.family().gguf);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("it runs on this program's own kernels"));
    }
    let weights = load_weights(&TensorForm(&device), config, source, options)?;
    let float = weights.layers.iter().flat_map(|l| &l.qkv.parts).find_map(Weight::float_type);
    // The processor multiplies half precision by widening all of a tensor each time.
    let dtype = if device.is_cpu() { DType::F32 } else { float.unwrap_or(DType::F32) };
    Ok(TensorTransformer::new(weights, dtype, device, options.batch_invariant))
}

/// The form of tensors on a device.
struct TensorForm<'a>(&'a Device);

impl WeightForm for TensorForm<'_> {
    type Matrix = Weight;
    type Linear = Linear;
    type Norm = Tensor;

    /// Blocks that candle does not have become `Q8_0`, or F32 where rows are not whole blocks.
    fn held<'a>(&self, raw: RawTensor<'a>) -> Result<RawTensor<'a>> {
        if raw.dtype.candle().is_some() { Ok(raw) } else { with_precision(raw, Precision::Q8_0) }
    }

    fn matrix(&self, raw: &RawTensor) -> Result<Weight> {
        weight(raw.dtype, &raw.bytes, [raw.outputs, raw.inputs], self.0)
    }

    fn matrix_of_rows(&self, dtype: TensorType, rows: &[&[u8]], inputs: usize) -> Result<Weight> {
        weight(dtype, &rows.concat(), [rows.len(), inputs], self.0)
    }

    fn linear(&self, parts: Vec<Weight>, _: usize, _: usize, bias: Vec<f32>) -> Result<Linear> {
        let bias = if bias.is_empty() { None } else { Some(self.norm(bias)?) };
        Ok(Linear { parts, bias, adapter: None })
    }

    fn norm(&self, weights: Vec<f32>) -> Result<Tensor> {
        let width = weights.len();
        Tensor::from_vec(weights, width, self.0).map_err(failed)
    }
}

/// Puts a matrix on a device.
fn weight(dtype: TensorType, bytes: &[u8], shape: [usize; 2], device: &Device) -> Result<Weight> {
    let floats =
        |dtype| Tensor::from_raw_buffer(bytes, dtype, &shape, device).map(Weight::Floats).map_err(failed);
    match (dtype, dtype.candle()) {
        (TensorType::F32, _) => floats(DType::F32),
        (TensorType::F16, _) => floats(DType::F16),
        (TensorType::Bf16, _) => floats(DType::BF16),
        (_, None) => Err(bad(format!("candle has no tensors of type {}", dtype.name()))),
        (_, Some(dtype)) => {
            // Candle wants the start aligned to a block; words guarantee it.
            let mut words = vec![0u64; bytes.len().div_ceil(8)];
            // SAFETY: u8 has no alignment and every bit pattern of a u64 is valid, so the whole
            // vector may be seen as bytes.
            let (_, view, _) = unsafe { words.align_to_mut::<u8>() };
            view[..bytes.len()].copy_from_slice(bytes);
            let storage = QStorage::from_data((&view[..bytes.len()]).into(), device, dtype);
            let tensor = storage.and_then(|s| QTensor::new(s, (shape[0], shape[1]))).map_err(failed)?;
            Ok(Weight::Blocks(Arc::new(tensor)))
        }
    }
}
