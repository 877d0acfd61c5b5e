//! Rotary frequencies, and their scalings for longer contexts.
//!
//! # Cost
//!
//! Computed once per model, a few operations per pair of a head.
//!
//! # Alternatives considered
//!
//! - Scalings that depend on the length of the input (`dynamic`) are refused, and so is `yarn`:
//!   supporting a part of them would give wrong logits without an error.
//! - `longrope` by the length of the input was rejected. Keys in the cache would change when a text
//!   grows beyond the original context. The context of the model decides, once.

use serde_json::Value;

use super::json_values::{MAX_CONTEXT, bad, float, optional, short};
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum factor for stretching positions.
const MAX_FACTOR: f32 = 1e6;

/// A change of the rotary frequencies `theta^(-2 i / head_dim)`.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum RopeScaling {
    /// No change.
    #[default]
    None,
    /// All frequencies divided by one factor.
    Linear {
        /// At least 1.
        factor: f32,
    },
    /// The rule of Llama 3.1: long waves are divided by `factor`, short ones stay the same, those
    /// between are interpolated.
    Llama3 {
        /// At least 1.
        factor: f32,
        /// Waves longer than `original_context / low_freq_factor` positions are stretched in full.
        low_freq_factor: f32,
        /// Waves shorter than `original_context / high_freq_factor` positions stay the same.
        high_freq_factor: f32,
        /// Context length without the scaling.
        original_context: f32,
    },
    /// Each frequency divided by its own number, one per pair, as GGUF files hold them.
    Divisors(Vec<f32>),
    /// The rule of Phi-3: one list of divisors for contexts up to the original one, and another for
    /// longer ones.
    LongRope {
        /// Divisors in contexts up to `original_context`, one per pair.
        short: Vec<f32>,
        /// Divisors in longer contexts, one per pair.
        long: Vec<f32>,
        /// Context length without the scaling.
        original_context: usize,
        /// Multiplies rotated queries and keys.
        attention_factor: f32,
    },
}

/// The rotary frequencies of a model.
#[derive(Clone)]
pub(crate) struct RotaryTable {
    /// The angle of each pair per position.
    pub frequencies: Vec<f32>,
    /// Multiplies rotated elements.
    pub scale: f32,
}

impl RopeScaling {
    /// Reads `rope_scaling` or its newer name `rope_parameters` from a `config.json`. Where layers
    /// have parameters by their type, reads those of full attention.
    pub(crate) fn from_json(config: &Value) -> Result<Self> {
        let mut found = RopeScaling::None;
        for name in ["rope_scaling", "rope_parameters"] {
            let value = match config.get(name) {
                None | Some(Value::Null) => continue,
                Some(v) => v,
            };
            let value = value.get("full_attention").unwrap_or(value);
            let scaling = one(config, value, name).map_err(|e| e.at(Place::Pointer(format!("/{name}"))))?;
            if found != RopeScaling::None && scaling != RopeScaling::None && found != scaling {
                return Err(bad("`rope_scaling` and `rope_parameters` contradict each other"));
            }
            if scaling != RopeScaling::None {
                found = scaling;
            }
        }
        Ok(found)
    }

    /// Checks the numbers; `pairs` is half the rotated width of a head.
    pub(crate) fn check(&self, pairs: usize) -> Result<()> {
        let factor_is_fine = |f: f32| (1.0..=MAX_FACTOR).contains(&f);
        match self {
            RopeScaling::None => Ok(()),
            RopeScaling::Linear { factor } | RopeScaling::Llama3 { factor, .. }
                if !factor_is_fine(*factor) =>
            {
                Err(bad(format!("the rotary factor {factor} is not from 1 to {MAX_FACTOR}")))
            }
            RopeScaling::Linear { .. } => Ok(()),
            RopeScaling::Llama3 {
                low_freq_factor: low, high_freq_factor: high, original_context, ..
            } => {
                let ordered = *low > 0.0 && high > low && high.is_finite();
                if ordered && original_context.is_finite() && *original_context >= 1.0 {
                    return Ok(());
                }
                Err(bad(format!(
                    "rotary scaling with frequency factors {low} and {high} of {original_context} positions"
                )))
            }
            RopeScaling::Divisors(d) => check_divisors(d, pairs),
            RopeScaling::LongRope { short, long, original_context, attention_factor } => {
                check_divisors(short, pairs)?;
                check_divisors(long, pairs)?;
                if *original_context == 0 || !(*attention_factor > 0.0 && attention_factor.is_finite()) {
                    return Err(bad(format!(
                        "rotary scaling by {attention_factor} from {original_context} positions on"
                    )));
                }
                Ok(())
            }
        }
    }

    /// Returns the frequencies for heads with `width` rotated elements in a context.
    pub(crate) fn table(&self, theta: f32, width: usize, context: usize) -> RotaryTable {
        let scale = match self {
            RopeScaling::LongRope { attention_factor, .. } => *attention_factor,
            _ => 1.0,
        };
        RotaryTable { frequencies: self.frequencies(theta, width, context), scale }
    }

    /// Returns the angle of each pair per position.
    fn frequencies(&self, theta: f32, width: usize, context: usize) -> Vec<f32> {
        let d = width as f32;
        let plain = (0..width / 2).map(|i| 1.0 / theta.powf(2.0 * i as f32 / d));
        match self {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            RopeScaling::Divisors(divisors) => plain.zip(divisors).map(|(f, d)| f / d).collect(),
            RopeScaling::LongRope { short, long, original_context, .. } => {
                let divisors = if context > *original_context { long } else { short };
                plain.zip(divisors).map(|(f, d)| f / d).collect()
            }
            RopeScaling::Llama3 {
                factor,
                low_freq_factor: low,
                high_freq_factor: high,
                original_context,
            } => {
                let stretch = |f: f32| {
                    let wave = 2.0 * std::f32::consts::PI / f;
                    if wave < original_context / high {
                        f
                    } else if wave > original_context / low {
                        f / factor
                    } else {
                        let smooth = (original_context / wave - low) / (high - low);
                        (1.0 - smooth) * f / factor + smooth * f
                    }
                };
                plain.map(stretch).collect()
            }
        }
    }
}

