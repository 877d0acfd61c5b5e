//! Branches of a draft: alternative continuations that form a small tree in one forward.
//!
//! At an uncertain position of the draft, other tokens are proposed in addition: the draft model's
//! second choice, each of a few alternatives that the constraint leaves, or another tokenisation of
//! a forced run. The bytes that the constraint forces after the first of them follow. The target
//! sees each branch after the part of the draft that it continues. Verification continues in the
//! branch that begins with the chosen token. So a branch saves a forward where the draft is wrong
//! and the branch is right; the draft gate weighs that as for any other forward row.
//!
//! # Cost
//!
//! A fork of the matcher for each branch point.
//!
//! # Alternatives considered
//!
//! Branches of branches were rejected: the draft itself is nearly always right, so a second
//! uncertain position in a row is hardly ever reached.

use super::Drafter;
use super::draft::Draft;
use super::legal_if_few;
use crate::decode::stats::Mode;
use crate::draft::{
    BranchKind, DraftRun, ForcedKind, ModelKind, OutputRegion, Proposal, ProposalContext, ProposalKind,
    RoundEstimate, RunnerUp,
};
use crate::matcher::Matcher;
use crate::model;
use crate::vocab::{TokenId, Vocabulary};

/// Largest number of branch points kept for a draft.
pub(super) const MAX_BRANCH_POINTS: usize = 16;
/// Largest number of alternatives that are tried together, and of legal tokens that they may begin
/// with.
const MAX_CHOICES: usize = 4;
const MAX_CHOICE_TOKENS: usize = 64;
/// Lead of the draft model's choice at which the choice counts as certain.
const CONFIDENT_LEAD: ModelKind = ModelKind::LeadBelow6;

/// A position where the draft may be wrong.
pub(super) struct BranchPoint {
    /// Number of proposals of the draft before the position.
    after: usize,
    /// The constraint at the position.
    matcher: Matcher,
    /// The tokens to propose instead, at least one; the first differs from the draft's.
    tokens: Vec<TokenId>,
    place: ProposalContext,
    reason: BranchKind,
}

/// Proposals that continue the first `after` proposals of the draft.
pub(in crate::decode) struct Branch {
    pub after: usize,
    /// At least one proposal.
    pub run: DraftRun,
}

impl Branch {
    /// Returns the branch as the model sees it after `pending` tokens in front of the draft.
    pub fn after_pending(&self, pending: usize) -> model::Branch {
        model::Branch { after: pending + self.after, len: self.run.len() }
    }
}

impl Draft {
    /// Adds the draft model's second choices for the proposals after the first `before` as branch
    /// points.
    pub(super) fn branch_on_runner_ups(&mut self, before: usize, seconds: Vec<RunnerUp>) {
        for second in seconds {
            let after = before + second.of;
            // A token that was not drafted needs no branch.
            if after >= self.run.len() || self.branch_points.len() >= MAX_BRANCH_POINTS {
                break;
            }
            let reason = match second.lead {
                ModelKind::LeadBelow05 => BranchKind::CloseRunnerUp,
                _ => BranchKind::RunnerUp,
            };
            let (matcher, tokens, place) = (second.matcher, vec![second.token], self.place);
            self.branch_points.push(BranchPoint { after, matcher, tokens, place, reason });
        }
    }
}

impl Drafter {
    /// Returns true if this generation drafts branches. It does so only alone: in a batch their
    /// rows cost more than they gain.
    fn may_branch(&self) -> bool {
        self.mode == Mode::Exact && self.batch.sequences == 1 && self.sources.branches
    }

    /// Returns the lead of the draft model at which its choice counts as certain.
    pub(super) fn min_lead(&self) -> ModelKind {
        if self.may_branch() { CONFIDENT_LEAD } else { ModelKind::LeadBelow05 }
    }

    /// Returns true if another tokenisation of the coming forced run is to be tried.
    pub(super) fn may_branch_on_tokenization(&self, worth: &RoundEstimate, place: ProposalContext) -> bool {
        let first = (BranchKind::Tokenization, place);
        self.may_branch() && self.gate.may_branch(worth, self.gate.run_fails(worth, place), first)
    }

