//! The output of a generation.

use super::confidence::ValueConfidence;
use super::origin::TokenOrigin;
use super::stats::{Finish, Stats};
use crate::matcher::SourceSpan;
use crate::sample::TokenLogprob;
use crate::vocab::TokenId;

/// A finished generation.
#[derive(Debug, Clone)]
pub struct Output {
    /// The text. Invalid UTF-8 (a free generation that ends inside a character) is replaced.
    pub text: String,
    /// The text after the thinking, if the request asked for thinking; otherwise the whole text.
    /// `None` if the generation ended before the answer.
    pub answer: Option<String>,
    /// The tokens, without the end token or stop token; tokens of a stop text are included.
    pub tokens: Vec<TokenId>,
    /// Log-probabilities of the tokens, if requested. `None` for a token that no model verified
    /// (unverified modes, completion at the limit).
    pub logprobs: Vec<Option<TokenLogprob>>,
    /// Origins of the tokens, if requested with
    /// [`Request::origins`](super::Request::origins); a beam search has none.
    pub origins: Vec<TokenOrigin>,
    /// The confidence in each value of a JSON answer, in order, if requested with
    /// [`Request::confidence`](super::Request::confidence); a beam search has none.
    pub confidence: Vec<ValueConfidence>,
    /// The spans of the constraint's source text, if requested with
    /// [`Request::source_spans`](super::Request::source_spans). Their bytes are those of the answer.
    pub source_spans: Vec<SourceSpan>,
    /// True if the text satisfies the constraint as it is, however it ended; also true without a
    /// constraint.
    pub complete: bool,
    /// The reason for the end.
    pub finish: Finish,
    /// Statistics of the generation.
    pub stats: Stats,
}
