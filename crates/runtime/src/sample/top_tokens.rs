//! The n most probable legal tokens of a row of logits, with their log-probabilities.
//!
//! # Cost
//!
//! One pass over the logits and one over the exponentials as in greedy choice, and a partial
//! selection among the legal tokens.
//!
//! # Alternatives considered
//!
//! Sorting all legal tokens was rejected: they may be the whole vocabulary.

use std::cmp::Ordering;

use super::log_probabilities::margin;
use super::{Candidate, Sampled, Sampler, TokenLogprob, best, for_legal, legal_mass, log_softmax, log_sum};
use crate::error::Result;
use crate::vocab::TokenId;

impl Sampler {
    /// Returns at most the `most` most probable legal tokens, best first, lower ids first among
    /// equals.
    ///
    /// The first token is the greedy choice. The log-probabilities are those that
    /// [`sample`](Self::sample) reports: after penalties, bias and mask. Temperature and truncation
    /// do not apply. The logits are changed in place.
    ///
    /// # Errors
    /// Returns the errors of [`sample`](Self::sample).
    pub fn most_probable(
        &self,
        logits: &mut [f32],
        mask: Option<&[u32]>,
        history: &[TokenId],
        most: usize,
    ) -> Result<Vec<Sampled>> {
        let raw = self.reports.then(|| logits.to_vec());
        self.adjust(logits, history)?;
        let best = best(logits, mask)?;
        let total = log_sum(logits, mask, best.logit);
        let raw = raw.map(|raw| (raw, legal_mass(logits, best.logit, total)));
        let mut candidates: Vec<Candidate> = Vec::new();
        for_legal(logits, mask, |token, logit| {
            if logit > f32::NEG_INFINITY {
                candidates.push(Candidate { token, logit });
            }
        });
        keep_best(&mut candidates, most);
        let sampled = |c: Candidate| {
            let logprob = c.logit - best.logit - total;
            let report = raw.as_ref().map(|(raw, legal_mass)| TokenLogprob {
                raw: log_softmax(raw, c.token as usize),
                top: most_probable(raw, self.top),
                masked: logprob,
                legal_mass: *legal_mass,
                margin: margin(logits, mask, (best, c), total),
            });
            Sampled { token: c.token, logprob, report }
        };
        Ok(candidates.into_iter().map(sampled).collect())
    }
}

/// Returns the `most` most probable tokens of a row of logits, with their log-probabilities.
pub(super) fn most_probable(logits: &[f32], most: usize) -> Vec<(TokenId, f32)> {
    if most == 0 {
        return Vec::new();
    }
    let finite = logits.iter().zip(0..).filter(|(logit, _)| logit.is_finite());
    let mut candidates: Vec<Candidate> = finite.map(|(&logit, token)| Candidate { token, logit }).collect();
    keep_best(&mut candidates, most);
    let Some(best) = candidates.first().copied() else { return Vec::new() };
    let first = log_softmax(logits, best.token as usize);
    candidates.iter().map(|own| (own.token, first - (best.logit - own.logit))).collect()
}

/// Keeps the `most` candidates with the highest logits, best first. Zeros of both signs are equal, as
/// they are in greedy choice; no logit is NaN.
fn keep_best(candidates: &mut Vec<Candidate>, most: usize) {
    let order = |a: &Candidate, b: &Candidate| {
        b.logit.partial_cmp(&a.logit).unwrap_or(Ordering::Equal).then(a.token.cmp(&b.token))
    };
    if most > 0 && most < candidates.len() {
        candidates.select_nth_unstable_by(most - 1, order);
    }
    candidates.truncate(most);
    candidates.sort_unstable_by(order);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::SamplingParams;

    #[test]
    fn the_most_probable_are_those_of_a_sorted_list() {
        let sampler = Sampler::new(SamplingParams {
            repetition_penalty: 1.3,
            frequency_penalty: 0.25,
            logit_bias: vec![(7, 1.5), (11, f32::NEG_INFINITY)],
            ..SamplingParams::default()
        })
        .unwrap();
        let sampler = sampler.with_logprobs();
        // Few different values, so that many are equal; zeros of both signs among them.
        let value = |i: u32| (5.0 - (i * 37 % 11) as f32) * 0.5;
        let signed = |i: u32| if value(i) == 0.0 && i.is_multiple_of(2) { -0.0 } else { value(i) };
        let row: Vec<f32> = (0..100).map(signed).collect();
        let mask = [0xDEAD_BEEF, 0x0F0F_1234, 0, 0b1101];
        let history = [3, 3, 40, 99];
        let mut adjusted = row.clone();
        sampler.adjust(&mut adjusted, &history).unwrap();
        let legal = |t: usize| mask[t / 32] >> (t % 32) & 1 == 1 && adjusted[t] > f32::NEG_INFINITY;
        let mut slow: Vec<usize> = (0..100).filter(|&t| legal(t)).collect();
        // The sort is stable, so lower ids come first.
        slow.sort_by(|&a, &b| adjusted[b].partial_cmp(&adjusted[a]).unwrap());
        let total: f64 = slow.iter().map(|&t| f64::from(adjusted[t]).exp()).sum();
        for most in [0, 1, 2, 7, 20, slow.len(), 1000] {
            let mut logits = row.clone();
            let found = sampler.most_probable(&mut logits, Some(&mask), &history, most).unwrap();
            let tokens: Vec<usize> = found.iter().map(|s| s.token as usize).collect();
            assert_eq!(tokens, slow[..most.min(slow.len())], "{most}");
            for s in &found {
                let want = f64::from(adjusted[s.token as usize]) - total.ln();
                // The sampler's exponential is off by at most 3e-7, and logits have single
                // precision.
                assert!((f64::from(s.logprob) - want).abs() < 2e-6, "{s:?} {want}");
            }
            if let Some(first) = found.first() {
                let sampled = sampler.sample(&mut row.clone(), Some(&mask), 0, &history).unwrap();
                assert_eq!(*first, sampled, "greedy choice with all that it reports");
            }
        }
        // Of all tokens, before penalties and mask.
        let mut slow: Vec<u32> = (0..100).collect();
        slow.sort_by(|&a, &b| row[b as usize].partial_cmp(&row[a as usize]).unwrap());
        let reported =
            sampler.clone().with_top_logprobs(5).sample(&mut row.clone(), Some(&mask), 0, &history);
        let top = reported.unwrap().report.unwrap().top;
        assert_eq!(top.iter().map(|known| known.0).collect::<Vec<_>>(), slow[..5]);
        assert!(top.iter().all(|&(token, value)| (value - log_softmax(&row, token as usize)).abs() < 1e-5));
        assert!(sampler.most_probable(&mut [f32::NAN, 0.0], None, &[], 2).is_err());
        assert!(sampler.most_probable(&mut row.clone(), Some(&[0; 4]), &[], 2).is_err());
    }
}
