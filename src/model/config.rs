//! The shape of a Llama-family model, from `config.json` or from GGUF metadata.
//!
//! Reading costs microseconds. Every number is checked against a named limit and against the others
//! before anything is allocated, because these files come from strangers. Deserialising straight into
//! a struct with serde was rejected: it can name neither the field that is out of range nor the
//! feature that is missing, and an ignored field here (a rope scaling, a bias) would give wrong
//! logits in silence.

use serde_json::Value;

use crate::error::{Error, ErrorKind, Place, Result};

/// Largest width, head count or feed-forward size accepted.
const MAX_WIDTH: usize = 1 << 20;
/// Largest number of layers accepted.
const MAX_LAYERS: usize = 1 << 12;
/// Largest vocabulary accepted.
const MAX_VOCAB: usize = 1 << 24;
/// Largest context accepted.
const MAX_CONTEXT: usize = 1 << 24;

/// The shape and constants of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelConfig {
    /// Width of the logits; at least the number of tokens the tokenizer knows.
    pub vocab_size: usize,
    /// Most positions one generation can hold: prompt and output together.
    pub context: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Inner width of the feed-forward part.
    pub feed_forward: usize,
    /// Number of blocks.
    pub layers: usize,
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; divides `heads`.
    pub kv_heads: usize,
    /// Width of one head.
    pub head_dim: usize,
    /// Added to the mean square in RMSNorm.
    pub norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Whether the output projection is the embedding table.
    pub tied_embeddings: bool,
    /// End-of-sequence tokens that the model file itself names.
    pub eos: Vec<u32>,
}

impl ModelConfig {
    /// Reads a Hugging Face `config.json`.
    ///
    /// # Errors
    /// If the text is not JSON, the architecture is not Llama, a feature is used that the runner
    /// lacks, or a number is missing or out of range.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        let value: Value = serde_json::from_slice(text).map_err(|e| {
            Error::new(ErrorKind::InvalidJson, format!("the model configuration: {e}"))
                .at(Place::LineColumn(e.line().max(1), e.column().max(1)))
        })?;
        if !value.is_object() {
            return Err(bad("the model configuration is not a JSON object"));
        }
        check_architecture(&value)?;
        check_features(&value)?;
        let heads = number(&value, "num_attention_heads", MAX_WIDTH)?;
        let hidden = number(&value, "hidden_size", MAX_WIDTH)?;
        let config = ModelConfig {
            vocab_size: number(&value, "vocab_size", MAX_VOCAB)?,
            context: number(&value, "max_position_embeddings", MAX_CONTEXT)?,
            hidden,
            feed_forward: number(&value, "intermediate_size", MAX_WIDTH)?,
            layers: number(&value, "num_hidden_layers", MAX_LAYERS)?,
            heads,
            kv_heads: optional(&value, "num_key_value_heads", MAX_WIDTH)?.unwrap_or(heads),
            head_dim: match optional(&value, "head_dim", MAX_WIDTH)? {
                Some(n) => n,
                None if hidden.is_multiple_of(heads) => hidden / heads,
                None => return Err(bad("`hidden_size` is not a multiple of `num_attention_heads`")),
            },
            norm_eps: float(&value, "rms_norm_eps", Some(1e-6))?,
            rope_theta: rope_theta(&value)?,
            tied_embeddings: flag(&value, "tie_word_embeddings")?,
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
        if !self.head_dim.is_multiple_of(2) {
            return Err(bad(format!("the head width {} is odd, rotary positions need pairs", self.head_dim)));
        }
        if !(self.norm_eps >= 0.0 && self.norm_eps < 1.0) {
            return Err(bad(format!("the norm epsilon {} is not in [0, 1)", self.norm_eps)));
        }
        if !(self.rope_theta >= 1.0 && self.rope_theta.is_finite()) {
            return Err(bad(format!("the rotary base {} is not a number from 1 up", self.rope_theta)));
        }
        Ok(())
    }

    /// Width of the queries of all heads.
    pub fn q_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Width of the keys (or values) of all key heads.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, message)
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
        .hint("this runner knows plain Llama models: no bias, SiLU, unscaled rotary positions")
}

/// Refuses everything but Llama, by the name the file gives itself.
fn check_architecture(value: &Value) -> Result<()> {
    let model_type = value.get("model_type").and_then(Value::as_str);
    let class = value.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
    match (class, model_type) {
        (Some("LlamaForCausalLM"), Some("llama") | None) | (None, Some("llama")) => Ok(()),
        (None, None) => Err(bad("the model configuration names no architecture")
            .hint("a `config.json` of a Llama model has \"model_type\": \"llama\"")),
        (class, model_type) => Err(unsupported(format!(
            "the model architecture {}",
            class.filter(|c| *c != "LlamaForCausalLM").or(model_type).unwrap_or("?")
        ))),
    }
}

