//! One generation: draft, one forward, verify, commit.
//!
//! A session is a state machine (`step`): it reports the forward it needs and continues with the
//! logits. One generation and many in one batch therefore run the same code. The steps are the same
//! in all modes. The tokens not yet in the target's KV cache and the draft go through one forward.
//! Each position is then verified against its own mask row, in order, with the random number of its
//! own position. The first disagreement ends the round. A draft that proposes the token that would
//! be sampled anyway changes nothing (sample and match), so the output equals that of plain
//! decoding.
//!
//! # Cost
//!
//! One forward per round; the rest is lookups.

mod branches;
mod choice;
mod drafting;
mod origins;
mod step;
mod unverified;
mod verify;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::completion::CompletionKeeper;
use super::confidence::{ScoredToken, ValueConfidence, confidence_of};
use super::events::{CancelToken, Event};
use super::json_stream::JsonStream;
use super::origin::{TokenOrigin, TokenSource};
use super::output::Output;
use super::request::room;
use super::stats::{BySource, Finish, Mode, Stats};
use super::stop::{Stops, satisfies};
use super::thinking::Thinking;
use super::watch::{CutPoint, OutputWatch};
use crate::draft::{
    AcceptanceRates, DraftModel, ForcedRunCache, Gate, PromptLookup, Proposal, Source, TokenizationMemory,
};
use crate::error::Result;
use crate::matcher::{Matcher, SourceSpan};
use crate::model::{Branch, KvCache, Model};
use crate::sample::Sampler;
use crate::vocab::{TokenId, Vocabulary};
use drafting::{Draft, last_few};
pub(super) use step::{BatchContext, MaskJob, NextForward};

/// The sources of proposals besides forced runs.
pub(super) struct DraftSources {
    pub model: Option<DraftModel>,
    pub lookup: Option<PromptLookup>,
    /// False if forced runs are not drafted.
    pub forced_runs: bool,
    /// Cache of the forced run that drafts follow.
    pub forced_run_cache: ForcedRunCache,
    pub gate: Gate,
    /// True if a draft may have branches.
    pub branches: bool,
    /// Acceptance rates that the generations of this engine share; `None` in the unverified modes.
    pub shared: Option<Arc<Mutex<AcceptanceRates>>>,
    /// Memory of the target's tokenisation of forced runs; likewise.
    pub tokenization_memory: Option<Arc<Mutex<TokenizationMemory>>>,
    /// Replaces all sources: returns proposals after (history, output so far). For tests.
    pub adversary: Option<DraftOverride>,
}

/// The receiver of events, if there is one.
pub(super) type OnEvent<'a, 'b> = &'a mut Option<&'b mut dyn FnMut(Event)>;

/// A draft source for tests, which may propose any tokens.
#[doc(hidden)]
pub type DraftOverride = Box<dyn FnMut(&[TokenId]) -> Vec<TokenId> + Send>;

/// Log-probabilities of a token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    /// The model's own, before penalties, bias and mask.
    pub raw: f32,
    /// Among the legal tokens, after penalties, bias and mask, before temperature and truncation.
    pub masked: f32,
    /// Share of the probability on legal tokens, after penalties and bias: 1 if the constraint
    /// excluded nothing probable, near 0 if the model preferred other tokens.
    pub legal_mass: f32,
    /// The probability of the token less that of the most probable other legal token, on the scale
    /// of `masked`: 1 if no other token is legal, negative if another one is more probable.
    pub margin: f32,
}

/// Options of a session.
pub(super) struct SessionOptions {
    pub sampler: Sampler,
    pub mode: Mode,
    pub drafting: DraftSources,
    pub max_tokens: usize,
    pub stops: Stops,
    pub close: bool,
    pub watch: Option<OutputWatch>,
    pub thinking: Option<Thinking>,
    pub logprobs: bool,
    pub origins: bool,
    pub confidence: bool,
    pub source_spans: bool,
    pub cancel: Vec<CancelToken>,
}

