//! Expected forwards and speedup of an output, from walks and from measured forwards.
//!
//! Each walk is cut into groups: a free token and the known tokens before it are verified in one
//! forward, or in the cheapest cut into several. *Forced runs alone* knows the forced tokens. *With
//! copies* also knows a share of the tokens in strings. Each token takes a constant time besides.
//!
//! # Alternatives considered
//!
//! Counting the tokens of a draft model was rejected: what it finds depends on the text far more
//! than on the schema, and the estimate was twice the measured speedup.

use serde::{Deserialize, Serialize};

use super::forward_costs::ForwardCosts;
use super::spread::Spread;
use super::walk::{ConstraintWalk, TokenKind, Walker};
use crate::error::Result;
use crate::matcher::CompiledGrammar;

/// Walks of an estimate.
const WALKS: usize = 48;
/// Share of the tokens in strings that copies find: an assumption, chosen on the scenarios of the
/// program.
const COPIED: f64 = 0.35;
/// Milliseconds of a token for its mask, its choice and bookkeeping, as the scenarios show on one
/// machine.
const TOKEN_MS: f64 = 0.04;

/// What the walks expect of an output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Estimate {
    /// Number of walks.
    pub walks: usize,
    /// Tokens of an output.
    pub tokens: Spread,
    /// Forced tokens by all tokens.
    pub fraction: Spread,
    /// Walks that were cut because the constraint let them run on.
    pub cut: usize,
    /// One token each.
    pub off: Expected,
    /// `exact` with forced runs only.
    pub forced: Expected,
    /// `exact` with copies as well.
    pub copies: Expected,
}

/// Forwards and time of a way to decode, after the prompt.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Expected {
    /// Forwards of the model.
    pub forwards: f64,
    /// Milliseconds of an output.
    pub milliseconds: f64,
    /// The time of `off` by this time.
    pub speedup: f64,
}

/// Returns the estimate and the walks that it is made of.
///
/// # Errors
/// Those of [`Walker::walk`].
pub fn estimate(
    grammar: &CompiledGrammar,
    walker: &mut Walker,
    costs: &ForwardCosts,
) -> Result<(Estimate, Vec<ConstraintWalk>)> {
    let walks = (0..WALKS).map(|_| walker.walk(grammar)).collect::<Result<Vec<_>>>()?;
    let forced = |walk: &ConstraintWalk| walk.kinds.iter().filter(|kind| **kind == TokenKind::Forced).count();
    let count = |walk: &ConstraintWalk| walk.tokens.len().max(1) as f64;
    let lengths: Vec<f64> = walks.iter().map(|walk| walk.tokens.len() as f64).collect();
    let shares: Vec<f64> = walks.iter().map(|walk| forced(walk) as f64 / count(walk)).collect();
    let mut sums = [(0.0, 0.0); 3];
    for walk in &walks {
        let plain = walk.tokens.len() as f64;
        let is_forced: Vec<bool> = walk.kinds.iter().map(|kind| *kind == TokenKind::Forced).collect();
        let found = walk.kinds.iter().map(|kind| match kind {
            TokenKind::Forced => true,
            TokenKind::String => walker.below(1000) < (COPIED * 1000.0) as usize,
            TokenKind::Choice => false,
        });
        let found: Vec<bool> = found.collect();
        let own = [(plain, plain * costs.ms(1)), cheapest(&is_forced, costs), cheapest(&found, costs)];
        for (sum, own) in sums.iter_mut().zip(own) {
            *sum = (sum.0 + own.0, sum.1 + own.1 + plain * TOKEN_MS);
        }
    }
    let off = sums[0].1;
    let expected = sums.map(|(forwards, ms)| Expected {
        forwards: forwards / walks.len() as f64,
        milliseconds: ms / walks.len() as f64,
        speedup: if ms > 0.0 { off / ms } else { 1.0 },
    });
    let estimate = Estimate {
        walks: walks.len(),
        tokens: Spread::of(&lengths),
        fraction: Spread::of(&shares),
        cut: walks.iter().filter(|walk| walk.cut).count(),
        off: expected[0],
        forced: expected[1],
        copies: expected[2],
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
