//! How long a draft may get.
//!
//! A forward over n + 1 tokens costs its first row and a little for each further one, as measured; a row
//! gives a token if its proposal and all before it are accepted, which has the probability S, the product
//! of their rates. A draft is worth T / C tokens a millisecond, T being 1 + the sum of S, C the cost of the
//! forward and of the draft model's calls. So a row is taken while S / cost of the row >= T / C: it makes
//! the round better, or it is left out (Leviathan et al. 2023, section 3, for rows of unequal worth). Of
//! several proposals at once the number is taken that makes the round best, so a first row may be paid for
//! by those behind it. The gate never looks at the outcome of the round it decides about, and changes the
//! time and not the text. Cost: a few look-ups for each proposal.

use super::acceptance::{AcceptanceRates, BEFORE_CALL, ModelRole, Observation, ProposalContext};
use super::cost_trust::{CostDecision, CostTrust, MIN_BELIEVED};
use super::gate_report::{GateReport, Tally};
use super::{Proposal, Source};
use crate::model::CostTable;

/// Milliseconds that judging a row takes before any was judged.
const JUDGING: f64 = 0.01;
/// Milliseconds that putting a row of a branch together takes, its mask included: 0.04 on the machine of the figures in
/// the documentation. It is not measured again: a fork and a look at the mask cost much the same anywhere.
const BRANCHING: f64 = 0.04;
/// How quickly that follows what is measured.
const VERIFY_TIME_SMOOTHING: f64 = 0.1;

/// Rows up to which forwards are reckoned once for a round.
const MOST_READY: usize = 32;

/// What a round is worth as far as it is drafted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundEstimate {
    /// Proposals so far.
    pub rows: usize,
    /// Probability that all of them are accepted.
    pub survival: f64,
    /// Tokens that the round gives on average.
    pub tokens: f64,
    /// Milliseconds that it takes.
    pub ms: f64,
}

/// What is considered together: a proposal that would be the next.
#[derive(Debug, Clone, Copy)]
struct Step {
    rate: f64,
    /// Milliseconds of its row.
    ms: f64,
    /// Milliseconds of the call of the draft model that it takes.
    call: f64,
}

/// A forward that was run.
#[derive(Debug, Clone, Copy)]
struct Forward {
    of: ModelRole,
    tokens: usize,
    /// Positions before them.
    cached: usize,
    ms: f64,
    /// What was decided about this model's costs in front of it.
    decided: CostDecision,
    /// Whether calls of the draft model were left out in front of it that would be worth [`MIN_BELIEVED`] of their cost.
    calls_left_out: bool,
}

/// Estimates and costs of one generation.
#[derive(Debug, Clone)]
pub struct Gate {
    estimates: AcceptanceRates,
    observed: Vec<Observation>,
    forwards: Vec<Forward>,
    /// Rounds without the draft model: whether there is a text to copy from, their cost in forwards over one token, and the
    /// tokens expected of them.
    without: Vec<(bool, f64, f64)>,
    /// What was decided since the last forward, by [`ModelRole`].
    decided: [CostDecision; 2],
    /// How far the costs are believed, by [`ModelRole`].
    doubts: [CostTrust; 2],
    rounds: usize,
    target: CostTable,
    draft: Option<CostTable>,
    /// Longest draft.
    max: usize,
    /// Sequences in a forward that draft alike.
    sequences: usize,
    /// Positions in the cache.
    cached: usize,
    /// Milliseconds of a forward of the target in this round over 0, 1, 2 and so on rows of each sequence.
    forward_ms: Vec<f64>,
    /// Milliseconds for the mask, the choice and the bookkeeping of a row.
    judging: f64,
    /// Whether costs count.
    unlimited: bool,
    /// Whether costs are what they are said to be, and nothing about time is learned.
    fixed: bool,
    report: Option<Box<GateReport>>,
}

/// Most observations that a generation hands on.
const MOST_OBSERVED: usize = 1 << 14;

impl Gate {
    /// A gate from the measured costs of the target and, if there is one, the draft model, and from what is
    /// known of earlier generations.
    pub fn new(
        target: &CostTable,
        draft: Option<&CostTable>,
        max: usize,
        mut estimates: AcceptanceRates,
    ) -> Self {
        let target = estimates.costs(ModelRole::Target, target).0.clone();
        let draft = draft.map(|draft| estimates.costs(ModelRole::Draft, draft).0.clone());
        let doubts = estimates.doubts();
        Gate {
            estimates,
            observed: Vec::new(),
            forwards: Vec::new(),
            without: Vec::new(),
            decided: Default::default(),
            doubts,
            rounds: 0,
            target,
            draft,
            max,
            sequences: 1,
            cached: 0,
            forward_ms: Vec::new(),
            judging: JUDGING,
            unlimited: false,
            fixed: false,
            report: None,
        }
    }

