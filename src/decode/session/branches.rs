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

use super::drafting::Draft;
use super::step::legal_if_few;
use super::{Mode, Session};
use crate::draft::{
    CHOSEN, OutputRegion, Proposal, ProposalContext, RoundEstimate, RunnerUp, Source, take_legal,
};
use crate::matcher::Matcher;
use crate::model;
use crate::vocab::TokenId;

/// Largest number of branch points kept for a draft.
pub(super) const MAX_BRANCH_POINTS: usize = 16;
/// Largest number of alternatives that are tried together, and of legal tokens that they may begin
/// with.
const MAX_CHOICES: usize = 4;
const MAX_CHOICE_TOKENS: usize = 64;
/// Lead of the draft model's choice, as a grade, at which the choice counts as certain.
const CONFIDENT_LEAD: u8 = 3;

/// The reason for a branch, which is the grade of its first proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchReason {
    /// The draft model's second choice; `sure` if the first led by a little, false if by hardly
    /// anything.
    RunnerUp { sure: bool },
    /// The constraint leaves a few alternatives.
    FewChoices,
    /// A forced run has another tokenisation.
    Tokenization,
}

impl BranchReason {
    fn grade(self) -> u8 {
        match self {
            BranchReason::RunnerUp { sure: false } => 0,
            BranchReason::RunnerUp { sure: true } => 1,
            BranchReason::FewChoices => 2,
            BranchReason::Tokenization => 3,
        }
    }
}

/// A position where the draft may be wrong.
pub(super) struct BranchPoint {
    /// Number of proposals of the draft before the position.
    after: usize,
    /// The constraint at the position.
    matcher: Matcher,
    /// The tokens to propose instead, at least one; the first differs from the draft's.
    tokens: Vec<TokenId>,
    place: ProposalContext,
    reason: BranchReason,
}

/// Proposals that continue the first `after` proposals of the draft.
pub(super) struct Branch {
    pub after: usize,
    /// At least one.
    pub proposals: Vec<Proposal>,
}

impl Branch {
    /// Returns the branch as the model sees it after `pending` tokens in front of the draft.
    pub fn after_pending(&self, pending: usize) -> model::Branch {
        model::Branch { after: pending + self.after, len: self.proposals.len() }
    }
}

impl Session {
    /// Returns true if this generation drafts branches. It does so only alone: in a batch their
    /// rows cost more than they gain.
    pub(super) fn may_branch(&self) -> bool {
        self.mode == Mode::Exact && self.batch_context.sequences == 1 && self.drafting.branches
    }

    /// Returns the grade of the draft model's lead at which its choice counts as certain.
    pub(super) fn min_lead(&self) -> u8 {
        if self.may_branch() { CONFIDENT_LEAD } else { 0 }
    }

    /// Adds the draft model's second choices for the proposals after the first `before` as branch
    /// points.
    pub(super) fn branch_on_runner_ups(draft: &mut Draft, before: usize, seconds: Vec<RunnerUp>) {
        for second in seconds {
            let after = before + second.of;
            // A token that was not drafted needs no branch.
            if after >= draft.proposals.len() || draft.branch_points.len() >= MAX_BRANCH_POINTS {
                break;
            }
            let reason = BranchReason::RunnerUp { sure: second.lead > 0 };
            let (matcher, place) = (second.matcher, draft.place);
            draft.branch_points.push(BranchPoint {
                after,
                matcher,
                tokens: vec![second.token],
                place,
                reason,
            });
        }
    }

    /// Returns true if another tokenisation of the coming forced run is to be tried.
    pub(super) fn may_branch_on_tokenization(&self, worth: &RoundEstimate, place: ProposalContext) -> bool {
        let gate = &self.drafting.gate;
        let state = ProposalContext { confidence: BranchReason::Tokenization.grade(), ..place };
        self.may_branch() && gate.may_branch(worth, gate.run_fails(worth, place), state)
    }

