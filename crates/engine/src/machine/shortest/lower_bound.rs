//! Lower bounds of the number of bytes to the end of the output, for an A* search.
//!
//! They guide [`shortest`](crate::machine::shortest). For every automaton state, the length of the
//! shortest text to the end of its rule is computed (Knuth 1977, "A generalization of Dijkstra's
//! algorithm", by repeated passes). What a state does not show comes from its register: missing
//! characters and items, and required properties in any order. The sum over a stack is a lower
//! bound for its thread. It is exact except where properties are counted or texts must be new.
//!
//! # Cost
//!
//! Once for each grammar, a pass over all states for each level of nesting of rules.
//!
//! # Alternatives considered
//!
//! Distances between configurations: they would need all configurations at once.

use rustc_hash::FxHashMap;

use crate::machine::automaton::Automaton;
use crate::machine::closure::StackMachine;
use crate::machine::local::LocalMachine;
use crate::machine::nfa::{ACCEPT, Call, GuardKind, Nfa, NfaId, RegisterIx, RuleIx, State};
use crate::machine::properties::table::{DeclaredProperty, PropertyTable};
use crate::machine::register::{Items, Register};
use crate::machine::thread::{Frame, LocalState, StackId, Thread, UNKNOWN_STACK};

/// The bound of a state that cannot be ended, or that is nested too deeply.
const FAR: u32 = u32::MAX;
/// Maximum number of states visited in all passes. A state that is nested too deeply for them has
/// no bound, and no completion is found from outside it.
const MAX_LOOKS: usize = 1 << 25;

/// The lower bounds of a program.
#[derive(Debug)]
pub(crate) struct LowerBounds {
    /// By automaton state: bytes to the end of its rule, registers aside.
    states: Vec<u32>,
    /// By automaton state: number of entries of its object that begin on that path. The register
    /// counts all of them.
    entries: Vec<u32>,
    /// By register: bytes that it adds to the shortest text of a rule that runs with it.
    added: Vec<u32>,
    /// By register of an object: bytes of its shortest property with a comma.
    property: Vec<u32>,
    /// By state: true directly after the name of an undeclared property.
    named: Vec<bool>,
    /// Bytes of a comma with the white space that must follow it, in arrays.
    separator: u32,
}

impl LowerBounds {
    /// Finds the lower bounds of an automaton.
    pub(crate) fn of(automaton: &Automaton) -> LowerBounds {
        let (nfa, starts, registers) = (&*automaton.nfa, &*automaton.starts, &*automaton.registers);
        let unknown = vec![FAR; registers.len()];
        let mut least = LowerBounds {
            states: vec![FAR; nfa.len()],
            entries: vec![0; nfa.len()],
            added: unknown.clone(),
            property: unknown,
            named: behind_names(nfa),
            separator: 1 + automaton.min_separator_bytes,
        };
        least.states[ACCEPT as usize] = 0;
        for _ in 0..MAX_LOOKS / nfa.len() {
            let mut changed = false;
            for state in 0..nfa.len() as NfaId {
                let bound = least.of_state(nfa, starts, registers, state);
                changed |= std::mem::replace(&mut least.states[state as usize], bound) != bound;
                let entries = least.entries_of(nfa, state);
                changed |= std::mem::replace(&mut least.entries[state as usize], entries) != entries;
            }
            for (i, register) in registers.iter().enumerate() {
                let added = match register {
                    Register::Items(items) => least.of_items(starts, registers, items, 0..items.min, true),
                    Register::Members(members) => {
                        let property = least.of_property(starts, registers, members);
                        changed |= std::mem::replace(&mut least.property[i], property) != property;
                        let count = members.rule.map_or(0, |r| least.entries[starts[r.0 as usize] as usize]);
                        least.of_entries((starts, registers), (i as RegisterIx, members), |_| false, count)
                    }
                    _ => 0,
                };
                changed |= std::mem::replace(&mut least.added[i], added) != added;
            }
            if !changed {
                break;
            }
        }
        least
    }

    pub(crate) fn bytes(&self) -> usize {
        (2 * self.states.len() + self.added.len() + self.property.len()) * 4 + self.named.len()
    }

    fn of_state(&self, nfa: &Nfa, starts: &[NfaId], registers: &[Register], state: NfaId) -> u32 {
        let at = |to: NfaId| self.states[to as usize];
        match nfa.state(state) {
            State::Dead => FAR,
            State::Accept => 0,
            State::Byte { to, .. } => at(to).saturating_add(1),
            State::Sparse(edges) => edges.iter().map(|e| at(e.2)).min().unwrap_or(FAR).saturating_add(1),
            State::Union(parts) => parts.iter().map(|&part| at(part)).min().unwrap_or(FAR),
            State::Call(Call::Rule(rule, register, to) | Call::Fresh(rule, register, to)) => {
                self.of_text(starts, registers, (rule, register)).saturating_add(at(to))
            }
            // Items belong to the register.
            State::Call(call) => at(call.to()),
        }
    }

