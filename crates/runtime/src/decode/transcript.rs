//! The prompt and the output so far, with the constraint after it.
//!
//! All steps of a round read the transcript; only verified tokens, and tokens that need no
//! verification, extend it.
//!
//! # Cost
//!
//! A search for stop texts in each token.

use super::completion::CompletionKeeper;
use super::confidence::{ScoredToken, ValueConfidence, confidence_of};
use super::events::CancelToken;
use super::json_stream::JsonStream;
use super::origin::{TokenOrigin, TokenSource};
use super::stats::Finish;
use super::stop::{Stops, satisfies};
use super::thinking::Thinking;
use super::watch::{CutPoint, OutputWatch};
use crate::draft::DraftSource;
use crate::matcher::{Matcher, SourceSpan};
use crate::sample::TokenLogprob;
use crate::vocab::{TokenId, Vocabulary};

/// The reason why an output ends, apart from the token limit.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// The model chose to end.
    Model,
    /// A stop token was chosen.
    Token(TokenId),
    /// A stop text begins at `cut` in the text; `index` is its number.
    Text { cut: usize, index: usize },
    /// A completion was emitted, or is about to be.
    Closed,
}

/// What an output reports about its tokens, as far as it was requested.
#[derive(Default)]
pub(super) struct TokenReports {
    pub logprobs: Option<Vec<Option<TokenLogprob>>>,
    /// For each output token true if the constraint left a choice about its bytes.
    pub free: Option<Vec<bool>>,
    pub origins: Option<Vec<TokenOrigin>>,
    /// The log-probability of the token that ended the output.
    pub end_logprob: Option<TokenLogprob>,
}

impl TokenReports {
    /// Keeps the reports on the first `tokens` tokens.
    fn truncate(&mut self, tokens: usize) {
        self.logprobs.iter_mut().for_each(|logprobs| logprobs.truncate(tokens));
        self.origins.iter_mut().for_each(|origins| origins.truncate(tokens));
        self.free.iter_mut().for_each(|free| free.truncate(tokens));
    }
}

/// The prompt and the output so far.
pub(super) struct Transcript {
    pub vocab: Vocabulary,
    /// The constraint after the last token.
    pub matcher: Option<Matcher>,
    /// Prompt and output.
    pub history: Vec<TokenId>,
    /// Number of tokens of the prompt.
    pub prompt: usize,
    pub max_tokens: usize,
    /// Output tokens as bytes.
    pub text: Vec<u8>,
    /// Byte offset of the answer in the text: 0 unless the model thinks first, `None` while it
    /// thinks.
    pub answer: Option<usize>,
    pub thinking: Option<Thinking>,
    pub stops: Stops,
    pub cancel: Vec<CancelToken>,
    pub completion_keeper: Option<CompletionKeeper>,
    /// The watch over the values of the output, after its last token.
    pub watch: Option<OutputWatch>,
    pub reports: TokenReports,
    /// The reason why the output ends here, once it is known.
    pub ending: Option<Ending>,
}

impl Transcript {
    /// Returns the number of output tokens.
    pub(super) fn emitted(&self) -> usize {
        self.history.len() - self.prompt
    }

    /// Returns the number of tokens that may follow.
    pub(super) fn left(&self) -> usize {
        self.max_tokens - self.emitted()
    }

    /// Returns the output tokens.
    pub(super) fn tokens(&self) -> &[TokenId] {
        &self.history[self.prompt..]
    }