    /// Adds the continuations of the draft as branch points, if they are few and no source has
    /// chosen one.
    fn branch_on_choices(&self, draft: &mut Draft) {
        let place = self.place(draft);
        let state = ProposalContext { confidence: BranchReason::FewChoices.grade(), ..place };
        if !self.drafting.gate.may_branch(&draft.estimate, draft.estimate.survival, state) {
            return;
        }
        let Some(matcher) = &mut draft.matcher else { return };
        if matcher.is_terminated() || place.class == OutputRegion::String || matcher.is_forced() {
            return;
        }
        // For each first byte the longest token, because it is the most specific.
        let mut ways: Vec<(u8, TokenId)> = Vec::new();
        for token in legal_if_few(matcher, MAX_CHOICE_TOKENS) {
            let bytes = self.vocab.token_bytes(token);
            let Some(first) = bytes.first() else { continue };
            match ways.iter_mut().find(|way| way.0 == *first) {
                Some(way) if self.vocab.token_bytes(way.1).len() < bytes.len() => way.1 = token,
                Some(_) => {}
                None => ways.push((*first, token)),
            }
        }
        if !(2..=MAX_CHOICES).contains(&ways.len()) {
            return;
        }
        for (_, token) in ways {
            let doubt = BranchPoint {
                after: draft.proposals.len(),
                matcher: matcher.fork(),
                tokens: vec![token],
                place,
                reason: BranchReason::FewChoices,
            };
            draft.branch_points.push(doubt);
        }
    }

    /// Adds to a finished draft the branches that are worth their forward rows.
    pub(super) fn branch(&self, draft: &mut Draft) -> Vec<Branch> {
        if !self.may_branch() {
            return Vec::new();
        }
        if self.drafting.model.is_none() {
            self.branch_on_choices(draft);
        }
        let mut branches: Vec<Branch> = Vec::new();
        let mut rows = draft.proposals.len();
        for doubt in std::mem::take(&mut draft.branch_points) {
            let room = draft.room.saturating_sub(rows);
            let known = |b: &Branch| b.after == doubt.after && b.proposals[0].token == doubt.tokens[0];
            let drafted = draft.proposals.get(doubt.after).map(|p| p.token);
            if room == 0 || doubt.after > draft.proposals.len() || drafted == Some(doubt.tokens[0]) {
                continue;
            }
            if branches.iter().any(known) {
                continue;
            }
            let (after, gate) = (doubt.after, &self.drafting.gate);
            if !gate.may_branch(&draft.estimate, gate.reaches(&draft.proposals, after), doubt.state()) {
                continue;
            }
            let mut proposals = doubt.proposals(room);
            let taken = gate.takes_branch(&draft.estimate, &draft.proposals, after, &proposals);
            proposals.truncate(taken);
            if proposals.is_empty() {
                continue;
            }
            gate.add_branch(&mut draft.estimate, &draft.proposals, after, &proposals);
            rows += proposals.len();
            branches.push(Branch { after, proposals });
        }
        branches
    }
}

/// Returns a branch point for another tokenisation of the forced `run`, drafted after `before`
/// proposals. It is the greedy one, by longest token, and starts only where the target's choice is
/// not known.
pub(super) fn branch_on_tokenization(
    before: usize,
    matcher: &mut Matcher,
    run: &[Proposal],
    place: ProposalContext,
) -> Option<BranchPoint> {
    if run.is_empty() {
        return None;
    }
    let longest = matcher.longest_forced_start(run.len()).tokens;
    let same = longest.iter().zip(run).take_while(|(a, b)| **a == b.token).count();
    if same == longest.len() || run.get(same).is_none_or(|p| p.state.confidence == CHOSEN) {
        return None;
    }
    let mut matcher = matcher.fork();
    if run[..same].iter().any(|p| matcher.accept_token(p.token).is_err()) {
        return None;
    }
    let tokens = longest[same..].to_vec();
    Some(BranchPoint { after: before + same, matcher, tokens, place, reason: BranchReason::Tokenization })
}

impl BranchPoint {
    /// Returns the context of its first proposal.
    fn state(&self) -> ProposalContext {
        ProposalContext { confidence: self.reason.grade(), ..self.place }
    }

    /// Returns the legal part of the proposed tokens and of the run that is forced after them.
    fn proposals(self, room: usize) -> Vec<Proposal> {
        let first = self.state();
        let further = ProposalContext { confidence: 1, ..self.place };
        let of = |(i, token): (usize, TokenId)| match i {
            0 => Proposal { token, source: Source::Branch, state: first },
            _ => Proposal { token, source: Source::Forced, state: further },
        };
        let mut matcher = self.matcher;
        let mut proposals = Vec::new();
        let own = self.tokens.into_iter().enumerate().map(of);
        take_legal(Some(&mut matcher), own, room, &mut proposals);
        if let Some(last) = proposals.last()
            && self.reason != BranchReason::Tokenization
            && !matcher.is_terminated()
        {
            let forced = matcher.forced_prefix(Some(last.token), room).tokens;
            let forced = forced.into_iter().enumerate().map(|(i, token)| of((i + 1, token)));
            take_legal(Some(&mut matcher), forced, room, &mut proposals);
        }
        proposals
    }
}
