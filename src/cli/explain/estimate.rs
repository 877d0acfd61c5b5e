//! Expected forwards and speedup of an output, from walks and from measured forwards.
//!
//! Each walk is cut into groups: a free token and the known tokens before it are verified in one
//! forward, or in the cheapest cut into several. *Forced runs alone* knows the forced tokens. *All
//! sources* also knows a share of the model's own tokens, those that copies and drafts find.

use serde::{Deserialize, Serialize};

use super::super::bench::{ForwardCosts, Spread};
use super::walk::{ConstraintWalk, TokenKind, Walker};
use crate::error::Result;
use crate::matcher::CompiledGrammar;

/// Walks of an estimate.
const WALKS: usize = 48;
/// Share of a model's tokens in strings that copies find, and share of all its tokens that copies
/// and a draft model find. Both are assumptions; the page on measuring has the error.
const COPIED: f64 = 0.5;
const DRAFTED: f64 = 0.7;

/// What the walks expect of an output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(in crate::cli) struct Estimate {
    pub walks: usize,
    pub tokens: Spread,
    /// Forced tokens by all tokens.
    pub fraction: Spread,
    /// Walks that were cut because the constraint let them run on.
    pub cut: usize,
    /// One token each.
    pub off: Expected,
    /// `exact` with forced runs only.
    pub forced: Expected,
    /// `exact` with all sources.
    pub all: Expected,
}

/// Forwards and time of a way to decode, after the prompt.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(in crate::cli) struct Expected {
    pub forwards: f64,
    pub milliseconds: f64,
    /// The time of `off` by this time.
    pub speedup: f64,
}

/// The models of an estimate.
#[derive(Debug, Clone)]
pub(in crate::cli) struct Costs<'a> {
    pub target: &'a ForwardCosts,
    /// Milliseconds of a forward of the draft model, if there is one.
    pub draft: Option<f64>,
}

/// Returns the estimate and the walks that it is made of.
pub(in crate::cli) fn estimate(
    grammar: &CompiledGrammar,
    walker: &mut Walker,
    costs: &Costs,
) -> Result<(Estimate, Vec<ConstraintWalk>)> {
    let walks = (0..WALKS).map(|_| walker.walk(grammar)).collect::<Result<Vec<_>>>()?;
    let forced = |walk: &ConstraintWalk| walk.kinds.iter().filter(|kind| **kind == TokenKind::Forced).count();
    let count = |walk: &ConstraintWalk| walk.tokens.len().max(1) as f64;
    let lengths: Vec<f64> = walks.iter().map(|walk| walk.tokens.len() as f64).collect();
    let shares: Vec<f64> = walks.iter().map(|walk| forced(walk) as f64 / count(walk)).collect();
    let known = if costs.draft.is_some() { DRAFTED } else { COPIED };
    let mut sums = [(0.0, 0.0); 3];
    for walk in &walks {
        let plain = walk.tokens.len() as f64;
        let is_forced: Vec<bool> = walk.kinds.iter().map(|kind| *kind == TokenKind::Forced).collect();
        let found: Vec<bool> = walk
            .kinds
            .iter()
            .map(|kind| match kind {
                TokenKind::Forced => true,
                TokenKind::String => walker.below(1000) < (known * 1000.0) as usize,
                TokenKind::Choice => costs.draft.is_some() && walker.below(1000) < (known * 1000.0) as usize,
            })
            .collect();
        let drafted = found.iter().zip(&is_forced).filter(|(found, forced)| **found && !**forced).count();
        let own = [(plain, plain * costs.target.ms(1)), cheapest(&is_forced, costs.target), {
            let (forwards, ms) = cheapest(&found, costs.target);
            (forwards, ms + drafted as f64 * costs.draft.unwrap_or_default())
        }];
        for (sum, own) in sums.iter_mut().zip(own) {
            *sum = (sum.0 + own.0, sum.1 + own.1);
        }
    }
    let off = sums[0].1;
    let expected = sums.map(|(forwards, ms)| Expected {
        forwards: forwards / walks.len() as f64,
        milliseconds: ms / walks.len() as f64,
        speedup: if ms > 0.0 { off / ms } else { 1.0 },
    });
    // The gate leaves out drafts that do not pay.
    let all = if expected[2].milliseconds < expected[1].milliseconds { expected[2] } else { expected[1] };
    let estimate = Estimate {
        walks: walks.len(),
        tokens: Spread::of(&lengths),
        fraction: Spread::of(&shares),
        cut: walks.iter().filter(|walk| walk.cut).count(),
        off: expected[0],
        forced: expected[1],
        all,
    };
    Ok((estimate, walks))
}

/// Returns forwards and milliseconds of an output of which some tokens are known in advance.
fn cheapest(known: &[bool], costs: &ForwardCosts) -> (f64, f64) {
    let (mut forwards, mut ms) = (0, 0.0);
    for group in known.split_inclusive(|known| !known) {
        let (cut, time) = costs.best_cut(group.len());
        forwards += cut;
        ms += time;
    }
    (forwards as f64, ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_tokens_are_verified_with_the_free_token_after_them() {
        let free = ForwardCosts { points: vec![(1, 1.0), (25, 1.0)] };
        let known = [false, true, true, false, false, true];
        assert_eq!(cheapest(&known, &free), (4.0, 4.0));
        // Where rows cost as much as forwards, one forward for each token is as good.
        let dear = ForwardCosts { points: vec![(1, 1.0), (25, 25.0)] };
        assert_eq!(cheapest(&known, &dear).1, 6.0);
        assert_eq!(cheapest(&[], &free), (0.0, 0.0));
    }
}
