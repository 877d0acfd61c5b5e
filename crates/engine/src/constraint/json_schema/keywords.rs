//! Keywords of JSON Schema as small integers, the drafts, and "did you mean" for misspelt keywords.
//!
//! The keywords are interned first in every document, so a member name *is* its keyword. Dispatch
//! is an integer match.
//!
//! # Alternatives considered
//!
//! A table of strings, searched for each member, was rejected as slower and not exhaustive.

use std::sync::OnceLock;

use super::keyword_set::KeywordSet;
use crate::constraint::json::document::{Symbol, SymbolTable};

/// Returns the table of keywords, interned in order; made once and shared by all documents.
pub(in crate::constraint) fn words() -> &'static SymbolTable {
    static ALL: OnceLock<SymbolTable> = OnceLock::new();
    let make = || {
        let mut words = SymbolTable::default();
        for word in KEYWORDS {
            words.intern(word);
        }
        words
    };
    ALL.get_or_init(make)
}

macro_rules! keywords {
    ($($constant:ident = $text:literal,)*) => {
        /// Texts of the keywords, in the order of their names.
        pub(super) const KEYWORDS: &[&str] = &[$($text),*];
        keywords!(@number 0; $($constant,)*);
    };
    (@number $n:expr; $constant:ident, $($rest:ident,)*) => {
        // Annotations have names so that they are known words; not all names are used.
        #[allow(dead_code)]
        pub(super) const $constant: Symbol = Symbol($n);
        keywords!(@number $n + 1; $($rest,)*);
    };
    (@number $n:expr;) => {
        /// Number of known keywords: names below it are keywords.
        pub(super) const COUNT: u32 = $n;
    };
}

keywords! {
    TYPE = "type",
    ENUM = "enum",
    CONST = "const",
    PROPERTIES = "properties",
    REQUIRED = "required",
    ADDITIONAL_PROPERTIES = "additionalProperties",
    PATTERN_PROPERTIES = "patternProperties",
    PROPERTY_NAMES = "propertyNames",
    MIN_PROPERTIES = "minProperties",
    MAX_PROPERTIES = "maxProperties",
    DEPENDENCIES = "dependencies",
    DEPENDENT_REQUIRED = "dependentRequired",
    DEPENDENT_SCHEMAS = "dependentSchemas",
    UNEVALUATED_PROPERTIES = "unevaluatedProperties",
    ITEMS = "items",
    PREFIX_ITEMS = "prefixItems",
    ADDITIONAL_ITEMS = "additionalItems",
    UNEVALUATED_ITEMS = "unevaluatedItems",
    MIN_ITEMS = "minItems",
    MAX_ITEMS = "maxItems",
    UNIQUE_ITEMS = "uniqueItems",
    CONTAINS = "contains",
    MIN_CONTAINS = "minContains",
    MAX_CONTAINS = "maxContains",
    MIN_LENGTH = "minLength",
    MAX_LENGTH = "maxLength",
    PATTERN = "pattern",
    FORMAT = "format",
    MINIMUM = "minimum",
    MAXIMUM = "maximum",
    EXCLUSIVE_MINIMUM = "exclusiveMinimum",
    EXCLUSIVE_MAXIMUM = "exclusiveMaximum",
    MULTIPLE_OF = "multipleOf",
    ALL_OF = "allOf",
    ANY_OF = "anyOf",
    ONE_OF = "oneOf",
    NOT = "not",
    IF = "if",
    THEN = "then",
    ELSE = "else",
    REF = "$ref",
    DYNAMIC_REF = "$dynamicRef",
    RECURSIVE_REF = "$recursiveRef",
    X_VERBATIM = "x-verbatim",
    // Keywords from here on assert nothing.
    ID = "$id",
    OLD_ID = "id",
    SCHEMA = "$schema",
    ANCHOR = "$anchor",
    DYNAMIC_ANCHOR = "$dynamicAnchor",
    DEFS = "$defs",
    DEFINITIONS = "definitions",
    DEFAULT = "default",
    EXAMPLES = "examples",
    EXAMPLE = "example",
    ENUM_NAMES = "enumNames",
    TITLE = "title",
    DESCRIPTION = "description",
    COMMENT = "$comment",
    READ_ONLY = "readOnly",
    WRITE_ONLY = "writeOnly",
    DEPRECATED = "deprecated",
    VOCABULARY = "$vocabulary",
    RECURSIVE_ANCHOR = "$recursiveAnchor",
    CONTENT_ENCODING = "contentEncoding",
    CONTENT_MEDIA_TYPE = "contentMediaType",
    CONTENT_SCHEMA = "contentSchema",
}

