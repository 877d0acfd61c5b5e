//! The state machine of a session, from forward to forward.
//!
//! [`Session::step`] continues until a model has to run. [`Session::segment`] returns the input for
//! that model, and [`Session::resume`] continues with the logits. A driver may run the segments of
//! many sessions together, and cut long prompts into pieces; neither changes the output.
//!
//! # Cost
//!
//! Nothing beyond the cost of the parts.
//!
//! # Alternatives considered
//!
//! Coroutines were rejected: a session would have to be a future, with an executor around each
//! forward.

use std::ops::Range;
use std::time::Instant;

use super::{Finish, OnEvent, Phase, Session};
use crate::decode::Event;
use crate::decode::drafting::{BatchContext, FinishedDraft, needed_logits};
use crate::decode::output::Output;
use crate::decode::stats::{Mode, TimeBreakdown};
use crate::draft::ModelRole;
use crate::error::Result;
use crate::matcher::Matcher;
use crate::model::{KvCache, Segment};
use crate::vocab::TokenId;

/// The forward that a session needs next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::decode) enum NextForward {
    /// A forward of the draft model.
    DraftModel,
    /// A forward of the target model.
    TargetModel,
    /// None: the session has ended.
    Finished(Finish),
}

/// A job that fills the mask rows of a draft's positions, on any thread and at any time before
/// verification.
pub(in crate::decode) struct MaskJob {
    /// The constraint after the draft.
    matcher: Matcher,
    rows: usize,
    words: usize,
}

impl MaskJob {
    /// Returns the number of mask rows of the job.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the mask rows, concatenated: from the last position back to the first, by rolling
    /// back.
    pub(crate) fn run(mut self) -> Vec<u32> {
        let mut rows = vec![0; self.words * self.rows];
        for (i, row) in rows.chunks_mut(self.words).enumerate().rev() {
            self.matcher.fill_bitmask(row);
            self.matcher.rollback(usize::from(i > 0));
        }
        rows
    }
}

impl Session {
    /// Runs alone to the end; `at_end` sees the session there while its caches still exist.
    pub(in crate::decode) fn run(
        mut self,
        mut on_event: Option<&mut dyn FnMut(Event)>,
        at_end: impl FnOnce(&Session),
    ) -> Result<Output> {
        self.stats.spent = Some(TimeBreakdown::default());
        loop {
            let need = self.step(&mut on_event)?;
            let model = match &need {
                NextForward::Finished(finish) => {
                    at_end(&self);
                    return Ok(self.into_output(finish, &mut on_event));
                }
                NextForward::TargetModel => self.target.clone(),
                NextForward::DraftModel => match self.drafter.model() {
                    Some(draft) => draft.model().clone(),
                    // Without a draft model its forward is never needed.
                    None => continue,
                },
            };
            let segment = self.segment(usize::MAX);
            let (run, cached) = (segment.tokens.len(), segment.cache.len());
            let begun = Instant::now();
            // There is one result for each segment.
            let rows = model.forward_batch(&mut [segment]).pop().unwrap_or_else(|| Ok(Vec::new()));
            let seconds = begun.elapsed().as_secs_f64();
            let of = if need == NextForward::DraftModel { ModelRole::Draft } else { ModelRole::Target };
            self.drafter.gate.learn_forward(of, run, cached, seconds * 1e3);
            let first = self.stats.forwards == 0;
            if let Some(spent) = &mut self.stats.spent {
                let kind = match need {
                    NextForward::DraftModel => &mut spent.draft_model,
                    _ if first => &mut spent.prompt,
                    _ => &mut spent.target,
                };
                *kind += seconds;
            }
            self.resume(rows)?;
        }
    }

    /// Continues until a model has to run or the output ends, and emits events.
    ///
    /// # Errors
    /// Fails if the output cannot continue; the session must then be dropped.
    pub(in crate::decode) fn step(&mut self, on_event: OnEvent) -> Result<NextForward> {
        self.emit_events(on_event);
        loop {
            let mut draft = match std::mem::replace(&mut self.phase, Phase::Idle) {
                Phase::Idle => {
                    if let Some(finish) = self.between_rounds(on_event)? {
                        self.phase = Phase::Ended(finish);
                        continue;
                    }
                    self.drafter.begin(&self.output)
                }
                Phase::AwaitDraft(draft) => draft,
                Phase::AwaitTarget(_) if self.is_cancelled() => continue,
                Phase::AwaitTarget(draft) => {
                    self.phase = Phase::AwaitTarget(draft);
                    return Ok(NextForward::TargetModel);
                }
                Phase::Ended(finish) => {
                    self.phase = Phase::Ended(finish.clone());
                    return Ok(NextForward::Finished(finish));
                }
            };
            if self.drafter.extend(&mut draft, &self.output) {
                self.phase = Phase::AwaitDraft(draft);
                return Ok(NextForward::DraftModel);
            }
            let draft = self.drafter.finish(draft);
            // Drafting may have taken a while.
            if !self.is_cancelled() {
                self.input.needed = self.needed_logits(&draft);
                self.phase = Phase::AwaitTarget(draft);
            }
        }
    }

