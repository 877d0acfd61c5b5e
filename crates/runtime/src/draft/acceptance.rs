//! Acceptance rates: how often the target accepts proposals, by source and position in the output.
//!
//! A rate is the mean of a Beta distribution. Its prior is the rate one level up. The levels are:
//! all proposals of the source, those in the same region, those of the same kind as well, and those
//! under the same key as well. So a key with few observations takes the rate of similar
//! proposals, and a key with many has its own. Observations decay with further observations and
//! with further rounds, so a source that failed long ago is tried again.
//!
//! # Cost
//!
//! An estimate and an observation cost four lookups each. The number of keys is bounded.
//!
//! # Alternatives considered
//!
//! A table by the automaton's configurations was rejected. Their numbers mean nothing in the next
//! generation of the same grammar when it runs on other tables. Fields with the same name in other
//! grammars behave the same way, too.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::cost_trust::CostTrust;
use super::sources::{DraftSource, ProposalKind};
use crate::model::CostTable;

/// The region of the output in which a proposal lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputRegion {
    /// Between the strings of a JSON text, or anywhere under another constraint.
    Structure,
    /// A string has just opened.
    Opening,
    /// Inside a string.
    String,
    /// No constraint.
    Free,
}

const CLASSES: usize = 4;

/// The position of a proposal in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProposalContext {
    /// The region of the output.
    pub class: OutputRegion,
    /// Identifies the last key of the structure; 0 if there is none.
    pub key: u32,
}

impl ProposalContext {
    /// A position outside of all structure.
    pub const FREE: ProposalContext = ProposalContext { class: OutputRegion::Free, key: 0 };
}

/// Number of observations that the prior of the level above counts for.
const PRIOR_WEIGHT: f32 = 6.0;
/// Weight that a cell's observations keep after one more observation.
const DECAY_PER_OBSERVATION: f32 = 1.0 - 1.0 / 64.0;
/// Weight that a cell's observations keep after one round.
const DECAY_PER_ROUND: f32 = 1.0 - 1.0 / 512.0;
/// Powers of [`DECAY_PER_ROUND`] from 0 on. Most observations are that young, and an estimate needs
/// four powers.
const DECAY_POWERS: [f32; 128] = {
    let mut rests = [1.0; 128];
    let mut i = 1;
    while i < rests.len() {
        rests[i] = rests[i - 1] * DECAY_PER_ROUND;
        i += 1;
    }
    rests
};
/// Maximum number of keys kept.
const MOST_KEYS: usize = 1024;
const SOURCES: usize = DraftSource::ALL.len();
/// Lowest estimate. It keeps a source from being excluded for good where a verified row is nearly
/// free.
const MIN_RATE: f32 = 0.02;

/// Counts with decay.
#[derive(Debug, Clone, Copy, Default)]
struct RateCell {
    accepted: f32,
    seen: f32,
    round: u32,
}

impl RateCell {
    /// Returns the counts with their decay up to `round`.
    fn at(&self, round: u32) -> RateCell {
        // A shared table may be of any age relative to this one.
        let age = round.saturating_sub(self.round).min(1 << 16);
        let rest =
            DECAY_POWERS.get(age as usize).copied().unwrap_or_else(|| DECAY_PER_ROUND.powi(age as i32));
        RateCell { accepted: self.accepted * rest, seen: self.seen * rest, round }
    }

    fn mean(&self, round: u32, above: f32) -> f32 {
        let cell = self.at(round);
        (cell.accepted + PRIOR_WEIGHT * above) / (cell.seen + PRIOR_WEIGHT)
    }

    fn add(&mut self, round: u32, accepted: bool) {
        let cell = self.at(round);
        self.accepted = cell.accepted * DECAY_PER_OBSERVATION + f32::from(u8::from(accepted));
        self.seen = cell.seen * DECAY_PER_OBSERVATION + 1.0;
        self.round = round;
    }
}

/// The model that ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelRole {
    Target,
    Draft,
}

/// An observation: the kind of a proposal, its context, and true if the target accepted.
pub(crate) type Observation = (ProposalKind, ProposalContext, bool);

/// Statistics of one engine's drafts. Each generation works on a copy; its observations are added
/// to the original when it ends.
#[derive(Debug, Clone, Default)]
pub struct AcceptanceRates {
    sources: [RateCell; SOURCES],
    classes: [[RateCell; CLASSES]; SOURCES],
    kinds: [[RateCell; CLASSES]; ProposalKind::SLOTS],
    keys: FxHashMap<(ProposalKind, ProposalContext), RateCell>,
    round: u32,
    /// Lengths of outputs in tokens: sum and number, with decay.
    length: (f32, f32),
    /// Rounds without the draft model, without and with a text to copy from: their cost in forwards
    /// over one token, and the tokens expected of them, with decay.
    without: [(f32, f32); 2],
    /// Costs of forwards of target and draft model during generation.
    costs: [Option<CostTable>; 2],
    /// Trust in these costs.
    trust: [CostTrust; 2],
}

