//! Set of terms that keeps the order in which they were added.
//!
//! # Cost
//!
//! A `oneOf` of a hundred branches excludes ninety-nine terms from each fork, so a membership test
//! must not scan all terms. A short list is compared one by one, which is cheapest. For a longer
//! one, a bitmap rules out most terms that are absent. Beyond some dozens there is an index.
//!
//! # Alternatives considered
//!
//! An index from the ninth term on was rejected: every fork copies it, which took longer than all
//! lookups.

use std::hash::BuildHasher;
use std::ops::Deref;

use rustc_hash::{FxBuildHasher, FxHashSet};

use super::shape::{Term, Terms};

/// Up to this length, terms are compared one by one.
const MAX_SCANNED_TERMS: usize = 8;
/// From this length on, there is an index.
const MIN_INDEXED_TERMS: usize = 64;

/// A set of terms that keeps their order.
#[derive(Debug, Clone, Default)]
pub(super) struct TermSet {
    list: Terms,
    /// Bit of each term, once there are more than [`MAX_SCANNED_TERMS`]; different terms may share
    /// one.
    bits: u128,
    /// All terms, once there are at least [`MIN_INDEXED_TERMS`].
    index: FxHashSet<Term>,
}

impl TermSet {
    /// Returns true if the set contains a term.
    pub fn contains(&self, term: &Term) -> bool {
        match self.list.len() {
            MIN_INDEXED_TERMS.. => self.index.contains(term),
            length => (length <= MAX_SCANNED_TERMS || self.bits & bit(term) != 0) && self.list.contains(term),
        }
    }

    /// Adds a term; returns true if it was new.
    pub fn insert(&mut self, term: Term) -> bool {
        if self.contains(&term) {
            return false;
        }
        self.list.push(term);
        let length = self.list.len();
        if length > MIN_INDEXED_TERMS {
            self.index.insert(term);
        } else if length == MIN_INDEXED_TERMS {
            self.index.extend(self.list.iter().copied());
        } else if length > MAX_SCANNED_TERMS + 1 {
            self.bits |= bit(&term);
        } else if length == MAX_SCANNED_TERMS + 1 {
            self.bits = self.list.iter().fold(0, |bits, term| bits | bit(term));
        }
        true
    }
}

/// Returns the bit of a term, one of 128.
fn bit(term: &Term) -> u128 {
    1 << (FxBuildHasher.hash_one(term) % 128)
}

impl Deref for TermSet {
    type Target = [Term];

    fn deref(&self) -> &[Term] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::json::document::Id;

    #[test]
    fn terms_stay_in_order_and_are_there_once() {
        let mut set = TermSet::default();
        let mut list: Vec<Term> = Vec::new();
        for i in 0..200u32 {
            let term = if i % 3 == 0 { Term::Neg(Id(i * i % 397)) } else { Term::Pos(Id(i * i % 397)) };
            assert_eq!(set.contains(&term), list.contains(&term));
            assert_eq!(set.insert(term), !list.contains(&term));
            if !list.contains(&term) {
                list.push(term);
            }
            assert_eq!(set[..], list[..]);
        }
    }
}
