//! Checks whether arrays with unique items can still get a new item.
//!
//! The check runs after each token, and for the tokens along which an item may become an earlier
//! one. Nothing needs to be done if no earlier item begins alike, or if the item can still become
//! unboundedly many values (`unbounded`). Otherwise a search follows the earlier items that begin
//! alike until a path leads away from them.
//!
//! # Cost
//!
//! At most as many steps as the earlier items have bytes left in all, and few where much is
//! possible.
//!
//! # Alternatives considered
//!
//! Counting the values that are left: there are usually too many to count, and one is enough.

use std::sync::Arc;

use crate::machine::closure::{StackMachine, StepResult};
use crate::machine::lazy_dfa::DEAD_STATE;
use crate::machine::properties::seen_names::{SeenNames, TextId};
use crate::machine::stack::{Scope, Stacks};
use crate::machine::thread::Thread;
use crate::machine::unique_items::value::{ValueCursor, is_space};
use crate::machine::unique_items::{Ended, ItemTables};

/// Maximum number of steps of one search. Only items that can be written in very many ways and are
/// nearly exhausted need more. Then a new item is assumed to be possible.
const MAX_SEARCH: usize = 100_000;

/// A position inside arrays whose current item may be unable to become new.
#[derive(Clone)]
pub struct ExtensionProbe {
    threads: Vec<Thread>,
    text: TextId,
    /// Scopes whose item may still become an earlier one, and those earlier ones.
    constrained_scopes: Vec<Tight>,
}

/// A scope, and the earlier items that its current item may still become.
type Tight = (Scope, Arc<[ValueCursor]>);

/// The result of a byte from an [`ExtensionProbe`].
pub enum ProbeStep {
    /// No thread accepts the byte, whatever the earlier items are.
    Impossible,
    /// The byte can only lead to a repeated item.
    Repeats,
    /// No earlier item begins alike any more.
    Unconstrained,
    /// The item has ended, and it is new.
    ItemEnded,
    /// The check continues from here.
    Probe(ExtensionProbe),
}

/// Returns true if some thread is in no scope whose item may be unable to become new.
fn is_unconstrained(stacks: &mut Stacks, threads: &[Thread], tight: &[Tight]) -> bool {
    let bad: Vec<Scope> = tight.iter().map(|t| t.0).collect();
    bad.is_empty() || threads.iter().any(|t| stacks.without_scopes(t.stack, &bad).is_some())
}

impl ItemTables {
    /// Returns true if from some of the threads after `text` every array can get items that are new
    /// to it.
    pub fn can_extend(&mut self, machine: &mut StackMachine, threads: &[Thread], text: TextId) -> bool {
        if self.unbounded.has_choice(machine, threads, text) {
            return true;
        }
        let tight = self.constrained_scopes(machine, threads, text);
        self.search(machine, ExtensionProbe { threads: threads.to_vec(), text, constrained_scopes: tight })
    }

    /// Returns the scopes whose item may still become an earlier one.
    fn constrained_scopes(&mut self, machine: &StackMachine, threads: &[Thread], text: TextId) -> Vec<Tight> {
        let mut tight = Vec::new();
        for scope in machine.stacks.scopes(threads) {
            let cursors = self.matching_items(&machine.local.names, scope, text);
            if !cursors.is_empty() {
                tight.push((scope, cursors));
            }
        }
        tight
    }

    /// Returns the same one byte later, given the result `before`.
    fn tight_after(
        &mut self,
        machine: &StackMachine,
        before: &[Tight],
        (threads, text): (&[Thread], TextId),
        b: u8,
    ) -> Vec<Tight> {
        let names = &machine.local.names;
        let mut tight = Vec::new();
        for scope in machine.stacks.scopes(threads) {
            let cursors = if self.scan(names, scope.1, text).item == text {
                self.matching_items(names, scope, text)
            } else if let Some((_, cursors)) = before.iter().find(|t| t.0 == scope) {
                self.followed(cursors, b)
            } else {
                continue;
            };
            if !cursors.is_empty() {
                tight.push((scope, cursors));
            }
        }
        tight
    }

    /// Searches for a path that leads away from the earlier items.
    fn search(&mut self, machine: &mut StackMachine, place: ExtensionProbe) -> bool {
        if is_unconstrained(&mut machine.stacks, &place.threads, &place.constrained_scopes) {
            return true;
        }
        let mut todo = vec![place];
        let mut budget = MAX_SEARCH;
        while let Some(place) = todo.pop() {
            for b in self.distinguishing_bytes(machine, &place) {
                budget -= 1;
                if budget == 0 {
                    return true;
                }
                let Some(child) = self.search_byte(machine, &place, b) else { continue };
                if is_unconstrained(&mut machine.stacks, &child.threads, &child.constrained_scopes) {
                    return true;
                }
                todo.push(child);
            }
        }
        false
    }

