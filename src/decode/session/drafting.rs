//! Builds a draft from all sources in turn.
//!
//! Each turn takes the forced run of the constraint, then a copy from the source text, then the
//! draft model. Turns repeat until the draft is full, a source is not worth its forward row, or no
//! source has a proposal. The draft is a hypothesis throughout: its matcher and text are copies
//! that run ahead of the output.

use std::sync::PoisonError;

use super::Session;
use super::branches::{Branch, BranchPoint, MAX_BRANCH_POINTS, branch_on_tokenization};
use super::step::{FEW_LEGAL_DIVISOR, legal_if_few};
use crate::decode::stats::Mode;
use crate::draft::{
    CopySpan, OutputRegion, Proposal, ProposalContext, RoundEstimate, Source, TokenizationMemory,
    open_string, take_legal,
};
use crate::error::Result;
use crate::matcher::{ForcedPrefix, Matcher};
use crate::vocab::{TokenId, Vocabulary};

/// A draft under construction.
pub(super) struct Draft {
    pub proposals: Vec<Proposal>,
    /// The constraint after the draft.
    pub matcher: Option<Matcher>,
    /// Output and draft as bytes.
    text: Vec<u8>,
    /// Estimate of the round so far.
    pub estimate: RoundEstimate,
    pub room: usize,
    /// Copied proposals that the draft model is to read.
    lookup_proposals: Vec<Proposal>,
    /// The context of these proposals.
    pub place: ProposalContext,
    /// Number of tokens in the current call of the draft model.
    call: usize,
    /// Number of proposals before the current turn.
    before: usize,
    /// Positions where the draft may be wrong, and the branches finally made for them.
    pub branch_points: Vec<BranchPoint>,
    pub branches: Vec<Branch>,
    branched: bool,
    /// The forced bytes after the draft, if a forced run does not fit.
    pub rest: Vec<u8>,
    /// The tokens whose logits its rows need, where these are few; computed when the draft is done.
    pub needed_logits: Option<Vec<Vec<TokenId>>>,
    /// Nothing is to be added.
    pub done: bool,
}

impl Draft {
    /// Returns the number of rows that the draft takes in the forward.
    pub fn rows(&self) -> usize {
        self.proposals.len() + self.branches.iter().map(|b| b.proposals.len()).sum::<usize>()
    }
}

impl Session {
    /// Returns an empty draft; in `off` mode one that stays empty.
    pub(super) fn begin_draft(&mut self) -> Draft {
        let mut draft = Draft {
            proposals: Vec::new(),
            matcher: self.matcher.as_ref().map(Matcher::fork),
            text: self.text.clone(),
            estimate: self.drafting.gate.begin(self.history.len()),
            room: self.room(),
            lookup_proposals: Vec::new(),
            place: ProposalContext::FREE,
            call: 0,
            before: 0,
            branch_points: Vec::new(),
            branches: Vec::new(),
            branched: false,
            rest: Vec::new(),
            needed_logits: None,
            done: self.mode == Mode::Off,
        };
        if let Some(adversary) = &mut self.drafting.adversary
            && !draft.done
        {
            let tokens = adversary(&self.history);
            let state = ProposalContext { confidence: 2, ..ProposalContext::FREE };
            let proposals = tokens.iter().map(|&token| Proposal { token, source: Source::Lookup, state });
            let known = proposals.take_while(|p| (p.token as usize) < self.vocab.len());
            let mut legal = Vec::new();
            take_legal(draft.matcher.as_ref().map(Matcher::fork).as_mut(), known, draft.room, &mut legal);
            self.draft(&mut draft, legal);
            draft.done = true;
        }
        draft
    }

    /// Adds to the draft until it is done (returns false) or a forward of the draft model is needed
    /// (returns true).
    pub(super) fn extend_draft(&mut self, draft: &mut Draft) -> bool {
        while !draft.done
            && draft.proposals.len() < draft.room
            && !self.is_cancelled()
            && !draft.matcher.as_ref().is_some_and(Matcher::is_terminated)
        {
            draft.before = draft.proposals.len();
            if !self.force(draft) {
                break;
            }
            draft.lookup_proposals = self.copy(draft);
            if self.plan_draft_model_call(draft) {
                return true;
            }
            draft.done |= draft.proposals.len() == draft.before;
        }
        draft.done = true;
        if !std::mem::replace(&mut draft.branched, true) {
            let drafting = &mut self.drafting;
            let is_idle = drafting.model.as_ref().is_none_or(|model| model.cache().0.is_empty());
            if self.mode == Mode::Exact && is_idle {
                drafting.gate.without_model(&draft.estimate, drafting.lookup.is_some());
            }
            draft.branches = self.branch(draft);
        }
        false
    }

