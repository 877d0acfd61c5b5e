//! The states of recurrent layers, which hold all positions in a fixed number of elements.
//!
//! A state cannot be cut back, but verifying drafts and shared prefixes need that. Each layer has the
//! state at an earlier position, its base, and what it read of each position from there on. A state
//! between base and end is computed again from these, without the weights, and with the same bits. The
//! base follows the end, at a distance that covers drafts; a draft moves it to its start. Former bases are kept as checkpoints. From
//! the last one before a position, or from the start, the model runs the tokens again.
//!
//! # Cost
//!
//! Memory is bounded, apart from the tokens: two states, [`MOST_CHECKPOINTS`] checkpoints, and the inputs
//! of a few times [`REACH`] positions. Moving the base copies a state once in [`NEAR`] positions.
//!
//! # Alternatives considered
//!
//! A copy of the state at each position of a draft was rejected: in a delta net the state of a layer is
//! dozens of times as large as what it reads of a position.

use crate::model::config::{Mixer, ModelConfig};
use crate::vocab::TokenId;

/// Number of positions that can be cut off without running the model again; of a longer forward its
/// last ones.
const REACH: usize = 64;
/// Distance of the base from which a draft moves it, so that a rejected draft computes few positions again.
const NEAR: usize = 32;
/// Largest number of checkpoints.
const MOST_CHECKPOINTS: usize = 4;

/// The state of one layer.
#[derive(Clone, Default)]
pub(super) struct StateLayer {
    /// `[position][width]`: what the layer read, from `taps - 1` positions before the base on.
    inputs: Vec<f32>,
    /// The state at the end; empty for layers that only read the last positions.
    end: Vec<f32>,
    /// The state at the base.
    base: Vec<f32>,
    /// True if the running forward has moved the base.
    moved: bool,
}

/// The state of all recurrent layers at a position.
#[derive(Clone)]
struct Checkpoint {
    position: usize,
    /// Inputs before the position, and the state, of each layer.
    layers: Vec<(Vec<f32>, Vec<f32>)>,
}

/// The states of all recurrent layers of a sequence.
#[derive(Clone)]
pub(super) struct RecurrentStates {
    layers: Vec<StateLayer>,
    /// Elements that a layer reads of a position, and those of its state.
    widths: (usize, usize),
    /// Number of positions that a convolution reads.
    taps: usize,
    tokens: Vec<TokenId>,
    base: usize,
    end: usize,
    /// Position to which the running forward moves the base.
    next_base: Option<usize>,
    /// True if inputs and bases are those of `base` and `end`. A forward that fails leaves them torn.
    whole: bool,
    /// True if the states at the end are computed.
    fresh: bool,
    /// Number of positions with keys and values.
    written: usize,
    checkpoints: Vec<Checkpoint>,
}

/// Returns the number of recurrent layers, if there are any, the elements that one reads of a position,
/// and those of its state.
fn shape(config: &ModelConfig) -> Option<(usize, (usize, usize))> {
    let recurrent = config.mixers.iter().filter(|m| **m != Mixer::Attention);
    let first = recurrent.clone().next()?;
    Some((recurrent.count(), config.state_widths(*first)))
}

impl RecurrentStates {
    /// Returns the empty states of a model, if it has recurrent layers.
    pub(super) fn new(config: &ModelConfig) -> Option<Self> {
        let (count, widths) = shape(config)?;
        let mut states = RecurrentStates {
            layers: vec![StateLayer::default(); count],
            widths,
            taps: config.taps,
            tokens: Vec::new(),
            base: 0,
            end: 0,
            next_base: None,
            whole: true,
            fresh: true,
            written: 0,
            checkpoints: Vec::new(),
        };
        states.back_to_checkpoint(0);
        Some(states)
    }

    /// Returns true if a cache with these states, or none, fits the model.
    pub(super) fn fit(held: Option<&RecurrentStates>, config: &ModelConfig) -> bool {
        let held = held.map(|s| ((s.layers.len(), s.widths), s.taps));
        held == shape(config).map(|shape| (shape, config.taps))
    }

    /// Returns the bytes that the states of a model take at most, apart from the tokens.
    pub(super) fn bytes_for(config: &ModelConfig) -> usize {
        shape(config).map_or(0, |(count, (width, state))| {
            let layer = (3 * REACH + config.taps) * width + (2 + MOST_CHECKPOINTS) * state;
            count.saturating_mul(layer).saturating_mul(size_of::<f32>())
        })
    }

