//! How long strings over a slice may be for a state, and the choice of the slice for a state.
//!
//! The search of [`slice_search`](super::slice_search) finds the states that strings over the
//! characters of a slice reach. If none of them rejects anything, every token of the slice is
//! legal. Otherwise two lengths are known for each state: all strings up to the first are accepted,
//! none beyond the second is. Examples are `[0-9A-F]{12}`, "at most 50 words", and a search for a
//! word that must not occur twice.
//!
//! For the tokens between the two lengths, a walk of the trie visits only nodes from which a
//! rejecting state is near enough, with such bytes below them. The same search finds the bytes
//! outside of the slice that can come first. The walk of the other tokens skips subtrees without
//! any of them.
//!
//! This is sound for any automaton and complete for the loop in a class, unlike a syntactic test on
//! the regular expression.
//!
//! # Cost
//!
//! One search answers for all states that it visits.
//!
//! # Alternatives considered
//!
//! A walk of the whole trie for every state that does not accept the slice at any length: counted
//! repetitions would be the slowest states of all.

use super::rejected_tokens::{REJECT_SEARCH_STEPS, rejected_tokens};
use super::slice_search::{ByteRuns, SliceSearch};
use super::state_fits::{CharBoundary, SliceFit};
use super::trie_walk::ByteFilter;
use crate::byte_set::ByteSet;
use crate::machine::{Automaton, Thread};
use crate::vocab::{TokenId, Vocabulary};

/// The answer of a search is reused for a state from which all strings of this number of characters
/// were visited.
const MIN_CLEAR_CHARS: u32 = 3;
/// A slice that is safe for this number of characters is preferred to a narrower one that is safe
/// for any number.
const GOOD_SAFE_CHARS: u32 = 6;

/// The fit of a state, and of other states for which the slice is as good.
pub(super) type FitWithOthers = (SliceFit, Vec<(u32, SliceFit)>);

/// The result of trying the widest slice for a state.
pub(super) enum WidestFit {
    /// Nearly all of its tokens are decided. The list holds the rejected tokens, if they were
    /// searched.
    Good(FitWithOthers, Option<Vec<TokenId>>),
    /// A narrower slice may be better. The set holds the ASCII bytes that are rejected.
    Poor(FitWithOthers, ByteSet),
    /// Many of its strings are rejected soon.
    Useless,
    /// The same holds for all other slices.
    AllUseless,
}

/// A state on a stack, for which a slice is searched: with or without a leading blank (`spaced`).
pub(super) struct FitQuery<'a> {
    pub vocab: &'a Vocabulary,
    pub thread: Thread,
    pub spaced: bool,
}

impl FitQuery<'_> {
    /// Tries the widest slice inside the rule of the state.
    pub(super) fn widest(&self, automaton: &mut Automaton, runs: &mut ByteRuns) -> WidestFit {
        let (vocab, state) = (self.vocab, self.thread.local.state);
        // Every slice has these letters, and most states of a grammar reject all of them.
        if [b'a', b'e', b'z'].into_iter().any(|b| vocab.has_byte(b) && automaton.step(state, b) == 0) {
            return WidestFit::AllUseless;
        }
        let first = vocab.slices().iter().position(|s| s.spaced == self.spaced);
        let Some((answer, rejected_ascii)) = first.and_then(|first| self.try_slice(automaton, runs, first))
        else {
            return WidestFit::Useless;
        };
        if answer.0.lengths.safe >= GOOD_SAFE_CHARS {
            return WidestFit::Good(answer, None);
        }
        let top = if self.spaced { vocab.trie().first(b' ') } else { 0 };
        match rejected_tokens(automaton, vocab, (top, state), &answer.0, REJECT_SEARCH_STEPS) {
            Some(rejected) => WidestFit::Good(answer, Some(rejected)),
            None => WidestFit::Poor(answer, rejected_ascii),
        }
    }

    /// Returns the widest slice of which the state accepts many strings, given the result for the
    /// widest of all.
    pub(super) fn or_narrower(
        &self,
        widest: WidestFit,
        automaton: &mut Automaton,
        runs: &mut ByteRuns,
    ) -> Option<FitWithOthers> {
        let mut second = match widest {
            WidestFit::Good(answer, _) => return Some(answer),
            WidestFit::AllUseless => return None,
            WidestFit::Useless => None,
            WidestFit::Poor(answer, rejected_ascii) => Some((answer, rejected_ascii)),
        };
        let slices = self.vocab.slices().iter().enumerate().filter(|(_, s)| s.spaced == self.spaced);
        for (slice, data) in slices.skip(1) {
            let holds =
                |rejected_ascii: &ByteSet| (0..0x80).any(|b| rejected_ascii.has(b) && data.kind.has_ascii(b));
            if second.as_ref().is_some_and(|(_, rejected_ascii)| holds(rejected_ascii)) {
                // A byte that is rejected in a wider slice is also in this one.
                continue;
            }
            let Some((answer, rejected_ascii)) = self.try_slice(automaton, runs, slice) else { continue };
            if answer.0.lengths.safe >= GOOD_SAFE_CHARS {
                return Some(answer);
            }
            second = second.or(Some((answer, rejected_ascii)));
        }
        second.map(|(answer, _)| answer)
    }

    /// Tries one slice. Returns its fit and the ASCII bytes that are rejected.
    fn try_slice(
        &self,
        automaton: &mut Automaton,
        runs: &mut ByteRuns,
        slice: usize,
    ) -> Option<(FitWithOthers, ByteSet)> {
        let (vocab, state) = (self.vocab, self.thread.local.state);
        let found = SliceSearch::from(automaton, vocab, slice, runs, (state, self.thread.stack))?;
        // Rejected tokens that may leave the rule first must be found one by one.
        let (ends, without) = (found.ends, if found.ends { 0 } else { found.uniform(vocab) });
        let (groups, near) = (found.need, found.state_fits(without));
        let contained = |state, reach| {
            let alive = near.of(state);
            let need = ByteFilter { groups, reach };
            SliceFit { slice, need, lengths: alive, excluded_classes: without, ends, near: near.clone() }
        };
        let first = near.between.first().map_or(0, |first| first.reach);
        // Nor may there be strings that are too long without being checked.
        let whole = |state| !ends || near.of(state).most == u32::MAX;
        if !whole(state) {
            return None;
        }
        // Wider slices were tried for this state only. They accept no longer strings from it.
        let others = near
            .between
            .iter()
            .filter(|other| other.clear >= MIN_CLEAR_CHARS && near.is_useful(vocab, other.state));
        let others = others.filter(|&&CharBoundary { state, .. }| {
            slice == 0 || near.of(state).safe > 0 && near.of(state).most < u32::MAX
        });
        let others = others.filter(|other| whole(other.state));
        let others = others.map(|other| (other.state, contained(other.state, other.reach))).collect();
        Some(((contained(state, first), others), found.rejected_ascii))
    }
}
