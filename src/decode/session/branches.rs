//! Other ways to go on, beside the draft: a small tree in one forward.
//!
//! Where the draft is in doubt, tokens are proposed that stand beside it: the draft model's second choice, each of
//! a few alternatives that the constraint leaves, another split of a forced run into tokens; behind the first of them
//! what it forces. The target sees each branch behind the part of the draft that it goes on from, and verification
//! turns into the one that begins with the token that was chosen. So a branch saves a forward where the draft is
//! wrong and the branch is right; the gate weighs that like any other row. Cost: a fork of the matcher for each doubt.
//! Branches of branches were rejected: with the draft itself nearly always right, the second doubt in a row is
//! hardly ever reached.

use super::drafting::Draft;
use super::step::legal_if_few;
use super::{Mode, Session};
use crate::draft::{
    CHOSEN, OutputRegion, Proposal, ProposalContext, RoundEstimate, RunnerUp, Source, take_legal,
};
use crate::matcher::Matcher;
use crate::model;
use crate::vocab::TokenId;

/// Most doubts that are kept of a draft.
pub(super) const MOST_DOUBTS: usize = 16;
/// Most ways to go on that are tried beside each other, and the most legal tokens they may be spelled with.
const MAX_CHOICES: usize = 4;
const MOST_TOKENS: usize = 64;
/// Lead of the draft model's choice, as a grade, from which on there is no doubt.
const CONFIDENT_LEAD: u8 = 3;

/// Why there is a branch: the grade of its first proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BranchReason {
    /// The draft model's second choice where the first led a little, or hardly.
    Second { sure: bool },
    /// The constraint leaves a few ways to go on.
    Ways,
    /// A forced run can be written in other tokens.
    Split,
}

impl BranchReason {
    fn grade(self) -> u8 {
        match self {
            BranchReason::Second { sure: false } => 0,
            BranchReason::Second { sure: true } => 1,
            BranchReason::Ways => 2,
            BranchReason::Split => 3,
        }
    }
}

/// A place where the draft may be wrong.
pub(super) struct BranchPoint {
    /// Proposals of the draft before it.
    after: usize,
    /// The constraint there.
    matcher: Matcher,
    /// What to propose instead, never nothing; the first differs from the draft's.
    tokens: Vec<TokenId>,
    place: ProposalContext,
    reason: BranchReason,
}

/// Proposals that go on from the first `after` of the draft.
pub(super) struct Branch {
    pub after: usize,
    /// Never none.
    pub proposals: Vec<Proposal>,
}

impl Branch {
    /// As the model is to see it behind `pending` tokens in front of the draft.
    pub fn behind(&self, pending: usize) -> model::Branch {
        model::Branch { after: pending + self.after, len: self.proposals.len() }
    }
}

impl Session {
    /// Whether this generation drafts branches: alone, for in company rows are worth less than they cost.
    pub(super) fn may_branch(&self) -> bool {
        self.mode == Mode::Exact && self.company.sequences == 1 && self.drafting.branches
    }

    /// Grade of the draft model's lead from which on there is no doubt.
    pub(super) fn min_lead(&self) -> u8 {
        if self.may_branch() { CONFIDENT_LEAD } else { 0 }
    }

    /// Takes note of what the draft model would have written instead of the proposals behind the first `before`.
    pub(super) fn branch_on_runner_ups(draft: &mut Draft, before: usize, seconds: Vec<RunnerUp>) {
        for second in seconds {
            let after = before + second.of;
            // What was not drafted is not doubted either.
            if after >= draft.proposals.len() || draft.doubts.len() >= MOST_DOUBTS {
                break;
            }
            let reason = BranchReason::Second { sure: second.lead > 0 };
            let (matcher, place) = (second.matcher, draft.place);
            draft.doubts.push(BranchPoint { after, matcher, tokens: vec![second.token], place, reason });
        }
    }

    /// Whether to look for another split of the forced run that comes next.
    pub(super) fn may_doubt_split(&self, worth: &RoundEstimate, place: ProposalContext) -> bool {
        let gate = &self.drafting.gate;
        let state = ProposalContext { confidence: BranchReason::Split.grade(), ..place };
        self.may_branch() && gate.may_branch(worth, gate.run_fails(worth, place), state)
    }

    /// The ways to go on behind the draft, where these are few and nobody has chosen.
    fn branch_on_choices(&self, draft: &mut Draft) {
        let place = self.place(draft);
        let state = ProposalContext { confidence: BranchReason::Ways.grade(), ..place };
        if !self.drafting.gate.may_branch(&draft.worth, draft.worth.survival, state) {
            return;
        }
        let Some(matcher) = &mut draft.matcher else { return };
        if matcher.is_terminated() || place.class == OutputRegion::String || matcher.is_forced() {
            return;
        }
        // For each first byte the longest token: the one that says most about what is meant.
        let mut ways: Vec<(u8, TokenId)> = Vec::new();
        for token in legal_if_few(matcher, MOST_TOKENS) {
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
                reason: BranchReason::Ways,
            };
            draft.doubts.push(doubt);
        }
    }

    /// Adds the branches that are worth their rows to a finished draft.
    pub(super) fn branch(&self, draft: &mut Draft) -> Vec<Branch> {
        if !self.may_branch() {
            return Vec::new();
        }
        if self.drafting.model.is_none() {
            self.branch_on_choices(draft);
        }
        let mut branches: Vec<Branch> = Vec::new();
        let mut rows = draft.proposals.len();
        for doubt in std::mem::take(&mut draft.doubts) {
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
            if !gate.may_branch(&draft.worth, gate.reaches(&draft.proposals, after), doubt.state()) {
                continue;
            }
            let mut proposals = doubt.proposals(room);
            let taken = gate.takes_branch(&draft.worth, &draft.proposals, after, &proposals);
            proposals.truncate(taken);
            if proposals.is_empty() {
                continue;
            }
            gate.add_branch(&mut draft.worth, &draft.proposals, after, &proposals);
            rows += proposals.len();
            branches.push(Branch { after, proposals });
        }
        branches
    }
}

/// Another split of the forced `run`, which is to be drafted behind `before` proposals, if there is one: by longest
/// token, where it is not known what the target chooses.
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
    Some(BranchPoint { after: before + same, matcher, tokens, place, reason: BranchReason::Split })
}

impl BranchPoint {
    /// The state of its first proposal.
    fn state(&self) -> ProposalContext {
        ProposalContext { confidence: self.reason.grade(), ..self.place }
    }

    /// What is proposed, and what is forced behind it; as far as it is legal.
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
            && self.reason != BranchReason::Split
            && !matcher.is_terminated()
        {
            let forced = matcher.forced_prefix(Some(last.token), room).tokens;
            let forced = forced.into_iter().enumerate().map(|(i, token)| of((i + 1, token)));
            take_legal(Some(&mut matcher), forced, room, &mut proposals);
        }
        proposals
    }
}