    /// A gate that knows nothing of this machine and learns nothing about time, so that it decides alike
    /// wherever it runs: a row costs a quarter of a forward, a call of the draft model a fifth.
    pub fn fixed(max: usize) -> Self {
        let target = CostTable::from_points([(1, 1.0), (5, 2.0)]);
        let draft = CostTable::from_points([(1, 0.2), (65, 1.0)]);
        Gate { fixed: true, ..Gate::new(&target, Some(&draft), max, AcceptanceRates::default()) }
    }

    /// A gate that lets every draft grow to `max`, whatever it costs: for tests.
    pub fn unlimited(max: usize) -> Self {
        Gate {
            unlimited: true,
            ..Gate::new(&CostTable::from_points([]), None, max, AcceptanceRates::default())
        }
    }

    /// Counts what it decides, for [`report`](Self::report).
    pub fn explain(&mut self) {
        self.report = Some(Box::default());
    }

    /// What was decided, if that was to be counted.
    pub fn report(&mut self) -> Option<GateReport> {
        let mut report = *self.report.take()?;
        report.target_ms = self.target.points().to_vec();
        report.draft_ms = self.draft.as_ref().map(|d| d.points().to_vec()).unwrap_or_default();
        report.cached_position_ms = self.target.cached();
        report.judging_ms = self.judging;
        report.costs_believed = self.believed_costs();
        report.cached = self.cached;
        report.open = self.unlimited;
        report.finish(&self.estimates);
        Some(report)
    }

    /// Reckons with so many sequences in a forward, which draft alike: a row then costs what it adds to the
    /// forward of all, and a round the share of one. With many sequences a forward is bound by
    /// arithmetic and drafts are worth less.
    pub fn set_batch_size(&mut self, sequences: usize) {
        self.sequences = sequences.max(1);
        // What was reckoned for another company no longer holds.
        self.forward_ms.clear();
    }

    /// The next round begins behind so many positions: what it is worth without a draft.
    pub fn begin(&mut self, cached: usize) -> RoundEstimate {
        self.cached = cached;
        self.estimates.next_round();
        self.rounds += 1;
        // Empty meanwhile, so that each is reckoned anew.
        let mut forward_ms = std::mem::take(&mut self.forward_ms);
        forward_ms.clear();
        forward_ms.extend((0..=self.max.min(MOST_READY) + 2).map(|rows| self.forward(rows)));
        self.forward_ms = forward_ms;
        RoundEstimate { rows: 0, survival: 1.0, tokens: 1.0, ms: self.forward(1) + self.judging }
    }

    /// Longest draft.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Milliseconds of a forward of the target over so many rows of each sequence, the share of one.
    fn forward(&self, rows: usize) -> f64 {
        let n = self.sequences;
        let ready = self.forward_ms.get(rows).copied();
        ready.unwrap_or_else(|| self.target.ms_behind(n * rows, self.cached) / n as f64)
    }

    /// What the row behind so many proposals adds.
    fn row(&self, rows: usize) -> f64 {
        (self.forward(rows + 2) - self.forward(rows + 1)).max(0.0) + self.judging
    }

    /// Milliseconds of a call of the draft model over so many tokens.
    fn call(&self, tokens: usize) -> f64 {
        let n = self.sequences;
        self.draft.as_ref().map_or(0.0, |d| d.ms_behind(n * tokens, self.cached) / n as f64)
    }

    /// Whether the draft model is worth its first call, over `prompt` tokens, in a generation of at most
    /// `left` tokens: whether what it is likely to save is more than that, against rounds as they are without it; `copies`
    /// says whether there is a text to copy from.
    pub fn starts_draft_model(&mut self, prompt: usize, left: usize, copies: bool) -> bool {
        if self.unlimited {
            return true;
        }
        let begins = |shares| self.would_begin(prompt, left, copies, shares);
        let begun = begins(self.believed_costs());
        let tried = begun && self.believed_costs() != [1.0; 2] && !begins([1.0; 2]);
        let left_out = !begun && begins([MIN_BELIEVED; 2]);
        self.decided(ModelRole::Draft, tried, left_out);
        // Rows of the target may be what seems too dear.
        self.decided(ModelRole::Target, false, left_out);
        begun
    }

