//! The configuration of a model from `config.json`: its shape and the switches of its family.
//!
//! Every number is checked against a named limit and against the others before anything is
//! allocated, because these files are untrusted.
//!
//! # Cost
//!
//! Reading takes microseconds.
//!
//! # Alternatives considered
//!
//! Deserialising straight into a struct with serde was rejected. It can name neither the field that
//! is out of range nor the feature that is missing. An ignored field (a rope scaling, a bias) would
//! give wrong logits without an error.

use serde_json::Value;

use super::family::{Activation, Architecture, AttentionBias, FAMILIES, Family, KNOWN, QkNorm};
use super::layer_patterns::{LayerRotary, rotary, windows};
use super::rope::RopeScaling;
use super::tensor_names::LayerTensor;
use crate::error::{Error, ErrorKind, Place, Result};

/// Largest width, head count or feed-forward size accepted.
const MAX_WIDTH: usize = 1 << 20;
/// Largest number of layers accepted.
pub(super) const MAX_LAYERS: usize = 1 << 12;
/// Largest vocabulary accepted.
const MAX_VOCAB: usize = 1 << 24;
/// Largest context accepted.
pub(super) const MAX_CONTEXT: usize = 1 << 24;

/// Rotary base of layers with a window, if the file has none.
pub(super) const DEFAULT_LOCAL_THETA: f32 = 10_000.0;

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
    /// Inner width of the feed-forward part.
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
    /// True if the output projection is the embedding table.
    pub tied_embeddings: bool,
    /// End-of-sequence tokens that the model file names.
    pub eos: Vec<u32>,
}

impl ModelConfig {
    /// Reads a Hugging Face `config.json`.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON or the architecture is none of [`Architecture`].
    /// Also if a feature is used that the runner lacks, or a number is missing or out of range.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text).map_err(|e| {
            Error::new(ErrorKind::InvalidJson, format!("the model configuration: {e}"))
                .at(Place::LineColumn(e.line().max(1), e.column().max(1)))
        })?;
        if !value.is_object() {
            return Err(bad("the model configuration is not a JSON object"));
        }
        let family = family(&value)?;
        let attention_bias = check_features(&value, family)?;
        let heads = number(&value, "num_attention_heads", MAX_WIDTH)?;
        let hidden = number(&value, "hidden_size", MAX_WIDTH)?;
        let layers = number(&value, "num_hidden_layers", MAX_LAYERS)?;
        let kv_heads = optional(&value, "num_key_value_heads", MAX_WIDTH)?;
        let head_dim = match (optional(&value, "head_dim", MAX_WIDTH)?, family.default_head_dim) {
            (Some(n), _) | (None, Some(n)) => n,
            (None, None) if hidden.is_multiple_of(heads) => hidden / heads,
            (None, None) => return Err(bad("`hidden_size` is not a multiple of `num_attention_heads`")),
        };
        let windows = windows(&value, family, layers)?;
        let multiplier = |name: &str| match family.multipliers {
            true => float(&value, name, Some(1.0)),
            false => Ok(1.0),
        };
        let config = ModelConfig {
            architecture: family.architecture,
            vocab_size: number(&value, "vocab_size", MAX_VOCAB)?,
            context: number(&value, "max_position_embeddings", MAX_CONTEXT)?,
            hidden,
            feed_forward: number(&value, "intermediate_size", MAX_WIDTH)?,
            layers,
            heads,
            kv_heads: match kv_heads {
                Some(n) => n,
                None if family.kv_heads_default_to_heads => heads,
                // The libraries' defaults differ here, and a wrong guess would go unnoticed.
                None => return Err(bad("the model configuration lacks `num_key_value_heads`")),
            },
            head_dim,
            rotary_dim: rotary_dim(&value, family, head_dim)?,
            norm_eps: float(&value, "rms_norm_eps", Some(family.default_norm_eps))?,
            rope_theta: rope_theta(&value, family)?,
            rope_scaling: RopeScaling::from_json(&value)?,
            rope_local_theta: rope_local_theta(&value)?,
            rotary: rotary(&value, family, &windows)?,
            qkv_bias: attention_bias || family.qkv_bias,
            attention_output_bias: attention_bias,
            qk_norm: family.qk_norm,
            activation: family.activation,
            embedding_scale: match family.root_embedding_scale {
                true => (hidden as f32).sqrt(),
                false => multiplier("embedding_multiplier")?,
            },
            attention_scale: attention_scale(&value, family, head_dim)?,
            residual_scale: multiplier("residual_multiplier")?,
            logit_scale: 1.0 / multiplier("logits_scaling")?,
            windows,
            tied_embeddings: match value.get("tie_word_embeddings") {
                None | Some(Value::Null) => family.default_tied,
                Some(_) => flag(&value, "tie_word_embeddings")?,
            },
            eos: eos_ids(&value),
        };
        config.check()?;
        Ok(config)
    }

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
        self.rope_scaling.check(self.rotary_dim / 2)
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
            LayerTensor::Q => self.q_dim(),
            LayerTensor::K | LayerTensor::V => self.kv_dim(),
            LayerTensor::Qkv => self.q_dim() + 2 * self.kv_dim(),
            LayerTensor::GateUp => 2 * self.feed_forward,
            _ => self.feed_forward,
        };
        parts.iter().map(|part| (*part, outputs(*part))).collect()
    }

    /// Returns the projections of a layer, each the matrices `(part, outputs)` with the same input and
    /// the width of this: queries, keys and values; the attention's output; gate and up; down.
    pub(crate) fn projections(&self) -> [(Vec<(LayerTensor, usize)>, usize); 4] {
        let family = self.architecture.family();
        [
            (self.with_outputs(family.qkv), self.hidden),
            (vec![(LayerTensor::O, self.hidden)], self.q_dim()),
            (self.with_outputs(family.gate_up), self.hidden),
            (vec![(LayerTensor::Down, self.hidden)], self.feed_forward),
        ]
    }

    /// Returns the widths of the norms of queries and keys.
    pub(crate) fn qk_norm_widths(&self) -> [usize; 2] {
        match self.architecture.family().qk_norm_range {
            QkNorm::Heads => [self.head_dim; 2],
            QkNorm::Whole => [self.q_dim(), self.kv_dim()],
        }
    }
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, message)
}

