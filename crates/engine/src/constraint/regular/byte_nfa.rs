//! Nondeterministic byte automaton of a regular node, the input of determinisation.
//!
//! It uses Thompson's construction over an explicit stack.
//!
//! # Cost
//!
//! The expanded size of the node (repetitions are copied), at most [`MAX_NFA`] states.

use smallvec::SmallVec;

use crate::constraint::ir::{Ir, Node, NodeId};
use crate::constraint::number;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of states of one automaton.
pub(crate) const MAX_NFA: usize = 60_000;

/// One state: byte transitions and epsilon transitions.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteState {
    pub ranges: SmallVec<[(u8, u8, u32); 2]>,
    free: SmallVec<[u32; 4]>,
}

/// A nondeterministic automaton over bytes.
#[derive(Debug)]
pub(crate) struct ByteNfa {
    pub states: Vec<ByteState>,
    pub start: u32,
    pub accept: u32,
}

impl ByteNfa {
    /// Builds the automaton of a regular node.
    pub fn new(ir: &Ir, node: NodeId) -> Result<ByteNfa> {
        let mut nfa = ByteNfa { states: Vec::with_capacity(64), start: 0, accept: 1 };
        nfa.states.extend([ByteState::default(), ByteState::default()]);
        // Each entry: this node must connect the first state to the second.
        let mut todo = vec![(node, 0u32, 1u32)];
        while let Some((node, from, to)) = todo.pop() {
            nfa.node(ir, node, from, to, &mut todo)?;
            if nfa.states.len() > MAX_NFA || todo.len() > MAX_NFA {
                return Err(Error::new(
                    ErrorKind::TooComplex,
                    format!(
                        "a pattern needs more than {MAX_NFA} automaton states when patterns are combined"
                    ),
                ));
            }
        }
        Ok(nfa)
    }

    fn state(&mut self) -> u32 {
        self.states.push(ByteState::default());
        self.states.len() as u32 - 1
    }

    fn free(&mut self, from: u32, to: u32) {
        self.states[from as usize].free.push(to);
    }

    fn bytes(&mut self, bytes: &[u8], from: u32, to: u32) {
        let mut at = from;
        for (i, &b) in bytes.iter().enumerate() {
            let next = if i + 1 == bytes.len() { to } else { self.state() };
            self.states[at as usize].ranges.push((b, b, next));
            at = next;
        }
        if bytes.is_empty() {
            self.free(from, to);
        }
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
            other => {
                return Err(Error::new(
                    ErrorKind::TooComplex,
                    format!("a pattern is not made of regular parts: {other:?}"),
                ));
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
            return Err(Error::new(
                ErrorKind::TooComplex,
                format!(
                    "a pattern repeats {copies} times; the limit when patterns are combined is {MAX_NFA}"
                ),
            ));
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

    /// Returns the epsilon closure of `from`, sorted. States with neither byte transitions nor
    /// acceptance are left out.
    pub fn closure<'a>(&self, from: &[u32], scratch: &'a mut Closure) -> &'a [u32] {
        let Closure { marks, round, todo, found } = scratch;
        marks.resize(self.states.len(), 0);
        *round += 1;
        found.clear();
        todo.extend_from_slice(from);
        while let Some(q) = todo.pop() {
            if std::mem::replace(&mut marks[q as usize], *round) != *round {
                let state = &self.states[q as usize];
                if q == self.accept || !state.ranges.is_empty() {
                    found.push(q);
                }
                todo.extend_from_slice(&state.free);
            }
        }
        found.sort_unstable();
        found
    }
}

/// Buffers of [`ByteNfa::closure`].
#[derive(Debug, Default)]
pub(crate) struct Closure {
    /// For each state, the last round in which it was found.
    marks: Vec<u32>,
    round: u32,
    todo: Vec<u32>,
    found: Vec<u32>,
}
