//! Puts the weights of a file on a device.
//!
//! # Cost
//!
//! Each weight is read once and converted on the processor.

use std::sync::Arc;

use candle_core::quantized::{QStorage, QTensor};
use candle_core::{DType, Device, Tensor};

use super::cache::KvShape;
use super::failed;
use super::forward::{Layer, LayerNorms, TensorTransformer};
use super::linear::{Linear, Weight};
use crate::error::Result;
use crate::model::adapter::Adapter;
use crate::model::config::{ModelConfig, bad};
use crate::model::family::Norms;
use crate::model::layer_patterns::LayerRotary;
use crate::model::precision::with_precision;
use crate::model::rope::RopeScaling;
use crate::model::tensor_names::{LayerTensor, TensorId};
use crate::model::tensor_type::TensorType;
use crate::model::weights::{RawTensor, TensorSource};
use crate::model::{LoadOptions, Precision};

struct Loader<'a> {
    source: &'a TensorSource<'a>,
    options: &'a LoadOptions,
    config: &'a ModelConfig,
    device: Device,
}

impl TensorTransformer {
    pub fn load(
        mut config: ModelConfig,
        source: &TensorSource,
        options: &LoadOptions,
        device: Device,
    ) -> Result<Self> {
        if let Some(limit) = options.max_context {
            config.context = config.context.min(limit.max(1));
        }
        let c = &config;
        let has_output = source.has_output();
        let loader = Loader { source, options, config: c, device: device.clone() };
        let embedding = loader.matrix(TensorId::Embedding)?;
        let layers = (0..c.layers).map(|i| loader.layer(i)).collect::<Result<Vec<_>>>()?;
        let final_norm = loader.norm(TensorId::FinalNorm, c.hidden)?;
        let head = match (c.tied_embeddings, has_output) {
            (false, true) => loader.matrix(TensorId::Output)?,
            (true, _) => embedding.clone(),
            (false, false) => {
                return Err(bad("the output matrix is missing and `tie_word_embeddings` is false"));
            }
        };
        let mut tables = vec![c.rope_scaling.table(c.rope_theta, c.rotary_dim, c.context)];
        if c.rotary.contains(&LayerRotary::Local) {
            tables.push(RopeScaling::None.table(c.rope_local_theta, c.rotary_dim, c.context));
        }
        let float = layers.iter().flat_map(|l| &l.qkv.parts).find_map(Weight::float_type);
        // The processor multiplies half precision by widening all of a tensor each time.
        let dtype = if device.is_cpu() { DType::F32 } else { float.unwrap_or(DType::F32) };
        let shape = KvShape { layers: c.layers, kv_heads: c.kv_heads, head_dim: c.head_dim, dtype, device };
        let row_by_row = options.batch_invariant;
        Ok(TensorTransformer { config, shape, embedding, layers, final_norm, head, tables, row_by_row })
    }
}

impl TensorTransformer {
    /// Returns the same model with an adapter. Both share their weights.
    pub fn with_adapter(&self, adapter: &Adapter) -> Result<Self> {
        let inputs = self
            .config
            .projections()
            .map(|(parts, inputs)| (parts.iter().map(|(_, outputs)| outputs).sum::<usize>(), inputs));
        let mut layers = self.layers.clone();
        for (layer, adapters) in layers.iter_mut().zip(adapter.layers(&self.config)?) {
            let linears = [&mut layer.qkv, &mut layer.o, &mut layer.gate_up, &mut layer.down];
            for ((linear, adapter), (outputs, inputs)) in linears.into_iter().zip(adapters).zip(inputs) {
                let Some(adapter) = adapter else { continue };
                let tensor = |numbers: Vec<f32>, width: usize| {
                    let shape = (numbers.len() / width, width);
                    Tensor::from_vec(numbers, shape, &self.shape.device).map_err(failed)
                };
                let (a, b) = adapter.widened(outputs);
                linear.adapter = Some([tensor(a, inputs)?.t().map_err(failed)?, tensor(b, outputs)?]);
            }
        }
        Ok(TensorTransformer { layers, ..self.clone() })
    }
}

