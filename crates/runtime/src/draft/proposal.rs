//! Proposals, and runs of them that the constraint allows.
//!
//! A run keeps the constraint's state after its last token. The states in between come from it by
//! rolling back, so each token is accepted once: when it is proposed. Whoever needs the state at a
//! position of the draft later (masks, verification, the output itself) takes it from the run.
//!
//! # Cost
//!
//! Accepting each proposal once. A state in between costs a fork of the matcher.

use super::acceptance::ProposalContext;
use super::sources::{DraftSource, ProposalKind};
use crate::matcher::Matcher;
use crate::vocab::TokenId;

/// One proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    /// The token.
    pub token: TokenId,
    /// The source that proposed it, and the source's kind of it.
    pub kind: ProposalKind,
    /// Its position in the output.
    pub context: ProposalContext,
}

impl Proposal {
    /// Returns the source that proposed it.
    pub fn source(&self) -> DraftSource {
        self.kind.source()
    }

    /// Returns the proposal marked as read by the draft model, which would have chosen the same
    /// token.
    pub(super) fn read(self) -> Self {
        Proposal { kind: self.kind.read(), ..self }
    }
}

/// Consecutive proposals that are legal one after the other.
#[derive(Debug, Default)]
pub struct DraftRun {
    proposals: Vec<Proposal>,
    /// The constraint after the last of them; `None` without a constraint.
    matcher: Option<Matcher>,
}

impl DraftRun {
    /// Returns an empty run at the position of `matcher`.
    pub fn new(matcher: Option<Matcher>) -> Self {
        DraftRun { proposals: Vec::new(), matcher }
    }

    /// Returns the legal prefix of `proposals` from the position of `matcher`, at most `room` of
    /// them. Without a matcher every token except end tokens is legal; end tokens are then unknown,
    /// so none is proposed.
    pub fn legal(
        matcher: Option<Matcher>,
        proposals: impl IntoIterator<Item = Proposal>,
        room: usize,
    ) -> Self {
        let mut run = DraftRun::new(matcher);
        run.extend_legal(proposals, room);
        run
    }

    /// Appends the legal prefix of `proposals`, up to `room` proposals in all.
    pub fn extend_legal(&mut self, proposals: impl IntoIterator<Item = Proposal>, room: usize) {
        for proposal in proposals {
            if self.len() >= room {
                break;
            }
            if let Some(matcher) = &mut self.matcher {
                let ends = matcher.vocabulary().eos().contains(&proposal.token);
                if ends || matcher.is_terminated() || matcher.accept_token(proposal.token).is_err() {
                    break;
                }
            }
            self.proposals.push(proposal);
        }
    }

    /// Returns a run of `proposals` that lead to `matcher`.
    pub(super) fn reached(proposals: Vec<Proposal>, matcher: Matcher) -> Self {
        DraftRun { proposals, matcher: Some(matcher) }
    }

    /// Appends a run that begins where this one ends.
    pub fn append(&mut self, run: DraftRun) {
        if run.is_empty() {
            return;
        }
        self.proposals.extend(run.proposals);
        self.matcher = run.matcher;
    }

    /// Keeps the first `len` proposals.
    pub fn truncate(&mut self, len: usize) {
        let gone = self.len().saturating_sub(len);
        self.proposals.truncate(len);
        if let Some(matcher) = self.matcher.as_mut().filter(|_| gone > 0) {
            matcher.rollback(gone);
        }
    }

    /// Returns the number of proposals.
    pub fn len(&self) -> usize {
        self.proposals.len()
    }

    /// Returns true if there are no proposals.
    pub fn is_empty(&self) -> bool {
        self.proposals.is_empty()
    }

    /// Returns the proposals.
    pub fn proposals(&self) -> &[Proposal] {
        &self.proposals
    }

