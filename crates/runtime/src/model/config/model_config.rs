//! The shape and constants of a model, and the limits that they keep.
//!
//! Every number is checked against a named limit and against the others before anything is
//! allocated, because the files are untrusted.

use super::family::{Activation, Architecture};
use super::json_values::{MAX_CONTEXT, MAX_LAYERS, MAX_VOCAB, MAX_WIDTH, bad};
use super::layer_patterns::LayerRotary;
use super::mixers::{DeltaShape, Experts, Mixer};
use super::rope_scaling::RopeScaling;
use super::tensor_names::LayerTensor;
use crate::error::Result;

/// The shape and constants of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// The family.
    pub architecture: Architecture,
    /// Width of the logits; at least the number of tokens of the tokenizer.
    pub vocab_size: usize,
    /// Maximum number of positions of one generation: prompt and output together.
    pub context: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Inner width of the feed-forward part, or of each expert.
    pub feed_forward: usize,
    /// Number of layers.
    pub layers: usize,
    /// Number of query heads.
    pub heads: usize,
    /// Number of key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Number of elements at the start of each head with rotary positions.
    pub rotary_dim: usize,
    /// Added to the mean square in RMSNorm.
    pub norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Scaling of the rotary frequencies.
    pub rope_scaling: RopeScaling,
    /// Base of the rotary frequencies in layers with [`LayerRotary::Local`].
    pub rope_local_theta: f32,
    /// The rotary positions of each layer.
    pub rotary: Vec<LayerRotary>,
    /// True if queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// True if the output of the attention has a bias.
    pub attention_output_bias: bool,
    /// True if queries and keys are normed before they are rotated.
    pub qk_norm: bool,
    /// The function of the gate in the feed-forward.
    pub activation: Activation,
    /// Multiplies the embeddings of tokens.
    pub embedding_scale: f32,
    /// Multiplies the products of queries and keys.
    pub attention_scale: f32,
    /// Multiplies what the attention and the feed-forward add to the residual stream.
    pub residual_scale: f32,
    /// Multiplies the logits.
    pub logit_scale: f32,
    /// For each layer the number of positions that a token sees, itself among them; `None` for all.
    pub windows: Vec<Option<usize>>,
    /// What mixes the positions of each layer.
    pub mixers: Vec<Mixer>,
    /// Number of positions that a convolution reads, the token's own among them; 0 without any.
    pub taps: usize,
    /// The shape of gated delta nets, if layers have them.
    pub delta: Option<DeltaShape>,
    /// The experts of each layer, if the feed-forward is a mixture of them.
    pub experts: Option<Experts>,
    /// True if the output projection is the embedding table.
    pub tied_embeddings: bool,
    /// End-of-sequence tokens that the model file names.
    pub eos: Vec<u32>,
}

/// Largest number of positions of a convolution.
const MAX_TAPS: usize = 16;

