//! How long a draft may get.
//!
//! A further row costs a fraction of a plain forward and saves one if it and everything before it in
//! the draft is accepted; so a proposal is admitted while its estimated survival is above its cost
//! (Leviathan et al. 2023, section 3, for rows of unequal worth). Costs come from the measured table at
//! that length, rates from the past of each source. The gate never looks at the outcome of the round it
//! decides about, so it changes the time and not the text. One comparison per proposal.

use super::Source;
use crate::model::CostTable;

/// How quickly the estimates follow.
const RATE: f64 = 0.08;

/// Estimates and costs of one generation.
#[derive(Debug, Clone)]
pub struct Gate {
    accept: [f64; 3],
    /// Cost of the row behind so many proposals, as a fraction of a forward over one token. As long as
    /// the longest draft.
    rows: Vec<f64>,
    /// Cost of a token of the draft model, likewise.
    draft: f64,
    /// Whether costs count.
    open: bool,
}

/// Most that a row, and a token of the draft model, is taken to cost. A table measured on a busy
/// machine exaggerates; where rows really cost more than this (small models, whose forwards are bound
/// by arithmetic), the time hardly depends on the bound: drafting pays for itself only just.
const MAX_ROW: f64 = 0.25;
const MAX_DRAFT: f64 = 0.2;

impl Gate {
    /// A gate from the measured costs of the target and, if there is one, the draft model.
    pub fn new(target: &CostTable, draft: Option<&CostTable>, max: usize) -> Self {
        let one = target.ms(1).max(1e-6);
        let row = |n: usize| ((target.ms(n + 2) - target.ms(n + 1)) / one).clamp(0.0, MAX_ROW);
        let draft = draft.map_or(0.0, |d| (d.ms(1) / one).min(MAX_DRAFT));
        Gate { accept: [0.95, 0.6, 0.8], rows: (0..max).map(row).collect(), draft, open: false }
    }

    /// Takes the costs of a forward in which `sequences` take part that draft alike: a row then costs what
    /// it adds to the forward of all, against the share of one sequence in a forward without drafts. With
    /// many sequences a forward is bound by arithmetic and drafts are worth less.
    pub fn in_company(&mut self, target: &CostTable, draft: Option<&CostTable>, sequences: usize) {
        if self.open {
            return;
        }
        let n = sequences;
        if n < 2 {
            let accept = self.accept;
            *self = Gate { accept, ..Gate::new(target, draft, self.max()) };
            return;
        }
        let plain = target.ms(n).max(1e-6);
        for (i, row) in self.rows.iter_mut().enumerate() {
            *row = ((target.ms(n * (i + 2)) - target.ms(n * (i + 1))) / plain).max(0.0);
        }
        self.draft = draft.map_or(0.0, |d| d.ms(n) / plain);
    }

    /// A gate that lets every draft grow to `max`, whatever it costs: for tests.
    pub fn open(max: usize) -> Self {
        Gate { accept: [1.0; 3], rows: vec![0.0; max], draft: 0.0, open: true }
    }

    /// Longest draft.
    pub fn max(&self) -> usize {
        self.rows.len()
    }

    /// The estimated probability that a proposal of this source is accepted.
    pub fn rate(&self, source: Source) -> f64 {
        self.accept[source as usize]
    }

    /// Whether a proposal of `source` is worth its cost behind `drafted` others that all survive with
    /// probability `survival`.
    pub fn admits(&self, source: Source, survival: f64, drafted: usize) -> bool {
        let Some(row) = self.rows.get(drafted) else { return false };
        let cost = row + if source == Source::Model { self.draft } else { 0.0 };
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
