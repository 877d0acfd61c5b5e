//! How often proposals are accepted, by their source and by where they stand.
//!
//! A rate is the mean of a Beta distribution whose prior is the rate one level up: all proposals of the
//! source; those at places of the same class; those of the same grade, too; those under the same key, too.
//! So a key that was seen twice says little, one that was seen often says what it knows, and a new one
//! takes what is known of its like. Observations fade, with further ones and with further rounds: what went
//! wrong long ago is tried again. An estimate and an observation are four look-ups each; the keys kept are
//! bounded. A table by the automaton's configurations was rejected: their numbers mean nothing in the next
//! generation of the same grammar when it runs on other tables, and fields of other grammars with the same
//! name behave alike.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::Source;
use super::cost_trust::CostTrust;
use crate::model::CostTable;

/// What kind of place in the output a proposal stands at.
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
/// Grades: what a source itself knows about a proposal, up to so many, and [`BEFORE_CALL`].
const GRADES: usize = 6;

/// The grade of any proposal of the draft model, before it is asked.
pub const BEFORE_CALL: u8 = 5;

/// Where a proposal stands, and what its source knows about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProposalContext {
    /// The kind of place.
    pub class: OutputRegion,
    /// Of a forced run: 0 its first token, 1 a further one, 2 its last one, 3 any that the
    /// target chose there before, 4 in a place like it. Of a copy: 0 where only the key
    /// is known, 1 the first token of another, 2 a further one, 3 what the draft model would have written,
    /// too. Of the draft model: how sure it is, from 0 to 4. Of a branch: 0 and 1 the draft model's second choice, 2
    /// one of a few ways to go on, 3 another split of a run.
    pub confidence: u8,
    /// Which key of the structure is the last one; 0 if there is none.
    pub key: u32,
}

impl ProposalContext {
    /// Outside of all structure.
    pub const FREE: ProposalContext = ProposalContext { class: OutputRegion::Free, confidence: 0, key: 0 };
}

/// Observations that the level above is worth.
const PRIOR: f32 = 6.0;
/// What is left of the observations of a cell after another one.
const DECAY_PER_OBSERVATION: f32 = 1.0 - 1.0 / 64.0;
/// What is left of them after a round.
const DECAY_PER_ROUND: f32 = 1.0 - 1.0 / 512.0;
/// The same after none, one, two rounds and so on: most observations are that young, and an estimate asks four times.
const RESTS: [f32; 128] = {
    let mut rests = [1.0; 128];
    let mut i = 1;
    while i < rests.len() {
        rests[i] = rests[i - 1] * DECAY_PER_ROUND;
        i += 1;
    }
    rests
};
/// Keys kept.
const MOST_KEYS: usize = 1024;
/// Before anything is known: forced runs, copies, draft model, branches where the draft was wrong.
const PRIOR_RATES: [f32; SOURCES] = [0.9, 0.5, 0.8, 0.4];
const SOURCES: usize = 4;
/// Lowest estimate: never so low that a source is not tried again when a row is nearly free.
const MIN_RATE: f32 = 0.02;

/// Faded counts.
#[derive(Debug, Clone, Copy, Default)]
struct Cell {
    accepted: f32,
    seen: f32,
    round: u32,
}

impl Cell {
    /// The counts as they are worth in `round`.
    fn at(&self, round: u32) -> Cell {
        // A shared table may be of any age against this one.
        let age = round.saturating_sub(self.round).min(1 << 16);
        let rest = RESTS.get(age as usize).copied().unwrap_or_else(|| DECAY_PER_ROUND.powi(age as i32));
        Cell { accepted: self.accepted * rest, seen: self.seen * rest, round }
    }

    fn mean(&self, round: u32, above: f32) -> f32 {
        let cell = self.at(round);
        (cell.accepted + PRIOR * above) / (cell.seen + PRIOR)
    }

    fn add(&mut self, round: u32, accepted: bool) {
        let cell = self.at(round);
        self.accepted = cell.accepted * DECAY_PER_OBSERVATION + f32::from(u8::from(accepted));
        self.seen = cell.seen * DECAY_PER_OBSERVATION + 1.0;
        self.round = round;
    }
}

/// Which model ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ModelRole {
    Target,
    Draft,
}