pub(super) fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message).hint(KNOWN)
}

/// Returns the family by the names in the file, and refuses everything else.
fn family(value: &Value) -> Result<&'static Family> {
    let model_type = value.get("model_type").and_then(Value::as_str);
    let class = value.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
    if class.is_none() && model_type.is_none() {
        return Err(bad("the model configuration names no architecture")
            .hint("a `config.json` of a Llama model has \"model_type\": \"llama\""));
    }
    let of_class = |f: &&Family| class.is_none_or(|class| class == f.class);
    let by_class = FAMILIES.iter().find(of_class);
    let found = FAMILIES
        .iter()
        .find(|f| of_class(f) && model_type.is_none_or(|model_type| model_type == f.model_type));
    match found {
        Some(family) => Ok(family),
        None => Err(unsupported(match (class, model_type, by_class) {
            (Some(class), Some(model_type), Some(_)) => {
                format!("the model architecture {class} with the type {model_type}")
            }
            (Some(name), ..) | (None, Some(name), _) => format!("the model architecture {name}"),
            (None, None, _) => "a model without an architecture".into(),
        })),
    }
}

/// Refuses unsupported features that would change the logits. Returns true if `attention_bias` is
/// set.
fn check_features(value: &Value, family: &Family) -> Result<bool> {
    for name in ["mlp_bias", "use_bidirectional_attention"] {
        if flag(value, name)? {
            return Err(unsupported(format!("a model with `{name}`")));
        }
    }
    for name in ["attn_logit_softcapping", "final_logit_softcapping", "clip_qkv"] {
        if value.get(name).is_some_and(|v| !v.is_null()) {
            return Err(unsupported(format!("a model with `{name}`")));
        }
    }
    let bias = flag(value, "attention_bias")?;
    if bias && family.attention_bias == AttentionBias::Refused {
        return Err(unsupported("`attention_bias` in a model of this architecture"));
    }
    let known = match family.activation {
        Activation::Silu => "silu",
        Activation::GeluTanh => "gelu_pytorch_tanh",
    };
    match value.get(family.activation_key) {
        None | Some(Value::Null) => Ok(bias),
        Some(Value::String(s)) if s == known => Ok(bias),
        Some(other) => Err(unsupported(format!("the activation {}", short(other)))),
    }
}

/// Returns the number of elements of a head with rotary positions.
fn rotary_dim(value: &Value, family: &Family, head_dim: usize) -> Result<usize> {
    const NAME: &str = "partial_rotary_factor";
    let newer = value.get("rope_parameters").and_then(|p| p.get(NAME));
    match newer.or(value.get(NAME)).and_then(Value::as_f64) {
        None => Ok(head_dim),
        Some(1.0) => Ok(head_dim),
        // `as` turns negative numbers and others out of range into ones that `check` refuses.
        Some(f) if family.partial_rotary => Ok((head_dim as f64 * f) as usize),
        Some(f) => Err(unsupported(format!("`{NAME}` {f}"))),
    }
}

