//! One generation: propose, one forward, verify, commit.
//!
//! A session is a state machine (`step`): it says which forward it needs and goes on with the logits, so
//! that one generation and many in one batch run the same code. The steps are the same in all modes. Tokens that are not in the target's cache yet and the draft go
//! through one forward; each position is judged against its own bitmask row, in order, with the random
//! number of its own position, and the first disagreement ends the round. A draft that proposes what
//! would have been sampled anyway changes nothing (sample and match), so the output is that of plain
//! decoding. Cost: one forward per round; the rest is look-ups.

mod branches;
mod drafting;
mod step;
mod unverified;
mod verify;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::completion::CompletionKeeper;
use super::engine::Output;
use super::events::{CancelToken, Event};
use super::json_stream::JsonStream;
use super::request::room;
use super::stats::{BySource, Finish, Mode, Stats};
use super::stop::{Stops, satisfies};
use super::thinking::Thinking;
use crate::draft::{
    AcceptanceRates, DraftModel, ForcedRunCache, Gate, PromptLookup, Proposal, Source, TokenizationMemory,
};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::model::{Branch, KvCache, Model};
use crate::sample::Sampler;
use crate::vocab::{TokenId, Vocabulary};
use drafting::{Draft, last_few};
pub(super) use step::{BatchContext, MaskJob, NextForward};

/// What proposes tokens besides forced runs.
pub(super) struct DraftSources {
    pub model: Option<DraftModel>,
    pub lookup: Option<PromptLookup>,
    /// The forced run that drafts go along.
    pub ahead: ForcedRunCache,
    pub gate: Gate,
    /// Whether a draft may have branches.
    pub branches: bool,
    /// What generations of this engine learn together; nothing in the unverified modes.
    pub shared: Option<Arc<Mutex<AcceptanceRates>>>,
    /// How the target splits forced runs; likewise.
    pub splits: Option<Arc<Mutex<TokenizationMemory>>>,
    /// Instead of all sources: proposes anything after (history, output so far). For tests.
    pub adversary: Option<DraftOverride>,
}

/// Who is told what happens, if anybody.
pub(super) type OnEvent<'a, 'b> = &'a mut Option<&'b mut dyn FnMut(Event)>;

/// A draft source that need not be any good.
pub type DraftOverride = Box<dyn FnMut(&[TokenId]) -> Vec<TokenId> + Send>;

/// How likely a token was.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    /// As the model gave it, before penalties, bias and mask.
    pub raw: f32,
    /// Among the legal tokens, after penalties, bias and mask, before temperature and truncation.
    pub masked: f32,
    /// Share of the probability on legal tokens, after penalties and bias: 1 if the constraint cost
    /// nothing, near 0 if the model wanted something else.
    pub legal_mass: f32,
}

/// How to generate.
pub(super) struct SessionOptions {
    pub sampler: Sampler,
    pub mode: Mode,
    pub drafting: DraftSources,
    pub max_tokens: usize,
    pub stops: Stops,
    pub close: bool,
    pub thinking: Option<Thinking>,
    pub logprobs: bool,
    pub cancel: Vec<CancelToken>,
}

/// A generation under way.
pub(super) struct Session {
    target: Model,
    vocab: Vocabulary,
    sampler: Sampler,
    matcher: Option<Matcher>,
    mode: Mode,
    drafting: DraftSources,
    max_tokens: usize,
    stops: Stops,
    closer: Option<CompletionKeeper>,
    thinking: Option<Thinking>,
    /// Where the answer begins in the text: at once unless the model thinks first.
    answer: Option<usize>,
    cancel: Vec<CancelToken>,
    cache: KvCache,
    /// What was handed to the last forward of the target.
    input: Vec<TokenId>,
    /// The tokens whose logits each of its rows wants; none if all.
    only: Vec<Vec<TokenId>>,
    /// Its branches.
    branches: Vec<Branch>,
    /// The draft for the next forward, finished or not.
    draft: Option<Draft>,
    /// Who else is in the forward.
    company: BatchContext,
    /// Mask rows of the draft's positions that were filled ahead, one behind the other.
    masks: Vec<u32>,
    /// Prompt and output.
    history: Vec<TokenId>,
    prompt: usize,
    /// Output tokens as bytes, and how much of them has been handed out.
    text: Vec<u8>,
    streamed: usize,
    fields: JsonStream,
    logprobs: Option<Vec<Option<TokenLogprob>>>,
    /// That of the token that ended the output, if it was asked for.
    end_logprob: Option<TokenLogprob>,
    row: Vec<u32>,
    stats: Stats,
    /// How many forwards the last event was about.
    reported_forwards: usize,
    begun: Instant,
    /// Why the output ends here, once that is known.
    ending: Option<Ending>,
    /// Tokens at the end of `history` that were emitted unverified, and the matcher before them.
    unverified: Option<(Matcher, usize)>,
    log_survival: f64,
}

