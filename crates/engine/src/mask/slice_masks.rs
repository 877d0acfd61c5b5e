//! The part of a mask that slices of the vocabulary give.
//!
//! This file finds the slice that fits a state and the tokens of the slice that the state accepts.
//! Answers are kept by state, because one search of the widest slice answers for all states that it
//! visits. Narrower slices are tried only for states that the widest one decides too little. Class
//! loops (`class_loops`) are tried first, because they leave less to a walk.

use std::sync::Arc;

use super::builder::MaskBuilder;
use super::exits::ExitToken;
use super::memo::{CountedMask, SlicePart};
use super::rejected_tokens::rejected_tokens;
use super::rejection_bytes::may_reject;
use super::slice_fit::{FitQuery, WidestFit};
use super::state_fits::SliceFit;
use super::union::Union;
use crate::machine::{LocalState, ROOT_STACK, StackMachine, TRIED, Thread};
use crate::vocab::{Slice, TokenId, TrieNode, Vocabulary, each_class};

/// Maximum number of undecided tokens of a slice that are tried one by one.
const MAX_UNSURE: usize = 1_000;
/// The same for long tokens, whose bytes are checked first.
const MAX_LONG: usize = 3_000;

impl MaskBuilder {
    /// Adds the tokens of a slice that stay inside the rule, and the exits of the others. The path
    /// to node `top` of the trie leads to `local`.
    pub(super) fn take_slice(
        &mut self,
        machine: &mut StackMachine,
        (top, local): (TrieNode, LocalState),
        contained: &SliceFit,
        walked: &mut CountedMask,
    ) {
        let before = u32::from(top != 0);
        let SliceFit { slice, lengths, excluded_classes: without, .. } = *contained;
        walked.slices.push(SlicePart { slice, before, most: lengths.most, without });
        let vocab = self.vocab.clone();
        let rejected = self.rejected_of(machine, &vocab, (top, local), contained);
        // Of the tokens that do not stay inside, some leave the rule before they are rejected.
        for &token in rejected.iter().filter(|_| contained.ends) {
            let mut at = local;
            for (offset, &b) in vocab.token_bytes(token).iter().enumerate().skip(before as usize) {
                match machine.local.step(at, b, TRIED) {
                    Some(next) => at = next,
                    None => break,
                }
                if machine.local.automaton.accepts(at.state) {
                    walked.exits.push((ExitToken { token, offset: offset as u16 + 1 }, at.n));
                }
            }
        }
        walked.rejected.extend(rejected);
    }

    /// Returns the tokens of a slice that do not stay inside, besides those that are too long.
    fn rejected_of(
        &mut self,
        machine: &mut StackMachine,
        vocab: &Vocabulary,
        (top, local): (TrieNode, LocalState),
        contained: &SliceFit,
    ) -> Vec<TokenId> {
        let (data, lengths) = (&vocab.slices()[contained.slice], contained.lengths);
        let before = usize::from(top != 0);
        let unsure = data.between(lengths.safe, lengths.most);
        let is_rejected = |&t: &TokenId| {
            let bytes = &vocab.token_bytes(t)[before..];
            bytes.iter().try_fold(local, |l, &b| machine.local.step(l, b, TRIED)).is_none()
        };
        if lengths.is_exact() || unsure.len() == 0 {
            Vec::new()
        } else if unsure.len() <= MAX_UNSURE && lengths.safe < Slice::SHORT {
            unsure.filter(is_rejected).collect()
        } else if unsure.len() <= MAX_LONG && lengths.safe >= Slice::SHORT {
            // Most of them do not have the bytes that are rejected.
            let conditions = contained.near.conditions(local.state);
            let may = |set| conditions.is_none_or(|conditions| may_reject(conditions, set));
            let long = data.long_between(lengths.safe, lengths.most).filter(|long| may(long.1));
            long.map(|long| long.0).filter(is_rejected).collect()
        } else {
            let known =
                self.rejected.take().filter(|known| known.0 == (local.state, top != 0, contained.slice));
            let automaton = &mut machine.local.automaton;
            let search = || rejected_tokens(automaton, vocab, (top, local.state), contained, usize::MAX);
            known.map(|known| known.1).or_else(search).unwrap_or_default()
        }
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

    fn slice_up_to(&self, slice: usize, limit: u32) -> Arc<[u32]> {
        let data: &Slice = &self.vocab.slices()[slice];
        if data.all_up_to(limit) {
            return self.memo.shared.slice_masks[slice].clone();
        }
        // A poisoned lock only means that another thread panicked; the table stays valid. It holds
        // at most one entry for each slice and limit below the longest token.
        let mut table = self.memo.shared.up_to.lock().unwrap_or_else(|e| e.into_inner());
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
        let query = FitQuery { vocab: &self.vocab, thread, spaced };
        let widest = query.widest(&mut machine.local.automaton, &mut self.byte_runs);
        self.fit(machine, thread, spaced, widest)
    }

    /// Returns the slice that fits a state, given the result for the widest one, and notes it.
    fn fit(
        &mut self,
        machine: &mut StackMachine,
        thread: Thread,
        spaced: bool,
        mut widest: WidestFit,
    ) -> Option<SliceFit> {
        // The slice is usually taken right after it was found.
        if let WidestFit::Good((contained, _), rejected) = &mut widest {
            let of = (thread.local.state, spaced, contained.slice);
            self.rejected = rejected.take().map(|tokens| (of, tokens));
        }
        let query = FitQuery { vocab: &self.vocab, thread, spaced };
        let found = query.or_narrower(widest, &mut machine.local.automaton, &mut self.byte_runs);
        let key = |state| (state, spaced, thread.stack == ROOT_STACK);
        let (found, others) = found.map_or((None, Vec::new()), |(found, others)| (Some(found), others));
        self.memo.own.heap += (others.len() + usize::from(found.is_some())) * 64;
        let known = &mut self.memo.own.slice_of;
        known.extend(others.into_iter().map(|(state, fit)| (key(state), Some(fit))));
        known.insert(key(thread.local.state), found.clone());
        found
    }

    fn known_slice(&self, thread: Thread, spaced: bool) -> Option<Option<SliceFit>> {
        let key = (thread.local.state, spaced, thread.stack == ROOT_STACK);
        self.memo.find(|tables| &tables.slice_of, &key).cloned()
    }

    /// Returns true if a slice with characters beyond ASCII decides most tokens of a state.
    /// Narrower slices are tried only if the widest decides some.
    pub(super) fn has_wide_slice(&mut self, machine: &mut StackMachine, thread: Thread) -> bool {
        if !thread.local.is_unbounded() {
            return false;
        }
        let contained = self.known_slice(thread, false).unwrap_or_else(|| {
            let query = FitQuery { vocab: &self.vocab, thread, spaced: false };
            match query.widest(&mut machine.local.automaton, &mut self.byte_runs) {
                WidestFit::Useless => None,
                widest => self.fit(machine, thread, false, widest),
            }
        });
        contained.is_some_and(|contained| self.vocab.slices()[contained.slice].kind.has_unicode())
    }
}
