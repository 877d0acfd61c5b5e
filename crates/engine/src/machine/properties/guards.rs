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

use crate::machine::lazy_dfa::DfaId;
use crate::machine::local::LocalMachine;
use crate::machine::nfa::{GuardKind, RegisterIx, RuleIx};
use crate::machine::properties::name_trie::OFF_TRIE;
use crate::machine::properties::seen_names::{NO_TEXT, NameProgress, TextId, UNKNOWN};
use crate::machine::register::Register;
use crate::machine::thread::LocalState;

impl LocalMachine {
    /// Returns an object's state after a text that is new to it; [`UNKNOWN`] for some text, whichever it
    /// is.
    pub(crate) fn after_name(&mut self, ret: LocalState, text: TextId) -> LocalState {
        let cap = match self.automaton.register(ret.register) {
            Register::Members(members) => members.cap(),
            _ => 0,
        };
        LocalState { n: self.names.with_name(ret.n, text, cap), ..ret }
    }

    /// Checks a guard. Returns the new value of the object's register, or `None` if the guard refuses.
    pub(crate) fn check_guard(&mut self, local: LocalState, test: GuardKind) -> Option<u32> {
        let Register::Members(members) = self.automaton.register(local.register) else {
            return Some(local.n);
        };
        let members = members.clone();
        let set = self.names.set(local.n);
        match test {
            GuardKind::ObjectEnd => members.may_close(set).then_some(local.n),
            GuardKind::DeclaredProperty(i, met) if members.ordered => {
                let next = self.names.with_one(local.n, members.cap());
                let undeclared = self.names.names(local.n);
                members.may_take(self.names.set(next), i, undeclared, met).then_some(next)
            }
            GuardKind::DeclaredProperty(i, met) => {
                if set.has(i) {
                    return None;
                }
                let next = self.names.with_property(local.n, i, members.cap());
                let undeclared = self.names.names(local.n);
                members.may_take(self.names.set(next), i, undeclared, met).then_some(next)
            }
            GuardKind::UndeclaredProperty(list) => {
                let list = members.lists.get(list as usize)?;
                if !members.may_add(set, self.names.names(local.n), list.to) {
                    return None;
                }
                let is_open = |key| self.start_name(key, local.n).is_some();
                list.entries.iter().map(|entry| entry.key).any(is_open).then_some(local.n)
            }
        }
    }

    /// Returns the start of a rule whose text must be new to a set, or `None` if all of its texts were
    /// seen.
    pub(crate) fn start_name(
        &mut self,
        (rule, register): (RuleIx, RegisterIx),
        set: u32,
    ) -> Option<LocalState> {
        let Register::Fresh(fresh) = self.automaton.register(register) else { return None };
        let (declared, open) = (if fresh.names.is_empty() { OFF_TRIE } else { 0 }, fresh.open);
        let place = NameProgress { set, text: NO_TEXT, declared };
        let state = self.automaton.start(rule);
        if !open && !self.has_unseen(state, place) {
            return None;
        }
        Some(LocalState { state, register, n: self.names.place_id(place) })
    }

    /// Returns true if some text that a state can still become is not in the set. Every state leads to
    /// a text, so only the paths along the names seen must be checked.
    fn has_unseen(&mut self, state: DfaId, place: NameProgress) -> bool {
        let ways = self.names.prefix_nodes(place.set, place.text);
        if ways.is_empty() && !self.names.has(place.set, place.text) {
            return true;
        }
        let mut todo = vec![(state, place.text)];
        let mut seen = FxHashSet::from_iter(todo.iter().copied());
        while let Some((state, text)) = todo.pop() {
            if self.automaton.accepts(state) && !self.names.has(place.set, text) {
                return true;
            }
            for (lo, hi, to) in self.automaton.ranges(state) {
                for b in lo..=hi {
                    let next = self.names.known_with_byte(text, b);
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

    /// Takes one more byte of a text that must be new; `local` has the state after it already. Returns
    /// `None` if the text can no longer be new. A new text is remembered only if `record` is true.
    pub(crate) fn step_name(&mut self, local: LocalState, b: u8, record: bool) -> Option<LocalState> {
        #[cfg(test)]
        crate::fault::pass(crate::fault::Point::Name);
        let Register::Fresh(fresh) = self.automaton.register(local.register) else { return None };
        let place = self.names.place(local.n);
        // The quotes are no part of a declared name.
        let (opens, closes) = (place.text == NO_TEXT && b == b'"', self.automaton.accepts(local.state));
        let declared = match place.declared {
            n if closes && fresh.names.is_name(n) => return None,
            n if opens || closes => n,
            n => fresh.names.step(n, b),
        };
        let open = fresh.open;
        let text = self.names.with_byte(place.text, b, record);
        let place = NameProgress { text, declared, ..place };
        let stays = match open {
            true => !closes || !self.names.has(place.set, text),
            false => self.has_unseen(local.state, place),
        };
        stays.then(|| LocalState { n: self.names.place_id(place), ..local })
    }

    /// Returns true if a text that must be new would repeat a name with `rest` and a closing quote.
    pub(crate) fn would_repeat(&self, local: LocalState, rest: &[u8]) -> bool {
        let Register::Fresh(fresh) = self.automaton.register(local.register) else { return false };
        let place = self.names.place(local.n);
        let (mut text, mut declared) = (place.text, place.declared);
        for &b in rest {
            text = self.names.known_with_byte(text, b);
            declared = fresh.names.step(declared, b);
            if text == UNKNOWN && declared == OFF_TRIE {
                return false;
            }
        }
        fresh.names.is_name(declared) || self.names.has(place.set, self.names.known_with_byte(text, b'"'))
    }

    /// Returns the bytes with which a text that must be new continues like a known name.
    pub(crate) fn repeating_bytes(&self, local: LocalState) -> [bool; 256] {
        let Register::Fresh(fresh) = self.automaton.register(local.register) else { return [false; 256] };
        let place = self.names.place(local.n);
        std::array::from_fn(|b| {
            let text = self.names.known_with_byte(place.text, b as u8);
            text != UNKNOWN || fresh.names.step(place.declared, b as u8) != OFF_TRIE
        })
    }

    /// Returns the remaining bytes of each name seen that begins with the text of a local state.
    pub(crate) fn remaining_names(&self, local: LocalState) -> Vec<Vec<u8>> {
        match self.automaton.register(local.register) {
            Register::Fresh(_) => self.names.remaining(self.names.place(local.n)),
            _ => Vec::new(),
        }
    }
}
