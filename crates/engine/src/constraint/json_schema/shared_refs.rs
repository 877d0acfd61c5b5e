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
use super::fork::{Fork, PendingKeyword};
use super::keyword_set::{self, set};
use super::keywords::Keyword;
use super::normalize::Normalizer;
use super::shape::{Term, Terms};
use super::unknown_keywords::warn_unknown;
use crate::constraint::json::document::Id;
use crate::constraint::json::symbol_set::SymbolSet;
use crate::error::Result;

/// Alternatives of an `anyOf`.
pub(super) struct SharedAlternatives {
    /// Alternatives that are conjunctions of their own.
    pub shared: SmallVec<[Term; 2]>,
    /// Fork from which the others are expanded, if there are any.
    pub inline: Option<Fork>,
}

impl Normalizer<'_> {
    /// Returns the alternatives of a conjunction that consists of an `anyOf` only, if some of them
    /// are references to shared schemas.
    pub fn shared_alternatives(&mut self, terms: &[Term]) -> Result<Option<SharedAlternatives>> {
        let [Term::Pos(id)] = *terms else { return Ok(None) };
        if self.context.assertions(id) != set(&[Keyword::AnyOf]) {
            return Ok(None);
        }
        let Some(at) = self.context.doc.get(id, Keyword::AnyOf) else { return Ok(None) };
        let refers = |&branch: &Id| self.context.doc.names(branch).meet(keyword_set::REFERENCES);
        if !self.context.doc.elements(at).iter().any(refers) {
            return Ok(None);
        }
        self.grounded.check(&mut self.context, id)?;
        let (mut elsewhere, mut here) = (SmallVec::new(), Vec::<Terms>::new());
        for branch in self.context.schemas(at)? {
            let target = self.context.follow(branch)?;
            if target != branch && holds_parts(&self.context, target) {
                elsewhere.push(Term::Pos(branch));
            } else {
                here.push(smallvec![Term::Pos(branch)]);
            }
        }
        if elsewhere.is_empty() {
            return Ok(None);
        }
        warn_unknown(&mut self.context, id);
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
}

/// Returns true if a schema has keywords about properties or items, and lists no values.
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
