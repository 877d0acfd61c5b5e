//! Verifies a draft against the logits of a forward; also scores tokens that were
//! emitted without verification.

use super::choice::TokenChoice;
use super::{Ending, Session};
use crate::decode::confidence::is_forced;
use crate::decode::drafting::FinishedDraft;
use crate::decode::transcript::Transcript;
use crate::decode::watch::{CutPoint, OutputWatch};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::sample::TokenLogprob;
use crate::vocab::TokenId;

/// The result of a verification.
#[derive(Default)]
pub(super) struct Verified {
    /// Tokens chosen by the target, in order.
    pub tokens: Vec<TokenId>,
    /// Their log-probabilities, if requested.
    pub logprobs: Vec<Option<TokenLogprob>>,
    /// True for those about whose bytes the constraint left a choice, if requested.
    pub free: Vec<bool>,
    /// The log-probability of the end token or stop token after them.
    pub end_logprob: Option<TokenLogprob>,
    /// Number of proposals of the draft that were chosen.
    pub chosen: usize,
    /// The reason if the output ends after the tokens.
    pub ending: Option<Ending>,
    /// The earlier position to which the output is cut back after the tokens.
    pub cut: Option<CutPoint>,
    /// The constraint and the watch after the tokens.
    pub matcher: Option<Matcher>,
    pub watch: Option<OutputWatch>,
    /// JSON pointers of values that repeated themselves, and of strings that ended before their
    /// limit.
    pub guarded: Vec<String>,
    pub shortened: Vec<String>,
}

impl Session {
    /// Verifies the logits of the last forward. The rows of `skipped` unverified tokens come first
    /// and count only in the statistics; the positions of the draft follow.
    pub(super) fn verify_rows(
        &mut self,
        draft: &FinishedDraft,
        rows: &mut [Vec<f32>],
        skipped: usize,
    ) -> Result<Verified> {
        if let Some((matcher, _)) = self.unverified.take() {
            let history = &self.output.history;
            let tokens = history[history.len() - skipped..].to_vec();
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
    /// decoding. The draft has the constraint after each of its proposals.
    fn verify(&mut self, draft: &FinishedDraft, rows: &mut [Vec<f32>]) -> Result<Verified> {
        let output = &self.output;
        let mut matcher = output.matcher.as_ref().map(Matcher::fork);
        let mut verified = Verified::default();
        let mut watch = output.watch.clone();
        let mut history = output.history.clone();
        let mut tail = TextTail::of(output);
        while let Some(logits) = rows.get_mut(verified.chosen) {
            if let Some(matcher) = &mut matcher {
                self.fill_row(matcher, verified.chosen);
            }
            let choice = self.choose(logits, matcher.as_ref(), watch.as_mut(), &history, &mut verified)?;
            let (token, logprob) = match choice {
                TokenChoice::Token(token, logprob) => (token, logprob),
                TokenChoice::Cut(to) => {
                    verified.cut = Some(to);
                    break;
                }
            };
            let position = history.len() - self.output.prompt;
            verified.ending = self.ending_at(token, tail.answer.is_some());
            if verified.ending.is_some() {
                verified.end_logprob = logprob;
                break;
            }
            if self.output.reports.free.is_some() {
                let vocab = &self.output.vocab;
                verified.free.push(!matcher.as_mut().is_some_and(|m| is_forced(m, vocab, token)));
            }
            let agreed = draft.proposes(verified.chosen, token);
            if let Some(matcher) = &mut matcher {
                let drafted = draft.run.matcher_after(verified.chosen + 1).filter(|_| agreed);
                let next = drafted.map_or_else(|| accepted(matcher, token), Ok)?;
                if !self.output.can_end(&next, token, position + 1) {
                    verified.ending = Some(Ending::Closed);
                    verified.free.truncate(verified.tokens.len());
                    break;
                }
                *matcher = next;
            }
            history.push(token);
            verified.tokens.push(token);
            verified.logprobs.push(logprob);
            let bytes = self.output.vocab.token_bytes(token);
            tail.push(&self.output, bytes);
            if let Some(watch) = &mut watch {
                watch.advance(bytes);
            }
            if !agreed {
                break;
            }
            verified.chosen += 1;
            let is_terminated = matcher.as_ref().is_some_and(Matcher::is_terminated);
            if is_terminated || tail.ends(&self.output, position + 1, bytes.len()) {
                break;
            }
        }
        (verified.matcher, verified.watch) = (matcher, watch);
        Ok(verified)
    }

    /// Returns the ending if `token` ends the output.
    fn ending_at(&self, token: TokenId, answering: bool) -> Option<Ending> {
        match token {
            _ if self.output.vocab.eos().contains(&token) => Some(Ending::Model),
            _ if answering && self.output.stops.is_stop(token) => Some(Ending::Token(token)),
            _ => None,
        }
    }

    /// Fills `self.row` with the mask of a position, from those filled in advance if it is there.
    fn fill_row(&mut self, matcher: &mut Matcher, at: usize) {
        let words = self.row.len();
        match self.masks.get(at * words..(at + 1) * words) {
            Some(ahead) => self.row.copy_from_slice(ahead),
            None => matcher.fill_bitmask(&mut self.row),
        }
    }
}

/// The end of the text with the tokens of a round, as far back as a stop text may reach.
struct TextTail {
    text: Vec<u8>,
    /// Offset of the answer in it.
    answer: Option<usize>,
}

impl TextTail {
    fn of(output: &Transcript) -> Self {
        let memory = output.stops.memory().max(output.thinking.as_ref().map_or(0, |t| t.end().len()));
        let start = output.text.len().saturating_sub(memory);
        TextTail {
            text: output.text[start..].to_vec(),
            answer: output.answer.map(|at| at.saturating_sub(start)),
        }
    }

    fn push(&mut self, output: &Transcript, bytes: &[u8]) {
        self.text.extend_from_slice(bytes);
        let begins = || output.thinking.as_ref()?.answer_begins(&self.text, bytes.len());
        self.answer = self.answer.or_else(begins);
    }

    /// Returns true if the round ends after its last token, of `new` bytes, with `emitted` tokens in all.
    /// The text is cut where the tokens become output.
    fn ends(&self, output: &Transcript, emitted: usize, new: usize) -> bool {
        emitted >= output.max_tokens
            || output.thinking_budget_spent(&self.text, emitted, self.answer.is_some())
            || output.stops.find_in_answer(&self.text, self.answer, new).is_some()
    }
}

/// Returns the constraint after a legal token.
fn accepted(matcher: &Matcher, token: TokenId) -> Result<Matcher> {
    let mut next = matcher.fork();
    next.accept_token(token)?;
    Ok(next)
}

/// Iterates over the logits of legal tokens.
fn masked<'a>(logits: &'a [f32], row: &'a [u32]) -> impl Iterator<Item = f32> + 'a {
    logits.iter().enumerate().filter(|(t, _)| row[t / 32] >> (t % 32) & 1 == 1).map(|e| *e.1)
}
