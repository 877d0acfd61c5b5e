//! Masks of states in the context of the rules around theirs.
//!
//! A rule may end after every character, as an atom of a regular expression does. Then nearly all
//! tokens leave it, at all of their offsets, and the mask of a state inside it is nothing but exits:
//! more than the limit. With the rules around it as context, most of these tokens stay inside: they
//! are atoms one after the other. So such a state is walked with the frames above its rule, as many
//! as it takes.
//!
//! # Cost
//!
//! A walk for each state and context, of which a grammar has few: the rule is called in few places.
//!
//! # Alternatives considered
//!
//! The whole stack as context: every nesting would have masks of its own.

use smallvec::SmallVec;

use super::builder::MaskBuilder;
use super::configuration_union::StackExits;
use super::exits::ExitLimit;
use super::memo::LocalMask;
use super::union::Union;
use crate::machine::{LocalState, ROOT_STACK, StackId, StackMachine, Thread, UNKNOWN_STACK};

/// Maximum number of frames in a context.
const MAX_CONTEXT: usize = 6;
/// Maximum number of contexts of one thread. If there are more, its mask is made without context.
const MAX_CONTEXTS: usize = 8;
/// Maximum number of masks of states in contexts.
const MAX_ALL_CONTEXTS: usize = if cfg!(test) { 8 } else { 200 };

impl MaskBuilder {
    /// Layer 1: returns the mask of a local state, or `None` if it has too many exits.
    pub(super) fn local_below_limit(
        &mut self,
        machine: &mut StackMachine,
        local: LocalState,
    ) -> Option<LocalMask> {
        let state = machine.local.canonical(local, self.vocab.max_token_len() as u32);
        if self.memo.own.truncated.contains(&(state, UNKNOWN_STACK)) {
            return self.memo.own.local.get(&state).cloned();
        }
        let mask = self.limited(ExitLimit::USUAL, |builder| builder.local(machine, local));
        (!mask.truncated).then_some(mask)
    }

    /// Adds what a thread allows whose mask has too many exits. It is walked with the frames above its
    /// rule as context, as many as it takes.
    pub(super) fn add_in_context(
        &mut self,
        machine: &mut StackMachine,
        Thread { local, stack }: Thread,
        union: &mut Union,
        exits: &mut Vec<StackExits>,
    ) {
        if stack == ROOT_STACK {
            if let Some(mask) = self.in_context(machine, Thread { local, stack }, true) {
                self.add(union, &mask);
            }
            return;
        }
        let mut todo: Vec<(SmallVec<[LocalState; 4]>, StackId)> = vec![(SmallVec::new(), stack)];
        let mut contexts = 0;
        while let Some((path, above)) = todo.pop() {
            contexts += machine.stacks.frames(above).len();
            if contexts > MAX_CONTEXTS || self.memo.own.in_context.len() > MAX_ALL_CONTEXTS {
                // In an ambiguous grammar there may be any number of contexts.
                let mask = self.local(machine, local);
                self.add(union, &mask);
                exits.extend(mask.exits.iter().map(|&e| (e, stack)));
                return;
            }
            for frame in machine.stacks.frames(above).clone().iter() {
                let mut path = path.clone();
                path.push(frame.ret);
                let top = if frame.parent == ROOT_STACK { ROOT_STACK } else { UNKNOWN_STACK };
                let context = path.iter().rev().fold(top, |parent, &ret| machine.stacks.above(ret, parent));
                let all = top == ROOT_STACK || path.len() == MAX_CONTEXT;
                match self.in_context(machine, Thread { local, stack: context }, all) {
                    Some(mask) => {
                        self.add(union, &mask);
                        exits.extend(mask.exits.iter().map(|&e| (e, frame.parent)));
                    }
                    None => todo.push((path, frame.parent)),
                }
            }
        }
    }

    /// Returns the mask of a state with a context above its rule, or `None` if it has too
    /// many exits and is not needed with `all` of them.
    fn in_context(&mut self, machine: &mut StackMachine, thread: Thread, all: bool) -> Option<LocalMask> {
        let key = (thread.local, thread.stack);
        if let Some(known) = self.memo.own.in_context.get(&key) {
            return Some(known.clone());
        }
        if self.memo.own.truncated.contains(&key) {
            return None;
        }
        let limit = if all { ExitLimit::NONE } else { ExitLimit::USUAL };
        let mask = self.limited(limit, |builder| builder.walked(machine, thread));
        if mask.truncated {
            self.memo.own.truncated.insert(key);
            return None;
        }
        Some(self.memo.keep(|own| &mut own.in_context, key, mask))
    }
}