    /// As [`begins`](Self::begins), if forwards cost these shares of what they are said to.
    fn would_begin(&self, prompt: usize, left: usize, copies: bool, [rows, calls]: [f64; 2]) -> bool {
        let plain = self.forward(1) + self.judging;
        // What a token costs without it; in company, where nothing is known of that, as in plain decoding.
        let alone = self.sequences == 1;
        let each = if alone { plain * self.estimates.each_without_model(copies) } else { plain };
        let rate = self
            .estimates
            .rate(Source::Model, ProposalContext { confidence: BEFORE_CALL, ..ProposalContext::FREE });
        let call = self.call(1) * calls;
        let (mut survival, mut tokens, mut ms, mut best) = (1.0, 1.0, plain, each);
        for row in 0..self.max {
            survival *= rate;
            tokens += survival;
            ms += self.row(row) * rows + call;
            best = f64::min(best, ms / tokens);
        }
        (each - best) * self.estimates.length().min(left as f64) > self.call(prompt) * calls
    }

    /// Takes note of a draft that is done and that the draft model, which has not been begun, has no part in.
    pub fn without_model(&mut self, worth: &RoundEstimate, copies: bool) {
        if self.unlimited || self.fixed || self.sequences > 1 || self.without.len() >= MOST_OBSERVED {
            return;
        }
        let forwards = worth.ms / (self.forward(1) + self.judging).max(1e-9);
        self.estimates.without_model(copies, forwards, worth.tokens);
        self.without.push((copies, forwards, worth.tokens));
    }

    /// The shares of costs that are believed, of the target and the draft model.
    fn believed_costs(&self) -> [f64; 2] {
        self.doubts.map(|doubt| doubt.share())
    }

    /// Takes note of a decision.
    fn decided(&mut self, of: ModelRole, tried: bool, left_out: bool) {
        let decided = &mut self.decided[of as usize];
        decided.tried |= tried;
        decided.left_out |= left_out;
    }

    /// How many of these proposals to draft behind what `worth` tells of.
    pub fn accepted_rows(&mut self, worth: &RoundEstimate, proposals: &[Proposal]) -> usize {
        let proposals = &proposals[..proposals.len().min(self.max.saturating_sub(worth.rows))];
        if self.unlimited {
            return proposals.len();
        }
        let steps = self.steps(worth, proposals);
        let taken = best(worth, &steps, self.believed_costs());
        let tried = self.believed_costs() != [1.0; 2] && taken > best(worth, &steps, [1.0; 2]);
        let left_out = taken < steps.len() && best(worth, &steps, [MIN_BELIEVED; 2]) > taken;
        self.decided(ModelRole::Target, tried, left_out);
        self.record(worth, proposals, &steps, taken);
        taken
    }

    /// As [`accepted_rows`](Self::accepted_rows), before it is known whether the proposals are legal; nothing is counted.
    pub fn preview_rows(&self, worth: &RoundEstimate, proposals: &[Proposal]) -> usize {
        if self.unlimited {
            return proposals.len();
        }
        best(worth, &self.steps(worth, proposals), self.believed_costs())
    }

    /// Whether any copy at `place` can be worth its rows: to be asked before the source is looked through. Reckons with
    /// the likeliest proposals that a copy may have, so what it turns down [`accepted_rows`](Self::accepted_rows) would leave out, too.
    pub fn may_lookup(&mut self, worth: &RoundEstimate, place: ProposalContext) -> bool {
        if self.unlimited || self.report.is_some() {
            return true;
        }
        let may = self.could_copy(worth, place, self.believed_costs()[0]);
        let left_out = !may && self.could_copy(worth, place, MIN_BELIEVED);
        self.decided(ModelRole::Target, false, left_out);
        may
    }

    /// As [`may_lookup`](Self::may_lookup), if rows cost `share` of what they are said to.
    fn could_copy(&self, worth: &RoundEstimate, place: ProposalContext, share: f64) -> bool {
        let rate =
            |source, grade| self.estimates.rate(source, ProposalContext { confidence: grade, ..place });
        let first = rate(Source::Lookup, 0).max(rate(Source::Lookup, 1));
        let further = rate(Source::Lookup, 2).max(rate(Source::Forced, 1));
        let (mut survival, mut tokens, mut ms) = (worth.survival, worth.tokens, worth.ms);
        (worth.rows..self.max).any(|row| {
            survival *= if row == worth.rows { first } else { further };
            tokens += survival;
            ms += self.row(row) * share;
            tokens * worth.ms >= worth.tokens * ms
        })
    }

