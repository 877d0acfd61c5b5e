//! Where proposals come from, and how many are worth trying.
//!
//! A draft is a run of tokens that the target model verifies in one forward. It is put together from
//! kinds of sources in turn: the forced run of the constraint, text copied from the source, a small
//! draft model that sees the same masks; after each, the constraint is asked again, so one draft may
//! reach through a copied value, its closing quote, the next key and into the next value. What was
//! copied is read by the draft model, if there is one, before the target sees it. Any draft is
//! harmless to the output; the [`Gate`] decides by measured cost and past success ([`AcceptanceRates`]) how long to
//! make it.

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

/// What proposed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The constraint left no other bytes.
    Forced,
    /// Copied from the source text.
    Lookup,
    /// A small model.
    Model,
    /// Beside the draft, where that may be wrong: what stands first in a branch.
    Branch,
}

/// One proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    /// The token.
    pub token: TokenId,
    /// Who proposed it.
    pub source: Source,
    /// Where it stands, and what the source knows about it.
    pub state: ProposalContext,
}

impl Proposal {
    /// The same after the draft model has read it, and would have written it.
    fn read(self) -> Self {
        match self.source {
            Source::Lookup => Proposal { state: ProposalContext { confidence: 3, ..self.state }, ..self },
            _ => self,
        }
    }
}

/// Appends the legal prefix of `proposals` and advances `matcher` over it; how many were taken. Without
/// a matcher everything but end tokens is legal, and nothing is known about those, so none are proposed.
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