/// Returns true if the keyword can make an instance invalid (by itself or with its siblings).
pub(super) fn asserts(name: Symbol) -> bool {
    name.0 < ID.0
}

/// Returns true if the keyword's value, if it is a string, is a text for readers.
pub(in crate::constraint) fn is_annotation_text(name: Symbol) -> bool {
    matches!(name, TITLE | DESCRIPTION | COMMENT)
}

/// Returns true if the keyword's value is a value of the instance, or a list of them.
pub(in crate::constraint) fn is_literal(name: Symbol) -> bool {
    matches!(name, CONST | ENUM)
}

/// Returns true if the members of the keyword's value are named after parts of the instance or
/// schemas.
pub(in crate::constraint) fn maps_names(name: Symbol) -> bool {
    matches!(name, PROPERTIES | PATTERN_PROPERTIES | DEFS | DEFINITIONS)
        || matches!(name, DEPENDENCIES | DEPENDENT_REQUIRED | DEPENDENT_SCHEMAS)
}

/// Returns true if the keyword refers to another schema.
pub(super) fn is_reference(name: Symbol) -> bool {
    matches!(name, REF | DYNAMIC_REF | RECURSIVE_REF)
}

/// Returns true if the keyword belongs to the vocabulary of assertions, which a metaschema can
/// omit.
pub(super) fn validates(name: Symbol) -> bool {
    matches!(name, TYPE | ENUM | CONST | REQUIRED | DEPENDENT_REQUIRED | PATTERN | MULTIPLE_OF)
        || matches!(name, MIN_PROPERTIES | MAX_PROPERTIES | MIN_ITEMS | MAX_ITEMS | UNIQUE_ITEMS)
        || matches!(name, MIN_CONTAINS | MAX_CONTAINS | MIN_LENGTH | MAX_LENGTH)
        || matches!(name, MINIMUM | MAXIMUM | EXCLUSIVE_MINIMUM | EXCLUSIVE_MAXIMUM)
}

/// Version of JSON Schema that a document is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SchemaDraft {
    D4,
    D6,
    D7,
    D2019,
    D2020,
}

impl SchemaDraft {
    /// Returns the draft that a `$schema` URI names: draft 4 for the ones before it, and the newest
    /// without a URI or for an unknown one.
    pub fn of(uri: Option<&str>) -> SchemaDraft {
        let default = if Self::is_before_4(uri) { SchemaDraft::D4 } else { SchemaDraft::D2020 };
        Self::named(uri).unwrap_or(default)
    }

    /// Returns the draft from 4 on that a `$schema` URI names, if it names one.
    pub fn named(uri: Option<&str>) -> Option<SchemaDraft> {
        let uri = uri?;
        let old = uri.match_indices("draft-0").filter_map(|(at, part)| {
            match uri.as_bytes().get(at + part.len())? {
                b'4' => Some(SchemaDraft::D4),
                b'6' => Some(SchemaDraft::D6),
                b'7' => Some(SchemaDraft::D7),
                _ => None,
            }
        });
        old.min().or_else(|| {
            let newer = [("2019-09", SchemaDraft::D2019), ("2020-12", SchemaDraft::D2020)];
            newer.into_iter().find(|(part, _)| uri.contains(part)).map(|(_, draft)| draft)
        })
    }

    /// Returns true if a `$schema` URI names draft 3 or an older one.
    pub fn is_before_4(uri: Option<&str>) -> bool {
        uri.is_some_and(|uri| ["draft-01", "draft-02", "draft-03"].iter().any(|part| uri.contains(part)))
    }

    /// Returns the names that are not keywords of this draft.
    pub fn strange(self) -> KeywordSet {
        let names = (0..COUNT).map(Symbol).filter(|&name| !self.knows(name));
        names.fold(KeywordSet::OTHERS, |keys, name| keys.or(KeywordSet::of(&[name])))
    }