/// Why an output ends, other than for lack of tokens.
#[derive(Debug, Clone, Copy)]
enum Ending {
    /// By the model's choice.
    Model,
    /// A stop token was chosen.
    Token(TokenId),
    /// A stop text begins at `cut` in the text; its number.
    Text { cut: usize, index: usize },
    /// A completion was emitted, or is to be.
    Closed,
}

/// What went through the last forward of the target.
#[derive(Default)]
struct SubmittedDraft {
    proposals: Vec<Proposal>,
    branches: Vec<branches::Branch>,
    /// What is forced behind the proposals.
    rest: Vec<u8>,
}

impl SubmittedDraft {
    /// Rows that it took in the forward.
    fn rows(&self) -> usize {
        self.proposals.len() + self.branches.iter().map(|b| b.proposals.len()).sum::<usize>()
    }

    /// The row behind `matched` proposals of a branch.
    fn row_of(&self, number: usize, matched: usize) -> usize {
        let before: usize = self.branches[..number].iter().map(|b| b.proposals.len()).sum();
        self.proposals.len() + before + matched
    }
}

/// What a round of verification found.
struct Verified {
    /// Tokens chosen by the target, in order.
    tokens: Vec<TokenId>,
    /// Their log-probabilities, if asked for.
    logprobs: Vec<Option<TokenLogprob>>,
    /// That of the end token or stop token behind them.
    end_logprob: Option<TokenLogprob>,
    /// How many of them the draft proposed, and how many then a branch: its number, and how many.
    matched: usize,
    branch: Option<(usize, usize)>,
    /// Whether the output ends behind them.
    ending: Option<Ending>,
}

impl Session {
    pub(super) fn new(
        target: &Model,
        vocab: &Vocabulary,
        prompt: Vec<TokenId>,
        matcher: Option<Matcher>,
        setup: SessionOptions,
    ) -> Result<Self> {
        let max_tokens = room(prompt.len(), target.config().context, setup.max_tokens)?;
        let end = setup.thinking.as_ref().map(Thinking::end);
        let closed = matcher.as_ref().filter(|_| setup.close);
        let closer = closed.and_then(|m| CompletionKeeper::new(m, end, max_tokens));
        Ok(Session {
            target: target.clone(),
            vocab: vocab.clone(),
            sampler: setup.sampler,
            matcher,
            mode: setup.mode,
            drafting: setup.drafting,
            max_tokens,
            stops: setup.stops,
            closer,
            answer: setup.thinking.is_none().then_some(0),
            thinking: setup.thinking,
            cancel: setup.cancel,
            cache: target.new_cache()?,
            input: Vec::new(),
            only: Vec::new(),
            branches: Vec::new(),
            draft: None,
            company: BatchContext::default(),
            masks: Vec::new(),
            reported_forwards: 0,
            begun: Instant::now(),
            prompt: prompt.len(),
            stats: Stats { prompt_tokens: prompt.len(), mode: setup.mode, ..Stats::default() },
            history: prompt,
            text: Vec::new(),
            streamed: 0,
            fields: JsonStream::new(),
            logprobs: setup.logprobs.then(Vec::new),
            end_logprob: None,
            row: vec![0; vocab.bitmask_words()],
            ending: None,
            unverified: None,
            log_survival: 0.0,
        })
    }

