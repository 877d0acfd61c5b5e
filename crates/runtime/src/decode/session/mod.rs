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

mod choice;
mod jump_forward;
mod step;
mod stream;
mod trace_log;
mod verify;

use std::time::Instant;

use super::completion::CompletionKeeper;
use super::drafting::{Draft, Drafter, FinishedDraft};
use super::events::CancelToken;
use super::output::Output;
use super::request::{Request, room};
use super::stats::{Finish, Mode, Stats};
use super::stop::Stops;
use super::thinking::Thinking;
use super::trace::TracedToken;
use super::transcript::{Ending, TokenReports, Transcript};
use super::watch::OutputWatch;
use crate::error::Result;
use crate::matcher::Matcher;
use crate::model::{KvCache, Model};
use crate::sample::Sampler;
use crate::vocab::{TokenId, Vocabulary};
pub(super) use step::{MaskJob, NextForward};
pub(super) use stream::OnEvent;
use stream::OutputStream;
use trace_log::{TraceLog, origins_of, rejected_of};
use verify::Verified;

/// What a session needs beside its request.
pub(super) struct SessionParts {
    pub prompt: Vec<TokenId>,
    pub matcher: Option<Matcher>,
    pub sampler: Sampler,
    pub drafter: Drafter,
    pub watch: Option<OutputWatch>,
    /// Overrides the request.
    pub logprobs: bool,
    pub cancel: Vec<CancelToken>,
}

/// A running generation.
pub(super) struct Session {
    target: Model,
    cache: KvCache,
    sampler: Sampler,
    mode: Mode,
    drafter: Drafter,
    output: Transcript,
    phase: Phase,
    /// The input of the next forward of the target.
    input: TargetInput,
    /// Mask rows of the draft's positions that were filled in advance, concatenated.
    masks: Vec<u32>,
    /// The mask row of one position.
    row: Vec<u32>,
    stream: OutputStream,
    /// True if the output has the log-probabilities.
    reports_logprobs: bool,
    /// True if the output has the spans of the constraint's source.
    reports_source_spans: bool,
    /// The steps to report, if requested.
    trace: Option<TraceLog>,
    stats: Stats,
    begun: Instant,
    /// The matcher before the unverified tokens at the end of the output, and their number.
    unverified: Option<(Matcher, usize)>,
    log_survival: f64,
}

/// The phase of a generation. A session has one, so its size does not matter.
#[allow(clippy::large_enum_variant)]
enum Phase {
    /// Between two rounds.
    Idle,
    /// The draft model has to run before the draft can grow.
    AwaitDraft(Draft),
    /// The target has to verify the draft.
    AwaitTarget(FinishedDraft),
    /// The output has ended.
    Ended(Finish),
}

/// The input of a forward of the target.
#[derive(Default)]
struct TargetInput {
    tokens: Vec<TokenId>,
    /// The tokens whose logits each of its rows needs; empty if all.
    only: Vec<Vec<TokenId>>,
    /// The same for the rows of the draft, until its forward runs.
    needed: Vec<Vec<TokenId>>,
}

impl Session {
    pub(super) fn new(
        target: &Model,
        vocab: &Vocabulary,
        request: &Request,
        parts: SessionParts,
    ) -> Result<Self> {
        let SessionParts { prompt, matcher, logprobs, .. } = parts;
        let max_tokens = room(prompt.len(), target.config().context, request.max_tokens)?;
        let end = request.thinking.as_ref().map(Thinking::end);
        let needed = matcher.as_ref().filter(|_| request.close_before_limit || end.is_some());
        let closer = needed.and_then(|m| CompletionKeeper::new(m, end, max_tokens));
        let shortest = closer.as_ref().map_or(0, |completion| completion.tokens(vocab).len());
        let thinking = request.thinking.as_ref().map(|thinking| thinking.within(max_tokens, shortest));
        let watch = parts.watch.filter(|_| matcher.as_ref().is_some_and(|m| !m.is_token_level()));
        let stats = Stats { prompt_tokens: prompt.len(), mode: request.mode, ..Stats::default() };
        let output = Transcript {
            vocab: vocab.clone(),
            matcher,
            prompt: prompt.len(),
            history: prompt,
            max_tokens,
            text: Vec::new(),
            answer: request.thinking.is_none().then_some(0),
            thinking,
            stops: Stops::new(request.stop.clone(), request.stop_tokens.clone())?,
            cancel: parts.cancel,
            completion_keeper: closer.filter(|_| request.close_before_limit),
            watch,
            reports: TokenReports {
                logprobs: (logprobs || request.confidence).then(Vec::new),
                free: request.confidence.then(Vec::new),
                origins: (request.origins || request.trace).then(Vec::new),
                end_logprob: None,
            },
            ending: None,
        };
        Ok(Session {
            target: target.clone(),
            cache: target.new_cache()?,
            sampler: parts.sampler,
            mode: request.mode,
            drafter: parts.drafter,
            output,
            phase: Phase::Idle,
            input: TargetInput::default(),
            masks: Vec::new(),
            row: vec![0; vocab.bitmask_words()],
            stream: OutputStream::default(),
            reports_logprobs: logprobs,
            reports_source_spans: request.source_spans,
            trace: request.trace.then(TraceLog::default),
            stats,
            begun: Instant::now(),
            unverified: None,
            log_survival: 0.0,
        })
    }

