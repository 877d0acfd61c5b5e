//! What mixes the positions of a layer, if not attention; and mixtures of experts.
//!
//! # Cost
//!
//! One entry for each layer, made once per model.
//!
//! # Alternatives considered
//!
//! A rule that the forward evaluates was rejected in favour of a list: some files list their layers, and
//! others name a rule.

use serde_json::Value;

use super::family::Family;
use super::json_values::{MAX_LAYERS, MAX_WIDTH, bad, flag, number, optional, short, unsupported};
use super::tensor_names::LayerTensor;
use crate::error::{Place, Result};

/// Layers of which one has attention, if the file does not say.
pub(crate) const FULL_INTERVAL: usize = 4;

/// Largest number of experts accepted.
pub(crate) const MAX_EXPERTS: usize = 1 << 12;

/// What mixes the positions of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mixer {
    /// Attention over keys and values.
    Attention,
    /// A gated convolution over the last positions.
    ShortConvolution,
    /// A gated delta net: a matrix for each head, which each position rewrites.
    DeltaNet,
}

/// The shape of gated delta nets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeltaShape {
    /// Number of heads of queries and of keys.
    pub key_heads: usize,
    /// Number of heads of values, a multiple of that.
    pub value_heads: usize,
    /// Width of a query or a key.
    pub key_dim: usize,
    /// Width of a value.
    pub value_dim: usize,
}

/// A mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Experts {
    /// Number of experts in a layer.
    pub count: usize,
    /// Number of experts that a token uses.
    pub used: usize,
    /// True if their weights add up to 1.
    pub normed: bool,
}

impl DeltaShape {
    /// Returns the width of the keys of all heads.
    pub(crate) fn key(&self) -> usize {
        self.key_heads * self.key_dim
    }

    /// Returns the width of the values of all heads.
    pub(crate) fn value(&self) -> usize {
        self.value_heads * self.value_dim
    }

    /// Returns the width of queries, keys and values.
    pub(crate) fn mixed(&self) -> usize {
        2 * self.key() + self.value()
    }

    /// Returns the matrices that read the residual stream, each with its outputs.
    pub(super) fn inputs(&self) -> Vec<(LayerTensor, usize)> {
        vec![
            (LayerTensor::DeltaQkv, self.mixed()),
            (LayerTensor::DeltaWrite, self.value_heads),
            (LayerTensor::DeltaForget, self.value_heads),
            (LayerTensor::DeltaGate, self.value()),
        ]
    }

    pub(super) fn check(&self, layers: usize) -> Result<()> {
        let numbers = [self.key_heads, self.value_heads, self.key_dim, self.value_dim];
        let product = numbers.iter().try_fold(1usize, |all, n| all.checked_mul(*n));
        let fits = product.is_some_and(|n| n > 0) && numbers.iter().all(|n| *n <= MAX_WIDTH);
        let states =
            [self.value_heads, self.key_dim, self.value_dim].into_iter().fold(layers, usize::saturating_mul);
        if !fits || states > MAX_STATES || !self.value_heads.is_multiple_of(self.key_heads) {
            return Err(bad(format!("the shape of the delta nets is out of range: {self:?}")));
        }
        Ok(())
    }
}

/// Largest number of elements of the states of all layers.
const MAX_STATES: usize = 1 << 28;

/// Returns what mixes the positions of each layer.
pub(super) fn mixers(value: &Value, family: &Family, layers: usize) -> Result<Vec<Mixer>> {
    let Some(recurrent) = family.recurrent else { return Ok(vec![Mixer::Attention; layers]) };
    let name = match recurrent {
        Mixer::ShortConvolution => "conv",
        _ => "linear_attention",
    };
    let list = |name: &str| value.get(name).filter(|v| !v.is_null());
    let wrong = |name: &str| {
        let place = Place::Pointer(format!("/{name}"));
        bad(format!("`{name}` is not a list that fits {layers} layers")).at(place)
    };
    if let Some(types) = list("layer_types") {
        let types = types.as_array().filter(|t| t.len() == layers).ok_or_else(|| wrong("layer_types"))?;
        let one = |t: &Value| match t.as_str() {
            Some("full_attention") => Ok(Mixer::Attention),
            Some(t) if t == name => Ok(recurrent),
            _ => Err(unsupported(format!("a layer of type {}", short(t)))),
        };
        return types.iter().map(one).collect();
    }
    if let Some(full) = list("full_attn_idxs") {
        let full = full.as_array().ok_or_else(|| wrong("full_attn_idxs"))?;
        let mixer = |i: usize| {
            if full.iter().any(|v| v.as_u64() == Some(i as u64)) { Mixer::Attention } else { recurrent }
        };
        return Ok((0..layers).map(mixer).collect());
    }
    match recurrent {
        Mixer::ShortConvolution => Ok(vec![Mixer::Attention; layers]),
        _ => {
            let each = optional(value, "full_attention_interval", MAX_LAYERS)?.unwrap_or(FULL_INTERVAL);
            Ok(all_but(each, recurrent, layers))
        }
    }
}

