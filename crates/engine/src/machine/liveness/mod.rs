//! Liveness: the states and rules that can match at all, so that no output reaches a dead end.
//!
//! A state is live if acceptance of its rule can be reached. A call is live if its rule can match
//! and what follows is live. This is a least fixpoint over all rules at once, found by backward
//! search. Nearly always everything is live, and `fast_path` proves that without the search.
//!
//! After [`trim`] every state left is live. So at run time "there is a transition" means "the
//! output can be completed".
//!
//! # Cost
//!
//! The search visits each edge a constant number of times.
//!
//! # Alternatives considered
//!
//! Searching forward from each state while a mask is made: it repeats work and can fail in the
//! middle of a generation.

mod fast_path;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::nfa::{ACCEPT, Call, Nfa, NfaId, RegisterIx, RuleIx, State};
use super::properties::table::PropertyTable;
use super::register::{Items, Register};
use crate::incoming::Incoming;

/// States that were made for one rule.
#[derive(Debug, Clone, Copy)]
pub(super) struct StateRange {
    /// The first state; the others follow, up to the next range.
    pub first: NfaId,
    /// True if the states call nothing and dead ones were removed already.
    pub trimmed: bool,
}

/// Backward search over one program.
pub(super) struct Liveness<'a> {
    pub(super) nfa: &'a Nfa,
    pub(super) starts: &'a [NfaId],
    registers: &'a [Register],
    /// The first state to decide; all states below it are known to be live.
    pub(super) from: NfaId,
    /// By state: whether it is live. Empty if all are, except those that are `State::Dead`
    /// themselves.
    pub(super) live: Vec<bool>,
    /// True if edges may lead to such dead states.
    pub(super) dead: bool,
    todo: Vec<NfaId>,
    /// Rules whose start is live.
    started: Vec<bool>,
    /// Rules that can match. A counted array also needs enough items.
    pub(super) rule_ok: Vec<bool>,
    /// Call states whose continuation is live and whose rule is not known to match yet.
    waiting: FxHashMap<RuleIx, Vec<NfaId>>,
    /// Containers that may match when a rule is found to match.
    watchers: FxHashMap<RuleIx, Vec<RegisterIx>>,
    /// Rules that start at a state.
    rules_of_state: FxHashMap<NfaId, Vec<RuleIx>>,
    /// The register of a rule that needs others to match: items of an array, or values of an object
    /// with a register.
    container: FxHashMap<RuleIx, RegisterIx>,
}

impl<'a> Liveness<'a> {
    /// Decides the states `from..`. `known` says which of the first rules match. `blocks` are the
    /// states as they were made, or `None` if some were replaced.
    pub(super) fn solve(
        nfa: &'a Nfa,
        starts: &'a [NfaId],
        registers: &'a [Register],
        from: NfaId,
        known: &[bool],
        blocks: Option<&[StateRange]>,
    ) -> Self {
        let mut solver = Liveness::new(nfa, starts, registers, from, known);
        if blocks.is_some_and(|blocks| fast_path::all_live(&mut solver, blocks, known.len())) {
            return solver;
        }
        solver.rule_ok[known.len()..].fill(false);
        solver.search(known.len());
        solver
    }

    pub(super) fn new(
        nfa: &'a Nfa,
        starts: &'a [NfaId],
        registers: &'a [Register],
        from: NfaId,
        known: &[bool],
    ) -> Self {
        let mut rule_ok = known.to_vec();
        rule_ok.resize(starts.len(), false);
        let owned = registers.iter().zip(0..).filter_map(|(register, ix)| Some((owner(register)?, ix)));
        Liveness {
            nfa,
            starts,
            registers,
            from,
            live: Vec::new(),
            dead: false,
            todo: Vec::new(),
            started: Vec::new(),
            rule_ok,
            waiting: FxHashMap::default(),
            watchers: FxHashMap::default(),
            rules_of_state: FxHashMap::default(),
            container: owned.collect(),
        }
    }