    /// Adds the continuations of the draft as branch points, if they are few and no source has
    /// chosen one.
    fn branch_on_choices(&self, draft: &mut Draft, vocab: &Vocabulary) {
        let place = draft.context();
        let first = (BranchKind::FewChoices, place);
        if !self.gate.may_branch(&draft.estimate, draft.estimate.survival, first) {
            return;
        }
        let after = draft.run.len();
        let Some(matcher) = draft.run.matcher_mut() else { return };
        if matcher.is_terminated() || place.class == OutputRegion::String || matcher.is_forced() {
            return;
        }
        // For each first byte the longest token, because it is the most specific.
        let mut ways: Vec<(u8, TokenId)> = Vec::new();
        for token in legal_if_few(matcher, MAX_CHOICE_TOKENS) {
            let bytes = vocab.token_bytes(token);
            let Some(first) = bytes.first() else { continue };
            match ways.iter_mut().find(|way| way.0 == *first) {
                Some(way) if vocab.token_bytes(way.1).len() < bytes.len() => way.1 = token,
                Some(_) => {}
                None => ways.push((*first, token)),
            }
        }
        if !(2..=MAX_CHOICES).contains(&ways.len()) {
            return;
        }
        let point = |token| BranchPoint {
            after,
            matcher: matcher.fork(),
            tokens: vec![token],
            place,
            reason: BranchKind::FewChoices,
        };
        draft.branch_points.extend(ways.into_iter().map(|way| point(way.1)));
    }

    /// Returns the branches of a finished draft that are worth their forward rows.
    pub(super) fn branch(&self, draft: &mut Draft, vocab: &Vocabulary) -> Vec<Branch> {
        if !self.may_branch() {
            return Vec::new();
        }
        if self.sources.model.is_none() {
            self.branch_on_choices(draft, vocab);
        }
        let mut branches: Vec<Branch> = Vec::new();
        let mut rows = draft.run.len();
        for doubt in std::mem::take(&mut draft.branch_points) {
            let room = draft.room.saturating_sub(rows);
            let trunk = draft.run.proposals();
            let known = |b: &Branch| b.after == doubt.after && b.run.proposals()[0].token == doubt.tokens[0];
            let drafted = trunk.get(doubt.after).map(|p| p.token);
            if room == 0 || doubt.after > trunk.len() || drafted == Some(doubt.tokens[0]) {
                continue;
            }
            if branches.iter().any(known) {
                continue;
            }
            let (after, gate) = (doubt.after, &self.gate);
            let first = (doubt.reason, doubt.place);
            if !gate.may_branch(&draft.estimate, gate.reaches(trunk, after), first) {
                continue;
            }
            let mut run = doubt.run(room);
            run.truncate(gate.takes_branch(&draft.estimate, trunk, after, run.proposals()));
            if run.is_empty() {
                continue;
            }
            gate.add_branch(&mut draft.estimate, trunk, after, run.proposals());
            rows += run.len();
            branches.push(Branch { after, run });
        }
        branches
    }
}

/// Returns a branch point for another tokenisation of the forced `run`, drafted after `before`
/// proposals. It is the greedy one, by longest token, and starts only where the target's choice is
/// not known. `legal` is the legal part of the run.
pub(super) fn branch_on_tokenization(
    before: usize,
    matcher: &Matcher,
    (run, legal): (&[Proposal], &DraftRun),
    place: ProposalContext,
) -> Option<BranchPoint> {
    if run.is_empty() {
        return None;
    }
    let longest = matcher.longest_forced_start(run.len()).tokens;
    let same = longest.iter().zip(run).take_while(|(a, b)| **a == b.token).count();
    let chosen = |p: &Proposal| p.kind == ProposalKind::Forced(ForcedKind::Chosen);
    if same == longest.len() || same > legal.len() || run.get(same).is_none_or(chosen) {
        return None;
    }
    let (matcher, tokens) = (legal.matcher_after(same)?, longest[same..].to_vec());
    Some(BranchPoint { after: before + same, matcher, tokens, place, reason: BranchKind::Tokenization })
}

impl BranchPoint {
    /// Returns the legal part of the proposed tokens and of the run that is forced after them.
    fn run(self, room: usize) -> DraftRun {
        let (reason, context) = (self.reason, self.place);
        let of = |(i, token): (usize, TokenId)| match i {
            0 => Proposal { token, kind: ProposalKind::Branch(reason), context },
            _ => Proposal { token, kind: ProposalKind::Forced(ForcedKind::Inside), context },
        };
        let own = self.tokens.into_iter().enumerate().map(of);
        let mut run = DraftRun::legal(Some(self.matcher), own, room);
        if let (Some(last), Some(matcher)) = (run.tokens().last(), run.matcher())
            && reason != BranchKind::Tokenization
            && !matcher.is_terminated()
        {
            let forced = matcher.forced_prefix(Some(last), room).tokens;
            run.extend_legal(forced.into_iter().enumerate().map(|(i, token)| of((i + 1, token))), room);
        }
        run
    }
}
