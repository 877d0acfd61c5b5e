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

use super::family::{Activation, FAMILIES, Family};
use super::json_values::{
    DEFAULT_LOCAL_THETA, MAX_CONTEXT, MAX_LAYERS, MAX_VOCAB, MAX_WIDTH, bad, flag, float, number, optional,
    short, unsupported,
};
use super::layer_patterns::{rotary, windows};
use super::model_config::ModelConfig;
use super::rope_scaling::RopeScaling;
use crate::error::{Error, ErrorKind, Place, Result};

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
        let head_dim = head_dim(&value, family, hidden, heads)?;
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
            kv_heads: kv_heads(&value, family, heads)?,
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
    if bias && !family.attention_bias {
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

fn head_dim(value: &Value, family: &Family, hidden: usize, heads: usize) -> Result<usize> {
    match optional(value, "head_dim", MAX_WIDTH)?.or(family.default_head_dim) {
        Some(n) => Ok(n),
        None if hidden.is_multiple_of(heads) => Ok(hidden / heads),
        None => Err(bad("`hidden_size` is not a multiple of `num_attention_heads`")),
    }
}

fn kv_heads(value: &Value, family: &Family, heads: usize) -> Result<usize> {
    match optional(value, "num_key_value_heads", MAX_WIDTH)? {
        Some(n) => Ok(n),
        None if family.kv_heads_default_to_heads => Ok(heads),
        // The libraries' defaults differ here, and a wrong guess would go unnoticed.
        None => Err(bad("the model configuration lacks `num_key_value_heads`")),
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

#[cfg(test)]
mod tests {
    use super::super::layer_patterns::LayerRotary;
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
        assert_eq!(switches(&family("gemma3_text", gemma()).unwrap()), (false, false, true, 256));
        assert_eq!(switches(&family("olmo2", none()).unwrap()), (false, false, true, 16));
        assert_eq!(switches(&family("phi3", none()).unwrap()), (false, false, false, 16));
        assert!(["qwen2", "mistral", "phi3"].iter().all(|name| family(name, bias()).is_err()));
        assert!(family("mistral", serde_json::json!({"num_key_value_heads": null})).is_err());
    }

    fn gemma() -> Value {
        serde_json::json!({"sliding_window": 4, "hidden_activation": "gelu_pytorch_tanh"})
    }

    #[test]
    fn scales_and_defaults_of_the_families() {
        let scales =
            |c: &ModelConfig| [c.embedding_scale, c.attention_scale, c.residual_scale, c.logit_scale];
        let read = |name: &str, more: Value| family(name, more).unwrap();
        assert_eq!(scales(&read("llama", serde_json::json!({}))), [1.0, 0.25, 1.0, 1.0]);
        let multipliers = serde_json::json!({"embedding_multiplier": 12.0, "attention_multiplier": 0.5,
            "residual_multiplier": 0.22, "logits_scaling": 8.0});
        assert_eq!(scales(&read("granite", multipliers.clone())), [12.0, 0.5, 0.22, 0.125]);
        assert_eq!(scales(&read("llama", multipliers)), [1.0, 0.25, 1.0, 1.0]);
        assert!(family("granite", serde_json::json!({"logits_scaling": 0.0})).is_err());
        assert!(family("granite", serde_json::json!({"residual_multiplier": -1.0})).is_err());
        let c = read("gemma3_text", gemma());
        assert_eq!(scales(&c), [8.0, 0.0625, 1.0, 1.0]);
        assert_eq!((c.activation, c.tied_embeddings), (Activation::GeluTanh, true));
        let mut newer = gemma();
        newer["rope_theta"] = Value::Null;
        newer["rope_parameters"] = serde_json::json!({
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
            "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}});
        let c = read("gemma3_text", newer.clone());
        assert_eq!((c.rope_theta, c.rope_local_theta), (5e5, 2e4));
        assert_eq!(c.rope_scaling, RopeScaling::Linear { factor: 8.0 });
        newer["rope_parameters"]["sliding_attention"]["rope_type"] = "linear".into();
        assert!(family("gemma3_text", newer).is_err());
        for (name, v) in [
            ("final_logit_softcapping", serde_json::json!(30.0)),
            ("use_bidirectional_attention", true.into()),
            ("hidden_activation", "gelu".into()),
            ("query_pre_attn_scalar", 0.into()),
            ("sliding_window", Value::Null),
        ] {
            let mut changed = gemma();
            changed[name] = v;
            assert!(family("gemma3_text", changed).is_err(), "{name}");
        }
    }

    #[test]
    fn rotary_positions_are_where_the_family_has_them() {
        let rotary = |name: &str, more: Value| family(name, more).map(|c| (c.rotary_dim, c.rotary));
        let (none, global, local) = (LayerRotary::None, LayerRotary::Global, LayerRotary::Local);
        let layers = |n: usize, mut more: Value| {
            more["num_hidden_layers"] = n.into();
            more
        };
        assert_eq!(rotary("llama", serde_json::json!({})).unwrap(), (16, vec![global; 2]));
        let partial = |f: f64| serde_json::json!({"partial_rotary_factor": f});
        assert_eq!(rotary("phi3", partial(0.75)).unwrap(), (12, vec![global; 2]));
        for f in [-1.0, 0.0, 0.1, 0.2, 1.5] {
            assert!(rotary("phi3", partial(f)).is_err(), "{f}");
        }
        assert!(rotary("llama", partial(0.75)).is_err());
        let mut seven = vec![local; 7];
        seven[5] = global;
        assert_eq!(rotary("gemma3_text", layers(7, gemma())).unwrap().1, seven);
        let list = |l: Value| serde_json::json!({"no_rope_layers": l});
        assert_eq!(rotary("smollm3", list(serde_json::json!([0, 1]))).unwrap().1, [none, global]);
        assert!(rotary("smollm3", list(serde_json::json!([0]))).is_err());
        assert!(rotary("smollm3", list(serde_json::json!([0, 2]))).is_err());
        let all = rotary("smollm3", layers(4, serde_json::json!({}))).unwrap().1;
        assert_eq!(all, [global, global, global, none]);
        let other = serde_json::json!({"no_rope_layer_interval": 2});
        assert_eq!(rotary("smollm3", other).unwrap().1, [global, none]);
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
        let mut pattern = gemma();
        pattern["sliding_window_pattern"] = 2.into();
        assert_eq!(windows("gemma3_text", pattern).unwrap(), w([Some(4), None]));
        let mut listed = gemma();
        listed["layer_types"] = serde_json::json!([full, slides]);
        assert_eq!(windows("gemma3_text", listed).unwrap(), w([None, Some(4)]));
        assert_eq!(windows("phi3", four()).unwrap(), w([Some(4), Some(4)]));
        assert_eq!(windows("olmo2", four()).unwrap(), w([None, None]));
        assert!(
            windows("smollm3", serde_json::json!({"sliding_window": 4, "use_sliding_window": true})).is_err()
        );
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
