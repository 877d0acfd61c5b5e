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
use super::mixers;
use super::model_config::ModelConfig;
use super::rope_scaling::RopeScaling;
use crate::error::{Error, ErrorKind, Place, Result};

impl ModelConfig {
    /// Reads a Hugging Face `config.json`.
    ///
    /// # Errors
    /// Returns an error if the text is not JSON or the architecture is none of [`Architecture`](crate::model::Architecture).
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
        let value = text_part(value, family);
        let attention_bias = check_features(&value, family)?;
        let heads = number(&value, "num_attention_heads", MAX_WIDTH)?;
        let hidden = number(&value, "hidden_size", MAX_WIDTH)?;
        let layers = number(&value, "num_hidden_layers", MAX_LAYERS)?;
        let head_dim = head_dim(&value, family, hidden, heads)?;
        let windows = windows(&value, family, layers)?;
        let (experts, feed_forward) = mixers::feed_forward(&value, family)?;
        let multiplier = |name: &str| match family.multipliers {
            true => float(&value, name, Some(1.0)),
            false => Ok(1.0),
        };
        let config = ModelConfig {
            architecture: family.architecture,
            vocab_size: number(&value, "vocab_size", MAX_VOCAB)?,
            context: number(&value, "max_position_embeddings", MAX_CONTEXT)?,
            hidden,
            feed_forward,
            layers,
            heads,
            kv_heads: kv_heads(&value, family, heads)?,
            head_dim,
            rotary_dim: rotary_dim(&value, family, head_dim)?,
            norm_eps: float(&value, family.norm_eps_key, Some(family.default_norm_eps))?,
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
            mixers: mixers::mixers(&value, family, layers)?,
            taps: mixers::taps(&value, family)?,
            delta: mixers::delta(&value, family)?,
            experts,
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

/// Returns the part of a configuration that describes the text model, with what the whole says of it.
fn text_part(mut value: Value, family: &Family) -> Value {
    let nested = family.with_vision.is_some().then(|| value.get_mut("text_config").map(Value::take));
    let Some(Value::Object(mut text)) = nested.flatten() else { return value };
    tracing::warn!("the model has a vision part, which is left out: texts only");
    for name in ["tie_word_embeddings", "eos_token_id"] {
        if let Some(outer) = value.get(name).filter(|v| !v.is_null()) {
            text.insert(name.to_owned(), outer.clone());
        }
    }
    Value::Object(text)
}

/// Returns the family by the names in the file, and refuses everything else.
fn family(value: &Value) -> Result<&'static Family> {
    let model_type = value.get("model_type").and_then(Value::as_str);
    let class = value.get("architectures").and_then(|a| a.get(0)).and_then(Value::as_str);
    if class.is_none() && model_type.is_none() {
        return Err(bad("the model configuration names no architecture")
            .hint("a `config.json` of a Llama model has \"model_type\": \"llama\""));
    }
    let is = |name: Option<&str>, own: &str| name.is_none_or(|name| name == own);
    let by_class = FAMILIES.iter().find(|f| is(class, f.class));
    let found = FAMILIES.iter().find(|f| {
        let names = [Some((f.class, f.model_type)), f.with_vision];
        names.iter().flatten().any(|(own, kind)| is(class, own) && is(model_type, kind))
    });
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
    match newer.or(value.get(NAME)).and_then(Value::as_f64).or(family.partial_rotary) {
        None => Ok(head_dim),
        Some(1.0) => Ok(head_dim),
        // `as` turns negative numbers and others out of range into ones that `check` refuses.
        Some(f) if family.partial_rotary.is_some() => Ok((head_dim as f64 * f) as usize),
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
