//! Builds a draft from all sources in turn.
//!
//! Each turn takes the forced run of the constraint, then a copy from the source text, then the
//! draft model. Turns repeat until the draft is full, a source is not worth its forward row, or no
//! source has a proposal. A [`Drafter`] reads the output and never changes it.
//!
//! # Cost
//!
//! That of the sources, of which [`sources`] has the turns. A drafted token is accepted by a matcher
//! once, when a source proposes it.
//!
//! # Alternatives considered
//!
//! Trees of drafts, with a second continuation where the first may be wrong, were rejected. Measured,
//! they save almost no forwards, and every part from here to the attention has to support them.

mod copies;
mod needed_logits;
mod sources;

use std::sync::{Arc, Mutex, PoisonError};

use super::request::{DEFAULT_MAX_DRAFT, Request};
use super::stats::{Mode, Stats};
use super::transcript::Transcript;
use crate::draft::{
    AcceptanceRates, CopyKind, DraftModel, DraftRun, DraftSource, Gate, OutputRegion, Proposal,
    ProposalContext, ProposalKind, RoundEstimate,
};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::model::Model;
use crate::vocab::{TokenId, Vocabulary};
pub(super) use needed_logits::needed_logits;
use needed_logits::{FEW_LEGAL_DIVISOR, legal_if_few};
pub(super) use sources::SharedDrafts;
use sources::{DraftSources, Turn};

/// Default length of the longest draft: on the processor, and where further rows cost little.
const MAX_DRAFT: [usize; 2] = [24, 64];

/// The other sequences in the forwards of a session. They affect the estimated gain of drafts, and
/// nothing in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BatchContext {
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

/// Drafts for one generation.
pub(super) struct Drafter {
    sources: DraftSources,
    pub gate: Gate,
    mode: Mode,
    /// Acceptance rates that the generations of this engine share; `None` in the unverified modes.
    rates: Option<Arc<Mutex<AcceptanceRates>>>,
    /// The other members of the forward.
    batch: BatchContext,
    /// Length of the target's context in tokens.
    context: usize,
    /// Forwards of a draft model that failed.
    failed_forwards: usize,
}

/// The target and the draft model of an engine.
#[derive(Clone, Copy)]
pub(super) struct Models<'a> {
    pub target: &'a Model,
    pub draft: Option<&'a Model>,
}

impl Drafter {
    /// Returns the drafter of a request. In the unverified modes the text depends on where drafts
    /// end. That must depend on nothing but the request, so no shared state is used.
    pub(super) fn new(
        request: &Request,
        models: Models,
        shared: &SharedDrafts,
        vocab: &Vocabulary,
    ) -> Result<Self> {
        let exact = request.mode == Mode::Exact;
        let on = request.mode != Mode::Off;
        let draft = models.draft.filter(|_| on && request.draft_model);
        let rates = exact.then(|| shared.rates());
        let max = match request.max_draft {
            DEFAULT_MAX_DRAFT => MAX_DRAFT[usize::from(models.target.is_on_accelerator())],
            max => max,
        };
        let mut gate = match &rates {
            _ if request.without_gate || !on => Gate::unlimited(max),
            None => Gate::fixed(max),
            Some(rates) => {
                let (target, draft) = (models.target.cost_estimate(), draft.map(Model::cost_estimate));
                let mut known = rates.lock().unwrap_or_else(PoisonError::into_inner);
                known.measured(target, draft);
                Gate::new(target, draft, max, known.clone())
            }
        };
        if request.explain_gate {
            gate.explain();
        }
        Ok(Drafter {
            sources: DraftSources::new(request, draft, shared, vocab)?,
            gate,
            mode: request.mode,
            rates,
            batch: BatchContext::default(),
            context: models.target.config().context,
            failed_forwards: 0,
        })
    }

    /// Returns the draft model, if there is one.
    pub(super) fn model(&self) -> Option<&DraftModel> {
        self.sources.model.as_ref()
    }

    /// Returns the draft model, to run it.
    pub(super) fn model_mut(&mut self) -> Option<&mut DraftModel> {
        self.sources.model.as_mut()
    }

    /// Returns the number of forwards of the draft model.
    pub(super) fn model_forwards(&self) -> usize {
        self.failed_forwards + self.model().map_or(0, |model| model.forwards)
    }

