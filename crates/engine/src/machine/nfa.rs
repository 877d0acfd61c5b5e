//! Byte automata with calls: states, and the arena that all rules share.
//!
//! A state consumes a byte, forks without consuming, calls another rule and continues when that
//! rule has matched, or accepts (the rule has matched). States are built from the back: the
//! lowering of a node is given the state that follows, so nothing is ever patched except loops
//! (Thompson 1968, in continuation-passing form).

use std::ops::Range;

/// Index of an automaton state; [`DEAD`] never matches.
pub(super) type NfaId = u32;

/// Index of a rule of the machine (not of the IR).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RuleIx(pub u32);

/// Index of a register description; 0 means no register.
pub(super) type RegisterIx = u32;

/// The state that matches nothing.
pub(super) const DEAD: NfaId = 0;
/// The state that ends a rule.
pub(super) const ACCEPT: NfaId = 1;

/// One state, as it is given to and read from the arena.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum State<'a> {
    /// Matches nothing.
    Dead,
    /// The rule has matched.
    Accept,
    /// Consumes one byte in `lo..=hi`.
    Byte {
        /// Lowest byte.
        lo: u8,
        /// Highest byte.
        hi: u8,
        /// Next state.
        to: NfaId,
    },
    /// Consumes one byte in one of several ranges.
    Sparse(&'a [(u8, u8, NfaId)]),
    /// Forks.
    Union(&'a [NfaId]),
    /// Calls a rule, or checks a guard, then continues.
    Call(Call),
}

/// A call out of a rule, with the state that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Matches a rule with a register.
    Rule(RuleIx, RegisterIx, NfaId),
    /// Matches the next item of an array, which the caller's register determines.
    Item(NfaId),
    /// Matches a text that is new to the set of the caller's register, and adds it to the set.
    Fresh(RuleIx, RegisterIx, NfaId),
    /// No call: continues without consuming if the object's register allows it.
    Guard(GuardKind, NfaId),
}

impl Call {
    /// Returns the state that follows.
    #[inline]
    pub(super) fn to(self) -> NfaId {
        match self {
            Call::Rule(_, _, to) | Call::Item(to) | Call::Fresh(_, _, to) | Call::Guard(_, to) => to,
        }
    }

    fn with_target(self, to: NfaId) -> Call {
        match self {
            Call::Rule(rule, register, _) => Call::Rule(rule, register, to),
            Call::Item(_) => Call::Item(to),
            Call::Fresh(rule, register, _) => Call::Fresh(rule, register, to),
            Call::Guard(test, _) => Call::Guard(test, to),
        }
    }
}

impl State<'_> {
    /// Returns the states that follow, apart from called rules.
    #[inline(always)]
    pub(super) fn targets(self) -> impl Iterator<Item = NfaId> {
        let (one, edges, parts): (_, &[(u8, u8, NfaId)], &[NfaId]) = match self {
            State::Dead | State::Accept => (None, &[], &[]),
            State::Byte { to, .. } => (Some(to), &[], &[]),
            State::Call(call) => (Some(call.to()), &[], &[]),
            State::Sparse(edges) => (None, edges, &[]),
            State::Union(parts) => (None, &[], parts),
        };
        one.into_iter().chain(edges.iter().map(|edge| edge.2)).chain(parts.iter().copied())
    }
}

/// A condition on an object's register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardKind {
    /// The declared property may come next, when these demands are met. It is noted as seen.
    DeclaredProperty(u32, u32),
    /// An undeclared property of this group may come next.
    UndeclaredProperty(u32),
    /// The object may end.
    ObjectEnd,
}

/// A state as it is stored. Lists are in the arena's pools, so that making, copying and dropping an
/// automaton needs no allocation per state. `past` is the state after the run of bytes that a byte
/// belongs to.
#[derive(Debug, Clone, Copy)]
enum Cell {
    Dead,
    Accept,
    Byte { lo: u8, hi: u8, to: NfaId, past: NfaId },
    Sparse { first: u32, len: u32 },
    Union { first: u32, len: u32 },
    Call(Call),
}

