//! The draft sources of a generation: their state, and their turns.
//!
//! # Cost
//!
//! A forced run and a copy cost a legality check of each proposal. A call of the draft model costs a
//! forward.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::copies::{copies, encode_by_word, encode_value};
use super::{Draft, Drafter, FEW_LEGAL_DIVISOR, FinishedDraft, legal_if_few};
use crate::decode::request::{DraftOverride, Request};
use crate::decode::stats::Mode;
use crate::decode::transcript::Transcript;
use crate::draft::{
    AcceptanceRates, CopyKind, DraftModel, DraftRun, DraftSource, ForcedKind, ForcedRunCache, PromptLookup,
    Proposal, ProposalContext, ProposalKind, TokenizationMemory, always_listed, open_string,
};
use crate::error::Result;
use crate::matcher::{ForcedPrefix, Matcher};
use crate::model::Model;
use crate::vocab::{TokenId, Vocabulary};

/// Number of pending tokens at which a call of the draft model counts as reading a prompt.
const PROMPT_READ_TOKENS: usize = 64;

/// What the generations of an engine share for their drafts.
#[derive(Default)]
pub(in crate::decode) struct SharedDrafts {
    rates: Arc<Mutex<AcceptanceRates>>,
    /// How the target tokenises forced runs.
    tokenizations: Arc<Mutex<TokenizationMemory>>,
    /// The tokens that are always in the vocabulary of draft models.
    always: OnceLock<Arc<Vec<TokenId>>>,
}

impl SharedDrafts {
    /// Returns the acceptance rates of drafts in all generations so far.
    pub(crate) fn rates(&self) -> Arc<Mutex<AcceptanceRates>> {
        self.rates.clone()
    }
}

/// The draft sources of one generation.
pub(super) struct DraftSources {
    pub model: Option<DraftModel>,
    pub lookup: Option<PromptLookup>,
    /// False if forced runs are not drafted.
    forced_runs: bool,
    /// Cache of the forced run that drafts follow.
    forced_run_cache: ForcedRunCache,
    /// Memory of the target's tokenisation of forced runs; `None` in the unverified modes.
    tokenization_memory: Option<Arc<Mutex<TokenizationMemory>>>,
    /// Replaces all sources: returns proposals after (history, output so far). For tests.
    pub adversary: Option<DraftOverride>,
}

impl DraftSources {
    /// Returns the sources of a request.
    pub(super) fn new(
        request: &Request,
        draft: Option<&Model>,
        shared: &SharedDrafts,
        vocab: &Vocabulary,
    ) -> Result<Self> {
        let exact = request.mode == Mode::Exact;
        let lookup = (request.mode != Mode::Off && request.lookup).then(|| {
            let source = request.source.clone().or_else(|| request.prompt.source.clone());
            PromptLookup::new(&source.unwrap_or_else(|| request.prompt.outside_text()))
        });
        let always = || shared.always.get_or_init(|| Arc::new(always_listed(vocab))).clone();
        Ok(DraftSources {
            model: draft.map(|draft| DraftModel::new(draft, always())).transpose()?,
            lookup,
            forced_runs: request.forced_runs || !exact,
            forced_run_cache: ForcedRunCache::default(),
            tokenization_memory: exact.then(|| shared.tokenizations.clone()),
            adversary: request.take_draft_override(),
        })
    }

    /// Learns from a verified draft how the target writes forced runs.
    pub(super) fn learn(
        &mut self,
        draft: &FinishedDraft,
        chosen: usize,
        rows: &[Vec<f32>],
        output: &Transcript,
    ) {
        let bytes = output.matcher.as_ref().is_some_and(|m| !m.is_token_level());
        let forced = |p: &Proposal| p.source() == DraftSource::Forced;
        let any = bytes && (!draft.rest.is_empty() || draft.proposals().iter().any(forced));
        if let Some(memory) = self.tokenization_memory.as_ref().filter(|_| any) {
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            let before = last_few(&output.history, &[]);
            memory.learn(&output.vocab, &before, (draft.proposals(), &draft.rest), rows, chosen);
        }
    }
}

