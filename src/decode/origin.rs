//! Origins of output tokens: the source that proposed each of them, and the proposals that it
//! replaced.

use serde::Serialize;

/// The source of an output token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// Chosen by the target model without an agreeing draft.
    Sampled,
    /// From a forced run: verified by the target in [`Mode::Exact`](super::Mode::Exact), and not
    /// verified in the unverified modes.
    Forced,
    /// Copied from the source text, and verified.
    Copied,
    /// From the draft model, and verified.
    Drafted,
    /// The first token of a branch of the draft, and verified.
    Branch,
    /// From a completion before the token limit or from the end of thinking, and not verified.
    Unverified,
}

/// The origin of an output token ([`Request::origins`](super::Request::origins)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TokenOrigin {
    /// The source.
    pub source: TokenSource,
    /// Number of drafted tokens that were dropped when the target chose this token: the draft's
    /// token at this position and the tokens drafted after it.
    pub rejected: u32,
}

impl TokenOrigin {
    /// Creates the origin of a token that replaces no draft.
    pub(super) fn new(source: TokenSource) -> Self {
        TokenOrigin { source, rejected: 0 }
    }
}
