//! One generation: propose, one forward, verify, commit.
//!
//! The loop is the same in all modes. Tokens that are not in the target's cache yet and the draft go
//! through one forward; each position is judged against its own bitmask row, in order, with the random
//! number of its own position, and the first disagreement ends the round. A draft that proposes what
//! would have been sampled anyway changes nothing (sample and match), so the output is that of plain
//! decoding. Cost: one forward per round; the rest is look-ups.

mod propose;
mod verify;

use std::time::Instant;

use super::stats::{BySource, Finish, Mode, Stats};
use crate::draft::{DraftModel, Gate, Lookup, Proposal, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::matcher::Matcher;
use crate::model::{KvCache, Model};
use crate::sample::Sampler;
use crate::vocab::{TokenId, Vocabulary};

/// What proposes tokens besides forced runs.
pub(super) struct Drafting {
    pub model: Option<DraftModel>,
    pub lookup: Option<Lookup>,
    pub gate: Gate,
    /// Instead of all sources: proposes anything after (history, output so far). For tests.
    pub adversary: Option<Adversary>,
}

/// A draft source that need not be any good.
pub type Adversary = Box<dyn FnMut(&[TokenId]) -> Vec<TokenId>>;

/// A generation under way.
pub(super) struct Session<'a> {
    pub target: &'a Model,
    pub vocab: &'a Vocabulary,
    pub sampler: Sampler,
    pub matcher: Option<Matcher>,
    pub mode: Mode,
    pub drafting: Drafting,
    pub max_tokens: usize,
    pub on_text: Option<&'a mut dyn FnMut(&str)>,
    cache: KvCache,
    /// Prompt and output.
    history: Vec<TokenId>,
    prompt: usize,
    /// Output tokens as bytes, and how much of them has been handed out.
    text: Vec<u8>,
    streamed: usize,
    row: Vec<u32>,
    stats: Stats,
    /// Tokens at the end of `history` that were emitted unverified, and the matcher before them.
    unverified: Option<(Matcher, usize)>,
    log_survival: f64,
}

/// What a round of verification found.
struct Verified {
    /// Tokens chosen by the target, in order.
    tokens: Vec<TokenId>,
    /// How many of them were proposed.
    matched: usize,
    /// Whether the target chose to end.
    end: bool,
}

