//! Log-probabilities of legal tokens, and the margin of a chosen token over the others.
//!
//! # Cost
//!
//! A pass over the legal logits.

use super::{Candidate, Sampler, best, for_legal, log_sum};
use crate::error::Result;
use crate::exp::exp;
use crate::vocab::TokenId;

impl Sampler {
    /// Returns the legal tokens with their log-probabilities, as [`sample`](Self::sample) reports
    /// them: after penalties, bias and mask. The logits are changed in place.
    ///
    /// # Errors
    /// Returns the errors of [`sample`](Self::sample).
    pub(crate) fn log_probabilities(
        &self,
        logits: &mut [f32],
        mask: &[u32],
        history: &[TokenId],
    ) -> Result<Vec<(TokenId, f64)>> {
        self.adjust(logits, history)?;
        let best = best(logits, Some(mask))?;
        let total = f64::from(log_sum(logits, Some(mask), best.logit));
        let mut tokens = Vec::new();
        for_legal(logits, Some(mask), |token, logit| {
            if logit > f32::NEG_INFINITY {
                tokens.push((token, f64::from(logit - best.logit) - total));
            }
        });
        Ok(tokens)
    }
}

/// Returns the probability of the chosen token less that of the most probable other legal token.
/// `total` is the logarithm of the sum over legal tokens relative to the best one.
pub(super) fn margin(
    logits: &[f32],
    mask: Option<&[u32]>,
    (best, chosen): (Candidate, Candidate),
    total: f32,
) -> f32 {
    let mut other = best.logit;
    if chosen.token == best.token {
        other = f32::NEG_INFINITY;
        for_legal(logits, mask, |token, logit| {
            if token != chosen.token {
                other = other.max(logit);
            }
        });
    }
    exp(chosen.logit - best.logit - total) - exp(other - best.logit - total)
}
