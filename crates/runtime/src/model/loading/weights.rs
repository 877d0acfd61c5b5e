//! Reads the weights of a transformer from a file, in the form of the kernels or of candle's tensors.
//!
//! # Cost
//!
//! Each tensor is read once, on all threads, and its pages of the file are given back.

use std::sync::Arc;

use super::precision::with_precision;
use super::tensor_source::{RawTensor, TensorSource};
use super::tensor_type::TensorType;
use crate::error::{Error, Result};
use crate::model::config::{LayerRotary, LayerTensor, Mixer, ModelConfig, Norms, RopeScaling, TensorId, bad};
use crate::model::options::{LoadOptions, Precision};
use crate::model::running::kernels::{DeltaNet, Filter, Matrix};
use crate::model::running::{FeedForward, FusedLinear, Layer, LayerNorms, Recurrent, Weights};

/// Puts weights into the form that a forward needs.
pub(super) trait WeightForm {
    type Matrix: Clone;
    /// Matrices with the same input, whose outputs lie next to each other.
    type Linear;
    type Norm;

    /// Returns a tensor in a number format that the forward has.
    fn held<'a>(&self, raw: RawTensor<'a>) -> Result<RawTensor<'a>> {
        Ok(raw)
    }

    /// Returns a whole tensor as a matrix.
    fn matrix(&self, raw: &RawTensor) -> Result<Self::Matrix>;

    /// Returns rows of some tensors as a matrix.
    fn matrix_of_rows(&self, dtype: TensorType, rows: &[&[u8]], inputs: usize) -> Result<Self::Matrix>;

    /// Returns matrices, each of rows of the same format, with a bias if it is not empty.
    fn linear(
        &self,
        parts: Vec<Self::Matrix>,
        outputs: usize,
        inputs: usize,
        bias: Vec<f32>,
    ) -> Result<Self::Linear>;

    fn norm(&self, weights: Vec<f32>) -> Result<Self::Norm>;
}

/// The weights of a model in a form.
pub(super) type WeightsOf<F> =
    Weights<<F as WeightForm>::Matrix, <F as WeightForm>::Linear, <F as WeightForm>::Norm>;

/// The form of the kernels.
pub(super) struct KernelForm;

impl WeightForm for KernelForm {
    type Matrix = Arc<dyn Matrix>;
    type Linear = FusedLinear;
    type Norm = Vec<f32>;

    fn matrix(&self, raw: &RawTensor) -> Result<Arc<dyn Matrix>> {
        self.matrix_of_rows(raw.dtype, &raw.rows().collect::<Vec<_>>(), raw.inputs)
    }

    fn matrix_of_rows(&self, dtype: TensorType, rows: &[&[u8]], inputs: usize) -> Result<Arc<dyn Matrix>> {
        Ok(dtype.matrix(rows, inputs))
    }

    fn linear(
        &self,
        parts: Vec<Arc<dyn Matrix>>,
        outputs: usize,
        inputs: usize,
        bias: Vec<f32>,
    ) -> Result<FusedLinear> {
        Ok(FusedLinear::new(parts, outputs, inputs, bias))
    }

    fn norm(&self, weights: Vec<f32>) -> Result<Vec<f32>> {
        Ok(weights)
    }
}

struct Loader<'a, F> {
    form: &'a F,
    source: &'a TensorSource<'a>,
    precision: Precision,
    config: &'a ModelConfig,
}