    /// Returns the length of the longest draft that leaves room for the token after it.
    fn room(&self) -> usize {
        let left = (self.max_tokens - self.emitted()).saturating_sub(1);
        let context = self.target.config().context.saturating_sub(self.history.len());
        let company = self.batch_context.max_draft.unwrap_or(usize::MAX);
        self.drafting.gate.max().min(left).min(context).min(company)
    }

    /// Appends the forced run; returns true if the whole run was appended.
    fn force(&mut self, draft: &mut Draft) -> bool {
        if !self.drafting.forced_runs {
            return true;
        }
        let place = self.place(draft);
        let Some(matcher) = &mut draft.matcher else { return true };
        let last = draft.proposals.last().map(|p| p.token).or(self.history.last().copied());
        let room = draft.room - draft.proposals.len();
        let ForcedPrefix { tokens, whole } =
            self.drafting.forced_run_cache.start(&self.vocab, matcher, (&draft.text, last), room);
        let end = if whole { tokens.len().saturating_sub(1) } else { usize::MAX };
        let proposal = |(i, token)| {
            let grade = if i == 0 { 0 } else { 1 + u8::from(i == end) };
            Proposal { token, source: Source::Forced, state: ProposalContext { confidence: grade, ..place } }
        };
        let mut forced: Vec<Proposal> = tokens.into_iter().enumerate().map(proposal).collect();
        if let Some(splits) = self.drafting.tokenization_memory.as_ref().filter(|_| !matcher.is_token_level())
        {
            let splits = splits.lock().unwrap_or_else(PoisonError::into_inner);
            forced = splits.retokenize(&self.vocab, &last_few(&self.history, &draft.proposals), &forced);
        }
        if draft.branch_points.len() < MAX_BRANCH_POINTS
            && self.may_branch_on_tokenization(&draft.estimate, place)
        {
            draft.branch_points.extend(branch_on_tokenization(
                draft.proposals.len(),
                matcher,
                &forced,
                place,
            ));
        }
        let mut legal = Vec::new();
        take_legal(Some(&mut matcher.fork()), forced.iter().copied(), draft.room, &mut legal);
        let before = draft.proposals.len();
        let all = self.draft(draft, legal);
        let left = &forced[draft.proposals.len() - before..];
        draft.rest = left.iter().flat_map(|p| self.vocab.token_bytes(p.token)).copied().collect();
        all && whole && draft.rest.is_empty()
    }

    /// Appends those of the legal `proposals` that are worth their cost; returns true if all were
    /// appended.
    fn draft(&mut self, draft: &mut Draft, mut proposals: Vec<Proposal>) -> bool {
        proposals.truncate(draft.room.saturating_sub(draft.proposals.len()));
        let taken = self.drafting.gate.accepted_rows(&draft.estimate, &proposals);
        let all = taken == proposals.len();
        proposals.truncate(taken);
        if let Some(matcher) = &mut draft.matcher {
            for (i, proposal) in proposals.iter().enumerate() {
                // Legal by the caller's promise; otherwise the draft ends before the token.
                if matcher.accept_token(proposal.token).is_err() {
                    proposals.truncate(i);
                    break;
                }
            }
        }
        self.extended(draft, &proposals);
        draft.proposals.extend(proposals);
        all
    }

    /// Returns the output region and the key that the draft has reached.
    pub(super) fn place(&self, draft: &mut Draft) -> ProposalContext {
        let Some(matcher) = &mut draft.matcher else { return ProposalContext::FREE };
        let class = match matcher.in_string() {
            true if draft.text.ends_with(b"\"") => OutputRegion::Opening,
            true => OutputRegion::String,
            false => OutputRegion::Structure,
        };
        ProposalContext { class, confidence: 0, key: last_key(&draft.text) }
    }

    /// Copies from the source text. The copy is appended at once if there is no draft model, or a
    /// call of it is not worth its cost; otherwise it is returned for the model to read.
    fn copy(&mut self, draft: &mut Draft) -> Vec<Proposal> {
        let place = self.place(draft);
        draft.place = place;
        let mut copied = self.lookup_proposals(draft, place);
        if self.drafting.model.is_some() && draft.matcher.is_some() {
            let taken = self.drafting.gate.accepted_rows(&draft.estimate, &copied);
            copied.truncate(taken);
            // One token of the model's own follows.
            copied.truncate(draft.room.saturating_sub(draft.proposals.len() + 1));
            return copied;
        }
        self.draft(draft, copied);
        Vec::new()
    }