/// An observation: who proposed, where, and whether the target agreed.
pub(crate) type Observation = (Source, ProposalContext, bool);

/// What is known of one engine's drafts. A copy serves a generation, whose observations are added to the
/// original when it ends.
#[derive(Debug, Clone, Default)]
pub struct AcceptanceRates {
    sources: [Cell; SOURCES],
    classes: [[Cell; CLASSES]; SOURCES],
    grades: [[[Cell; GRADES]; CLASSES]; SOURCES],
    keys: FxHashMap<(Source, ProposalContext), Cell>,
    round: u32,
    /// Tokens of an output: sum and number, faded.
    length: (f32, f32),
    /// Rounds without the draft model, where nothing is copied and where something may be: what they cost, in forwards
    /// over one token, and the tokens that were expected of them, faded.
    without: [(f32, f32); 2],
    /// What forwards of target and draft model cost while generating.
    costs: [Option<CostTable>; 2],
    /// How far these are believed.
    doubts: [CostTrust; 2],
}

impl AcceptanceRates {
    /// The probability that a proposal of this source is accepted here, if those before it are.
    pub fn rate(&self, source: Source, state: ProposalContext) -> f64 {
        let (s, c, g) =
            (source as usize, state.class as usize, usize::from(state.confidence).min(GRADES - 1));
        let rate = self.sources[s].mean(self.round, PRIOR_RATES[s]);
        let rate = self.classes[s][c].mean(self.round, rate);
        let rate = self.grades[s][c][g].mean(self.round, rate);
        let rate = self.keys.get(&(source, state)).map_or(rate, |cell| cell.mean(self.round, rate));
        f64::from(rate.clamp(MIN_RATE, 1.0))
    }

    /// Learns from a verified proposal.
    pub(crate) fn learn(&mut self, (source, state, accepted): Observation) {
        let (s, c, g) =
            (source as usize, state.class as usize, usize::from(state.confidence).min(GRADES - 1));
        let round = self.round;
        self.sources[s].add(round, accepted);
        self.classes[s][c].add(round, accepted);
        self.at_grade(source, ProposalContext { confidence: g as u8, ..state }, accepted);
        if source == Source::Model {
            self.at_grade(source, ProposalContext { confidence: BEFORE_CALL, ..state }, accepted);
        }
    }

    fn at_grade(&mut self, source: Source, state: ProposalContext, accepted: bool) {
        let round = self.round;
        self.grades[source as usize][state.class as usize][usize::from(state.confidence)]
            .add(round, accepted);
        // Further keys are known by what is above them.
        if state.key != 0 && (self.keys.len() < MOST_KEYS || self.keys.contains_key(&(source, state))) {
            self.keys.entry((source, state)).or_default().add(round, accepted);
        }
    }

    /// A forward of the target: everything known becomes a little older.
    pub(crate) fn next_round(&mut self) {
        self.round = self.round.saturating_add(1);
    }

