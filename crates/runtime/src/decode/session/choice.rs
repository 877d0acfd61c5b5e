//! The choice of a token at one position: by the sampler from the mask row, with the exceptions of
//! the watch over values.
//!
//! Near the limit of a string the token is chosen among text of any length. If the chosen token
//! does not fit, the string closes there, or is cut back to a good end and closed at that position.
//!
//! # Cost
//!
//! That of the sampler. Near a limit there is a copy of the logits, and a second choice where the
//! first does not fit.

use super::{Session, Verified};
use crate::decode::watch::{CutPoint, OutputWatch, StringEnd, close_string};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::sample::TokenLogprob;
use crate::vocab::TokenId;

/// A position of the output, and the tokens before it.
#[derive(Clone, Copy)]
struct Position<'a> {
    number: u64,
    history: &'a [TokenId],
}

/// The outcome at a position.
pub(super) enum TokenChoice {
    /// A token, with its log-probability if requested.
    Token(TokenId, Option<TokenLogprob>),
    /// The open string is cut there.
    Cut(CutPoint),
}

impl Session {
    /// Chooses at the position after `history`, whose mask row is in `self.row` if there is a
    /// matcher.
    pub(super) fn choose(
        &mut self,
        logits: &mut [f32],
        matcher: Option<&Matcher>,
        watch: Option<&mut OutputWatch>,
        history: &[TokenId],
        verified: &mut Verified,
    ) -> Result<TokenChoice> {
        let at = Position { number: (history.len() - self.output.prompt) as u64, history };
        let (Some(matcher), Some(watch)) = (matcher, watch) else {
            return self.sample(logits, matcher.map(|_| &self.row[..]), at);
        };
        let guarded = watch.end_runaway(matcher, &mut self.row);
        let is_guarded = guarded.is_some();
        verified.guarded.extend(guarded);
        let Some(room) = watch.room(matcher).filter(|_| !is_guarded) else {
            return self.sample(logits, Some(&self.row), at);
        };
        if watch.was_cut() {
            close_string(&mut self.row, &self.output.vocab);
            return self.sample(logits, Some(&self.row), at);
        }
        watch.note(&self.row, &self.output.vocab);
        let mut any_length = self.row.clone();
        if !watch.lift(&mut any_length, room) {
            return self.sample(logits, Some(&self.row), at);
        }
        let mut model = logits.to_vec();
        let token = self.sampler.choose(&mut model, Some(&any_length), at.number, history)?;
        if self.row[token as usize / 32] >> (token % 32) & 1 == 1 {
            if !self.sampler.reports() {
                return Ok(TokenChoice::Token(token, None));
            }
            let sampled = self.sampler.report(logits, Some(&self.row), history, token)?;
            return Ok(TokenChoice::Token(token, sampled.report));
        }
        match watch.string_end(self.output.vocab.token_bytes(token)) {
            StringEnd::Back(to) => {
                verified.shortened.push(watch.string_pointer());
                return Ok(TokenChoice::Cut(to));
            }
            StringEnd::Here => {
                verified.shortened.push(watch.string_pointer());
                close_string(&mut self.row, &self.output.vocab);
            }
            StringEnd::Filled => {}
        }
        self.sample(logits, Some(&self.row), at)
    }

    fn sample(&self, logits: &mut [f32], mask: Option<&[u32]>, at: Position) -> Result<TokenChoice> {
        if !self.sampler.reports() {
            return Ok(TokenChoice::Token(self.sampler.choose(logits, mask, at.number, at.history)?, None));
        }
        let sampled = self.sampler.sample(logits, mask, at.number, at.history)?;
        Ok(TokenChoice::Token(sampled.token, sampled.report))
    }

    /// Takes back the output after a cut in a string. The next position closes the string.
    pub(super) fn take_back(&mut self, to: CutPoint) {
        let Some(watch) = &mut self.output.watch else { return };
        watch.cut_back(to);
        self.stats.taken_back += self.output.take_back(to);
        if let Some(trace) = &mut self.trace {
            trace.cut(self.output.tokens().len());
        }
        // The last token runs again: its logits are wanted once more.
        self.cache.truncate(self.output.history.len() - 1);
        self.unverified = None;
    }
}
