//! What objects remember, at run time: guards, names that must be new, and items that must differ.
//!
//! A guard is asked when it is entered, and a name with every byte: it may go on only if something new can
//! still come of it. That costs a hash look-up per byte, and a search along the names that begin alike
//! where there are any. Checking only at the end of a name was rejected: a name could be stuck in the
//! middle, with nothing left but what was written.

use rustc_hash::FxHashSet;

use super::config::{Local, Machine, StackId};
use super::dfa::DfaId;
use super::lower::{ANY_OBJECT, MEMBERS};
use super::nfa::{RegisterIx, RuleIx, Test};
use super::register::{OFF_TRIE, Register};
use super::written::{NO_TEXT, Place, TextId, UNKNOWN};

impl Machine {
    /// Whether a rule that has matched may end: its text is new, if it must be, and long enough.
    pub(super) fn may_end(&self, local: Local) -> bool {
        match self.registers[local.register as usize] {
            Register::Fresh(_) => {
                let place = self.written.place(local.n);
                !self.written.has(place.set, place.text)
            }
            // Where it could end it could go on, too: a string ends with its quote, and is asked there.
            Register::Chars { min, raw: true, .. } => local.n >= min,
            _ => true,
        }
    }

    /// Returns to whatever called the rule that has matched.
    pub(super) fn pop(&mut self, local: Local, stack: StackId) {
        if !matches!(self.registers[local.register as usize], Register::Fresh(_)) {
            self.todo.extend(self.stacks[stack as usize].iter().map(|f| (f.ret, f.parent)));
            return;
        }
        let text = self.written.place(local.n).text;
        for frame in self.stacks[stack as usize].clone().iter() {
            let ret = self.named(frame.ret, text);
            self.todo.push((ret, frame.parent));
        }
    }

    /// An object's state once a text was written that is new to it.
    fn named(&mut self, ret: Local, text: TextId) -> Local {
        let cap = match &self.registers[ret.register as usize] {
            Register::Members(members) => members.cap(),
            _ => 0,
        };
        Local { n: self.written.with_name(ret.n, text, cap), ..ret }
    }

    /// An object's state once some new text was written, no matter which.
    pub fn after_fresh(&mut self, ret: Local) -> Local {
        self.named(ret, UNKNOWN)
    }

    /// Whether a rule is called for a text that must be new to its caller.
    pub fn is_fresh(&self, local: Local) -> bool {
        matches!(self.registers[local.register as usize], Register::Fresh(_))
    }

    /// The value of an object's register behind a guard; `None` if it does not let pass.
    pub(super) fn pass(&mut self, local: Local, test: Test) -> Option<u32> {
        let Register::Members(members) = &self.registers[local.register as usize] else {
            return Some(local.n);
        };
        let members = members.clone();
        let set = self.written.set(local.n);
        match test {
            Test::Close => members.may_close(set).then_some(local.n),
            Test::Take(i, met) if members.ordered => {
                let next = self.written.with_one(local.n, members.cap());
                let names = self.written.names(local.n);
                members.may_take(self.written.set(next), i, names, met).then_some(next)
            }
            Test::Take(i, met) => {
                if set.has(i) {
                    return None;
                }
                let next = self.written.with_property(local.n, i, members.cap());
                let names = self.written.names(local.n);
                members.may_take(self.written.set(next), i, names, met).then_some(next)
            }
            Test::Room(list) => {
                let list = members.lists.get(list as usize)?;
                if !members.may_add(set, self.written.names(local.n), list.to) {
                    return None;
                }
                list.entries.iter().any(|e| self.fresh_start(e.key, local.n).is_some()).then_some(local.n)
            }
        }
    }

    /// The start of a rule whose text must be new to a set; `None` if all of its texts were written.
    pub(super) fn fresh_start(&mut self, (rule, register): (RuleIx, RegisterIx), set: u32) -> Option<Local> {
        let Register::Fresh(fresh) = &self.registers[register as usize] else { return None };
        let (declared, open) = (if fresh.names.is_empty() { OFF_TRIE } else { 0 }, fresh.open);
        let place = Place { set, text: NO_TEXT, declared };
        let state = self.dfa.start(&self.nfa, self.starts[rule.0 as usize]);
        if !open && !self.has_fresh(state, place) {
            return None;
        }
        Some(Local { state, register, n: self.written.place_id(place) })
    }

