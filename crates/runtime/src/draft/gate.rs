//! The draft gate: decides how many proposals a round verifies.
//!
//! A forward over n + 1 tokens costs its first row and a little for each further row, as measured.
//! A row gives a token if its proposal and all before it are accepted. This has the probability S,
//! the product of their rates. A draft gives T / C tokens a millisecond, where T is 1 + the sum of
//! S. C is the cost of the forward and of the draft model's calls. So the gate takes a row while S
//! / (cost of the row) >= T / C: the row makes the round better, or it is left out (Leviathan et
//! al. 2023, section 3, for rows with different rates). Of several proposals at once it takes the
//! number that makes the round best, so later rows may pay for an unlikely first one. The gate
//! never looks at the outcome of the round that it decides about. It changes the time, never the
//! text.
//!
//! # Cost
//!
//! A few lookups for each proposal.

use super::acceptance::{AcceptanceRates, ModelRole, Observation, ProposalContext};
use super::cost_trust::{CostDecision, CostTrust, MIN_BELIEVED};
use super::gate_report::{GateReport, Tally};
use super::proposal::Proposal;
use super::sources::{CopyKind, ForcedKind, ModelKind, ProposalKind};
use crate::model::CostTable;

/// Milliseconds assumed for verifying a row, without any measurement.
const DEFAULT_VERIFY_MS: f64 = 0.01;
/// Smoothing factor of the measured time for verifying a row.
const VERIFY_TIME_SMOOTHING: f64 = 0.1;

/// Number of rows up to which the costs of forwards are computed once for a round.
const MAX_PRECOMPUTED_ROWS: usize = 32;

/// The estimate of a round with the draft so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundEstimate {
    /// Number of proposals so far.
    pub rows: usize,
    /// Probability that all of them are accepted.
    pub survival: f64,
    /// Expected number of tokens that the round gives.
    pub tokens: f64,
    /// Milliseconds that the round takes.
    pub ms: f64,
}

/// A proposal under consideration as the next row.
#[derive(Debug, Clone, Copy)]
struct DraftStep {
    rate: f64,
    /// Milliseconds of its row.
    ms: f64,
    /// Milliseconds of the draft model call that it needs.
    call: f64,
}

/// A forward that ran.
#[derive(Debug, Clone, Copy)]
struct Forward {
    of: ModelRole,
    tokens: usize,
    /// Number of positions before its tokens.
    cached: usize,
    ms: f64,
    /// Decisions about this model's costs before the forward.
    decided: CostDecision,
    /// True if draft model calls were left out before the forward that would pay at
    /// [`MIN_BELIEVED`] of their cost.
    calls_left_out: bool,
}

/// The estimates and costs of one generation, and the decisions that they lead to.
#[derive(Debug, Clone)]
pub struct Gate {
    estimates: AcceptanceRates,
    observed: Vec<Observation>,
    forwards: Vec<Forward>,
    /// Rounds without the draft model: true with a text to copy from, the cost in forwards over one
    /// token, and the expected tokens.
    rounds_without_model: Vec<(bool, f64, f64)>,
    /// Decisions since the last forward, by [`ModelRole`].
    decided: [CostDecision; 2],
    /// Trust in the costs, by [`ModelRole`].
    trust: [CostTrust; 2],
    rounds: usize,
    target: CostTable,
    draft: Option<CostTable>,
    /// Maximum length of a draft.
    max: usize,
    /// Number of sequences in a forward, all of which draft.
    sequences: usize,
    /// Number of positions in the cache.
    cached: usize,
    /// Milliseconds of a forward of the target in this round, by the number of rows of each
    /// sequence from 0 on.
    forward_ms: Vec<f64>,
    /// Milliseconds for the mask, the choice and the bookkeeping of a row.
    verify_ms: f64,
    /// True if costs do not count.
    unlimited: bool,
    /// True if the given costs hold and the gate learns nothing about time.
    fixed: bool,
    report: Option<Box<GateReport>>,
}

/// Maximum number of observations that a generation keeps.
const MAX_OBSERVATIONS: usize = 1 << 14;

impl Gate {
    /// Returns a gate with the measured costs of the target and, if there is one, of the draft
    /// model, and with the rates of earlier generations.
    pub fn new(
        target: &CostTable,
        draft: Option<&CostTable>,
        max: usize,
        mut estimates: AcceptanceRates,
    ) -> Self {
        let target = estimates.costs(ModelRole::Target, target).0.clone();
        let draft = draft.map(|draft| estimates.costs(ModelRole::Draft, draft).0.clone());
        let doubts = estimates.trust();
        Gate {
            estimates,
            observed: Vec::new(),
            forwards: Vec::new(),
            rounds_without_model: Vec::new(),
            decided: Default::default(),
            trust: doubts,
            rounds: 0,
            target,
            draft,
            max,
            sequences: 1,
            cached: 0,
            forward_ms: Vec::new(),
            verify_ms: DEFAULT_VERIFY_MS,
            unlimited: false,
            fixed: false,
            report: None,
        }
    }

