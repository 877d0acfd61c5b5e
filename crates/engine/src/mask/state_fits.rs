//! How long strings over a slice may be for a state: the answers of a search, as data.

use std::sync::Arc;

use super::rejection_bytes::{RejectCondition, rejecting_bytes};
use super::trie_walk::ByteFilter;
use crate::vocab::{ByteGroups, ClassSet, Vocabulary};

/// A state may reject at most this number of groups of first bytes for a slice to be useful. If it
/// rejects more, a walk ends soon anyway.
const MAX_REJECTING_GROUPS: u32 = 3;
/// Or it may reject bytes that at most this number of each 1,000 tokens have.
const MAX_REJECTED_PER_MILLE: u64 = 80;

/// Lengths of the strings over a slice that a state accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SafeLengths {
    /// All strings of at most this number of characters are accepted.
    pub safe: u32,
    /// No string with more characters is accepted.
    pub most: u32,
}

impl SafeLengths {
    /// All strings, of any length.
    pub(super) const UNBOUNDED: SafeLengths = SafeLengths { safe: u32::MAX, most: u32::MAX };

    /// Returns true if the length alone decides.
    pub(super) fn is_exact(self) -> bool {
        self.safe == self.most
    }
}

/// A slice, and how far it fits a state.
#[derive(Debug, Clone)]
pub(super) struct SliceFit {
    /// Index of the slice.
    pub slice: usize,
    /// The bytes that a legal token outside of the slice must have.
    pub need: ByteFilter,
    /// The lengths of the accepted strings.
    pub lengths: SafeLengths,
    /// Strings with a byte of these classes are not accepted.
    pub excluded_classes: ClassSet,
    /// True if the rule may end inside some of the strings. Tokens that do not stay inside are then
    /// checked for exits.
    pub ends: bool,
    /// The fits of the states that the strings lead to.
    pub near: Arc<StateFits>,
}

/// The lengths that each state of a search accepts, and its conditions of rejection. Where a state
/// occurs in several nodes, the weakest answer holds.
#[derive(Debug)]
pub(super) struct StateFits {
    /// The states between characters, the start of the search first.
    pub between: Vec<CharBoundary>,
    /// The lowest state with an entry. The states of one search have numbers that are close
    /// together.
    pub first: u32,
    pub lengths: Vec<SafeLengths>,
    /// The conditions of state n are `ways[starts[n]..starts[n + 1]]`. Both lists are empty where
    /// nothing can be rejected.
    pub ways: Vec<RejectCondition>,
    pub starts: Vec<u32>,
}

/// A state between characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct CharBoundary {
    pub state: u32,
    /// Strings of at most this number of characters lead only to visited states.
    pub clear: u32,
    /// Strings of at most this number of ASCII characters do.
    pub reach: u32,
}

impl StateFits {
    pub(super) const UNKNOWN: SafeLengths = SafeLengths { safe: 0, most: u32::MAX };

    #[inline]
    pub(super) fn of(&self, state: u32) -> SafeLengths {
        self.lengths.get(state.wrapping_sub(self.first) as usize).copied().unwrap_or(Self::UNKNOWN)
    }

    /// Returns the conditions of rejection of a state, if they are known.
    #[inline]
    pub(super) fn conditions(&self, state: u32) -> Option<&[RejectCondition]> {
        let n = state.wrapping_sub(self.first) as usize;
        match self.starts.get(n..)? {
            &[from, to, ..] => Some(&self.ways[from as usize..to as usize]),
            _ => None,
        }
    }

    /// Returns true if some states were not visited.
    #[cfg(test)]
    pub(crate) fn is_partial(&self) -> bool {
        self.between.iter().any(|between| between.clear < u32::MAX)
    }

    /// Returns true if strings from a state need only a few checks.
    pub(super) fn is_useful(&self, vocab: &Vocabulary, state: u32) -> bool {
        let few = |ways: &[RejectCondition]| are_tolerable(vocab, rejecting_bytes(ways));
        self.of(state).safe > 0 || self.conditions(state).is_some_and(few)
    }
}

/// Returns true if a state may reject these bytes and a slice is still useful.
pub(super) fn are_tolerable(vocab: &Vocabulary, bytes: ByteGroups) -> bool {
    let rare =
        || u64::from(vocab.classes().having(bytes)) * 1_000 <= vocab.len() as u64 * MAX_REJECTED_PER_MILLE;
    bytes.count_ones() <= MAX_REJECTING_GROUPS || rare()
}