fn check_divisors(divisors: &[f32], pairs: usize) -> Result<()> {
    if divisors.len() != pairs {
        return Err(bad(format!("{} rotary divisors for {pairs} pairs", divisors.len())));
    }
    match divisors.iter().find(|d| !(d.is_finite() && **d > 0.0)) {
        Some(d) => Err(bad(format!("the rotary divisor {d} is not a positive number"))),
        None => Ok(()),
    }
}

/// Reads the scaling in the entry `name` of a configuration.
fn one(config: &Value, value: &Value, name: &str) -> Result<RopeScaling> {
    if !value.is_object() {
        return Err(bad(format!("`{name}` is {}, not an object", short(value))));
    }
    let kind = match value.get("rope_type").or_else(|| value.get("type")) {
        // The newer name is always present, with only the base if there is no scaling.
        None if name == "rope_parameters" => return Ok(RopeScaling::None),
        kind => kind.and_then(Value::as_str).unwrap_or("?"),
    };
    match kind {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: float(value, "factor", None)? }),
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: float(value, "factor", None)?,
            low_freq_factor: float(value, "low_freq_factor", None)?,
            high_freq_factor: float(value, "high_freq_factor", None)?,
            original_context: float(value, "original_max_position_embeddings", None)?,
        }),
        "longrope" | "su" => long_rope(config, value),
        other => Err(refused(other)),
    }
}

fn long_rope(config: &Value, value: &Value) -> Result<RopeScaling> {
    let divisors = |name: &str| -> Result<Vec<f32>> {
        let list = value.get(name).and_then(Value::as_array);
        let numbers = list.and_then(|l| l.iter().map(|v| v.as_f64().map(|f| f as f32)).collect());
        numbers.ok_or_else(|| bad(format!("`{name}` is not a list of numbers")))
    };
    let (context, original) = ("max_position_embeddings", "original_max_position_embeddings");
    let original_context = match optional(config, original, MAX_CONTEXT)? {
        Some(n) => n,
        None => optional(value, original, MAX_CONTEXT)?
            .ok_or_else(|| bad(format!("the model configuration lacks `{original}`")))?,
    };
    let stretch = match optional(config, context, MAX_CONTEXT)? {
        Some(n) => n as f32 / original_context as f32,
        None => 1.0,
    };
    let attention_factor = match value.get("attention_factor") {
        None | Some(Value::Null) => attention_factor(stretch, original_context),
        Some(_) => float(value, "attention_factor", None)?,
    };
    Ok(RopeScaling::LongRope {
        short: divisors("short_factor")?,
        long: divisors("long_factor")?,
        original_context,
        attention_factor,
    })
}

/// Returns the usual factor of `longrope` for contexts that are stretched.
fn attention_factor(stretch: f32, original_context: usize) -> f32 {
    match stretch > 1.0 && original_context > 1 {
        true => (1.0 + stretch.ln() / (original_context as f32).ln()).sqrt(),
        false => 1.0,
    }
}

/// Returns the error for an unsupported scaling.
pub(crate) fn refused(kind: &str) -> Error {
    let kind: String = kind.chars().take(40).collect();
    Error::new(ErrorKind::Unsupported, format!("rotary positions scaled by `{kind}`")).hint(
        "`linear`, `llama3` and `longrope` are known; without the entry the model runs, right within its original \
         context only",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_rope_takes_the_divisors_of_its_context() {
        let read = |change: &dyn Fn(&mut Value)| {
            let mut config = serde_json::json!({"max_position_embeddings": 64,
                "original_max_position_embeddings": 16, "rope_scaling": {"type": "longrope",
                "short_factor": [1.0, 1.5], "long_factor": [1.0, 8.0]}});
            change(&mut config);
            RopeScaling::from_json(&config).and_then(|s| s.check(2).map(|()| s))
        };
        let scaling = read(&|_| ()).unwrap();
        // sqrt(1 + ln 4 / ln 16)
        let factor = 1.5f32.sqrt();
        for (context, second) in [(16, 0.01 / 1.5), (17, 0.01 / 8.0)] {
            let table = scaling.table(10_000.0, 4, context);
            assert!((table.scale - factor).abs() < 1e-6, "{}", table.scale);
            assert_eq!(table.frequencies[0], 1.0);
            assert!((table.frequencies[1] - second).abs() < 1e-8);
        }
        let factor = |change: &dyn Fn(&mut Value)| read(change).map(|s| s.table(10_000.0, 4, 16).scale);
        assert_eq!(factor(&|c| c["rope_scaling"]["attention_factor"] = 1.25.into()).unwrap(), 1.25);
        assert_eq!(factor(&|c| c["max_position_embeddings"] = 16.into()).unwrap(), 1.0);
    }

    #[test]
    fn divisors_must_fit() {
        assert!(RopeScaling::Divisors(vec![1.0; 4]).check(4).is_ok());
        for d in [vec![1.0; 3], vec![1.0, 0.0, 1.0, 1.0], vec![1.0, f32::NAN, 1.0, 1.0]] {
            assert!(RopeScaling::Divisors(d).check(4).is_err());
        }
    }
}