    /// Returns the output after the last forward.
    pub(super) fn into_output(mut self, finish: &Finish, on_event: OnEvent) -> Output {
        if let Some(Ending::Text { cut, .. }) = self.output.ending {
            self.output.text.truncate(cut);
        }
        self.stream.emit_text(&self.output, true, on_event);
        self.stats.draft_forwards = self.drafter.model_forwards();
        if matches!(self.mode, Mode::Canonical | Mode::Longest) {
            self.stats.survival = Some(self.log_survival.exp());
        }
        self.stats.tokens = self.output.emitted();
        self.drafter.end(self.stats.tokens);
        self.stats.gate = self.drafter.gate.report();
        self.stats.close(finish, self.begun.elapsed().as_secs_f64());
        let output = self.output;
        Output {
            complete: output.is_complete(),
            answer: output.answer_text(),
            text: String::from_utf8_lossy(&output.text).into_owned(),
            tokens: output.tokens().to_vec(),
            confidence: output.confidence(),
            source_spans: if self.reports_source_spans { output.source_spans() } else { Vec::new() },
            logprobs: output.reports.logprobs.filter(|_| self.reports_logprobs).unwrap_or_default(),
            origins: output.reports.origins.unwrap_or_default(),
            finish: finish.clone(),
            stats: self.stats,
        }
    }

    /// Returns the sum of the known log-probabilities and their number, the token that ended the
    /// output included.
    pub(super) fn score(&self) -> (f64, usize) {
        self.output.score()
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.output.is_cancelled()
    }

    /// Commits verified tokens. This is the only function that turns them into output: history,
    /// constraint, KV cache and text advance by the same tokens. Cache positions of rejected
    /// proposals are dropped.
    fn commit(&mut self, draft: &FinishedDraft, verified: Verified) {
        let output = &mut self.output;
        let keep = output.history.len() + verified.chosen;
        let of_round =
            output.reports.origins.as_ref().map_or_else(Vec::new, |_| origins_of(draft, &verified));
        if let Some(trace) = &mut self.trace {
            let forwards = (self.input.tokens.len(), self.drafter.model_forwards());
            let tokens = verified.tokens.iter().zip(&of_round);
            let tokens =
                tokens.map(|(&token, origin)| TracedToken { token, source: origin.source }).collect();
            let rejected = rejected_of(draft, output.emitted(), verified.chosen);
            trace.forward(&self.stats, forwards, tokens, rejected);
        }
        output.matcher = verified.matcher;
        self.cache.truncate(keep);
        output.ending = verified.ending;
        output.watch = verified.watch;
        for pointer in verified.guarded {
            if self.stats.guarded.last() != Some(&pointer) {
                self.stats.guarded.push(pointer);
            }
        }
        self.stats.shortened.extend(verified.shortened);
        let reports = &mut output.reports;
        reports.end_logprob = verified.end_logprob;
        if let Some(origins) = &mut reports.origins {
            origins.extend(of_round);
        }
        if let Some(free) = &mut reports.free {
            free.extend(&verified.free);
        }
        for (&token, logprob) in verified.tokens.iter().zip(verified.logprobs) {
            output.emit(token, logprob);
        }
        if let Some(to) = verified.cut {
            self.take_back(to);
        }
        if matches!(self.output.ending, Some(Ending::Closed)) {
            self.stats.unverified += self.output.emit_completion();
        }
        self.stats.tokens = self.output.emitted();
    }
}
