//! The automaton of a program as it runs: its rules and registers, which never change, and the
//! deterministic states met so far. It knows one rule at a time, and no registers' values.
//!
//! # Cost
//!
//! A table lookup for each byte, once the state is known.

use std::sync::Arc;

use crate::byte_set::ByteSet;

use super::lazy_dfa::{DState, DfaId, LazyDfa};
use super::nfa::{Call, Nfa, NfaId, RegisterIx, RuleIx, TEXT};
use super::program::{ANY_OBJECT, MEMBERS, Program, STRING, UNSPACED};
use super::register::Register;
use super::thread::{LocalState, ROOT_STACK, StackId};

/// The automaton of a program, with the deterministic states met so far.
#[derive(Debug, Clone)]
pub(crate) struct Automaton {
    // Copies share what does not change.
    pub(super) nfa: Arc<Nfa>,
    pub(super) starts: Arc<[NfaId]>,
    pub(super) registers: Arc<[Register]>,
    pub(super) dfa: LazyDfa,
    /// Rule and register of the whole output.
    pub(super) root: (RuleIx, RegisterIx),
    /// True if the root rule calls nothing, so that no rule of the constraint's own is ever called.
    calls_nothing: bool,
    /// True if there are arrays of unique scalars, which a property table compares.
    has_scalar_sets: bool,
    /// True if there are arrays with unique items of any kind.
    has_scopes: bool,
    /// Minimum number of bytes after a comma or a colon.
    pub(super) min_separator_bytes: u32,
}

impl Automaton {
    /// Takes the automaton of a program.
    pub(crate) fn new(program: Program) -> Self {
        let is_set = |r: &Register| matches!(r, Register::Members(members) if members.set);
        let is_scope = |r: &Register| matches!(r, Register::Distinct(_));
        Automaton {
            root: program.root,
            calls_nothing: program.flat,
            has_scalar_sets: program.registers.iter().any(is_set),
            has_scopes: program.registers.iter().any(is_scope),
            min_separator_bytes: program.min_separator_bytes(),
            nfa: Arc::new(program.nfa),
            starts: program.starts.into(),
            registers: program.registers.into(),
            dfa: program.dfa,
        }
    }

    /// Creates the automaton of the same program with the deterministic states of its base only.
    pub(crate) fn renewed(&self) -> Self {
        Automaton {
            nfa: self.nfa.clone(),
            starts: self.starts.clone(),
            registers: self.registers.clone(),
            dfa: self.dfa.renewed(),
            ..*self
        }
    }

    /// Returns the bytes that copies share.
    pub(crate) fn fixed_bytes(&self) -> usize {
        let registers = self.registers.iter().map(|r| size_of::<Register>() + r.bytes());
        self.nfa.bytes() + self.starts.len() * 4 + registers.sum::<usize>()
    }