/// Set on a state inside an escape sequence: the character was counted at its backslash.
pub(super) const MID_ESCAPE: u8 = 1;
/// Set on states inside the text of a JSON string.
pub(super) const TEXT: u8 = 2;

/// Set on states inside a span of a source.
pub(super) const QUOTE: u8 = 4;

/// The arena of states.
#[derive(Debug, Clone)]
pub(super) struct Nfa {
    cells: Vec<Cell>,
    flags: Vec<u8>,
    edges: Vec<(u8, u8, NfaId)>,
    forks: Vec<NfaId>,
    unproven: Vec<NfaId>,
}

impl Default for Nfa {
    fn default() -> Self {
        Nfa {
            cells: vec![Cell::Dead, Cell::Accept],
            flags: vec![0, 0],
            edges: Vec::new(),
            forks: Vec::new(),
            unproven: Vec::new(),
        }
    }
}

impl Nfa {
    /// Returns a copy with room for this number of further states and an empty list of unproven
    /// ones.
    pub(super) fn with_room(&self, states: usize) -> Nfa {
        fn copy<T: Copy>(list: &[T], more: usize) -> Vec<T> {
            let mut copy = Vec::with_capacity(list.len() + more);
            copy.extend_from_slice(list);
            copy
        }
        Nfa {
            cells: copy(&self.cells, states),
            flags: copy(&self.flags, states),
            edges: copy(&self.edges, states / 8),
            forks: copy(&self.forks, states / 4),
            unproven: Vec::new(),
        }
    }

    /// Adds a state with flags.
    #[inline]
    pub(super) fn push(&mut self, state: State, flags: u8) -> NfaId {
        let doubtful = state != State::Accept && state.targets().all(|to| self.is_dead(to));
        let id = self.cells.len() as NfaId;
        if doubtful {
            self.unproven.push(id);
        }
        let cell = self.cell(state);
        self.cells.push(cell);
        self.flags.push(flags);
        id
    }

    /// Adds a state for each byte, one after the other; the last leads to `to`. Returns the first.
    pub(super) fn push_run(&mut self, bytes: &[u8], to: NfaId, flags: u8) -> NfaId {
        let first = self.cells.len() as NfaId;
        if !bytes.is_empty() && self.is_dead(to) {
            self.unproven.push(first);
        }
        let mut at = to;
        self.cells.extend(bytes.iter().rev().zip(first..).map(|(&b, id)| {
            let cell = Cell::Byte { lo: b, hi: b, to: at, past: to };
            at = id;
            cell
        }));
        self.flags.resize(self.cells.len(), flags);
        at
    }

    /// Returns the state after the run of bytes that a state of one byte belongs to, as the states
    /// were made.
    pub(super) fn behind_run(&self, id: NfaId) -> Option<NfaId> {
        match self.cells[id as usize] {
            Cell::Byte { past, .. } => Some(past),
            _ => None,
        }
    }

    /// Copies states that lead to each other and to the state `to`. The copies lead to `other`
    /// instead, which is not dead. Returns the copy of `entry`.
    pub(super) fn copy(&mut self, states: Range<NfaId>, entry: NfaId, (to, other): (NfaId, NfaId)) -> NfaId {
        let moved = self.cells.len() as NfaId - states.start;
        let there = |s: NfaId| match s {
            _ if s == to => other,
            _ if states.contains(&s) => s + moved,
            _ => s,
        };
        for s in states.clone() {
            let cell = match self.cells[s as usize] {
                cell @ (Cell::Dead | Cell::Accept) => cell,
                Cell::Byte { lo, hi, to, past } => Cell::Byte { lo, hi, to: there(to), past: there(past) },
                Cell::Sparse { first, len } => {
                    let copy = self.edges.len() as u32;
                    self.edges.extend_from_within(first as usize..(first + len) as usize);
                    self.edges[copy as usize..].iter_mut().for_each(|e| e.2 = there(e.2));
                    Cell::Sparse { first: copy, len }
                }
                Cell::Union { first, len } => {
                    let copy = self.forks.len() as u32;
                    self.forks.extend_from_within(first as usize..(first + len) as usize);
                    self.forks[copy as usize..].iter_mut().for_each(|p| *p = there(*p));
                    Cell::Union { first: copy, len }
                }
                Cell::Call(call) => Cell::Call(call.with_target(there(call.to()))),
            };
            self.cells.push(cell);
        }
        self.flags.extend_from_within(states.start as usize..states.end as usize);
        let [first, end] = [states.start, states.end].map(|end| self.unproven.partition_point(|&s| s < end));
        let copied = self.unproven.len();
        self.unproven.extend_from_within(first..end);
        self.unproven[copied..].iter_mut().for_each(|s| *s += moved);
        there(entry)
    }