    /// Returns true if the request was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.iter().any(CancelToken::is_cancelled)
    }

    /// Returns the part of a text after the thinking; `text` begins with the output.
    pub(super) fn answer_in<'t>(&self, text: &'t [u8]) -> &'t [u8] {
        let begins = || self.thinking.as_ref().and_then(|t| t.answer_begins(text, text.len()));
        &text[self.answer.or_else(begins).unwrap_or(text.len())..]
    }

    /// Returns the bytes of the answer so far; the whole text while the model thinks.
    fn answer_bytes(&self) -> &[u8] {
        &self.text[self.answer.unwrap_or(0).min(self.text.len())..]
    }

    /// Returns the answer as text, if it has begun.
    pub(super) fn answer_text(&self) -> Option<String> {
        self.answer.map(|_| String::from_utf8_lossy(self.answer_bytes()).into_owned())
    }

    /// Returns the reason if the generation has ended.
    pub(super) fn finished(&self) -> Option<Finish> {
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
        fields.feed(self.answer_bytes());
        fields.unfinished()
    }

    /// Returns true if the text satisfies the constraint as it is.
    pub(super) fn is_complete(&self) -> bool {
        let Some(matcher) = &self.matcher else { return true };
        satisfies(matcher, self.tokens(), &self.text, &self.vocab)
    }

    /// Returns true if the model thinks and its budget is used up.
    pub(super) fn is_thinking_over(&self) -> bool {
        self.thinking_budget_spent(&self.text, self.emitted(), self.answer.is_some())
    }

    /// Returns true if the thinking budget is used up after `emitted` tokens whose bytes are
    /// `text`.
    pub(super) fn thinking_budget_spent(&self, text: &[u8], emitted: usize, answering: bool) -> bool {
        !answering && self.thinking.as_ref().is_some_and(|t| t.is_over(text, emitted))
    }

    /// Returns true if the output can still be completed within the limit after `token`, which
    /// leads to `next` and is the `emitted`-th. Always true unless completion was requested.
    pub(super) fn can_end(&mut self, next: &Matcher, token: TokenId, emitted: usize) -> bool {
        let Some(closer) = &mut self.completion_keeper else { return true };
        closer.advance(next, self.vocab.token_bytes(token), self.max_tokens - emitted)
    }

    /// Appends a token that the matcher has accepted.
    pub(super) fn emit(&mut self, token: TokenId, logprob: Option<TokenLogprob>) {
        let bytes = self.vocab.token_bytes(token);
        self.history.push(token);
        self.text.extend_from_slice(bytes);
        if let Some(logprobs) = &mut self.reports.logprobs {
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

    /// Appends a token that the matcher has accepted, without verification.
    pub(super) fn emit_unverified(&mut self, token: TokenId, source: TokenSource) {
        if let Some(watch) = &mut self.watch {
            watch.advance(self.vocab.token_bytes(token));
        }
        if let Some(origins) = &mut self.reports.origins {
            origins.push(TokenOrigin::new(source));
        }
        if let Some(free) = &mut self.reports.free {
            free.push(source != TokenSource::Proposed(DraftSource::Forced));
        }
        self.emit(token, None);
    }

    /// Appends the completion of the output; returns its number of tokens.
    pub(super) fn emit_completion(&mut self) -> usize {
        let tokens = self.completion_keeper.as_ref().map(|c| c.tokens(&self.vocab)).unwrap_or_default();
        let mut emitted = 0;
        for token in tokens {
            // Each token was checked when the completion was found.
            if self.matcher.as_mut().is_none_or(|m| m.accept_token(token).is_err()) {
                break;
            }
            emitted += 1;
            self.emit_unverified(token, TokenSource::Unverified);
            if matches!(self.ending, Some(Ending::Text { .. })) {
                break;
            }
        }
        emitted
    }

    /// Takes back the output after a cut in a string, of which the watch knows. The next position
    /// closes the string. Returns the number of tokens taken back.
    pub(super) fn take_back(&mut self, to: CutPoint) -> usize {
        let gone = self.emitted() - to.tokens;
        self.history.truncate(self.prompt + to.tokens);
        self.text.truncate(to.bytes);
        self.reports.truncate(to.tokens);
        if let Some(matcher) = &mut self.matcher {
            matcher.rollback(gone);
            if let Some(closer) = &mut self.completion_keeper {
                closer.advance(matcher, b"", self.max_tokens - to.tokens);
            }
        }
        gone
    }

    /// Returns the sum of the known log-probabilities and their number, the token that ended the
    /// output included.
    pub(super) fn score(&self) -> (f64, usize) {
        let known = self.reports.logprobs.iter().flatten().chain([&self.reports.end_logprob]).flatten();
        known.fold((0.0, 0), |(sum, count), known| (sum + f64::from(known.masked), count + 1))
    }

    /// Returns the confidence in each value of the answer, if requested.
    pub(super) fn confidence(&self) -> Vec<ValueConfidence> {
        let (Some(free), Some(logprobs), Some(at)) =
            (&self.reports.free, &self.reports.logprobs, self.answer)
        else {
            return Vec::new();
        };
        // Offsets in text that is not UTF-8 would be those of another text.
        let answer = self.answer_bytes();
        if std::str::from_utf8(answer).is_err() {
            return Vec::new();
        }
        let tokens = self.tokens().iter().zip(free).zip(logprobs);
        let tokens = tokens.map(|((&token, &free), logprob)| ScoredToken {
            len: self.vocab.token_bytes(token).len(),
            logprob: logprob.clone(),
            free,
        });
        confidence_of(answer, at, tokens)
    }

    /// Returns the spans of the source in the answer.
    pub(super) fn source_spans(&self) -> Vec<SourceSpan> {
        let (Some(matcher), Some(at)) = (&self.matcher, self.answer) else { return Vec::new() };
        let spans = matcher.source_spans().into_iter().filter(|span| span.output.start >= at);
        spans
            .map(|span| SourceSpan { output: span.output.start - at..span.output.end - at, ..span })
            .collect()
    }
}