impl<'a> Session<'a> {
    #[allow(clippy::too_many_arguments)]
    pub(super) fn new(
        target: &'a Model,
        vocab: &'a Vocabulary,
        prompt: Vec<TokenId>,
        matcher: Option<Matcher>,
        sampler: Sampler,
        mode: Mode,
        drafting: Drafting,
        max_tokens: usize,
    ) -> Result<Self> {
        let context = target.config().context;
        if prompt.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the prompt is empty"));
        }
        if prompt.len() >= context {
            let message = format!("the prompt has {} tokens, the model's context {context}", prompt.len());
            return Err(Error::new(ErrorKind::PromptTooLong, message)
                .hint("shorten the text or the schema, or load a model with a longer context"));
        }
        let stats = Stats { prompt_tokens: prompt.len(), mode, ..Stats::default() };
        Ok(Session {
            target,
            vocab,
            sampler,
            matcher,
            mode,
            drafting,
            max_tokens: max_tokens.min(context - prompt.len()),
            on_text: None,
            cache: target.new_cache()?,
            prompt: prompt.len(),
            history: prompt,
            text: Vec::new(),
            streamed: 0,
            row: vec![0; vocab.bitmask_words()],
            stats,
            unverified: None,
            log_survival: 0.0,
        })
    }

    /// Runs to the end; output bytes, tokens, how it ended, figures.
    pub(super) fn run(mut self) -> Result<(Vec<u8>, Vec<TokenId>, Finish, Stats)> {
        let start = Instant::now();
        let finish = loop {
            if let Some(finish) = self.finished() {
                break finish;
            }
            if matches!(self.mode, Mode::Canonical | Mode::Longest) {
                self.jump();
                if let Some(finish) = self.finished() {
                    break finish;
                }
            }
            let draft = if self.mode == Mode::Off { Vec::new() } else { self.propose()? };
            let verified = self.forward_and_verify(&draft)?;
            self.learn(&draft, &verified);
            self.commit(&verified)?;
            if verified.end {
                break Finish::Stop;
            }
        };
        self.stream(true);
        if let Some(model) = &self.drafting.model {
            self.stats.draft_forwards = model.forwards;
        }
        if matches!(self.mode, Mode::Canonical | Mode::Longest) {
            self.stats.survival = Some(self.log_survival.exp());
        }
        self.stats.tokens = self.history.len() - self.prompt;
        self.stats.close(&finish, start.elapsed().as_secs_f64());
        let tokens = self.history.split_off(self.prompt);
        Ok((self.text, tokens, finish, self.stats))
    }

    fn emitted(&self) -> usize {
        self.history.len() - self.prompt
    }

    /// Whether there is nothing more to do, and why.
    fn finished(&self) -> Option<Finish> {
        if self.matcher.as_ref().is_some_and(Matcher::is_terminated) {
            return Some(Finish::Stop);
        }
        (self.emitted() >= self.max_tokens)
            .then(|| Finish::Length { path: self.matcher.as_ref().map(Matcher::path).unwrap_or_default() })
    }

    /// Emits the forced run without asking the model: the unverified modes.
    fn jump(&mut self) {
        let last = self.history.last().copied();
        let room = self.max_tokens - self.emitted();
        let Some(matcher) = &mut self.matcher else { return };
        let before = matcher.fork();
        let mut tokens = match self.mode {
            Mode::Longest => matcher.forced_tokens(),
            _ => matcher.canonical_forced_tokens(last),
        };
        tokens.truncate(room);
        // Forced tokens are legal by construction; a tokenizer that disagrees with its own bytes ends
        // the run instead of breaking the output.
        let legal = matcher.validate_tokens(&tokens);
        tokens.truncate(legal);
        for &token in &tokens {
            if matcher.accept_token(token).is_err() {
                break;
            }
            self.history.push(token);
            self.text.extend_from_slice(self.vocab.token_bytes(token));
            self.stats.forced += 1;
        }
        if !tokens.is_empty() {
            self.unverified = Some((before, tokens.len()));
            self.stream(false);
        }
    }

    /// Figures and estimates from a verified draft.
    fn learn(&mut self, draft: &[Proposal], verified: &Verified) {
        let add = |counts: &mut BySource, source| match source {
            Source::Forced => counts.forced += 1,
            Source::Lookup => counts.lookup += 1,
            Source::Model => counts.draft_model += 1,
        };
        for (i, proposal) in draft.iter().enumerate() {
            add(&mut self.stats.drafted_by_source, proposal.source);
            if i < verified.matched {
                add(&mut self.stats.accepted_by_source, proposal.source);
                self.stats.accepted += 1;
                self.stats.forced += usize::from(proposal.source == Source::Forced);
            }
            if i <= verified.matched {
                self.drafting.gate.learn(proposal.source, i < verified.matched);
            }
        }
    }

    /// The one place where verified tokens become output: history, constraint, cache and text advance
    /// by the same tokens. Positions of the cache that hold rejected proposals are dropped.
    fn commit(&mut self, verified: &Verified) -> Result<()> {
        let keep = self.history.len() + verified.matched;
        if let Some(matcher) = &mut self.matcher {
            for (i, &token) in verified.tokens.iter().enumerate() {
                if let Err(error) = matcher.accept_token(token) {
                    matcher.rollback(i);
                    return Err(error);
                }
            }
        }
        self.cache.truncate(keep);
        for &token in &verified.tokens {
            self.history.push(token);
            self.text.extend_from_slice(self.vocab.token_bytes(token));
        }
        self.stream(false);
        Ok(())
    }

    /// Hands out what is complete UTF-8; at the end, whatever is left.
    fn stream(&mut self, end: bool) {
        let Some(on_text) = &mut self.on_text else { return };
        let rest = &self.text[self.streamed..];
        let ready = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(e) if !end && e.error_len().is_none() => e.valid_up_to(),
            Err(_) => rest.len(),
        };
        if ready > 0 {
            on_text(&String::from_utf8_lossy(&rest[..ready]));
            self.streamed += ready;
        }
    }
}
