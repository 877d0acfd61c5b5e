//! Plan of a shape: the conjunctions of its children, which are built before the shape is.

use std::sync::Arc;

use smallvec::SmallVec;

use super::super::shape::Shape;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::json::document::{Id, Symbol};

/// Id of a conjunction.
pub(super) type ConjunctionId = u32;
/// Declared properties of a shape in the order of the output; the flag says whether they are
/// required.
pub(super) type Declared = SmallVec<[(Symbol, ConjunctionId, bool); 6]>;
/// Undeclared properties of a shape, by disjoint sets of names; mostly one set, of all names.
pub(super) type Extras = SmallVec<[(Keys, ConjunctionId); 1]>;

/// A set of names.
#[derive(Debug, Clone)]
pub(super) enum Keys {
    All,
    /// Names that match one of these patterns.
    Patterns(Vec<(Symbol, Id)>),
    Automaton(Arc<CharDfa>),
}

/// A shape with the conjunctions of its children.
pub(super) struct Plan {
    pub shape: Box<Shape>,
    pub properties: Declared,
    pub extra: Extras,
    pub prefix: Vec<ConjunctionId>,
    pub rest: ConjunctionId,
    /// For an array with conditions on its items: the alternatives for each position.
    pub contains: Vec<Vec<(u32, ConjunctionId)>>,
    pub demands: Option<PlannedDemands>,
}

/// The demands of a shape with their conjunctions.
pub(super) struct PlannedDemands {
    /// Number of demands.
    pub count: usize,
    /// Declared properties that can meet demands (a bit each), by index, with the conjunctions of
    /// their values in that case.
    pub declared: Vec<(usize, u32, ConjunctionId)>,
    /// Undeclared ones; the flag: each property of that name meets the demands, with any value.
    pub extra: Vec<(u32, Keys, ConjunctionId, bool)>,
}

impl Plan {
    /// Calls `child` for each conjunction that must be built first.
    pub(super) fn children(&self, mut child: impl FnMut(ConjunctionId)) {
        self.properties.iter().for_each(|p| child(p.1));
        self.extra.iter().for_each(|e| child(e.1));
        self.prefix.iter().for_each(|&id| child(id));
        child(self.rest);
        if let Some(demands) = &self.demands {
            demands.declared.iter().for_each(|d| child(d.2));
            demands.extra.iter().for_each(|e| child(e.2));
        }
        self.contains.iter().flatten().for_each(|way| child(way.1));
    }
}

/// Returns the items whose bits are set.
pub(super) fn chosen<T>(items: &[T], bits: u32) -> impl Iterator<Item = &T> {
    items.iter().enumerate().filter(move |(i, _)| bits >> i & 1 == 1).map(|(_, item)| item)
}