impl AcceptanceRates {
    /// Returns the probability that a proposal of this kind is accepted here, given that those
    /// before it are.
    pub fn rate(&self, kind: ProposalKind, context: ProposalContext) -> f64 {
        let (source, class) = (kind.source(), context.class as usize);
        let rate = self.sources[source as usize].mean(self.round, source.prior());
        let rate = self.classes[source as usize][class].mean(self.round, rate);
        let rate = self.kinds[kind.slot()][class].mean(self.round, rate);
        let rate = self.keys.get(&(kind, context)).map_or(rate, |cell| cell.mean(self.round, rate));
        f64::from(rate.clamp(MIN_RATE, 1.0))
    }

    /// Adds the outcome of a verified proposal.
    pub(crate) fn learn(&mut self, (kind, context, accepted): Observation) {
        let (source, class, round) = (kind.source() as usize, context.class as usize, self.round);
        self.sources[source].add(round, accepted);
        self.classes[source][class].add(round, accepted);
        self.learn_kind(kind, context, accepted);
        if let Some(kind) = kind.before_call() {
            self.learn_kind(kind, context, accepted);
        }
    }

    fn learn_kind(&mut self, kind: ProposalKind, context: ProposalContext, accepted: bool) {
        let round = self.round;
        self.kinds[kind.slot()][context.class as usize].add(round, accepted);
        // Keys beyond the limit use the rate of the level above.
        if context.key != 0 && (self.keys.len() < MOST_KEYS || self.keys.contains_key(&(kind, context))) {
            self.keys.entry((kind, context)).or_default().add(round, accepted);
        }
    }

    /// Starts a round, a forward of the target: all observations become a little older.
    pub(crate) fn next_round(&mut self) {
        self.round = self.round.saturating_add(1);
    }

    /// Adds the observations of a finished generation.
    pub(crate) fn finish(&mut self, rounds: usize, observations: &[Observation], tokens: usize) {
        self.round = self.round.saturating_add(u32::try_from(rounds).unwrap_or(u32::MAX));
        if self.keys.len() >= MOST_KEYS {
            // Makes room for other keys. Keys still in use come back.
            let round = self.round;
            self.keys.retain(|_, cell| cell.at(round).seen >= 1.0);
            if self.keys.len() >= MOST_KEYS {
                self.keys.clear();
            }
        }
        observations.iter().for_each(|o| self.learn(*o));
        self.length = (
            self.length.0 * DECAY_PER_OBSERVATION + tokens as f32,
            self.length.1 * DECAY_PER_OBSERVATION + 1.0,
        );
    }

    /// Adds a round without the draft model: its cost in forwards over one token, and the tokens
    /// expected of it. `copies` is true if there is a text to copy from.
    pub(crate) fn without_model(&mut self, copies: bool, forwards: f64, tokens: f64) {
        let (cost, sum) = &mut self.without[usize::from(copies)];
        *cost = *cost * DECAY_PER_OBSERVATION + forwards as f32;
        *sum = *sum * DECAY_PER_OBSERVATION + tokens as f32;
    }

    /// Returns the cost of a token without the draft model, in forwards over one token.
    ///
    /// For the first output this is the cost of plain decoding, so a single output does not wait
    /// for observations. Later it is an optimistic value until there are enough observations.
    pub(crate) fn cost_without_model(&self, copies: bool) -> f64 {
        /// Number of tokens that is enough to judge.
        const ENOUGH: f32 = 24.0;
        /// The optimistic value: three tokens a forward, and a little for their rows.
        const HOPED: f64 = 0.3;
        let (cost, sum) = self.without[usize::from(copies)];
        match self.length.1 > 0.0 && sum < ENOUGH {
            true => HOPED,
            false => f64::from((cost + PRIOR_WEIGHT) / (sum + PRIOR_WEIGHT)),
        }
    }

    /// Sets the measured costs where none are known yet.
    pub(crate) fn measured(&mut self, target: &CostTable, draft: Option<&CostTable>) {
        self.costs(ModelRole::Target, target);
        if let Some(draft) = draft {
            self.costs(ModelRole::Draft, draft);
        }
    }

    /// Returns the costs of a model's forwards, starting from `measured` where there are none, and
    /// the trust in the costs of both models.
    pub(crate) fn costs(
        &mut self,
        of: ModelRole,
        measured: &CostTable,
    ) -> (&mut CostTable, &mut [CostTrust; 2]) {
        let costs = self.costs[of as usize].get_or_insert_with(|| measured.clone());
        (costs, &mut self.trust)
    }

