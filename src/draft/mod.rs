//! Where proposals come from, and how many are worth trying.
//!
//! A draft is a run of tokens that the target model verifies in one forward. It is put together from
//! kinds of sources in turn: the forced run of the constraint, text copied from the source, a small
//! draft model that sees the same masks; after each, the constraint is asked again, so one draft may
//! reach through a copied value, its closing quote, the next key and into the next value. Any draft is
//! harmless to the output; the [`Gate`] decides by measured cost and past success how long to make it.

mod gate;
mod lookup;
mod model;

pub use gate::Gate;
pub use lookup::Lookup;
pub(crate) use lookup::open_string;
pub use model::DraftModel;

use crate::matcher::Matcher;
use crate::vocab::TokenId;

/// What proposed a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// The constraint left no other bytes.
    Forced,
    /// Copied from the source text.
    Lookup,
    /// A small model.
    Model,
}

/// One proposed token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    /// The token.
    pub token: TokenId,
    /// Who proposed it.
    pub source: Source,
}

/// Appends the legal prefix of `tokens` and advances `matcher` over it; how many were taken.
pub(crate) fn take_legal(
    matcher: &mut Matcher,
    tokens: &[TokenId],
    source: Source,
    room: usize,
    draft: &mut Vec<Proposal>,
) -> usize {
    let mut taken = 0;
    for &token in tokens.iter().take(room) {
        if matcher.is_terminated() || matcher.vocabulary().eos().contains(&token) {
            break;
        }
        if matcher.accept_token(token).is_err() {
            break;
        }
        draft.push(Proposal { token, source });
        taken += 1;
    }
    taken
}