impl Loader<'_> {
    fn layer(&self, i: usize) -> Result<Layer> {
        let (c, family) = (self.config, self.config.architecture.family());
        let projection = |(parts, inputs): (Vec<_>, usize)| self.projection(i, &parts, inputs);
        let [qkv, o, gate_up, down] = c.projections().map(projection);
        let [q_norm, k_norm] = c.qk_norm_widths();
        let id = |part| TensorId::Layer(i, part);
        Ok(Layer {
            attention_norms: self.norms(i, family.attention_norms)?,
            qkv: qkv?,
            qk_norm: match c.qk_norm {
                true => Some([
                    self.norm(id(LayerTensor::QNorm), q_norm)?,
                    self.norm(id(LayerTensor::KNorm), k_norm)?,
                ]),
                false => None,
            },
            rotary: match c.rotary[i] {
                LayerRotary::None => None,
                LayerRotary::Global => Some(0),
                LayerRotary::Local => Some(1),
            },
            o: o?,
            feed_forward_norms: self.norms(i, family.feed_forward_norms)?,
            gate_up: gate_up?,
            down: down?,
        })
    }

    fn norms(&self, layer: usize, names: Norms) -> Result<LayerNorms> {
        let width = self.config.hidden;
        let norm = |name: Option<LayerTensor>| {
            name.map(|name| self.norm(TensorId::Layer(layer, name), width)).transpose()
        };
        Ok(LayerNorms { before: norm(names.before)?, after: norm(names.after)? })
    }

    fn norm(&self, id: TensorId, width: usize) -> Result<Tensor> {
        let values = self.source.norm(id, width, self.config)?;
        Tensor::from_vec(values, width, &self.device).map_err(failed)
    }

    /// Reads the embedding table or the output matrix. As for the kernels, four bits are too few.
    fn matrix(&self, id: TensorId) -> Result<Weight> {
        let (outputs, inputs) = (self.config.vocab_size, self.config.hidden);
        let raw = self.source.raw(id, &[outputs, inputs])?;
        let floats = matches!(raw.dtype, TensorType::F32 | TensorType::F16 | TensorType::Bf16);
        let precision = match (self.options.precision, floats) {
            (Precision::Q4K, true) => Precision::Q8_0,
            (Precision::Q4K, false) => Precision::AsStored,
            (other, _) => other,
        };
        let raw = held(with_precision(raw, precision)?)?;
        let weight = weight(raw.dtype, &raw.bytes, [outputs, inputs], &self.device);
        self.source.release(id);
        weight
    }

    fn projection(&self, layer: usize, wanted: &[(LayerTensor, usize)], inputs: usize) -> Result<Linear> {
        let (mut tensors, mut bias) = (Vec::new(), Vec::new());
        for &(part, outputs) in wanted {
            let raw = self.source.raw(TensorId::Layer(layer, part), &[outputs, inputs])?;
            tensors.push((part, held(with_precision(raw, self.options.precision)?)?));
            if self.config.has_bias(part) {
                let more = self.source.vector(TensorId::Bias(layer, part), outputs)?;
                bias.extend((0..outputs).map(|row| more[self.source.row_in_file(part, row, self.config)]));
            }
        }
        let mut parts = Vec::new();
        for same in tensors.chunk_by(|a, b| a.1.dtype == b.1.dtype) {
            let (mut bytes, mut outputs) = (Vec::new(), 0);
            for (part, tensor) in same {
                let rows: Vec<&[u8]> = tensor.rows().collect();
                let in_order =
                    (0..rows.len()).map(|row| rows[self.source.row_in_file(*part, row, self.config)]);
                bytes.extend(in_order.flatten());
                outputs += rows.len();
            }
            parts.push(weight(same[0].1.dtype, &bytes, [outputs, inputs], &self.device)?);
        }
        wanted.iter().for_each(|(part, _)| self.source.release(TensorId::Layer(layer, *part)));
        let bias = match bias.len() {
            0 => None,
            n => Some(Tensor::from_vec(bias, n, &self.device).map_err(failed)?),
        };
        Ok(Linear { parts, bias, adapter: None })
    }
}

/// Returns the tensor in a format that candle has: blocks that it has not become `Q8_0`, or F32
/// where rows are not whole blocks.
fn held(raw: RawTensor<'_>) -> Result<RawTensor<'_>> {
    if raw.dtype.candle().is_some() { Ok(raw) } else { with_precision(raw, Precision::Q8_0) }
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
