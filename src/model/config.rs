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

use super::rope::RopeScaling;
use crate::error::{Error, ErrorKind, Place, Result};

/// Largest width, head count or feed-forward size accepted.
const MAX_WIDTH: usize = 1 << 20;
/// Largest number of layers accepted.
const MAX_LAYERS: usize = 1 << 12;
/// Largest vocabulary accepted.
const MAX_VOCAB: usize = 1 << 24;
/// Largest context accepted.
const MAX_CONTEXT: usize = 1 << 24;

/// Head width of Qwen3 if the file has none.
const QWEN3_HEAD: usize = 128;

/// The supported families: one forward pass with switches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Architecture {
    /// Llama 1 to 3, SmolLM, and other names for the same architecture.
    Llama,
    /// Mistral: sliding windows.
    Mistral,
    /// Qwen2 and Qwen2.5: queries, keys and values have biases.
    Qwen2,
    /// Qwen3: queries and keys are normed.
    Qwen3,
}

/// The names in a `config.json`: class and type.
const NAMES: [(Architecture, &str, &str); 4] = [
    (Architecture::Llama, "LlamaForCausalLM", "llama"),
    (Architecture::Mistral, "MistralForCausalLM", "mistral"),
    (Architecture::Qwen2, "Qwen2ForCausalLM", "qwen2"),
    (Architecture::Qwen3, "Qwen3ForCausalLM", "qwen3"),
];

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
    /// Added to the mean square in RMSNorm.
    pub norm_eps: f32,
    /// Base of the rotary frequencies.
    pub rope_theta: f32,
    /// Scaling of the rotary frequencies.
    pub rope_scaling: RopeScaling,
    /// True if queries, keys and values have a bias.
    pub qkv_bias: bool,
    /// True if the output of the attention has a bias.
    pub attention_output_bias: bool,
    /// True if each head's queries and keys are normed before they are rotated.
    pub qk_norm: bool,
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
        let architecture = architecture(&value)?;
        let attention_bias = check_features(&value, architecture)?;
        let heads = number(&value, "num_attention_heads", MAX_WIDTH)?;
        let hidden = number(&value, "hidden_size", MAX_WIDTH)?;
        let layers = number(&value, "num_hidden_layers", MAX_LAYERS)?;
        let kv_heads = optional(&value, "num_key_value_heads", MAX_WIDTH)?;
        let config = ModelConfig {
            architecture,
            vocab_size: number(&value, "vocab_size", MAX_VOCAB)?,
            context: number(&value, "max_position_embeddings", MAX_CONTEXT)?,
            hidden,
            feed_forward: number(&value, "intermediate_size", MAX_WIDTH)?,
            layers,
            heads,
            kv_heads: match (kv_heads, architecture) {
                (Some(n), _) => n,
                (None, Architecture::Llama) => heads,
                // The libraries' defaults differ here, and a wrong guess would go unnoticed.
                (None, _) => return Err(bad("the model configuration lacks `num_key_value_heads`")),
            },
            head_dim: match optional(&value, "head_dim", MAX_WIDTH)? {
                Some(n) => n,
                None if architecture == Architecture::Qwen3 => QWEN3_HEAD,
                None if hidden.is_multiple_of(heads) => hidden / heads,
                None => return Err(bad("`hidden_size` is not a multiple of `num_attention_heads`")),
            },
            norm_eps: float(&value, "rms_norm_eps", Some(1e-6))?,
            rope_theta: rope_theta(&value)?,
            rope_scaling: RopeScaling::from_json(&value)?,
            qkv_bias: attention_bias || architecture == Architecture::Qwen2,
            attention_output_bias: attention_bias,
            qk_norm: architecture == Architecture::Qwen3,
            windows: windows(&value, architecture, layers)?,
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
        if self.windows.len() != self.layers || self.windows.contains(&Some(0)) {
            return Err(bad("the sliding windows do not fit the layers"));
        }
        self.rope_scaling.check(self.head_dim / 2)
    }

    /// Returns the width of the queries of all heads.
    pub fn q_dim(&self) -> usize {
        self.heads * self.head_dim
    }

    /// Returns the width of the keys (or values) of all key heads.
    pub fn kv_dim(&self) -> usize {
        self.kv_heads * self.head_dim
    }
}

