//! Nondeterministic automata over bytes, the input of determinisation.
//!
//! They have epsilon transitions, one start and one accepting state (Thompson's construction). What
//! builds them adds states and connects them.
//!
//! # Cost
//!
//! The epsilon closure takes time linear in the states it meets. Its buffers are reused.

use smallvec::SmallVec;

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
    /// Creates an automaton that accepts nothing: state 0 is the start and state 1 accepts.
    pub(crate) fn nothing() -> ByteNfa {
        let mut nfa = ByteNfa { states: Vec::with_capacity(64), start: 0, accept: 1 };
        nfa.states.extend([ByteState::default(), ByteState::default()]);
        nfa
    }

    /// Adds a state without transitions.
    pub(crate) fn state(&mut self) -> u32 {
        self.states.push(ByteState::default());
        self.states.len() as u32 - 1
    }

    /// Adds an epsilon transition.
    pub(crate) fn free(&mut self, from: u32, to: u32) {
        self.states[from as usize].free.push(to);
    }

    /// Adds transitions that read exactly these bytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8], from: u32, to: u32) {
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

    /// Returns the epsilon closure of `from`, sorted. States with neither byte transitions nor
    /// acceptance are left out.
    pub(crate) fn closure<'a>(&self, from: &[u32], scratch: &'a mut Closure) -> &'a [u32] {
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