    /// Returns a gate with fixed costs that learns nothing about time, so it decides the same on
    /// every machine. A row costs a quarter of a forward, a call of the draft model a fifth.
    pub fn fixed(max: usize) -> Self {
        let target = CostTable::from_points([(1, 1.0), (5, 2.0)]);
        let draft = CostTable::from_points([(1, 0.2), (65, 1.0)]);
        Gate { fixed: true, ..Gate::new(&target, Some(&draft), max, AcceptanceRates::default()) }
    }

    /// Returns a gate that lets every draft grow to `max` tokens, whatever the cost.
    #[doc(hidden)]
    pub fn unlimited(max: usize) -> Self {
        Gate {
            unlimited: true,
            ..Gate::new(&CostTable::from_points([]), None, max, AcceptanceRates::default())
        }
    }

    /// Counts the decisions for [`report`](Self::report).
    pub fn explain(&mut self) {
        self.report = Some(Box::default());
    }

    /// Returns the report on the decisions, if [`explain`](Self::explain) was called.
    pub fn report(&mut self) -> Option<GateReport> {
        let mut report = *self.report.take()?;
        report.target_ms = self.target.points().to_vec();
        report.draft_ms = self.draft.as_ref().map(|d| d.points().to_vec()).unwrap_or_default();
        report.cached_position_ms = self.target.cached();
        report.judging_ms = self.verify_ms;
        report.costs_believed = self.believed_costs();
        report.cached = self.cached;
        report.open = self.unlimited;
        report.finish(&self.estimates);
        Some(report)
    }

    /// Sets the number of sequences in a forward, all of which draft. A row then costs its share
    /// of what the rows of all sequences add to the forward. With many sequences a forward is bound
    /// by arithmetic, and drafts pay less.
    pub fn set_batch_size(&mut self, sequences: usize) {
        self.sequences = sequences.max(1);
        // Costs computed for another batch size no longer hold.
        self.forward_ms.clear();
    }

    /// Begins the next round after `cached` positions and returns its estimate without a draft.
    pub fn begin(&mut self, cached: usize) -> RoundEstimate {
        self.cached = cached;
        self.estimates.next_round();
        self.rounds += 1;
        // The list is empty meanwhile, so each cost is computed again.
        let mut forward_ms = std::mem::take(&mut self.forward_ms);
        forward_ms.clear();
        forward_ms.extend((0..=self.max.min(MAX_PRECOMPUTED_ROWS) + 2).map(|rows| self.forward(rows)));
        self.forward_ms = forward_ms;
        RoundEstimate { rows: 0, survival: 1.0, tokens: 1.0, ms: self.forward(1) + self.verify_ms }
    }

    /// Returns the maximum length of a draft.
    pub fn max(&self) -> usize {
        self.max
    }

    /// Returns the milliseconds of a forward of the target over `rows` rows of each sequence, as
    /// the share of one sequence.
    fn forward(&self, rows: usize) -> f64 {
        let n = self.sequences;
        let ready = self.forward_ms.get(rows).copied();
        ready.unwrap_or_else(|| self.target.ms_behind(n * rows, self.cached) / n as f64)
    }

    /// Returns the milliseconds that the row after `rows` proposals adds.
    fn row(&self, rows: usize) -> f64 {
        (self.forward(rows + 2) - self.forward(rows + 1)).max(0.0) + self.verify_ms
    }

    /// Returns the milliseconds of a call of the draft model over `tokens` tokens.
    fn call(&self, tokens: usize) -> f64 {
        let n = self.sequences;
        self.draft.as_ref().map_or(0.0, |d| d.ms_behind(n * tokens, self.cached) / n as f64)
    }

    /// Returns true if the first call of the draft model pays. That call covers `prompt` tokens, in
    /// a generation of at most `left` tokens. It pays if the expected saving over rounds without
    /// the draft model exceeds its cost. `copies` is true if there is a text to copy from.
    pub fn starts_draft_model(&mut self, prompt: usize, left: usize, copies: bool) -> bool {
        if self.unlimited {
            return true;
        }
        let begins =
            |gate: &Gate, shares| usize::from(gate.would_start_draft_model(prompt, left, copies, shares));
        self.decide(ModelRole::Draft, begins) > 0
    }

