//! The flat automaton of a structural tag, under construction.
//!
//! Formats, free texts and tries add states and edges to it. It knows none of them.
//!
//! # Cost
//! Constant time for each state and edge, of which there is a maximum number.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::strict_object::error;
use crate::constraint::ir::{AutomatonState, Ir, Node, NodeId};
use crate::constraint::json::document::{Doc, Id};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of states of one structural tag.
const MAX_STATES: usize = 400_000;
/// Maximum number of edges of one structural tag.
const MAX_EDGES: usize = 800_000;

/// Maximum number of characters of triggers, ends and excluded texts, counted once for each free
/// text that looks for them.
const MAX_WATCHED_CHARS: usize = 1_000_000;

/// Index of a state under construction.
pub(super) type StateIx = u32;

/// The possible continuations of a free text.
#[derive(Debug, Default)]
pub(super) struct Follow {
    /// Texts and the states after them.
    pub texts: Vec<(Rc<str>, StateIx)>,
    /// True if the output may end.
    pub end: bool,
    /// A format that follows and does not begin with a fixed text.
    pub open: Option<Id>,
}

/// The automaton under construction. States come after those they lead to, except in loops.
pub(super) struct TagGraph<'a> {
    pub doc: &'a Doc,
    pub ir: &'a mut Ir,
    states: Vec<AutomatonState>,
    /// Number of states of the automata inside of this one.
    nested: usize,
    edges: usize,
    chars: FxHashMap<char, NodeId>,
    empty: NodeId,
    /// Number of characters of the texts that free texts look for.
    watched: usize,
}

impl<'a> TagGraph<'a> {
    /// Creates an automaton with its end, state 0.
    pub(super) fn new(doc: &'a Doc, ir: &'a mut Ir) -> TagGraph<'a> {
        let empty = ir.push(Node::Empty);
        TagGraph {
            doc,
            ir,
            states: vec![accepting()],
            nested: 0,
            edges: 0,
            chars: FxHashMap::default(),
            empty,
            watched: 0,
        }
    }

    /// Adds a state.
    pub(super) fn state(&mut self, at: Id) -> Result<StateIx> {
        if self.states.len() + self.nested >= MAX_STATES || self.edges >= MAX_EDGES {
            return Err(self.too_large(at));
        }
        self.states.push(AutomatonState::default());
        Ok(self.states.len() as StateIx - 1)
    }

    /// Adds to the number of characters that free texts look for, and checks the limit.
    pub(super) fn watch(&mut self, chars: usize, at: Id) -> Result<()> {
        self.watched += chars;
        if self.watched <= MAX_WATCHED_CHARS {
            return Ok(());
        }
        let message =
            format!("the texts that free texts look for have more than {MAX_WATCHED_CHARS} characters");
        Err(error(self.doc, ErrorKind::TooComplex, at, message)
            .hint("use fewer or shorter triggers and ends"))
    }

    /// Returns the error beyond the maximum size.
    pub(super) fn too_large(&self, at: Id) -> Error {
        let message = format!("needs more than {MAX_STATES} states or {MAX_EDGES} transitions");
        error(self.doc, ErrorKind::TooComplex, at, message)
            .hint("use fewer or shorter triggers and excluded texts, or lower counts of repetitions")
    }

    /// Adds an edge with the text of `node`.
    pub(super) fn edge(&mut self, from: StateIx, node: NodeId, to: StateIx) {
        self.edges += 1;
        self.states[from as usize].edges.push((node, to));
    }

    /// Makes all transitions of `to` possible in `from`, too.
    pub(super) fn add_empty_edge(&mut self, from: StateIx, to: StateIx) {
        self.edge(from, self.empty, to);
    }

    /// Lets the output end in a state.
    pub(super) fn accept(&mut self, state: StateIx) {
        self.states[state as usize].accept = true;
    }

    /// Returns the state in which the output ends.
    pub(super) fn end(&self) -> StateIx {
        0
    }

    /// Returns the node of an automaton of its own, whose start `build` returns.
    pub(super) fn nested(&mut self, build: impl FnOnce(&mut Self) -> Result<StateIx>) -> Result<NodeId> {
        let outer = std::mem::replace(&mut self.states, vec![accepting()]);
        self.nested += outer.len();
        let start = build(self)?;
        let inner = std::mem::replace(&mut self.states, outer);
        self.nested = self.nested - self.states.len() + inner.len();
        Ok(automaton(inner, start, self.ir))
    }

    /// Returns the node of one character.
    pub(super) fn char(&mut self, c: char) -> NodeId {
        let ir = &mut *self.ir;
        *self.chars.entry(c).or_insert_with(|| ir.bytes(c.encode_utf8(&mut [0; 4])))
    }

    /// Returns the node of the automaton, which begins in `start`.
    pub(super) fn finish(self, start: StateIx) -> NodeId {
        automaton(self.states, start, self.ir)
    }
}

fn accepting() -> AutomatonState {
    AutomatonState { accept: true, ..AutomatonState::default() }
}

/// Returns the node of an automaton. The start becomes the first state. The order of the others is
/// reversed: the machine lowers the last state first, and targets should be lowered before their
/// sources.
fn automaton(mut states: Vec<AutomatonState>, start: StateIx, ir: &mut Ir) -> NodeId {
    let last = states.len() as StateIx - 1;
    states.swap(start as usize, last as usize);
    let moved = |s: StateIx| match s {
        s if s == start => 0,
        s if s == last => last - start,
        s => last - s,
    };
    states.reverse();
    states.iter_mut().flat_map(|state| &mut state.edges).for_each(|edge| edge.1 = moved(edge.1));
    ir.push(Node::automaton(states))
}
