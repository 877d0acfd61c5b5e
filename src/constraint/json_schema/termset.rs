//! Terms in the order in which they were met, each once.
//!
//! A `oneOf` of a hundred branches excludes ninety-nine terms from each fork, so asking whether a term is
//! there must not look at all of them: beyond a few terms there is an index. A hash look-up; a short list is
//! compared one by one, which is cheaper.

use std::ops::Deref;

use rustc_hash::FxHashSet;

use super::shape::{Term, Terms};

/// Up to so many terms are compared one by one.
const FEW: usize = 8;

/// A set of terms that remembers their order.
#[derive(Debug, Clone, Default)]
pub(super) struct TermSet {
    list: Terms,
    /// All terms, once there are more than a few.
    index: FxHashSet<Term>,
}

impl TermSet {
    /// Whether a term is there.
    pub fn contains(&self, term: &Term) -> bool {
        if self.index.is_empty() { self.list.contains(term) } else { self.index.contains(term) }
    }

    /// Adds a term; whether it was new.
    pub fn insert(&mut self, term: Term) -> bool {
        if self.contains(&term) {
            return false;
        }
        if self.list.len() == FEW {
            self.index.extend(self.list.iter().cloned());
        }
        if self.list.len() >= FEW {
            self.index.insert(term);
        }
        self.list.push(term);
        true
    }
}

impl Deref for TermSet {
    type Target = [Term];

    fn deref(&self) -> &[Term] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::super::json::Id;
    use super::*;

    #[test]
    fn terms_stay_in_order_and_are_there_once() {
        let mut set = TermSet::default();
        let mut list: Vec<Term> = Vec::new();
        for i in 0..200u32 {
            let term = if i % 3 == 0 { Term::Neg(Id(i * i % 50)) } else { Term::Pos(Id(i * i % 50)) };
            assert_eq!(set.contains(&term), list.contains(&term));
            assert_eq!(set.insert(term), !list.contains(&term));
            if !list.contains(&term) {
                list.push(term);
            }
            assert_eq!(set[..], list[..]);
        }
    }
}
