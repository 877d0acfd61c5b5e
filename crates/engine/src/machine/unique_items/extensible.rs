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

use crate::machine::closure::{StackMachine, StepResult};
use crate::machine::properties::seen_names::TextId;
use crate::machine::stack::{Scope, Stacks};
use crate::machine::thread::Thread;
use crate::machine::unique_items::{Ended, ItemTables, distinguishing_bytes};

/// Maximum number of steps of one search. Only items that can be written in very many ways and are
/// nearly exhausted need more. Then a new item is assumed to be possible.
const MAX_SEARCH: usize = 100_000;

/// A position of a search.
struct SearchNode {
    threads: Vec<Thread>,
    text: TextId,
    /// Scopes whose current item may still become an earlier one.
    constrained: Vec<Scope>,
}

impl SearchNode {
    /// Returns true if some thread is in no scope whose item may be unable to become new.
    fn is_unconstrained(&self, stacks: &mut Stacks) -> bool {
        let free = |t: &Thread| stacks.without_scopes(t.stack, &self.constrained).is_some();
        self.constrained.is_empty() || self.threads.iter().any(free)
    }
}

impl ItemTables {
    /// Returns true if from some of the threads after `text` every array can get items that are new
    /// to it.
    pub(crate) fn can_extend(
        &mut self,
        machine: &mut StackMachine,
        threads: &[Thread],
        text: TextId,
    ) -> bool {
        if self.unbounded.has_choice(machine, threads, text) {
            return true;
        }
        let start = self.node(machine, threads.to_vec(), text);
        if start.is_unconstrained(&mut machine.stacks) {
            return true;
        }
        let mut todo = vec![start];
        let mut budget = MAX_SEARCH;
        while let Some(node) = todo.pop() {
            let in_text = self.scan(&machine.local.names, node.constrained[0].1, node.text).quote > 0;
            for b in distinguishing_bytes(&mut machine.local.automaton, &node.threads, in_text, usize::MAX) {
                budget -= 1;
                if budget == 0 {
                    return true;
                }
                let Some(child) = self.search_byte(machine, &node, b) else { continue };
                if child.is_unconstrained(&mut machine.stacks) {
                    return true;
                }
                todo.push(child);
            }
        }
        false
    }

    fn node(&mut self, machine: &StackMachine, threads: Vec<Thread>, text: TextId) -> SearchNode {
        let mut constrained = machine.stacks.scopes(&threads);
        constrained.retain(|&scope| !self.matching_items(&machine.local.names, scope, text).is_empty());
        SearchNode { threads, text, constrained }
    }

    /// Takes one byte of a search. Returns a node without constrained scopes if nothing is left to
    /// check.
    fn search_byte(&mut self, machine: &mut StackMachine, node: &SearchNode, b: u8) -> Option<SearchNode> {
        let text = machine.local.names.with_byte(node.text, b, true);
        #[cfg(test)]
        crate::fault::pass(crate::fault::Point::Search);
        let scopes = machine.stacks.scopes(&node.threads);
        let names = &machine.local.names;
        let (bad, scopes): (Vec<Scope>, Vec<Scope>) =
            scopes.into_iter().partition(|&scope| self.repeats(names, scope, text));
        let threads = machine.stacks.threads_without(&node.threads, &bad);
        if threads.is_empty() {
            return None;
        }
        let mut reached = StepResult::default();
        // Scopes in which an item or the array has ended have a new item.
        let names = &machine.local.names;
        let mut ended = |s: &Scope| scopes.contains(s) && self.scan(names, s.1, text).ended != Ended::Nothing;
        let mut waiting = node.constrained.clone();
        waiting.retain(|scope| !ended(scope));
        if waiting.len() < node.constrained.len() {
            // If nothing around the item needs a check, the search is over.
            let settled = machine.stacks.threads_without(&threads, &waiting);
            machine.step(&settled, b, text, &mut reached);
            if !reached.is_dead() {
                return Some(SearchNode { threads: settled, text, constrained: Vec::new() });
            }
        }
        machine.step(&threads, b, text, &mut reached);
        let threads = std::mem::take(&mut reached.threads);
        (!threads.is_empty()).then(|| self.node(machine, threads, text))
    }
}
