//! Weight matrices: storage, fusion of projections, and products.
//!
//! Matrices are held as `f32`, `Q8_0`, `Q4_K` or `Q6_K` and multiplied by this crate's kernels.
//! Other block formats of GGUF are multiplied by candle.
//!
//! # Cost
//!
//! For few rows a product costs one pass over the matrix.
//!
//! # Alternatives considered
//!
//! Half precision is widened when loaded: on CPUs candle's f16 products of two or more rows are
//! many times slower than those of one row.

use std::io::{Read, Seek};
use std::sync::Arc;

use candle_core::quantized::{GgmlDType, QMatMul, QStorage, QTensor};
use candle_core::{Device, Module, Storage, Tensor};

use super::Precision;
use super::config::{Architecture, ModelConfig, bad};
use super::kernels::{
    BLOCK, K_BLOCK, Out, Rows, matmul_f32, matmul_f32_columns, matmul_int8, matmul_int8_columns,
};
use super::repack::{PackedQ4K, PackedQ6K, PackedQ8_0};
use super::safetensors::Safetensors;
use super::tensor_names::{LayerTensor, TensorId, gguf_name, safetensors_name};
use crate::error::{Error, Result};
use crate::model::gguf::file::Gguf;

pub(crate) fn candle_error(e: candle_core::Error) -> Error {
    bad(format!("candle: {e}"))
}

/// The elements of a matrix, by rows.
#[derive(Clone)]
enum WeightStorage {
    F32(Arc<Vec<f32>>),
    Q8(Arc<PackedQ8_0>),
    Q4(Arc<PackedQ4K>),
    Q6(Arc<PackedQ6K>),
    /// Other formats, multiplied by candle.
    Quantised(Arc<QTensor>),
}

/// A matrix of `outputs` rows and `inputs` columns.
#[derive(Clone)]
pub(crate) struct Matrix {
    elements: WeightStorage,
    outputs: usize,
    inputs: usize,
}

/// The content of a file, independent of the chosen precision.
enum RawTensor {
    F32(Vec<f32>),
    Quantised(GgmlDType, Vec<u8>),
}

impl RawTensor {
    fn into_precision(
        self,
        precision: Precision,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<RawTensor> {
        match (self, precision) {
            (RawTensor::F32(v), Precision::Q4K) if inputs.is_multiple_of(K_BLOCK) => {
                quantise(&v, outputs, inputs, GgmlDType::Q4K)
            }
            (RawTensor::F32(v), Precision::Q8_0 | Precision::Q4K) if inputs.is_multiple_of(BLOCK) => {
                quantise(&v, outputs, inputs, GgmlDType::Q8_0)
            }
            (s @ RawTensor::F32(_), _) => Ok(s),
            (s @ RawTensor::Quantised(..), Precision::AsStored) => Ok(s),
            (s @ RawTensor::Quantised(GgmlDType::Q8_0, _), Precision::Q8_0) => Ok(s),
            (s @ RawTensor::Quantised(GgmlDType::Q4K, _), Precision::Q4K) => Ok(s),
            (RawTensor::Quantised(dtype, bytes), _) => {
                let t = qtensor(dtype, &bytes, outputs, inputs)
                    .and_then(|t| t.dequantize(&Device::Cpu).and_then(|t| t.flatten_all()?.to_vec1::<f32>()))
                    .map_err(|e| bad(format!("tensor `{name}`: {e}")))?;
                RawTensor::F32(t).into_precision(precision, name, outputs, inputs)
            }
        }
    }
}

fn quantise(values: &[f32], outputs: usize, inputs: usize, dtype: GgmlDType) -> Result<RawTensor> {
    let tensor = Tensor::from_slice(values, (outputs, inputs), &Device::Cpu).map_err(candle_error)?;
    let q = QTensor::quantize(&tensor, dtype).map_err(candle_error)?;
    let bytes = q.data().map_err(candle_error)?.into_owned();
    Ok(RawTensor::Quantised(dtype, bytes))
}

/// Returns a quantised tensor over a copy of `bytes`. Candle asserts that the length is a number of
/// whole blocks and that the start is aligned to a block. A copy into words guarantees the
/// alignment.
fn qtensor(dtype: GgmlDType, bytes: &[u8], outputs: usize, inputs: usize) -> candle_core::Result<QTensor> {
    if !inputs.is_multiple_of(dtype.block_size())
        || outputs * inputs / dtype.block_size() * dtype.type_size() != bytes.len()
    {
        candle_core::bail!("{} bytes do not make {outputs} x {inputs} of {dtype:?}", bytes.len());
    }
    let mut words = vec![0u64; bytes.len().div_ceil(8)];
    // SAFETY: u8 has no alignment and every bit pattern of a u64 is valid, so the whole vector may
    // be seen as bytes.
    let (_, view, _) = unsafe { words.align_to_mut::<u8>() };
    view[..bytes.len()].copy_from_slice(bytes);
    let storage = QStorage::from_data((&view[..bytes.len()]).into(), &Device::Cpu, dtype)?;
    QTensor::new(storage, (outputs, inputs))
}

impl Matrix {
    fn new(stored: RawTensor, outputs: usize, inputs: usize) -> Result<Self> {
        let elements = match stored {
            RawTensor::F32(v) => WeightStorage::F32(Arc::new(v)),
            RawTensor::Quantised(GgmlDType::Q8_0, bytes) => {
                WeightStorage::Q8(Arc::new(PackedQ8_0::from_blocks(&bytes, outputs, inputs)))
            }
            RawTensor::Quantised(GgmlDType::Q4K, bytes) => {
                WeightStorage::Q4(Arc::new(PackedQ4K::from_blocks(&bytes, outputs, inputs)))
            }
            RawTensor::Quantised(GgmlDType::Q6K, bytes) => {
                WeightStorage::Q6(Arc::new(PackedQ6K::from_blocks(&bytes, outputs, inputs)))
            }
            RawTensor::Quantised(dtype, bytes) => WeightStorage::Quantised(Arc::new(
                qtensor(dtype, &bytes, outputs, inputs).map_err(candle_error)?,
            )),
        };
        Ok(Matrix { elements, outputs, inputs })
    }