/// Reads all weights.
///
/// # Errors
/// If a tensor is missing or has another shape.
pub(super) fn load_weights<F: WeightForm>(
    form: &F,
    mut config: ModelConfig,
    source: &TensorSource,
    options: &LoadOptions,
) -> Result<WeightsOf<F>> {
    if let Some(limit) = options.max_context {
        config.context = config.context.min(limit.max(1));
    }
    let c = &config;
    let loader = Loader { form, source, precision: options.precision, config: c };
    let embedding = loader.matrix(TensorId::Embedding)?;
    // Large matrices come first: while one is packed, its pages of the file take memory, too.
    let head = match (c.tied_embeddings, source.has(TensorId::Output)) {
        (false, true) => loader.matrix(TensorId::Output)?,
        (true, _) => embedding.clone(),
        (false, false) => {
            return Err(bad("the output matrix is missing and `tie_word_embeddings` is false"));
        }
    };
    let layers = (0..c.layers).map(|i| loader.layer(i)).collect::<Result<_>>()?;
    let final_norm = loader.norm(c.architecture.family().final_norm, c.hidden)?;
    let mut tables = vec![c.rope_scaling.table(c.rope_theta, c.rotary_dim, c.context)];
    if c.rotary.contains(&LayerRotary::Local) {
        tables.push(RopeScaling::None.table(c.rope_local_theta, c.rotary_dim, c.context));
    }
    Ok(Weights { embedding, layers, final_norm, head, tables, config })
}