    /// Returns true if a state is dead itself.
    fn is_dead(&self, id: NfaId) -> bool {
        matches!(self.cells[id as usize], Cell::Dead)
    }

    /// Returns, in order, the states that led only to dead states when they were made. Most of them
    /// are loops that were closed later. Every other state leads to one that was made before it.
    pub(super) fn unproven(&self) -> &[NfaId] {
        &self.unproven
    }

    /// Replaces a state; used to close loops.
    pub(super) fn set(&mut self, id: NfaId, state: State) {
        self.cells[id as usize] = self.cell(state);
    }

    // The kind of state is known wherever one is made, so that little of this is left there.
    #[inline(always)]
    fn cell(&mut self, state: State) -> Cell {
        match state {
            State::Dead => Cell::Dead,
            State::Accept => Cell::Accept,
            State::Byte { lo, hi, to } => Cell::Byte { lo, hi, to, past: to },
            State::Sparse(edges) => {
                let first = self.edges.len() as u32;
                self.edges.extend_from_slice(edges);
                Cell::Sparse { first, len: edges.len() as u32 }
            }
            State::Union(parts) => {
                let first = self.forks.len() as u32;
                self.forks.extend_from_slice(parts);
                Cell::Union { first, len: parts.len() as u32 }
            }
            State::Call(call) => Cell::Call(call),
        }
    }

    /// Returns a state.
    #[inline(always)]
    pub(super) fn state(&self, id: NfaId) -> State<'_> {
        match self.cells[id as usize] {
            Cell::Dead => State::Dead,
            Cell::Accept => State::Accept,
            Cell::Byte { lo, hi, to, .. } => State::Byte { lo, hi, to },
            Cell::Sparse { first, len } => State::Sparse(&self.edges[first as usize..(first + len) as usize]),
            Cell::Union { first, len } => State::Union(&self.forks[first as usize..(first + len) as usize]),
            Cell::Call(call) => State::Call(call),
        }
    }

    /// Removes the edges of a state that lead to dead states.
    pub(super) fn prune(&mut self, id: NfaId) {
        /// Moves the elements to keep to the front and returns their number.
        fn compact<T: Copy>(list: &mut [T], keep: impl Fn(&T) -> bool) -> u32 {
            let mut kept = 0;
            for i in 0..list.len() {
                if keep(&list[i]) {
                    list[kept] = list[i];
                    kept += 1;
                }
            }
            kept as u32
        }
        let alive = |to: NfaId| !matches!(self.cells[to as usize], Cell::Dead);
        let pruned = match self.cells[id as usize] {
            Cell::Sparse { first, len } => {
                let list = &mut self.edges[first as usize..(first + len) as usize];
                Cell::Sparse { first, len: compact(list, |e| alive(e.2)) }
            }
            Cell::Union { first, len } => {
                let list = &mut self.forks[first as usize..(first + len) as usize];
                Cell::Union { first, len: compact(list, |&p| alive(p)) }
            }
            other => other,
        };
        self.cells[id as usize] = pruned;
    }

    /// Returns the flags of a state.
    #[inline]
    pub(super) fn flags(&self, id: NfaId) -> u8 {
        self.flags[id as usize]
    }

    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        let cells = self.cells.capacity() * size_of::<Cell>() + self.flags.capacity();
        let ids = (self.forks.capacity() + self.unproven.capacity()) * size_of::<NfaId>();
        cells + ids + self.edges.capacity() * size_of::<(u8, u8, NfaId)>()
    }

    /// Returns the number of states.
    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }
}
