//! Drafts: sources of proposed tokens, and the decision how many of them to verify.
//!
//! A draft is a run of tokens that the target model verifies in one forward. Several kinds of
//! sources build it in turn: the forced run of the constraint, text copied from the source, and a
//! small draft model under the same masks. After each source the constraint is consulted again. So
//! one draft may reach through a copied value, its closing quote, the next key and into the next
//! value. The draft model, if there is one, reads copied text before the target sees it. No draft
//! can change the output. The [`Gate`] decides the length of a draft by measured cost and past
//! success ([`AcceptanceRates`]).

mod acceptance;
mod cost_trust;
mod draft_model;
mod draft_vocab;
mod forced_run_cache;
mod gate;
mod gate_report;
mod prompt_lookup;
mod tokenization_memory;

pub(crate) use acceptance::ModelRole;
pub use acceptance::{AcceptanceRates, OutputRegion, ProposalContext};
pub use draft_model::{DraftModel, RunnerUp};
pub(crate) use draft_vocab::always_listed;
pub use forced_run_cache::ForcedRunCache;
pub use gate::{Gate, RoundEstimate};
pub use gate_report::{GateLine, GateReport};
pub(crate) use prompt_lookup::open_string;
pub use prompt_lookup::{CopySpan, PromptLookup};
pub(crate) use tokenization_memory::{CHOSEN, TokenizationMemory};

use serde::Serialize;

use crate::matcher::Matcher;
use crate::vocab::TokenId;

/// The source of a proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The constraint allows no other bytes.
    Forced,
    /// Copied from the source text.
    Lookup,
    /// A small draft model.
    Model,
    /// The first token of a branch: an alternative to the draft where the draft may be wrong.
    Branch,
}

/// One proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    /// The token.
    pub token: TokenId,
    /// The source that proposed it.
    pub source: Source,
    /// Its position in the output, and the source's confidence in it.
    pub state: ProposalContext,
}

impl Proposal {
    /// Returns the proposal marked as read by the draft model, which would have chosen the same
    /// token.
    fn read(self) -> Self {
        match self.source {
            Source::Lookup => Proposal { state: ProposalContext { confidence: 3, ..self.state }, ..self },
            _ => self,
        }
    }
}

/// Appends the legal prefix of `proposals` to the draft, advances `matcher` over it, and returns
/// its length. Without a matcher every token except end tokens is legal; end tokens are then
/// unknown, so none is proposed.
pub(crate) fn take_legal(
    matcher: Option<&mut Matcher>,
    proposals: impl IntoIterator<Item = Proposal>,
    room: usize,
    draft: &mut Vec<Proposal>,
) -> usize {
    let before = draft.len();
    let mut matcher = matcher;
    for proposal in proposals {
        if draft.len() >= room {
            break;
        }
        if let Some(matcher) = &mut matcher {
            let ends = matcher.vocabulary().eos().contains(&proposal.token);
            if ends || matcher.is_terminated() || matcher.accept_token(proposal.token).is_err() {
                break;
            }
        }
        draft.push(proposal);
    }
    draft.len() - before
}