impl<F: WeightForm> Loader<'_, F> {
    fn layer(&self, i: usize) -> Result<Layer<F::Linear, F::Norm>> {
        let (c, family) = (self.config, self.config.architecture.family());
        let [qkv, o, gate_up, down] = c.projections(i);
        let projection = |(parts, inputs): (Vec<_>, usize)| self.projection(i, &parts, inputs);
        let [q_norm, k_norm] = c.qk_norm_widths();
        let [q_name, k_name] = family.qk_norms;
        let norm = |part, width| self.norm(TensorId::Layer(i, part), width);
        let attends = c.mixers[i] == Mixer::Attention;
        let router = c.experts.map(|experts| (vec![(LayerTensor::Router, experts.count)], c.hidden));
        let feed_forward = match c.experts {
            None => vec![FeedForward { gate_up: projection(gate_up)?, down: projection(down)? }],
            Some(experts) => self.experts(i, experts.count, [gate_up, down])?,
        };
        Ok(Layer {
            attention_norms: self.norms(i, family.attention_norms)?,
            qkv: projection(qkv)?,
            recurrent: self.recurrent(i)?,
            slot: c.mixers[..i].iter().filter(|m| (**m == Mixer::Attention) == attends).count(),
            qk_norm: match c.qk_norm && attends {
                true => Some([norm(q_name, q_norm)?, norm(k_name, k_norm)?]),
                false => None,
            },
            rotary: match c.rotary[i] {
                LayerRotary::None => None,
                LayerRotary::Global => Some(0),
                LayerRotary::Local => Some(1),
            },
            window: c.windows[i].unwrap_or(usize::MAX),
            o: projection(o)?,
            feed_forward_norms: self.norms(i, family.feed_forward_norms)?,
            router: router.map(projection).transpose()?,
            feed_forward,
        })
    }

    /// Reads what takes the place of the attention in a recurrent layer.
    fn recurrent(&self, i: usize) -> Result<Option<Recurrent>> {
        let c = self.config;
        let vector = |part, width| self.source.vector(TensorId::Layer(i, part), width);
        let filter = |part, channels| {
            let weights = self.source.filter(TensorId::Layer(i, part), channels, c.taps)?;
            Ok::<_, Error>(Filter::new(&weights, channels))
        };
        Ok(match (c.mixers[i], c.delta) {
            (Mixer::ShortConvolution, _) => {
                Some(Recurrent::ShortConvolution(filter(LayerTensor::ConvFilter, c.hidden)?))
            }
            (Mixer::DeltaNet, Some(shape)) => {
                let mut rate = vector(LayerTensor::DeltaRate, shape.value_heads)?;
                if !self.source.is_gguf() {
                    rate.iter_mut().for_each(|rate| *rate = -rate.exp());
                }
                Some(Recurrent::DeltaNet(Box::new(DeltaNet {
                    shape,
                    filter: filter(LayerTensor::DeltaFilter, shape.mixed())?,
                    bias: vector(LayerTensor::DeltaBias, shape.value_heads)?,
                    rate,
                    norm: vector(LayerTensor::DeltaNorm, shape.value_dim)?,
                    eps: c.norm_eps,
                    in_turns: self.source.is_gguf(),
                })))
            }
            _ => None,
        })
    }

    /// Reads the experts of a layer, each with the matrices `(part, outputs)` and their inputs.
    fn experts(
        &self,
        layer: usize,
        count: usize,
        wanted: [(Vec<(LayerTensor, usize)>, usize); 2],
    ) -> Result<Vec<FeedForward<F::Linear>>> {
        let linear = |expert: usize, (parts, inputs): &(Vec<(LayerTensor, usize)>, usize)| {
            let mut matrices = Vec::new();
            for &(part, outputs) in parts {
                let raw = self.source.expert(layer, (expert, count), part, [outputs, *inputs])?;
                matrices.push(self.form.matrix(&self.form.held(with_precision(raw, self.precision)?)?)?);
            }
            self.form.linear(matrices, parts.iter().map(|(_, n)| n).sum(), *inputs, Vec::new())
        };
        let one = |expert| {
            Ok(FeedForward { gate_up: linear(expert, &wanted[0])?, down: linear(expert, &wanted[1])? })
        };
        let experts = (0..count).map(one).collect();
        let parts = wanted.iter().flat_map(|(parts, _)| parts);
        parts.for_each(|(part, _)| {
            (0..count).for_each(|e| self.source.release(TensorId::Expert(layer, e, *part)))
        });
        experts
    }

    fn norms(&self, layer: usize, names: Norms) -> Result<LayerNorms<F::Norm>> {
        let norm = |name: Option<LayerTensor>| {
            name.map(|name| self.norm(TensorId::Layer(layer, name), self.config.hidden)).transpose()
        };
        Ok(LayerNorms { before: norm(names.before)?, after: norm(names.after)? })
    }

    fn norm(&self, id: TensorId, width: usize) -> Result<F::Norm> {
        self.form.norm(self.source.norm(id, width, self.config)?)
    }

    /// Reads the embedding table or the output matrix. Rounding here affects every token, and four
    /// bits are too few. So `Q4K` keeps quantised values as they are and rounds others to eight
    /// bits.
    fn matrix(&self, id: TensorId) -> Result<F::Matrix> {
        let raw = self.source.raw(id, &[self.config.vocab_size, self.config.hidden])?;
        let precision = match (self.precision, raw.dtype) {
            (Precision::Q4K, TensorType::F32 | TensorType::F16 | TensorType::Bf16) => Precision::Q8_0,
            (Precision::Q4K, _) => Precision::AsStored,
            (other, _) => other,
        };
        let matrix = self.form.matrix(&self.form.held(with_precision(raw, precision)?)?);
        self.source.release(id);
        matrix
    }

    /// Reads the matrices `(part, outputs)` of a layer that share their input, and fuses those of
    /// the same format.
    fn projection(&self, layer: usize, wanted: &[(LayerTensor, usize)], inputs: usize) -> Result<F::Linear> {
        let (source, config) = (self.source, self.config);
        let (mut tensors, mut bias) = (Vec::new(), Vec::new());
        for &(part, outputs) in wanted {
            // Two parts of the same matrix.
            let shared = matches!(part, LayerTensor::GatedQ | LayerTensor::QGate);
            let stored = if shared { 2 * outputs } else { outputs };
            let raw = source.raw(TensorId::Layer(layer, part), &[stored, inputs])?;
            tensors.push(((part, outputs), self.form.held(with_precision(raw, self.precision)?)?));
            if config.has_bias(part) {
                let more = source.vector(TensorId::Bias(layer, part), outputs)?;
                bias.extend((0..outputs).map(|row| more[source.row_in_file(part, row, config)]));
            }
        }
        let mut parts = Vec::new();
        for same in tensors.chunk_by(|a, b| a.1.dtype == b.1.dtype) {
            let mut rows = Vec::new();
            for ((part, outputs), tensor) in same {
                let stored: Vec<&[u8]> = tensor.rows().collect();
                rows.extend((0..*outputs).map(|row| stored[source.row_in_file(*part, row, config)]));
            }
            parts.push(self.form.matrix_of_rows(same[0].1.dtype, &rows, inputs)?);
        }
        wanted.iter().for_each(|(part, _)| source.release(TensorId::Layer(layer, *part)));
        self.form.linear(parts, wanted.iter().map(|(_, n)| n).sum(), inputs, bias)
    }
}
