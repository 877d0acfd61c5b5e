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

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::keyword_set::KeywordSet;
use super::keywords as kw;
use super::normalize::{Fork, PendingKeyword};
use super::shape::{Term, Terms};
use crate::constraint::json::document::Id;
use crate::error::Result;

/// Alternatives of an `anyOf`.
pub(super) struct SharedAlternatives {
    /// Alternatives that are conjunctions of their own.
    pub shared: SmallVec<[Term; 2]>,
    /// Fork from which the others are expanded, if there are any.
    pub inline: Option<Fork>,
}

impl SchemaContext<'_> {
    /// Returns the alternatives of a conjunction that consists of an `anyOf` only, if some of them
    /// are references to shared schemas.
    pub fn shared_alternatives(&mut self, terms: &[Term]) -> Result<Option<SharedAlternatives>> {
        let [Term::Pos(id)] = *terms else { return Ok(None) };
        if self.assertions(id) != KeywordSet::of(&[kw::ANY_OF]) {
            return Ok(None);
        }
        let Some(at) = self.doc.get(id, kw::ANY_OF) else { return Ok(None) };
        let refers = |&branch: &Id| self.doc.keyword_set(branch).meet(KeywordSet::REFERENCES);
        if !self.doc.elements(at).iter().any(refers) {
            return Ok(None);
        }
        self.check_grounded(id)?;
        let (mut elsewhere, mut here) = (SmallVec::new(), Vec::<Terms>::new());
        for branch in self.schemas(at)? {
            let target = self.follow(branch)?;
            if target != branch && self.holds_parts(target) {
                elsewhere.push(Term::Pos(branch));
            } else {
                here.push(smallvec![Term::Pos(branch)]);
            }
        }
        if elsewhere.is_empty() {
            return Ok(None);
        }
        self.warn_unknown(id);
        let mut fork = Fork::default();
        let here = match here.len() {
            0 => None,
            _ => {
                fork.queue([PendingKeyword::Choice(Rc::new(here), at)]);
                Some(fork)
            }
        };
        Ok(Some(SharedAlternatives { shared: elsewhere, inline: here }))
    }

    /// Returns true if a schema has keywords about properties or items, and lists no values.
    fn holds_parts(&self, id: Id) -> bool {
        const PARTS: KeywordSet = KeywordSet::of(&[
            kw::PROPERTIES,
            kw::PATTERN_PROPERTIES,
            kw::ADDITIONAL_PROPERTIES,
            kw::ITEMS,
            kw::PREFIX_ITEMS,
        ]);
        let keys = self.assertions(id);
        keys.meet(PARTS) && !keys.meet(KeywordSet::of(&[kw::ENUM, kw::CONST]))
    }
}
