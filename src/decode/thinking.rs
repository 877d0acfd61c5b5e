//! Free text first, up to an end marker; then the constraint.
//!
//! The gate is part of the constraint: text without the marker, the marker, what was asked for. So masks,
//! forced runs and drafts see one automaton, and a draft may reach over the marker. Only the budget is
//! looked after here: when it is spent the marker is emitted, at a position that depends on nothing else.
//! Cost: a search for the marker in each new token. Switching masks on behind the marker was rejected:
//! every part that advances would have to know on which side it is.

use crate::constraint::Constraint;
use crate::error::{Error, ErrorKind, Result};

/// Thinking of one generation.
#[derive(Debug, Clone)]
pub(super) struct Thinking {
    end: String,
    /// Most tokens before the marker.
    pub budget: usize,
}

impl Thinking {
    pub(super) fn new(end: String, budget: usize) -> Self {
        Thinking { end, budget }
    }

    /// The marker.
    pub(super) fn end(&self) -> &str {
        &self.end
    }

    /// Thinking and then `answer`.
    ///
    /// # Errors
    /// If the marker is empty.
    pub(super) fn gate(&self, answer: &Constraint) -> Result<Constraint> {
        if self.end.is_empty() {
            return Err(Error::new(ErrorKind::InvalidOption, "the marker that ends thinking is empty")
                .hint("name a text, such as </think>"));
        }
        let marker = Constraint::choice([&self.end])?;
        let any = Constraint::regex("(?s:.*)")?;
        let holds_marker = any.then(&marker)?.then(&any)?;
        holds_marker.not()?.then(&marker)?.then(answer)
    }

    /// Where the answer begins in `text`, if the marker ends in its last `new` bytes.
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
        assert!(Thinking::new(String::new(), 1).gate(&Constraint::json_object()).is_err());
    }
}