    /// Whether to ask the draft model for a token at `place`, in one call over `pending` tokens in which it
    /// also reads what was `copied`.
    pub fn calls_draft_model(
        &mut self,
        worth: &RoundEstimate,
        place: ProposalContext,
        copied: &[Proposal],
        pending: usize,
    ) -> bool {
        if self.unlimited {
            return true;
        }
        let state = ProposalContext { confidence: BEFORE_CALL, ..place };
        let own = Proposal { token: 0, source: Source::Model, state };
        let mut steps = self.steps(worth, copied);
        let at = RoundEstimate { rows: worth.rows + copied.len(), ..*worth };
        steps.extend(self.steps(&at, &[own]));
        // The call is paid whatever comes of it.
        if let Some(first) = steps.first_mut() {
            first.call = self.call(pending);
        }
        let asked = best(worth, &steps, self.believed_costs()) > 0;
        let tried = asked && self.believed_costs() != [1.0; 2] && best(worth, &steps, [1.0; 2]) == 0;
        let left_out = !asked && best(worth, &steps, [MIN_BELIEVED; 2]) > 0;
        self.decided(ModelRole::Draft, tried, left_out);
        self.decided(ModelRole::Target, false, left_out);
        self.record(worth, &[own], &steps[..1], usize::from(asked));
        asked
    }

    /// The draft model was called over so many tokens.
    pub fn charge_call(&self, worth: &mut RoundEstimate, tokens: usize) {
        worth.ms += self.call(tokens);
    }

    /// Adds a proposal to what the round is worth.
    pub fn add(&self, worth: &mut RoundEstimate, proposal: &Proposal) {
        worth.survival *= self.estimates.rate(proposal.source, proposal.state);
        worth.tokens += worth.survival;
        worth.ms += self.row(worth.rows);
        worth.rows += 1;
    }

    /// How much of a branch to add to a finished draft, the `trunk`, of which it goes on from the first `after`: it counts
    /// where the trunk is right so far and then wrong.
    pub fn takes_branch(
        &self,
        worth: &RoundEstimate,
        trunk: &[Proposal],
        after: usize,
        branch: &[Proposal],
    ) -> usize {
        if self.unlimited {
            return branch.len();
        }
        let mut steps = self.steps(worth, branch);
        steps.iter_mut().for_each(|step| step.ms += BRANCHING);
        best(&RoundEstimate { survival: self.reaches(trunk, after), ..*worth }, &steps, [1.0; 2])
    }

    /// Whether the first row of a branch may be worth it that is reached with probability `reached`; if not those behind
    /// it are not, either.
    pub fn may_branch(&self, worth: &RoundEstimate, reached: f64, state: ProposalContext) -> bool {
        let rate = self.estimates.rate(Source::Branch, state);
        self.unlimited || reached * rate * worth.ms >= (self.row(worth.rows) + BRANCHING) * worth.tokens
    }

    /// The probability that a forced run at `place` that is reached with that of `worth` is wrong somewhere, or more.
    pub fn run_fails(&self, worth: &RoundEstimate, place: ProposalContext) -> f64 {
        let rate =
            |grade| self.estimates.rate(Source::Forced, ProposalContext { confidence: grade, ..place });
        worth.survival * (1.0 - rate(0).min(rate(1)).min(rate(2)))
    }

    /// Adds a branch to what the round is worth.
    pub fn add_branch(
        &self,
        worth: &mut RoundEstimate,
        trunk: &[Proposal],
        after: usize,
        branch: &[Proposal],
    ) {
        let survival = worth.survival;
        worth.survival = self.reaches(trunk, after);
        branch.iter().for_each(|proposal| self.add(worth, proposal));
        worth.ms += BRANCHING * branch.len() as f64;
        worth.survival = survival;
    }

    /// The probability that the trunk is accepted up to there and no further.
    pub fn reaches(&self, trunk: &[Proposal], after: usize) -> f64 {
        let rate = |p: &Proposal| self.estimates.rate(p.source, p.state);
        let before: f64 = trunk.iter().take(after).map(rate).product();
        before * trunk.get(after).map_or(1.0, |next| 1.0 - rate(next))
    }