/// A running generation.
pub(super) struct Session {
    target: Model,
    vocab: Vocabulary,
    sampler: Sampler,
    matcher: Option<Matcher>,
    mode: Mode,
    drafting: DraftSources,
    max_tokens: usize,
    stops: Stops,
    completion_keeper: Option<CompletionKeeper>,
    /// The watch over the values of the output, after its last token.
    watch: Option<OutputWatch>,
    thinking: Option<Thinking>,
    /// Byte offset of the answer in the text: 0 unless the model thinks first, `None` while it
    /// thinks.
    answer: Option<usize>,
    cancel: Vec<CancelToken>,
    cache: KvCache,
    /// The input of the last forward of the target.
    input: Vec<TokenId>,
    /// The tokens whose logits each of its rows needs; empty if all.
    only: Vec<Vec<TokenId>>,
    /// The branches of that input.
    branches: Vec<Branch>,
    /// The draft for the next forward, finished or not.
    draft: Option<Draft>,
    /// The other members of the forward.
    batch_context: BatchContext,
    /// Mask rows of the draft's positions that were filled in advance, concatenated.
    masks: Vec<u32>,
    /// Prompt and output.
    history: Vec<TokenId>,
    prompt: usize,
    /// Output tokens as bytes, and the number of bytes already streamed.
    text: Vec<u8>,
    streamed: usize,
    fields: JsonStream,
    logprobs: Option<Vec<Option<TokenLogprob>>>,
    /// True if the output has the log-probabilities.
    reports_logprobs: bool,
    /// True if the output has the spans of the constraint's source.
    reports_source_spans: bool,
    /// For each output token, if the confidence was requested: true if the constraint left a choice
    /// about its bytes.
    free: Option<Vec<bool>>,
    /// Origins of the output tokens, if requested.
    origins: Option<Vec<TokenOrigin>>,
    /// The log-probability of the token that ended the output, if requested.
    end_logprob: Option<TokenLogprob>,
    row: Vec<u32>,
    stats: Stats,
    /// Number of forwards at the last event.
    reported_forwards: usize,
    begun: Instant,
    /// The reason why the output ends here, once it is known.
    ending: Option<Ending>,
    /// The matcher before the unverified tokens at the end of `history`, and their number.
    unverified: Option<(Matcher, usize)>,
    log_survival: f64,
}

/// The reason why an output ends, apart from the token limit.
#[derive(Debug, Clone, Copy)]
enum Ending {
    /// The model chose to end.
    Model,
    /// A stop token was chosen.
    Token(TokenId),
    /// A stop text begins at `cut` in the text; `index` is its number.
    Text { cut: usize, index: usize },
    /// A completion was emitted, or is about to be.
    Closed,
}

/// The draft in the last forward of the target.
#[derive(Default)]
struct SubmittedDraft {
    proposals: Vec<Proposal>,
    branches: Vec<branches::Branch>,
    /// The forced bytes after the proposals.
    rest: Vec<u8>,
}

impl SubmittedDraft {
    /// Returns the number of rows that the draft took in the forward.
    fn rows(&self) -> usize {
        self.proposals.len() + self.branches.iter().map(|b| b.proposals.len()).sum::<usize>()
    }

    /// Returns the row after `matched` proposals of a branch.
    fn row_of(&self, number: usize, matched: usize) -> usize {
        let before: usize = self.branches[..number].iter().map(|b| b.proposals.len()).sum();
        self.proposals.len() + before + matched
    }
}