    /// Returns the number of automaton states and of deterministic states.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.nfa.len(), self.dfa.len()]
    }

    /// Returns a register.
    #[inline]
    pub(super) fn register(&self, register: RegisterIx) -> &Register {
        &self.registers[register as usize]
    }

    /// Returns a deterministic state.
    #[inline]
    pub(super) fn state(&self, state: DfaId) -> &DState {
        self.dfa.state(state)
    }

    /// Returns the automaton states of a deterministic state.
    pub(super) fn members(&self, state: DfaId) -> &[NfaId] {
        self.dfa.members(state)
    }

    /// Returns the deterministic state of an automaton state.
    #[inline]
    pub(super) fn enter(&mut self, state: NfaId) -> DfaId {
        self.dfa.start(&self.nfa, state)
    }

    /// Returns the state at the start of a rule.
    #[inline]
    pub(super) fn start(&mut self, rule: RuleIx) -> DfaId {
        self.dfa.start(&self.nfa, self.starts[rule.0 as usize])
    }

    /// Returns the state after byte `b` within the rule, or
    /// [`DEAD_STATE`](super::lazy_dfa::DEAD_STATE).
    #[inline]
    pub(crate) fn step(&mut self, state: DfaId, b: u8) -> DfaId {
        self.dfa.step(&self.nfa, state, b)
    }

    /// Returns the target of each byte within the rule, as [`Automaton::step`] does.
    pub(crate) fn transitions(&mut self, state: DfaId) -> [DfaId; 256] {
        self.dfa.row(&self.nfa, state)
    }

    /// Returns the byte ranges that a state accepts within its rule, in order.
    pub(crate) fn ranges(&mut self, state: DfaId) -> Vec<(u8, u8, DfaId)> {
        self.dfa.ranges(&self.nfa, state)
    }

    /// Returns the bytes that a state accepts within its rule.
    pub(crate) fn live_bytes(&mut self, state: DfaId) -> ByteSet {
        self.dfa.live(&self.nfa, state)
    }

    /// Returns whether byte `b` continues a span of a source, and if so, whether the span is text
    /// of a JSON string.
    pub(crate) fn copies_source(&self, state: DfaId, b: u8) -> Option<bool> {
        self.dfa.quotes(&self.nfa, state, b)
    }

    /// Returns the state inside the text of a plain string.
    pub(crate) fn string_interior(&mut self) -> DfaId {
        self.text_of(STRING)
    }

    /// Returns the state inside the text of a string without white space.
    pub(crate) fn unspaced_interior(&mut self) -> DfaId {
        self.text_of(UNSPACED)
    }

    fn text_of(&mut self, rule: RuleIx) -> DfaId {
        let start = self.start(rule);
        self.step(start, b'"')
    }

    /// Returns the states that the calls made so far return to.
    pub(crate) fn return_states(&mut self) -> Vec<DfaId> {
        let calls: Vec<Call> =
            (0..self.dfa.len()).flat_map(|d| self.state(d as DfaId).calls.to_vec()).collect();
        let mut states: Vec<DfaId> = calls.iter().map(|c| self.enter(c.to())).collect();
        states.sort_unstable();
        states.dedup();
        states
    }

    /// Returns the states of an object with any properties, with their register.
    pub(crate) fn any_object_states(&mut self) -> Vec<LocalState> {
        let mut states = vec![self.start(ANY_OBJECT)];
        let mut next = 0;
        while let Some(&state) = states.get(next) {
            let calls = self.state(state).calls.clone();
            let after = calls.iter().map(|c| self.enter(c.to())).collect::<Vec<_>>();
            let steps = self.ranges(state).into_iter().map(|r| r.2);
            for to in after.into_iter().chain(steps) {
                if !states.contains(&to) {
                    states.push(to);
                }
            }
            next += 1;
        }
        states.into_iter().map(|state| LocalState { state, register: MEMBERS, n: 0 }).collect()
    }

    /// Returns true if entering a state needs more than noting it: it accepts or calls.
    #[inline]
    pub(super) fn is_busy(&self, state: DfaId) -> bool {
        self.dfa.is_busy(state)
    }

    /// Returns true if a state calls another rule.
    pub(crate) fn has_calls(&self, state: DfaId) -> bool {
        self.dfa.calls(state)
    }

    /// Returns true if a rule may end in a state.
    pub(crate) fn accepts(&self, state: DfaId) -> bool {
        self.state(state).accept
    }

    /// Returns true if entering a state on a stack adds no thread and no exit. The state calls
    /// nothing, and if it ends its rule, that is the root rule.
    #[inline]
    pub(crate) fn stays_in_rule(&self, state: DfaId, stack: StackId) -> bool {
        !self.dfa.is_busy(state) || stack == ROOT_STACK && !self.dfa.calls(state)
    }

    /// Returns true if the text can leave the automaton of this state's rule: the rule ends here,
    /// or calls another. Nothing follows the root rule.
    pub(crate) fn may_leave_rule(&self, state: DfaId, stack: StackId) -> bool {
        let state = self.state(state);
        !state.calls.is_empty() || state.accept && !self.calls_nothing && stack != ROOT_STACK
    }

    /// Returns true if the root rule calls nothing, so that its states occur on its own stack only.
    pub(crate) fn calls_nothing(&self) -> bool {
        self.calls_nothing
    }

    /// Returns true if the next byte is text of a JSON string, or closes it.
    pub(super) fn in_text(&self, state: DfaId) -> bool {
        self.state(state).in_text()
    }

    /// Returns true if the state is inside the text of a string, at the start of a character.
    pub(crate) fn is_text_state(&self, state: DfaId) -> bool {
        let state = self.state(state);
        state.in_text() && !state.mid_escape()
    }

    /// Returns true if all automaton states of a state are inside the text of a string. Only a
    /// quote leads out of it.
    pub(crate) fn is_purely_in_string(&self, state: DfaId) -> bool {
        self.members(state).iter().all(|&member| self.nfa.flags(member) & TEXT != 0)
    }

    /// Returns true if the register is that of an array with unique items of any kind.
    pub(super) fn is_scope(&self, register: RegisterIx) -> bool {
        matches!(self.register(register), Register::Distinct(_))
    }

    /// Returns true if a rule is called for a text that must be new to its caller.
    pub(crate) fn is_unique_name(&self, local: LocalState) -> bool {
        matches!(self.register(local.register), Register::Fresh(_))
    }

    /// Returns true if the state is inside a text that must be new, of a rule that never runs out
    /// of new texts.
    pub(crate) fn is_open_text(&self, local: LocalState) -> bool {
        matches!(self.register(local.register), Register::Fresh(fresh) if fresh.open)
    }

    /// Returns true if there are arrays of unique scalars, which a property table compares.
    pub(crate) fn has_scalar_sets(&self) -> bool {
        self.has_scalar_sets
    }

    /// Returns true if there are arrays with unique items of any kind.
    pub(crate) fn has_scopes(&self) -> bool {
        self.has_scopes
    }
}
