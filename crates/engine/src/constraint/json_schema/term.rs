//! Terms: the conditions on one value that are not merged yet, and sets of them.
//!
//! # Cost
//!
//! A `oneOf` of a hundred branches excludes ninety-nine terms from each alternative, so a
//! membership test must not scan all terms. A short list is compared one by one, which is cheapest.
//! For a longer one, a bitmap rules out most terms that are absent. Beyond some dozens there is an
//! index.
//!
//! # Alternatives considered
//!
//! An index from the ninth term on was rejected: every alternative copies it, which took longer
//! than all lookups.

use std::hash::BuildHasher;
use std::ops::Deref;

use rustc_hash::{FxBuildHasher, FxHashSet};
use smallvec::{SmallVec, smallvec};

use super::read::{Id, Keyword, SchemaContext, Symbol, Types, Value};
use crate::error::Result;

/// One thing that a value must satisfy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Term {
    /// It satisfies the schema.
    Pos(Id),
    /// It violates the schema.
    Neg(Id),
    /// It violates exactly this keyword of the schema object.
    NegKeyword(Id, Keyword),
    /// It has one of these types.
    Types(Types),
    /// If it is an object, it has this property.
    Require(Symbol),
    /// If it is an object, it lacks this property.
    Forbid(Symbol),
    /// If it is an object with this property, the property satisfies (`false`: violates) the
    /// schema.
    Property(Symbol, Id, bool),
    /// If it is a number, it is less than this literal.
    Below(Id),
    /// If it is a number, it is greater than this literal.
    Above(Id),
    /// If it is an array, it has an item at this index, which violates the schema.
    ItemFails(u32, Id),
    /// If it is an object, it has a property whose name matches the pattern and whose value
    /// violates the schema.
    MatchFails(Symbol, Id),
    /// Every property or item outside of a set of evaluated ones (by its number) satisfies the
    /// schema; `false`: one does not. True of values of other types.
    Unevaluated(u32, Id, bool),
}

impl Term {
    /// Returns the term that is true exactly if this one is false, if it has that simple form.
    pub(super) fn opposite(&self) -> Option<Term> {
        match *self {
            Term::Pos(id) => Some(Term::Neg(id)),
            Term::Neg(id) => Some(Term::Pos(id)),
            _ => None,
        }
    }
}

/// Terms that one value must satisfy, in the order in which they were added.
pub(super) type Terms = SmallVec<[Term; 2]>;

/// Term that nothing satisfies.
pub(super) const FALSE: Term = Term::Types(Types::NONE);

pub(super) fn add_term(terms: &mut Terms, term: Term) {
    if !terms.contains(&term) {
        terms.push(term);
    }
}

/// Removes terms that assert nothing, follows references, and detects what nothing satisfies.
pub(super) fn tidy(context: &mut SchemaContext<'_>, terms: &[Term]) -> Result<Terms> {
    let mut tidy = Terms::new();
    for term in terms {
        let term = match *term {
            Term::Pos(id) => Term::Pos(context.follow(id)?),
            Term::Neg(id) => Term::Neg(context.follow(id)?),
            other => other,
        };
        let nothing = match term {
            Term::Pos(id) if context.is_true(id) => continue,
            Term::Pos(id) => context.doc.value(id) == Value::Bool(false),
            Term::Neg(id) if context.doc.value(id) == Value::Bool(false) => continue,
            Term::Neg(id) => context.is_true(id),
            Term::Types(types) => types.is_empty(),
            _ => false,
        };
        if nothing {
            return Ok(smallvec![FALSE]);
        }
        add_term(&mut tidy, term);
    }
    Ok(tidy)
}

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
    pub(super) fn contains(&self, term: &Term) -> bool {
        match self.list.len() {
            MIN_INDEXED_TERMS.. => self.index.contains(term),
            length => (length <= MAX_SCANNED_TERMS || self.bits & bit(term) != 0) && self.list.contains(term),
        }
    }

    /// Adds a term; returns true if it was new.
    pub(super) fn insert(&mut self, term: Term) -> bool {
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