pub(crate) fn bad(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Model, message)
}

fn unsupported(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::Unsupported, message)
        .hint("this runner knows Llama, Mistral, Qwen2 and Qwen3, each in its dense form")
}

/// Returns the family by the names in the file, and refuses everything else.
fn architecture(value: &Value) -> Result<Architecture> {
    let model_type = value.get("model_type").and_then(Value::as_str);
    let class = value.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
    if class.is_none() && model_type.is_none() {
        return Err(bad("the model configuration names no architecture")
            .hint("a `config.json` of a Llama model has \"model_type\": \"llama\""));
    }
    let by_class = NAMES.iter().find(|(_, c, _)| class.is_none_or(|class| class == *c));
    let found = NAMES.iter().find(|(_, c, t)| {
        class.is_none_or(|class| class == *c) && model_type.is_none_or(|model_type| model_type == *t)
    });
    match found {
        Some((architecture, ..)) => Ok(*architecture),
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
fn check_features(value: &Value, architecture: Architecture) -> Result<bool> {
    if flag(value, "mlp_bias")? {
        return Err(unsupported("a model with `mlp_bias`"));
    }
    let bias = flag(value, "attention_bias")?;
    if bias && matches!(architecture, Architecture::Mistral | Architecture::Qwen2) {
        return Err(unsupported("`attention_bias` in a model of this architecture"));
    }
    match value.get("hidden_act") {
        None | Some(Value::Null) => {}
        Some(Value::String(s)) if s == "silu" => {}
        Some(other) => return Err(unsupported(format!("the activation {}", short(other)))),
    }
    match value.get("partial_rotary_factor").and_then(Value::as_f64) {
        None | Some(1.0) => Ok(bias),
        Some(f) => Err(unsupported(format!("`partial_rotary_factor` {f}"))),
    }
}

/// Returns the window of each layer. Llama has no windows and ignores the entry. Qwen has a switch,
/// and a number of first layers that see everything.
fn windows(value: &Value, architecture: Architecture, layers: usize) -> Result<Vec<Option<usize>>> {
    let on = match architecture {
        Architecture::Llama => false,
        Architecture::Mistral => true,
        Architecture::Qwen2 | Architecture::Qwen3 => flag(value, "use_sliding_window")?,
    };
    let window = if on { optional(value, "sliding_window", MAX_CONTEXT)? } else { None };
    let Some(types) = value.get("layer_types").filter(|t| !t.is_null()) else {
        let first = match (window, architecture) {
            (Some(_), Architecture::Qwen2 | Architecture::Qwen3) => match value.get("max_window_layers") {
                Some(v) if v.as_u64() == Some(0) => 0,
                _ => number(value, "max_window_layers", MAX_LAYERS)?,
            },
            _ => 0,
        };
        return Ok((0..layers).map(|i| window.filter(|_| i >= first)).collect());
    };
    let at = |e: Error| e.at(Place::Pointer("/layer_types".into()));
    let types = types.as_array().filter(|t| t.len() == layers);
    let types = types.ok_or_else(|| at(bad(format!("`layer_types` is not a list of {layers} entries"))))?;
    let one = |t: &Value| match (t.as_str(), window) {
        (Some("full_attention"), _) => Ok(None),
        (Some("sliding_attention"), Some(_)) => Ok(window),
        (Some("sliding_attention"), None) => Err(at(bad("a layer slides, but there is no window in use"))),
        _ => Err(at(unsupported(format!("a layer of type {}", short(t))))),
    };
    types.iter().map(one).collect()
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

pub(super) fn float(value: &Value, name: &str, default: Option<f32>) -> Result<f32> {
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
        let e = with("architectures", serde_json::json!(["MixtralForCausalLM"])).unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Unsupported);
        assert!(e.message().contains("MixtralForCausalLM"));
        let e = with("model_type", "mistral".into()).unwrap_err();
        assert!(e.message().contains("mistral"), "{e}");
        let e = with("architectures", serde_json::json!(["Qwen2ForCausalLM"])).unwrap_err();
        assert!(e.message().contains("llama"), "a class and a type that do not fit: {e}");
        let e = with("rope_scaling", serde_json::json!({"rope_type": "yarn", "factor": 8.0})).unwrap_err();
        assert!(e.message().contains("yarn"));
        assert!(with("rope_scaling", serde_json::json!({"rope_type": "default"})).is_ok());
        assert_eq!(with("mlp_bias", true.into()).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(with("hidden_act", "gelu".into()).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    fn family(name: &str, more: Value) -> Result<ModelConfig> {
        let mut value = base();
        value.as_object_mut().unwrap().remove("architectures");
        value["model_type"] = name.into();
        for (k, v) in more.as_object().unwrap() {
            value[k] = v.clone();
        }
        ModelConfig::from_json(value.to_string().as_bytes())
    }

    #[test]
    fn each_family_has_its_switches() {
        let switches = |c: &ModelConfig| (c.qkv_bias, c.attention_output_bias, c.qk_norm, c.head_dim);
        let none = || serde_json::json!({});
        let bias = || serde_json::json!({"attention_bias": true});
        assert_eq!(switches(&family("llama", none()).unwrap()), (false, false, false, 16));
        assert_eq!(switches(&family("llama", bias()).unwrap()), (true, true, false, 16));
        assert_eq!(switches(&family("mistral", none()).unwrap()), (false, false, false, 16));
        assert_eq!(switches(&family("qwen2", none()).unwrap()), (true, false, false, 16));
        assert_eq!(switches(&family("qwen3", none()).unwrap()), (false, false, true, 128));
        assert_eq!(switches(&family("qwen3", bias()).unwrap()), (true, true, true, 128));
        assert!(family("qwen2", bias()).is_err() && family("mistral", bias()).is_err());
        assert!(family("mistral", serde_json::json!({"num_key_value_heads": null})).is_err());
    }

    #[test]
    fn windows_are_where_the_family_has_them() {
        let windows = |name: &str, more: Value| family(name, more).map(|c| c.windows);
        let w = |v: [Option<usize>; 2]| v.to_vec();
        let four = || serde_json::json!({"sliding_window": 4});
        assert_eq!(windows("llama", four()).unwrap(), w([None, None]));
        assert_eq!(windows("mistral", four()).unwrap(), w([Some(4), Some(4)]));
        assert_eq!(windows("mistral", serde_json::json!({"sliding_window": null})).unwrap(), w([None, None]));
        assert_eq!(windows("qwen2", four()).unwrap(), w([None, None]));
        let on = |first: Value| serde_json::json!({"sliding_window": 4, "use_sliding_window": true, "max_window_layers": first});
        assert_eq!(windows("qwen2", on(0.into())).unwrap(), w([Some(4), Some(4)]));
        assert_eq!(windows("qwen3", on(1.into())).unwrap(), w([None, Some(4)]));
        assert_eq!(windows("qwen2", on(28.into())).unwrap(), w([None, None]));
        assert!(windows("qwen2", on(Value::Null)).is_err());
        let types = |a: &str, b: &str, on: bool| serde_json::json!({"sliding_window": 4, "use_sliding_window": on, "layer_types": [a, b]});
        let (full, slides) = ("full_attention", "sliding_attention");
        assert_eq!(windows("qwen2", types(slides, full, true)).unwrap(), w([Some(4), None]));
        assert_eq!(windows("qwen2", types(full, full, false)).unwrap(), w([None, None]));
        assert!(windows("qwen2", types(slides, full, false)).is_err());
        assert!(windows("qwen2", types("linear_attention", full, true)).is_err());
        assert!(windows("mistral", serde_json::json!({"sliding_window": 0})).is_err());
        assert!(windows("mistral", serde_json::json!({"layer_types": [full]})).is_err());
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
