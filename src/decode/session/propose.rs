//! A draft from all sources in turn.
//!
//! Each turn asks the constraint for its forced run, then the source text, then the draft model, until
//! the window is full, a source would be worth less than its row, or nobody knows how to go on. The
//! draft is a hypothesis throughout: matcher and text are copies that run ahead of the output.

use super::Session;
use crate::draft::{Proposal, Source, Span, open_string, take_legal};
use crate::error::Result;
use crate::matcher::Matcher;
use crate::vocab::{TokenId, Vocabulary};

/// A draft under construction.
struct Draft {
    proposals: Vec<Proposal>,
    /// The constraint behind the draft.
    matcher: Option<Matcher>,
    /// Output and draft as bytes.
    text: Vec<u8>,
    /// Estimated probability that all of it is accepted.
    survival: f64,
    room: usize,
}

impl Session<'_> {
    /// Puts a draft together.
    pub(super) fn propose(&mut self) -> Result<Vec<Proposal>> {
        let mut draft = Draft {
            proposals: Vec::new(),
            matcher: self.matcher.as_ref().map(Matcher::fork),
            text: self.text.clone(),
            survival: 1.0,
            room: self.room(),
        };
        if let Some(adversary) = &mut self.drafting.adversary {
            let tokens = adversary(&self.history);
            let proposals = tokens.iter().map(|&token| Proposal { token, source: Source::Lookup });
            let known = proposals.take_while(|p| (p.token as usize) < self.vocab.len());
            take_legal(draft.matcher.as_mut(), known, draft.room, &mut draft.proposals);
            return Ok(draft.proposals);
        }
        while draft.proposals.len() < draft.room
            && !self.is_cancelled()
            && !draft.matcher.as_ref().is_some_and(Matcher::is_terminated)
        {
            let before = draft.proposals.len();
            self.force(&mut draft);
            let copied = self.copy(&mut draft);
            self.ask_model(&mut draft, &copied)?;
            if draft.proposals.len() == before {
                break;
            }
        }
        Ok(draft.proposals)
    }

    /// Longest draft that still has a place for the token after it.
    fn room(&self) -> usize {
        let left = (self.max_tokens - self.emitted()).saturating_sub(1);
        let context = self.target.config().context.saturating_sub(self.history.len());
        self.drafting.gate.max().min(left).min(context)
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
            return spelled(self.vocab, matcher, &span);
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

    /// Lets the draft model read what was copied and add a token.
    fn ask_model(&mut self, draft: &mut Draft, copied: &[Proposal]) -> Result<()> {
        let at = draft.proposals.len();
        let (Some(model), Some(matcher)) = (&mut self.drafting.model, &mut draft.matcher) else {
            return Ok(());
        };
        // A forced run is drafted without it.
        let idle = at >= draft.room || matcher.is_terminated() || !matcher.forced_bytes().is_empty();
        if idle || !self.drafting.gate.admits(Source::Model, draft.survival, at) {
            return Ok(());
        }
        model.extend(&self.history, matcher, copied, &mut draft.proposals)?;
        self.extended(draft, at);
        Ok(())
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
