//! Origins of the tokens of a verified round.
//!
//! # Cost
//!
//! Linear in the draft; nothing unless the request asks for origins.

use super::{SubmittedDraft, Verified};
use crate::decode::origin::{TokenOrigin, TokenSource};
use crate::draft::Source;

/// Returns the origins of the tokens of a round.
pub(super) fn origins_of(draft: &SubmittedDraft, verified: &Verified) -> Vec<TokenOrigin> {
    let (taken, matched) = verified.branch.map_or((None, 0), |(number, matched)| (Some(number), matched));
    let agreed = draft.proposals[..verified.matched]
        .iter()
        .chain(taken.iter().flat_map(|&number| &draft.branches[number].proposals[..matched]))
        .map(|proposal| TokenOrigin::new(source(proposal.source)));
    let mut origins: Vec<TokenOrigin> = agreed.collect();
    origins.resize(verified.tokens.len(), TokenOrigin::new(TokenSource::Sampled));
    // If the output ended at a position, no token replaced the proposals there.
    let mut reject = |position: usize, count: usize| {
        if let Some(origin) = origins.get_mut(position) {
            origin.rejected += count as u32;
        }
    };
    reject(verified.matched, draft.proposals.len() - verified.matched);
    for (number, branch) in draft.branches.iter().enumerate() {
        match taken {
            Some(taken) if taken == number => {
                reject(verified.matched + matched, branch.proposals.len() - matched);
            }
            _ => reject(branch.after.min(verified.matched), branch.proposals.len()),
        }
    }
    origins
}

fn source(source: Source) -> TokenSource {
    match source {
        Source::Forced => TokenSource::Forced,
        Source::Lookup => TokenSource::Copied,
        Source::Model => TokenSource::Drafted,
        Source::Branch => TokenSource::Branch,
    }
}
