//! The deterministic fraction of an output: the share of its tokens that the constraint forced.

use super::confidence::is_forced;
use crate::matcher::CompiledGrammar;
use crate::vocab::TokenId;

/// Returns the share of the tokens that were forced: the constraint allowed no other bytes than
/// theirs, or no other token.
pub fn forced_share(grammar: &CompiledGrammar, tokens: &[TokenId]) -> f64 {
    let mut matcher = grammar.matcher();
    let mut forced = 0;
    for &token in tokens {
        forced += usize::from(is_forced(&mut matcher, grammar.vocabulary(), token));
        if matcher.accept_token(token).is_err() {
            break;
        }
    }
    forced as f64 / tokens.len().max(1) as f64
}