/// Returns attention for each n-th layer.
pub(crate) fn all_but(n: usize, recurrent: Mixer, layers: usize) -> Vec<Mixer> {
    let mixer = |i: usize| if (i + 1).is_multiple_of(n) { Mixer::Attention } else { recurrent };
    (0..layers).map(mixer).collect()
}

/// Returns the number of positions of a convolution.
pub(super) fn taps(value: &Value, family: &Family) -> Result<usize> {
    let (name, default) = match family.recurrent {
        None => return Ok(0),
        Some(Mixer::ShortConvolution) => ("conv_L_cache", 3),
        Some(_) => ("linear_conv_kernel_dim", 4),
    };
    if flag(value, "conv_bias")? {
        return Err(unsupported("a model with `conv_bias`"));
    }
    Ok(optional(value, name, MAX_WIDTH)?.unwrap_or(default))
}

/// Returns the shape of delta nets.
pub(super) fn delta(value: &Value, family: &Family) -> Result<Option<DeltaShape>> {
    if family.recurrent != Some(Mixer::DeltaNet) {
        return Ok(None);
    }
    let number = |name: &str| number(value, name, MAX_WIDTH);
    Ok(Some(DeltaShape {
        key_heads: number("linear_num_key_heads")?,
        value_heads: number("linear_num_value_heads")?,
        key_dim: number("linear_key_head_dim")?,
        value_dim: number("linear_value_head_dim")?,
    }))
}

/// Returns the mixture of experts, and the width of the feed-forward or of each expert.
pub(super) fn feed_forward(value: &Value, family: &Family) -> Result<(Option<Experts>, usize)> {
    let width = |name: &str| number(value, name, MAX_WIDTH);
    if family.experts {
        let dense = value.get("mlp_only_layers").and_then(Value::as_array).is_some_and(|l| !l.is_empty());
        if dense || optional(value, "decoder_sparse_step", MAX_LAYERS)?.unwrap_or(1) != 1 {
            return Err(unsupported("a mixture of experts in some layers only"));
        }
        let count = match optional(value, "num_experts", MAX_EXPERTS)? {
            Some(count) => count,
            None => number(value, "num_local_experts", MAX_EXPERTS)?,
        };
        let normed = flag(value, "norm_topk_prob")?;
        let experts = Experts { count, used: width("num_experts_per_tok")?, normed };
        return Ok((Some(experts), width("moe_intermediate_size")?));
    }
    let mut inner = match optional(value, "block_ff_dim", MAX_WIDTH)? {
        Some(inner) if family.recurrent == Some(Mixer::ShortConvolution) => inner,
        _ => width("intermediate_size")?,
    };
    let adjusted = !matches!(value.get("block_auto_adjust_ff_dim"), Some(Value::Bool(false)));
    if family.recurrent == Some(Mixer::ShortConvolution) && adjusted {
        inner = 2 * inner / 3;
        // A number that is null means no rounding either.
        if !matches!(value.get("block_ffn_dim_multiplier"), Some(Value::Null)) {
            let factor = value.get("block_ffn_dim_multiplier").and_then(Value::as_f64).unwrap_or(1.0);
            let multiple = optional(value, "block_multiple_of", MAX_WIDTH)?.unwrap_or(256);
            inner = ((factor * inner as f64) as usize).min(MAX_WIDTH).next_multiple_of(multiple);
        }
    }
    Ok((None, inner))
}
