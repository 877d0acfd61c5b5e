//! Thinking before an answer: the end marker, which becomes part of the constraint, and the budget
//! after which it is emitted.
//!
//! The marker is part of the constraint ([`Constraint::behind_marker`]): text up to the first
//! marker, then the answer. So masks, forced runs and drafts see one machine, and a draft may span
//! the marker. Only the budget is handled here: when it is used up, the marker is emitted, at a
//! position that depends on nothing else.
//!
//! # Cost
//!
//! A search for the marker in each new token.
//!
//! # Alternatives considered
//!
//! Enabling masks only after the marker was rejected: every component that advances would have to
//! know on which side of it the output is.

use super::utf8::ends_whole;
use crate::constraint::Constraint;
use crate::error::Result;

/// The part of the token limit that an answer has beyond its shortest form: one in this number.
const ANSWER_SHARE: usize = 4;

/// Thinking options of one generation.
#[derive(Debug, Clone)]
pub(super) struct Thinking {
    end: String,
    /// Largest number of tokens before the marker.
    pub budget: usize,
}

impl Thinking {
    pub(super) fn new(end: String, budget: usize) -> Self {
        Thinking { end, budget }
    }

    /// Returns these options with a budget that leaves room for an answer of `shortest` tokens with
    /// its marker, and for a share of the limit beside it.
    pub(super) fn within(&self, max_tokens: usize, shortest: usize) -> Self {
        let room = max_tokens.saturating_sub(shortest + max_tokens / ANSWER_SHARE);
        Thinking { end: self.end.clone(), budget: self.budget.min(room) }
    }

    /// Returns the marker.
    pub(super) fn end(&self) -> &str {
        &self.end
    }

    /// Returns true if the marker has to be emitted after `emitted` tokens whose bytes are `text`.
    /// It waits until a character that spans several tokens is complete.
    pub(super) fn is_over(&self, text: &[u8], emitted: usize) -> bool {
        emitted >= self.budget && ends_whole(text)
    }

    /// Returns the text that ends thinking after `text`, which does not contain the marker. It is
    /// the marker, or only its missing part where `text` ends with a prefix of the marker and the
    /// whole marker would be complete too early (`---` after a `-`).
    pub(super) fn missing(&self, text: &[u8]) -> &str {
        let end = self.end.as_bytes();
        let begun = (1..end.len()).rev().filter(|&n| text.ends_with(&end[..n]));
        // If the rest is a prefix of the marker, it begins at a character boundary.
        begun
            .map(|n| (&end[n..], n))
            .find(|(rest, _)| end.starts_with(rest))
            .map_or(&self.end, |(_, n)| &self.end[n..])
    }

    /// Returns the constraint of thinking followed by `answer`.
    ///
    /// # Errors
    /// Fails if the marker is empty.
    pub(super) fn gate(&self, answer: &Constraint) -> Result<Constraint> {
        answer.behind_marker(&self.end)
    }

    /// Returns the offset in `text` at which the answer begins, if the marker ends in the last
    /// `new` bytes.
    pub(super) fn answer_begins(&self, text: &[u8], new: usize) -> Option<usize> {
        let end = self.end.as_bytes();
        let from = (text.len() + 1).saturating_sub(new + end.len());
        text[from..].windows(end.len()).position(|w| w == end).map(|at| from + at + end.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_begins_behind_the_first_marker() {
        let thinking = Thinking::new("</t>".into(), 3);
        assert_eq!(thinking.answer_begins(b"</</t>{", 3), Some(6));
        assert_eq!(thinking.answer_begins(b"</</t>{", 1), None, "it was there before");
        assert_eq!(thinking.answer_begins(b"</t", 3), None);
        let missing =
            |end: &str, text: &str| Thinking::new(end.into(), 3).missing(text.as_bytes()).to_string();
        assert_eq!((&*missing("---", "a--"), &*missing("---", "-a")), ("-", "---"));
        assert_eq!(
            (&*missing("</t>", "a</"), &*missing("éé", "é"), &*missing("aba", "xab")),
            ("</t>", "é", "a")
        );
        assert_eq!((&*missing("aba", "a"), &*missing("abab", "ab")), ("aba", "ab"));
        let over = |text: &[u8]| Thinking::new("x".into(), 2).is_over(text, 2);
        assert!(over(b"") && over("a\u{1f600}".as_bytes()) && over("é".as_bytes()));
        assert!(!over(b"a\xf0") && !over(b"\xf0\x9f\x98") && !over(b"\xc3") && !over(b"aa\xe2\x82"));
        assert!(!Thinking::new("x".into(), 2).is_over(b"a", 1));
        assert!(Thinking::new(String::new(), 1).gate(&Constraint::json_object()).is_err());
    }
}
