//! Drafts: under construction, and finished for the target to verify.

use super::branches::{Branch, BranchPoint};
use crate::draft::{DraftRun, Proposal, ProposalContext, RoundEstimate};
use crate::matcher::Matcher;
use crate::vocab::TokenId;

/// A draft under construction. It is a hypothesis throughout: its matcher and text are copies that
/// run ahead of the output.
pub(in crate::decode) struct Draft {
    pub(super) run: DraftRun,
    /// Output and draft as bytes.
    pub(super) text: Vec<u8>,
    /// Estimate of the round so far.
    pub(super) estimate: RoundEstimate,
    /// Maximum length of the draft.
    pub(super) room: usize,
    /// The context of the current turn's copy and call of the draft model.
    pub(super) place: ProposalContext,
    /// Copied proposals that the draft model is to read.
    pub(super) copied: DraftRun,
    /// Number of tokens in the current call of the draft model.
    pub(super) call: usize,
    /// Number of proposals before the current turn.
    pub(super) before: usize,
    /// Positions where the draft may be wrong.
    pub(super) branch_points: Vec<BranchPoint>,
    /// The forced bytes after the draft, if a forced run does not fit.
    pub(super) rest: Vec<u8>,
    /// Nothing is to be added.
    pub(super) done: bool,
}

impl Draft {
    /// Returns the number of further proposals that it has room for.
    pub(super) fn left(&self) -> usize {
        self.room.saturating_sub(self.run.len())
    }
}

/// A finished draft.
#[derive(Default)]
pub(in crate::decode) struct FinishedDraft {
    pub run: DraftRun,
    pub branches: Vec<Branch>,
    /// The forced bytes after the proposals.
    pub rest: Vec<u8>,
}

impl FinishedDraft {
    /// Returns the proposals without those of branches.
    pub fn trunk(&self) -> &[Proposal] {
        self.run.proposals()
    }

    /// Returns the number of rows that the draft takes in the forward.
    pub fn rows(&self) -> usize {
        self.run.len() + self.branches.iter().map(|b| b.run.len()).sum::<usize>()
    }

    /// Returns the tokens of its rows: those of the trunk and of each branch.
    pub fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.run.tokens().chain(self.branches.iter().flat_map(|branch| branch.run.tokens()))
    }

    /// Returns the row after a position of the draft, counted from that before its first token.
    pub fn row(&self, at: DraftPosition) -> usize {
        let Some((number, matched)) = at.branch else { return at.trunk };
        let before: usize = self.branches[..number].iter().map(|b| b.run.len()).sum();
        self.run.len() + before + matched
    }

    /// Returns the first row of the chosen branch and the number of its chosen rows, if one was
    /// chosen.
    pub fn branch_rows(&self, chosen: DraftPosition) -> Option<(usize, usize)> {
        let (number, matched) = chosen.branch?;
        Some((self.row(DraftPosition { branch: Some((number, 0)), ..chosen }), matched))
    }

    /// Returns the constraint at a position; accepts no token.
    pub fn matcher_at(&self, at: DraftPosition) -> Option<Matcher> {
        match at.branch {
            Some((number, matched)) => self.branches[number].run.matcher_after(matched),
            None => self.run.matcher_after(at.trunk),
        }
    }

    /// Returns the position after `token` at a position, if the draft or a branch proposed it there.
    pub fn after(&self, at: DraftPosition, token: TokenId) -> Option<DraftPosition> {
        if let Some((number, matched)) = at.branch {
            let proposed = self.branches[number].run.proposals().get(matched)?;
            let branch = Some((number, matched + 1));
            return (proposed.token == token).then_some(DraftPosition { branch, ..at });
        }
        if self.trunk().get(at.trunk).is_some_and(|p| p.token == token) {
            return Some(DraftPosition { trunk: at.trunk + 1, branch: None });
        }
        let begins = |b: &Branch| b.run.proposals().first().is_some_and(|p| p.token == token);
        let number = self.branches.iter().position(|b| b.after == at.trunk && begins(b))?;
        Some(DraftPosition { branch: Some((number, 1)), ..at })
    }
}

/// A position in a finished draft: the proposals that were chosen so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::decode) struct DraftPosition {
    /// Number of proposals of the trunk.
    pub trunk: usize,
    /// The index of a branch and the number of its proposals.
    pub branch: Option<(usize, usize)>,
}
