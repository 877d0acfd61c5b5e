//! Costs of forwards from sizes, corrected by the forwards that happen.
//!
//! A forward over m tokens reads the weights once, which takes `reading`, and multiplies them m
//! times, which takes m times `row`. Both overlap. The root of the sum of the squares describes
//! that: it is the larger one where they are far apart, and somewhat more where they are equal.
//! Both numbers begin as estimates from sizes and from guesses about the processor. The first
//! forward that depends on one of them sets it. If the other is not known by then, it changes by
//! the same factor: a processor that multiplies slower than guessed probably reads slower, too.
//! Reading a prompt reveals `row`, the forwards after it reveal `reading`.
//!
//! # Cost
//!
//! A few multiplications for each forward.
//!
//! # Alternatives considered
//!
//! Measuring forwards before the first generation was rejected: with a large model it takes as long
//! as loading it, and a generation without drafts does not need the costs.

use super::kernels::has_wide_vectors;
use crate::model::config::ModelConfig;

/// Bytes of weights that a thread reads in a millisecond, from memory and from the caches.
const READ: [f64; 2] = [12e6, 30e6];
/// Number of threads that read weights from memory as fast as all of them.
const MEMORY_THREADS: f64 = 6.0;
/// Bytes of weights that the caches of a processor hold, or nearly so.
const SMALL: usize = 32 << 20;
/// Multiplications of a thread in a millisecond, with 8-bit numbers and in single precision, if
/// vectors are wide. Otherwise a [`NARROW`]th of it.
const MULTIPLIED: [f64; 2] = [160e6, 50e6];
const NARROW: f64 = 3.0;
/// Milliseconds of a layer, whatever its size.
const LAYER_MS: f64 = 0.01;
/// Number of bytes of a weight from which products are in single precision.
const SINGLE: f64 = 2.5;
/// Numbers of tokens up to which reading dominates, and from which products do, whatever the model.
const FEW: usize = 2;
const MANY: usize = 32;
/// Largest and smallest relative steps by which an observed forward moves a number that is known.
const STEPS: [f64; 2] = [0.25, 0.02];
/// The law is replaced by its points after this number of forwards that depend on `reading`.
const SETTLED: u32 = 16;

/// Multiplications of an element of the state of a delta net for a row, on one thread.
const STATE_STEPS: usize = 4;

/// The two numbers, with the forwards seen.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CostLaw {
    /// Milliseconds for reading the weights, and for the products of a row.
    numbers: [f64; 2],
    /// Number of forwards that depended on each of the numbers.
    seen: [u32; 2],
    /// Share of a row that the logits take.
    logits: f64,
}

impl CostLaw {
    /// Returns the estimate for a model whose weights take `bytes`, on this number of threads.
    pub(super) fn of(config: &ModelConfig, bytes: usize, threads: usize) -> Self {
        let c = config;
        let head = (c.hidden * c.vocab_size) as f64;
        let [products, weights] = multiplied(c).map(|layers| layers + head);
        let single = usize::from(bytes as f64 > SINGLE * weights);
        let threads = threads.max(1) as f64;
        let speed = threads / if has_wide_vectors() { 1.0 } else { NARROW };
        let small = usize::from(bytes <= SMALL);
        let readers = if small == 1 { threads } else { threads.min(MEMORY_THREADS) };
        let reading = bytes as f64 / (READ[small] * readers) + c.layers as f64 * LAYER_MS;
        let recurrent = c.layers - c.attention_layers();
        let state = c.mixers.iter().map(|m| c.state_widths(*m).1).max().unwrap_or(0);
        let steps = (STATE_STEPS * recurrent * state) as f64 * threads / (MULTIPLIED[1] * speed);
        let row = products / (MULTIPLIED[single] * speed) + steps;
        CostLaw { numbers: [reading, row], seen: [0; 2], logits: head / products.max(1.0) }
    }

    /// Returns the estimated milliseconds that a cached position adds to a row.
    pub(super) fn cached(config: &ModelConfig) -> f64 {
        let products = 2 * config.attention_layers() * config.q_dim();
        products as f64 / (MULTIPLIED[1] / if has_wide_vectors() { 1.0 } else { NARROW })
    }

    /// Returns the milliseconds of a forward over `m` tokens with logits for all.
    pub(super) fn ms(&self, m: usize) -> f64 {
        let [reading, row] = self.numbers;
        reading.hypot(m as f64 * row)
    }

