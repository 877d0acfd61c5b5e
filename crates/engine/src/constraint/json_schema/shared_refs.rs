//! Alternatives that are written elsewhere: an `anyOf` with references to schemas of their own.
//!
//! `{"anyOf": [{"$ref": "#/$defs/item"}, {"type": "null"}]}` is how generators of schemas write an optional value. To expand the
//! schema behind the reference at each such place gives the same shapes each time; its goal, which other
//! places share, is one alternative as it is. Cost: a look at the keywords. Not done where another keyword stands beside
//! the `anyOf`, for the two must be merged then, nor for schemas of literals and plain types, which become
//! one set of words with those of the other alternatives.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::keyword_set::KeywordSet;
use super::keywords as kw;
use super::normalize::{Fork, Item};
use super::shape::{Term, Terms};
use crate::constraint::json::document::Id;
use crate::error::Result;

/// The alternatives of an `anyOf`.
pub(super) struct Alternatives {
    /// Those that are goals of their own.
    pub elsewhere: SmallVec<[Term; 2]>,
    /// What the others are expanded from, if there are any.
    pub here: Option<Fork>,
}

impl SchemaContext<'_> {
    /// The alternatives of a conjunction that is nothing but an `anyOf`, if some of them are written elsewhere.
    pub fn alternatives_elsewhere(&mut self, terms: &[Term]) -> Result<Option<Alternatives>> {
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
                fork.queue([Item::Choice(Rc::new(here), at)]);
                Some(fork)
            }
        };
        Ok(Some(Alternatives { elsewhere, here }))
    }

    /// Whether a schema speaks of properties or items, and lists no values.
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