    /// Multiplies the `rows` rows of `x` and writes `[row][output]` at `stride`, from column `at`.
    fn forward(
        &self,
        x: &[f32],
        rows: usize,
        split: bool,
        out: &mut [f32],
        stride: usize,
        at: usize,
    ) -> Result<()> {
        let own = Rows::new(x, rows, self.inputs);
        let (n, k) = (self.outputs, self.inputs);
        match &self.elements {
            WeightStorage::F32(w) => {
                matmul_f32(&own, &Rows::new(w, n, k), Out { data: &mut out[at..], stride });
                Ok(())
            }
            WeightStorage::Q8(w) => {
                matmul_int8(&own, &w.matrix(n, k), Out { data: &mut out[at..], stride });
                Ok(())
            }
            WeightStorage::Q4(w) => {
                matmul_int8(&own, &w.matrix(n, k), Out { data: &mut out[at..], stride });
                Ok(())
            }
            WeightStorage::Q6(w) => {
                matmul_int8(&own, &w.matrix(n, k), Out { data: &mut out[at..], stride });
                Ok(())
            }
            WeightStorage::Quantised(q) if split && !CANDLE_IS_ROW_INVARIANT => {
                for r in 0..rows {
                    let x = &x[r * self.inputs..(r + 1) * self.inputs];
                    quantised_product(q, x, 1, self.inputs, &mut out[r * stride + at..], stride)?;
                }
                Ok(())
            }
            WeightStorage::Quantised(q) => quantised_product(q, x, rows, self.inputs, &mut out[at..], stride),
        }
    }

    /// Multiplies one row with some of the matrix's rows. Returns those elements of
    /// [`forward`](Self::forward), with the same bits.
    fn forward_columns(&self, x: &[f32], outputs: &[u32], split: bool, out: &mut [f32]) -> Result<()> {
        let (n, k) = (self.outputs, self.inputs);
        match &self.elements {
            WeightStorage::F32(w) => matmul_f32_columns(x, &Rows::new(w, n, k), outputs, out),
            WeightStorage::Q8(w) => matmul_int8_columns(x, &w.matrix(n, k), outputs, out),
            WeightStorage::Q4(w) => matmul_int8_columns(x, &w.matrix(n, k), outputs, out),
            WeightStorage::Q6(w) => matmul_int8_columns(x, &w.matrix(n, k), outputs, out),
            WeightStorage::Quantised(_) => {
                let mut all = vec![0.0; n];
                self.forward(x, 1, split, &mut all, n, 0)?;
                outputs.iter().zip(out).for_each(|(i, out)| *out = all[*i as usize]);
            }
        }
        Ok(())
    }

