//! How long a draft may get.
//!
//! A further row costs `b` of a plain forward and is of use only if everything before it in the draft
//! is accepted. With the estimated acceptance rates of the sources so far, the row is worth its cost
//! while that probability is above `b` times the tokens per cost reached (Leviathan et al. 2023,
//! section 3, for rows of unequal worth). The gate looks at costs and the past only, never at the
//! outcome, so it changes the time and not the text.

use super::Source;
use crate::model::CostTable;

/// How quickly the estimates follow.
const RATE: f64 = 0.08;

/// Estimates and costs of one generation.
#[derive(Debug, Clone)]
pub struct Gate {
    accept: [f64; 3],
    /// Cost of a further row, as a fraction of a forward over one token.
    row: f64,
    /// Cost of a token of the draft model, likewise.
    draft: f64,
    /// No draft is longer.
    max: usize,
}

impl Gate {
    /// A gate from the measured costs of the target and, if there is one, the draft model.
    pub fn new(target: &CostTable, draft: Option<&CostTable>, max: usize) -> Self {
        let one = target.ms(1).max(1e-6);
        let row = ((target.ms(16) - target.ms(1)) / 15.0 / one).clamp(0.0, 1.0);
        let draft = draft.map_or(0.0, |d| d.ms(1) / one);
        Gate { accept: [0.95, 0.6, 0.8], row, draft, max }
    }

    /// A gate that lets every draft grow to `max`, whatever it costs: for tests.
    pub fn open(max: usize) -> Self {
        Gate { accept: [1.0; 3], row: 0.0, draft: 0.0, max }
    }

    /// Longest draft.
    pub fn max(&self) -> usize {
        self.max
    }

    /// The estimated probability that a proposal of this source is accepted.
    pub fn rate(&self, source: Source) -> f64 {
        self.accept[source as usize]
    }

    /// Whether a proposal of `source` is worth its cost behind others that survive with probability
    /// `survival`.
    pub fn admits(&self, source: Source, survival: f64) -> bool {
        let cost = self.row + if source == Source::Model { self.draft } else { 0.0 };
        survival * self.rate(source) > cost
    }

    /// Learns from a verified proposal.
    pub fn learn(&mut self, source: Source, accepted: bool) {
        let rate = &mut self.accept[source as usize];
        *rate += RATE * (f64::from(accepted) - *rate);
        // Never so low that the source is not tried again when a row is nearly free.
        *rate = rate.max(0.05);
    }
}