/// The outcome of a source's turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// The next source follows.
    Over,
    /// The draft ends here.
    Ends,
    /// A forward of the draft model is needed.
    NeedsForward,
}

impl Drafter {
    /// Gives one source its turn.
    pub(super) fn turn(&mut self, source: DraftSource, draft: &mut Draft, output: &Transcript) -> Turn {
        match source {
            DraftSource::Forced => self.force(draft, output),
            DraftSource::Lookup => self.copy(draft, output),
            DraftSource::Model => self.ask_draft_model(draft, output),
        }
    }

    /// Appends the forced run; the draft ends if a part of the run is left.
    fn force(&mut self, draft: &mut Draft, output: &Transcript) -> Turn {
        let (vocab, place) = (&output.vocab, draft.context());
        let Some(matcher) = draft.run.fork_matcher().filter(|_| self.sources.forced_runs) else {
            return Turn::Over;
        };
        let last = draft.run.tokens().last().or(output.history.last().copied());
        let ForcedPrefix { tokens, whole } =
            self.sources.forced_run_cache.start(vocab, &matcher, (&draft.text, last), draft.left());
        let mut forced = forced_proposals(tokens, whole, place);
        if let Some(memory) = self.sources.tokenization_memory.as_ref().filter(|_| !matcher.is_token_level())
        {
            let memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            forced = memory.retokenize(vocab, &last_few(&output.history, draft.run.proposals()), &forced);
        }
        let legal = DraftRun::legal(Some(matcher), forced.iter().copied(), draft.left());
        let before = draft.run.len();
        let all = self.add(draft, legal, vocab);
        let left = &forced[draft.run.len() - before..];
        draft.rest = left.iter().flat_map(|p| vocab.token_bytes(p.token)).copied().collect();
        if all && whole && draft.rest.is_empty() { Turn::Over } else { Turn::Ends }
    }

    /// Copies from the source text. The copy is appended at once if there is no draft model;
    /// otherwise it is kept for the model to read.
    fn copy(&mut self, draft: &mut Draft, output: &Transcript) -> Turn {
        draft.place = draft.context();
        let mut copied = self.find_copy(draft, output);
        if self.sources.model.is_some() && draft.run.matcher().is_some() {
            copied.truncate(self.gate.accepted_rows(&draft.estimate, copied.proposals()));
            // One token of the model's own follows.
            copied.truncate(draft.room.saturating_sub(draft.run.len() + 1));
            draft.copied = copied;
        } else {
            draft.copied = DraftRun::default();
            self.add(draft, copied, &output.vocab);
        }
        Turn::Over
    }

    /// Returns the continuation found in the source text, as far as the constraint allows it.
    fn find_copy(&mut self, draft: &Draft, output: &Transcript) -> DraftRun {
        let (place, forces) = (draft.place, self.sources.forced_runs);
        let Some(lookup) = &self.sources.lookup else { return DraftRun::default() };
        if draft.left() == 0 || !self.gate.may_lookup(&draft.estimate, place) {
            return DraftRun::default();
        }
        let mut probe = draft.run.fork_matcher();
        let in_string = probe.as_mut().is_some_and(Matcher::in_string);
        if in_string
            && let Some(open) = open_string(output.answer_in(&draft.text))
            && let Some(matcher) = probe.take()
        {
            let Some(mut span) = lookup.continue_value(&open.value, open.key.as_deref()) else {
                return DraftRun::default();
            };
            // The end of a value brings the run that is forced after it.
            span.ends &= forces;
            return encode_value(&output.vocab, matcher, &span, place, draft.room);
        }
        if let Some(matcher) = probe.as_ref().filter(|_| forces) {
            let last = draft.run.tokens().last().or(output.history.last().copied());
            let tokens = matcher.likely_tokens(last, output.answer_in(&draft.text), draft.left());
            if !tokens.is_empty() {
                let kind = ProposalKind::Lookup(CopyKind::Spaced);
                let proposals = tokens.into_iter().map(|token| Proposal { token, kind, context: place });
                return DraftRun::legal(probe, proposals, draft.room);
            }
        }
        let Some(text) = lookup.continue_text(&draft.text) else { return DraftRun::default() };
        let tokens = encode_by_word(&output.vocab, &text);
        let mut copied: Vec<Proposal> = copies(tokens, place).take(draft.room).collect();
        // The legality check takes time too. Of rejected proposals one is enough, for the
        // acceptance rates.
        copied.truncate(self.gate.preview_rows(&draft.estimate, &copied).max(1));
        DraftRun::legal(probe, copied, draft.room)
    }

