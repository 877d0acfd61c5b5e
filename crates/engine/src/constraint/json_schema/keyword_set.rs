//! Set of keywords of an object, as a bitmap in one 64-bit word.
//!
//! Most queries about a schema are whether it has one keyword or some of a few, and most answers
//! are no. The set is made once, when the object is read.
//!
//! # Cost
//!
//! A query is one operation.
//!
//! # Alternatives considered
//!
//! Scanning the members for each query was rejected: there are several queries even for a schema
//! with few keywords, and compiling was measurably slower.

use super::keywords as kw;
use crate::constraint::json::document::Symbol;

/// A set of keywords: a bit for each of the first ones, and one for all other names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::constraint) struct KeywordSet(pub u64);

/// Keywords from this one on have no bit of their own.
const OTHERS: Symbol = kw::CONTENT_ENCODING;
const _: () = assert!(OTHERS.0 < 64);

impl KeywordSet {
    /// Names that share a bit.
    pub const OTHERS: KeywordSet = KeywordSet::of(&[OTHERS]);
    /// Keywords that refer to another schema.
    pub const REFERENCES: KeywordSet = KeywordSet::of(&[kw::REF, kw::DYNAMIC_REF, kw::RECURSIVE_REF]);
    /// Keywords whose schemas apply to the same value.
    pub const IN_PLACE: KeywordSet = KeywordSet::REFERENCES.or(KeywordSet::of(&[
        kw::ALL_OF,
        kw::ANY_OF,
        kw::ONE_OF,
        kw::NOT,
        kw::IF,
        kw::THEN,
        kw::ELSE,
        kw::DEPENDENCIES,
        kw::DEPENDENT_SCHEMAS,
    ]));
    /// Keywords that give a schema a name.
    pub const NAMING: KeywordSet =
        KeywordSet::of(&[kw::ID, kw::OLD_ID, kw::ANCHOR, kw::DYNAMIC_ANCHOR, kw::RECURSIVE_ANCHOR]);

    /// Returns the set of these names.
    pub const fn of(names: &[Symbol]) -> KeywordSet {
        let (mut set, mut i) = (0, 0);
        while i < names.len() {
            let own = if names[i].0 < OTHERS.0 { names[i].0 } else { OTHERS.0 };
            set |= 1 << own;
            i += 1;
        }
        KeywordSet(set)
    }

    /// Returns the union.
    pub const fn or(self, other: KeywordSet) -> KeywordSet {
        KeywordSet(self.0 | other.0)
    }

    /// Returns the intersection.
    pub const fn and(self, other: KeywordSet) -> KeywordSet {
        KeywordSet(self.0 & other.0)
    }

    /// Returns the keywords that are not in `other`.
    pub const fn without(self, other: KeywordSet) -> KeywordSet {
        KeywordSet(self.0 & !other.0)
    }

    /// Returns true if the intersection is not empty.
    pub const fn meet(self, other: KeywordSet) -> bool {
        self.0 & other.0 != 0
    }

    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns true if the set may contain the name. For a name without a bit of its own, another
    /// such name may be meant.
    pub const fn may_have(self, name: Symbol) -> bool {
        self.meet(KeywordSet::of(&[name]))
    }
}

#[cfg(test)]
mod tests {
    use super::super::keywords::SchemaDraft;
    use super::*;

    #[test]
    fn each_keyword_that_is_asked_for_has_a_bit_of_its_own() {
        let all: Vec<Symbol> = (0..kw::COUNT).map(Symbol).collect();
        for &name in &all {
            let alone = all.iter().filter(|&&n| KeywordSet::of(&[n]) == KeywordSet::of(&[name])).count() == 1;
            assert!(alone || !kw::asserts(name) && KeywordSet::of(&[name]) == KeywordSet::OTHERS);
            let named = KeywordSet::NAMING.or(KeywordSet::IN_PLACE).may_have(name);
            assert!(alone || !named && SchemaDraft::D4.knows(name), "{name:?}");
        }
        assert_eq!(KeywordSet::of(&[Symbol(kw::COUNT), Symbol(u32::MAX)]), KeywordSet::OTHERS);
        assert!(!KeywordSet::IN_PLACE.meet(KeywordSet::OTHERS));
    }
}
