//! The `adapter_config.json` of PEFT: which matrices an adapter changes, their ranks and scales.
//!
//! Whatever would change the result and is not known here is an error that names it.

use std::collections::BTreeMap;

use regex_automata::nfa::thompson::{self, pikevm::PikeVM};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::error::{Error, ErrorKind, Result};
use crate::model::config::bad;

/// Largest rank accepted.
pub(super) const MAX_RANK: usize = 1 << 12;
/// Maximum bytes of a compiled pattern.
const MAX_PATTERN: usize = 1 << 20;
/// Entries that do not change what an adapter computes, besides those of [`PeftConfig`].
const WITHOUT_EFFECT: [&str; 12] = [
    "task_type",
    "auto_mapping",
    "revision",
    "inference_mode",
    "lora_dropout",
    "peft_version",
    "layers_pattern",
    "megatron_core",
    "loftq_config",
    "eva_config",
    "runtime_config",
    "qalora_group_size",
];
/// Ways to begin a training that leave the base's weights as they are.
const STARTS: [&str; 4] = ["gaussian", "eva", "orthogonal", "true"];

/// The configuration of an adapter.
#[derive(Deserialize)]
pub(super) struct PeftConfig {
    peft_type: String,
    #[serde(rename = "base_model_name_or_path")]
    pub base: Option<String>,
    r: u64,
    lora_alpha: f64,
    #[serde(default)]
    use_rslora: bool,
    #[serde(default)]
    rank_pattern: Option<Map<String, Value>>,
    #[serde(default)]
    alpha_pattern: Option<Map<String, Value>>,
    target_modules: Option<Modules>,
    exclude_modules: Option<Modules>,
    layers_to_transform: Option<Layers>,
    #[serde(default)]
    init_lora_weights: Value,
    #[serde(flatten)]
    others: BTreeMap<String, Value>,
}

/// Names of modules or the ends of such names, or a pattern of whole names.
#[derive(Deserialize)]
#[serde(untagged)]
enum Modules {
    Names(Vec<String>),
    Pattern(String),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Layers {
    One(usize),
    Several(Vec<usize>),
}

impl PeftConfig {
    /// # Errors
    /// Returns an error if it is not the configuration of an adapter that can run.
    pub(super) fn read(json: &[u8]) -> Result<Self> {
        let config: PeftConfig = serde_json::from_slice(json)
            .map_err(|e| Error::new(ErrorKind::InvalidJson, format!("the adapter's configuration: {e}")))?;
        if config.peft_type != "LORA" {
            return Err(unsupported(&format!("`peft_type` `{}`", config.peft_type)));
        }
        let start = config.init_lora_weights.as_str().unwrap_or("true");
        if !STARTS.contains(&start) {
            // These methods train on a base whose weights they have changed.
            return Err(unsupported(&format!("`init_lora_weights` `{start}`")));
        }
        let is_off = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::String(text) => text.is_empty() || text == "none",
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => false,
        };
        let unknown =
            |(name, value): &(&String, &Value)| !WITHOUT_EFFECT.contains(&name.as_str()) && !is_off(value);
        if let Some((name, value)) = config.others.iter().find(unknown) {
            let value = value.to_string().chars().take(60).collect::<String>();
            return Err(unsupported(&format!("`{name}` {value}")));
        }
        check_rank(config.r)?;
        Ok(config)
    }

    /// Returns the rank of a module.
    ///
    /// # Errors
    /// Returns an error if it is out of range, or a pattern is not valid.
    pub(super) fn rank(&self, module: &str) -> Result<usize> {
        match first_match(self.rank_pattern.as_ref(), module)? {
            None => check_rank(self.r),
            Some(value) => check_rank(value.as_u64().unwrap_or_default()),
        }
    }

    /// Returns the factor of a module's products.
    ///
    /// # Errors
    /// Returns an error if a number is out of range, or a pattern is not valid.
    pub(super) fn scale(&self, module: &str) -> Result<f64> {
        let alpha = match first_match(self.alpha_pattern.as_ref(), module)? {
            None => Some(self.lora_alpha),
            Some(value) => value.as_f64(),
        };
        let alpha = alpha.ok_or_else(|| bad(format!("the alpha of `{module}` is not a number")))?;
        let rank = self.rank(module)? as f64;
        Ok(alpha / if self.use_rslora { rank.sqrt() } else { rank })
    }

    /// Returns true if the adapter says that it changes a module of a layer.
    ///
    /// # Errors
    /// Returns an error if a pattern is not valid.
    pub(super) fn changes(&self, layer: usize, module: &str) -> Result<bool> {
        let in_layer = match &self.layers_to_transform {
            None => true,
            Some(Layers::One(one)) => *one == layer,
            Some(Layers::Several(all)) => all.contains(&layer),
        };
        let named = |modules: &Option<Modules>| modules.as_ref().map_or(Ok(false), |m| m.has(module));
        Ok(in_layer && named(&self.target_modules)? && !named(&self.exclude_modules)?)
    }
}

impl Modules {
    fn has(&self, module: &str) -> Result<bool> {
        match self {
            Modules::Names(names) => Ok(names.iter().any(|name| {
                module.strip_suffix(name.as_str()).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            })),
            Modules::Pattern(text) if text == "all-linear" => Ok(true),
            Modules::Pattern(text) => matches(&format!("^(?:{text})$"), module),
        }
    }
}

/// Returns the value of the first pattern that matches the end of a module's name.
fn first_match<'a>(patterns: Option<&'a Map<String, Value>>, module: &str) -> Result<Option<&'a Value>> {
    for (pattern, value) in patterns.into_iter().flatten() {
        if matches(&format!(r"^(?:.*\.)?(?:{pattern})$"), module)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn matches(pattern: &str, text: &str) -> Result<bool> {
    let limit = thompson::Config::new().nfa_size_limit(Some(MAX_PATTERN));
    let regex = PikeVM::builder().thompson(limit).build(pattern).map_err(|e| {
        let pattern = pattern.chars().take(80).collect::<String>();
        Error::new(ErrorKind::InvalidPattern, format!("`{pattern}` in the adapter's configuration: {e}"))
    })?;
    Ok(regex.is_match(&mut regex.create_cache(), text))
}

fn check_rank(rank: u64) -> Result<usize> {
    match usize::try_from(rank) {
        Ok(rank @ 1..=MAX_RANK) => Ok(rank),
        _ => Err(bad(format!("the adapter has the rank {rank}; ranks are 1 to {MAX_RANK}"))),
    }
}

/// Returns the error about a feature.
pub(super) fn unsupported(feature: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("the adapter uses {feature}"))
        .hint("plain LoRA of the attention and the feed-forward runs here; merge others into their base")
}