    /// Returns the number of entries that begin on the shortest path from a state. If there are
    /// several such paths, the maximum.
    fn entries_of(&self, nfa: &Nfa, state: NfaId) -> u32 {
        let at = |to: NfaId| self.entries[to as usize];
        let nearest = |ways: &mut dyn Iterator<Item = NfaId>| {
            let way = ways.map(|to| (self.states[to as usize], std::cmp::Reverse(at(to)))).min();
            way.map_or(0, |way| way.1.0)
        };
        match nfa.state(state) {
            State::Dead | State::Accept => 0,
            State::Byte { to, .. } => at(to),
            State::Call(Call::Fresh(_, _, to) | Call::Guard(GuardKind::DeclaredProperty(..), to)) => {
                at(to).saturating_add(1)
            }
            State::Call(call) => at(call.to()),
            State::Sparse(edges) => nearest(&mut edges.iter().map(|e| e.2)),
            State::Union(parts) => nearest(&mut parts.iter().copied()),
        }
    }

    /// Returns the shortest text of a rule with a register.
    fn of_text(
        &self,
        starts: &[NfaId],
        registers: &[Register],
        (rule, register): (RuleIx, RegisterIx),
    ) -> u32 {
        let text = self.states[starts[rule.0 as usize] as usize];
        match &registers[register as usize] {
            // Quotes are not counted.
            Register::Chars { min, raw, .. } => text.max(min.saturating_add(if *raw { 0 } else { 2 })),
            _ => text.saturating_add(self.added[register as usize]),
        }
    }

    /// Returns the bytes of some items with a comma before each, but not before the first if that
    /// is `bare`.
    fn of_items(
        &self,
        starts: &[NfaId],
        registers: &[Register],
        items: &Items,
        which: std::ops::Range<u32>,
        bare: bool,
    ) -> u32 {
        if which.is_empty() {
            return 0;
        }
        let of =
            |item: Option<(RuleIx, RegisterIx)>| item.map_or(FAR, |i| self.of_text(starts, registers, i));
        let prefix = items.prefix.len() as u32;
        let commas = which.len() as u32 - u32::from(bare);
        let mut sum = self.separator.saturating_mul(commas);
        for n in which.start..which.end.min(prefix) {
            sum = sum.saturating_add(of(items.prefix[n as usize]));
        }
        let others = which.end.saturating_sub(which.start.max(prefix));
        if others == 0 { sum } else { sum.saturating_add(of(items.rest).saturating_mul(others)) }
    }

    /// Returns the shortest property of an object with a comma, or the shortest item of an array
    /// with unique items.
    fn of_property(&self, starts: &[NfaId], registers: &[Register], members: &PropertyTable) -> u32 {
        let of = |text: (RuleIx, RegisterIx)| self.of_text(starts, registers, text);
        let slots = members.properties.iter();
        let declared = slots.filter_map(|slot| Some(of(slot.value?).saturating_add(around(members, slot))));
        let others = members.lists.iter().flat_map(|list| &list.entries).map(|entry| {
            let value = if members.set { 0 } else { of(entry.value) };
            of(entry.key).saturating_add(value).saturating_add(members.around.undeclared)
        });
        declared.chain(others).min().unwrap_or(FAR)
    }

    /// Returns the bytes that an object or an array with unique items still needs. `count` is the
    /// number of its entries, including those that its state leads to. Needed are the required
    /// properties in any order, and missing entries.
    fn of_entries(
        &self,
        (starts, registers): (&[NfaId], &[Register]),
        (register, members): (RegisterIx, &PropertyTable),
        has: impl Fn(u32) -> bool,
        count: u32,
    ) -> u32 {
        let of = |text: (RuleIx, RegisterIx)| self.of_text(starts, registers, text);
        let (mut sum, mut waiting, mut any) = (0u32, 0, count > 0);
        if !members.ordered {
            for (i, slot) in members.properties.iter().enumerate() {
                if has(i as u32) {
                    any = true;
                } else if slot.required {
                    let value = slot.value.map_or(FAR, of);
                    sum = sum.saturating_add(value).saturating_add(around(members, slot));
                    waiting += 1;
                }
            }
        }
        let min = if members.counted { members.min } else { 0 };
        let missing = min.saturating_sub(count).saturating_sub(waiting);
        let others = self.property[register as usize].saturating_mul(missing);
        // The first has no comma.
        sum.saturating_add(others).saturating_sub(if any { 0 } else { members.around.comma })
    }

