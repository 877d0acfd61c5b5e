//! An `anyOf` of references: each target schema is a conjunction of its own, which others share.
//!
//! Generators of schemas write an optional value as `{"anyOf": [{"$ref": "#/$defs/item"}, {"type":
//! "null"}]}`. Expanding the target at each such use gives the same shapes each time. Its
//! conjunction, which other uses share, is one alternative as it is.
//!
//! This is not done if the `anyOf` has sibling keywords, because the two must be merged then. It is
//! not done either for schemas of literals and plain types: their literals form one set with those
//! of the other alternatives.
//!
//! # Cost
//!
//! One scan of the keywords.

use smallvec::{SmallVec, smallvec};

use super::super::read::{Id, Keyword, REFERENCES, SchemaContext, set, warn_unknown};
use super::super::term::{Term, Terms};
use super::normalize::Normalizer;
use super::partial_shape::PartialShape;
use crate::constraint::json::symbol_set::SymbolSet;
use crate::error::Result;

/// Alternatives of an `anyOf`.
pub(crate) struct SharedAlternatives {
    /// Alternatives that are conjunctions of their own.
    pub shared: SmallVec<[Term; 2]>,
    /// PartialShape from which the others are expanded, if there are any.
    pub inline: Option<PartialShape>,
}

impl Normalizer<'_> {
    /// Returns the alternatives of a conjunction that consists of an `anyOf` only, if some of them
    /// are references to shared schemas.
    pub(crate) fn shared_alternatives(&mut self, terms: &[Term]) -> Result<Option<SharedAlternatives>> {
        let [Term::Pos(id)] = *terms else { return Ok(None) };
        let mut keywords = self.context.asserting(id);
        let (Some((Keyword::AnyOf, at)), None) = (keywords.next(), keywords.next()) else { return Ok(None) };
        drop(keywords);
        let refers = |&branch: &Id| self.context.doc.names(branch).meet(REFERENCES);
        if !self.context.doc.elements(at).iter().any(refers) {
            return Ok(None);
        }
        self.recursion.check(&mut self.context, id)?;
        let (mut shared, mut others) = (SmallVec::new(), Vec::<Terms>::new());
        for branch in self.context.schemas(at)? {
            let target = self.context.follow(branch)?;
            if target != branch && holds_parts(&self.context, target) {
                shared.push(Term::Pos(branch));
            } else {
                others.push(smallvec![Term::Pos(branch)]);
            }
        }
        if shared.is_empty() {
            return Ok(None);
        }
        warn_unknown(&mut self.context, id);
        let inline = (!others.is_empty()).then(|| {
            let mut inline = PartialShape::default();
            inline.choose(others, at);
            inline
        });
        Ok(Some(SharedAlternatives { shared, inline }))
    }
}

/// Returns true if a schema has keywords about properties or items, and lists no values. A keyword
/// that is not in these sets costs only the sharing.
fn holds_parts(context: &SchemaContext<'_>, id: Id) -> bool {
    const PARTS: SymbolSet = set(&[
        Keyword::Properties,
        Keyword::PatternProperties,
        Keyword::AdditionalProperties,
        Keyword::Items,
        Keyword::PrefixItems,
    ]);
    let keys = context.assertions(id);
    keys.meet(PARTS) && !keys.meet(set(&[Keyword::Enum, Keyword::Const]))
}
