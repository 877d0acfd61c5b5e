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
use crate::draft::DraftSource;
use crate::error::Result;

impl Session {
    /// Emits the forced run without verification, in the unverified modes.
    pub(super) fn emit_forced_run(&mut self) {
        let output = &mut self.output;
        let last = output.history.last().copied();
        let Some(matcher) = &mut output.matcher else { return };
        // Near the limit of a string, what fits may not be what the model would write.
        if output.watch.as_ref().is_some_and(|watch| watch.room(matcher).is_some()) {
            return;
        }
        let before = matcher.fork();
        let tokens = match self.mode {
            Mode::Longest => matcher.longest_forced_tokens(),
            _ => matcher.canonical_forced_tokens(last),
        };
        let mut taken = 0;
        for token in tokens.into_iter().take(output.left()) {
            let Some(matcher) = &output.matcher else { break };
            // Forced tokens are legal by construction; if a tokenizer contradicts its own bytes,
            // the run ends instead of breaking the output.
            let mut next = matcher.fork();
            if next.accept_token(token).is_err() {
                break;
            }
            if !output.can_end(&next, token, output.emitted() + 1) {
                output.ending = Some(Ending::Closed);
                break;
            }
            output.matcher = Some(next);
            self.stats.forced += 1;
            taken += 1;
            output.emit_unverified(token, TokenSource::Proposed(DraftSource::Forced));
            if output.ending.is_some() {
                break;
            }
        }
        if taken > 0 {
            self.unverified = Some((before, taken));
        }
        if matches!(output.ending, Some(Ending::Closed)) {
            self.stats.unverified += output.emit_completion();
        }
    }

    /// Emits the marker that ends thinking.
    pub(super) fn end_thinking(&mut self) -> Result<()> {
        let output = &mut self.output;
        let Some(thinking) = &output.thinking else { return Ok(()) };
        let tokens = output.vocab.encode(thinking.missing(&output.text))?;
        for token in tokens {
            let Some(matcher) = &output.matcher else { break };
            let mut next = matcher.fork();
            next.accept_token(token)?;
            if !output.can_end(&next, token, output.emitted() + 1) {
                output.ending = Some(Ending::Closed);
                self.stats.unverified += output.emit_completion();
                break;
            }
            output.matcher = Some(next);
            self.stats.unverified += 1;
            output.emit_unverified(token, TokenSource::Unverified);
            if output.ending.is_some() || output.left() == 0 || output.answer.is_some() {
                break;
            }
        }
        Ok(())
    }
}
