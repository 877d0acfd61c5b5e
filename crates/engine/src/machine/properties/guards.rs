//! Guards of objects at run time, and names that must be new.
//!
//! A guard is checked when it is entered. A name is checked with every byte: it may continue only
//! if it can still become new.
//!
//! # Cost
//!
//! A hash lookup per byte, and a search along the names that begin alike where there are any.
//!
//! # Alternatives considered
//!
//! Checking only at the end of a name: the output could be stuck in the middle of a name that can
//! only repeat.

use rustc_hash::FxHashSet;

use crate::machine::configuration::{LocalState, Machine, StackId};
use crate::machine::lazy_dfa::DfaId;
use crate::machine::lower::{ANY_OBJECT, MEMBERS};
use crate::machine::nfa::{GuardKind, RegisterIx, RuleIx};
use crate::machine::properties::seen_names::{NO_TEXT, NameProgress, TextId, UNKNOWN};
use crate::machine::register::{OFF_TRIE, Register};

impl Machine {
    /// Returns true if a rule that has matched may end: its text is new, if it must be, and long
    /// enough.
    pub(crate) fn may_end(&self, local: LocalState) -> bool {
        match self.registers[local.register as usize] {
            Register::Fresh(_) => {
                let place = self.seen_names.place(local.n);
                !self.seen_names.has(place.set, place.text)
            }
            // If it could end here, it could also continue. A string ends with its quote and is
            // checked there.
            Register::Chars { min, raw: true, .. } => local.n >= min,
            _ => true,
        }
    }

    /// Returns to all callers of the rule that has matched.
    pub(crate) fn return_from(&mut self, local: LocalState, stack: StackId) {
        if !matches!(self.registers[local.register as usize], Register::Fresh(_)) {
            self.todo.extend(self.stacks[stack as usize].iter().map(|f| (f.ret, f.parent)));
            return;
        }
        let text = self.seen_names.place(local.n).text;
        for frame in self.stacks[stack as usize].clone().iter() {
            let ret = self.after_name(frame.ret, text);
            self.todo.push((ret, frame.parent));
        }
    }

    /// Returns an object's state after a text that is new to it.
    fn after_name(&mut self, ret: LocalState, text: TextId) -> LocalState {
        let cap = match &self.registers[ret.register as usize] {
            Register::Members(members) => members.cap(),
            _ => 0,
        };
        LocalState { n: self.seen_names.with_name(ret.n, text, cap), ..ret }
    }

    /// Returns an object's state after some new text, whichever it is.
    pub fn after_unique_name(&mut self, ret: LocalState) -> LocalState {
        self.after_name(ret, UNKNOWN)
    }

    /// Returns true if a rule is called for a text that must be new to its caller.
    pub fn is_unique_name(&self, local: LocalState) -> bool {
        matches!(self.registers[local.register as usize], Register::Fresh(_))
    }

    /// Checks a guard. Returns the new value of the object's register, or `None` if the guard
    /// refuses.
    pub(crate) fn check_guard(&mut self, local: LocalState, test: GuardKind) -> Option<u32> {
        let Register::Members(members) = &self.registers[local.register as usize] else {
            return Some(local.n);
        };
        let members = members.clone();
        let set = self.seen_names.set(local.n);
        match test {
            GuardKind::ObjectEnd => members.may_close(set).then_some(local.n),
            GuardKind::DeclaredProperty(i, met) if members.ordered => {
                let next = self.seen_names.with_one(local.n, members.cap());
                let names = self.seen_names.names(local.n);
                members.may_take(self.seen_names.set(next), i, names, met).then_some(next)
            }
            GuardKind::DeclaredProperty(i, met) => {
                if set.has(i) {
                    return None;
                }
                let next = self.seen_names.with_property(local.n, i, members.cap());
                let names = self.seen_names.names(local.n);
                members.may_take(self.seen_names.set(next), i, names, met).then_some(next)
            }
            GuardKind::UndeclaredProperty(list) => {
                let list = members.lists.get(list as usize)?;
                if !members.may_add(set, self.seen_names.names(local.n), list.to) {
                    return None;
                }
                list.entries.iter().any(|e| self.fresh_start(e.key, local.n).is_some()).then_some(local.n)
            }
        }
    }

    /// Returns the start of a rule whose text must be new to a set, or `None` if all of its texts
    /// were seen.
    pub(crate) fn fresh_start(
        &mut self,
        (rule, register): (RuleIx, RegisterIx),
        set: u32,
    ) -> Option<LocalState> {
        let Register::Fresh(fresh) = &self.registers[register as usize] else { return None };
        let (declared, open) = (if fresh.names.is_empty() { OFF_TRIE } else { 0 }, fresh.open);
        let place = NameProgress { set, text: NO_TEXT, declared };
        let state = self.dfa.start(&self.nfa, self.starts[rule.0 as usize]);
        if !open && !self.has_unseen(state, place) {
            return None;
        }
        Some(LocalState { state, register, n: self.seen_names.place_id(place) })
    }

