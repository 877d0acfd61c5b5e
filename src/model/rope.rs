//! Rotary frequencies, and their scalings for longer contexts.
//!
//! # Cost
//!
//! Computed once per model, a few operations per pair of a head.
//!
//! # Alternatives considered
//!
//! Only scalings that change nothing but the frequencies are supported. Those that also change the
//! size of the scores (`yarn`, `longrope`) or depend on the length of the input (`dynamic`) are
//! refused: supporting a part of them would give wrong logits without an error.

use serde_json::Value;

use super::config::{bad, float, short};
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
}

impl RopeScaling {
    /// Reads `rope_scaling` or its newer name `rope_parameters` from a `config.json`.
    pub(super) fn from_json(config: &Value) -> Result<Self> {
        let mut found = RopeScaling::None;
        for name in ["rope_scaling", "rope_parameters"] {
            let value = match config.get(name) {
                None | Some(Value::Null) => continue,
                Some(v) => v,
            };
            let scaling = one(value, name).map_err(|e| e.at(Place::Pointer(format!("/{name}"))))?;
            if found != RopeScaling::None && scaling != RopeScaling::None && found != scaling {
                return Err(bad("`rope_scaling` and `rope_parameters` contradict each other"));
            }
            if scaling != RopeScaling::None {
                found = scaling;
            }
        }
        Ok(found)
    }

    /// Checks the numbers; `pairs` is half the head width.
    pub(super) fn check(&self, pairs: usize) -> Result<()> {
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
            RopeScaling::Divisors(d) if d.len() != pairs => {
                Err(bad(format!("{} rotary divisors for {pairs} pairs", d.len())))
            }
            RopeScaling::Divisors(d) => match d.iter().find(|d| !(d.is_finite() && **d > 0.0)) {
                Some(d) => Err(bad(format!("the rotary divisor {d} is not a positive number"))),
                None => Ok(()),
            },
        }
    }

    /// Returns the angle of each pair per position.
    pub(super) fn frequencies(&self, theta: f32, head_dim: usize) -> Vec<f32> {
        let d = head_dim as f32;
        let plain = (0..head_dim / 2).map(|i| 1.0 / theta.powf(2.0 * i as f32 / d));
        match self {
            RopeScaling::None => plain.collect(),
            RopeScaling::Linear { factor } => plain.map(|f| f / factor).collect(),
            RopeScaling::Divisors(divisors) => plain.zip(divisors).map(|(f, d)| f / d).collect(),
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

fn one(value: &Value, name: &str) -> Result<RopeScaling> {
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
        other => Err(refused(other)),
    }
}

/// Returns the error for an unsupported scaling.
pub(super) fn refused(kind: &str) -> Error {
    let kind: String = kind.chars().take(40).collect();
    Error::new(ErrorKind::Unsupported, format!("rotary positions scaled by `{kind}`")).hint(
        "`linear` and `llama3` are known; without the entry the model runs, right within its original \
         context only",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scalings_are_read_or_refused() {
        let read = |v: Value| {
            let config = serde_json::json!({"rope_scaling": v});
            RopeScaling::from_json(&config).and_then(|s| s.check(4).map(|()| s))
        };
        assert_eq!(read(Value::Null).unwrap(), RopeScaling::None);
        assert_eq!(read(serde_json::json!({"type": "default"})).unwrap(), RopeScaling::None);
        let linear = serde_json::json!({"type": "linear", "factor": 4.0});
        assert_eq!(read(linear).unwrap(), RopeScaling::Linear { factor: 4.0 });
        let llama3 = serde_json::json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 8192});
        assert!(matches!(read(llama3.clone()).unwrap(), RopeScaling::Llama3 { factor: 8.0, .. }));
        for (name, v) in [
            ("factor", serde_json::json!(0.5)),
            ("factor", serde_json::json!(1e30)),
            ("factor", Value::Null),
            ("low_freq_factor", serde_json::json!(4.0)),
            ("low_freq_factor", serde_json::json!(0.0)),
            ("original_max_position_embeddings", serde_json::json!(0)),
            ("high_freq_factor", serde_json::json!("x")),
        ] {
            let mut changed = llama3.clone();
            changed[name] = v.clone();
            assert!(read(changed).is_err(), "{name}: {v}");
        }
        for kind in ["yarn", "dynamic", "longrope", "su"] {
            let e = read(serde_json::json!({"rope_type": kind, "factor": 2.0})).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Unsupported);
            assert!(e.message().contains(kind), "{e}");
        }
        assert!(read(serde_json::json!(3)).is_err() && read(serde_json::json!({})).is_err());
        let both = serde_json::json!({"rope_scaling": {"type": "linear", "factor": 2.0},
            "rope_parameters": {"rope_type": "linear", "factor": 3.0}});
        assert!(RopeScaling::from_json(&both).is_err());
        let newer = serde_json::json!({"rope_parameters": {"rope_theta": 5.0}});
        assert_eq!(RopeScaling::from_json(&newer).unwrap(), RopeScaling::None);
    }

    #[test]
    fn divisors_must_fit() {
        assert!(RopeScaling::Divisors(vec![1.0; 4]).check(4).is_ok());
        for d in [vec![1.0; 3], vec![1.0, 0.0, 1.0, 1.0], vec![1.0, f32::NAN, 1.0, 1.0]] {
            assert!(RopeScaling::Divisors(d).check(4).is_err());
        }
    }
}