    /// Ends the thinking and emits forced runs where no model is needed for that, and returns the
    /// reason if the output has ended.
    fn between_rounds(&mut self, on_event: OnEvent) -> Result<Option<Finish>> {
        loop {
            if let Some(finish) = self.output.finished() {
                return Ok(Some(finish));
            }
            if !self.output.is_thinking_over() {
                break;
            }
            self.end_thinking()?;
            self.emit_events(on_event);
        }
        if matches!(self.mode, Mode::Canonical | Mode::Longest) {
            self.emit_forced_run();
            self.emit_events(on_event);
            return Ok(self.output.finished());
        }
        Ok(None)
    }

    /// Returns the tokens whose logits the rows of a draft need, where these are few. Returns
    /// nothing in `off` mode, the reference for all other modes, or if probabilities among all
    /// tokens were requested.
    fn needed_logits(&self, draft: &FinishedDraft) -> Vec<Vec<TokenId>> {
        if self.mode != Mode::Exact || self.sampler.reports() {
            return Vec::new();
        }
        needed_logits(draft, self.output.watch.as_ref(), &self.output.vocab)
    }

    /// Returns the input for the model that is needed: at most about `most` tokens of a prompt. The
    /// caller runs it and passes the logits to [`resume`](Self::resume).
    pub(in crate::decode) fn segment(&mut self, most: usize) -> Segment<'_> {
        let drafts = matches!(self.phase, Phase::AwaitDraft(_)) && self.drafter.model().is_some();
        let rows = if drafts { 0..0 } else { self.prepare(most) };
        match self.drafter.model_mut().filter(|_| drafts) {
            Some(model) => model.segment(most),
            None => {
                Segment { tokens: &self.input.tokens, cache: &mut self.cache, rows, only: &self.input.only }
            }
        }
    }

    /// Prepares the input of the target; returns its rows whose logits are needed.
    fn prepare(&mut self, most: usize) -> Range<usize> {
        let cached = self.cache.len();
        let history = &self.output.history;
        let pending = history.len() - cached;
        let input = &mut self.input;
        input.tokens.clear();
        input.tokens.extend_from_slice(&history[cached..]);
        if let Phase::AwaitTarget(draft) = &self.phase {
            input.tokens.extend(draft.tokens());
        }
        // Logits are needed from the last token of the history, or from the first one that was
        // emitted unverified.
        let skipped = self.unverified.as_ref().map_or(0, |u| u.1).min(pending - 1);
        let first = pending - 1 - skipped;
        input.only.clear();
        if input.tokens.len() > most && first > 0 {
            input.tokens.truncate(first.min(most.max(1)));
            return 0..0;
        }
        input.only.resize(if input.needed.is_empty() { 0 } else { skipped }, Vec::new());
        input.only.append(&mut input.needed);
        first..input.tokens.len()
    }

    /// Continues with the logits of the segment.
    ///
    /// # Errors
    /// Fails if the target failed or its logits are unusable; the session has then ended. A failure
    /// of the draft model is not an error.
    pub(in crate::decode) fn resume(&mut self, rows: Result<Vec<Vec<f32>>>) -> Result<()> {
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::AwaitDraft(mut draft) => {
                self.drafter.take_logits(&mut draft, rows, &self.output.vocab);
                self.phase = Phase::AwaitDraft(draft);
                Ok(())
            }
            Phase::AwaitTarget(draft) => self.judge(draft, rows?),
            phase @ (Phase::Idle | Phase::Ended(_)) => {
                self.phase = phase;
                Ok(())
            }
        }
    }

    /// Verifies a draft with the logits of the target, and commits the tokens.
    fn judge(&mut self, draft: FinishedDraft, mut rows: Vec<Vec<f32>>) -> Result<()> {
        self.stats.forwards += 1;
        if rows.is_empty() {
            // A part of the prompt has run.
            if let Some(trace) = &mut self.trace {
                let forwards = (self.input.tokens.len(), self.drafter.model_forwards());
                trace.forward(&self.stats, forwards, Vec::new(), Vec::new());
            }
            self.phase = Phase::AwaitTarget(draft);
            return Ok(());
        }
        self.stats.drafted += draft.run.len();
        let skipped = rows.len() - 1 - draft.run.len();
        let begun = Instant::now();
        let verified = self.verify_rows(&draft, &mut rows, skipped);
        self.masks.clear();
        let verified = verified?;
        self.drafter.learn(&draft, verified.chosen, &rows[skipped..], (&self.output, &mut self.stats));
        let judged = verified.tokens.len().max(1);
        self.commit(&draft, verified);
        self.drafter.gate.record_verify_time(judged, begun.elapsed().as_secs_f64() * 1e3);
        Ok(())
    }

    /// Sets the other sequences of the next forwards.
    pub(in crate::decode) fn set_batch_context(&mut self, batch: BatchContext) {
        self.drafter.set_batch_context(batch);
    }

    /// Returns true for a session without a constraint or in `off` mode. Every forward brings it
    /// about one token, so longer forwards of others only delay it.
    pub(in crate::decode) fn is_plain(&self) -> bool {
        self.output.matcher.is_none() || self.mode == Mode::Off
    }

    /// Starts to count its seconds from now.
    pub(in crate::decode) fn start_clock(&mut self) {
        self.begun = Instant::now();
    }

    /// Returns the prompt.
    pub(in crate::decode) fn prompt(&self) -> &[TokenId] {
        &self.output.history[..self.output.prompt]
    }

    /// Returns the number of tokens in the target's KV cache.
    pub(in crate::decode) fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Returns the number of rows that the next forward of the target takes, if it is not cut.
    pub(in crate::decode) fn rows(&self) -> usize {
        let draft = match &self.phase {
            Phase::AwaitTarget(draft) => draft.run.len(),
            Phase::AwaitDraft(_) | Phase::Idle | Phase::Ended(_) => 0,
        };
        self.output.history.len() - self.cache.len() + draft
    }

    /// Returns the bytes of the caches at the greatest possible length of this generation.
    pub(in crate::decode) fn cache_bytes(&self) -> usize {
        let longest = self.output.prompt + self.output.max_tokens;
        let draft = self
            .drafter
            .model()
            .map_or(0, |d| d.model().cache_bytes(longest.min(d.model().config().context)));
        self.target.cache_bytes(longest).saturating_add(draft)
    }

    /// Copies the keys and values of the first `len` tokens, as far as they are present, from the
    /// target and the draft model.
    pub(in crate::decode) fn prefix(&self, len: usize) -> (KvCache, Option<KvCache>) {
        let draft = self.drafter.model().and_then(|draft| {
            let (seen, cache) = draft.cache();
            let same = seen.iter().zip(self.prompt()).take_while(|(a, b)| a == b).count();
            (same > 0).then(|| cache.prefix(len.min(same)))
        });
        (self.cache.prefix(len), draft)
    }

    /// Begins with known keys and values of its prompt. Works only before the first forward, and
    /// for fewer tokens than the prompt has.
    pub(in crate::decode) fn restore_prefix(&mut self, (target, draft): (KvCache, Option<KvCache>)) {
        if self.cache.is_empty() && target.len() < self.output.prompt {
            self.stats.prompt_cached = target.len();
            self.cache = target;
            if let (Some(model), Some(cache)) = (self.drafter.model_mut(), draft) {
                model.adopt(&self.output.history, cache);
            }
        }
    }

    /// Emits new text and statistics.
    fn emit_events(&mut self, on_event: OnEvent) {
        self.stream.emit(&self.output, &self.stats, on_event);
        let Some(trace) = &mut self.trace else { return };
        for step in trace.take(&self.output, &self.stats) {
            if let Some(on_event) = on_event {
                on_event(Event::Forward(&step));
            }
        }
    }

    /// Returns a job for the masks that the next forward's verification needs; `None` without a
    /// constraint.
    pub(in crate::decode) fn mask_job(&self) -> Option<MaskJob> {
        let Phase::AwaitTarget(draft) = &self.phase else { return None };
        let matcher = draft.run.fork_matcher()?;
        Some(MaskJob { matcher, rows: draft.run.len() + 1, words: self.row.len() })
    }

    /// Takes the result of the [`mask_job`](Self::mask_job) for the running forward.
    pub(in crate::decode) fn set_masks(&mut self, masks: Vec<u32>) {
        self.masks = masks;
    }
}