    /// Returns the bytes from a local state to the end of its rule; `called` if it waits for a call
    /// to return.
    fn of_local(&self, machine: &LocalMachine, local: LocalState, called: bool) -> u32 {
        let automaton = &machine.automaton;
        let members = automaton.members(local.state);
        let own = members.iter().map(|&s| self.states[s as usize]).min().unwrap_or(FAR);
        match automaton.register(local.register) {
            Register::Chars { min, raw: true, .. } => own.max(min.saturating_sub(local.n)),
            Register::Chars { min, .. } if own > 0 => own.max(min.saturating_sub(local.n).saturating_add(1)),
            Register::Items(items) => {
                // The first has no comma. Where the next one may begin, its comma is already
                // present.
                let scans = automaton.state(local.state).scans;
                let calls = automaton.has_calls(local.state) || members.iter().any(|&s| is_gap(automaton, s));
                let to = if calls && !scans { items.min.max(local.n + 1) } else { items.min };
                let bare = calls || local.n == 0;
                let items = self.of_items(&automaton.starts, &automaton.registers, items, local.n..to, bare);
                own.saturating_add(items)
            }
            Register::Members(entries) => {
                let set = machine.names.set(local.n);
                // An item, or an undeclared name, counts once it is complete.
                let writing = called && (entries.set || members.iter().any(|&s| self.named[s as usize]));
                let ways = members.iter().map(|&s| (self.states[s as usize], self.entries[s as usize]));
                let ahead = ways.filter(|way| way.0 == own).map(|way| way.1).max().unwrap_or(0);
                let count = set.count.saturating_add(u32::from(writing)).saturating_add(ahead);
                let entries = (local.register, &**entries);
                let program = (&*automaton.starts, &*automaton.registers);
                own.saturating_add(self.of_entries(program, entries, |i| set.has(i), count))
            }
            _ => own,
        }
    }
}

/// Returns the bytes that a declared property takes besides its value, with its comma.
fn around(members: &PropertyTable, slot: &DeclaredProperty) -> u32 {
    slot.name.saturating_add(members.around.declared)
}

/// Marks the states directly after the name of an undeclared property.
fn behind_names(nfa: &Nfa) -> Vec<bool> {
    let mut behind = vec![false; nfa.len()];
    let states = (0..nfa.len() as NfaId).map(|state| nfa.state(state));
    let mut todo: Vec<NfaId> = states
        .filter_map(|s| if let State::Call(Call::Fresh(_, _, to)) = s { Some(to) } else { None })
        .collect();
    while let Some(state) = todo.pop() {
        if let (false, State::Union(parts)) =
            (std::mem::replace(&mut behind[state as usize], true), nfa.state(state))
        {
            todo.extend_from_slice(parts);
        }
    }
    behind
}

/// Returns true if a state waits for white space between a comma and the next item.
fn is_gap(automaton: &Automaton, state: NfaId) -> bool {
    let item = |to: NfaId| matches!(automaton.nfa.state(to), State::Call(Call::Item(_)));
    automaton.min_separator_bytes > 0
        && matches!(automaton.nfa.state(state), State::Byte { to, .. } if item(to))
}

/// The bounds below the stacks met so far.
#[derive(Debug, Default)]
pub(crate) struct StackBounds(FxHashMap<StackId, u32>);

impl StackBounds {
    fn known(&self, stack: StackId) -> Option<u32> {
        if stack <= UNKNOWN_STACK { Some(0) } else { self.0.get(&stack).copied() }
    }

    /// Returns the bytes that are missing after the rule on a stack has ended.
    fn of_stack(&mut self, least: &LowerBounds, machine: &StackMachine, stack: StackId) -> u32 {
        let mut todo = vec![stack];
        while let Some(&top) = todo.last() {
            if self.known(top).is_some() {
                todo.pop();
                continue;
            }
            let frames = machine.stacks.frames(top);
            let unknown = frames.iter().find(|frame| self.known(frame.parent).is_none());
            if let Some(frame) = unknown {
                todo.push(frame.parent);
                continue;
            }
            let of = |f: &Frame| {
                let parent = self.known(f.parent).unwrap_or(FAR);
                least.of_local(&machine.local, f.ret, true).saturating_add(parent)
            };
            let bound = frames.iter().map(of).min().unwrap_or(FAR);
            self.0.insert(top, bound);
        }
        self.known(stack).unwrap_or(FAR)
    }

    /// Returns a lower bound of the bytes from the nearest of some threads to the end of its whole
    /// stack.
    pub(crate) fn of_threads(
        &mut self,
        least: &LowerBounds,
        machine: &StackMachine,
        threads: &[Thread],
    ) -> u32 {
        let of = |thread: &Thread| {
            let own = least.of_local(&machine.local, thread.local, false);
            own.saturating_add(self.of_stack(least, machine, thread.stack))
        };
        threads.iter().map(of).min().unwrap_or(FAR)
    }
}
