//! Conversion of weights to another precision when they are loaded.
//!
//! # Cost
//!
//! One pass over the tensor on all threads. The copy lives until the matrix is made.
//!
//! # Alternatives considered
//!
//! Quantisers of this crate's own were rejected where candle has the format: quantising is not the
//! work of a forward, and its results are those of other programs.

use std::borrow::Cow;

use candle_core::quantized::{GgmlDType, QTensor};
use candle_core::{Device, Tensor};

use super::tensor_source::RawTensor;
use super::tensor_type::TensorType;
use crate::error::{Error, Result};
use crate::model::config::bad;
use crate::model::options::Precision;
use crate::threads;

/// Number of weights that a thread converts at a time.
const CHUNK: usize = 1 << 16;

fn candle_error(e: candle_core::Error) -> Error {
    bad(format!("candle: {e}"))
}

/// Returns the tensor in a precision. What cannot be held in it stays in a wider one; see
/// [`Precision`].
pub(super) fn with_precision(raw: RawTensor<'_>, precision: Precision) -> Result<RawTensor<'_>> {
    let fits = |dtype: TensorType| raw.inputs.is_multiple_of(dtype.block_weights());
    let wanted = match precision {
        Precision::AsStored => raw.dtype,
        Precision::F32 => TensorType::F32,
        Precision::Q4K if fits(TensorType::Q4K) => TensorType::Q4K,
        Precision::Q4K | Precision::Q8_0 if fits(TensorType::Q8_0) => TensorType::Q8_0,
        Precision::Q4K | Precision::Q8_0 => TensorType::F32,
    };
    if wanted == raw.dtype {
        return Ok(raw);
    }
    let row = raw.bytes.len() / raw.outputs.max(1);
    let rows = (CHUNK / raw.inputs.max(1)).max(1);
    let convert = |bytes: &[u8]| {
        let chunk = RawTensor {
            dtype: raw.dtype,
            bytes: Cow::Borrowed(bytes),
            outputs: bytes.len() / row,
            inputs: raw.inputs,
        };
        let values = widened(&chunk);
        match wanted {
            TensorType::F32 => Ok(values.iter().flat_map(|v| v.to_le_bytes()).collect()),
            TensorType::Q8_0 => quantised(&values, chunk.outputs, chunk.inputs, GgmlDType::Q8_0),
            _ => quantised(&values, chunk.outputs, chunk.inputs, GgmlDType::Q4K),
        }
    };
    let mut chunks: Vec<(&[u8], Result<Vec<u8>>)> =
        raw.bytes.chunks(row * rows).map(|bytes| (bytes, Ok(Vec::new()))).collect();
    threads::each(&mut chunks, |(bytes, converted)| *converted = convert(bytes));
    let converted: Vec<Vec<u8>> = chunks.into_iter().map(|chunk| chunk.1).collect::<Result<_>>()?;
    Ok(RawTensor { dtype: wanted, bytes: converted.concat().into(), ..raw })
}

fn quantised(values: &[f32], outputs: usize, inputs: usize, dtype: GgmlDType) -> Result<Vec<u8>> {
    let tensor = Tensor::from_slice(values, (outputs, inputs), &Device::Cpu).map_err(candle_error)?;
    let quantised = QTensor::quantize(&tensor, dtype).map_err(candle_error)?;
    Ok(quantised.data().map_err(candle_error)?.into_owned())
}

/// Returns the numbers of a tensor in single precision.
pub(super) fn widened(raw: &RawTensor) -> Vec<f32> {
    let row = raw.bytes.len() / raw.outputs.max(1);
    if row == 0 {
        return Vec::new();
    }
    let rows: Vec<&[u8]> = raw.bytes.chunks_exact(row).collect();
    let matrix = raw.dtype.matrix(&rows, raw.inputs);
    let mut out = vec![0.0; raw.outputs * raw.inputs];
    for (i, out) in out.chunks_exact_mut(raw.inputs).enumerate() {
        matrix.row(i, out);
    }
    out
}
