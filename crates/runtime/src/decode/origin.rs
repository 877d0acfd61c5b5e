//! Origins of output tokens: the source that proposed each of them, and the proposals that it
//! replaced.

use serde::{Serialize, Serializer};

use crate::draft::DraftSource;

/// The source of an output token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenSource {
    /// Chosen by the target model without an agreeing draft.
    Sampled,
    /// Proposed by a draft source, and verified. Forced runs are not verified in the unverified
    /// modes.
    Proposed(DraftSource),
    /// From a completion before the token limit or from the end of thinking, and not verified.
    Unverified,
}

impl TokenSource {
    /// Returns the name in JSON: `sampled`, `unverified`, or that of the draft source.
    pub fn name(self) -> &'static str {
        match self {
            TokenSource::Sampled => "sampled",
            TokenSource::Proposed(source) => source.origin(),
            TokenSource::Unverified => "unverified",
        }
    }
}

impl Serialize for TokenSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
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