impl ModelConfig {
    /// Checks that the numbers fit each other.
    pub(crate) fn check(&self) -> Result<()> {
        let in_range = |name: &str, n: usize, max: usize| match n {
            0 => Err(bad(format!("{name} is 0"))),
            n if n > max => Err(bad(format!("{name} is {n}, more than the limit {max}"))),
            _ => Ok(()),
        };
        in_range("the vocabulary size", self.vocab_size, MAX_VOCAB)?;
        in_range("the context", self.context, MAX_CONTEXT)?;
        in_range("the hidden size", self.hidden, MAX_WIDTH)?;
        in_range("the feed-forward size", self.feed_forward, MAX_WIDTH)?;
        in_range("the number of layers", self.layers, MAX_LAYERS)?;
        in_range("the number of heads", self.heads, MAX_WIDTH)?;
        in_range("the number of key heads", self.kv_heads, MAX_WIDTH)?;
        in_range("the head width", self.head_dim, MAX_WIDTH)?;
        in_range("heads times head width", self.heads.saturating_mul(self.head_dim), MAX_WIDTH)?;
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(bad(format!(
                "{} query heads do not divide among {} key heads",
                self.heads, self.kv_heads
            )));
        }
        if !self.rotary_dim.is_multiple_of(2) || !(1..=self.head_dim).contains(&self.rotary_dim) {
            return Err(bad(format!(
                "rotary positions on {} of {} elements of a head: they need pairs",
                self.rotary_dim, self.head_dim
            )));
        }
        if !(self.norm_eps >= 0.0 && self.norm_eps < 1.0) {
            return Err(bad(format!("the norm epsilon {} is not in [0, 1)", self.norm_eps)));
        }
        for theta in [self.rope_theta, self.rope_local_theta] {
            if !(theta >= 1.0 && theta.is_finite()) {
                return Err(bad(format!("the rotary base {theta} is not a number from 1 up")));
            }
        }
        for (name, scale) in [
            ("embeddings", self.embedding_scale),
            ("scores", self.attention_scale),
            ("residuals", self.residual_scale),
            ("logits", self.logit_scale),
        ] {
            if !(scale > 0.0 && scale.is_finite()) {
                return Err(bad(format!("the scale {scale} of {name} is not a positive number")));
            }
        }
        if self.rotary.len() != self.layers {
            return Err(bad("the rotary positions do not fit the layers"));
        }
        if self.windows.len() != self.layers || self.windows.contains(&Some(0)) {
            return Err(bad("the sliding windows do not fit the layers"));
        }
        self.check_mixers()?;
        self.rope_scaling.check(self.rotary_dim / 2)
    }

    fn check_mixers(&self) -> Result<()> {
        if self.mixers.len() != self.layers {
            return Err(bad("the kinds of layers do not fit the layers"));
        }
        let recurrent = self.mixers.iter().any(|m| *m != Mixer::Attention);
        if recurrent && !(1..=MAX_TAPS).contains(&self.taps) {
            return Err(bad(format!("convolutions over {} positions; the limit is {MAX_TAPS}", self.taps)));
        }
        if let Some(experts) = &self.experts
            && !(1..=experts.count).contains(&experts.used)
        {
            return Err(bad(format!("{} of {} experts for a token", experts.used, experts.count)));
        }
        match &self.delta {
            Some(delta) => delta.check(self.layers),
            None if self.mixers.contains(&Mixer::DeltaNet) => Err(bad("the delta nets have no shape")),
            None => Ok(()),
        }
    }

    /// Returns the number of layers with attention, which have keys and values.
    pub fn attention_layers(&self) -> usize {
        self.mixers.iter().filter(|m| **m == Mixer::Attention).count()
    }

    /// Returns true if layers have experts or other mixers than attention.
    pub(crate) fn is_mixed(&self) -> bool {
        self.experts.is_some()
            || self.attention_layers() < self.layers
            || self.architecture.family().output_gate
    }

    /// Returns the width of what a recurrent layer remembers of each position, and the numbers of its
    /// state beyond these.
    pub(crate) fn state_widths(&self, mixer: Mixer) -> (usize, usize) {
        match (mixer, &self.delta) {
            (Mixer::ShortConvolution, _) => (self.hidden, 0),
            (Mixer::DeltaNet, Some(d)) => (d.mixed() + 2 * d.value_heads, d.value() * d.key_dim),
            _ => (0, 0),
        }
    }

    /// Returns the width of the queries of all heads.
    pub fn q_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the width of the keys (or values) of all key heads.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }

    /// Returns the matrices of a layer that read the residual stream, each with its outputs.
    fn with_outputs(&self, parts: &[LayerTensor]) -> Vec<(LayerTensor, usize)> {
        let outputs = |part: LayerTensor| match part {
            LayerTensor::Q | LayerTensor::GatedQ | LayerTensor::QGate => self.q_dim(),
            LayerTensor::K | LayerTensor::V => self.kv_dim(),
            LayerTensor::Qkv => self.q_dim() + 2 * self.kv_dim(),
            LayerTensor::GateUp => 2 * self.feed_forward,
            _ => self.feed_forward,
        };
        parts.iter().map(|part| (*part, outputs(*part))).collect()
    }

    /// Returns the projections of a layer, each the matrices `(part, outputs)` with the same input and
    /// the width of this: queries, keys and values, or what a recurrent layer reads; the output of these;
    /// gate and up, and down: of the feed-forward, or of each expert.
    pub(crate) fn projections(&self, layer: usize) -> [(Vec<(LayerTensor, usize)>, usize); 4] {
        let family = self.architecture.family();
        let (input, output, width) = match (self.mixers[layer], &self.delta) {
            (Mixer::ShortConvolution, _) => {
                (vec![(LayerTensor::ConvIn, 3 * self.hidden)], LayerTensor::ConvOut, self.hidden)
            }
            (Mixer::DeltaNet, Some(d)) => (d.inputs(), LayerTensor::DeltaOut, d.value()),
            _ => (self.with_outputs(family.qkv), family.o, self.q_dim()),
        };
        [
            (input, self.hidden),
            (vec![(output, self.hidden)], width),
            (self.with_outputs(family.gate_up), self.hidden),
            (vec![(family.down, self.hidden)], self.feed_forward),
        ]
    }

    /// Returns the widths of the norms of queries and keys.
    pub(crate) fn qk_norm_widths(&self) -> [usize; 2] {
        match self.architecture.family().qk_norm_of_all_heads {
            true => [self.q_dim(), self.kv_dim()],
            false => [self.head_dim; 2],
        }
    }

    /// Returns true if a projection has a bias.
    pub(crate) fn has_bias(&self, part: LayerTensor) -> bool {
        match part {
            LayerTensor::Q | LayerTensor::K | LayerTensor::V => self.qkv_bias,
            LayerTensor::O => self.attention_output_bias,
            _ => false,
        }
    }
}