/// Refuses what would change the logits and is not implemented.
fn check_features(value: &Value) -> Result<()> {
    for name in ["attention_bias", "mlp_bias"] {
        if flag(value, name)? {
            return Err(unsupported(format!("a Llama model with `{name}`")));
        }
    }
    match value.get("hidden_act") {
        None | Some(Value::Null) => {}
        Some(Value::String(s)) if s == "silu" => {}
        Some(other) => return Err(unsupported(format!("the activation {other}"))),
    }
    for name in ["rope_scaling", "rope_parameters"] {
        let kind = match value.get(name) {
            None | Some(Value::Null) => continue,
            Some(v) => v.get("rope_type").or_else(|| v.get("type")).and_then(Value::as_str),
        };
        if kind != Some("default") {
            return Err(unsupported(format!("`{name}` of type {}", kind.unwrap_or("?"))));
        }
    }
    match value.get("partial_rotary_factor").and_then(Value::as_f64) {
        None | Some(1.0) => Ok(()),
        Some(f) => Err(unsupported(format!("`partial_rotary_factor` {f}"))),
    }
}

fn rope_theta(value: &Value) -> Result<f32> {
    match value.get("rope_parameters").filter(|p| p.get("rope_theta").is_some()) {
        Some(parameters) => float(parameters, "rope_theta", None),
        None => float(value, "rope_theta", Some(10_000.0)),
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

fn number(value: &Value, name: &str, max: usize) -> Result<usize> {
    optional(value, name, max)?.ok_or_else(|| bad(format!("the model configuration lacks `{name}`")))
}

fn optional(value: &Value, name: &str, max: usize) -> Result<Option<usize>> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(v) => match v.as_u64().and_then(|n| usize::try_from(n).ok()) {
            Some(n) if (1..=max).contains(&n) => Ok(Some(n)),
            _ => Err(bad(format!("`{name}` is {}, not a number from 1 to {max}", short(v)))
                .at(Place::Pointer(format!("/{name}")))),
        },
    }
}

fn float(value: &Value, name: &str, default: Option<f32>) -> Result<f32> {
    match (value.get(name), default) {
        (None | Some(Value::Null), Some(d)) => Ok(d),
        (v, _) => v
            .and_then(Value::as_f64)
            .map(|f| f as f32)
            .ok_or_else(|| bad(format!("`{name}` is not a number")).at(Place::Pointer(format!("/{name}")))),
    }
}

fn flag(value: &Value, name: &str) -> Result<bool> {
    match value.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(b)) => Ok(*b),
        Some(v) => Err(bad(format!("`{name}` is {}, not true or false", short(v)))
            .at(Place::Pointer(format!("/{name}")))),
    }
}

/// A value for a message, cut off so that a hostile file cannot flood the terminal.
fn short(v: &Value) -> String {
    let text = v.to_string();
    match text.char_indices().nth(60) {
        Some((i, _)) => format!("{}...", &text[..i]),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base() -> Value {
        serde_json::json!({
            "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
            "intermediate_size": 96, "num_attention_heads": 4, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "max_position_embeddings": 128, "vocab_size": 50,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "rope_scaling": null, "eos_token_id": [2, 3]
        })
    }

    fn with(name: &str, v: Value) -> Result<ModelConfig> {
        let mut value = base();
        value[name] = v;
        ModelConfig::from_json(value.to_string().as_bytes())
    }

    #[test]
    fn defaults_are_filled_in() {
        let c = with("num_key_value_heads", Value::Null).unwrap();
        assert_eq!((c.kv_heads, c.head_dim, c.tied_embeddings), (4, 16, false));
        assert_eq!(c.eos, [2, 3]);
        assert_eq!(with("head_dim", 32.into()).unwrap().q_dim(), 128);
    }

    #[test]
    fn other_models_are_refused_by_name() {
        let e = with("architectures", serde_json::json!(["Qwen2ForCausalLM"])).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("Qwen2ForCausalLM"));
        let e = with("model_type", "mistral".into()).unwrap_err();
        assert!(e.message().contains("mistral"), "{e}");
        let e = with("rope_scaling", serde_json::json!({"rope_type": "llama3", "factor": 8.0})).unwrap_err();
        assert!(e.message().contains("llama3"));
        assert!(with("rope_scaling", serde_json::json!({"rope_type": "default"})).is_ok());
        assert_eq!(with("attention_bias", true.into()).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for (name, v) in [
            ("hidden_size", serde_json::json!(0)),
            ("hidden_size", serde_json::json!(-4)),
            ("hidden_size", serde_json::json!(1e30)),
            ("vocab_size", serde_json::json!(u64::MAX)),
            ("num_key_value_heads", serde_json::json!(3)),
            ("head_dim", serde_json::json!(15)),
            ("rms_norm_eps", serde_json::json!("x")),
            ("rope_theta", serde_json::json!(0.0)),
            ("num_hidden_layers", serde_json::json!(1_000_000)),
            ("tie_word_embeddings", serde_json::json!(1)),
        ] {
            assert!(with(name, v.clone()).is_err(), "{name}: {v}");
        }
        assert_eq!(ModelConfig::from_json(b"{").unwrap_err().kind(), ErrorKind::InvalidJson);
        assert!(ModelConfig::from_json(b"[]").is_err());
    }
}