/// The result of a verification.
#[derive(Default)]
struct Verified {
    /// Tokens chosen by the target, in order.
    tokens: Vec<TokenId>,
    /// Their log-probabilities, if requested.
    logprobs: Vec<Option<TokenLogprob>>,
    /// True for those about whose bytes the constraint left a choice, if requested.
    free: Vec<bool>,
    /// The log-probability of the end token or stop token after them.
    end_logprob: Option<TokenLogprob>,
    /// Number of proposals of the draft that were chosen; then the index of a branch and the number
    /// of its proposals that were chosen.
    matched: usize,
    branch: Option<(usize, usize)>,
    /// The reason if the output ends after the tokens.
    ending: Option<Ending>,
    /// The earlier position to which the output is cut back after the tokens.
    cut: Option<CutPoint>,
    /// The watch after the tokens.
    watch: Option<OutputWatch>,
    /// JSON pointers of values that repeated themselves, and of strings that ended before their
    /// limit.
    guarded: Vec<String>,
    shortened: Vec<String>,
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
        let watch = setup.watch.filter(|_| matcher.as_ref().is_some_and(|m| !m.is_token_level()));
        Ok(Session {
            target: target.clone(),
            vocab: vocab.clone(),
            sampler: setup.sampler,
            matcher,
            mode: setup.mode,
            drafting: setup.drafting,
            max_tokens,
            stops: setup.stops,
            completion_keeper: closer,
            watch,
            answer: setup.thinking.is_none().then_some(0),
            thinking: setup.thinking,
            cancel: setup.cancel,
            cache: target.new_cache()?,
            input: Vec::new(),
            only: Vec::new(),
            branches: Vec::new(),
            draft: None,
            batch_context: BatchContext::default(),
            masks: Vec::new(),
            reported_forwards: 0,
            begun: Instant::now(),
            prompt: prompt.len(),
            stats: Stats { prompt_tokens: prompt.len(), mode: setup.mode, ..Stats::default() },
            history: prompt,
            text: Vec::new(),
            streamed: 0,
            fields: JsonStream::new(),
            logprobs: (setup.logprobs || setup.confidence).then(Vec::new),
            reports_logprobs: setup.logprobs,
            reports_source_spans: setup.source_spans,
            free: setup.confidence.then(Vec::new),
            origins: setup.origins.then(Vec::new),
            end_logprob: None,
            row: vec![0; vocab.bitmask_words()],
            ending: None,
            unverified: None,
            log_survival: 0.0,
        })
    }

    /// Returns the output after the last forward.
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
            // After a panic the counts may be half updated, but they are only estimates.
            let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
            self.drafting.gate.finish(&mut shared, self.stats.tokens);
        }
        self.stats.gate = self.drafting.gate.report();
        self.stats.close(finish, self.begun.elapsed().as_secs_f64());
        let confidence = self.confidence();
        let source_spans = self.source_spans();
        Output {
            complete: self.is_complete(),
            answer: self
                .answer
                .map(|at| String::from_utf8_lossy(&self.text[at.min(self.text.len())..]).into_owned()),
            text: String::from_utf8_lossy(&self.text).into_owned(),
            tokens: self.history.split_off(self.prompt),
            confidence,
            source_spans,
            logprobs: self.logprobs.filter(|_| self.reports_logprobs).unwrap_or_default(),
            origins: self.origins.unwrap_or_default(),
            finish: finish.clone(),
            stats: self.stats,
        }
    }

    /// Returns the confidence in each value of the answer, if requested.
    fn confidence(&self) -> Vec<ValueConfidence> {
        let (Some(free), Some(logprobs), Some(at)) = (&self.free, &self.logprobs, self.answer) else {
            return Vec::new();
        };
        // Offsets in text that is not UTF-8 would be those of another text.
        let answer = &self.text[at.min(self.text.len())..];
        if std::str::from_utf8(answer).is_err() {
            return Vec::new();
        }
        let tokens = self.history[self.prompt..].iter().zip(free).zip(logprobs);
        let tokens = tokens.map(|((&token, &free), &logprob)| ScoredToken {
            len: self.vocab.token_bytes(token).len(),
            logprob,
            free,
        });
        confidence_of(answer, at, tokens)
    }

    /// Returns the spans of the source in the answer, if requested.
    fn source_spans(&self) -> Vec<SourceSpan> {
        let (Some(matcher), Some(at)) =
            (self.matcher.as_ref().filter(|_| self.reports_source_spans), self.answer)
        else {
            return Vec::new();
        };
        let spans = matcher.source_spans().into_iter().filter(|span| span.output.start >= at);
        spans
            .map(|span| SourceSpan { output: span.output.start - at..span.output.end - at, ..span })
            .collect()
    }

    fn emitted(&self) -> usize {
        self.history.len() - self.prompt
    }

    /// Returns the sum of the known log-probabilities and their number, the token that ended the
    /// output included.
    pub(super) fn score(&self) -> (f64, usize) {
        let known = self.logprobs.iter().flatten().chain([&self.end_logprob]).flatten();
        known.fold((0.0, 0), |(sum, count), known| (sum + f64::from(known.masked), count + 1))
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.iter().any(CancelToken::is_cancelled)
    }

    /// Returns true if the text satisfies the constraint as it is.
    fn is_complete(&self) -> bool {
        let Some(matcher) = &self.matcher else { return true };
        satisfies(matcher, &self.history[self.prompt..], &self.text, &self.vocab)
    }

    /// Returns the reason if the generation has ended.
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
            if self.completion_keeper.is_some() {
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

    /// Returns the JSON pointer of the unfinished value and its text so far.
    fn unfinished(&self) -> (String, String) {
        if self.matcher.is_none() {
            return Default::default();
        }
        let mut fields = JsonStream::new();
        fields.feed(&self.text[self.answer.unwrap_or(0).min(self.text.len())..]);
        fields.unfinished()
    }

    /// Returns true if the thinking budget is used up after `emitted` tokens whose bytes are
    /// `text`.
    fn thinking_budget_spent(&self, text: &[u8], emitted: usize, answering: bool) -> bool {
        !answering && self.thinking.as_ref().is_some_and(|t| t.is_over(text, emitted))
    }

    /// Returns true if the output can still be completed within the limit after `token`, which
    /// leads to `next` and is the `emitted`-th. Always true unless completion was requested.
    fn can_end(&mut self, next: &Matcher, token: TokenId, emitted: usize) -> bool {
        let Some(closer) = &mut self.completion_keeper else { return true };
        closer.advance(next, self.vocab.token_bytes(token), self.max_tokens - emitted)
    }

    /// Appends a token that the matcher has accepted, without verification.
    fn emit_unverified(&mut self, token: TokenId, source: TokenSource) {
        if let Some(watch) = &mut self.watch {
            watch.advance(self.vocab.token_bytes(token));
        }
        if let Some(origins) = &mut self.origins {
            origins.push(TokenOrigin::new(source));
        }
        if let Some(free) = &mut self.free {
            free.push(source != TokenSource::Forced);
        }
        self.emit(token, None);
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
        if let Some((cut, index)) = self.stops.find_in_answer(&self.text, self.answer, bytes.len()) {
            self.ending = Some(Ending::Text { cut, index });
        }
    }

    /// Updates statistics and acceptance rates from a verified draft.
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
        if let Some(splits) = self.drafting.tokenization_memory.as_ref().filter(|_| forced) {
            let mut splits = splits.lock().unwrap_or_else(PoisonError::into_inner);
            let before = last_few(&self.history, &[]);
            let drafted = (&draft.proposals[..], &draft.rest[..]);
            splits.learn(&self.vocab, &before, drafted, rows, verified.matched);
        }
    }

    /// Commits verified tokens. This is the only function that turns them into output: history,
    /// constraint, KV cache and text advance by the same tokens. Cache positions of rejected
    /// proposals are dropped.
    fn commit(&mut self, draft: &SubmittedDraft, verified: Verified) -> Result<()> {
        let keep = self.history.len() + verified.matched;
        let of_round = self.origins.as_ref().map_or_else(Vec::new, |_| origins::origins_of(draft, &verified));
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
        self.watch = verified.watch;
        for pointer in verified.guarded {
            if self.stats.guarded.last() != Some(&pointer) {
                self.stats.guarded.push(pointer);
            }
        }
        self.stats.shortened.extend(verified.shortened);
        if let Some(origins) = &mut self.origins {
            origins.extend(of_round);
        }
        if let Some(free) = &mut self.free {
            free.extend(&verified.free);
        }
        for (&token, logprob) in verified.tokens.iter().zip(verified.logprobs) {
            self.emit(token, logprob);
        }
        if let Some(to) = verified.cut {
            self.take_back(to);
        }
        if matches!(self.ending, Some(Ending::Closed)) {
            self.emit_completion();
        }
        self.stats.tokens = self.emitted();
        Ok(())
    }

    /// Emits text that is complete UTF-8 and that no stop text can remove; at the end, all that
    /// remains.
    fn stream(&mut self, end: bool, on_event: OnEvent) {
        let Some(on_event) = on_event else { return };
        let decided = match end {
            true => self.text.len(),
            false => match self.ending {
                Some(Ending::Text { cut, .. }) => cut,
                _ => {
                    let cut = self.watch.as_ref().map_or(0, OutputWatch::undecided);
                    self.text.len() - self.stops.undecided_in_answer(&self.text, self.answer).max(cut)
                }
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
            // Values are those of the answer only.
            let skipped = self.answer.map_or(ready, |at| at.saturating_sub(self.streamed).min(ready));
            for field in self.fields.feed(&rest[skipped..ready]) {
                on_event(Event::Field(&field));
            }
            self.streamed += ready;
        }
    }
}
