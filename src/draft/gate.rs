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

use super::estimates::{ASKED, Estimates, Observation, Ran, State};
use super::report::{GateReport, Tally};
use super::{Proposal, Source};
use crate::model::CostTable;

/// Milliseconds that judging a row takes before any was judged.
const JUDGING: f64 = 0.01;
/// Milliseconds that putting a row of a branch together takes, its mask included: 0.04 on the machine of the figures in
/// the documentation. It is not measured again: a fork and a look at the mask cost much the same anywhere.
const BRANCHING: f64 = 0.04;
/// How quickly that follows what is measured.
const FOLLOW: f64 = 0.1;

/// Rows up to which forwards are reckoned once for a round.
const MOST_READY: usize = 32;

/// What a round is worth as far as it is drafted.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worth {
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
    ms: f64,
}

/// Estimates and costs of one generation.
#[derive(Debug, Clone)]
pub struct Gate {
    estimates: Estimates,
    observed: Vec<Observation>,
    /// Forwards: of which model, tokens, positions before them, milliseconds.
    forwards: Vec<(Ran, usize, usize, f64)>,
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
    open: bool,
    /// Whether costs are what they are said to be, and nothing about time is learned.
    fixed: bool,
    report: Option<Box<GateReport>>,
}

/// Most observations that a generation hands on.
const MOST_OBSERVED: usize = 1 << 14;

impl Gate {
    /// A gate from the measured costs of the target and, if there is one, the draft model, and from what is
    /// known of earlier generations.
    pub fn new(target: &CostTable, draft: Option<&CostTable>, max: usize, mut estimates: Estimates) -> Self {
        let target = estimates.costs(Ran::Target, target).clone();
        let draft = draft.map(|draft| estimates.costs(Ran::Draft, draft).clone());
        Gate {
            estimates,
            observed: Vec::new(),
            forwards: Vec::new(),
            rounds: 0,
            target,
            draft,
            max,
            sequences: 1,
            cached: 0,
            forward_ms: Vec::new(),
            judging: JUDGING,
            open: false,
            fixed: false,
            report: None,
        }
    }

    /// A gate that knows nothing of this machine and learns nothing about time, so that it decides alike
    /// wherever it runs: a row costs a quarter of a forward, a call of the draft model a fifth.
    pub fn fixed(max: usize) -> Self {
        let target = CostTable::from_points([(1, 1.0), (5, 2.0)]);
        let draft = CostTable::from_points([(1, 0.2), (65, 1.0)]);
        Gate { fixed: true, ..Gate::new(&target, Some(&draft), max, Estimates::default()) }
    }

    /// A gate that lets every draft grow to `max`, whatever it costs: for tests.
    pub fn open(max: usize) -> Self {
        Gate { open: true, ..Gate::new(&CostTable::from_points([]), None, max, Estimates::default()) }
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
        report.cached = self.cached;
        report.open = self.open;
        report.finish(&self.estimates);
        Some(report)
    }

    /// Reckons with so many sequences in a forward, which draft alike: a row then costs what it adds to the
    /// forward of all, and a round the share of one. With many sequences a forward is bound by
    /// arithmetic and drafts are worth less.
    pub fn in_company(&mut self, sequences: usize) {
        self.sequences = sequences.max(1);
        // What was reckoned for another company no longer holds.
        self.forward_ms.clear();
    }