    /// Copies row `id` to `out`.
    pub fn row(&self, id: u32, out: &mut [f32]) -> Result<()> {
        let (i, n, k) = (id as usize, self.outputs, self.inputs);
        match &self.elements {
            WeightStorage::F32(w) => {
                out.copy_from_slice(&w[i * k..(i + 1) * k]);
                Ok(())
            }
            WeightStorage::Q8(w) => {
                w.matrix(n, k).widen_row(i, out);
                Ok(())
            }
            WeightStorage::Q4(w) => {
                w.matrix(n, k).widen_row(i, out);
                Ok(())
            }
            WeightStorage::Q6(w) => {
                w.matrix(n, k).widen_row(i, out);
                Ok(())
            }
            WeightStorage::Quantised(q) => {
                let ids = Tensor::new(&[id], &Device::Cpu).map_err(candle_error)?;
                let row = q.embedding(&ids).map_err(candle_error)?;
                copy_out(&row, 1, self.inputs, out, self.inputs)
            }
        }
    }

    /// Returns true if candle multiplies by the matrix and reads its rows.
    pub fn by_candle(&self) -> bool {
        matches!(self.elements, WeightStorage::Quantised(_))
    }

    pub fn bytes(&self) -> usize {
        match &self.elements {
            WeightStorage::F32(w) => w.len() * 4,
            WeightStorage::Q8(w) => w.bytes(),
            WeightStorage::Q4(w) => w.bytes(),
            WeightStorage::Q6(w) => w.bytes(),
            WeightStorage::Quantised(q) => q.storage_size_in_bytes(),
        }
    }
}

/// True if candle's products, for the formats left to it, give a row the same bits alone and among
/// others. On x86-64 they run one kernel, row by row; on ARM, groups of four rows take another
/// kernel.
const CANDLE_IS_ROW_INVARIANT: bool = cfg!(target_arch = "x86_64");

fn quantised_product(
    q: &Arc<QTensor>,
    x: &[f32],
    rows: usize,
    inputs: usize,
    out: &mut [f32],
    stride: usize,
) -> Result<()> {
    let x = Tensor::from_slice(x, (rows, inputs), &Device::Cpu).map_err(candle_error)?;
    let y = QMatMul::QTensor(q.clone()).forward(&x).map_err(candle_error)?;
    let outputs = y.elem_count() / rows;
    copy_out(&y, rows, outputs, out, stride)
}

fn copy_out(y: &Tensor, rows: usize, width: usize, out: &mut [f32], stride: usize) -> Result<()> {
    let (storage, layout) = y.storage_and_layout();
    let Storage::Cpu(storage) = &*storage else { return Err(bad("a product is not in main memory")) };
    let y = &storage.as_slice::<f32>().map_err(candle_error)?[layout.start_offset()..];
    for r in 0..rows {
        out[r * stride..r * stride + width].copy_from_slice(&y[r * width..(r + 1) * width]);
    }
    Ok(())
}

/// Several matrices with the same input, whose outputs lie next to each other. Matrices of the same
/// format are one product.
#[derive(Clone)]
pub(crate) struct FusedLinear {
    parts: Vec<Matrix>,
    pub outputs: usize,
    inputs: usize,
    /// Runs formats whose kernel depends on the number of rows one row at a time.
    split: bool,
    /// Added to each row, if not empty.
    bias: Vec<f32>,
}

impl FusedLinear {
    /// Computes all outputs of `rows` rows into `out`, as `[row][output]`.
    pub fn forward(&self, x: &[f32], rows: usize, out: &mut Vec<f32>) -> Result<()> {
        assert_eq!(x.len(), rows * self.inputs, "input of a projection");
        out.resize(rows * self.outputs, 0.0);
        if rows == 0 {
            return Ok(());
        }
        let mut at = 0;
        for part in &self.parts {
            part.forward(x, rows, self.split, out, self.outputs, at)?;
            at += part.outputs;
        }
        if !self.bias.is_empty() {
            for row in out.chunks_exact_mut(self.outputs) {
                row.iter_mut().zip(&self.bias).for_each(|(v, b)| *v += b);
            }
        }
        Ok(())
    }