    /// Sets the other sequences of the next forwards. Has no effect in the unverified modes: their
    /// unverified tokens depend on where drafts end.
    pub(super) fn set_batch_context(&mut self, batch: BatchContext) {
        if self.batch == batch || matches!(self.mode, Mode::Canonical | Mode::Longest) {
            return;
        }
        self.gate.set_batch_size(batch.sequences);
        self.batch = batch;
    }

    /// Returns an empty draft; in `off` mode one that stays empty.
    pub(super) fn begin(&mut self, output: &Transcript) -> Draft {
        let mut draft = Draft {
            run: DraftRun::new(output.matcher.as_ref().map(Matcher::fork)),
            text: output.text.clone(),
            estimate: self.gate.begin(output.history.len()),
            room: self.room(output),
            place: ProposalContext::FREE,
            copied: DraftRun::default(),
            call: 0,
            before: 0,
            rest: Vec::new(),
            done: self.mode == Mode::Off,
        };
        if let Some(adversary) = &mut self.sources.adversary
            && !draft.done
        {
            let tokens = adversary(&output.history);
            let (kind, context) = (ProposalKind::Lookup(CopyKind::Further), ProposalContext::FREE);
            let proposals = tokens.iter().map(|&token| Proposal { token, kind, context });
            let known = proposals.take_while(|p| (p.token as usize) < output.vocab.len());
            let legal = DraftRun::legal(draft.run.fork_matcher(), known, draft.room);
            self.add(&mut draft, legal, &output.vocab);
            draft.done = true;
        }
        draft
    }

    /// Adds to the draft until it is done (returns false) or a forward of the draft model is needed
    /// (returns true).
    pub(super) fn extend(&mut self, draft: &mut Draft, output: &Transcript) -> bool {
        while !draft.done
            && draft.left() > 0
            && !output.is_cancelled()
            && !draft.run.matcher().is_some_and(Matcher::is_terminated)
        {
            draft.before = draft.run.len();
            match self.turns(draft, output) {
                Turn::Over => draft.done |= draft.run.len() == draft.before,
                Turn::Ends => draft.done = true,
                Turn::NeedsForward => return true,
            }
        }
        draft.done = true;
        false
    }

    /// Gives each source its turn.
    fn turns(&mut self, draft: &mut Draft, output: &Transcript) -> Turn {
        for source in DraftSource::ALL {
            match self.turn(source, draft, output) {
                Turn::Over => {}
                turn => return turn,
            }
        }
        Turn::Over
    }

    /// Finishes a draft.
    pub(super) fn finish(&mut self, draft: Draft) -> FinishedDraft {
        let is_idle = self.model().is_none_or(|model| model.cache().0.is_empty());
        if self.mode == Mode::Exact && is_idle {
            self.gate.without_model(&draft.estimate, self.sources.lookup.is_some());
        }
        FinishedDraft { run: draft.run, rest: draft.rest }
    }

    /// Returns the length of the longest draft that leaves room for the token after it.
    fn room(&self, output: &Transcript) -> usize {
        let left = output.left().saturating_sub(1);
        let context = self.context.saturating_sub(output.history.len());
        let batch = self.batch.max_draft.unwrap_or(usize::MAX);
        self.gate.max().min(left).min(context).min(batch)
    }

    /// Appends those proposals of a run from the end of the draft that are worth their cost;
    /// returns true if all were appended.
    fn add(&mut self, draft: &mut Draft, mut run: DraftRun, vocab: &Vocabulary) -> bool {
        run.truncate(draft.left());
        let taken = self.gate.accepted_rows(&draft.estimate, run.proposals());
        let all = taken == run.len();
        run.truncate(taken);
        for proposal in run.proposals() {
            draft.text.extend_from_slice(vocab.token_bytes(proposal.token));
            self.gate.add(&mut draft.estimate, proposal);
        }
        draft.run.append(run);
        all
    }

    /// Continues the draft with the logits of the draft model. A draft is optional: if the model
    /// fails, it is not used again, and the generation continues without it.
    pub(super) fn take_logits(&mut self, draft: &mut Draft, rows: Result<Vec<Vec<f32>>>, vocab: &Vocabulary) {
        let (Some(model), Some(matcher)) = (&mut self.sources.model, draft.run.fork_matcher()) else {
            return;
        };
        let judged = rows.and_then(|rows| model.judge(&rows, matcher, &draft.copied, draft.place));
        let found = match judged {
            // The prompt is not fully read yet.
            Ok(None) => return,
            Ok(Some(found)) => found,
            Err(error) => {
                tracing::warn!(%error, "the draft model failed; going on without it");
                self.failed_forwards += model.forwards;
                self.sources.model = None;
                DraftRun::default()
            }
        };
        self.gate.charge_call(&mut draft.estimate, draft.call);
        draft.copied = DraftRun::default();
        let all = self.add(draft, found, vocab);
        draft.done = !all || draft.run.len() == draft.before;
    }

