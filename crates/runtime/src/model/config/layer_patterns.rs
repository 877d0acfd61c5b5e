//! The layers that have a sliding window, and the rotary positions of each layer.
//!
//! # Cost
//!
//! One entry for each layer, made once per model.
//!
//! # Alternatives considered
//!
//! A rule that the forward evaluates was rejected in favour of a list: some files list their
//! layers, and others name a rule.

use serde_json::Value;

use super::family::{Family, RotaryLayers, Windows};
use super::json_values::{MAX_CONTEXT, MAX_LAYERS, bad, flag, number, optional, short, unsupported};
use crate::error::{Error, Place, Result};

/// The rotary positions of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LayerRotary {
    /// None: queries and keys stay as they are.
    None,
    /// With the base [`rope_theta`](super::ModelConfig::rope_theta) and its scaling.
    Global,
    /// With the base [`rope_local_theta`](super::ModelConfig::rope_local_theta) and no scaling.
    Local,
}

/// Returns the window of each layer. Llama has no windows and ignores the entry. Qwen has a switch,
/// and a number of first layers that see everything. In Gemma all but each sixth layer slide.
pub(crate) fn windows(value: &Value, family: &Family, layers: usize) -> Result<Vec<Option<usize>>> {
    let on = match family.windows {
        Windows::Never | Windows::AlwaysInGguf => false,
        Windows::Always | Windows::AllBut(_) => true,
        Windows::FromLayer | Windows::Listed => flag(value, "use_sliding_window")?,
    };
    let window = if on { optional(value, "sliding_window", MAX_CONTEXT)? } else { None };
    let Some(types) = value.get("layer_types").filter(|t| !t.is_null()) else {
        return unlisted_windows(value, family, layers, window);
    };
    let at = |e: Error| e.at(Place::Pointer("/layer_types".into()));
    let types = types.as_array().filter(|t| t.len() == layers);
    let types = types.ok_or_else(|| at(bad(format!("`layer_types` is not a list of {layers} entries"))))?;
    let one = |t: &Value| match (t.as_str(), window) {
        (Some("full_attention"), _) => Ok(None),
        (Some("conv" | "linear_attention"), _) if family.recurrent.is_some() => Ok(None),
        (Some("sliding_attention"), Some(_)) => Ok(window),
        (Some("sliding_attention"), None) => Err(at(bad("a layer slides, but there is no window in use"))),
        _ => Err(at(unsupported(format!("a layer of type {}", short(t))))),
    };
    types.iter().map(one).collect()
}

/// Returns the window of each layer for files without a list of layer types.
fn unlisted_windows(
    value: &Value,
    family: &Family,
    layers: usize,
    window: Option<usize>,
) -> Result<Vec<Option<usize>>> {
    if window.is_none() && !matches!(family.windows, Windows::AllBut(_)) {
        return Ok(vec![None; layers]);
    }
    let (mut first, mut full) = (0, None);
    match family.windows {
        Windows::FromLayer => {
            first = match value.get("max_window_layers") {
                Some(v) if v.as_u64() == Some(0) => 0,
                _ => number(value, "max_window_layers", MAX_LAYERS)?,
            }
        }
        Windows::AllBut(n) => {
            let mut each = n;
            for name in ["sliding_window_pattern", "_sliding_window_pattern"] {
                each = optional(value, name, MAX_LAYERS)?.unwrap_or(each);
            }
            if window.is_none() && each > 1 {
                return Err(bad("the model configuration lacks `sliding_window`"));
            }
            full = Some(each);
        }
        Windows::Listed => return Err(unsupported("sliding windows without a list `layer_types`")),
        Windows::Never | Windows::AlwaysInGguf | Windows::Always => {}
    }
    let slides = |i: usize| i >= first && full.is_none_or(|n| !(i + 1).is_multiple_of(n));
    Ok((0..layers).map(|i| window.filter(|_| slides(i))).collect())
}

/// Returns the rotary positions of each layer.
pub(crate) fn rotary(value: &Value, family: &Family, windows: &[Option<usize>]) -> Result<Vec<LayerRotary>> {
    let RotaryLayers::AllBut(n) = family.rotary_layers else {
        return Ok(default_rotary(family, windows));
    };
    let Some(list) = value.get("no_rope_layers").filter(|l| !l.is_null()) else {
        let n = optional(value, "no_rope_layer_interval", MAX_LAYERS)?.unwrap_or(n);
        return Ok(all_but(n, windows.len()));
    };
    // Despite its name, a one in the list means that the layer has rotary positions.
    let one = |v: &Value| match v.as_u64() {
        Some(0) => Some(LayerRotary::None),
        Some(1) => Some(LayerRotary::Global),
        _ => None,
    };
    let list = list.as_array().filter(|l| l.len() == windows.len());
    list.and_then(|l| l.iter().map(one).collect()).ok_or_else(|| {
        bad(format!("`no_rope_layers` is not a list of {} zeros and ones", windows.len()))
            .at(Place::Pointer("/no_rope_layers".into()))
    })
}

/// Returns the rotary positions of each layer for files that have no list of them.
pub(crate) fn default_rotary(family: &Family, windows: &[Option<usize>]) -> Vec<LayerRotary> {
    match family.rotary_layers {
        RotaryLayers::All => vec![LayerRotary::Global; windows.len()],
        RotaryLayers::TwoBases => windows
            .iter()
            .map(|w| if w.is_some() { LayerRotary::Local } else { LayerRotary::Global })
            .collect(),
        RotaryLayers::AllBut(n) => all_but(n, windows.len()),
    }
}

/// Returns rotary positions for all layers except each n-th.
fn all_but(n: usize, layers: usize) -> Vec<LayerRotary> {
    let one = |i: usize| if (i + 1).is_multiple_of(n) { LayerRotary::None } else { LayerRotary::Global };
    (0..layers).map(one).collect()
}
