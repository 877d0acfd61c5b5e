//! Automata of regular nodes.
//!
//! The byte automaton is Thompson's construction over an explicit stack.
//!
//! # Cost
//!
//! The expanded size of the node (repetitions are copied), at most [`MAX_NFA`] states.

use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::constraint::number;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of states of one automaton.
pub(crate) const MAX_NFA: usize = 60_000;

impl CharDfa {
    /// Returns the automaton of a regular node.
    pub(crate) fn from_node(ir: &Ir, node: NodeId) -> Result<CharDfa> {
        CharDfa::from_nfa(&ByteNfa::new(ir, node)?)
    }
}

impl ByteNfa {
    /// Builds the automaton of a regular node.
    pub(crate) fn new(ir: &Ir, node: NodeId) -> Result<ByteNfa> {
        let mut nfa = ByteNfa::nothing();
        // Each entry: this node must connect the first state to the second.
        let mut todo = vec![(node, nfa.start, nfa.accept)];
        while let Some((node, from, to)) = todo.pop() {
            nfa.node(ir, node, from, to, &mut todo)?;
            if nfa.states.len() > MAX_NFA || todo.len() > MAX_NFA {
                let message = format!(
                    "a pattern needs more than {MAX_NFA} automaton states when patterns are combined"
                );
                return Err(Error::new(ErrorKind::TooComplex, message));
            }
        }
        Ok(nfa)
    }

    fn node(
        &mut self,
        ir: &Ir,
        node: NodeId,
        from: u32,
        to: u32,
        todo: &mut Vec<(NodeId, u32, u32)>,
    ) -> Result<()> {
        match ir.node(node) {
            Node::Never => {}
            Node::Empty => self.free(from, to),
            Node::Bytes(bytes) => self.bytes(bytes, from, to),
            Node::Class(ranges) => {
                let row = &mut self.states[from as usize].ranges;
                row.extend(ranges.iter().map(|&(lo, hi)| (lo, hi, to)));
            }
            Node::JsonNumber(numbers) => {
                let mut scratch = Ir::new();
                let root = number::free(*numbers, &mut scratch)?;
                let mut todo = vec![(root, from, to)];
                while let Some((node, from, to)) = todo.pop() {
                    self.node(&scratch, node, from, to, &mut todo)?;
                }
            }
            Node::Literals(words) => {
                for word in words.iter() {
                    self.bytes(word, from, to);
                }
            }
            Node::Union(parts) => todo.extend(parts.iter().map(|&p| (p, from, to))),
            Node::Concat(parts) => {
                let mut at = from;
                for (i, &part) in parts.iter().enumerate() {
                    let next = if i + 1 == parts.len() { to } else { self.state() };
                    todo.push((part, at, next));
                    at = next;
                }
                if parts.is_empty() {
                    self.free(from, to);
                }
            }
            Node::Automaton { states, .. } => {
                let here: Vec<u32> = states.iter().map(|_| self.state()).collect();
                self.free(from, here[0]);
                for (state, &at) in states.iter().zip(&here) {
                    todo.extend(state.edges.iter().map(|&(node, next)| (node, at, here[next as usize])));
                    if state.accept {
                        self.free(at, to);
                    }
                }
            }
            &Node::Repeat { node, min, max } => self.repeat(node, min, max, (from, to), todo)?,
            &Node::Text { lang, min_chars, max_chars }
                if let Node::Repeat { node, min: 0, max: None } = *ir.node(lang) =>
            {
                self.repeat(node, min_chars, max_chars, (from, to), todo)?;
            }
            other => {
                let message = format!("a pattern is not made of regular parts: {other:?}");
                return Err(Error::new(ErrorKind::TooComplex, message));
            }
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        node: NodeId,
        min: u32,
        max: Option<u32>,
        (from, to): (u32, u32),
        todo: &mut Vec<(NodeId, u32, u32)>,
    ) -> Result<()> {
        let copies = max.unwrap_or(min) as usize;
        if copies > MAX_NFA {
            let message = format!(
                "a pattern repeats {copies} times; the limit when patterns are combined is {MAX_NFA}"
            );
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        // A separate state before the repetition, so that loops do not leak into the text before
        // it.
        let mut at = self.state();
        self.free(from, at);
        for i in 0..copies {
            if i >= min as usize {
                self.free(at, to);
            }
            let next = self.state();
            todo.push((node, at, next));
            at = next;
        }
        if max.is_none() {
            let loop_end = self.state();
            todo.push((node, at, loop_end));
            self.free(loop_end, at);
        }
        self.free(at, to);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dfa(build: impl FnOnce(&mut Ir) -> NodeId) -> CharDfa {
        let mut ir = Ir::new();
        let node = build(&mut ir);
        CharDfa::from_node(&ir, node).unwrap()
    }

    #[test]
    fn code_points_of_every_length() {
        let texts = ["a", "é", "€", "😀", "\u{10FFFF}", "\u{D7FF}", "\u{E000}"];
        for text in texts {
            let d = dfa(|ir| ir.bytes(text));
            for other in texts {
                assert_eq!(d.matches(other), text == other, "{text} {other}");
                assert_eq!(d.clone().complement().matches(other), text != other);
            }
            assert_eq!(d.finite(3), Some(vec![text.to_string()]));
        }
    }

    #[test]
    fn bytes_that_are_not_text_are_dropped() {
        // Overlong slash, a surrogate, a value beyond Unicode, a lone continuation byte.
        for bad in [
            &b"\xC0\xAF"[..],
            b"\xE0\x80\xAF",
            b"\xED\xA0\x80",
            b"\xF4\x90\x80\x80",
            b"\x80",
            b"\xF0\x80\x80\xAF",
        ] {
            let d = dfa(|ir| ir.bytes(bad));
            assert!(d.is_empty(), "{bad:x?}");
        }
    }

    #[test]
    fn products_and_words() {
        let letters = dfa(|ir| {
            let c = ir.push(Node::Class(smallvec::smallvec![(b'a', b'c')]));
            ir.repeat(c, 1, Some(3))
        });
        let words = CharDfa::words(["ab", "abcd", "x", "c", ""]).unwrap();
        let mut both = letters.intersect(&words).unwrap().finite(10).unwrap();
        both.sort();
        assert_eq!(both, ["ab", "c"]);
        let none = letters.intersect(&letters.clone().complement()).unwrap();
        assert!(none.is_empty());
        assert!(!words.is_everything());
        assert!(none.complement().is_everything());
    }
}