    /// Learns from a forward over `m` tokens, at least one. If `prompt` is true, only the last has
    /// logits. `ms` is without the time of cached positions.
    pub(super) fn observe(&mut self, m: usize, prompt: bool, ms: f64) {
        let rows = m as f64 * if prompt { 1.0 - self.logits * (m - 1) as f64 / m as f64 } else { 1.0 };
        let parts = [self.numbers[0], rows * self.numbers[1]];
        let which = match m {
            ..=FEW => 0,
            MANY.. => 1,
            _ => usize::from(parts[1] > parts[0]),
        };
        let of = [1.0, rows][which];
        let other = if self.seen[1 - which] > 0 { parts[1 - which] } else { 0.0 };
        // The part that is not the other one. Much less than that has another reason.
        let rest = (ms * ms - other * other).max(0.0).sqrt().max(ms / 4.0) / of.max(1e-9);
        // Also if it is not a number.
        if rest.is_nan() || rest <= 0.0 {
            return;
        }
        let seen = self.seen[which];
        self.seen[which] += 1;
        if seen > 0 {
            let step = (STEPS[0] / f64::from(seen)).max(STEPS[1]);
            self.numbers[which] *= if rest > self.numbers[which] { 1.0 + step } else { 1.0 / (1.0 + step) };
            return;
        }
        let factor = rest / self.numbers[which].max(1e-9);
        self.numbers[which] = rest;
        if self.seen[1 - which] == 0 {
            self.numbers[1 - which] *= factor;
        }
    }

    /// Returns true if enough was seen that sizes may be corrected one by one.
    pub(super) fn is_settled(&self) -> bool {
        self.seen[0] >= SETTLED
    }
}

/// Returns the number of weights of all layers that multiply a row, and of all weights.
fn multiplied(config: &ModelConfig) -> [f64; 2] {
    let [used, count] = config.experts.as_ref().map_or([1, 1], |e| [e.used, e.count]);
    let layer = |i: usize| {
        let sizes = config.projections(i).map(|(parts, inputs)| {
            let outputs: usize = parts.iter().map(|(_, outputs)| outputs).sum();
            (outputs * inputs) as f64
        });
        [used, count].map(|n| sizes[0] + sizes[1] + n as f64 * (sizes[2] + sizes[3]))
    };
    (0..config.layers).map(layer).fold([0.0; 2], |sum, layer| [sum[0] + layer[0], sum[1] + layer[1]])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn law(reading: f64, row: f64) -> CostLaw {
        CostLaw { numbers: [reading, row], seen: [0; 2], logits: 0.25 }
    }

    #[test]
    fn forwards_of_a_generation_reveal_both_numbers() {
        for (reading, row) in [(40.0, 2.0), (0.2, 0.03), (900.0, 10.0), (5.0, 5.0)] {
            for (guess, other) in [(1.0, 1.0), (8.0, 0.3), (0.1, 4.0), (0.05, 0.05)] {
                let mut got = law(reading * guess, row * other);
                let truth = law(reading, row);
                // A prompt of 200 tokens, of which one has logits, and rounds of drafts.
                got.observe(200, true, reading.hypot(row * (0.75 * 200.0 + 0.25)));
                for i in 0..40 {
                    let m = [1, 3, 2, 6, 1, 9][i % 6];
                    // One in seven is four times as long.
                    got.observe(m, false, truth.ms(m) * if i % 7 == 3 { 4.0 } else { 1.0 });
                }
                for m in [1, 2, 4, 8, 24] {
                    let off = got.ms(m) / truth.ms(m);
                    assert!(
                        (0.75..1.35).contains(&off),
                        "{reading} {row} {guess} {other}, {m}: {off} {got:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_first_forward_scales_what_is_not_known() {
        let mut got = law(10.0, 1.0);
        got.observe(1, false, 30.0);
        assert_eq!(got.numbers, [30.0, 3.0]);
        assert!(!got.is_settled());
        (0..SETTLED).for_each(|_| got.observe(1, false, 30.0));
        assert!(got.is_settled());
        let before = got.clone();
        got.observe(1, false, 0.0);
        assert_eq!(got, before);
    }

    #[test]
    fn larger_models_cost_more_and_more_threads_less() {
        let config = |layers: usize| {
            let json = format!(
                r#"{{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256,
                "num_hidden_layers": {layers}, "num_attention_heads": 4, "num_key_value_heads": 2,
                "head_dim": 64, "intermediate_size": 512, "vocab_size": 1000, "rms_norm_eps": 1e-5,
                "rope_theta": 10000.0, "max_position_embeddings": 512, "tie_word_embeddings": true}}"#
            );
            ModelConfig::from_json(json.as_bytes()).unwrap()
        };
        let (small, large) = (CostLaw::of(&config(2), 2 << 20, 1), CostLaw::of(&config(20), 20 << 20, 1));
        let shared = CostLaw::of(&config(20), 20 << 20, 4);
        for m in [1, 4, 16] {
            assert!(0.0 < small.ms(m) && small.ms(m) < large.ms(m));
            assert!(large.ms(m) <= large.ms(2 * m));
            assert!(shared.ms(m) < large.ms(m) && large.ms(m) < 4.0 * shared.ms(m));
        }
        assert!(CostLaw::cached(&config(20)) > CostLaw::cached(&config(2)));
    }
}
