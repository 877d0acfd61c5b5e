//! Origins of the tokens of a verified round.
//!
//! # Cost
//!
//! Linear in the draft; nothing unless the request asks for origins.

use super::Verified;
use crate::decode::drafting::FinishedDraft;
use crate::decode::origin::{TokenOrigin, TokenSource};

/// Returns the origins of the tokens of a round.
pub(super) fn origins_of(draft: &FinishedDraft, verified: &Verified) -> Vec<TokenOrigin> {
    let chosen = verified.chosen;
    let (taken, matched) = chosen.branch.map_or((None, 0), |(number, matched)| (Some(number), matched));
    let agreed = draft.trunk()[..chosen.trunk]
        .iter()
        .chain(taken.iter().flat_map(|&number| &draft.branches[number].run.proposals()[..matched]))
        .map(|proposal| TokenOrigin::new(TokenSource::Proposed(proposal.source())));
    let mut origins: Vec<TokenOrigin> = agreed.collect();
    origins.resize(verified.tokens.len(), TokenOrigin::new(TokenSource::Sampled));
    // If the output ended at a position, no token replaced the proposals there.
    let mut reject = |position: usize, count: usize| {
        if let Some(origin) = origins.get_mut(position) {
            origin.rejected += count as u32;
        }
    };
    reject(chosen.trunk, draft.run.len() - chosen.trunk);
    for (number, branch) in draft.branches.iter().enumerate() {
        match taken {
            Some(taken) if taken == number => {
                reject(chosen.trunk + matched, branch.run.len() - matched);
            }
            _ => reject(branch.after.min(chosen.trunk), branch.run.len()),
        }
    }
    origins
}
