//! The part of a mask that slices of the vocabulary give.
//!
//! This file finds the slice that fits a state and the tokens of the slice that the state accepts.
//! Answers are kept by state, because one search of the widest slice answers for all states that it
//! visits. Narrower slices are tried only for states that the widest one decides too little. Class
//! loops (`class_loops`) are tried first, because they leave less to a walk.

use std::sync::Arc;

use super::cache::MaskCache;
use super::exits::ExitToken;
use super::memo::{CountedMask, SlicePart};
use super::rejected_tokens::rejected_tokens;
use super::rejection_bytes::may_reject;
use super::slice_fit::{FitWithOthers, WidestFit};
use super::state_fits::SliceFit;
use super::union::Union;
use crate::machine::{LocalState, ROOT_STACK, StackMachine, TRIED, Thread};
use crate::vocab::{Slice, TokenId, TrieNode, Vocabulary, each_class};

/// Maximum number of undecided tokens of a slice that are tried one by one.
const MAX_UNSURE: usize = 1_000;
/// The same for long tokens, whose bytes are checked first.
const MAX_LONG: usize = 3_000;

impl MaskCache {
    /// Adds the tokens of a slice that stay inside the rule, and the exits of the others. The path
    /// to node `top` of the trie leads to `local`.
    pub(super) fn take_slice(
        &mut self,
        machine: &mut StackMachine,
        vocab: &Vocabulary,
        (top, local): (TrieNode, LocalState),
        contained: &SliceFit,
        walked: &mut CountedMask,
    ) {
        let known = walked.rejected.len();
        self.take_inside(machine, vocab, (top, local), contained, walked);
        if !contained.ends {
            return;
        }
        // Of the tokens that do not stay inside, some leave the rule before they are rejected.
        for &token in &walked.rejected[known..] {
            let mut at = local;
            for (offset, &b) in vocab.token_bytes(token).iter().enumerate().skip(usize::from(top != 0)) {
                match machine.local.step(at, b, TRIED) {
                    Some(next) => at = next,
                    None => break,
                }
                if machine.local.automaton.accepts(at.state) {
                    walked.exits.push((ExitToken { token, offset: offset as u16 + 1 }, at.n));
                }
            }
        }
    }

    fn take_inside(
        &mut self,
        machine: &mut StackMachine,
        vocab: &Vocabulary,
        (top, local): (TrieNode, LocalState),
        contained: &SliceFit,
        walked: &mut CountedMask,
    ) {
        let SliceFit { slice, lengths: alive, excluded_classes: without, .. } = *contained;
        let before = u32::from(top != 0);
        walked.slices.push(SlicePart { slice, before, most: alive.most, without });
        let data = &vocab.slices()[slice];
        let unsure = data.between(alive.safe, alive.most);
        if alive.is_exact() || unsure.len() == 0 {
            return;
        }
        let kills = |&t: &TokenId| {
            let bytes = &vocab.token_bytes(t)[before as usize..];
            bytes.iter().try_fold(local, |l, &b| machine.local.step(l, b, TRIED)).is_none()
        };
        let deadly = contained.conditions(local.state);
        if unsure.len() <= MAX_UNSURE && alive.safe < Slice::SHORT {
            walked.rejected.extend(unsure.filter(kills));
            return;
        }
        if unsure.len() <= MAX_LONG && alive.safe >= Slice::SHORT {
            // Most of them do not have the bytes that are rejected.
            let may = |set| deadly.is_none_or(|ways| may_reject(ways, set));
            let long = data.long_between(alive.safe, alive.most).filter(|long| may(long.1));
            walked.rejected.extend(long.map(|long| long.0).filter(kills));
            return;
        }
        let dead = match self.rejected.take() {
            Some((of, dead)) if of == (local.state, top != 0, slice) => Some(dead),
            _ => rejected_tokens(
                &mut machine.local.automaton,
                vocab,
                data,
                (top, local.state),
                contained,
                usize::MAX,
            ),
        };
        walked.rejected.extend(dead.into_iter().flatten());
    }