fn attention_scale(value: &Value, family: &Family, head_dim: usize) -> Result<f32> {
    if family.multipliers {
        return float(value, "attention_multiplier", Some(1.0));
    }
    let width = match family.default_query_scalar {
        Some(_) => float(value, "query_pre_attn_scalar", family.default_query_scalar)?,
        None => head_dim as f32,
    };
    Ok(1.0 / width.sqrt())
}

fn rope_theta(value: &Value, family: &Family) -> Result<f32> {
    let parameters = value.get("rope_parameters").map(|p| p.get("full_attention").unwrap_or(p));
    match parameters.filter(|p| p.get("rope_theta").is_some()) {
        Some(parameters) => float(parameters, "rope_theta", None),
        None => float(value, "rope_theta", Some(family.default_rope_theta)),
    }
}

/// Returns the rotary base of layers with a window, in families where it differs.
fn rope_local_theta(value: &Value) -> Result<f32> {
    let Some(parameters) = value.get("rope_parameters").and_then(|p| p.get("sliding_attention")) else {
        return float(value, "rope_local_base_freq", Some(DEFAULT_LOCAL_THETA));
    };
    match parameters.get("rope_type").map(|t| t.as_str().unwrap_or("?")) {
        None | Some("default") => float(parameters, "rope_theta", Some(DEFAULT_LOCAL_THETA)),
        Some(other) => Err(unsupported(format!("the rotary scaling `{other:.40}` in layers with a window"))),
    }
}

fn eos_ids(value: &Value) -> Vec<u32> {
    let id = |v: &Value| v.as_u64().and_then(|n| u32::try_from(n).ok());
    match value.get("eos_token_id") {
        Some(Value::Array(ids)) => ids.iter().filter_map(id).collect(),
        Some(v) => id(v).into_iter().collect(),
        None => Vec::new(),
    }
}

pub(super) fn number(value: &Value, name: &str, max: usize) -> Result<usize> {
    optional(value, name, max)?.ok_or_else(|| bad(format!("the model configuration lacks `{name}`")))
}

pub(super) fn optional(value: &Value, name: &str, max: usize) -> Result<Option<usize>> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => match v.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) if (1..=max).contains(&n) => Ok(Some(n)),
            _ => Err(bad(format!("`{name}` is {}, not a number from 1 to {max}", short(v)))
                .at(Place::Pointer(format!("/{name}")))),
        },
    }
}

pub(super) fn float(value: &Value, name: &str, default: Option<f32>) -> Result<f32> {
    match (value.get(name), default) {
        (None | Some(Value::Null), Some(d)) => Ok(d),
        (v, _) => v
            .and_then(Value::as_f64)
            .map(|f| f as f32)
            .ok_or_else(|| bad(format!("`{name}` is not a number")).at(Place::Pointer(format!("/{name}")))),
    }
}

pub(super) fn flag(value: &Value, name: &str) -> Result<bool> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(b)) => Ok(*b),
        Some(v) => Err(bad(format!("`{name}` is {}, not true or false", short(v)))
            .at(Place::Pointer(format!("/{name}")))),
    }
}

/// Returns a value for a message, cut off so that an untrusted file cannot flood the terminal.
pub(super) fn short(v: &Value) -> String {
    let text = v.to_string();
    match text.char_indices().nth(60) {
        Some((i, _)) => format!("{}...", &text[..i]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Changes of a configuration, with parts of what is read or the kind and parts of the error.
    const CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/config.jsonl"));

    fn with(change: &serde_json::Map<String, Value>) -> Result<ModelConfig> {
        let mut value = serde_json::json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
            "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "max_position_embeddings": 128, "vocab_size": 50,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": null, "eos_token_id": [2, 3]
        });
        let all = value.as_object_mut().unwrap();
        if change.contains_key("model_type") {
            all.remove("architectures");
        }
        all.extend(change.clone());
        ModelConfig::from_json(value.to_string().as_bytes())
    }

    #[test]
    fn configurations_are_read_or_refused() {
        for line in CASES.lines() {
            let (change, shown, refused): (_, Vec<String>, Option<Vec<String>>) =
                serde_json::from_str(line).unwrap();
            match (with(&change), refused) {
                (Ok(config), None) => {
                    let text = format!("{config:?}");
                    for part in shown {
                        let is_whole = |end| text.contains(&format!(" {part}{end}"));
                        assert!(is_whole(',') || is_whole(' '), "{part}, {line}: {text}");
                    }
                }
                (Err(error), Some(said)) => {
                    assert!(format!("{:?}", error.kind()).contains(&said[0]), "{line}: {error:?}");
                    assert!(said[1..].iter().all(|part| error.message().contains(part)), "{line}: {error}");
                }
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
        assert_eq!(ModelConfig::from_json(b"{").unwrap_err().kind(), ErrorKind::InvalidJson);
        assert!(ModelConfig::from_json(b"[]").is_err());
    }
}