    /// Asks for a forward of the draft model that reads the copied proposals and adds a token.
    /// Where that does not pay, the copied proposals are drafted as they are.
    fn ask_draft_model(&mut self, draft: &mut Draft, output: &Transcript) -> Turn {
        if self.may_call_draft_model(draft, output) {
            return Turn::NeedsForward;
        }
        let copied = std::mem::take(&mut draft.copied);
        if self.add(draft, copied, &output.vocab) { Turn::Over } else { Turn::Ends }
    }

    fn may_call_draft_model(&mut self, draft: &mut Draft, output: &Transcript) -> bool {
        // Its forwards also delay the neighbours in the batch.
        if self.batch.max_draft.is_some() {
            return false;
        }
        let Some(model) = &mut self.sources.model else { return false };
        let has_room = draft.left() > 0;
        let Some(matcher) = draft.run.matcher() else { return false };
        // A forced run is drafted without the draft model.
        let forces = self.sources.forced_runs;
        if !has_room || matcher.is_terminated() || forces && matcher.is_forced() {
            return false;
        }
        let (drafted, copied) = (draft.run.proposals(), draft.copied.proposals());
        let Some(pending) = model.prepare(&output.history, drafted, copied) else { return false };
        // The prompt is read once; later calls are weighed one by one.
        let reading = pending >= output.prompt.min(PROMPT_READ_TOKENS);
        let copies = self.sources.lookup.is_some();
        if reading && !self.gate.starts_draft_model(pending, output.left(), copies) {
            return false;
        }
        draft.call = if reading { 1 + copied.len() } else { pending };
        if !self.gate.calls_draft_model(&draft.estimate, draft.place, copied, draft.call) {
            return false;
        }
        let most = output.vocab.len() / FEW_LEGAL_DIVISOR;
        let few = match draft.run.matcher_mut().filter(|_| draft.copied.is_empty()) {
            Some(matcher) => legal_if_few(matcher, most),
            None => Vec::new(),
        };
        model.choose_among(&output.vocab, &output.history, draft.copied.proposals(), few);
        true
    }
}

/// Returns the tokens of a forced run as proposals; `whole` if they are all of it.
fn forced_proposals(tokens: Vec<TokenId>, whole: bool, place: ProposalContext) -> Vec<Proposal> {
    let end = if whole { tokens.len().saturating_sub(1) } else { usize::MAX };
    let kind = |i| match i {
        0 => ForcedKind::First,
        i if i == end => ForcedKind::Last,
        _ => ForcedKind::Inside,
    };
    let proposal = |(i, token)| Proposal { token, kind: ProposalKind::Forced(kind(i)), context: place };
    tokens.into_iter().enumerate().map(proposal).collect()
}

/// Returns the last tokens of history and draft that the following tokenisation may depend on.
fn last_few(history: &[TokenId], draft: &[Proposal]) -> Vec<TokenId> {
    let drafted = &draft[draft.len().saturating_sub(TokenizationMemory::REACH)..];
    let behind = history.len().saturating_sub(TokenizationMemory::REACH - drafted.len());
    history[behind..].iter().copied().chain(drafted.iter().map(|p| p.token)).collect()
}