    /// Decides as [`starts_draft_model`](Self::starts_draft_model), with these shares of the costs.
    fn would_start_draft_model(
        &self,
        prompt: usize,
        left: usize,
        copies: bool,
        [rows, calls]: [f64; 2],
    ) -> bool {
        let plain = self.forward(1) + self.verify_ms;
        // Cost of a token without the draft model. In a batch nothing is known about it, so it is
        // that of plain decoding.
        let alone = self.sequences == 1;
        let each = if alone { plain * self.estimates.cost_without_model(copies) } else { plain };
        let rate = self.estimates.rate(ProposalKind::Model(ModelKind::BeforeCall), ProposalContext::FREE);
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

    /// Notes a finished draft in which the draft model, not started yet, has no part.
    pub fn without_model(&mut self, worth: &RoundEstimate, copies: bool) {
        if self.unlimited
            || self.fixed
            || self.sequences > 1
            || self.rounds_without_model.len() >= MAX_OBSERVATIONS
        {
            return;
        }
        let forwards = worth.ms / (self.forward(1) + self.verify_ms).max(1e-9);
        self.estimates.without_model(copies, forwards, worth.tokens);
        self.rounds_without_model.push((copies, forwards, worth.tokens));
    }

    /// Returns the shares of the costs that are believed, of the target and the draft model.
    fn believed_costs(&self) -> [f64; 2] {
        self.trust.map(|doubt| doubt.share())
    }

    /// Returns the largest number that `count` finds with the costs that are believed, and notes whether
    /// other costs would give another one.
    fn decide(&mut self, of: ModelRole, count: impl Fn(&Gate, [f64; 2]) -> usize) -> usize {
        let believed = self.believed_costs();
        let taken = count(self, believed);
        let tried = believed != [1.0; 2] && taken > count(self, [1.0; 2]);
        let left_out = count(self, [MIN_BELIEVED; 2]) > taken;
        self.decided(of, tried, left_out);
        // Rows of the target may be what seems too expensive in a call of the draft model.
        self.decided(ModelRole::Target, false, left_out);
        taken
    }

    /// Notes a decision.
    fn decided(&mut self, of: ModelRole, tried: bool, left_out: bool) {
        let decided = &mut self.decided[of as usize];
        decided.tried |= tried;
        decided.left_out |= left_out;
    }

    /// Returns the number of these proposals to add to the draft with the estimate `worth`.
    pub fn accepted_rows(&mut self, worth: &RoundEstimate, proposals: &[Proposal]) -> usize {
        let proposals = &proposals[..proposals.len().min(self.max.saturating_sub(worth.rows))];
        if self.unlimited {
            return proposals.len();
        }
        let steps = self.steps(worth, proposals);
        let taken = self.decide(ModelRole::Target, |_, shares| best_step_count(worth, &steps, shares));
        self.record(worth, proposals, &steps, taken);
        taken
    }

    /// Decides as [`accepted_rows`](Self::accepted_rows), but before the proposals are known to be
    /// legal. Counts nothing.
    pub fn preview_rows(&self, worth: &RoundEstimate, proposals: &[Proposal]) -> usize {
        if self.unlimited {
            return proposals.len();
        }
        best_step_count(worth, &self.steps(worth, proposals), self.believed_costs())
    }

    /// Returns false if no copy at `place` can pay for its rows, so that the source need not be
    /// searched. It assumes the most probable proposals that a copy may have. So
    /// [`accepted_rows`](Self::accepted_rows) would leave out everything that it rejects.
    pub fn may_lookup(&mut self, worth: &RoundEstimate, place: ProposalContext) -> bool {
        if self.unlimited || self.report.is_some() {
            return true;
        }
        let may = self.could_copy(worth, place, self.believed_costs()[0]);
        let left_out = !may && self.could_copy(worth, place, MIN_BELIEVED);
        self.decided(ModelRole::Target, false, left_out);
        may
    }

    /// Decides as [`may_lookup`](Self::may_lookup), with `share` of the cost of rows.
    fn could_copy(&self, worth: &RoundEstimate, place: ProposalContext, share: f64) -> bool {
        let copy = |kind| self.estimates.rate(ProposalKind::Lookup(kind), place);
        let inside = self.estimates.rate(ProposalKind::Forced(ForcedKind::Inside), place);
        let first = copy(CopyKind::AfterLabel).max(copy(CopyKind::First));
        let further = copy(CopyKind::Further).max(inside);
        let (mut survival, mut tokens, mut ms) = (worth.survival, worth.tokens, worth.ms);
        (worth.rows..self.max).any(|row| {
            survival *= if row == worth.rows { first } else { further };
            tokens += survival;
            ms += self.row(row) * share;
            tokens * worth.ms >= worth.tokens * ms
        })
    }

    /// Returns true if a call of the draft model for a token at `place` pays. The call runs over
    /// `pending` tokens and also reads the proposals in `copied`.
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
        let kind = ProposalKind::Model(ModelKind::BeforeCall);
        let own = Proposal { token: 0, kind, context: place };
        let mut steps = self.steps(worth, copied);
        let at = RoundEstimate { rows: worth.rows + copied.len(), ..*worth };
        steps.extend(self.steps(&at, &[own]));
        // The call costs its time whatever the result.
        if let Some(first) = steps.first_mut() {
            first.call = self.call(pending);
        }
        let calls = |_: &Gate, shares| usize::from(best_step_count(worth, &steps, shares) > 0);
        let asked = self.decide(ModelRole::Draft, calls) > 0;
        self.record(worth, &[own], &steps[..1], usize::from(asked));
        asked
    }