    /// Returns true if the keyword exists in this draft; otherwise it is an unknown keyword.
    pub fn knows(self, name: Symbol) -> bool {
        match name {
            CONST | CONTAINS | PROPERTY_NAMES => self >= SchemaDraft::D6,
            IF | THEN | ELSE => self >= SchemaDraft::D7,
            DEPENDENT_REQUIRED
            | DEPENDENT_SCHEMAS
            | UNEVALUATED_ITEMS
            | UNEVALUATED_PROPERTIES
            | MIN_CONTAINS
            | MAX_CONTAINS => self >= SchemaDraft::D2019,
            PREFIX_ITEMS | DYNAMIC_REF => self >= SchemaDraft::D2020,
            RECURSIVE_REF => self == SchemaDraft::D2019,
            ADDITIONAL_ITEMS => self <= SchemaDraft::D2019,
            // OpenAPI and a form generator have these.
            EXAMPLE | ENUM_NAMES => false,
            _ => true,
        }
    }
}

/// Returns the assertion keyword that `word` is probably a misspelling of.
pub(super) fn did_you_mean(word: &str) -> Option<&'static str> {
    if word.len() > 24 || word.starts_with("x-") {
        return None;
    }
    let own = letters(word);
    let found = (0..ID.0 as usize).find(|&i| {
        let known = KEYWORDS[i];
        let near = match known.len() {
            0..=4 => 0,
            5..=7 => 1,
            _ => 2,
        };
        // One edit adds at most one letter that only one of the two words has.
        let apart = (LETTERS[i] & !own).count_ones().max((own & !LETTERS[i]).count_ones());
        apart <= near
            && (known.eq_ignore_ascii_case(word) || (near > 0 && within(known, word, near as usize)))
    });
    found.map(|i| KEYWORDS[i])
}

/// Letters that occur in each keyword.
const LETTERS: [u32; KEYWORDS.len()] = {
    let mut sets = [0; KEYWORDS.len()];
    let mut i = 0;
    while i < sets.len() {
        sets[i] = letters(KEYWORDS[i]);
        i += 1;
    }
    sets
};

/// Returns a bit for each letter of a word. Case does not count, and other bytes share the bits of
/// some letters.
const fn letters(word: &str) -> u32 {
    let (mut set, mut i) = (0, 0);
    while i < word.len() {
        set |= 1 << (word.as_bytes()[i] & 31);
        i += 1;
    }
    set
}

/// Returns true if the edit distance of two words of at most 24 bytes is at most `limit`. The edits
/// are insert, delete and replace; case does not count.
fn within(a: &str, b: &str, limit: usize) -> bool {
    if a.len().abs_diff(b.len()) > limit {
        return false;
    }
    let b = b.as_bytes();
    let mut row: [usize; 25] = std::array::from_fn(|i| i);
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(!x.eq_ignore_ascii_case(&y))).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()] <= limit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_positions() {
        assert_eq!(KEYWORDS[REF.0 as usize], "$ref");
        assert_eq!(KEYWORDS[CONTENT_SCHEMA.0 as usize], "contentSchema");
        assert_eq!(COUNT as usize, KEYWORDS.len());
    }

    #[test]
    fn misspellings() {
        assert_eq!(did_you_mean("additionalproperties"), Some("additionalProperties"));
        assert_eq!(did_you_mean("propertes"), Some("properties"));
        assert_eq!(did_you_mean("maxLenght"), Some("maxLength"));
        assert_eq!(did_you_mean("version"), None);
        assert_eq!(did_you_mean("nullable"), None);
    }

    #[test]
    fn letters_rule_out_no_misspelling() {
        let mut random = ffwd_testkit::random::Random::new(11);
        let mut meant = 0;
        for round in 0..4_000 {
            let mut word = KEYWORDS[round % ID.0 as usize].as_bytes().to_vec();
            for _ in 0..random.below(4) {
                let (at, letter) = (random.below(word.len()), b"aeimnprstATY_$"[random.below(14)]);
                match random.below(3) {
                    0 => word[at] = letter,
                    1 => word.insert(at, letter),
                    _ if word.len() > 1 => drop(word.remove(at)),
                    _ => {}
                }
            }
            let word = String::from_utf8(word).unwrap();
            let near = |known: &str| [0, 1, 2][usize::from(known.len() > 4) + usize::from(known.len() > 7)];
            let slow = KEYWORDS[..ID.0 as usize].iter().copied().find(|known| {
                word.len() <= 24
                    && !word.starts_with("x-")
                    && (known.eq_ignore_ascii_case(&word)
                        || near(known) > 0 && within(known, &word, near(known)))
            });
            assert_eq!(did_you_mean(&word), slow, "{word}");
            meant += usize::from(slow.is_some());
        }
        assert!((1_000..3_900).contains(&meant), "{meant}");
    }
}