    /// Decides every state and rule; the first `known_rules` rules are known.
    pub(super) fn search(&mut self, known_rules: usize) {
        self.live = vec![false; self.nfa.len() - self.from as usize];
        self.dead = true;
        self.started = self.rule_ok.clone();
        self.prepare(known_rules);
        let into = self.incoming();
        self.run(&into);
    }

    /// Fills the indexes of the search.
    fn prepare(&mut self, known_rules: usize) {
        for (rule, &start) in self.starts.iter().enumerate().skip(known_rules) {
            self.rules_of_state.entry(start).or_default().push(RuleIx(rule as u32));
        }
        for (register, ix) in self.registers.iter().zip(0..) {
            for part in owner(register).iter().flat_map(|_| parts(register)) {
                self.watchers.entry(part).or_default().push(ix);
            }
        }
    }

    /// Returns, for every state to decide, the states with an edge to it, one list after the other.
    /// The last list is that of accept and of states that are decided already.
    fn incoming(&self) -> Incoming<NfaId> {
        Incoming::new(self.live.len() + 1, |edge| self.edges(|from, to| edge(to, from)))
    }

    /// Calls `edge(from, to)` for each edge that matters; `to` is an index of `live`, or its
    /// length.
    fn edges(&self, mut edge: impl FnMut(NfaId, usize)) {
        let end = self.live.len();
        for s in self.from..self.nfa.len() as NfaId {
            for to in self.nfa.state(s).targets() {
                if to != ACCEPT && to >= self.from {
                    edge(s, (to - self.from) as usize);
                } else if self.nfa.state(to) != State::Dead {
                    // Decided at an earlier stage, and dead ones were removed then.
                    edge(s, end);
                }
            }
        }
    }

    fn run(&mut self, into: &Incoming<NfaId>) {
        self.enter(ACCEPT);
        for &s in into.of(self.live.len()) {
            self.reach(s);
        }
        while let Some(s) = self.todo.pop() {
            self.enter(s);
            for &p in into.of((s - self.from) as usize) {
                self.reach(p);
            }
        }
    }

    /// Notes that the continuation of `s` is live.
    fn reach(&mut self, s: NfaId) {
        if let State::Call(Call::Rule(rule, ..) | Call::Fresh(rule, ..)) = self.nfa.state(s)
            && !self.rule_ok[rule.0 as usize]
        {
            self.waiting.entry(rule).or_default().push(s);
            return;
        }
        if !std::mem::replace(&mut self.live[(s - self.from) as usize], true) {
            self.todo.push(s);
        }
    }

    /// Handles a state that has become live. Rules that start there match if they have the items
    /// that they need.
    fn enter(&mut self, s: NfaId) {
        let mut changed = self.rules_of_state.get(&s).cloned().unwrap_or_default();
        for rule in &changed {
            self.started[rule.0 as usize] = true;
        }
        while let Some(rule) = changed.pop() {
            let ix = rule.0 as usize;
            if self.rule_ok[ix] || !self.started[ix] || !self.has_parts(rule) {
                continue;
            }
            self.rule_ok[ix] = true;
            for s in self.waiting.remove(&rule).unwrap_or_default() {
                self.reach(s);
            }
            let containers = self.watchers.get(&rule).into_iter().flatten();
            changed.extend(containers.filter_map(|&register| owner(&self.registers[register as usize])));
        }
    }

    /// Returns true if a container can have the items or properties that it must have.
    pub(super) fn has_parts(&self, rule: RuleIx) -> bool {
        match self.container.get(&rule).map(|&register| &self.registers[register as usize]) {
            Some(Register::Items(items)) => self.effective_max(items) >= items.min,
            Some(register @ Register::Members(members)) => match self.all_ok(register) {
                true => members.satisfiable(),
                false => self.effective(members).satisfiable(),
            },
            _ => true,
        }
    }