    /// Returns the bytes that some thread accepts and that make a difference to values.
    fn distinguishing_bytes(&mut self, machine: &mut StackMachine, node: &ExtensionProbe) -> Vec<u8> {
        let (scope, _) = node.constrained_scopes[0];
        let in_text = self.scan(&machine.local.names, scope.1, node.text).quote > 0;
        // A required blank is a byte like others.
        let spaces = in_text || machine.local.automaton.min_separator_bytes > 0;
        let mut bytes: Vec<u8> = Vec::new();
        for thread in &node.threads {
            for (lo, hi, _) in machine.local.automaton.ranges(thread.local.state) {
                bytes.extend((lo..=hi).filter(|&b| spaces || !is_space(b)));
            }
        }
        bytes.sort_unstable();
        bytes.dedup();
        bytes
    }

    /// Returns the scopes whose text may not end like this, and those in which an item or the array
    /// has ended.
    fn ends(&mut self, machine: &StackMachine, threads: &[Thread], text: TextId) -> (Vec<Scope>, Vec<Scope>) {
        let names: &SeenNames = &machine.local.names;
        let (mut bad, mut ended) = (Vec::new(), Vec::new());
        for scope in machine.stacks.scopes(threads) {
            if self.repeats(names, scope, text) {
                bad.push(scope);
            } else if self.scan(names, scope.1, text).ended != Ended::Nothing {
                ended.push(scope);
            }
        }
        (bad, ended)
    }

    /// Takes one byte of a search. Returns a probe without constrained scopes if nothing is left to
    /// check.
    fn search_byte(
        &mut self,
        machine: &mut StackMachine,
        place: &ExtensionProbe,
        b: u8,
    ) -> Option<ExtensionProbe> {
        let text = machine.local.names.with_byte(place.text, b, true);
        #[cfg(test)]
        crate::fault::pass(crate::fault::Point::Search);
        let (bad, ended) = self.ends(machine, &place.threads, text);
        let threads = machine.stacks.threads_without(&place.threads, &bad);
        if threads.is_empty() {
            return None;
        }
        let mut reached = StepResult::default();
        let tight: Vec<Scope> = place.constrained_scopes.iter().map(|t| t.0).collect();
        let waiting: Vec<Scope> = tight.iter().copied().filter(|s| !ended.contains(s)).collect();
        if waiting.len() < tight.len() {
            // The item that ended is new. If nothing around it needs a check, the search is over.
            let settled = machine.stacks.threads_without(&threads, &waiting);
            machine.step(&settled, b, text, &mut reached);
            if !reached.is_dead() {
                return Some(ExtensionProbe { threads: settled, text, constrained_scopes: Vec::new() });
            }
        }
        machine.step(&threads, b, text, &mut reached);
        let threads = std::mem::take(&mut reached.threads);
        let tight = self.tight_after(machine, &place.constrained_scopes, (&threads, text), b);
        (!threads.is_empty()).then_some(ExtensionProbe { threads, text, constrained_scopes: tight })
    }

    /// Returns the probe of some threads, if an item may be unable to become new there.
    pub fn probe(
        &mut self,
        machine: &StackMachine,
        threads: &[Thread],
        text: TextId,
    ) -> Option<ExtensionProbe> {
        let tight = self.constrained_scopes(machine, threads, text);
        (!tight.is_empty()).then(|| ExtensionProbe {
            threads: threads.to_vec(),
            text,
            constrained_scopes: tight,
        })
    }

    /// Returns the bytes along which an item may become an earlier one, or that end it.
    pub fn probe_bytes(&mut self, names: &SeenNames, place: &ExtensionProbe) -> [bool; 256] {
        let mut expected = [false; 256];
        for (scope, cursors) in &place.constrained_scopes {
            let in_text = self.scan(names, scope.1, place.text).quote > 0;
            expected[b',' as usize] |= !in_text;
            expected[b']' as usize] |= !in_text;
            for cursor in cursors.iter() {
                cursor.mark(&mut expected, &self.values);
            }
        }
        expected
    }

    /// Returns the result of a byte that is tried.
    pub fn follow_byte(&mut self, machine: &mut StackMachine, place: &ExtensionProbe, b: u8) -> ProbeStep {
        let automaton = &mut machine.local.automaton;
        if !place.threads.iter().any(|t| automaton.step(t.local.state, b) != DEAD_STATE) {
            return ProbeStep::Impossible;
        }
        let text = machine.local.names.with_byte(place.text, b, true);
        let (bad, ended) = self.ends(machine, &place.threads, text);
        let threads = machine.stacks.threads_without(&place.threads, &bad);
        let mut reached = StepResult::default();
        machine.step(&threads, b, text, &mut reached);
        let threads = std::mem::take(&mut reached.threads);
        if reached.is_dead() && threads.is_empty() {
            return ProbeStep::Repeats;
        }
        if !ended.is_empty() || threads.is_empty() {
            return ProbeStep::ItemEnded;
        }
        let tight = self.tight_after(machine, &place.constrained_scopes, (&threads, text), b);
        match tight.is_empty() {
            true => ProbeStep::Unconstrained,
            false => ProbeStep::Probe(ExtensionProbe { threads, text, constrained_scopes: tight }),
        }
    }

    /// Returns true if a new item can come from a probe.
    pub fn can_extend_probe(&mut self, machine: &mut StackMachine, place: ExtensionProbe) -> bool {
        self.unbounded.has_choice(machine, &place.threads, place.text) || self.search(machine, place)
    }
}
