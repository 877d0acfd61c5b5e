//! Tokens that are emitted without verification by the model.
//!
//! They are the forced runs of the unverified modes, the marker that ends thinking, and the
//! completion that ends an output within its limit. The matcher checks each of them all the same.
//! They pass through the model with the next forward.
//!
//! # Cost
//!
//! Accepting the tokens.

use super::{Ending, Session};
use crate::decode::origin::TokenSource;
use crate::decode::stats::Mode;
use crate::error::Result;

impl Session {
    /// Emits the forced run without verification, in the unverified modes.
    pub(super) fn emit_forced_run(&mut self) {
        let last = self.history.last().copied();
        let Some(matcher) = &mut self.matcher else { return };
        // Near the limit of a string, what fits may not be what the model would write.
        if self.watch.as_ref().is_some_and(|watch| watch.room(matcher).is_some()) {
            return;
        }
        let before = matcher.fork();
        let tokens = match self.mode {
            Mode::Longest => matcher.longest_forced_tokens(),
            _ => matcher.canonical_forced_tokens(last),
        };
        let room = self.max_tokens - self.emitted();
        let mut taken = 0;
        for token in tokens.into_iter().take(room) {
            let Some(matcher) = &self.matcher else { break };
            // Forced tokens are legal by construction; if a tokenizer contradicts its own bytes,
            // the run ends instead of breaking the output.
            let mut next = matcher.fork();
            if next.accept_token(token).is_err() {
                break;
            }
            if !self.can_end(&next, token, self.emitted() + 1) {
                self.ending = Some(Ending::Closed);
                break;
            }
            self.matcher = Some(next);
            self.stats.forced += 1;
            taken += 1;
            self.emit_unverified(token, TokenSource::Forced);
            if self.ending.is_some() {
                break;
            }
        }
        if taken > 0 {
            self.unverified = Some((before, taken));
        }
        if matches!(self.ending, Some(Ending::Closed)) {
            self.emit_completion();
        }
    }

    /// Emits the marker that ends thinking.
    pub(super) fn end_thinking(&mut self) -> Result<()> {
        let Some(thinking) = &self.thinking else { return Ok(()) };
        let tokens = self.vocab.encode(thinking.missing(&self.text))?;
        for token in tokens {
            let Some(matcher) = &self.matcher else { break };
            let mut next = matcher.fork();
            next.accept_token(token)?;
            if !self.can_end(&next, token, self.emitted() + 1) {
                self.ending = Some(Ending::Closed);
                self.emit_completion();
                break;
            }
            self.matcher = Some(next);
            self.stats.unverified += 1;
            self.emit_unverified(token, TokenSource::Unverified);
            if self.ending.is_some() || self.emitted() >= self.max_tokens || self.answer.is_some() {
                break;
            }
        }
        Ok(())
    }

    /// Emits the completion of the output.
    pub(super) fn emit_completion(&mut self) {
        let tokens = self.completion_keeper.as_ref().map(|c| c.tokens(&self.vocab)).unwrap_or_default();
        for token in tokens {
            // Each token was checked when the completion was found.
            if self.matcher.as_mut().is_none_or(|m| m.accept_token(token).is_err()) {
                break;
            }
            self.stats.unverified += 1;
            self.emit_unverified(token, TokenSource::Unverified);
            if matches!(self.ending, Some(Ending::Text { .. })) {
                break;
            }
        }
    }
}
