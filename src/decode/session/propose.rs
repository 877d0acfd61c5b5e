//! A draft from all sources in turn.
//!
//! Each turn asks the constraint for its forced run, then the source text, then the draft model, until
//! the window is full, a source would be worth less than its row, or nobody knows how to go on. The
//! draft is a hypothesis throughout: matcher and text are copies that run ahead of the output.

use super::Session;
use crate::decode::stats::Mode;
use crate::draft::{Proposal, Source, Span, open_string, take_legal};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// A draft under construction.
pub(super) struct Draft {
    pub proposals: Vec<Proposal>,
    /// The constraint behind the draft.
    matcher: Option<Matcher>,
    /// Output and draft as bytes.
    text: Vec<u8>,
    /// Estimated probability that all of it is accepted.
    survival: f64,
    room: usize,
    /// What was copied and the draft model is to read.
    copied: Vec<Proposal>,
    /// Proposals before the turn under way.
    before: usize,
    /// Nothing is to be added.
    pub done: bool,
}

impl Session {
    /// An empty draft, or in `off` mode one that stays empty.
    pub(super) fn begin_draft(&mut self) -> Draft {
        let mut draft = Draft {
            proposals: Vec::new(),
            matcher: self.matcher.as_ref().map(Matcher::fork),
            text: self.text.clone(),
            survival: 1.0,
            room: self.room(),
            copied: Vec::new(),
            before: 0,
            done: self.mode == Mode::Off,
        };
        if let Some(adversary) = &mut self.drafting.adversary
            && !draft.done
        {
            let tokens = adversary(&self.history);
            let proposals = tokens.iter().map(|&token| Proposal { token, source: Source::Lookup });
            let known = proposals.take_while(|p| (p.token as usize) < self.vocab.len());
            take_legal(draft.matcher.as_mut(), known, draft.room, &mut draft.proposals);
            draft.done = true;
        }
        draft
    }

    /// Adds to the draft until it is done (false) or the draft model is to be asked (true).
    pub(super) fn extend_draft(&mut self, draft: &mut Draft) -> bool {
        while !draft.done
            && draft.proposals.len() < draft.room
            && !self.is_cancelled()
            && !draft.matcher.as_ref().is_some_and(Matcher::is_terminated)
        {
            draft.before = draft.proposals.len();
            self.force(draft);
            draft.copied = self.copy(draft);
            if self.ask_model(draft) {
                return true;
            }
            draft.done = draft.proposals.len() == draft.before;
        }
        draft.done = true;
        false
    }

    /// Longest draft that still has a place for the token after it.
    fn room(&self) -> usize {
        let left = (self.max_tokens - self.emitted()).saturating_sub(1);
        let context = self.target.config().context.saturating_sub(self.history.len());
        let company = self.company.most_draft.unwrap_or(usize::MAX);
        self.drafting.gate.max().min(left).min(context).min(company)
    }

    /// Appends the forced run.
    fn force(&self, draft: &mut Draft) {
        let at = draft.proposals.len();
        let Some(matcher) = &mut draft.matcher else { return };
        if !self.drafting.gate.admits(Source::Forced, draft.survival, at) {
            return;
        }
        let last = draft.proposals.last().map(|p| p.token).or(self.history.last().copied());
        let tokens = matcher.drafted_forced_tokens(last);
        let forced = tokens.into_iter().map(|token| Proposal { token, source: Source::Forced });
        take_legal(Some(matcher), forced, draft.room, &mut draft.proposals);
        self.extended(draft, at);
    }

    /// Copies from the source: appended at once if there is no draft model, else handed back for it to
    /// read.
    fn copy(&self, draft: &mut Draft) -> Vec<Proposal> {
        let mut copied = self.copied(draft);
        let at = draft.proposals.len();
        let (mut survival, mut admitted) = (draft.survival, 0);
        for proposal in copied.iter().take(draft.room.saturating_sub(at)) {
            if !self.drafting.gate.admits(proposal.source, survival, at + admitted) {
                break;
            }
            survival *= self.drafting.gate.rate(proposal.source);
            admitted += 1;
        }
        copied.truncate(admitted);
        if self.drafting.model.is_some() && draft.matcher.is_some() {
            // One token of its own follows.
            copied.truncate(draft.room.saturating_sub(at + 1));
            return copied;
        }
        take_legal(draft.matcher.as_mut(), copied, draft.room, &mut draft.proposals);
        self.extended(draft, at);
        Vec::new()
    }

