//! Tokens that are emitted without asking the model: jump-forward without verification, and fixed texts.
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
use crate::vocab::TokenId;

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
        let source = TokenSource::Proposed(DraftSource::Forced);
        // Without the model's verdict nothing fails here: see `emit_unasked`.
        if let Ok(taken @ 1..) = self.emit_unasked(tokens, source) {
            self.stats.forced += taken;
            self.unverified = Some((before, taken));
        }
    }

    /// Emits the marker that ends thinking.
    pub(super) fn end_thinking(&mut self) -> Result<()> {
        let output = &mut self.output;
        let Some(thinking) = &output.thinking else { return Ok(()) };
        let tokens = output.vocab.encode(thinking.missing(&output.text))?;
        self.stats.unverified += self.emit_unasked(tokens, TokenSource::Unverified)?;
        Ok(())
    }

    /// Emits tokens while the output can still be ended within its limit. Returns their number.
    ///
    /// Forced tokens are legal by construction. If a tokenizer contradicts its own bytes, the run ends
    /// instead of breaking the output.
    fn emit_unasked(&mut self, tokens: Vec<TokenId>, source: TokenSource) -> Result<usize> {
        let (output, ends_thinking) = (&mut self.output, source == TokenSource::Unverified);
        let mut emitted = 0;
        for token in tokens.into_iter().take(output.left()) {
            let Some(matcher) = &output.matcher else { break };
            let mut next = matcher.fork();
            match next.accept_token(token) {
                Err(error) if ends_thinking => return Err(error),
                Err(_) => break,
                Ok(()) => {}
            }
            if !output.can_end(&next, token, output.emitted() + 1) {
                output.ending = Some(Ending::Closed);
                self.stats.unverified += output.emit_completion();
                break;
            }
            output.matcher = Some(next);
            emitted += 1;
            output.emit_unverified(token, source);
            if output.ending.is_some() || ends_thinking && output.answer.is_some() {
                break;
            }
        }
        Ok(emitted)
    }
}