    /// Returns true if some text that a state can still become is not in the set. Every state leads
    /// to a text, so only the paths along the names seen must be checked.
    fn has_unseen(&mut self, state: DfaId, place: NameProgress) -> bool {
        let ways = self.seen_names.prefix_nodes(place.set, place.text);
        if ways.is_empty() && !self.seen_names.has(place.set, place.text) {
            return true;
        }
        let mut todo = vec![(state, place.text)];
        let mut seen = FxHashSet::from_iter(todo.iter().copied());
        while let Some((state, text)) = todo.pop() {
            if self.dfa.state(state).accept && !self.seen_names.has(place.set, text) {
                return true;
            }
            for (lo, hi, to) in self.dfa.ranges(&self.nfa, state) {
                for b in lo..=hi {
                    let next = self.seen_names.with_byte(text, b, false);
                    if !ways.contains(&next) {
                        return true;
                    }
                    if seen.insert((to, next)) {
                        todo.push((to, next));
                    }
                }
            }
        }
        false
    }

    /// Takes one more byte of a text that must be new. Returns `None` if it can no longer be new.
    pub(crate) fn step_fresh(&mut self, local: LocalState, state: DfaId, b: u8) -> Option<LocalState> {
        let Register::Fresh(fresh) = &self.registers[local.register as usize] else { return None };
        let place = self.seen_names.place(local.n);
        // The quotes are no part of a declared name.
        let (opens, closes) = (place.text == NO_TEXT && b == b'"', self.dfa.state(state).accept);
        let declared = match place.declared {
            n if closes && fresh.names.is_name(n) => return None,
            n if opens || closes => n,
            n => fresh.names.step(n, b),
        };
        let open = fresh.open;
        let text = self.seen_names.with_byte(place.text, b, self.tracking);
        let place = NameProgress { text, declared, ..place };
        let stays = match open {
            true => !closes || !self.seen_names.has(place.set, text),
            false => self.has_unseen(state, place),
        };
        stays.then(|| LocalState { state, n: self.seen_names.place_id(place), ..local })
    }

    /// Returns true if a text that must be new would repeat a name with `rest` and a closing quote.
    pub fn would_repeat(&mut self, local: LocalState, rest: &[u8]) -> bool {
        let Register::Fresh(fresh) = &self.registers[local.register as usize] else { return false };
        let place = self.seen_names.place(local.n);
        let (mut text, mut declared) = (place.text, place.declared);
        for &b in rest {
            text = self.seen_names.with_byte(text, b, false);
            declared = fresh.names.step(declared, b);
            if text == UNKNOWN && declared == OFF_TRIE {
                return false;
            }
        }
        fresh.names.is_name(declared) || {
            let text = self.seen_names.with_byte(text, b'"', false);
            self.seen_names.has(place.set, text)
        }
    }

    /// Returns the bytes with which a text that must be new continues like a known name.
    pub fn repeating_bytes(&mut self, local: LocalState) -> [bool; 256] {
        let Register::Fresh(fresh) = &self.registers[local.register as usize] else { return [false; 256] };
        let place = self.seen_names.place(local.n);
        std::array::from_fn(|b| {
            let text = self.seen_names.with_byte(place.text, b as u8, false);
            text != UNKNOWN || fresh.names.step(place.declared, b as u8) != OFF_TRIE
        })
    }

    /// Returns the remaining bytes of each name seen that begins with the text of a local state.
    pub fn remaining_seen(&self, local: LocalState) -> Vec<Vec<u8>> {
        match self.registers[local.register as usize] {
            Register::Fresh(_) => self.seen_names.remaining(self.seen_names.place(local.n)),
            _ => Vec::new(),
        }
    }

    /// Returns true if the state is inside a text that must be new, of a rule that never runs out
    /// of new texts.
    pub fn is_open_text(&self, local: LocalState) -> bool {
        matches!(&self.registers[local.register as usize], Register::Fresh(fresh) if fresh.open)
    }

    /// Returns the states of an object with any properties, with their register.
    pub fn any_object_states(&mut self) -> Vec<LocalState> {
        let mut states = vec![self.dfa.start(&self.nfa, self.starts[ANY_OBJECT.0 as usize])];
        let mut next = 0;
        while let Some(&state) = states.get(next) {
            let calls = self.dfa.state(state).calls.clone();
            let after = calls.iter().map(|c| self.dfa.start(&self.nfa, c.to())).collect::<Vec<_>>();
            let steps = self.dfa.ranges(&self.nfa, state).into_iter().map(|r| r.2);
            for to in after.into_iter().chain(steps) {
                if !states.contains(&to) {
                    states.push(to);
                }
            }
            next += 1;
        }
        states.into_iter().map(|state| LocalState { state, register: MEMBERS, n: 0 }).collect()
    }

    /// Returns true if some name had to be new so far.
    pub fn tracks_names(&self) -> bool {
        self.seen_names.remembers()
    }
}
