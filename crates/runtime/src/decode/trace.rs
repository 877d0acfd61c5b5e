//! Trace of a generation: for each forward its positions, and the tokens that it brought and
//! rejected.

use serde::Serialize;

use super::origin::TokenSource;
use crate::vocab::TokenId;

/// One step of a traced generation ([`Request::trace`](super::Request::trace)): a forward of the
/// target model, or tokens that needed none.
///
/// The tokens of all steps in order, after each step without its last
/// [`taken_back`](Self::taken_back), are those of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ForwardTrace {
    /// Calls of the target model so far, this one included.
    pub forward: usize,
    /// Number of positions that the forward ran: tokens not yet in the KV cache, and drafted ones.
    /// 0 for tokens that were emitted without a forward.
    pub positions: usize,
    /// Calls of the draft model since the step before.
    pub draft_forwards: usize,
    /// Number of output tokens before this step.
    pub begin: usize,
    /// The tokens that were emitted. None if the forward ran a part of the prompt.
    pub tokens: Vec<TracedToken>,
    /// The drafts, or the parts of drafts, that the target rejected.
    pub rejected: Vec<RejectedDraft>,
    /// Number of tokens taken back after this step, from the end of the output
    /// ([`Stats::taken_back`](super::Stats::taken_back)).
    pub taken_back: usize,
}

/// A token of a trace, with its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TracedToken {
    /// The token.
    pub token: TokenId,
    /// The source that proposed it.
    pub source: TokenSource,
}

/// Drafted tokens that are not part of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedDraft {
    /// Number of output tokens after which they were proposed.
    pub after: usize,
    /// The tokens.
    pub tokens: Vec<TracedToken>,
}