    /// The output after the last forward.
    pub(super) fn into_output(mut self, finish: &Finish, on_event: OnEvent) -> Output {
        if let Some(Ending::Text { cut, .. }) = self.ending {
            self.text.truncate(cut);
        }
        self.stream(true, on_event);
        if let Some(model) = &self.drafting.model {
            self.stats.draft_forwards += model.forwards;
        }
        if matches!(self.mode, Mode::Canonical | Mode::Longest) {
            self.stats.survival = Some(self.log_survival.exp());
        }
        self.stats.tokens = self.emitted();
        if let Some(shared) = &self.drafting.shared {
            // Counts that a panic left half added are estimates all the same.
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            self.drafting.gate.finish(&mut shared, self.stats.tokens);
        }
        self.stats.gate = self.drafting.gate.report();
        self.stats.close(finish, self.begun.elapsed().as_secs_f64());
        Output {
            complete: self.is_complete(),
            answer: self
                .answer
                .map(|at| String::from_utf8_lossy(&self.text[at.min(self.text.len())..]).into_owned()),
            text: String::from_utf8_lossy(&self.text).into_owned(),
            tokens: self.history.split_off(self.prompt),
            logprobs: self.logprobs.unwrap_or_default(),
            finish: finish.clone(),
            stats: self.stats,
        }
    }

    fn emitted(&self) -> usize {
        self.history.len() - self.prompt
    }

    /// The sum of the log-probabilities that are known, of the token that ended the output too, and how many
    /// they are.
    pub(super) fn score(&self) -> (f64, usize) {
        let known = self.logprobs.iter().flatten().chain([&self.end_logprob]).flatten();
        known.fold((0.0, 0), |(sum, count), known| (sum + f64::from(known.masked), count + 1))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.iter().any(CancelToken::is_cancelled)
    }

    /// Whether the text satisfies the constraint as it is.
    fn is_complete(&self) -> bool {
        let Some(matcher) = &self.matcher else { return true };
        satisfies(matcher, &self.history[self.prompt..], &self.text, &self.vocab)
    }

    /// Whether there is nothing more to do, and why.
    fn finished(&self) -> Option<Finish> {
        match self.ending {
            Some(Ending::Model) => return Some(Finish::Stop),
            Some(Ending::Token(token)) => return Some(Finish::StopToken { token }),
            Some(Ending::Closed) => return Some(Finish::Closed),
            Some(Ending::Text { index, .. }) => {
                return Some(Finish::StopText { stop: self.stops.text(index).into() });
            }
            None => {}
        }
        if self.matcher.as_ref().is_some_and(Matcher::is_terminated) {
            return Some(Finish::Stop);
        }
        if self.emitted() >= self.max_tokens {
            if self.closer.is_some() {
                return Some(Finish::Closed);
            }
            let (path, partial) = self.unfinished();
            return Some(Finish::Length { path, partial });
        }
        self.is_cancelled().then(|| {
            let (path, partial) = self.unfinished();
            Finish::Cancelled { path, partial }
        })
    }

    /// Where in a structure the output stands, and what is there of the value.
    fn unfinished(&self) -> (String, String) {
        if self.matcher.is_none() {
            return Default::default();
        }
        let mut fields = JsonStream::new();
        fields.feed(&self.text[self.answer.unwrap_or(0).min(self.text.len())..]);
        fields.unfinished()
    }

    /// Whether the budget for thinking is spent behind `emitted` tokens that spell `text`.
    fn thinking_budget_spent(&self, text: &[u8], emitted: usize, answering: bool) -> bool {
        !answering && self.thinking.as_ref().is_some_and(|t| t.is_over(text, emitted))
    }

    /// Whether the output can still be completed in time behind `token`, which leads to `next` and is
    /// the `emitted`-th; true if nobody asked for that.
    fn can_end(&mut self, next: &Matcher, token: TokenId, emitted: usize) -> bool {
        let Some(closer) = &mut self.closer else { return true };
        closer.advance(next, self.vocab.token_bytes(token), self.max_tokens - emitted)
    }

    /// Appends a token that the matcher has accepted.
    fn emit(&mut self, token: TokenId, logprob: Option<TokenLogprob>) {
        let bytes = self.vocab.token_bytes(token);
        self.history.push(token);
        self.text.extend_from_slice(bytes);
        if let Some(logprobs) = &mut self.logprobs {
            logprobs.push(logprob);
        }
        if self.answer.is_none()
            && let Some(thinking) = &self.thinking
        {
            self.answer = thinking.answer_begins(&self.text, bytes.len());
        }
        if let Some((cut, index)) = self.stops.find(&self.text, bytes.len()) {
            self.ending = Some(Ending::Text { cut, index });
        }
    }