    /// Updates statistics and acceptance rates from a verified draft, of whose proposals the first
    /// `chosen` were chosen. `rows` are the logits of the
    /// target, and `output` is that before the draft.
    pub(super) fn learn(
        &mut self,
        draft: &FinishedDraft,
        chosen: usize,
        rows: &[Vec<f32>],
        (output, stats): (&Transcript, &mut Stats),
    ) {
        for (i, proposal) in draft.proposals().iter().enumerate() {
            let source = proposal.source();
            stats.drafted_by_source[source] += 1;
            if i < chosen {
                stats.accepted_by_source[source] += 1;
                stats.accepted += 1;
                stats.forced += usize::from(source == DraftSource::Forced);
            }
            if i <= chosen {
                self.gate.learn(proposal, i < chosen);
            }
        }
        self.sources.learn(draft, chosen, rows, output);
    }

    /// Adds what this generation of `tokens` tokens showed to what the engine knows.
    pub(super) fn end(&mut self, tokens: usize) {
        if let Some(rates) = &self.rates {
            // After a panic the counts may be half updated, but they are only estimates.
            let mut rates = rates.lock().unwrap_or_else(PoisonError::into_inner);
            self.gate.finish(&mut rates, tokens);
        }
    }
}

/// A draft under construction. It is a hypothesis throughout: its matcher and text are copies that
/// run ahead of the output.
pub(super) struct Draft {
    run: DraftRun,
    /// Output and draft as bytes.
    text: Vec<u8>,
    /// Estimate of the round so far.
    estimate: RoundEstimate,
    /// Maximum length of the draft.
    room: usize,
    /// The context of the current turn's copy and call of the draft model.
    place: ProposalContext,
    /// Copied proposals that the draft model is to read.
    copied: DraftRun,
    /// Number of tokens in the current call of the draft model.
    call: usize,
    /// Number of proposals before the current turn.
    before: usize,
    /// The forced bytes after the draft, if a forced run does not fit.
    rest: Vec<u8>,
    /// Nothing is to be added.
    done: bool,
}

impl Draft {
    /// Returns the number of further proposals that it has room for.
    fn left(&self) -> usize {
        self.room.saturating_sub(self.run.len())
    }
}

/// A finished draft.
#[derive(Default)]
pub(super) struct FinishedDraft {
    pub run: DraftRun,
    /// The forced bytes after the proposals.
    pub rest: Vec<u8>,
}

impl FinishedDraft {
    pub(super) fn proposals(&self) -> &[Proposal] {
        self.run.proposals()
    }

    /// Returns the tokens of its rows.
    pub(super) fn tokens(&self) -> impl Iterator<Item = TokenId> + '_ {
        self.run.tokens()
    }

    /// Returns true if the proposal after the first `at` is `token`.
    pub(super) fn proposes(&self, at: usize, token: TokenId) -> bool {
        self.proposals().get(at).is_some_and(|proposal| proposal.token == token)
    }
}

impl Draft {
    /// Returns the output region and the key that the draft has reached.
    fn context(&mut self) -> ProposalContext {
        let Some(matcher) = self.run.matcher_mut() else { return ProposalContext::FREE };
        let class = match matcher.in_string() {
            true if self.text.ends_with(b"\"") => OutputRegion::Opening,
            true => OutputRegion::String,
            false => OutputRegion::Structure,
        };
        ProposalContext { class, key: last_key(&self.text) }
    }
}

/// Number of bytes searched for a key.
const KEY_REACH: usize = 256;

/// Returns a hash of the last key of a JSON text (the text between quotation marks in front of a
/// colon), 0 if there is none nearby. A false key inside a string only gives another hash.
fn last_key(text: &[u8]) -> u32 {
    let near = &text[text.len().saturating_sub(KEY_REACH)..];
    let Some(end) = near.windows(2).rposition(|w| w == b"\":") else { return 0 };
    let start = near[..end].iter().rposition(|b| *b == b'"').map_or(0, |at| at + 1);
    let mut hasher = rustc_hash::FxHasher::default();
    std::hash::Hash::hash(&near[start..end], &mut hasher);
    (std::hash::Hasher::finish(&hasher) as u32).max(1)
}
