//! Weight matrices on a device, and their products.
//!
//! # Cost
//!
//! One product of candle for each number type among the matrices. Values between products are F32
//! whatever the weights are. Half precision costs a conversion on each side of a product, and on the
//! processor one of the whole matrix.
//!
//! # Alternatives considered
//!
//! Half precision between products was rejected. It saves two conversions, and adds the rounding of
//! every sum of the residual stream.

use std::sync::Arc;

use candle_core::quantized::QTensor;
use candle_core::{DType, Result, Tensor};

use crate::error::{Error, ErrorKind};

/// Returns the error for a failed operation of candle.
pub(crate) fn failed(e: candle_core::Error) -> Error {
    Error::new(ErrorKind::Model, format!("candle: {e}"))
}

/// A matrix of `outputs` rows and `inputs` columns.
#[derive(Clone)]
pub(crate) enum Weight {
    /// F32, F16 or BF16.
    Floats(Tensor),
    /// Quantised blocks.
    Blocks(Arc<QTensor>),
}

impl Weight {
    /// Multiplies rows of F32.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            // Candle widens half precision for each product on the processor, too, and rounds the sums.
            Weight::Floats(w) if w.device().is_cpu() => x.matmul(&w.to_dtype(DType::F32)?.t()?),
            Weight::Floats(w) => x.to_dtype(w.dtype())?.matmul(&w.t()?)?.to_dtype(DType::F32),
            Weight::Blocks(q) => x.contiguous()?.apply_op1_no_bwd(q.as_ref()),
        }
    }

    /// Returns the rows with these numbers as F32.
    pub(crate) fn rows(&self, ids: &Tensor) -> Result<Tensor> {
        match self {
            Weight::Floats(w) => w.index_select(ids, 0)?.to_dtype(DType::F32),
            Weight::Blocks(q) => q.embedding(ids)?.to_dtype(DType::F32),
        }
    }

    /// Returns the bytes taken on the device.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Weight::Floats(w) => w.elem_count() * w.dtype().size_in_bytes(),
            Weight::Blocks(q) => q.storage_size_in_bytes(),
        }
    }

    /// Returns the number type of the elements, if they are floats.
    pub(crate) fn float_type(&self) -> Option<DType> {
        match self {
            Weight::Floats(w) => Some(w.dtype()),
            Weight::Blocks(_) => None,
        }
    }
}

/// Several matrices with the same input, whose outputs lie next to each other. Matrices of the same
/// type are one.
#[derive(Clone)]
pub(crate) struct Linear {
    pub parts: Vec<Weight>,
    /// Added to each row, in F32.
    pub bias: Option<Tensor>,
    /// An adapter in F32, `[input][rank]` and `[rank][output]`.
    pub adapter: Option<[Tensor; 2]>,
}

impl Linear {
    /// Multiplies rows of F32.
    pub(crate) fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let products = self.parts.iter().map(|w| w.forward(x)).collect::<Result<Vec<_>>>()?;
        let y = match &products[..] {
            [one] => one.clone(),
            several => Tensor::cat(several, 1)?,
        };
        let y = match &self.bias {
            Some(bias) => y.broadcast_add(bias)?,
            None => y,
        };
        match &self.adapter {
            Some([a, b]) => y + x.contiguous()?.matmul(a)?.matmul(b)?,
            None => Ok(y),
        }
    }

    /// Returns the bytes of the matrices.
    pub(crate) fn bytes(&self) -> usize {
        let adapter = self.adapter.iter().flatten().map(|t| t.elem_count() * size_of::<f32>());
        adapter.chain(self.parts.iter().map(Weight::bytes)).sum()
    }
}
