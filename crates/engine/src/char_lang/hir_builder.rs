//! Builder of HIR from parsed pieces: sequences, alternatives, groups, quantifiers.
//!
//! The parsers of ECMA patterns and of element patterns share it; they differ in their atoms only.
//!
//! # Cost
//!
//! Each operation takes constant time, apart from HIR's own simplifications. Groups are kept on an
//! explicit stack, so a constant limits the nesting and not the machine stack.
//!
//! # Alternatives considered
//!
//! A syntax tree in between was rejected: it would be read only once.

use regex_syntax::hir::{Hir, Repetition};

use crate::char_lang::pattern_text::{MAX_NESTING, fault};
use crate::error::{Error, ErrorKind, Result};

/// One open group (or the whole pattern).
struct HirFrame {
    /// Byte at which the group was opened.
    start: usize,
    alternatives: Vec<Hir>,
    items: Vec<Hir>,
    /// Characters after the items. An item for each would take three allocations, only for HIR to
    /// join them.
    literal: String,
}

impl HirFrame {
    fn new(start: usize) -> Self {
        HirFrame { start, alternatives: Vec::new(), items: Vec::new(), literal: String::new() }
    }

    fn push(&mut self, hir: Hir) {
        self.join();
        self.items.push(hir);
    }

    /// Turns the pending characters into an item.
    fn join(&mut self) {
        if !self.literal.is_empty() {
            self.items.push(Hir::literal(self.literal.as_bytes()));
            self.literal.clear();
        }
    }

    /// Removes and returns the last atom.
    fn pop(&mut self) -> Option<Hir> {
        let last = self.literal.pop();
        self.join();
        match last {
            Some(c) => Some(literal(c)),
            None => self.items.pop(),
        }
    }

    fn alternate(&mut self) {
        self.join();
        let items = std::mem::take(&mut self.items);
        self.alternatives.push(Hir::concat(items));
    }

    fn finish(mut self) -> Hir {
        if self.alternatives.is_empty() {
            self.join();
            return Hir::concat(self.items);
        }
        self.alternate();
        Hir::alternation(self.alternatives)
    }
}

fn literal(c: char) -> Hir {
    Hir::literal(c.encode_utf8(&mut [0; 4]).as_bytes())
}

/// The pattern under construction.
pub(crate) struct HirBuilder<'a> {
    text: &'a str,
    frames: Vec<HirFrame>,
    current: HirFrame,
    quantifiable: bool,
}

impl<'a> HirBuilder<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        HirBuilder { text, frames: Vec::new(), current: HirFrame::new(0), quantifiable: false }
    }

    /// Appends an item that a quantifier may follow.
    pub(crate) fn atom(&mut self, hir: Hir) {
        self.current.push(hir);
        self.quantifiable = true;
    }

    /// Appends a character, which a quantifier may follow.
    pub(crate) fn character(&mut self, c: char) {
        self.current.literal.push(c);
        self.quantifiable = true;
    }

    /// Appends an anchor, which no quantifier may follow.
    pub(crate) fn anchor(&mut self, hir: Hir) {
        self.current.push(hir);
        self.quantifiable = false;
    }

    /// Returns true if the current alternative has no items yet.
    pub(crate) fn at_alternative_start(&self) -> bool {
        self.current.items.is_empty() && self.current.literal.is_empty()
    }

    /// Returns true if no group is open.
    pub(crate) fn is_flat(&self) -> bool {
        self.frames.is_empty()
    }

    /// Begins the next alternative of the current group.
    pub(crate) fn alternate(&mut self) {
        self.current.alternate();
        self.quantifiable = false;
    }

    /// Opens a group whose parenthesis is at `start`.
    pub(crate) fn open(&mut self, start: usize) -> Result<()> {
        if self.frames.len() >= MAX_NESTING as usize {
            let message = format!("groups are nested deeper than the limit of {MAX_NESTING}");
            return Err(fault(ErrorKind::TooComplex, message, self.text, start, start + 1));
        }
        let outer = std::mem::replace(&mut self.current, HirFrame::new(start));
        self.frames.push(outer);
        self.quantifiable = false;
        Ok(())
    }

    /// Closes the current group; `at` is its closing parenthesis.
    pub(crate) fn close(&mut self, at: usize) -> Result<()> {
        let Some(outer) = self.frames.pop() else {
            return Err(fault(ErrorKind::InvalidPattern, "unopened group", self.text, at, at + 1)
                .hint("remove this parenthesis or escape it"));
        };
        let group = std::mem::replace(&mut self.current, outer).finish();
        self.atom(group);
        Ok(())
    }

    /// Repeats the last atom; `start..end` is the quantifier.
    pub(crate) fn quantify(&mut self, min: u32, max: Option<u32>, start: usize, end: usize) -> Result<()> {
        let error = |message: &str| fault(ErrorKind::InvalidPattern, message, self.text, start, end);
        if max.is_some_and(|max| max < min) {
            return Err(error("the numbers of this quantifier are out of order"));
        }
        if !self.quantifiable {
            return Err(error("nothing to repeat").hint("a quantifier follows a character, class or group"));
        }
        self.quantifiable = false;
        if let Some(sub) = self.current.pop() {
            let repetition = Repetition { min, max, greedy: true, sub: Box::new(sub) };
            self.current.push(Hir::repetition(repetition));
        }
        Ok(())
    }

    /// Returns the whole pattern.
    pub(crate) fn finish(self) -> Result<Hir> {
        if self.frames.is_empty() {
            return Ok(self.current.finish());
        }
        let start = self.current.start;
        Err(unclosed(self.text, start, "group", "add a closing parenthesis"))
    }
}

/// Returns an error about an item that is opened at `start` and never closed.
pub(crate) fn unclosed(text: &str, start: usize, what: &str, hint: &str) -> Error {
    fault(ErrorKind::InvalidPattern, format!("unclosed {what}"), text, start, start + 1).hint(hint)
}

/// Parses a quantifier in braces at the start of `rest` into its length in bytes and its counts.
/// Counts above `u32::MAX` are capped there, which is above every limit.
pub(crate) fn braces(rest: &str) -> Option<(usize, u32, Option<u32>)> {
    let inside = |b: u8| b.is_ascii_digit() || b == b',';
    let close = 1 + rest.bytes().skip(1).position(|b| !inside(b))?;
    if rest.as_bytes()[close] != b'}' {
        return None;
    }
    let inner = rest.get(1..close)?;
    let number = |digits: &str| {
        let valid = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        valid.then(|| digits.parse().unwrap_or(u32::MAX))
    };
    let (min, max) = match inner.split_once(',') {
        None => {
            let count = number(inner)?;
            (count, Some(count))
        }
        Some((min, "")) => (number(min)?, None),
        Some((min, max)) => (number(min)?, Some(number(max)?)),
    };
    Some((close + 1, min, max))
}
