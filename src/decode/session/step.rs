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

use super::drafting::Draft;
use super::{Finish, OnEvent, Session, SubmittedDraft};
use crate::decode::Event;
use crate::decode::output::Output;
use crate::decode::stats::{Mode, TimeBreakdown};
use crate::decode::watch::OutputWatch;
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

/// The other sequences in the forwards of a session. They affect the estimated gain of drafts, and
/// nothing in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::decode) struct BatchContext {
    /// Number of sequences in the forward.
    pub sequences: usize,
    /// Longest draft that does not delay neighbours without drafts; `None` if there is no such
    /// limit.
    pub max_draft: Option<usize>,
}

impl Default for BatchContext {
    /// A session alone.
    fn default() -> Self {
        BatchContext { sequences: 1, max_draft: None }
    }
}

/// The logits of a row are computed for the legal tokens alone if these are at most this fraction
/// of the vocabulary: one in 16.
pub(super) const FEW_LEGAL_DIVISOR: usize = 16;

/// Returns the legal tokens, sorted; empty if they are more than `most`.
pub(super) fn legal_if_few(matcher: &mut Matcher, most: usize) -> Vec<TokenId> {
    let mask = matcher.bitmask();
    let count: u32 = mask.base().iter().map(|word| word.count_ones()).sum();
    if count as usize > most {
        return Vec::new();
    }
    let mut tokens = Vec::with_capacity(count as usize + mask.more().len() + mask.ends().len());
    for (i, word) in mask.base().iter().enumerate() {
        let mut word = *word;
        while word != 0 {
            tokens.push(i as TokenId * 32 + word.trailing_zeros());
            word &= word - 1;
        }
    }
    tokens.extend(mask.more().iter().chain(mask.ends()));
    tokens.sort_unstable();
    tokens.dedup();
    if tokens.len() > most { Vec::new() } else { tokens }
}

/// A position in a draft.
type Drafted = (Matcher, Option<OutputWatch>);

/// A job that fills the mask rows of a draft's positions, on any thread and at any time before
/// verification.
pub(in crate::decode) struct MaskJob {
    matcher: Matcher,
    tokens: Vec<TokenId>,
    words: usize,
}

impl MaskJob {
    /// Returns the number of mask rows of the job.
    pub fn rows(&self) -> usize {
        self.tokens.len() + 1
    }

