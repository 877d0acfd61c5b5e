//! Moves inside one rule: the automaton's state and the value of its register together.
//!
//! # Cost
//!
//! A table lookup for each byte, and what the register takes: a comparison for counters, a hash
//! lookup for names that must be new.

use super::automaton::Automaton;
use super::lazy_dfa::{DEAD_STATE, DfaId};
use super::properties::seen_names::{SeenNames, TRIED, TextId, UNKNOWN};
use super::register::Register;
use super::scalars::begins_char;
use super::thread::LocalState;

/// The automaton of a program, and the names that the values of registers refer to.
#[derive(Debug, Clone)]
pub(crate) struct LocalMachine {
    /// The automaton.
    pub automaton: Automaton,
    /// The names that objects have, and the texts of names.
    pub names: SeenNames,
}

impl LocalMachine {
    /// Takes one step inside a rule. Returns `None` if the byte is rejected. `here` is the text of
    /// the output with this byte, or [`TRIED`].
    #[inline]
    pub(crate) fn step(&mut self, local: LocalState, b: u8, here: TextId) -> Option<LocalState> {
        let state = self.automaton.step(local.state, b);
        if state == DEAD_STATE {
            return None;
        }
        if local.register == 0 {
            return Some(LocalState { state, ..local });
        }
        self.step_register(local, state, b, here)
    }

    fn step_register(&mut self, local: LocalState, state: DfaId, b: u8, here: TextId) -> Option<LocalState> {
        let mid_escape = self.automaton.state(local.state).mid_escape();
        let accept = self.automaton.accepts(state);
        let LocalState { register, n, .. } = local;
        let free = Some(LocalState { state, register: 0, n: 0 });
        match self.automaton.register(register) {
            Register::None | Register::Distinct(_) => Some(LocalState { state, ..local }),
            Register::Chars { min, max, lengths, raw } => {
                let n = n.saturating_add(u32::from(begins_char(mid_escape, *raw, b)));
                if n > *max || accept && !raw && n < *min {
                    return None;
                }
                let (least, most) = (min.saturating_sub(n), max.saturating_sub(n));
                if let Some(lengths) = lengths
                    && !lengths.within(self.automaton.members(state), least, most)
                {
                    return None;
                }
                if *max == u32::MAX && n >= *min { free } else { Some(LocalState { state, register, n }) }
            }
            Register::Items(items) => {
                let allowed = match b {
                    b']' if accept => n >= items.min,
                    b',' => items.item(n).is_some(),
                    _ => true,
                };
                allowed.then_some(LocalState { state, register, n })
            }
            Register::Members(_) => Some(LocalState { state, register, n }),
            Register::Fresh(_) => {
                let (local, record) = (LocalState { state, ..local }, here != TRIED);
                self.step_name(local, b, record)
            }
        }
    }

    /// Returns a local state with the same future over the next `horizon` bytes. Counter values
    /// that cannot matter yet then share their masks.
    pub(crate) fn canonical(&self, local: LocalState, horizon: u32) -> LocalState {
        let free = LocalState { state: local.state, register: 0, n: 0 };
        match self.automaton.register(local.register) {
            Register::None => local,
            // The text so far does not matter to states.
            Register::Distinct(_) => LocalState { n: 0, ..local },
            Register::Members(members) => {
                // A token cannot repeat a name that no token holds with both quotes.
                let plain = members.rule.is_none() && !self.names.is_visible(local.n);
                if plain { LocalState { n: 0, ..local } } else { local }
            }
            Register::Fresh(_) if self.names.shares_prefix(self.names.place(local.n)) => local,
            Register::Fresh(_) => free,
            Register::Chars { min, max, lengths, .. } => {
                let slack = lengths.as_ref().map_or(0, |l| l.slack);
                let far = max.saturating_sub(local.n) >= horizon.saturating_add(slack);
                if local.n >= *min && far { free } else { local }
            }
            Register::Items(items) => {
                let settled = items.settled();
                let far = items.max.saturating_sub(local.n) > horizon;
                if local.n > settled && far { LocalState { n: settled, ..local } } else { local }
            }
        }
    }

    /// Returns true if a rule that has matched may end: its text is new, if it must be, and long
    /// enough.
    pub(super) fn may_end(&self, local: LocalState) -> bool {
        match *self.automaton.register(local.register) {
            Register::Fresh(_) => {
                let place = self.names.place(local.n);
                !self.names.has(place.set, place.text)
            }
            // If it could end here, it could also continue. A string ends with its quote and is
            // checked there.
            Register::Chars { min, raw: true, .. } => local.n >= min,
            _ => true,
        }
    }

    /// Returns true if a raw text that may end here is so long that no byte can follow.
    pub(super) fn is_exhausted(&mut self, local: LocalState) -> bool {
        match self.automaton.register(local.register) {
            Register::Chars { raw: true, .. } => {
                self.canonical(local, 1).register != 0 && self.ranges(local).is_empty()
            }
            _ => false,
        }
    }

    /// Returns the minimum and maximum number of further characters of a character register.
    /// Returns `None` unless every state may close at once and continue without end.
    pub(crate) fn char_bounds(&self, local: LocalState) -> Option<(u32, u32)> {
        match self.automaton.register(local.register) {
            Register::Chars { min, max, lengths, .. } if lengths.as_ref().is_none_or(|l| l.uniform) => {
                Some((min.saturating_sub(local.n), max.saturating_sub(local.n)))
            }
            _ => None,
        }
    }

    /// For a character register whose minimum is met, returns two numbers of characters: how many
    /// may follow before the maximum can matter to any state, and how many may follow at all.
    pub(crate) fn slack_chars(&self, local: LocalState) -> Option<(u32, u32)> {
        match self.automaton.register(local.register) {
            Register::Chars { min, max, lengths: Some(lengths), .. } if local.n >= *min => {
                let rest = max.saturating_sub(local.n);
                // Nearer to the maximum, even the rest of a character can decide.
                Some((rest.checked_sub(lengths.slack)?, rest))
            }
            _ => None,
        }
    }

    /// Returns how many more characters a raw text may have, if only their number matters and it may
    /// end after each of them.
    pub(crate) fn raw_rest(&self, local: LocalState) -> Option<u32> {
        match self.automaton.register(local.register) {
            Register::Chars { min, max, lengths: Some(lengths), raw: true }
                if lengths.uniform && local.n + 1 >= *min && self.automaton.accepts(local.state) =>
            {
                Some(max.saturating_sub(local.n))
            }
            _ => None,
        }
    }

    /// Returns the fewest and the most characters that can follow in an open JSON string, if only
    /// their number matters.
    pub(super) fn string_bounds(&self, local: LocalState) -> Option<(u32, u32)> {
        match self.automaton.register(local.register) {
            Register::Chars { raw: true, .. } => None,
            _ => self.char_bounds(local),
        }
    }

    /// Returns the byte ranges that are allowed in a local state.
    pub(super) fn ranges(&mut self, local: LocalState) -> Vec<(u8, u8)> {
        let ranges = self.automaton.ranges(local.state);
        if local.register == 0 {
            return ranges.into_iter().map(|(lo, hi, _)| (lo, hi)).collect();
        }
        let bytes = ranges.into_iter().flat_map(|(lo, hi, _)| lo..=hi);
        let mut allowed = Vec::new();
        for b in bytes {
            if self.step(local, b, TRIED).is_some() {
                allowed.push((b, b));
            }
        }
        allowed
    }

    /// Returns an object's state after some new text, whichever it is.
    pub(crate) fn after_unique_name(&mut self, ret: LocalState) -> LocalState {
        self.after_name(ret, UNKNOWN)
    }
}