    /// Returns the continuation found in the source text, as far as the constraint allows it.
    fn lookup_proposals(&mut self, draft: &mut Draft, place: ProposalContext) -> Vec<Proposal> {
        let Some(lookup) = &self.drafting.lookup else { return Vec::new() };
        let forces = self.drafting.forced_runs;
        if draft.proposals.len() >= draft.room || !self.drafting.gate.may_lookup(&draft.estimate, place) {
            return Vec::new();
        }
        let mut probe = draft.matcher.as_ref().map(Matcher::fork);
        let in_string = probe.as_mut().is_some_and(Matcher::in_string);
        if let Some(matcher) = &mut probe
            && in_string
            && let Some(open) = open_string(self.answer_in(&draft.text))
        {
            let Some(mut span) = lookup.continue_value(&open.value, open.key.as_deref()) else {
                return Vec::new();
            };
            // The end of a value brings the run that is forced after it.
            span.ends &= forces;
            return encode_value(&self.vocab, matcher, &span, place, draft.room);
        }
        let Some(text) = lookup.continue_text(&draft.text) else { return Vec::new() };
        let mut copied: Vec<Proposal> =
            copies(encode_by_word(&self.vocab, &text), place).take(draft.room).collect();
        // The legality check takes time too. Of rejected proposals one is enough, for the
        // acceptance rates.
        copied.truncate(self.drafting.gate.preview_rows(&draft.estimate, &copied).max(1));
        let mut legal = Vec::new();
        take_legal(probe.as_mut(), copied, draft.room, &mut legal);
        legal
    }

    /// Returns the part of a text after the thinking.
    fn answer_in<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let begins = || self.thinking.as_ref().and_then(|t| t.answer_begins(text, text.len()));
        &text[self.answer.or_else(begins).unwrap_or(text.len())..]
    }

    /// Returns true if the draft model is to read the copied proposals and add a token. Otherwise
    /// the copied proposals are drafted as they are.
    fn plan_draft_model_call(&mut self, draft: &mut Draft) -> bool {
        if self.may_call_draft_model(draft) {
            return true;
        }
        let copied = std::mem::take(&mut draft.lookup_proposals);
        if !self.draft(draft, copied) {
            draft.done = true;
        }
        false
    }

    fn may_call_draft_model(&mut self, draft: &mut Draft) -> bool {
        let (at, left) = (draft.proposals.len(), self.max_tokens - self.emitted());
        // Its forwards also delay the neighbours in the batch.
        if self.batch_context.max_draft.is_some() {
            return false;
        }
        let (Some(model), Some(matcher)) = (&mut self.drafting.model, &mut draft.matcher) else {
            return false;
        };
        // A forced run is drafted without the draft model.
        let forces = self.drafting.forced_runs;
        if at >= draft.room || matcher.is_terminated() || forces && matcher.is_forced() {
            return false;
        }
        let gate = &mut self.drafting.gate;
        let (drafted, copied) = (&draft.proposals, &draft.lookup_proposals);
        let Some(pending) = model.prepare(&self.history, drafted, copied) else {
            return false;
        };
        // The prompt is read once; later calls are weighed one by one.
        let reading = pending >= self.prompt.min(PROMPT_READ_TOKENS);
        if reading && !gate.starts_draft_model(pending, left, self.drafting.lookup.is_some()) {
            return false;
        }
        draft.call = if reading { 1 + draft.lookup_proposals.len() } else { pending };
        let asks = gate.calls_draft_model(&draft.estimate, draft.place, &draft.lookup_proposals, draft.call);
        if asks {
            let most = self.vocab.len() / FEW_LEGAL_DIVISOR;
            let few =
                if draft.lookup_proposals.is_empty() { legal_if_few(matcher, most) } else { Vec::new() };
            model.choose_among(&self.vocab, &self.history, &draft.lookup_proposals, few);
        }
        asks
    }

    /// Continues the draft with the logits of the draft model. A draft is optional: if the model
    /// fails, it is not used again, and the generation continues without it.
    pub(super) fn take_drafted(&mut self, draft: &mut Draft, rows: Result<Vec<Vec<f32>>>) {
        let sure = self.min_lead();
        let (Some(model), Some(matcher)) = (&mut self.drafting.model, &draft.matcher) else { return };
        let mut found = Vec::new();
        let mut seconds = Vec::new();
        let doubts = (&mut seconds, sure);
        let judged = rows.and_then(|rows| {
            model.judge(&rows, &mut matcher.fork(), &draft.lookup_proposals, draft.place, &mut found, doubts)
        });
        match judged {
            // The prompt is not fully read yet.
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(%error, "the draft model failed; going on without it");
                self.stats.draft_forwards += model.forwards;
                self.drafting.model = None;
            }
        }
        self.drafting.gate.charge_call(&mut draft.estimate, draft.call);
        draft.lookup_proposals.clear();
        let before = draft.proposals.len();
        let all = self.draft(draft, found);
        Self::branch_on_runner_ups(draft, before, seconds);
        draft.done = !all || draft.proposals.len() == draft.before;
    }

    /// Updates the text and the estimate after proposals were added.
    fn extended(&self, draft: &mut Draft, proposals: &[Proposal]) {
        for proposal in proposals {
            draft.text.extend_from_slice(self.vocab.token_bytes(proposal.token));
            self.drafting.gate.add(&mut draft.estimate, proposal);
        }
    }
}

