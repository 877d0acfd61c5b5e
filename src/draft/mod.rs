//! Where proposals come from, and how many are worth trying.
//!
//! A draft is a run of tokens that the target model verifies in one forward. It is put together from
//! kinds of sources in turn: the forced run of the constraint, text copied from the source, a small
//! draft model that sees the same masks; after each, the constraint is asked again, so one draft may
//! reach through a copied value, its closing quote, the next key and into the next value. What was
//! copied is read by the draft model, if there is one, before the target sees it. Any draft is
//! harmless to the output; the [`Gate`] decides by measured cost and past success ([`Estimates`]) how long to
//! make it.

mod ahead;
mod doubt;
mod estimates;
mod gate;
mod lookup;
mod model;
mod report;
mod shortlist;
mod splits;

pub use ahead::Ahead;
pub(crate) use estimates::Ran;
pub use estimates::{Class, Estimates, State};
pub use gate::{Gate, Worth};
pub(crate) use lookup::open_string;
pub use lookup::{Lookup, Span};
pub use model::{DraftModel, Second};
pub use report::{GateLine, GateReport};
pub(crate) use shortlist::always_listed;
pub(crate) use splits::{CHOSEN, Splits};

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
    pub state: State,
}

impl Proposal {
    /// The same after the draft model has read it, and would have written it.
    fn read(self) -> Self {
        match self.source {
            Source::Lookup => Proposal { state: State { grade: 3, ..self.state }, ..self },
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