    /// Takes note of a finished generation.
    pub(crate) fn finish(&mut self, rounds: usize, observations: &[Observation], tokens: usize) {
        self.round = self.round.saturating_add(u32::try_from(rounds).unwrap_or(u32::MAX));
        if self.keys.len() >= MOST_KEYS {
            // Room for others; what is still met comes back.
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

    /// Takes note of a round without the draft model that costs so many forwards over one token, and of what is expected of
    /// it; `copies` says whether there is a text to copy from.
    pub(crate) fn without_model(&mut self, copies: bool, forwards: f64, tokens: f64) {
        let (cost, sum) = &mut self.without[usize::from(copies)];
        *cost = *cost * DECAY_PER_OBSERVATION + forwards as f32;
        *sum = *sum * DECAY_PER_OBSERVATION + tokens as f32;
    }

    /// What a token costs without the draft model, in forwards over one token. In the first output as in plain decoding, so that
    /// whoever asks for one only does not wait for it to be seen; then, until enough was seen, as little as may be hoped for.
    pub(crate) fn each_without_model(&self, copies: bool) -> f64 {
        /// Tokens that say enough.
        const ENOUGH: f32 = 24.0;
        /// What may be hoped for: three tokens a forward, and a little for their rows.
        const HOPED: f64 = 0.3;
        let (cost, sum) = self.without[usize::from(copies)];
        match self.length.1 > 0.0 && sum < ENOUGH {
            true => HOPED,
            false => f64::from((cost + PRIOR) / (sum + PRIOR)),
        }
    }

    /// Begins with what was measured, where nothing is known yet.
    pub(crate) fn measured(&mut self, target: &CostTable, draft: Option<&CostTable>) {
        self.costs(ModelRole::Target, target);
        if let Some(draft) = draft {
            self.costs(ModelRole::Draft, draft);
        }
    }

    /// What forwards of a model cost, where that is known better than from `measured`, and how far the costs of both
    /// models are believed.
    pub(crate) fn costs(
        &mut self,
        of: ModelRole,
        measured: &CostTable,
    ) -> (&mut CostTable, &mut [CostTrust; 2]) {
        let costs = self.costs[of as usize].get_or_insert_with(|| measured.clone());
        (costs, &mut self.doubts)
    }

    /// How far these are believed, of target and draft model.
    pub(crate) fn doubts(&self) -> [CostTrust; 2] {
        self.doubts
    }

    /// Tokens that an output is likely to have.
    pub(crate) fn length(&self) -> f64 {
        /// Before any output is known, as if this many had had so many tokens.
        const FIRST: (f32, f32) = (48.0, 1.0);
        f64::from((self.length.0 + FIRST.0) / (self.length.1 + FIRST.1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(class: OutputRegion, grade: u8, key: u32) -> ProposalContext {
        ProposalContext { class, confidence: grade, key }
    }

    #[test]
    fn a_place_that_was_not_seen_takes_the_rate_above_it() {
        let mut e = AcceptanceRates::default();
        let seen = state(OutputRegion::String, 1, 7);
        assert_eq!(e.rate(Source::Lookup, seen), f64::from(PRIOR_RATES[1]));
        (0..200).for_each(|_| e.learn((Source::Lookup, seen, true)));
        let rate = |s| e.rate(Source::Lookup, s);
        // Each level has the same observations, so each comes closer to them.
        assert!(rate(seen) > rate(state(OutputRegion::String, 1, 8)));
        assert!(rate(state(OutputRegion::String, 1, 8)) > rate(state(OutputRegion::String, 2, 8)));
        assert!(rate(state(OutputRegion::String, 2, 8)) > rate(state(OutputRegion::Opening, 1, 7)));
        assert!(rate(state(OutputRegion::Opening, 1, 7)) > f64::from(PRIOR_RATES[1]));
        assert!((e.rate(Source::Forced, seen) - f64::from(PRIOR_RATES[0])).abs() < 1e-6, "of another source");
    }

    #[test]
    fn rates_are_those_of_beta_distributions() {
        let mut e = AcceptanceRates::default();
        let s = state(OutputRegion::Structure, 0, 0);
        for accepted in [true, false, true] {
            e.learn((Source::Forced, s, accepted));
        }
        let (mut sum, mut n) = (0.0, 0.0);
        for accepted in [1.0, 0.0, 1.0] {
            (sum, n) = (sum * DECAY_PER_OBSERVATION + accepted, n * DECAY_PER_OBSERVATION + 1.0);
        }
        let level = |above: f32| (sum + PRIOR * above) / (n + PRIOR);
        let want = f64::from(level(level(level(PRIOR_RATES[0]))));
        assert!((e.rate(Source::Forced, s) - want).abs() < 1e-6);
    }

    #[test]
    fn failures_are_forgotten_in_time() {
        let mut e = AcceptanceRates::default();
        let s = state(OutputRegion::Structure, 0, 3);
        (0..50).for_each(|_| e.learn((Source::Forced, s, false)));
        let bad = e.rate(Source::Forced, s);
        assert!(bad < 0.1);
        (0..4000).for_each(|_| e.next_round());
        assert!(e.rate(Source::Forced, s) > 0.8);
    }

    #[test]
    fn memory_is_bounded() {
        let mut e = AcceptanceRates::default();
        for key in 1..5000 {
            e.finish(1, &[(Source::Model, state(OutputRegion::String, 0, key), true)], 1);
            assert!(e.keys.len() <= MOST_KEYS + 1);
        }
    }
}