    /// What the source suggests here, as far as the constraint allows it.
    fn copied(&self, draft: &mut Draft) -> Vec<Proposal> {
        let Some(lookup) = &self.drafting.lookup else { return Vec::new() };
        if draft.proposals.len() >= draft.room {
            return Vec::new();
        }
        let mut probe = draft.matcher.as_ref().map(Matcher::fork);
        let in_string = probe.as_mut().is_some_and(Matcher::in_string);
        if let Some(matcher) = &mut probe
            && in_string
            && let Some(open) = open_string(self.answer_in(&draft.text))
        {
            let Some(span) = lookup.continue_value(&open.value, open.key.as_deref()) else {
                return Vec::new();
            };
            return spelled(&self.vocab, matcher, &span);
        }
        let Some(text) = lookup.continue_text(&draft.text) else { return Vec::new() };
        let copied = self.vocab.encode(&text).unwrap_or_default();
        let mut legal = Vec::new();
        let proposals = copied.into_iter().map(|token| Proposal { token, source: Source::Lookup });
        take_legal(probe.as_mut(), proposals, draft.room, &mut legal);
        legal
    }

    /// The part of a text behind the thinking.
    fn answer_in<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let begins = || self.thinking.as_ref().and_then(|t| t.answer_begins(text, text.len()));
        &text[self.answer.or_else(begins).unwrap_or(text.len())..]
    }

    /// Whether the draft model is to read what was copied and add a token.
    fn ask_model(&mut self, draft: &mut Draft) -> bool {
        let at = draft.proposals.len();
        // Its forwards are time that neighbours wait, too.
        if self.company.most_draft.is_some() {
            return false;
        }
        let (Some(model), Some(matcher)) = (&mut self.drafting.model, &mut draft.matcher) else {
            return false;
        };
        // A forced run is drafted without it.
        let idle = at >= draft.room || matcher.is_terminated() || !matcher.forced_bytes().is_empty();
        if idle || !self.drafting.gate.admits(Source::Model, draft.survival, at) {
            return false;
        }
        model.prepare(&self.history, &draft.proposals, &draft.copied)
    }

    /// Goes on with what the draft model says. A draft is an offer: if that model fails it is not asked
    /// again, and the generation goes on without it.
    pub(super) fn take_drafted(&mut self, draft: &mut Draft, rows: Result<Vec<Vec<f32>>>) {
        let at = draft.proposals.len();
        let (Some(model), Some(matcher)) = (&mut self.drafting.model, &mut draft.matcher) else { return };
        let judged = rows.and_then(|rows| model.judge(rows, matcher, &draft.copied, &mut draft.proposals));
        match judged {
            // The prompt is not through yet.
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(%error, "the draft model failed; going on without it");
                self.stats.draft_forwards += model.forwards;
                self.drafting.model = None;
            }
        }
        self.extended(draft, at);
        draft.done = draft.proposals.len() == draft.before;
    }

    /// Text and survival after proposals were added behind the first `from`.
    fn extended(&self, draft: &mut Draft, from: usize) {
        for proposal in &draft.proposals[from..] {
            draft.text.extend_from_slice(self.vocab.token_bytes(proposal.token));
            draft.survival *= self.drafting.gate.rate(proposal.source);
        }
    }
}

/// The tokens of a span inside a JSON string; if the value ends with it, of the closing quote and of what
/// is forced behind it, too, split as the tokenizer splits the whole. Moves `matcher`.
fn spelled(vocab: &Vocabulary, matcher: &mut Matcher, span: &Span) -> Vec<Proposal> {
    let mut bytes = crate::machine::escape(&span.text);
    let value = bytes.len();
    let encode = |bytes: &[u8]| -> Vec<TokenId> {
        std::str::from_utf8(bytes).ok().and_then(|text| vocab.encode(text).ok()).unwrap_or_default()
    };
    let mut probe = matcher.fork();
    let body = encode(&bytes);
    let quote = vocab.trie().find(b"\"").and_then(|node| vocab.trie().tokens_at(node).first().copied());
    let closes = |probe: &mut Matcher| {
        body.iter().all(|&t| probe.accept_token(t).is_ok())
            && quote.is_some_and(|q| probe.accept_token(q).is_ok())
    };
    let mut tokens = body.clone();
    if span.ends && closes(&mut probe) {
        bytes.push(b'"');
        bytes.extend(probe.forced_bytes());
        tokens = encode(&bytes);
    }
    let mut at = 0;
    let proposals = tokens.into_iter().map(|token| {
        let source = if at > value { Source::Forced } else { Source::Lookup };
        at += vocab.token_bytes(token).len();
        Proposal { token, source }
    });
    let mut legal = Vec::new();
    take_legal(Some(matcher), proposals, usize::MAX, &mut legal);
    legal
}
