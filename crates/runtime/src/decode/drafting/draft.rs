//! Drafts: under construction, and finished for the target to verify.

use crate::draft::{DraftRun, Proposal, ProposalContext, RoundEstimate};
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
    /// The forced bytes after the proposals.
    pub rest: Vec<u8>,
}

impl FinishedDraft {
    pub fn proposals(&self) -> &[Proposal] {
        self.run.proposals()
    }

    /// Returns the tokens of its rows.
    pub fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.run.tokens()
    }

    /// Returns true if the proposal after the first `at` is `token`.
    pub fn proposes(&self, at: usize, token: TokenId) -> bool {
        self.proposals().get(at).is_some_and(|proposal| proposal.token == token)
    }
}
