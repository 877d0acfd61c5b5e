//! Masks of configurations with many stacks, as ambiguous grammars have them.
//!
//! One by one, each set of exits is followed down each stack that it meets: with hundreds of stacks that hold
//! each other, and dozens of sets, that is their product, tens of thousands of steps for a mask. Here a
//! stack is left once: parents have smaller numbers than their children, so stacks are taken from the largest
//! number down, and when one is taken, all that ever arrives there has. What arrives is made one set,
//! and tokens that are legal already are left out of it: in an ambiguous grammar most are, by the first of
//! their readings.
//!
//! Cost: the stacks and frames below the configuration, once each, and for each different set a walk of its
//! tails. For up to [`SWEEP_AFTER_PAIRS`] pairs of a set and a stack that is not worth it: sets made one are new to the memo,
//! where those of single states are known, mostly from the base. A walk of the whole trie from all threads was
//! rejected: every path of it makes stacks that no output has, and they stay as long as the tables.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Mask;
use super::cache::MaskCache;
use super::exits::ExitToken;
use super::memo::{ExitId, LocalMask};
use super::union::Union;
use crate::machine::{LocalState, Machine, ROOT_STACK, StackId};
use crate::vocab::TokenId;

/// From so many pairs of a set and a stack on stacks are left once; in unit tests sooner, so that they meet it.
/// With 32 a grammar with some dozens of stacks, all of whose sets are known, took four times as long.
pub(super) const SWEEP_AFTER_PAIRS: usize = if cfg!(test) { 32 } else { 128 };
/// Likewise once so many tails had to be walked for one mask.
pub(super) const SWEEP_AFTER_EXITS: usize = 200_000;

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
    /// The mask of which `union` is known, and the sets of exits that are left to be followed.
    pub(super) fn sweep_stacks(
        &mut self,
        machine: &mut Machine,
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
            for group in machine.frames(stack).chunk_by(|a, b| a.ret == b.ret) {
                let ret = group[0].ret;
                let next = self.after_return(machine, ret, exits);
                if added.insert((ret, exits)) {
                    self.add_legal(&next, &mut legal);
                }
                let Some(further) = next.exits else { continue };
                for frame in group {
                    let sets = at.entry(frame.parent).or_default();
                    if sets.last() != Some(&further) {
                        sets.push(further);
                    }
                }
            }
        }
        Mask::of_row(legal.0)
    }

    /// What is left of some sets of exits, as one.
    fn merge_exits(&mut self, sets: &[ExitId], legal: &Legal) -> Option<ExitId> {
        let mut entries: Vec<ExitToken> = Vec::new();
        for &id in sets {
            entries.extend(self.tails(id).entries.iter().filter(|tail| !legal.has(tail.token)));
        }
        if sets.len() > 1 {
            entries.sort_unstable();
            entries.dedup();
        }
        self.intern_exits(entries)
    }

    fn add_legal(&self, mask: &LocalMask, legal: &mut Legal) {
        mask.tokens.iter().for_each(|&token| legal.insert(token));
        if let Some(exits) = mask.exits {
            self.tails(exits).ending.iter().for_each(|&token| legal.insert(token));
        }
        if let Some(base) = &mask.base {
            legal.0.iter_mut().zip(base.iter()).for_each(|(all, more)| *all |= more);
        }
    }
}
