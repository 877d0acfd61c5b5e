//! The trace of a session: the steps that were not reported yet.
//!
//! # Cost
//!
//! Linear in the drafts; nothing unless the request asks for a trace.

use super::Verified;
use crate::decode::drafting::FinishedDraft;
use crate::decode::origin::{TokenOrigin, TokenSource};
use crate::decode::stats::Stats;
use crate::decode::trace::{ForwardTrace, RejectedDraft, TracedToken};
use crate::decode::transcript::Transcript;
use crate::draft::Proposal;

/// The steps of a session that were not reported yet.
#[derive(Default)]
pub(super) struct TraceLog {
    steps: Vec<ForwardTrace>,
    /// Number of output tokens that the steps so far cover.
    covered: usize,
    /// Calls of the draft model in these steps.
    draft_forwards: usize,
}

impl TraceLog {
    /// Notes a forward of `positions`, with the tokens that it brought.
    pub(super) fn forward(
        &mut self,
        stats: &Stats,
        (positions, draft_forwards): (usize, usize),
        tokens: Vec<TracedToken>,
        rejected: Vec<RejectedDraft>,
    ) {
        let begin = self.covered;
        self.covered += tokens.len();
        self.steps.push(ForwardTrace {
            forward: stats.forwards,
            positions,
            draft_forwards: draft_forwards - self.draft_forwards,
            begin,
            tokens,
            rejected,
            taken_back: 0,
        });
        self.draft_forwards = draft_forwards;
    }

    /// Notes that the output was cut to a number of tokens. Tokens that no step covers leave no trace.
    pub(super) fn cut(&mut self, tokens: usize) {
        let gone = self.covered.saturating_sub(tokens);
        self.covered -= gone;
        if let Some(last) = self.steps.last_mut() {
            last.taken_back += gone;
        }
    }

    /// Returns the steps that were not returned yet. Output tokens that no forward brought are a
    /// step of their own.
    pub(super) fn take(&mut self, output: &Transcript, stats: &Stats) -> Vec<ForwardTrace> {
        let origins = output.reports.origins.as_deref().unwrap_or_default();
        let unforwarded = output.tokens().iter().zip(origins).skip(self.covered);
        let tokens: Vec<TracedToken> =
            unforwarded.map(|(&token, &TokenOrigin { source, .. })| TracedToken { token, source }).collect();
        if !tokens.is_empty() {
            self.forward(stats, (0, self.draft_forwards), tokens, Vec::new());
        }
        std::mem::take(&mut self.steps)
    }
}

/// Returns the part of a draft behind its first `chosen` proposals, if there is one.
pub(super) fn rejected_of(draft: &FinishedDraft, begin: usize, chosen: usize) -> Vec<RejectedDraft> {
    let token = |p: &Proposal| TracedToken { token: p.token, source: TokenSource::Proposed(p.source()) };
    let tokens: Vec<TracedToken> = draft.proposals()[chosen..].iter().map(token).collect();
    let rejected = RejectedDraft { after: begin + chosen, tokens };
    Some(rejected).filter(|rejected| !rejected.tokens.is_empty()).into_iter().collect()
}

/// Returns the origins of the tokens of a round.
pub(super) fn origins_of(draft: &FinishedDraft, verified: &Verified) -> Vec<TokenOrigin> {
    let (agreed, rejected) = draft.proposals().split_at(verified.chosen);
    let proposed = |proposal: &Proposal| TokenOrigin::new(TokenSource::Proposed(proposal.source()));
    let mut origins: Vec<TokenOrigin> = agreed.iter().map(proposed).collect();
    origins.resize(verified.tokens.len(), TokenOrigin::new(TokenSource::Sampled));
    // If the output ended at a position, no token replaced the proposals there.
    if let Some(origin) = origins.get_mut(verified.chosen) {
        origin.rejected += rejected.len() as u32;
    }
    origins
}