    /// Computes some elements of one output row of a single matrix without a bias. The bits are
    /// those of [`forward`](Self::forward) over that row alone.
    pub fn forward_columns(&self, x: &[f32], outputs: &[u32], out: &mut [f32]) -> Result<()> {
        let [matrix] = &self.parts[..] else { return Err(bad("not a single matrix")) };
        matrix.forward_columns(x, outputs, self.split, out)
    }

    pub fn single(matrix: Matrix, split: bool) -> Self {
        FusedLinear {
            outputs: matrix.outputs,
            inputs: matrix.inputs,
            parts: vec![matrix],
            split,
            bias: Vec::new(),
        }
    }

    /// Returns true if a row's bits may depend on the number of rows that are multiplied together.
    pub fn varies(&self) -> bool {
        !self.split && !CANDLE_IS_ROW_INVARIANT && self.by_candle()
    }

    /// Returns true if candle multiplies, which shares its products out by itself.
    pub fn by_candle(&self) -> bool {
        self.parts.iter().any(Matrix::by_candle)
    }

    pub fn bytes(&self) -> usize {
        self.parts.iter().map(Matrix::bytes).sum()
    }
}

/// A file with weights.
pub(crate) enum TensorSource<R> {
    Gguf(Gguf<R>),
    Safetensors(Safetensors<R>),
}

impl<R: Read + Seek> TensorSource<R> {
    pub fn has_output(&self) -> bool {
        match self {
            TensorSource::Gguf(g) => g.info(&gguf_name(TensorId::Output)).is_some(),
            TensorSource::Safetensors(s) => s.contains(&safetensors_name(TensorId::Output)),
        }
    }

    fn stored(&mut self, slot: TensorId, shape: &[usize]) -> Result<(String, RawTensor)> {
        match self {
            TensorSource::Safetensors(s) => {
                let name = safetensors_name(slot);
                let values = s.read(&name, shape)?;
                Ok((name, RawTensor::F32(values)))
            }
            TensorSource::Gguf(g) => {
                let name = gguf_name(slot);
                let info = g.info(&name).ok_or_else(|| bad(format!("the tensor `{name}` is missing")))?;
                if info.shape != shape {
                    return Err(bad(format!(
                        "tensor `{name}` has shape {:?}, the metadata ask for {shape:?}",
                        info.shape
                    )));
                }
                let dtype = info.dtype;
                let bytes = g.read(&name)?;
                let stored = match dtype {
                    // Widened here, since their products run on this crate's kernels.
                    GgmlDType::F32 | GgmlDType::F16 | GgmlDType::BF16 => {
                        let (rows, width) =
                            (shape[..shape.len() - 1].iter().product(), shape[shape.len() - 1]);
                        RawTensor::Quantised(dtype, bytes).into_precision(
                            Precision::F32,
                            &name,
                            rows,
                            width,
                        )?
                    }
                    _ => RawTensor::Quantised(dtype, bytes),
                };
                Ok((name, stored))
            }
        }
    }

    /// Reads a vector, always as `f32`.
    pub fn vector(&mut self, slot: TensorId, width: usize) -> Result<Vec<f32>> {
        let (name, stored) = self.stored(slot, &[width])?;
        match stored.into_precision(Precision::F32, &name, 1, width)? {
            RawTensor::F32(v) => Ok(v),
            RawTensor::Quantised(..) => Err(bad(format!("tensor `{name}` is quantised"))),
        }
    }

    fn one(
        &mut self,
        slot: TensorId,
        outputs: usize,
        inputs: usize,
        precision: Precision,
    ) -> Result<RawTensor> {
        let (name, stored) = self.stored(slot, &[outputs, inputs])?;
        stored.into_precision(precision, &name, outputs, inputs)
    }