    /// Adds the cost of a call of the draft model over `tokens` tokens to the estimate.
    pub fn charge_call(&self, worth: &mut RoundEstimate, tokens: usize) {
        worth.ms += self.call(tokens);
    }

    /// Adds a proposal to the estimate.
    pub fn add(&self, worth: &mut RoundEstimate, proposal: &Proposal) {
        worth.survival *= self.estimates.rate(proposal.kind, proposal.context);
        worth.tokens += worth.survival;
        worth.ms += self.row(worth.rows);
        worth.rows += 1;
    }

    fn steps(&self, worth: &RoundEstimate, proposals: &[Proposal]) -> Vec<DraftStep> {
        let step = |(i, p): (usize, &Proposal)| DraftStep {
            rate: self.estimates.rate(p.kind, p.context),
            ms: self.row(worth.rows + i),
            call: 0.0,
        };
        proposals.iter().enumerate().map(step).collect()
    }

    /// Counts a decision for the report.
    fn record(&mut self, worth: &RoundEstimate, proposals: &[Proposal], steps: &[DraftStep], taken: usize) {
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
            report.decided(proposal.kind, proposal.context, &decision);
        }
    }

    /// Learns from a verified proposal.
    pub fn learn(&mut self, proposal: &Proposal, accepted: bool) {
        let observation = (proposal.kind, proposal.context, accepted);
        self.estimates.learn(observation);
        if self.observed.len() < MAX_OBSERVATIONS {
            self.observed.push(observation);
        }
        if let Some(report) = &mut self.report {
            report.verified(proposal.kind, proposal.context, accepted);
        }
    }

    /// Learns from a forward over `tokens` tokens after `cached` positions.
    pub(crate) fn learn_forward(&mut self, of: ModelRole, tokens: usize, cached: usize, ms: f64) {
        if self.fixed || self.unlimited || self.forwards.len() >= MAX_OBSERVATIONS {
            return;
        }
        let decided = std::mem::take(&mut self.decided[of as usize]);
        let calls = &mut self.decided[ModelRole::Draft as usize];
        // Calls that were left out are known when the target runs.
        let calls_left_out = of == ModelRole::Target && !calls.tried && std::mem::take(&mut calls.left_out);
        let forward = Forward { of, tokens, cached, ms, decided, calls_left_out };
        let table = if of == ModelRole::Draft { self.draft.as_mut() } else { Some(&mut self.target) };
        let Some(table) = table else { return };
        forward.update_costs(table, &mut self.trust);
        self.forwards.push(forward);
    }

    /// Learns the time for verifying `rows` rows.
    pub fn record_verify_time(&mut self, rows: usize, ms: f64) {
        if rows > 0 && !self.fixed {
            // A pause of the whole process must not count as verification time.
            let each = (ms / rows as f64).min(10.0 * self.verify_ms);
            self.verify_ms += VERIFY_TIME_SMOOTHING * (each - self.verify_ms);
        }
    }

    /// Adds this generation's observations and its number of tokens to the statistics of its
    /// engine.
    pub(crate) fn finish(&self, known: &mut AcceptanceRates, tokens: usize) {
        known.finish(self.rounds, &self.observed, tokens);
        for (copies, forwards, tokens) in &self.rounds_without_model {
            known.without_model(*copies, *forwards, *tokens);
        }
        for forward in &self.forwards {
            let table = if forward.of == ModelRole::Draft { self.draft.as_ref() } else { Some(&self.target) };
            if let Some(table) = table {
                let (costs, doubts) = known.costs(forward.of, table);
                forward.update_costs(costs, doubts);
            }
        }
    }
}

impl Forward {
    /// Updates the costs and the trust in them.
    fn update_costs(&self, table: &mut CostTable, doubts: &mut [CostTrust; 2]) {
        let less = self.ms < table.ms_behind(self.tokens, self.cached);
        doubts[self.of as usize].learn(self.decided, less);
        if self.calls_left_out {
            doubts[ModelRole::Draft as usize].learn(CostDecision { left_out: true, tried: false }, false);
        }
        table.observe(self.tokens, self.cached, self.ms);
    }
}

/// Returns the number of steps that makes the round best, among the numbers that do not make it
/// worse. Rows and calls cost these shares of their measured cost.
fn best_step_count(worth: &RoundEstimate, steps: &[DraftStep], [rows, calls]: [f64; 2]) -> usize {
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