    fn steps(&self, worth: &RoundEstimate, proposals: &[Proposal]) -> Vec<Step> {
        let step = |(i, p): (usize, &Proposal)| Step {
            rate: self.estimates.rate(p.source, p.state),
            ms: self.row(worth.rows + i),
            call: 0.0,
        };
        proposals.iter().enumerate().map(step).collect()
    }

    /// Counts a decision.
    fn record(&mut self, worth: &RoundEstimate, proposals: &[Proposal], steps: &[Step], taken: usize) {
        let Some(report) = &mut self.report else { return };
        let mut survival = worth.survival;
        for (i, (proposal, step)) in proposals.iter().zip(steps).enumerate() {
            survival *= step.rate;
            let decision = Tally {
                taken: usize::from(i < taken),
                left_out: usize::from(i >= taken),
                survival,
                row_ms: step.ms + step.call,
                needed: (step.ms + step.call) * worth.tokens / worth.ms.max(1e-9),
            };
            report.decided(proposal.source, proposal.state, &decision);
        }
    }

    /// Learns from a verified proposal.
    pub fn learn(&mut self, proposal: &Proposal, accepted: bool) {
        let observation = (proposal.source, proposal.state, accepted);
        self.estimates.learn(observation);
        if self.observed.len() < MOST_OBSERVED {
            self.observed.push(observation);
        }
        if let Some(report) = &mut self.report {
            report.verified(proposal.source, proposal.state, accepted);
        }
    }

    /// Learns from a forward over so many tokens behind so many positions.
    pub(crate) fn ran(&mut self, of: ModelRole, tokens: usize, cached: usize, ms: f64) {
        if self.fixed || self.unlimited || self.forwards.len() >= MOST_OBSERVED {
            return;
        }
        let decided = std::mem::take(&mut self.decided[of as usize]);
        let calls = &mut self.decided[ModelRole::Draft as usize];
        // Calls that were left out are known when the target runs.
        let calls_left_out = of == ModelRole::Target && !calls.tried && std::mem::take(&mut calls.left_out);
        let forward = Forward { of, tokens, cached, ms, decided, calls_left_out };
        let table = if of == ModelRole::Draft { self.draft.as_mut() } else { Some(&mut self.target) };
        let Some(table) = table else { return };
        forward.shows(table, &mut self.doubts);
        self.forwards.push(forward);
    }

    /// Learns what judging so many rows took.
    pub fn record_verify_time(&mut self, rows: usize, ms: f64) {
        if rows > 0 && !self.fixed {
            // A pause of the whole process says nothing about judging.
            let each = (ms / rows as f64).min(10.0 * self.judging);
            self.judging += VERIFY_TIME_SMOOTHING * (each - self.judging);
        }
    }

    /// Adds what it observed to what is known of its engine, and how many tokens came of it.
    pub(crate) fn finish(&self, known: &mut AcceptanceRates, tokens: usize) {
        known.finish(self.rounds, &self.observed, tokens);
        for (copies, forwards, tokens) in &self.without {
            known.without_model(*copies, *forwards, *tokens);
        }
        for forward in &self.forwards {
            let table = if forward.of == ModelRole::Draft { self.draft.as_ref() } else { Some(&self.target) };
            if let Some(table) = table {
                let (costs, doubts) = known.costs(forward.of, table);
                forward.shows(costs, doubts);
            }
        }
    }
}

impl Forward {
    /// What it says about costs and how far to believe them.
    fn shows(&self, table: &mut CostTable, doubts: &mut [CostTrust; 2]) {
        let less = self.ms < table.ms_behind(self.tokens, self.cached);
        doubts[self.of as usize].learn(self.decided, less);
        if self.calls_left_out {
            doubts[ModelRole::Draft as usize].learn(CostDecision { left_out: true, tried: false }, false);
        }
        table.observe(self.tokens, self.cached, self.ms);
    }
}

/// The number of steps that makes the round best, of those that make it no worse, if rows and calls cost these shares of
/// what they are said to.
fn best(worth: &RoundEstimate, steps: &[Step], [rows, calls]: [f64; 2]) -> usize {
    let (mut survival, mut tokens, mut ms) = (worth.survival, worth.tokens, worth.ms);
    let (mut taken, mut highest) = (0, tokens / ms.max(1e-9));
    for (i, step) in steps.iter().enumerate() {
        survival *= step.rate;
        tokens += survival;
        ms += step.ms * rows + step.call * calls;
        let ratio = tokens / ms.max(1e-9);
        if ratio >= highest {
            (taken, highest) = (i + 1, ratio);
        }
    }
    taken
}

#[cfg(test)]
mod tests;
