//! One forward over a draft, and its judgement position by position.

use super::{Session, Verified};
use crate::draft::Proposal;
use crate::error::Result;
use crate::matcher::Matcher;
use crate::vocab::TokenId;

impl Session<'_> {
    /// One forward over what is not in the cache and the draft, then judgement of each position.
    pub(super) fn forward_and_verify(&mut self, draft: &[Proposal]) -> Result<Verified> {
        let pending = self.history.len() - self.cache.len();
        let mut input = self.history[self.cache.len()..].to_vec();
        input.extend(draft.iter().map(|p| p.token));
        let skipped = self.unverified.as_ref().map_or(0, |u| u.1).min(pending - 1);
        let first = pending - 1 - skipped;
        let mut rows = self.target.forward(&input, &mut self.cache, first..input.len())?;
        self.stats.forwards += 1;
        self.stats.drafted += draft.len();
        if let Some((matcher, _)) = self.unverified.take() {
            let tokens = input[first + 1..pending].to_vec();
            self.log_survival += self.log_probability(matcher, &tokens, &mut rows)?;
        }
        self.verify(draft, &mut rows[skipped..])
    }

    /// Log-probability of tokens under plain masked decoding, for the record of the unverified modes.
    fn log_probability(
        &mut self,
        mut matcher: Matcher,
        tokens: &[TokenId],
        rows: &mut [Vec<f32>],
    ) -> Result<f64> {
        let mut sum = 0.0;
        for (&token, logits) in tokens.iter().zip(rows) {
            matcher.fill_bitmask(&mut self.row);
            let best = masked(logits, &self.row).fold(f32::NEG_INFINITY, f32::max);
            let total: f64 = masked(logits, &self.row).map(|l| f64::from(l - best).exp()).sum();
            sum += f64::from(logits[token as usize] - best) - total.ln();
            matcher.accept_token(token)?;
        }
        Ok(sum)
    }

    fn verify(&mut self, draft: &[Proposal], rows: &mut [Vec<f32>]) -> Result<Verified> {
        let mut matcher = self.matcher.as_ref().map(Matcher::fork);
        let mut verified = Verified { tokens: Vec::new(), matched: 0, end: false };
        let mut history = self.history.clone();
        for (i, logits) in rows.iter_mut().enumerate() {
            let mask = match &mut matcher {
                Some(matcher) => {
                    matcher.fill_bitmask(&mut self.row);
                    Some(&self.row[..])
                }
                None => None,
            };
            let position = (history.len() - self.prompt) as u64;
            let token = self.sampler.sample(logits, mask, position, &history)?.token;
            if self.vocab.eos().contains(&token) {
                verified.end = true;
                break;
            }
            if let Some(matcher) = &mut matcher {
                matcher.accept_token(token)?;
            }
            history.push(token);
            verified.tokens.push(token);
            if draft.get(i).is_none_or(|p| p.token != token) {
                break;
            }
            verified.matched += 1;
            let over = history.len() - self.prompt >= self.max_tokens;
            if over || matcher.as_ref().is_some_and(Matcher::is_terminated) {
                break;
            }
        }
        Ok(verified)
    }
}

/// The logits of legal tokens.
fn masked<'a>(logits: &'a [f32], row: &'a [u32]) -> impl Iterator<Item = f32> + 'a {
    logits.iter().enumerate().filter(|(t, _)| row[t / 32] >> (t % 32) & 1 == 1).map(|e| *e.1)
}