    /// Returns the bytes of memory taken.
    pub(super) fn bytes(&self) -> usize {
        let layer = |l: &StateLayer| l.inputs.capacity() + l.end.capacity() + l.base.capacity();
        let kept = self.checkpoints.iter().flat_map(|c| &c.layers).map(|(a, b)| a.len() + b.len());
        let floats = self.layers.iter().map(layer).sum::<usize>() + kept.sum::<usize>();
        floats * size_of::<f32>() + self.tokens.capacity() * size_of::<TokenId>()
    }

    /// Returns a copy for the first `len` positions. What lies behind is left out.
    pub(super) fn prefix(&self, len: usize) -> RecurrentStates {
        let held = self.end.min(len);
        let whole = self.whole && self.base <= held;
        let fresh = whole && self.fresh && self.end == held;
        let rows = self.taps - 1 + held.saturating_sub(self.base);
        let layer = |l: &StateLayer| StateLayer {
            inputs: l.inputs[..rows * self.widths.0].to_vec(),
            end: if fresh { l.end.clone() } else { Vec::new() },
            base: l.base.clone(),
            moved: false,
        };
        let count = self.layers.len();
        RecurrentStates {
            layers: if whole {
                self.layers.iter().map(layer).collect()
            } else {
                vec![StateLayer::default(); count]
            },
            tokens: self.tokens[..len.min(self.tokens.len())].to_vec(),
            end: held,
            whole,
            fresh,
            written: self.written.min(len),
            checkpoints: self.checkpoints.iter().filter(|c| c.position <= len).cloned().collect(),
            ..*self
        }
    }

    /// Returns true if the states are those of `len` positions.
    pub(super) fn are_at(&self, len: usize) -> bool {
        self.whole && self.fresh && self.end == len && self.written >= len
    }

    /// Goes back to `len` positions if these lie between base and end. The states of the end must then
    /// be computed by [`again`](Self::again) for each layer. Returns the number of positions from the base
    /// on, or nothing if they lie elsewhere.
    pub(super) fn back_to(&mut self, len: usize) -> Option<usize> {
        if !self.whole || !(self.base..=self.end).contains(&len) || self.written < len {
            return None;
        }
        let inputs = (len - self.base + self.taps - 1) * self.widths.0;
        for layer in &mut self.layers {
            layer.inputs.truncate(inputs);
            layer.end.clone_from(&layer.base);
        }
        (self.end, self.fresh) = (len, true);
        Some(len - self.base)
    }

    /// Calls `step` with the inputs of each position from the base on, and with the state, which begins
    /// as that of the base.
    pub(super) fn again(&mut self, layer: usize, mut step: impl FnMut(&[f32], &mut [f32])) {
        let layer = &mut self.layers[layer];
        for rows in layer.inputs.windows(self.taps * self.widths.0).step_by(self.widths.0) {
            step(rows, &mut layer.end);
        }
    }

    /// Goes back to the last checkpoint before `len` positions, or to the start. Returns the tokens
    /// from there up to `len`, with the position of the first.
    pub(super) fn back_to_checkpoint(&mut self, len: usize) -> (usize, Vec<TokenId>) {
        let most = len.min(self.written);
        self.checkpoints.retain(|c| c.position <= most);
        let (position, layers) = match self.checkpoints.last() {
            Some(c) => (c.position, c.layers.clone()),
            None => {
                let zeros = (vec![0.0; (self.taps - 1) * self.widths.0], vec![0.0; self.widths.1]);
                (0, vec![zeros; self.layers.len()])
            }
        };
        let layer = |(inputs, base): (Vec<f32>, Vec<f32>)| StateLayer {
            inputs,
            end: base.clone(),
            base,
            moved: false,
        };
        self.layers = layers.into_iter().map(layer).collect();
        (self.base, self.end, self.written) = (position, position, position);
        (self.whole, self.fresh) = (true, true);
        (position, self.tokens.get(position..len).unwrap_or_default().to_vec())
    }

