//! Masks of configurations with many stacks, as in ambiguous grammars: one sweep over the stack
//! graph.
//!
//! Followed one by one, each set of exits visits each stack that it meets. With hundreds of stacks
//! that contain each other and dozens of sets, that is tens of thousands of steps for one mask.
//!
//! Here each stack node is visited once, in reverse order of creation. Parents have smaller numbers
//! than their children, so everything that arrives at a node has arrived when it is visited. The
//! exits that arrive are merged into one set. Tokens that are legal already are left out; in an
//! ambiguous grammar the first parse makes most of them legal.
//!
//! # Cost
//!
//! The stacks and frames below the configuration once each, and a walk of the exits for each
//! different set. Up to [`SWEEP_AFTER_PAIRS`](super::cache::SWEEP_AFTER_PAIRS) pairs of a set and a stack the sweep is slower:
//! merged sets are new to the memo, whereas those of single states are known, mostly from the base.
//!
//! # Alternatives considered
//!
//! A walk of the whole trie from all threads: every path of it makes stacks that no output has, and
//! they stay as long as the tables.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::cache::MaskCache;
use super::exits::Exits;
use super::memo::{ExitId, LocalMask};
use super::token_mask::Mask;
use super::union::Union;
use crate::machine::{LocalState, ROOT_STACK, StackId, StackMachine};
use crate::vocab::TokenId;

/// The tokens that are legal so far.
struct Legal(Vec<u32>);

impl Legal {
    fn has(&self, token: TokenId) -> bool {
        self.0[token as usize / 32] >> (token % 32) & 1 == 1
    }

    fn insert(&mut self, token: TokenId) {
        self.0[token as usize / 32] |= 1 << (token % 32);
    }
}

impl MaskCache {
    /// Returns the mask, given the `union` so far and the sets of exits that are still to be
    /// followed.
    pub(super) fn sweep_stacks(
        &mut self,
        machine: &mut StackMachine,
        union: Union,
        todo: Vec<(ExitId, StackId)>,
    ) -> Mask {
        let mut legal = Legal(union.into_row(self.vocab.len()));
        let mut at: BTreeMap<StackId, Vec<ExitId>> = BTreeMap::new();
        for (exits, stack) in todo {
            at.entry(stack).or_default().push(exits);
        }
        let mut together: FxHashMap<Vec<ExitId>, Option<ExitId>> = FxHashMap::default();
        let mut added: FxHashSet<(LocalState, ExitId)> = FxHashSet::default();
        while let Some((stack, mut sets)) = at.pop_last() {
            if stack == ROOT_STACK {
                break;
            }
            sets.sort_unstable();
            sets.dedup();
            let exits = match together.get(&sets) {
                Some(&known) => known,
                None => {
                    let exits = self.merge_exits(&sets, &legal);
                    together.insert(sets, exits);
                    exits
                }
            };
            let Some(exits) = exits else { continue };
            for group in machine.stacks.frames(stack).clone().chunk_by(|a, b| a.ret == b.ret) {
                let ret = group[0].ret;
                let next = self.after_return(machine, ret, exits);
                if added.insert((ret, exits)) {
                    self.add_legal(&next, &mut legal);
                }
                for (frame, further) in group.iter().flat_map(|f| next.further(exits).map(move |e| (f, e))) {
                    let sets = at.entry(frame.parent).or_default();
                    if sets.last() != Some(&further) {
                        sets.push(further);
                    }
                }
            }
        }
        Mask::of_row(legal.0)
    }

    /// Merges sets of exits into one, without the tokens that are legal already.
    fn merge_exits(&mut self, sets: &[ExitId], legal: &Legal) -> Option<ExitId> {
        let mut all = Exits::default();
        for &id in sets {
            let set = self.exit_set(id);
            all.tokens.extend(set.entries.iter().filter(|tail| !legal.has(tail.token)));
            all.wide.extend_from_slice(&set.wide);
        }
        if sets.len() > 1 {
            all.tokens.sort_unstable();
            all.tokens.dedup();
            all.wide.sort_unstable();
            all.wide.dedup();
        }
        self.intern_exits(all)
    }

    fn add_legal(&self, mask: &LocalMask, legal: &mut Legal) {
        mask.tokens.iter().for_each(|&token| legal.insert(token));
        for &exits in &mask.exits {
            self.exit_set(exits).ending.iter().for_each(|&token| legal.insert(token));
        }
        if let Some(base) = &mask.base {
            legal.0.iter_mut().zip(base.iter()).for_each(|(all, more)| *all |= more);
        }
    }
}
