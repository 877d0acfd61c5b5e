//! Verifies a draft and its branches against the logits of a forward; also scores tokens that were
//! emitted without verification.

use super::branches::Branch;
use super::choice::TokenChoice;
use super::{Ending, Session, SubmittedDraft, Verified};
use crate::decode::confidence::is_forced;
use crate::error::Result;
use crate::matcher::Matcher;
use crate::vocab::TokenId;

impl Session {
    /// Verifies the logits of the last forward. The rows of `skipped` unverified tokens come first
    /// and count only in the statistics; the positions of the draft follow.
    pub(super) fn verify_rows(
        &mut self,
        draft: &SubmittedDraft,
        rows: &mut [Vec<f32>],
        skipped: usize,
    ) -> Result<Verified> {
        if let Some((matcher, _)) = self.unverified.take() {
            let tokens = self.history[self.history.len() - skipped..].to_vec();
            self.log_survival += self.log_probability(matcher, &tokens, rows)?;
        }
        self.verify(draft, &mut rows[skipped..])
    }

    /// Returns the log-probability of tokens under plain masked decoding, for the statistics of the
    /// unverified modes.
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

    /// Verifies position by position until the target disagrees with the draft or the output ends.
    /// Each position uses the mask, the history and the random number that it would have in plain
    /// decoding.
    fn verify(&mut self, draft: &SubmittedDraft, rows: &mut [Vec<f32>]) -> Result<Verified> {
        let mut matcher = self.matcher.as_ref().map(Matcher::fork);
        let mut verified = Verified::default();
        let mut watch = self.watch.clone();
        let mut history = self.history.clone();
        // The end of the text, as far as a stop text may reach back.
        let memory = self.stops.memory().max(self.thinking.as_ref().map_or(0, |t| t.end().len()));
        let tail = self.text.len().saturating_sub(memory);
        // The offset of the answer in that end.
        let mut answer = self.answer.map(|at| at.saturating_sub(tail));
        let mut text = self.text[tail..].to_vec();
        // The row of the position to be verified.
        let mut i = 0;
        while let Some(logits) = rows.get_mut(i) {
            if let Some(matcher) = &mut matcher {
                self.fill_row(matcher, (i, verified.branch.is_some()));
            }
            let choice = self.choose(logits, matcher.as_ref(), watch.as_mut(), &history, &mut verified)?;
            let (token, logprob) = match choice {
                TokenChoice::Token(token, logprob) => (token, logprob),
                TokenChoice::Cut(to) => {
                    verified.cut = Some(to);
                    break;
                }
            };
            let position = history.len() - self.prompt;
            verified.ending = match token {
                _ if self.vocab.eos().contains(&token) => Some(Ending::Model),
                _ if answer.is_some() && self.stops.is_stop(token) => Some(Ending::Token(token)),
                _ => None,
            };
            if verified.ending.is_some() {
                verified.end_logprob = logprob;
                break;
            }
            if self.free.is_some() {
                let forced = matcher.as_mut().is_some_and(|m| is_forced(m, &self.vocab, token));
                verified.free.push(!forced);
            }
            if let Some(matcher) = &mut matcher {
                let mut next = matcher.fork();
                next.accept_token(token)?;
                if !self.can_end(&next, token, position + 1) {
                    verified.ending = Some(Ending::Closed);
                    verified.free.truncate(verified.tokens.len());
                    break;
                }
                *matcher = next;
            }
            history.push(token);
            verified.tokens.push(token);
            verified.logprobs.push(logprob);
            let next = verified.agrees(draft, token);
            let bytes = self.vocab.token_bytes(token);
            text.extend_from_slice(bytes);
            if let Some(watch) = &mut watch {
                watch.advance(bytes);
            }
            // The text is cut where the tokens become output.
            let begins = || self.thinking.as_ref()?.answer_begins(&text, bytes.len());
            answer = answer.or_else(begins);
            let over = position + 1 >= self.max_tokens
                || self.thinking_budget_spent(&text, position + 1, answer.is_some())
                || self.stops.find_in_answer(&text, answer, bytes.len()).is_some()
                || matcher.as_ref().is_some_and(Matcher::is_terminated);
            match next {
                Some(row) if !over => i = row,
                _ => break,
            }
        }
        verified.watch = watch;
        Ok(verified)
    }

    /// Fills `self.row` with the mask of the position of a forward row, from those filled in
    /// advance if it is there.
    fn fill_row(&mut self, matcher: &mut Matcher, (row, in_branch): (usize, bool)) {
        let words = self.row.len();
        match self.masks.get(row * words..(row + 1) * words).filter(|_| !in_branch) {
            Some(ahead) => self.row.copy_from_slice(ahead),
            None => matcher.fill_bitmask(&mut self.row),
        }
    }
}

impl Verified {
    /// Continues with the draft or a branch if one of them proposed `token` here; returns the row
    /// after it.
    fn agrees(&mut self, draft: &SubmittedDraft, token: TokenId) -> Option<usize> {
        if let Some((number, matched)) = &mut self.branch {
            let proposed = draft.branches[*number].proposals.get(*matched)?;
            return (proposed.token == token).then(|| {
                *matched += 1;
                draft.row_of(*number, *matched)
            });
        }
        if draft.proposals.get(self.matched).is_some_and(|p| p.token == token) {
            self.matched += 1;
            return Some(self.matched);
        }
        let goes_on =
            |b: &Branch| b.after == self.matched && b.proposals.first().is_some_and(|p| p.token == token);
        let number = draft.branches.iter().position(goes_on)?;
        self.branch = Some((number, 1));
        Some(draft.row_of(number, 1))
    }
}

/// Iterates over the logits of legal tokens.
fn masked<'a>(logits: &'a [f32], row: &'a [u32]) -> impl Iterator<Item = f32> + 'a {
    logits.iter().enumerate().filter(|(t, _)| row[t / 32] >> (t % 32) & 1 == 1).map(|e| *e.1)
}
