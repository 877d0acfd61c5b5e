//! Origins of the tokens of a verified round.
//!
//! # Cost
//!
//! Linear in the draft; nothing unless the request asks for origins.

use super::Verified;
use crate::decode::drafting::FinishedDraft;
use crate::decode::origin::{TokenOrigin, TokenSource};
use crate::draft::Proposal;

/// Returns the origins of the tokens of a round.
pub(super) fn origins_of(draft: &FinishedDraft, verified: &Verified) -> Vec<TokenOrigin> {
    let (agreed, rejected) = draft.proposals().split_at(verified.chosen);
    let proposed = |proposal: &Proposal| TokenOrigin::new(TokenSource::Proposed(proposal.source()));
    let mut origins: Vec<TokenOrigin> = agreed.iter().map(proposed).collect();
    origins.resize(verified.tokens.len(), TokenOrigin::new(TokenSource::Sampled));
    // If the output ended at a position, no token replaced the proposals there.
    if let Some(origin) = origins.get_mut(verified.chosen) {
        origin.rejected += rejected.len() as u32;
    }
    origins
}
