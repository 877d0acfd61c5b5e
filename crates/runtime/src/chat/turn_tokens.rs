//! The special tokens and the end tokens that the chats of a model need, where its files are faulty.
//!
//! What the files say is compared with the chat template and with the marks that families of models
//! have. A difference is a warning, which says what is assumed: a mark that the tokenizer calls text
//! is special; the token that the template writes behind an answer ends a generation, and so do the
//! known ends.
//!
//! # Cost
//! One rendering of a short chat at loading. The tokenizer is read again if a mark is not special.
//!
//! # Alternatives considered
//! An error was rejected: such files are common, and other programs run them.

use std::collections::BTreeSet;

use super::{ChatOptions, ChatTemplate, Message};
use crate::error::{Error, ErrorKind, Result};
use crate::vocab::{TokenId, Vocabulary};
use ffwd_engine::vocab::turn_marks::{RETURN, ends as known_ends, is_mark, known, marks_in};

/// Returns the vocabulary with the special tokens and the ends of the model's chats. `named` are
/// ends by their texts or ids, which replace all others; `markers` are texts of outputs.
///
/// # Errors
/// If `named` has something that is no token.
pub(crate) fn with_turn_tokens(
    vocab: Vocabulary,
    template: Option<&ChatTemplate>,
    named: &[String],
    markers: &[String],
) -> Result<Vocabulary> {
    let written = template.and_then(ChatTemplate::end_of_turn);
    let vocab = with_marks(vocab, template, written.as_deref().unwrap_or_default())?;
    if !named.is_empty() {
        let ends = named.iter().map(|text| token(&vocab, text)).collect::<Result<Vec<_>>>()?;
        let texts: Vec<String> = ends.iter().filter_map(|&id| vocab.token_text(id)).collect();
        let marks: Vec<&String> = texts.iter().filter(|text| is_mark(text)).collect();
        return Ok(vocab.with_special(&marks)?.with_eos(ends));
    }
    let mut ends = vocab.eos().to_vec();
    let special = |text: &str| vocab.token_id(text).filter(|&id| vocab.is_special(id));
    let text =
        |ids: &[TokenId]| ids.iter().filter_map(|&id| vocab.token_text(id)).collect::<Vec<_>>().join(", ");
    if let Some(written) = &written {
        let found = vocab.reserved_texts().into_iter().filter(|text| written.starts_with(text.as_str()));
        let end = found.max_by_key(String::len).filter(|text| !text.is_empty());
        if let Some(id) = end.as_deref().and_then(special).filter(|id| !ends.contains(id)) {
            tracing::warn!(
                "the files name the end tokens [{}], but the chat template ends a turn with {}, which ends a \
                 generation, too; --end-token sets the end",
                text(&ends),
                text(&[id])
            );
            ends.push(id);
        }
    }
    for name in known_ends() {
        let is_message = name == "<|end|>" && vocab.token_id(RETURN).is_some();
        let is_output = markers.iter().any(|marker| marker.contains(name));
        ends.extend(special(name).filter(|id| !is_message && !is_output && !ends.contains(id)));
    }
    if ends.is_empty() {
        tracing::warn!(
            "the files name no end token; a generation ends at its limit unless --end-token sets one"
        );
    }
    Ok(vocab.with_eos(ends))
}

/// Returns the vocabulary in which the marks of chats that are tokens are special. `written` is what
/// the template writes behind an answer.
fn with_marks<'a>(
    vocab: Vocabulary,
    template: Option<&'a ChatTemplate>,
    written: &'a str,
) -> Result<Vocabulary> {
    let sources = template.into_iter().flat_map(|template| template.templates.iter().map(|t| t.1.source()));
    let marks: BTreeSet<&str> = sources.chain([written]).flat_map(marks_in).collect();
    let is_split = |mark: &&str| vocab.encode_template(mark).is_ok_and(|tokens| tokens.len() != 1);
    let (mut faulty, missing): (Vec<&str>, Vec<&str>) =
        marks.into_iter().filter(is_split).partition(|mark| vocab.token_id(mark).is_some());
    for mark in missing {
        tracing::warn!("the chat template writes {mark}, which is no token of the model: it is read as text");
    }
    let is_text = |mark: &&str| vocab.token_id(mark).is_some_and(|id| !vocab.is_special(id));
    known().filter(is_text).for_each(|mark| faulty.push(mark));
    for mark in &faulty {
        tracing::warn!("the tokenizer calls {mark} text; it is read as a special token");
    }
    vocab.with_special(&faulty)
}

/// Returns the token with an id, or with a text that is no number.
fn token(vocab: &Vocabulary, text: &str) -> Result<TokenId> {
    let by_text = |_| vocab.token_id(text);
    let id = text.parse().map_or_else(by_text, Some).filter(|&id: &TokenId| (id as usize) < vocab.len());
    id.ok_or_else(|| {
        Error::new(ErrorKind::InvalidOption, format!("the end token `{}` is no token", text.escape_debug()))
            .hint(format!("name a token by its text or by an id below {}", vocab.len()))
    })
}

impl ChatTemplate {
    /// Returns what the template writes behind an answer at the end of a chat, without leading white
    /// space; `None` if it cannot be rendered.
    fn end_of_turn(&self) -> Option<String> {
        const ANSWER: &str = "the answer";
        let options = ChatOptions { add_generation_prompt: false, ..ChatOptions::default() };
        let text = self.render(&[Message::user("a question"), Message::assistant(ANSWER)], &options).ok()?;
        text.rsplit_once(ANSWER).map(|(_, end)| end.trim_start().to_owned())
    }
}
