//! States from which an item can become unboundedly many values; there the uniqueness check is
//! skipped.
//!
//! Such a state leads into text of a string without a maximum length. A number with many digits to
//! come is as good. Most items have such text ahead of them until shortly before their end, and
//! then no earlier item must be compared. Paths that a register may bar, and endless arrays, are
//! not counted. So the answer may be false for a state that would be good.
//!
//! # Cost
//!
//! A few passes over the states, once for each grammar with arrays of unique items.

use rustc_hash::FxHashSet;

use crate::machine::automaton::Automaton;
use crate::machine::closure::StackMachine;
use crate::machine::lazy_dfa::DEAD_STATE;
use crate::machine::nfa::{Call, Nfa, NfaId, State, TEXT};
use crate::machine::properties::seen_names::TextId;
use crate::machine::register::Register;
use crate::machine::thread::{LocalState, StackId, Thread};

/// Number of digits that make more numbers than an output has items, without zeros.
const DIGITS: usize = 8;

/// Returns true if a rule with this register has unboundedly many texts whenever its states have.
fn is_free(register: &Register) -> bool {
    match register {
        Register::None | Register::Items(_) | Register::Members(_) => true,
        Register::Chars { max, .. } => *max == u32::MAX,
        Register::Fresh(fresh) => fresh.open,
        Register::Distinct(_) => false,
    }
}

/// Marks the states from which text can continue without end, within the text.
fn endless_text(nfa: &Nfa) -> Vec<bool> {
    let states = 0..nfa.len() as NfaId;
    let reads = |s| matches!(nfa.state(s), State::Byte { .. } | State::Sparse(_) | State::Union(_));
    let mut endless: Vec<bool> = states.clone().map(|s| nfa.flags(s) & TEXT != 0 && reads(s)).collect();
    // Nearly all states are made after those that they lead to.
    loop {
        let before = endless.iter().filter(|&&endless| endless).count();
        for s in states.clone() {
            endless[s as usize] &= nfa.state(s).targets().any(|to| endless[to as usize]);
        }
        if endless.iter().filter(|&&endless| endless).count() == before {
            return endless;
        }
    }
}

/// Marks the states of the rules of arrays with unique items.
fn of_arrays(nfa: &Nfa, starts: &[NfaId], registers: &[Register]) -> Vec<bool> {
    let mut found = vec![false; nfa.len()];
    let array = |register: &Register| match register {
        Register::Distinct(distinct) => distinct.array.map(|(rule, _)| starts[rule.0 as usize]),
        _ => None,
    };
    let mut todo: Vec<NfaId> = registers.iter().filter_map(array).collect();
    while let Some(s) = todo.pop() {
        if !std::mem::replace(&mut found[s as usize], true) {
            todo.extend(nfa.state(s).targets());
        }
    }
    found
}

/// Marks the states of an automaton from which unboundedly many values are reachable.
fn unbounded_states(nfa: &Nfa, starts: &[NfaId], registers: &[Register]) -> Vec<bool> {
    let mut unbounded = endless_text(nfa);
    let of_array = of_arrays(nfa, starts, registers);
    let mut changed = true;
    while std::mem::take(&mut changed) {
        for s in 0..nfa.len() {
            let of = |to: NfaId| unbounded[to as usize];
            // After a comma of the array itself there is another item. That one may become new,
            // this one need not.
            let separates = |lo: u8, hi: u8| {
                of_array[s] && nfa.flags(s as NfaId) & TEXT == 0 && (lo..=hi).contains(&b',')
            };
            let found = match nfa.state(s as NfaId) {
                _ if unbounded[s] => continue,
                State::Byte { lo, hi, to } => of(to) && !separates(lo, hi),
                State::Sparse(edges) => edges.iter().any(|e| of(e.2) && !separates(e.0, e.1)),
                State::Union(parts) => parts.iter().any(|&p| of(p)),
                State::Call(Call::Rule(rule, register, to) | Call::Fresh(rule, register, to)) => {
                    of(to) || is_free(&registers[register as usize]) && of(starts[rule.0 as usize])
                }
                State::Dead | State::Accept | State::Call(_) => false,
            };
            unbounded[s] = found;
            changed |= found;
        }
    }
    unbounded
}

/// By automaton state: true if unboundedly many values can follow. Empty without arrays with unique
/// items.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnboundedStates(Vec<bool>);

impl UnboundedStates {
    /// Finds the states of an automaton.
    pub(crate) fn of(automaton: &Automaton) -> Self {
        UnboundedStates(unbounded_states(&automaton.nfa, &automaton.starts, &automaton.registers))
    }

    fn has(&self, automaton: &Automaton, local: LocalState) -> bool {
        is_free(automaton.register(local.register))
            && automaton.members(local.state).iter().any(|&s| self.0[s as usize])
    }

    /// Returns true if on some stack every array with unique items has an item that can become
    /// unboundedly many values.
    pub(crate) fn has_choice(&self, machine: &mut StackMachine, threads: &[Thread], text: TextId) -> bool {
        let mut todo: Vec<(StackId, bool)> = Vec::new();
        for thread in threads {
            let local = thread.local;
            if self.has(&machine.local.automaton, local) || is_long_number(machine, local, text) {
                return true;
            }
            todo.push((thread.stack, false));
        }
        let (automaton, stacks) = (&machine.local.automaton, &machine.stacks);
        let mut seen = FxHashSet::default();
        while let Some((stack, rich)) = todo.pop() {
            // Below all scopes, or below one with unboundedly many values.
            if rich || stacks.scopes_of(stack).is_empty() {
                return true;
            }
            if !seen.insert(stack) {
                continue;
            }
            for frame in stacks.frames(stack).iter() {
                if !automaton.is_scope(frame.ret.register) {
                    todo.push((frame.parent, self.has(automaton, frame.ret)));
                }
            }
        }
        false
    }
}

/// Returns true if enough digits may follow, none of them zero, to make more different numbers than
/// an array could have items. After an exponent sign they need not differ.
fn is_long_number(machine: &mut StackMachine, local: LocalState, text: TextId) -> bool {
    if local.register != 0 {
        return false;
    }
    let automaton = &mut machine.local.automaton;
    let mut state = local.state;
    for _ in 0..DIGITS {
        let next = automaton.step(state, b'1');
        if next == DEAD_STATE || (b'2'..=b'9').any(|b| automaton.step(state, b) != next) {
            return false;
        }
        state = next;
    }
    let mut at = text;
    while let Some((before, b)) = machine.local.names.last_byte(at) {
        match b {
            b'e' | b'E' => return false,
            b'0'..=b'9' | b'.' | b'+' | b'-' => at = before,
            _ => break,
        }
    }
    true
}
