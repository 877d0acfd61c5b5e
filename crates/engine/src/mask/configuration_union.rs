//! Layer 3: the mask of a configuration, the union of its parts along all stacks.
//!
//! The parts are the masks of the local states, and the masks after the returns at their exits.
//!
//! # Cost
//!
//! A lookup for each state, and for each pair of a set of exits and a stack.

use rustc_hash::FxHashSet;

use super::builder::MaskBuilder;
use super::memo::{ExitId, LocalMask};
use super::token_mask::Mask;
use super::union::Union;
use crate::machine::{LocalState, ROOT_STACK, StackId, StackMachine, Thread};

/// A set of exits, and the stack above which they leave a rule.
pub(super) type StackExits = (ExitId, StackId);

impl MaskBuilder {
    /// Returns the mask of some threads, which are sorted.
    pub(super) fn union_of(&mut self, machine: &mut StackMachine, threads: &[Thread]) -> Mask {
        let mut union = Union::default();
        let mut exits: Vec<StackExits> = Vec::new();
        // Exits of names; after the return the object has one more name.
        let mut named: Vec<StackExits> = Vec::new();
        // Threads and frames are sorted, so those with the same continuation are adjacent. Only
        // ambiguous grammars have many.
        let continues =
            |a: &Thread, b: &Thread| a.local == b.local && (a.stack == ROOT_STACK) == (b.stack == ROOT_STACK);
        for group in threads.chunk_by(continues) {
            let is_name = machine.local.automaton.is_unique_name(group[0].local);
            #[cfg(test)]
            crate::fault::pass(crate::fault::Point::Mask);
            self.add_threads(machine, group, &mut union, if is_name { &mut named } else { &mut exits });
        }
        for (set, stack) in named {
            for frame in machine.stacks.frames(stack).clone().iter() {
                let ret = machine.local.after_unique_name(frame.ret);
                let next = self.after_return(machine, ret, set);
                self.add(&mut union, &next);
                exits.extend(next.further(set).map(|e| (e, frame.parent)));
            }
        }
        self.add_returns(machine, exits, &mut union);
        union.finish(self.vocab.len(), &mut self.sorter)
    }

    /// Adds threads with one local state.
    fn add_threads(
        &mut self,
        machine: &mut StackMachine,
        group: &[Thread],
        union: &mut Union,
        exits: &mut Vec<StackExits>,
    ) {
        let Thread { local, stack } = group[0];
        let mask = if stack == ROOT_STACK {
            self.is_rooted(machine, local).then(|| self.root_mask(machine, local))
        } else {
            self.added_by(machine, local, union)
        };
        let Some(mask) = mask.or_else(|| self.local_below_limit(machine, local)) else {
            group.iter().for_each(|&thread| self.add_in_context(machine, thread, union, exits));
            return;
        };
        self.add(union, &mask);
        exits.extend(group.iter().flat_map(|thread| mask.exits.iter().map(|&e| (e, thread.stack))));
    }

    /// Returns true if the mask of a state of the root rule is one without exits. A state that does
    /// not accept may lead to ones that do. Those of a base are known already.
    fn is_rooted(&self, machine: &StackMachine, local: LocalState) -> bool {
        let automaton = &machine.local.automaton;
        let is_new = || !self.memo.shared.layers.local.contains_key(&local);
        local.register == 0 && (automaton.calls_nothing() && is_new() || automaton.accepts(local.state))
    }

    /// Adds what follows the returns at some exits, and further exits in turn.
    fn add_returns(&mut self, machine: &mut StackMachine, mut todo: Vec<StackExits>, union: &mut Union) {
        let mut seen: FxHashSet<StackExits> = FxHashSet::default();
        let mut added: FxHashSet<(LocalState, ExitId)> = FxHashSet::default();
        while let Some((exits, stack)) = todo.pop() {
            if stack == ROOT_STACK || !seen.insert((exits, stack)) {
                continue;
            }
            for group in machine.stacks.frames(stack).clone().chunk_by(|a, b| a.ret == b.ret) {
                let ret = group[0].ret;
                let next = self.after_return(machine, ret, exits);
                if added.insert((ret, exits)) {
                    self.add(union, &next);
                }
                for frame in group {
                    todo.extend(next.further(exits).map(|e| (e, frame.parent)));
                }
            }
        }
    }

    pub(super) fn add(&self, union: &mut Union, mask: &LocalMask) {
        union.add_tokens(&mask.tokens);
        for &exits in &mask.exits {
            union.add_tokens(&self.memo.exit_set(exits).ending);
        }
        union.add_base(mask.base.as_ref());
    }
}
