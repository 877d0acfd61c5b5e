//! Calls of rules inside a walk that are followed by memo.
//!
//! After a blank, half of the vocabulary may begin an expression. If each state that expects one
//! entered the rules of expressions by itself, each would walk these tokens with stacks of its own.
//! Instead the walk leaves such a call at the node of the blank. The called rule is entered there
//! from an unknown stack, with the node as its *entry*, so all callers share the mask. What follows
//! its exits is the mask after the return, as for any other rule that ends.
//!
//! # Cost
//!
//! A lookup for each call, and for each return and set of exits.
//!
//! # Alternatives considered
//!
//! Leaving every call was rejected: after most bytes few tokens are left, and a walk of these takes
//! less time than the sets of exits.

use smallvec::SmallVec;

use super::builder::MaskBuilder;
use super::exits::{ExitLimit, ExitSet, Exits};
use super::memo::{ExitId, LocalMask};
use super::token_mask::Mask;
use super::trie_walk::{CALLED_FROM, tokens_after};
use super::union::Union;
use crate::machine::{LocalState, PendingCall, StackMachine, StepResult, TRIED, Thread};
use crate::vocab::TrieNode;

/// Maximum number of calls that are followed one inside the other. Calls beyond it are walked.
const MAX_DEPTH: usize = 64;

impl MaskBuilder {
    /// Returns the mask of a rule that is called at `entries`, or `None` if it has too many
    /// exits.
    fn called(
        &mut self,
        machine: &mut StackMachine,
        callee: LocalState,
        entries: ExitId,
    ) -> Option<LocalMask> {
        if self.memo.own.truncated_calls.contains(&(callee, entries)) {
            return None;
        }
        let mask = self.limited(ExitLimit::USUAL, |builder| builder.continued(machine, callee, entries));
        if mask.truncated {
            self.memo.own.truncated_calls.insert((callee, entries));
        }
        (!mask.truncated).then_some(mask)
    }

    /// Returns the calls that `ret` makes, if the called rules have many tokens after the wide exits
    /// of a set. Then `reached` becomes what `ret` reaches without them.
    pub(super) fn calls_at_wide(
        &mut self,
        machine: &mut StackMachine,
        ret: LocalState,
        exits: &ExitSet,
        reached: &mut StepResult,
    ) -> Vec<PendingCall> {
        let vocab = &self.vocab;
        let after = |machine: &mut StackMachine, threads: &[Thread]| {
            exits.wide.iter().map(|&p| tokens_after(machine, vocab.trie(), p, threads)).sum::<usize>()
        };
        let all = after(machine, &reached.threads);
        if all < CALLED_FROM || !self.leaves_calls() {
            return Vec::new();
        }
        let mut without = StepResult::default();
        let calls = machine.closure_to_calls(ret, TRIED, &mut without);
        if calls.is_empty() || all - after(machine, &without.threads) < CALLED_FROM {
            return Vec::new();
        }
        reached.threads = without.threads;
        calls
    }

    /// Adds to a mask what calls allow that a walk has not entered: the tokens of the called rules,
    /// and those that follow the returns. So the walk of a rule is shared by all calls of it. Returns
    /// false if the mask of a called rule has too many exits.
    pub(super) fn follow_calls(
        &mut self,
        machine: &mut StackMachine,
        mut calls: Vec<(PendingCall, TrieNode)>,
        mask: &mut LocalMask,
    ) -> bool {
        if calls.is_empty() {
            return true;
        }
        calls.sort_unstable();
        calls.dedup();
        let mut union = Union::default();
        union.add_base(mask.base.as_ref());
        union.add_tokens(&mask.tokens);
        let mut further: SmallVec<[ExitId; 2]> = mask.exits.clone();
        self.depth += 1;
        for group in calls.chunk_by(|a, b| a.0 == b.0) {
            let PendingCall { callee, ret } = group[0].0;
            let nodes = Exits { tokens: Vec::new(), wide: group.iter().map(|call| call.1).collect() };
            let Some(entries) = self.intern_exits(nodes) else { continue };
            let Some(called) = self.called(machine, callee, entries) else {
                self.depth -= 1;
                return false;
            };
            self.add(&mut union, &called);
            for exits in called.further(entries) {
                let Some(ret) = ret else {
                    further.push(exits);
                    continue;
                };
                let next = self.after_return(machine, ret, exits);
                self.add(&mut union, &next);
                further.extend(next.further(exits));
            }
        }
        self.depth -= 1;
        further.sort_unstable();
        further.dedup();
        mask.exits = further;
        let Mask { base, tokens } = union.finish(self.vocab.len(), &mut self.sorter);
        (mask.base, mask.tokens) = (base, tokens.into());
        true
    }

    /// Returns true if walks may leave calls to be followed.
    pub(super) fn leaves_calls(&self) -> bool {
        !self.enters_calls && self.depth < MAX_DEPTH
    }
}