    /// Returns the mask rows, concatenated; fewer where the constraint ends.
    pub fn run(mut self) -> Vec<u32> {
        let mut rows = vec![0; self.words];
        self.matcher.fill_bitmask(&mut rows);
        for token in self.tokens {
            if self.matcher.accept_token(token).is_err() {
                break;
            }
            let at = rows.len();
            rows.resize(at + self.words, 0);
            self.matcher.fill_bitmask(&mut rows[at..]);
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
                NextForward::DraftModel => match &self.drafting.model {
                    Some(draft) => draft.model().clone(),
                    // Without a draft model its forward is never needed.
                    None => continue,
                },
            };
            let segment = self.segment(&need, usize::MAX);
            let (run, cached) = (segment.tokens.len(), segment.cache.len());
            let begun = Instant::now();
            // There is one result for each segment.
            let rows = model.forward_batch(&mut [segment]).pop().unwrap_or_else(|| Ok(Vec::new()));
            let seconds = begun.elapsed().as_secs_f64();
            let of = if need == NextForward::DraftModel { ModelRole::Draft } else { ModelRole::Target };
            self.drafting.gate.learn_forward(of, run, cached, seconds * 1e3);
            let first = self.stats.forwards == 0;
            if let Some(spent) = &mut self.stats.spent {
                let kind = match need {
                    NextForward::DraftModel => &mut spent.draft_model,
                    _ if first => &mut spent.prompt,
                    _ => &mut spent.target,
                };
                *kind += seconds;
            }
            self.resume(&need, rows)?;
        }
    }

    /// Continues until a model has to run or the output ends, and emits events.
    ///
    /// # Errors
    /// Fails if the output cannot continue; the session must then be dropped.
    pub(in crate::decode) fn step(&mut self, on_event: OnEvent) -> Result<NextForward> {
        self.emit_events(on_event);
        loop {
            if self.draft.is_none() {
                if let Some(finish) = self.finished() {
                    return Ok(NextForward::Finished(finish));
                }
                if self.thinking_budget_spent(&self.text, self.emitted(), self.answer.is_some()) {
                    self.end_thinking()?;
                    self.emit_events(on_event);
                    continue;
                }
                if matches!(self.mode, Mode::Canonical | Mode::Longest) {
                    self.emit_forced_run();
                    self.emit_events(on_event);
                    if let Some(finish) = self.finished() {
                        return Ok(NextForward::Finished(finish));
                    }
                }
            }
            let mut draft = self.draft.take().unwrap_or_else(|| self.begin_draft());
            let asks = self.extend_draft(&mut draft);
            // Drafting may have taken a while.
            if self.is_cancelled() {
                continue;
            }
            if !asks && draft.needed_logits.is_none() {
                draft.needed_logits = Some(self.logits_needed(&draft));
            }
            self.draft = Some(draft);
            return Ok(if asks { NextForward::DraftModel } else { NextForward::TargetModel });
        }
    }

    /// Returns the input for the model that is needed: at most about `most` tokens of a prompt. The
    /// caller runs it and passes the logits to [`resume`](Self::resume).
    pub(in crate::decode) fn segment(&mut self, need: &NextForward, most: usize) -> Segment<'_> {
        let target = *need != NextForward::DraftModel || self.drafting.model.is_none();
        let rows = if target { self.prepare(most) } else { 0..0 };
        match self.drafting.model.as_mut().filter(|_| !target) {
            Some(model) => model.segment(most),
            None => Segment {
                tokens: &self.input,
                branches: &self.branches,
                cache: &mut self.cache,
                rows,
                only: &self.only,
            },
        }
    }

    /// Prepares the input of the target; returns its rows whose logits are needed.
    fn prepare(&mut self, most: usize) -> Range<usize> {
        let cached = self.cache.len();
        let pending = self.history.len() - cached;
        self.input.clear();
        self.input.extend_from_slice(&self.history[cached..]);
        self.branches.clear();
        if let Some(draft) = &self.draft {
            self.input.extend(draft.proposals.iter().map(|p| p.token));
            self.input.extend(draft.branches.iter().flat_map(|b| &b.proposals).map(|p| p.token));
            self.branches.extend(draft.branches.iter().map(|b| b.after_pending(pending)));
        }
        // Logits are needed from the last token of the history, or from the first one that was
        // emitted unverified.
        let skipped = self.unverified.as_ref().map_or(0, |u| u.1).min(pending - 1);
        let first = pending - 1 - skipped;
        let rows = if self.input.len() > most && first > 0 {
            self.input.truncate(first.min(most.max(1)));
            self.branches.clear();
            0..0
        } else {
            first..self.input.len()
        };
        self.only.clear();
        if let Some(only) =
            self.draft.as_mut().and_then(|d| d.needed_logits.as_mut()).filter(|_| !rows.is_empty())
        {
            self.only.resize(if only.is_empty() { 0 } else { skipped }, Vec::new());
            self.only.append(only);
        }
        rows
    }

    /// Returns the tokens whose logits the rows of a draft need, where these are few: after a key,
    /// between values, in numbers. Returns nothing in `off` mode, the reference for all other
    /// modes, or if probabilities among all tokens were requested.
    fn logits_needed(&self, draft: &Draft) -> Vec<Vec<TokenId>> {
        let mut only = Vec::new();
        let Some(matcher) = self.matcher.as_ref().filter(|_| self.mode == Mode::Exact) else { return only };
        if self.sampler.reports() {
            return only;
        }
        let most = self.vocab.len() / FEW_LEGAL_DIVISOR;
        let mut at = (matcher.fork(), self.watch.clone());
        only.push(self.logits_needed_at(&mut at, most));
        for proposal in &draft.proposals {
            if !self.follow(&mut at, proposal.token) {
                return only;
            }
            only.push(self.logits_needed_at(&mut at, most));
        }
        for branch in &draft.branches {
            let mut at = (matcher.fork(), self.watch.clone());
            let trunk = draft.proposals[..branch.after].iter().all(|p| self.follow(&mut at, p.token));
            for proposal in &branch.proposals {
                if !trunk || !self.follow(&mut at, proposal.token) {
                    return only;
                }
                only.push(self.logits_needed_at(&mut at, most));
            }
        }
        only
    }

    /// Returns the tokens whose logits a position needs, where these are few. Near the limit of a
    /// string it needs all of them.
    fn logits_needed_at(&self, (matcher, watch): &mut Drafted, most: usize) -> Vec<TokenId> {
        if watch.as_ref().is_some_and(|watch| watch.room(matcher).is_some()) {
            return Vec::new();
        }
        legal_if_few(matcher, most)
    }

    /// Advances by a proposal; returns false if it is not legal.
    fn follow(&self, (matcher, watch): &mut Drafted, token: TokenId) -> bool {
        if let Some(watch) = watch {
            watch.advance(self.vocab.token_bytes(token));
        }
        matcher.accept_token(token).is_ok()
    }

    /// Continues with the logits of the segment.
    ///
    /// # Errors
    /// Fails if the target failed or its logits are unusable; the session has then ended. A failure
    /// of the draft model is not an error.
    pub(in crate::decode) fn resume(
        &mut self,
        need: &NextForward,
        rows: Result<Vec<Vec<f32>>>,
    ) -> Result<()> {
        if *need == NextForward::DraftModel {
            if let Some(mut draft) = self.draft.take() {
                self.take_drafted(&mut draft, rows);
                self.draft = Some(draft);
            }
            return Ok(());
        }
        let mut rows = rows?;
        self.stats.forwards += 1;
        if rows.is_empty() {
            return Ok(());
        }
        let draft = self.draft.take();
        let draft = draft
            .map(|d| SubmittedDraft { proposals: d.proposals, branches: d.branches, rest: d.rest })
            .unwrap_or_default();
        self.stats.drafted += draft.rows();
        let skipped = rows.len() - 1 - draft.rows();
        let begun = Instant::now();
        let verified = self.verify_rows(&draft, &mut rows, skipped);
        self.masks.clear();
        let verified = verified?;
        self.learn(&draft, &verified, &rows[skipped..]);
        let judged = verified.tokens.len().max(1);
        let committed = self.commit(&draft, verified);
        self.drafting.gate.record_verify_time(judged, begun.elapsed().as_secs_f64() * 1e3);
        committed
    }

    /// Sets the other sequences of the next forwards. Has no effect in the unverified modes: their
    /// unverified tokens depend on where drafts end.
    pub(in crate::decode) fn set_batch_context(&mut self, company: BatchContext) {
        if self.batch_context == company || matches!(self.mode, Mode::Canonical | Mode::Longest) {
            return;
        }
        self.drafting.gate.set_batch_size(company.sequences);
        self.batch_context = company;
    }

    /// Returns true for a session without a constraint or in `off` mode. Every forward brings it
    /// about one token, so longer forwards of others only delay it.
    pub(in crate::decode) fn is_plain(&self) -> bool {
        self.matcher.is_none() || self.mode == Mode::Off
    }

    /// Starts to count its seconds from now.
    pub(in crate::decode) fn start_clock(&mut self) {
        self.begun = Instant::now();
    }

    /// Returns the prompt.
    pub(in crate::decode) fn prompt(&self) -> &[TokenId] {
        &self.history[..self.prompt]
    }

    /// Returns the number of tokens in the target's KV cache.
    pub(in crate::decode) fn cached(&self) -> usize {
        self.cache.len()
    }

    /// Returns the number of rows that the next forward of the target takes, if it is not cut.
    pub(in crate::decode) fn rows(&self) -> usize {
        self.history.len() - self.cache.len() + self.draft.as_ref().map_or(0, Draft::rows)
    }

    /// Returns the bytes of the caches at the greatest possible length of this generation.
    pub(in crate::decode) fn cache_bytes(&self) -> usize {
        let longest = self.prompt + self.max_tokens;
        let draft = self
            .drafting
            .model
            .as_ref()
            .map_or(0, |d| d.model().cache_bytes(longest.min(d.model().config().context)));
        self.target.cache_bytes(longest).saturating_add(draft)
    }

    /// Copies the keys and values of the first `len` tokens, as far as they are present, from the
    /// target and the draft model.
    pub(in crate::decode) fn prefix(&self, len: usize) -> (KvCache, Option<KvCache>) {
        let draft = self.drafting.model.as_ref().and_then(|draft| {
            let (seen, cache) = draft.cache();
            let same = seen.iter().zip(self.prompt()).take_while(|(a, b)| a == b).count();
            (same > 0).then(|| cache.prefix(len.min(same)))
        });
        (self.cache.prefix(len), draft)
    }

    /// Begins with known keys and values of its prompt. Works only before the first forward, and
    /// for fewer tokens than the prompt has.
    pub(in crate::decode) fn restore_prefix(&mut self, (target, draft): (KvCache, Option<KvCache>)) {
        if self.cache.is_empty() && target.len() < self.prompt {
            self.stats.prompt_cached = target.len();
            self.cache = target;
            if let (Some(model), Some(cache)) = (&mut self.drafting.model, draft) {
                model.adopt(&self.history, cache);
            }
        }
    }

    /// Emits new text and statistics.
    fn emit_events(&mut self, on_event: OnEvent) {
        self.stream(false, on_event);
        if self.reported_forwards < self.stats.forwards {
            self.reported_forwards = self.stats.forwards;
            if let Some(on_event) = on_event {
                on_event(Event::Stats(&self.stats));
            }
        }
    }

    /// Returns a job for the masks that the next forward's verification needs; `None` without a
    /// constraint.
    pub(in crate::decode) fn mask_job(&self) -> Option<MaskJob> {
        let draft = self.draft.as_ref()?;
        let matcher = self.matcher.as_ref()?.fork();
        let tokens = draft.proposals.iter().map(|p| p.token).collect();
        Some(MaskJob { matcher, tokens, words: self.row.len() })
    }

    /// Takes the result of the [`mask_job`](Self::mask_job) for the running forward.
    pub(in crate::decode) fn set_masks(&mut self, masks: Vec<u32>) {
        self.masks = masks;
    }
}