    /// Returns the tokens.
    pub fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.proposals.iter().map(|proposal| proposal.token)
    }

    /// Returns the constraint after the last proposal.
    pub fn matcher(&self) -> Option<&Matcher> {
        self.matcher.as_ref()
    }

    /// The same, for questions that build masks.
    pub fn matcher_mut(&mut self) -> Option<&mut Matcher> {
        self.matcher.as_mut()
    }

    /// Returns the constraint after the first `count` proposals; accepts no token.
    pub fn matcher_after(&self, count: usize) -> Option<Matcher> {
        let mut matcher = self.matcher.as_ref()?.fork();
        matcher.rollback(self.len().saturating_sub(count));
        Some(matcher)
    }

    /// Returns the constraint after the last proposal, as a fork.
    pub fn fork_matcher(&self) -> Option<Matcher> {
        self.matcher.as_ref().map(Matcher::fork)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use ffwd_testkit::random::Random;
    use ffwd_testkit::vocab::{Setting, row};

    use super::super::sources::{ForcedKind, ModelKind};
    use super::*;
    use crate::Constraint;

    const FORCED: ProposalKind = ProposalKind::Forced(ForcedKind::Inside);

    fn proposal(token: TokenId, kind: ProposalKind) -> Proposal {
        Proposal { token, kind, context: ProposalContext::FREE }
    }

    /// The legal tokens after the first `count` of some tokens, by accepting each of them.
    fn naive(start: &Matcher, tokens: &[TokenId], count: usize) -> BTreeSet<TokenId> {
        let mut matcher = start.fork();
        tokens[..count].iter().for_each(|&token| matcher.accept_token(token).unwrap());
        row(&mut matcher)
    }

    /// Runs that are truncated, appended and extended at random, against matchers that accept each
    /// token. Outputs reach beyond the blocks of a matcher's history.
    #[test]
    fn states_in_between_are_those_of_accepting_each_token() {
        let mut random = Random::new(11);
        let setting = Setting::new(3, 200, &[]);
        let text = Constraint::regex(r#"([a-z ]|[0-9]{1,4},|"[a-z]{0,9}")*!"#).unwrap();
        let grammar = setting.compiler.compile(&text).unwrap();
        // Returns a legal token that does not end the text.
        let mut next = |matcher: &mut Matcher| {
            let goes_on = |token: &TokenId| !setting.words.tokens[*token as usize].contains(&b'!');
            let legal: Vec<TokenId> = row(matcher).into_iter().filter(goes_on).collect();
            (legal[random.below(legal.len())], random.below(40))
        };
        let mut compared = 0;
        for length in 0..60 {
            let mut start = grammar.matcher();
            for _ in 0..3 * length {
                let token = next(&mut start).0;
                start.accept_token(token).unwrap();
            }
            let mut run = DraftRun::new(Some(start.fork()));
            for round in 0..9 {
                let mut more = DraftRun::new(run.fork_matcher());
                let mut keep = 0;
                for _ in 0..round {
                    let (token, drawn) = more.matcher_mut().map(&mut next).unwrap();
                    more.extend_legal([proposal(token, FORCED)], usize::MAX);
                    keep = drawn;
                }
                more.truncate(keep);
                run.append(more);
                run.truncate(keep);
            }
            let tokens: Vec<TokenId> = run.tokens().collect();
            for count in 0..=tokens.len() {
                let mut matcher = run.matcher_after(count).unwrap();
                assert_eq!(row(&mut matcher), naive(&start, &tokens, count));
                compared += 1;
            }
            assert_eq!(row(run.matcher_mut().unwrap()), naive(&start, &tokens, tokens.len()));
        }
        assert!(compared > 200, "{compared}");
    }

    #[test]
    fn a_run_ends_in_front_of_what_is_not_legal() {
        let setting = Setting::new(3, 20, &[]);
        let grammar = setting.compiler.compile(&Constraint::regex("ab+").unwrap()).unwrap();
        let kind = ProposalKind::Model(ModelKind::LeadFrom6);
        let run = |text: &[u8], room| {
            let tokens = text.iter().map(|&byte| proposal(setting.words.byte(byte), kind));
            DraftRun::legal(Some(grammar.matcher()), tokens, room)
        };
        assert_eq!((run(b"abba", 9).len(), run(b"abba", 2).len(), run(b"ba", 9).len()), (3, 2, 0));
        let ends = [setting.words.byte(b'a'), setting.words.byte(b'b'), setting.words.eos[0]];
        let ends = ends.map(|token| proposal(token, FORCED));
        assert_eq!(DraftRun::legal(Some(grammar.matcher()), ends, 9).proposals(), &ends[..2]);
        assert_eq!(DraftRun::legal(None, ends, 9).proposals(), ends, "end tokens are unknown");
        assert_eq!(ends[0].read(), ends[0], "only copies are read");
    }
}
