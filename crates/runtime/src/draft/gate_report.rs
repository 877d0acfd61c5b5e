//! The gate's report: the reasons for the lengths of drafts, by source and output region.
//!
//! # Cost
//!
//! Nothing unless requested. Then a map entry for each kind of decision, of which there are at most
//! a few dozen.
//!
//! # Alternatives considered
//!
//! A log of all rounds was rejected: it grows with the output and says less.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::acceptance::{AcceptanceRates, OutputRegion, ProposalContext};
use super::sources::{DraftSource, ProposalKind};

/// One decision, or sums over several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Tally {
    pub taken: usize,
    pub left_out: usize,
    pub survival: f64,
    pub row_ms: f64,
    pub needed: f64,
}

/// The decisions about the proposals of one source of one kind in one output region.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GateLine {
    /// The source of the proposals.
    pub source: DraftSource,
    /// The output region.
    pub class: OutputRegion,
    /// The kind of the proposals, in words.
    pub grade: &'static str,
    /// Proposals taken into a draft.
    pub taken: usize,
    /// Proposals left out.
    pub left_out: usize,
    /// Verified proposals: those with every proposal before them accepted.
    pub verified: usize,
    /// Verified proposals that were accepted.
    pub accepted: usize,
    /// The final estimate: probability that such a proposal is accepted, given that those before it
    /// are.
    pub rate: f64,
    /// Mean over the decisions: probability that it and all before it are accepted.
    pub survival: f64,
    /// Mean over the decisions: milliseconds that it costs.
    pub row_ms: f64,
    /// Mean over the decisions: the lowest survival at which it pays by itself.
    pub survival_needed: f64,
}

impl GateLine {
    /// Returns a short verdict: `taken`, `left out` or `at times`.
    pub fn verdict(&self) -> &'static str {
        match (self.taken, self.left_out) {
            (_, 0) => "taken",
            (0, _) => "left out",
            _ => "at times",
        }
    }
}

/// The reasons for the lengths of drafts; see
/// [`Request::explain_gate`](crate::Request::explain_gate).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct GateReport {
    /// The decisions.
    pub lines: Vec<GateLine>,
    /// True if the gate let everything through (`ungated`).
    pub open: bool,
    /// Milliseconds of a forward of the target by its number of tokens, after 64 positions.
    pub target_ms: Vec<(usize, f64)>,
    /// The same for the draft model; empty without one.
    pub draft_ms: Vec<(usize, f64)>,
    /// Milliseconds that each cached position adds to a row of the target.
    pub cached_position_ms: f64,
    /// Milliseconds for the mask, the choice and the bookkeeping of a row.
    pub judging_ms: f64,
    /// The shares of the target's and the draft model's costs that were believed at the end. A
    /// share is less than 1 where the gate leaves out something that may pay, until it tries.
    pub costs_believed: [f64; 2],
    /// Number of positions in the cache in the last round.
    pub cached: usize,
    #[serde(skip)]
    sums: BTreeMap<(DraftSource, OutputRegion, ProposalKind), (Tally, usize, usize)>,
}

impl GateReport {
    fn sum(&mut self, kind: ProposalKind, at: ProposalContext) -> &mut (Tally, usize, usize) {
        self.sums.entry((kind.source(), at.class, kind)).or_default()
    }

    pub(super) fn decided(&mut self, kind: ProposalKind, at: ProposalContext, one: &Tally) {
        let sum = &mut self.sum(kind, at).0;
        sum.taken += one.taken;
        sum.left_out += one.left_out;
        sum.survival += one.survival;
        sum.row_ms += one.row_ms;
        sum.needed += one.needed;
    }

    pub(super) fn verified(&mut self, kind: ProposalKind, at: ProposalContext, accepted: bool) {
        let sum = self.sum(kind, at);
        sum.1 += 1;
        sum.2 += usize::from(accepted);
    }

    pub(super) fn finish(&mut self, estimates: &AcceptanceRates) {
        let line = |(&(source, class, kind), &(sum, verified, accepted)): (
            &(DraftSource, OutputRegion, ProposalKind),
            &(Tally, usize, usize),
        )| {
            let count = (sum.taken + sum.left_out).max(1) as f64;
            GateLine {
                source,
                class,
                grade: kind.label(),
                taken: sum.taken,
                left_out: sum.left_out,
                verified,
                accepted,
                rate: estimates.rate(kind, ProposalContext { class, key: 0 }),
                survival: sum.survival / count,
                row_ms: sum.row_ms / count,
                survival_needed: sum.needed / count,
            }
        };
        self.lines = self.sums.iter().map(line).collect();
    }
}

impl fmt::Display for GateReport {
    /// Writes a table for people to read. Milliseconds are those of this machine.
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let points = |points: &[(usize, f64)]| {
            points.iter().map(|(m, ms)| format!("{m}: {ms:.3}")).collect::<Vec<_>>().join(", ")
        };
        if self.open {
            return writeln!(f, "the gate was open: every draft grew as long as it could");
        }
        writeln!(f, "target, ms by tokens: {}", points(&self.target_ms))?;
        if !self.draft_ms.is_empty() {
            writeln!(f, "draft model, ms by tokens: {}", points(&self.draft_ms))?;
        }
        writeln!(
            f,
            "a cached position adds {:.6} ms to a row ({} at the end), judging a row takes {:.4} ms",
            self.cached_position_ms, self.cached, self.judging_ms
        )?;
        if self.costs_believed != [1.0; 2] {
            let [target, draft] = self.costs_believed.map(|share| share * 100.0);
            writeln!(
                f,
                "left out, but may be worth it: {target:.0} % of the target's costs are believed, {draft:.0} % of the draft model's"
            )?;
        }
        writeln!(
            f,
            "{:<8} {:<10} {:<24} {:>6} {:>8} {:>9} {:>6} {:>9} {:>8} {:>7}  verdict",
            "source", "place", "", "taken", "left out", "accepted", "rate", "survival", "needed", "row ms"
        )?;
        for l in &self.lines {
            writeln!(
                f,
                "{:<8} {:<10} {:<24} {:>6} {:>8} {:>9} {:>6.2} {:>9.2} {:>8.2} {:>7.3}  {}",
                l.source.name(),
                format!("{:?}", l.class).to_lowercase(),
                l.grade,
                l.taken,
                l.left_out,
                format!("{}/{}", l.accepted, l.verified),
                l.rate,
                l.survival,
                l.survival_needed,
                l.row_ms,
                l.verdict(),
            )?;
        }
        Ok(())
    }
}