    /// The next round begins behind so many positions: what it is worth without a draft.
    pub fn begin(&mut self, cached: usize) -> Worth {
        self.cached = cached;
        self.estimates.next_round();
        self.rounds += 1;
        // Empty meanwhile, so that each is reckoned anew.
        let mut forward_ms = std::mem::take(&mut self.forward_ms);
        forward_ms.clear();
        forward_ms.extend((0..=self.max.min(MOST_READY) + 2).map(|rows| self.forward(rows)));
        self.forward_ms = forward_ms;
        Worth { rows: 0, survival: 1.0, tokens: 1.0, ms: self.forward(1) + self.judging }
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
    /// `left` tokens: whether what it is likely to save is more than that.
    pub fn begins(&self, prompt: usize, left: usize) -> bool {
        if self.open {
            return true;
        }
        let plain = self.forward(1) + self.judging;
        let rate = self.estimates.rate(Source::Model, State { grade: ASKED, ..State::FREE });
        let call = self.call(1);
        let (mut survival, mut tokens, mut ms, mut best) = (1.0, 1.0, plain, plain);
        for rows in 0..self.max {
            survival *= rate;
            tokens += survival;
            ms += self.row(rows) + call;
            best = f64::min(best, ms / tokens);
        }
        (plain - best) * self.estimates.length().min(left as f64) > self.call(prompt)
    }

    /// How many of these proposals to draft behind what `worth` tells of.
    pub fn takes(&mut self, worth: &Worth, proposals: &[Proposal]) -> usize {
        let proposals = &proposals[..proposals.len().min(self.max.saturating_sub(worth.rows))];
        if self.open {
            return proposals.len();
        }
        let steps = self.steps(worth, proposals);
        let taken = best(worth, &steps);
        self.tell(worth, proposals, &steps, taken);
        taken
    }

    /// As [`takes`](Self::takes), before it is known whether the proposals are legal; nothing is counted.
    pub fn would_take(&self, worth: &Worth, proposals: &[Proposal]) -> usize {
        if self.open { proposals.len() } else { best(worth, &self.steps(worth, proposals)) }
    }

    /// Whether any copy at `place` can be worth its rows: to be asked before the source is looked through. Reckons with
    /// the likeliest proposals that a copy may have, so what it turns down [`takes`](Self::takes) would leave out, too.
    pub fn may_copy(&self, worth: &Worth, place: State) -> bool {
        if self.open || self.report.is_some() {
            return true;
        }
        let rate = |source, grade| self.estimates.rate(source, State { grade, ..place });
        let first = rate(Source::Lookup, 0).max(rate(Source::Lookup, 1));
        let further = rate(Source::Lookup, 2).max(rate(Source::Forced, 1));
        let (mut survival, mut tokens, mut ms) = (worth.survival, worth.tokens, worth.ms);
        (worth.rows..self.max).any(|row| {
            survival *= if row == worth.rows { first } else { further };
            tokens += survival;
            ms += self.row(row);
            tokens * worth.ms >= worth.tokens * ms
        })
    }

    /// Whether to ask the draft model for a token at `place`, in one call over `pending` tokens in which it
    /// also reads what was `copied`.
    pub fn asks(&mut self, worth: &Worth, place: State, copied: &[Proposal], pending: usize) -> bool {
        if self.open {
            return true;
        }
        let state = State { grade: ASKED, ..place };
        let own = Proposal { token: 0, source: Source::Model, state };
        let mut steps = self.steps(worth, copied);
        let at = Worth { rows: worth.rows + copied.len(), ..*worth };
        steps.extend(self.steps(&at, &[own]));
        // The call is paid whatever comes of it.
        if let Some(first) = steps.first_mut() {
            first.ms += self.call(pending);
        }
        let asked = best(worth, &steps) > 0;
        self.tell(worth, &[own], &steps[..1], usize::from(asked));
        asked
    }

    /// The draft model was called over so many tokens.
    pub fn called(&self, worth: &mut Worth, tokens: usize) {
        worth.ms += self.call(tokens);
    }

    /// Adds a proposal to what the round is worth.
    pub fn add(&self, worth: &mut Worth, proposal: &Proposal) {
        worth.survival *= self.estimates.rate(proposal.source, proposal.state);
        worth.tokens += worth.survival;
        worth.ms += self.row(worth.rows);
        worth.rows += 1;
    }

    /// How much of a branch to add to a finished draft, the `trunk`, of which it goes on from the first `after`: it counts
    /// where the trunk is right so far and then wrong.
    pub fn takes_branch(
        &self,
        worth: &Worth,
        trunk: &[Proposal],
        after: usize,
        branch: &[Proposal],
    ) -> usize {
        if self.open {
            return branch.len();
        }
        let mut steps = self.steps(worth, branch);
        steps.iter_mut().for_each(|step| step.ms += BRANCHING);
        best(&Worth { survival: self.reaches(trunk, after), ..*worth }, &steps)
    }

    /// Whether the first row of a branch may be worth it that is reached with probability `reached`; if not those behind
    /// it are not, either.
    pub fn may_branch(&self, worth: &Worth, reached: f64, state: State) -> bool {
        let rate = self.estimates.rate(Source::Branch, state);
        self.open || reached * rate * worth.ms >= (self.row(worth.rows) + BRANCHING) * worth.tokens
    }

    /// The probability that a forced run at `place` that is reached with that of `worth` is wrong somewhere, or more.
    pub fn run_fails(&self, worth: &Worth, place: State) -> f64 {
        let rate = |grade| self.estimates.rate(Source::Forced, State { grade, ..place });
        worth.survival * (1.0 - rate(0).min(rate(1)).min(rate(2)))
    }

    /// Adds a branch to what the round is worth.
    pub fn add_branch(&self, worth: &mut Worth, trunk: &[Proposal], after: usize, branch: &[Proposal]) {
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

    fn steps(&self, worth: &Worth, proposals: &[Proposal]) -> Vec<Step> {
        let step = |(i, p): (usize, &Proposal)| Step {
            rate: self.estimates.rate(p.source, p.state),
            ms: self.row(worth.rows + i),
        };
        proposals.iter().enumerate().map(step).collect()
    }

    /// Counts a decision.
    fn tell(&mut self, worth: &Worth, proposals: &[Proposal], steps: &[Step], taken: usize) {
        let Some(report) = &mut self.report else { return };
        let mut survival = worth.survival;
        for (i, (proposal, step)) in proposals.iter().zip(steps).enumerate() {
            survival *= step.rate;
            let decision = Tally {
                taken: usize::from(i < taken),
                left_out: usize::from(i >= taken),
                survival,
                row_ms: step.ms,
                needed: step.ms * worth.tokens / worth.ms.max(1e-9),
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
    pub(crate) fn ran(&mut self, of: Ran, tokens: usize, cached: usize, ms: f64) {
        if self.fixed || self.open || self.forwards.len() >= MOST_OBSERVED {
            return;
        }
        match (of, &mut self.draft) {
            (Ran::Target, _) => self.target.observe(tokens, cached, ms),
            (Ran::Draft, Some(draft)) => draft.observe(tokens, cached, ms),
            (Ran::Draft, None) => return,
        }
        self.forwards.push((of, tokens, cached, ms));
    }

    /// Learns what judging so many rows took.
    pub fn judged(&mut self, rows: usize, ms: f64) {
        if rows > 0 && !self.fixed {
            // A pause of the whole process says nothing about judging.
            let each = (ms / rows as f64).min(10.0 * self.judging);
            self.judging += FOLLOW * (each - self.judging);
        }
    }

    /// Adds what it observed to what is known of its engine, and how many tokens came of it.
    pub(crate) fn finish(&self, known: &mut Estimates, tokens: usize) {
        known.finish(self.rounds, &self.observed, tokens);
        for &(of, tokens, cached, ms) in &self.forwards {
            let table = if of == Ran::Draft { self.draft.as_ref() } else { Some(&self.target) };
            if let Some(table) = table {
                known.costs(of, table).observe(tokens, cached, ms);
            }
        }
    }
}

/// The number of steps that makes the round best, of those that make it no worse.
fn best(worth: &Worth, steps: &[Step]) -> usize {
    let (mut survival, mut tokens, mut ms) = (worth.survival, worth.tokens, worth.ms);
    let (mut taken, mut highest) = (0, tokens / ms.max(1e-9));
    for (i, step) in steps.iter().enumerate() {
        survival *= step.rate;
        tokens += survival;
        ms += step.ms;
        let ratio = tokens / ms.max(1e-9);
        if ratio >= highest {
            (taken, highest) = (i + 1, ratio);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::super::estimates::Class;
    use super::*;

    const PLACE: State = State { class: Class::Structure, grade: 1, key: 0 };
    const FORCED: Proposal = Proposal { token: 1, source: Source::Forced, state: PLACE };

    fn table(row: f64) -> CostTable {
        CostTable::from_points([(1, 1.0), (33, 1.0 + 32.0 * row)])
    }

    /// A gate that knows the rate of forced tokens, and nothing of judging.
    fn gate(row: f64, accepted: usize, of: usize) -> Gate {
        let mut gate = Gate::new(&table(row), Some(&table(0.0)), 24, Estimates::default());
        gate.judging = 0.0;
        for i in 0..400 {
            gate.estimates.learn((Source::Forced, PLACE, i % of < accepted));
        }
        gate
    }

    #[test]
    fn the_number_taken_is_the_best_of_all() {
        for row in [0.0, 0.05, 0.2, 0.4, 0.7, 0.9, 1.0] {
            for (accepted, of) in [(1, 1), (9, 10), (2, 3), (1, 2), (1, 8), (0, 1)] {
                let mut gate = gate(row, accepted, of);
                let worth = gate.begin(64);
                let rate = gate.estimates.rate(Source::Forced, PLACE);
                let ratio = |n: i32| {
                    let tokens: f64 = (0..=n).map(|i| rate.powi(i)).sum();
                    tokens / (1.0 + f64::from(n) * row)
                };
                let taken = gate.takes(&worth, &[FORCED; 24]);
                let most = (0..=24).map(ratio).fold(0.0, f64::max);
                assert!(ratio(taken as i32) >= most * (1.0 - 1e-9), "row {row}, rate {rate}: {taken}");
            }
        }
    }

    #[test]
    fn rows_that_cost_as_much_as_forwards_are_not_worth_it() {
        let mut gate = gate(1.0, 9, 10);
        let worth = gate.begin(64);
        assert_eq!(gate.takes(&worth, &[FORCED; 3]), 0);
    }

    #[test]
    fn later_rows_can_pay_for_an_unlikely_one() {
        let steps = |rates: &[f64]| rates.iter().map(|&rate| Step { rate, ms: 0.3 }).collect::<Vec<_>>();
        let worth = Worth { rows: 0, survival: 1.0, tokens: 1.0, ms: 1.0 };
        assert_eq!(best(&worth, &steps(&[0.29])), 0);
        assert_eq!(best(&worth, &steps(&[0.29, 1.0])), 0);
        assert_eq!(best(&worth, &steps(&[0.31, 1.0, 1.0])), 3);
        assert_eq!(best(&worth, &steps(&[0.9, 0.1])), 1);
    }

    #[test]
    fn branches_are_reached_where_the_trunk_is_wrong_and_weighed_like_other_rows() {
        for (accepted, of) in [(1, 1), (9, 10), (1, 2), (1, 8)] {
            let mut gate = gate(0.05, accepted, of);
            let mut worth = gate.begin(64);
            let trunk = [FORCED; 5];
            trunk.iter().for_each(|p| gate.add(&mut worth, p));
            // Verification ends behind exactly one number of proposals.
            let all: f64 = (0..=trunk.len()).map(|after| gate.reaches(&trunk, after)).sum();
            assert!((all - 1.0).abs() < 1e-9, "{all}");
            let branch = [Proposal { source: Source::Branch, ..FORCED }, FORCED, FORCED];
            for after in 0..=trunk.len() {
                let ratio = |n: usize| {
                    let mut with = worth;
                    gate.add_branch(&mut with, &trunk, after, &branch[..n]);
                    assert_eq!((with.rows, with.survival), (worth.rows + n, worth.survival));
                    with.tokens / with.ms
                };
                let taken = gate.takes_branch(&worth, &trunk, after, &branch);
                let most = (0..=branch.len()).map(ratio).fold(0.0, f64::max);
                assert!(ratio(taken) >= most * (1.0 - 1e-9), "{taken} behind {after}, rate {accepted}/{of}");
                if !gate.may_branch(&worth, gate.reaches(&trunk, after), PLACE) {
                    assert_eq!(taken, 0, "behind {after}, rate {accepted}/{of}");
                }
            }
        }
    }

    #[test]
    fn copies_that_are_not_looked_for_would_not_be_taken() {
        let mut random = crate::constraint::testing::Random::new(7);
        let (mut none, mut some) = (0, 0);
        for _ in 0..2000 {
            let mut gate =
                Gate::new(&table(random.below(110) as f64 / 100.0), None, 12, Estimates::default());
            gate.judging = 0.0;
            let state = |class, grade| State { class, grade, key: 3 };
            for class in [Class::Opening, Class::String, Class::Structure] {
                for (source, grade) in
                    [(Source::Lookup, 0), (Source::Lookup, 1), (Source::Lookup, 2), (Source::Forced, 1)]
                {
                    let accepted = random.below(11);
                    (0..40).for_each(|_| {
                        gate.estimates.learn((source, state(class, grade), random.below(10) < accepted))
                    });
                }
                let mut worth = gate.begin(64);
                for _ in 0..random.below(4) {
                    gate.add(&mut worth, &FORCED);
                }
                let first = u8::from(class != Class::Opening);
                let mut copy =
                    vec![Proposal { token: 1, source: Source::Lookup, state: state(class, first) }];
                copy.extend((0..random.below(12)).map(|i| match i < 5 {
                    true => Proposal { token: 1, source: Source::Lookup, state: state(class, 2) },
                    false => Proposal { token: 1, source: Source::Forced, state: state(class, 1) },
                }));
                let taken = gate.takes(&worth, &copy);
                match gate.may_copy(&worth, state(class, 0)) {
                    true => some += usize::from(taken > 0),
                    false => {
                        assert_eq!(taken, 0);
                        none += 1;
                    }
                }
            }
        }
        assert!(none > 500 && some > 500, "{none} {some}");
    }

    #[test]
    fn in_company_a_row_costs_what_it_adds_for_all() {
        let table = CostTable::from_points([(1, 1.0), (4, 1.3), (8, 2.4), (16, 4.0)]);
        let mut gate = Gate::new(&table, None, 8, Estimates::default());
        gate.judging = 0.0;
        gate.begin(64);
        assert!((gate.row(0) - 0.1).abs() < 1e-9);
        gate.in_company(4);
        assert!((gate.forward(1) - 1.3 / 4.0).abs() < 1e-9, "at once, in the middle of a round");
        gate.begin(64);
        assert!((gate.forward(1) - 1.3 / 4.0).abs() < 1e-9);
        assert!((gate.row(0) - 1.1 / 4.0).abs() < 1e-9);
    }

    #[test]
    fn the_draft_model_is_not_begun_for_a_few_tokens() {
        let draft = CostTable::from_points([(1, 0.05), (33, 0.5)]);
        let gate = Gate::new(&table(0.2), Some(&draft), 24, Estimates::default());
        assert!(gate.begins(300, 500));
        assert!(!gate.begins(300, 3));
    }

    #[test]
    fn an_open_gate_takes_all_there_is_room_for() {
        let mut gate = Gate::open(5);
        let mut worth = gate.begin(0);
        assert_eq!(gate.takes(&worth, &[FORCED; 9]), 5);
        worth.rows = 4;
        assert_eq!(gate.takes(&worth, &[FORCED; 9]), 1);
        assert!(gate.asks(&worth, State::FREE, &[], 400) && gate.begins(1000, 1));
    }
}