    /// Returns the trust in the costs of target and draft model.
    pub(crate) fn trust(&self) -> [CostTrust; 2] {
        self.trust
    }

    /// Returns the expected number of tokens of an output.
    pub(crate) fn length(&self) -> f64 {
        /// Without any output: the assumed sum of tokens and number of outputs.
        const FIRST: (f32, f32) = (48.0, 1.0);
        f64::from((self.length.0 + FIRST.0) / (self.length.1 + FIRST.1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::sources::{CopyKind, ForcedKind, ModelKind};
    use super::*;

    const FORCED: ProposalKind = ProposalKind::Forced(ForcedKind::First);
    const MODEL: ProposalKind = ProposalKind::Model(ModelKind::LeadBelow05);
    const FIRST: ProposalKind = ProposalKind::Lookup(CopyKind::First);
    const FURTHER: ProposalKind = ProposalKind::Lookup(CopyKind::Further);

    fn at(class: OutputRegion, key: u32) -> ProposalContext {
        ProposalContext { class, key }
    }

    #[test]
    fn each_kind_has_a_slot_of_its_own() {
        let kinds = [
            FORCED,
            ProposalKind::Forced(ForcedKind::ChosenElsewhere),
            ProposalKind::Lookup(CopyKind::AfterLabel),
            ProposalKind::Lookup(CopyKind::Read),
            MODEL,
            ProposalKind::Model(ModelKind::BeforeCall),
        ];
        let slots: std::collections::BTreeSet<usize> = kinds.iter().map(|kind| kind.slot()).collect();
        assert!(slots.len() == kinds.len() && slots.iter().all(|slot| *slot < ProposalKind::SLOTS));
        assert_eq!(kinds.map(|kind| kind.source() as usize), [0, 0, 1, 1, 2, 2]);
        assert_eq!(kinds[5].label(), "before it is asked");
    }

    #[test]
    fn a_place_that_was_not_seen_takes_the_rate_above_it() {
        let mut e = AcceptanceRates::default();
        let (seen, elsewhere) = (at(OutputRegion::String, 7), at(OutputRegion::String, 8));
        let prior = |kind: ProposalKind| f64::from(kind.source().prior());
        assert_eq!(e.rate(FIRST, seen), prior(FIRST));
        (0..200).for_each(|_| e.learn((FIRST, seen, true)));
        // Each level has the same observations, so each is closer to them.
        assert!(e.rate(FIRST, seen) > e.rate(FIRST, elsewhere));
        assert!(e.rate(FIRST, elsewhere) > e.rate(FURTHER, elsewhere));
        assert!(e.rate(FURTHER, elsewhere) > e.rate(FIRST, at(OutputRegion::Opening, 7)));
        assert!(e.rate(FIRST, at(OutputRegion::Opening, 7)) > prior(FIRST));
        assert!((e.rate(FORCED, seen) - prior(FORCED)).abs() < 1e-6, "of another source");
    }

    #[test]
    fn rates_are_those_of_beta_distributions() {
        let mut e = AcceptanceRates::default();
        let s = at(OutputRegion::Structure, 0);
        for accepted in [true, false, true] {
            e.learn((FORCED, s, accepted));
        }
        let (mut sum, mut n) = (0.0, 0.0);
        for accepted in [1.0, 0.0, 1.0] {
            (sum, n) = (sum * DECAY_PER_OBSERVATION + accepted, n * DECAY_PER_OBSERVATION + 1.0);
        }
        let level = |above: f32| (sum + PRIOR_WEIGHT * above) / (n + PRIOR_WEIGHT);
        let want = f64::from(level(level(level(DraftSource::Forced.prior()))));
        assert!((e.rate(FORCED, s) - want).abs() < 1e-6);
    }

    #[test]
    fn failures_are_forgotten_in_time() {
        let mut e = AcceptanceRates::default();
        let s = at(OutputRegion::Structure, 3);
        (0..50).for_each(|_| e.learn((FORCED, s, false)));
        let bad = e.rate(FORCED, s);
        assert!(bad < 0.1);
        (0..4000).for_each(|_| e.next_round());
        assert!(e.rate(FORCED, s) > 0.8);
    }

    #[test]
    fn memory_is_bounded() {
        let mut e = AcceptanceRates::default();
        for key in 1..5000 {
            e.finish(1, &[(MODEL, at(OutputRegion::String, key), true)], 1);
            assert!(e.keys.len() <= MOST_KEYS + 1);
        }
    }
}