    /// Returns the mask row of the slice tokens that stay inside and have at most `limit`
    /// characters in all.
    pub(super) fn accepted_row(&self, walked: &CountedMask, limit: u32) -> Option<Arc<[u32]>> {
        let mut union = Union::default();
        for &SlicePart { slice, before, most, without } in walked.slices.iter().filter(|s| s.before <= limit)
        {
            let mut row = self.slice_up_to(slice, most.min(limit - before));
            for class in each_class(without) {
                self.vocab.classes().take_out(class, before == 0, Arc::make_mut(&mut row));
            }
            union.add_base(Some(&row));
        }
        let mut base = union.into_base()?;
        if walked.rejected.is_empty() {
            return Some(base);
        }
        let row = Arc::make_mut(&mut base);
        walked.rejected.iter().for_each(|&t| row[t as usize / 32] &= !(1 << (t % 32)));
        Some(base)
    }

    pub(super) fn slice_mask(&self, slice: usize) -> Arc<[u32]> {
        self.shared.slice_masks[slice].clone()
    }

    pub(super) fn slice_up_to(&self, slice: usize, limit: u32) -> Arc<[u32]> {
        let data: &Slice = &self.vocab.slices()[slice];
        if data.all_up_to(limit) {
            return self.slice_mask(slice);
        }
        // A poisoned lock only means that another thread panicked; the table stays valid. It holds
        // at most one entry for each slice and limit below the longest token.
        let mut table = self.shared.up_to.lock().unwrap_or_else(|e| e.into_inner());
        table.entry((slice, limit)).or_insert_with(|| data.mask_up_to(limit).into()).clone()
    }

    /// Returns the widest slice of which a state accepts many strings inside its rule.
    pub(super) fn slice_of(
        &mut self,
        machine: &mut StackMachine,
        thread: Thread,
        spaced: bool,
    ) -> Option<SliceFit> {
        if let Some(known) = self.known_slice(thread, spaced) {
            return known;
        }
        let mut widest =
            WidestFit::of(&mut machine.local.automaton, &self.vocab, &mut self.spelled, thread, spaced);
        self.cache_rejected(&mut widest, thread, spaced);
        let found =
            widest.or_narrower(&mut machine.local.automaton, &self.vocab, &mut self.spelled, thread, spaced);
        self.note_slice(thread, spaced, found)
    }

    /// Keeps the rejected tokens, because the slice is usually taken right after it was found.
    fn cache_rejected(&mut self, widest: &mut WidestFit, thread: Thread, spaced: bool) {
        if let WidestFit::Good((contained, _), dead) = widest {
            let of = (thread.local.state, spaced, contained.slice);
            self.rejected = dead.take().map(|dead| (of, dead));
        }
    }

    fn known_slice(&self, thread: Thread, spaced: bool) -> Option<Option<SliceFit>> {
        let key = (thread.local.state, spaced, thread.stack == ROOT_STACK);
        let known = self.shared.layers.slice_of.get(&key).or_else(|| self.own.slice_of.get(&key));
        known.cloned()
    }

    fn note_slice(&mut self, thread: Thread, spaced: bool, found: Option<FitWithOthers>) -> Option<SliceFit> {
        let (state, root) = (thread.local.state, thread.stack == ROOT_STACK);
        let Some((found, others)) = found else {
            self.own.slice_of.insert((state, spaced, root), None);
            return None;
        };
        self.own.heap += (others.len() + 1) * 64;
        for (state, contained) in others {
            self.own.slice_of.insert((state, spaced, root), Some(contained));
        }
        self.own.slice_of.insert((state, spaced, root), Some(found.clone()));
        Some(found)
    }

    /// Returns true if a slice with characters beyond ASCII decides most tokens of a state.
    /// Narrower slices are tried only if the widest decides some.
    pub(super) fn has_wide_slice(&mut self, machine: &mut StackMachine, thread: Thread) -> bool {
        if !thread.local.is_unbounded() {
            return false;
        }
        let contained = match self.known_slice(thread, false) {
            Some(known) => known,
            None => match WidestFit::of(
                &mut machine.local.automaton,
                &self.vocab,
                &mut self.spelled,
                thread,
                false,
            ) {
                WidestFit::Useless => None,
                mut widest => {
                    self.cache_rejected(&mut widest, thread, false);
                    let found = widest.or_narrower(
                        &mut machine.local.automaton,
                        &self.vocab,
                        &mut self.spelled,
                        thread,
                        false,
                    );
                    self.note_slice(thread, false, found)
                }
            },
        };
        contained.is_some_and(|contained| self.vocab.slices()[contained.slice].kind.has_unicode())
    }
}
