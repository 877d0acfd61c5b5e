//! Shapes that are not finished, with the terms and choices that are left to merge.

use std::rc::Rc;

use smallvec::SmallVec;

use super::super::read::{Id, Types};
use super::super::shape::Shape;
use super::super::term::{Term, Terms};

/// Purpose of an expansion: shapes to generate from, or only the emptiness of a conjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Exact,
    /// `oneOf` counts as `anyOf`, and refusals do not matter: the result contains the exact one.
    Loose,
}

/// Work that is left for one shape.
#[derive(Debug, Clone)]
pub(crate) enum Pending {
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
pub(crate) type Shapes = SmallVec<[Box<Shape>; 1]>;

/// A shape that is not finished, with the work that is left.
#[derive(Debug, Clone, Default)]
pub(crate) struct PartialShape {
    pub shape: Box<Shape>,
    /// Work that is left, last first.
    pub left: SmallVec<[Pending; 2]>,
}

impl PartialShape {
    pub(crate) fn new(terms: &[Term]) -> PartialShape {
        let left = terms.iter().rev().cloned().map(Pending::Term).collect();
        PartialShape { left, ..PartialShape::default() }
    }

    /// Adds work to do next, in this order.
    pub(crate) fn queue(&mut self, items: impl IntoIterator<Item = Pending, IntoIter: DoubleEndedIterator>) {
        self.left.extend(items.into_iter().rev());
    }

    /// Adds terms to merge next, in this order.
    pub(crate) fn next(&mut self, terms: &[Term]) {
        self.queue(terms.iter().map(|&term| Pending::Term(term)));
    }

    /// Adds a choice between lists of terms, which come from the value `at`.
    pub(crate) fn choose(&mut self, choice: Vec<Terms>, at: Id) {
        self.left.push(Pending::Choice(Rc::new(choice), at));
    }

    /// Excludes values of other types.
    pub(crate) fn only(&mut self, types: Types) {
        self.shape.types = self.shape.types.and(types);
    }
}
