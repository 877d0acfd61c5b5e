//! Other ways to go on, beside the draft: a small tree in one forward.
//!
//! Where the draft is in doubt, tokens are proposed that stand beside it: the draft model's second choice, each of
//! a few alternatives that the constraint leaves, another split of a forced run into tokens; behind the first of them
//! what it forces. The target sees each branch behind the part of the draft that it goes on from, and verification
//! turns into the one that begins with the token that was chosen. So a branch saves a forward where the draft is
//! wrong and the branch is right; the gate weighs that like any other row. Cost: a fork of the matcher for each doubt.
//! Branches of branches were rejected: with the draft itself nearly always right, the second doubt in a row is
//! hardly ever reached.

use super::propose::Draft;
use super::step::few;
use super::{Mode, Session};
use crate::draft::{CHOSEN, Class, Proposal, Second, Source, State, Worth, take_legal};
use crate::matcher::Matcher;
use crate::model;
use crate::vocab::TokenId;

/// Most doubts that are kept of a draft.
pub(super) const MOST_DOUBTS: usize = 16;
/// Most ways to go on that are tried beside each other, and the most legal tokens they may be spelled with.
const MOST_WAYS: usize = 4;
const MOST_TOKENS: usize = 64;
/// Lead of the draft model's choice, as a grade, from which on there is no doubt.
const SURE: u8 = 3;

/// Why there is a branch: the grade of its first proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reason {
    /// The draft model's second choice where the first led a little, or hardly.
    Second { sure: bool },
    /// The constraint leaves a few ways to go on.
    Ways,
    /// A forced run can be written in other tokens.
    Split,
}

impl Reason {
    fn grade(self) -> u8 {
        match self {
            Reason::Second { sure: false } => 0,
            Reason::Second { sure: true } => 1,
            Reason::Ways => 2,
            Reason::Split => 3,
        }
    }
}

/// A place where the draft may be wrong.
pub(super) struct Doubt {
    /// Proposals of the draft before it.
    after: usize,
    /// The constraint there.
    matcher: Matcher,
    /// What to propose instead, never nothing; the first differs from the draft's.
    tokens: Vec<TokenId>,
    place: State,
    reason: Reason,
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
    pub(super) fn sure(&self) -> u8 {
        if self.may_branch() { SURE } else { 0 }
    }

    /// Takes note of what the draft model would have written instead of the proposals behind the first `before`.
    pub(super) fn doubt_choices(draft: &mut Draft, before: usize, seconds: Vec<Second>) {
        for second in seconds {
            let after = before + second.of;
            // What was not drafted is not doubted either.
            if after >= draft.proposals.len() || draft.doubts.len() >= MOST_DOUBTS {
                break;
            }
            let reason = Reason::Second { sure: second.lead > 0 };
            let (matcher, place) = (second.matcher, draft.place);
            draft.doubts.push(Doubt { after, matcher, tokens: vec![second.token], place, reason });
        }
    }

    /// Whether to look for another split of the forced run that comes next.
    pub(super) fn may_doubt_split(&self, worth: &Worth, place: State) -> bool {
        let gate = &self.drafting.gate;
        let state = State { grade: Reason::Split.grade(), ..place };
        self.may_branch() && gate.may_branch(worth, gate.run_fails(worth, place), state)
    }

    /// The ways to go on behind the draft, where these are few and nobody has chosen.
    fn doubt_end(&self, draft: &mut Draft) {
        let place = self.place(draft);
        let state = State { grade: Reason::Ways.grade(), ..place };
        if !self.drafting.gate.may_branch(&draft.worth, draft.worth.survival, state) {
            return;
        }
        let Some(matcher) = &mut draft.matcher else { return };
        if matcher.is_terminated() || place.class == Class::String || matcher.is_forced() {
            return;
        }
        // For each first byte the longest token: the one that says most about what is meant.
        let mut ways: Vec<(u8, TokenId)> = Vec::new();
        for token in few(matcher, MOST_TOKENS) {
            let bytes = self.vocab.token_bytes(token);
            let Some(first) = bytes.first() else { continue };
            match ways.iter_mut().find(|way| way.0 == *first) {
                Some(way) if self.vocab.token_bytes(way.1).len() < bytes.len() => way.1 = token,
                Some(_) => {}
                None => ways.push((*first, token)),
            }
        }
        if !(2..=MOST_WAYS).contains(&ways.len()) {
            return;
        }
        for (_, token) in ways {
            let doubt = Doubt {
                after: draft.proposals.len(),
                matcher: matcher.fork(),
                tokens: vec![token],
                place,
                reason: Reason::Ways,
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
            self.doubt_end(draft);
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
pub(super) fn doubt_split(
    before: usize,
    matcher: &mut Matcher,
    run: &[Proposal],
    place: State,
) -> Option<Doubt> {
    if run.is_empty() {
        return None;
    }
    let longest = matcher.longest_forced_start(run.len()).tokens;
    let same = longest.iter().zip(run).take_while(|(a, b)| **a == b.token).count();
    if same == longest.len() || run.get(same).is_none_or(|p| p.state.grade == CHOSEN) {
        return None;
    }
    let mut matcher = matcher.fork();
    if run[..same].iter().any(|p| matcher.accept_token(p.token).is_err()) {
        return None;
    }
    let tokens = longest[same..].to_vec();
    Some(Doubt { after: before + same, matcher, tokens, place, reason: Reason::Split })
}

impl Doubt {
    /// The state of its first proposal.
    fn state(&self) -> State {
        State { grade: self.reason.grade(), ..self.place }
    }

    /// What is proposed, and what is forced behind it; as far as it is legal.
    fn proposals(self, room: usize) -> Vec<Proposal> {
        let first = self.state();
        let further = State { grade: 1, ..self.place };
        let of = |(i, token): (usize, TokenId)| match i {
            0 => Proposal { token, source: Source::Branch, state: first },
            _ => Proposal { token, source: Source::Forced, state: further },
        };
        let mut matcher = self.matcher;
        let mut proposals = Vec::new();
        let own = self.tokens.into_iter().enumerate().map(of);
        take_legal(Some(&mut matcher), own, room, &mut proposals);
        if let Some(last) = proposals.last()
            && self.reason != Reason::Split
            && !matcher.is_terminated()
        {
            let forced = matcher.drafted_forced_start(Some(last.token), room).tokens;
            let forced = forced.into_iter().enumerate().map(|(i, token)| of((i + 1, token)));
            take_legal(Some(&mut matcher), forced, room, &mut proposals);
        }
        proposals
    }
}
