//! Forks: shapes that are not finished, with the terms and choices that are left to merge.

use std::rc::Rc;

use smallvec::SmallVec;

use super::shape::{Refusal, Shape, Term, Terms};
use super::types::Types;
use crate::constraint::json::document::Id;

/// Purpose of an expansion: shapes to generate from, or only the emptiness of a conjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Exact,
    /// `oneOf` counts as `anyOf`, and refusals do not matter: the result contains the exact one.
    Loose,
}

/// Work that is left for one fork.
#[derive(Debug, Clone)]
pub(super) enum PendingKeyword {
    Term(Term),
    /// One of these lists of terms applies; the `Id` is the value they come from.
    Choice(Rc<Vec<Terms>>, Id),
    /// What a property requires if it exists: a choice with two alternatives. The first list is:
    /// the value is an object, it has the property, and the terms that the property requires. The
    /// `Id` is the value the choice comes from.
    Dependency(Rc<Vec<Terms>>, Id),
    /// The `oneOf` keyword with this value.
    OneOf(Id),
}

/// Remaining shapes: one for nearly all schemas. They are boxed, because a shape is large and is
/// moved often.
pub(super) type Shapes = SmallVec<[Box<Shape>; 1]>;

/// A shape that is not finished, with the work that is left.
#[derive(Debug, Clone, Default)]
pub(super) struct Fork {
    pub shape: Box<Shape>,
    /// Work that is left, last first.
    pub left: SmallVec<[PendingKeyword; 2]>,
}

impl Fork {
    pub fn new(terms: &[Term]) -> Fork {
        let left = terms.iter().rev().cloned().map(PendingKeyword::Term).collect();
        Fork { left, ..Fork::default() }
    }

    /// Adds work to do next, in this order.
    pub fn queue(&mut self, items: impl IntoIterator<Item = PendingKeyword, IntoIter: DoubleEndedIterator>) {
        self.left.extend(items.into_iter().rev());
    }

    /// Adds terms to merge next, in this order.
    pub fn next(&mut self, terms: &[Term]) {
        self.left.extend(terms.iter().rev().map(|&term| PendingKeyword::Term(term)));
    }

    pub fn refuse(&mut self, types: Types, at: Id, message: String, hint: &'static str) {
        self.shape.refusals.push(Rc::new(Refusal { types, at, message, hint }));
    }
}