    /// Figures and estimates from a verified draft.
    fn learn(&mut self, draft: &SubmittedDraft, verified: &Verified, rows: &[Vec<f32>]) {
        let add = |counts: &mut BySource, source| match source {
            Source::Forced => counts.forced += 1,
            Source::Lookup => counts.lookup += 1,
            Source::Model => counts.draft_model += 1,
            Source::Branch => counts.branch += 1,
        };
        let mut count = |proposals: &[Proposal], matched: usize, reached: bool| {
            for (i, proposal) in proposals.iter().enumerate() {
                add(&mut self.stats.drafted_by_source, proposal.source);
                if i < matched {
                    add(&mut self.stats.accepted_by_source, proposal.source);
                    self.stats.accepted += 1;
                    self.stats.forced += usize::from(proposal.source == Source::Forced);
                }
                if reached && i <= matched {
                    self.drafting.gate.learn(proposal, i < matched);
                }
            }
        };
        count(&draft.proposals, verified.matched, true);
        for (i, branch) in draft.branches.iter().enumerate() {
            let matched = verified.branch.filter(|b| b.0 == i).map_or(0, |b| b.1);
            count(&branch.proposals, matched, branch.after == verified.matched);
        }
        let bytes = self.matcher.as_ref().is_some_and(|m| !m.is_token_level());
        let forced =
            bytes && (!draft.rest.is_empty() || draft.proposals.iter().any(|p| p.source == Source::Forced));
        if let Some(splits) = self.drafting.splits.as_ref().filter(|_| forced) {
            let mut splits = splits.lock().unwrap_or_else(PoisonError::into_inner);
            let before = last_few(&self.history, &[]);
            let drafted = (&draft.proposals[..], &draft.rest[..]);
            splits.learn(&self.vocab, &before, drafted, rows, verified.matched);
        }
    }

    /// The one place where verified tokens become output: history, constraint, cache and text advance
    /// by the same tokens. Positions of the cache that hold rejected proposals are dropped.
    fn commit(&mut self, draft: &SubmittedDraft, verified: Verified) -> Result<()> {
        let keep = self.history.len() + verified.matched;
        if let Some(matcher) = &mut self.matcher {
            for (i, &token) in verified.tokens.iter().enumerate() {
                if let Err(error) = matcher.accept_token(token) {
                    matcher.rollback(i);
                    return Err(error);
                }
            }
        }
        if let Some((number, matched)) = verified.branch {
            let from = self.history.len() + draft.row_of(number, 0);
            self.cache.take_branch(keep, from, matched);
        } else {
            self.cache.truncate(keep);
        }
        self.ending = verified.ending;
        self.end_logprob = verified.end_logprob;
        for (&token, logprob) in verified.tokens.iter().zip(verified.logprobs) {
            self.emit(token, logprob);
        }
        if matches!(self.ending, Some(Ending::Closed)) {
            self.emit_completion();
        }
        self.stats.tokens = self.emitted();
        Ok(())
    }

    /// Hands out what is complete UTF-8 and no stop text can take away; at the end, whatever is left.
    fn stream(&mut self, end: bool, on_event: OnEvent) {
        let Some(on_event) = on_event else { return };
        let decided = match end {
            true => self.text.len(),
            false => match self.ending {
                Some(Ending::Text { cut, .. }) => cut,
                _ => self.text.len() - self.stops.undecided(&self.text),
            },
        };
        let rest = &self.text[self.streamed..decided.max(self.streamed)];
        let ready = match std::str::from_utf8(rest) {
            Ok(_) => rest.len(),
            Err(e) if !end && e.error_len().is_none() => e.valid_up_to(),
            Err(_) => rest.len(),
        };
        if ready > 0 {
            on_event(Event::Text(&String::from_utf8_lossy(&rest[..ready])));
            // Values are those of the answer.
            let skipped = self.answer.map_or(ready, |at| at.saturating_sub(self.streamed).min(ready));
            for field in self.fields.feed(&rest[skipped..ready]) {
                on_event(Event::Field(&field));
            }
            self.streamed += ready;
        }
    }
}