    /// Begins a forward over `rows` more positions.
    pub(super) fn begin(&mut self, rows: usize) {
        self.tokens.truncate(self.end);
        let end = self.end + rows;
        let before_draft = rows > 1 && self.end - self.base > NEAR;
        let moves = before_draft || end - self.base > 2 * REACH;
        self.next_base = moves.then(|| self.end.max(end.saturating_sub(REACH)));
        if self.next_base.is_some() && self.base > 0 {
            self.keep_base();
        }
        self.layers.iter_mut().for_each(|layer| layer.moved = false);
        (self.whole, self.written) = (false, self.end);
    }

    /// Makes the base a checkpoint. Of too many the one goes without which the largest distance is
    /// smallest.
    fn keep_base(&mut self) {
        if self.checkpoints.last().is_some_and(|c| c.position >= self.base) {
            return;
        }
        let before = (self.taps - 1) * self.widths.0;
        let layers = self.layers.iter().map(|l| (l.inputs[..before].to_vec(), l.base.clone())).collect();
        self.checkpoints.push(Checkpoint { position: self.base, layers });
        if self.checkpoints.len() > MOST_CHECKPOINTS {
            let at = |i: usize| self.checkpoints.get(i).map_or(self.end, |c| c.position);
            let gap = |i: &usize| at(*i + 1) - i.checked_sub(1).map_or(0, at);
            let least = (0..self.checkpoints.len()).min_by_key(gap);
            least.map(|i| self.checkpoints.remove(i));
        }
    }

    /// Appends what a layer reads of a position. Returns what a convolution reads, and the state, which
    /// the caller moves to this position.
    pub(super) fn push(&mut self, layer: usize, input: impl Iterator<Item = f32>) -> (&[f32], &mut [f32]) {
        let (width, before) = (self.widths.0, (self.taps - 1) * self.widths.0);
        let layer = &mut self.layers[layer];
        let held = self.next_base.map(|next| (next - self.base) * width + before);
        if held == Some(layer.inputs.len()) && !layer.moved {
            layer.moved = true;
            // A copy, which frees the memory of a long forward.
            layer.inputs = layer.inputs.split_off(layer.inputs.len() - before);
            layer.base.clone_from(&layer.end);
        }
        layer.inputs.extend(input);
        let from = layer.inputs.len() - before - width;
        (&layer.inputs[from..], &mut layer.end)
    }

    /// Ends a forward over these tokens.
    pub(super) fn finish(&mut self, tokens: &[TokenId]) {
        self.tokens.extend(tokens);
        self.end += tokens.len();
        self.base = self.next_base.take().unwrap_or(self.base);
        (self.whole, self.fresh, self.written) = (true, true, self.end);
        let most = (3 * REACH + self.taps) * self.widths.0;
        self.layers.iter_mut().for_each(|l| l.inputs.shrink_to(most));
    }

    /// Makes the states those of `len` unknown positions. For measuring.
    pub(super) fn set_len_for_timing(&mut self, len: usize) {
        self.checkpoints.clear();
        self.back_to_checkpoint(0);
        self.tokens = vec![0; len];
        (self.base, self.end, self.written) = (len, len, len);
    }
}

#[cfg(test)]
mod tests {
    use ffwd_testkit::random::Random;

    use super::*;

    #[test]
    fn a_rejected_draft_computes_few_positions_again() {
        let json = r#"{"architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "vocab_size": 9,
            "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
            "num_key_value_heads": 1, "max_position_embeddings": 99, "norm_eps": 1e-5,
            "layer_types": ["conv", "full_attention"]}"#;
        let mut states = RecurrentStates::new(&ModelConfig::from_json(json.as_bytes()).unwrap()).unwrap();
        let mut random = Random::new(3);
        for _ in 0..2000 {
            // A token, a draft, or a prompt.
            let rows = [1, 1, 1, 1, 1, 1, 2 + random.below(30), 100][random.below(8)];
            let before = states.end;
            states.begin(rows);
            for _ in 0..rows {
                states.push(0, std::iter::repeat_n(0.0, 8));
            }
            states.finish(&vec![0; rows]);
            if (2..=REACH).contains(&rows) {
                let at = before + random.below(rows + 1);
                let again = states.back_to(at).expect("the draft is in reach");
                assert!(again <= NEAR + rows, "{again} positions for a draft of {rows}");
            }
        }
    }
}
