//! Builds the expression of one definition of a grammar from its parts.
//!
//! The parts are sequences, alternatives, groups and repetitions. Both parsers use it. Open groups
//! are on an explicit stack, so only memory limits nesting.
//!
//! # Cost
//! Every operation takes constant time.
//!
//! # Alternatives considered
//! Two recursive parsers were rejected: each would need its own limit on depth.

use super::cursor::Span;
use super::rules::{Counts, ExprId, Grammar};
use crate::error::Result;

/// One open group, or the whole definition.
struct OpenGroup {
    /// Position of the opening bracket.
    start: usize,
    /// The bracket that closes the group.
    close: char,
    alternatives: Vec<ExprId>,
    items: Vec<ExprId>,
}

impl OpenGroup {
    fn new(start: usize, close: char) -> Self {
        OpenGroup { start, close, alternatives: Vec::new(), items: Vec::new() }
    }

    fn alternate(&mut self, grammar: &mut Grammar) {
        let items = std::mem::take(&mut self.items);
        let alternative = grammar.seq(items);
        self.alternatives.push(alternative);
    }

    fn finish(mut self, grammar: &mut Grammar) -> ExprId {
        self.alternate(grammar);
        grammar.alt(self.alternatives)
    }
}

/// A definition under construction.
pub(super) struct ExprBuilder {
    outer: Vec<OpenGroup>,
    current: OpenGroup,
}

impl ExprBuilder {
    pub(super) fn new(start: usize) -> Self {
        ExprBuilder { outer: Vec::new(), current: OpenGroup::new(start, '\0') }
    }

    pub(super) fn item(&mut self, expr: ExprId) {
        self.current.items.push(expr);
    }

    pub(super) fn alternate(&mut self, grammar: &mut Grammar) {
        self.current.alternate(grammar);
    }

    pub(super) fn open(&mut self, start: usize, close: char) {
        let outer = std::mem::replace(&mut self.current, OpenGroup::new(start, close));
        self.outer.push(outer);
    }

    /// Closes the group with the bracket `close`, which is at `at`. A group closed by `]` is
    /// optional.
    ///
    /// # Errors
    /// Returns an error if no such group is open.
    pub(super) fn close(&mut self, close: char, at: usize, grammar: &mut Grammar) -> Result<()> {
        if self.current.close != close {
            let hint = "remove it, or put it in quotes";
            return Err(grammar.invalid(format!("`{close}` closes nothing"), (at, at + 1), hint));
        }
        // The outermost frame has no closing bracket, so there is an outer frame here.
        let Some(outer) = self.outer.pop() else { return Ok(()) };
        let mut group = std::mem::replace(&mut self.current, outer).finish(grammar);
        if close == ']' {
            group = grammar.repeat(group, 0, Some(1));
        }
        self.item(group);
        Ok(())
    }

    /// Repeats the last item; `span` is the span of the operator.
    ///
    /// # Errors
    /// Returns an error if there is no item, or if the counts are out of order.
    pub(super) fn repeat(&mut self, (min, max): Counts, span: Span, grammar: &mut Grammar) -> Result<()> {
        if max.is_some_and(|max| max < min) {
            let hint = "smallest first";
            return Err(grammar.invalid("the numbers of this repetition are out of order", span, hint));
        }
        let Some(last) = self.current.items.pop() else {
            let hint = "a repetition follows a string, a class, a name or a group";
            return Err(grammar.invalid("nothing to repeat", span, hint));
        };
        let expr = grammar.repeat(last, min, max);
        self.item(expr);
        Ok(())
    }

    /// Returns the whole definition.
    ///
    /// # Errors
    /// Returns an error if a group is still open.
    pub(super) fn finish(self, grammar: &mut Grammar) -> Result<ExprId> {
        if !self.outer.is_empty() {
            let at = self.current.start;
            let hint = format!("add the closing `{}`", self.current.close);
            return Err(grammar.invalid("unclosed group", (at, at + 1), hint));
        }
        Ok(self.current.finish(grammar))
    }
}