    /// Reads the embedding table or the output matrix. Rounding here affects every token, and four
    /// bits are too few. So `Q4K` keeps quantised values as they are and rounds others to eight
    /// bits.
    pub fn matrix(
        &mut self,
        slot: TensorId,
        outputs: usize,
        inputs: usize,
        precision: Precision,
    ) -> Result<Matrix> {
        let (name, stored) = self.stored(slot, &[outputs, inputs])?;
        let precision = match (precision, &stored) {
            (Precision::Q4K, RawTensor::Quantised(..)) => Precision::AsStored,
            (Precision::Q4K, RawTensor::F32(_)) => Precision::Q8_0,
            (other, _) => other,
        };
        let stored = stored.into_precision(precision, &name, outputs, inputs)?;
        Matrix::new(stored, outputs, inputs)
    }

    /// Reads the matrices `(part, outputs)` of a layer that share their input, and fuses those of
    /// the same format.
    pub fn projection(
        &mut self,
        layer: usize,
        wanted: &[(LayerTensor, usize)],
        inputs: usize,
        options: (Precision, bool),
        config: &ModelConfig,
    ) -> Result<FusedLinear> {
        let mut parts: Vec<(RawTensor, usize)> = Vec::new();
        let mut bias = Vec::new();
        for &(part, outputs) in wanted {
            let mut stored = self.one(TensorId::Layer(layer, part), outputs, inputs, options.0)?;
            let turned = self.in_pairs(part, config);
            if turned {
                stored = halves_from_pairs(stored, outputs, config.head_dim);
            }
            if config.has_bias(part) {
                let more = self.vector(TensorId::Bias(layer, part), outputs)?;
                bias.extend(match turned {
                    true => pick_rows(&more, outputs, |row| row_in_pairs(row, config.head_dim)),
                    false => more,
                });
            }
            match (parts.last_mut(), stored) {
                (Some((RawTensor::F32(a), n)), RawTensor::F32(b)) => {
                    a.extend_from_slice(&b);
                    *n += outputs;
                }
                (Some((RawTensor::Quantised(t, a), n)), RawTensor::Quantised(u, b)) if *t == u => {
                    a.extend_from_slice(&b);
                    *n += outputs;
                }
                (_, stored) => parts.push((stored, outputs)),
            }
        }
        let outputs = wanted.iter().map(|(_, n)| n).sum();
        let parts: Result<Vec<Matrix>> = parts.into_iter().map(|(s, n)| Matrix::new(s, n, inputs)).collect();
        Ok(FusedLinear { parts: parts?, outputs, inputs, split: options.1, bias })
    }

    /// Returns true if the file has the rows of this matrix in pairs; see [`halves_from_pairs`].
    fn in_pairs(&self, part: LayerTensor, config: &ModelConfig) -> bool {
        matches!(self, TensorSource::Gguf(_))
            && matches!(part, LayerTensor::Q | LayerTensor::K)
            && matches!(config.architecture, Architecture::Llama | Architecture::Mistral)
    }
}

impl ModelConfig {
    fn has_bias(&self, part: LayerTensor) -> bool {
        match part {
            LayerTensor::Q | LayerTensor::K | LayerTensor::V => self.qkv_bias,
            LayerTensor::O => self.attention_output_bias,
            _ => false,
        }
    }
}

/// Reorders the rows of each query and key head from pairs to halves, as in Hugging Face files.
///
/// GGUF files of the `llama` architecture order these rows so that rotary pairs are neighbours.
/// This puts the first elements of all pairs before the second ones. Rows are whole blocks, so
/// quantised values are moved, not changed.
fn halves_from_pairs(stored: RawTensor, rows: usize, head_dim: usize) -> RawTensor {
    let from = |row| row_in_pairs(row, head_dim);
    match stored {
        RawTensor::F32(v) => RawTensor::F32(pick_rows(&v, rows, from)),
        RawTensor::Quantised(t, b) => RawTensor::Quantised(t, pick_rows(&b, rows, from)),
    }
}

/// Returns the row in such a file that belongs at `row`.
fn row_in_pairs(row: usize, head_dim: usize) -> usize {
    let (head, i) = (row / head_dim, row % head_dim);
    let half = head_dim / 2;
    head * head_dim + if i < half { 2 * i } else { 2 * (i - half) + 1 }
}

fn pick_rows<T: Copy>(data: &[T], rows: usize, from: impl Fn(usize) -> usize) -> Vec<T> {
    let width = data.len() / rows;
    (0..rows).flat_map(|r| data[from(r) * width..(from(r) + 1) * width].iter().copied()).collect()
}