    /// Whether some text that can still be made from a state is not in the set of a place. Every state
    /// leads to a text, so only the ways along what was written must be looked at.
    fn has_fresh(&mut self, state: DfaId, place: Place) -> bool {
        let ways = self.written.ways(place.set, place.text);
        if ways.is_empty() && !self.written.has(place.set, place.text) {
            return true;
        }
        let mut todo = vec![(state, place.text)];
        let mut seen = FxHashSet::from_iter(todo.iter().copied());
        while let Some((state, text)) = todo.pop() {
            if self.dfa.state(state).accept && !self.written.has(place.set, text) {
                return true;
            }
            for (lo, hi, to) in self.dfa.ranges(&self.nfa, state) {
                for b in lo..=hi {
                    let next = self.written.longer(text, b, false);
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

    /// One more byte of a text that must be new; `None` if it can no longer be.
    pub(super) fn step_fresh(&mut self, local: Local, state: DfaId, b: u8) -> Option<Local> {
        let Register::Fresh(fresh) = &self.registers[local.register as usize] else { return None };
        let place = self.written.place(local.n);
        // The quotes are no part of a declared name.
        let (opens, closes) = (place.text == NO_TEXT && b == b'"', self.dfa.state(state).accept);
        let declared = match place.declared {
            n if closes && fresh.names.is_name(n) => return None,
            n if opens || closes => n,
            n => fresh.names.step(n, b),
        };
        let open = fresh.open;
        let text = self.written.longer(place.text, b, self.recording);
        let place = Place { text, declared, ..place };
        let stays = match open {
            true => !closes || !self.written.has(place.set, text),
            false => self.has_fresh(state, place),
        };
        stays.then(|| Local { state, n: self.written.place_id(place), ..local })
    }

    /// Whether a text that must be new may not be `rest` longer, and then end with a quote.
    pub fn is_written(&mut self, local: Local, rest: &[u8]) -> bool {
        let Register::Fresh(fresh) = &self.registers[local.register as usize] else { return false };
        let place = self.written.place(local.n);
        let (mut text, mut declared) = (place.text, place.declared);
        for &b in rest {
            text = self.written.longer(text, b, false);
            declared = fresh.names.step(declared, b);
            if text == UNKNOWN && declared == OFF_TRIE {
                return false;
            }
        }
        fresh.names.is_name(declared) || {
            let text = self.written.longer(text, b'"', false);
            self.written.has(place.set, text)
        }
    }

    /// The bytes with which a text that must be new goes on like one that was written.
    pub fn written_next(&mut self, local: Local) -> [bool; 256] {
        let Register::Fresh(fresh) = &self.registers[local.register as usize] else { return [false; 256] };
        let place = self.written.place(local.n);
        std::array::from_fn(|b| {
            let text = self.written.longer(place.text, b as u8, false);
            text != UNKNOWN || fresh.names.step(place.declared, b as u8) != OFF_TRIE
        })
    }

    /// What is left of each text that was written and begins as the one of a local state.
    pub fn written_rests(&self, local: Local) -> Vec<Vec<u8>> {
        match self.registers[local.register as usize] {
            Register::Fresh(_) => self.written.rests(self.written.place(local.n)),
            _ => Vec::new(),
        }
    }

    /// Whether the state is inside a text that must be new, of a rule that never runs out of them.
    pub fn is_open_text(&self, local: Local) -> bool {
        matches!(&self.registers[local.register as usize], Register::Fresh(fresh) if fresh.open)
    }

    /// The states of an object with any properties, with their register.
    pub fn any_object_states(&mut self) -> Vec<Local> {
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
        states.into_iter().map(|state| Local { state, register: MEMBERS, n: 0 }).collect()
    }

    /// Whether some name had to be new so far.
    pub fn remembers(&self) -> bool {
        self.written.remembers()
    }
}