    /// Returns true if all items, or all values and names, of a container are known to match.
    fn all_ok(&self, register: &Register) -> bool {
        parts(register).all(|rule| self.rule_ok[rule.0 as usize])
    }

    /// Returns the properties of an object without those that are not known to match.
    fn effective(&self, members: &PropertyTable) -> PropertyTable {
        let mut members = members.clone();
        for slot in &mut members.properties {
            slot.value = slot.value.filter(|value| self.rule_ok[value.0.0 as usize]);
        }
        for list in &mut members.lists {
            list.entries.retain(|e| self.rule_ok[e.key.0.0 as usize] && self.rule_ok[e.value.0.0 as usize]);
        }
        members.find_covers();
        members
    }

    /// Returns the maximum number of items of an array, given what is known to match.
    fn effective_max(&self, items: &Items) -> u32 {
        let ok =
            |item: &Option<(RuleIx, RegisterIx)>| item.is_some_and(|(rule, _)| self.rule_ok[rule.0 as usize]);
        let prefix = items.prefix.iter().take_while(|i| ok(i)).count() as u32;
        if (prefix as usize) < items.prefix.len() || !ok(&items.rest) {
            prefix.min(items.max)
        } else {
            items.max
        }
    }

    /// Returns true if a rule can match.
    pub(super) fn matches(&self, rule: RuleIx) -> bool {
        self.rule_ok[rule.0 as usize]
    }

    /// Returns the live states, and the registers that became narrower: arrays with their true
    /// maxima, objects without impossible properties.
    pub(super) fn result(self) -> (Live, Vec<(RegisterIx, Register)>) {
        let mut changed = Vec::new();
        for (ix, register) in self.registers.iter().enumerate() {
            let new = match register {
                Register::Items(items) if self.effective_max(items) != items.max => {
                    let max = self.effective_max(items);
                    Register::Items(Arc::new(Items { max, ..(**items).clone() }))
                }
                Register::Members(members) if !self.all_ok(register) => {
                    Register::Members(Arc::new(self.effective(members)))
                }
                _ => continue,
            };
            changed.push((ix as RegisterIx, new));
        }
        (Live { states: self.live, dead: self.dead }, changed)
    }
}

/// Returns the rule that runs with a register of a container.
fn owner(register: &Register) -> Option<RuleIx> {
    match register {
        Register::Items(items) => Some(items.rule),
        Register::Members(members) => members.rule,
        _ => None,
    }
}

/// Returns the rules of a container's items, or of its values and names.
fn parts(register: &Register) -> impl Iterator<Item = RuleIx> + '_ {
    let (items, members) = match register {
        Register::Items(items) => (Some(items), None),
        Register::Members(members) => (None, Some(members)),
        _ => (None, None),
    };
    let items = items.into_iter().flat_map(|items| items.prefix.iter().chain([&items.rest]).flatten());
    let members = members.into_iter().flat_map(|members| {
        let extras = members.lists.iter().flat_map(|l| &l.entries).flat_map(|e| [e.key.0, e.value.0]);
        members.properties.iter().filter_map(|slot| Some(slot.value?.0)).chain(extras)
    });
    items.map(|item| item.0).chain(members)
}

/// The live states.
pub(super) struct Live {
    /// By state; empty if all are live, except those that are `State::Dead` themselves.
    states: Vec<bool>,
    /// True if edges may lead to dead states.
    dead: bool,
}

/// Removes the states from which acceptance cannot be reached, and the edges to them. States below
/// `from` were trimmed when they were made.
pub(super) fn trim(nfa: &mut Nfa, from: NfaId, live: &Live) {
    for (s, _) in (from..).zip(&live.states).filter(|l| !l.1) {
        nfa.set(s, State::Dead);
    }
    let states = from..nfa.len() as NfaId;
    if live.dead && states.clone().any(|s| nfa.state(s) == State::Dead) {
        states.for_each(|s| nfa.prune(s));
    }
}