/// Number of pending tokens at which a call of the draft model counts as reading a prompt.
const PROMPT_READ_TOKENS: usize = 64;
/// Number of bytes searched for a key.
const KEY_REACH: usize = 256;

/// Returns the last tokens of history and draft that the following tokenisation may depend on.
pub(super) fn last_few(history: &[TokenId], draft: &[Proposal]) -> Vec<TokenId> {
    let drafted = &draft[draft.len().saturating_sub(TokenizationMemory::REACH)..];
    let behind = history.len().saturating_sub(TokenizationMemory::REACH - drafted.len());
    history[behind..].iter().copied().chain(drafted.iter().map(|p| p.token)).collect()
}

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

/// Returns copied tokens as proposals.
fn copies(tokens: Vec<TokenId>, place: ProposalContext) -> impl Iterator<Item = Proposal> {
    let first = if place.class == OutputRegion::Opening { 0 } else { 1 };
    tokens.into_iter().enumerate().map(move |(i, token)| {
        let grade = if i == 0 { first } else { 2 };
        Proposal { token, source: Source::Lookup, state: ProposalContext { confidence: grade, ..place } }
    })
}

/// Returns proposals for a span inside a JSON string. If the value ends with the span, the closing
/// quotation mark and the forced bytes after it follow, as far as there is `room`. All of it is
/// tokenised as one text. Moves `matcher`.
fn encode_value(
    vocab: &Vocabulary,
    matcher: &mut Matcher,
    span: &CopySpan,
    place: ProposalContext,
    room: usize,
) -> Vec<Proposal> {
    let mut bytes = ffwd_engine::json_escape::escape(&span.text);
    let value = bytes.len();
    if span.ends {
        bytes.push(b'"');
        match matcher.forced_bytes_after(&bytes, room) {
            Some(forced) => bytes.extend(forced),
            None => bytes.truncate(value),
        }
    }
    let tokens = std::str::from_utf8(&bytes).map(|text| encode_by_word(vocab, text)).unwrap_or_default();
    let mut at = 0;
    let proposals = copies(tokens, place).map(|copy| {
        let forced = at > value;
        at += vocab.token_bytes(copy.token).len();
        match forced {
            true => Proposal {
                source: Source::Forced,
                state: ProposalContext { confidence: 1, ..copy.state },
                ..copy
            },
            false => copy,
        }
    });
    let mut legal = Vec::new();
    take_legal(Some(matcher), proposals, usize::MAX, &mut legal);
    legal
}

/// Encodes a text word by word: tokenizers cut there too, and words recur where copies do not, so
/// the cache of encoded texts helps. A draft may be tokenised differently from the tokenizer's own
/// choice.
fn encode_by_word(vocab: &Vocabulary, text: &str) -> Vec<TokenId> {
    let mut tokens = Vec::new();
    let mut begin = 0;
    let bytes = text.as_bytes();
    let ends = |at: usize| match bytes[at] {
        b' ' => bytes[at - 1] != b' ',
        b'"' => bytes[at - 1].is_ascii_alphanumeric(),
        _ => false,
    };
    for end in (1..bytes.len()).filter(|&at| ends(at)).chain([bytes.len()]) {
        let Ok(word) = vocab.encode_cached(&text[begin..end]) else { break };
        tokens.extend_from_slice(&word);
        begin = end;
    }
    tokens
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_where_the_tokenizer_splits() {
        let vocab = crate::model::embedded::vocabulary().unwrap();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/eval/handwritten_dev.jsonl");
        let mut texts = 0;
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            // Both prose and JSON, escapes included.
            for text in [entry["text"].as_str().unwrap(), &entry["gold"].to_string(), line] {
                assert_eq!(encode_by_word(&vocab, text), vocab.encode(text).unwrap(), "{text}");
                texts += 1;
            }
        }
        assert!(texts >= 100);
        assert!(encode_by_word(&vocab, "").is_empty());
    }
}
