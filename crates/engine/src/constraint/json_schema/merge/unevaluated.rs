//! Merging of `unevaluatedProperties` and `unevaluatedItems`.
//!
//! What the other keywords evaluate comes as alternatives (`evaluated`). An instance is in their
//! union through the alternative of all schemas that do hold. Negations are therefore only needed
//! if the keyword itself is negated.
//!
//! # Cost
//!
//! The number of alternatives.
//!
//! # Alternatives considered
//!
//! Annotations carried by the alternatives of a merge. If two schemas with this keyword are merged,
//! their sub-schemas would have to know which of the two an annotation is for.

use std::rc::Rc;

use smallvec::smallvec;

use super::super::check::{UnevaluatedKind, item_outside};
use super::super::read::{Id, Keyword, Types};
use super::super::shape::{ContainsBound, ExistsProperty, Names};
use super::super::term::{Term, Terms};
use super::negate::Violation;
use super::normalize::Normalizer;
use super::partial_shape::{PartialShape, Pending};
use super::properties::merge_group;
use crate::error::Result;

impl Normalizer<'_> {
    /// Returns the work for `unevaluatedProperties` or `unevaluatedItems` (`keyword`, with the
    /// value `at`) of a schema object. It comes before that of the sibling schemas.
    pub(crate) fn unevaluated(&mut self, schema: Id, keyword: Keyword, at: Id) -> Result<Option<Pending>> {
        if self.context.is_true(at) {
            return Ok(None);
        }
        let choice = self.evaluated.evaluated_beside(&mut self.context, schema, keyword)?;
        let mut alternatives = Vec::with_capacity(choice.0.len());
        for own in &choice.0 {
            let mut terms = own.terms.clone();
            if !own.seen.all {
                terms.push(Term::Unevaluated(self.evaluated.evaluated_set(&own.seen), at, true));
            }
            alternatives.push(terms);
        }
        Ok(Some(Pending::Choice(Rc::new(alternatives), at)))
    }

    /// Merges the term that everything outside of a set satisfies the schema, or (`holds` is false)
    /// something does not.
    pub(crate) fn outside(
        &mut self,
        partial: &mut PartialShape,
        set: u32,
        at: Id,
        holds: bool,
    ) -> Result<()> {
        let seen = self.evaluated.set(set);
        match seen.kind {
            UnevaluatedKind::Properties if holds => {
                let truth = self.context.synthetic.constant(&mut self.context.doc, true);
                let properties = seen.names.iter().map(|&n| (n, truth)).collect();
                let patterns = seen.patterns.iter().map(|p| (p.0, truth)).collect();
                merge_group(&mut self.context, partial, (properties, patterns), Some(at), at)?;
            }
            UnevaluatedKind::Properties => {
                let names = Names::Outside(set);
                partial.shape.object.demands.push(ExistsProperty { names, value: Some(Term::Neg(at)), at });
            }
            UnevaluatedKind::Items => {
                let schema = item_outside(&mut self.context, &seen, at);
                let array = &mut partial.shape.array;
                if holds {
                    array.each_item(&vec![None; seen.first as usize], Some(Term::Pos(schema)));
                } else {
                    let (counts, fails) = (Term::Neg(schema), Term::Pos(schema));
                    let bound = ContainsBound { counts, fails, from: seen.first, min: 1, max: None, at };
                    array.contains.push(bound);
                }
            }
        }
        Ok(())
    }
}

impl Violation<'_, '_> {
    /// Merges the violation of the keyword: if an alternative holds, something outside of its
    /// evaluated set violates the schema.
    pub(super) fn unevaluated(&mut self) -> Result<()> {
        let (schema, keyword, at) = (self.schema, self.keyword, self.at);
        self.partial.only(if self.context.is_true(at) { Types::NONE } else { keyword.definition().about });
        if self.partial.shape.types.is_empty() {
            return Ok(());
        }
        for own in self.evaluated.evaluated_beside(self.context, schema, keyword)?.0.iter().rev() {
            let mut ways: Vec<Terms> = Vec::new();
            if !own.seen.all {
                ways.push(smallvec![Term::Unevaluated(self.evaluated.evaluated_set(&own.seen), at, false)]);
            }
            for term in &own.terms {
                ways.push(match *term {
                    Term::Pos(id) => smallvec![Term::Neg(id)],
                    Term::Neg(id) => smallvec![Term::Pos(id)],
                    Term::Types(types) => smallvec![Term::Types(Types::ALL.without(types))],
                    Term::Require(name) => smallvec![Term::Types(Types::OBJECT), Term::Forbid(name)],
                    Term::Forbid(name) => smallvec![Term::Types(Types::OBJECT), Term::Require(name)],
                    // Alternatives consist of the terms above.
                    _ => continue,
                });
            }
            self.partial.choose(ways, at);
        }
        Ok(())
    }
}
