//! Keywords of JSON Schema: one table of their names, drafts, kinds and values, as two closed
//! enums.
//!
//! [`Keyword`] has those that can make an instance invalid. What they mean is decided by `match`es
//! without a default, in `normalize`, `negate` and `validate`, and by the columns of the table. So
//! a keyword that is forgotten there does not compile. [`PassiveKeyword`] has the others, which no
//! such match needs.
//!
//! The keywords are interned first in every schema, in the order of the table. So the symbol of a
//! member name *is* its keyword, and dispatch is an integer match.
//!
//! # Alternatives considered
//!
//! A table of strings, searched for each member, was rejected as slower and not exhaustive. Symbols
//! as constants were rejected: a `match` over them needs a default, which hides what is missing.

use std::sync::OnceLock;

use super::drafts::{Drafts, SchemaDraft};
use super::types::Types;
use crate::constraint::json::document::{Language, Symbol, TextFilter};
use crate::constraint::json::symbol_set::{FIRST_SHARED, SymbolSet};
use crate::constraint::json::symbols::SymbolTable;

use SchemaDraft::{D6, D7, D2019, D2020};

/// What a keyword does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeywordKind {
    /// It limits values, in the vocabulary of assertions, which a metaschema can omit.
    Assertion,
    /// It limits values, in another vocabulary.
    Extension,
    /// It applies schemas to the same value.
    InPlace,
    /// It applies schemas to the items, the properties or their names.
    Parts,
    /// It applies the schema that it refers to.
    Reference,
    /// It gives a schema a name.
    Identifier,
    /// It holds schemas to which others refer.
    Definitions,
    /// It is a text for readers, which is not kept.
    ReaderText,
    /// It informs readers and programs.
    Annotation,
}

/// Value of a keyword.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operand {
    Schema,
    /// A list of schemas.
    Schemas,
    SchemaOrSchemas,
    /// Schemas under names of the user.
    SchemaMap,
    /// Schemas or lists of property names, under names of the user.
    SchemaOrNamesMap,
    /// Lists of property names, under names of the user.
    NamesMap,
    /// A list of property names.
    Names,
    /// A type or a list of types.
    Types,
    /// A value of the instance.
    Value,
    /// A list of values of the instance.
    Values,
    Number,
    /// An integer that is not negative.
    Count,
    Flag,
    Text,
    /// Any value; a schema inside it does not count.
    Data,
    /// Anything that is not read.
    Other,
}

/// What a keyword evaluates, for `unevaluatedProperties` and `unevaluatedItems`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evaluates {
    Nothing,
    /// The properties or items that it describes.
    Parts,
    /// What the schema evaluates that it refers to.
    Target,
    /// What all of its schemas evaluate.
    Every,
    /// What those of its schemas evaluate that hold.
    Valid,
    /// What the one schema evaluates that holds.
    One,
    /// What the condition evaluates if it holds, and the branch.
    Branches,
    /// What the schemas of those properties evaluate that exist.
    Present,
}

/// A row of the table.
#[derive(Debug)]
pub(crate) struct Definition {
    pub name: &'static str,
    /// Drafts that have the keyword.
    pub drafts: Drafts,
    pub kind: KeywordKind,
    pub operand: Operand,
    /// Types of the values that the keyword is about; it accepts all others.
    pub about: Types,
    pub evaluates: Evaluates,
}

macro_rules! keywords {
    (
        asserting { $($keyword:ident = $text:literal, $drafts:expr, $kind:ident, $operand:ident, $about:expr,
            $evaluates:ident;)* }
        passive { $($passive:ident = $name:literal, $since:expr, $role:ident, $value:ident;)* }
    ) => {
        /// A keyword that can make an instance invalid, by itself or with its siblings.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub(crate) enum Keyword { $($keyword),* }

        /// A keyword that asserts nothing: an identifier, a definition or an annotation.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        // Annotations are here so that they are known words; not all of them are read.
        #[allow(dead_code)]
        pub(crate) enum PassiveKeyword { $($passive),* }

        impl Keyword {
            /// All of them, in the order of their symbols.
            pub(crate) const ALL: &[Keyword] = &[$(Keyword::$keyword),*];
        }

        /// All keywords, in the order of their symbols: first those that assert.
        const TABLE: &[Definition] = &[
            $(Definition {
                name: $text, drafts: $drafts, kind: KeywordKind::$kind, operand: Operand::$operand, about: $about,
                evaluates: Evaluates::$evaluates
            },)*
            $(Definition {
                name: $name, drafts: $since, kind: KeywordKind::$role, operand: Operand::$value, about: Types::ALL,
                evaluates: Evaluates::Nothing
            },)*
        ];
    };
}

keywords! {
    // Keyword, its name, the drafts that have it, its kind, its value, the types that it is
    // about, and what it evaluates.
    asserting {
        Type = "type", Drafts::ALL, Assertion, Types, Types::ALL, Nothing;
        Enum = "enum", Drafts::ALL, Assertion, Values, Types::ALL, Nothing;
        Const = "const", Drafts::from(D6), Assertion, Value, Types::ALL, Nothing;
        Properties = "properties", Drafts::ALL, Parts, SchemaMap, Types::OBJECT, Parts;
        Required = "required", Drafts::ALL, Assertion, Names, Types::OBJECT, Nothing;
        AdditionalProperties = "additionalProperties", Drafts::ALL, Parts, Schema, Types::OBJECT, Parts;
        PatternProperties = "patternProperties", Drafts::ALL, Parts, SchemaMap, Types::OBJECT, Parts;
        PropertyNames = "propertyNames", Drafts::from(D6), Parts, Schema, Types::OBJECT, Nothing;
        MinProperties = "minProperties", Drafts::ALL, Assertion, Count, Types::OBJECT, Nothing;
        MaxProperties = "maxProperties", Drafts::ALL, Assertion, Count, Types::OBJECT, Nothing;
        Dependencies = "dependencies", Drafts::ALL, InPlace, SchemaOrNamesMap, Types::OBJECT, Present;
        DependentRequired = "dependentRequired", Drafts::from(D2019), Assertion, NamesMap, Types::OBJECT, Nothing;
        DependentSchemas = "dependentSchemas", Drafts::from(D2019), InPlace, SchemaMap, Types::OBJECT, Present;
        UnevaluatedProperties = "unevaluatedProperties", Drafts::from(D2019), Parts, Schema, Types::OBJECT, Parts;
        Items = "items", Drafts::ALL, Parts, SchemaOrSchemas, Types::ARRAY, Parts;
        PrefixItems = "prefixItems", Drafts::from(D2020), Parts, Schemas, Types::ARRAY, Parts;
        AdditionalItems = "additionalItems", Drafts::until(D2019), Parts, Schema, Types::ARRAY, Parts;
        UnevaluatedItems = "unevaluatedItems", Drafts::from(D2019), Parts, Schema, Types::ARRAY, Parts;
        MinItems = "minItems", Drafts::ALL, Assertion, Count, Types::ARRAY, Nothing;
        MaxItems = "maxItems", Drafts::ALL, Assertion, Count, Types::ARRAY, Nothing;
        UniqueItems = "uniqueItems", Drafts::ALL, Assertion, Flag, Types::ARRAY, Nothing;
        Contains = "contains", Drafts::from(D6), Parts, Schema, Types::ARRAY, Parts;
        MinContains = "minContains", Drafts::from(D2019), Assertion, Count, Types::ARRAY, Nothing;
        MaxContains = "maxContains", Drafts::from(D2019), Assertion, Count, Types::ARRAY, Nothing;
        MinLength = "minLength", Drafts::ALL, Assertion, Count, Types::STRING, Nothing;
        MaxLength = "maxLength", Drafts::ALL, Assertion, Count, Types::STRING, Nothing;
        Pattern = "pattern", Drafts::ALL, Assertion, Text, Types::STRING, Nothing;
        Format = "format", Drafts::ALL, Extension, Text, Types::NUMBER.or(Types::STRING), Nothing;
        Minimum = "minimum", Drafts::ALL, Assertion, Number, Types::NUMBER, Nothing;
        Maximum = "maximum", Drafts::ALL, Assertion, Number, Types::NUMBER, Nothing;
        ExclusiveMinimum = "exclusiveMinimum", Drafts::ALL, Assertion, Number, Types::NUMBER, Nothing;
        ExclusiveMaximum = "exclusiveMaximum", Drafts::ALL, Assertion, Number, Types::NUMBER, Nothing;
        MultipleOf = "multipleOf", Drafts::ALL, Assertion, Number, Types::NUMBER, Nothing;
        AllOf = "allOf", Drafts::ALL, InPlace, Schemas, Types::ALL, Every;
        AnyOf = "anyOf", Drafts::ALL, InPlace, Schemas, Types::ALL, Valid;
        OneOf = "oneOf", Drafts::ALL, InPlace, Schemas, Types::ALL, One;
        Not = "not", Drafts::ALL, InPlace, Schema, Types::ALL, Nothing;
        If = "if", Drafts::from(D7), InPlace, Schema, Types::ALL, Branches;
        Then = "then", Drafts::from(D7), InPlace, Schema, Types::ALL, Nothing;
        Else = "else", Drafts::from(D7), InPlace, Schema, Types::ALL, Nothing;
        Ref = "$ref", Drafts::ALL, Reference, Text, Types::ALL, Target;
        DynamicRef = "$dynamicRef", Drafts::from(D2020), Reference, Text, Types::ALL, Target;
        RecursiveRef = "$recursiveRef", Drafts::only(D2019), Reference, Text, Types::ALL, Target;
        XVerbatim = "x-verbatim", Drafts::ALL, Extension, Flag, Types::STRING, Nothing;
    }
    // The same without types: these assert and evaluate nothing.
    passive {
        Id = "$id", Drafts::ALL, Identifier, Text;
        OldId = "id", Drafts::ALL, Identifier, Text;
        Schema = "$schema", Drafts::ALL, Annotation, Text;
        Anchor = "$anchor", Drafts::ALL, Identifier, Text;
        DynamicAnchor = "$dynamicAnchor", Drafts::ALL, Identifier, Text;
        Defs = "$defs", Drafts::ALL, Definitions, SchemaMap;
        Definitions = "definitions", Drafts::ALL, Definitions, SchemaMap;
        Default = "default", Drafts::ALL, Annotation, Data;
        Examples = "examples", Drafts::ALL, Annotation, Data;
        Example = "example", Drafts::NONE, Annotation, Data;
        EnumNames = "enumNames", Drafts::NONE, Annotation, Other;
        Title = "title", Drafts::ALL, ReaderText, Text;
        Description = "description", Drafts::ALL, ReaderText, Text;
        Comment = "$comment", Drafts::ALL, ReaderText, Text;
        ReadOnly = "readOnly", Drafts::ALL, Annotation, Flag;
        WriteOnly = "writeOnly", Drafts::ALL, Annotation, Flag;
        Deprecated = "deprecated", Drafts::ALL, Annotation, Flag;
        Vocabulary = "$vocabulary", Drafts::ALL, Annotation, Other;
        RecursiveAnchor = "$recursiveAnchor", Drafts::ALL, Identifier, Flag;
        ContentEncoding = "contentEncoding", Drafts::ALL, Annotation, Text;
        ContentMediaType = "contentMediaType", Drafts::ALL, Annotation, Text;
        ContentSchema = "contentSchema", Drafts::ALL, Annotation, Other;
    }
}

// Each keyword has a bit of its own in a set of symbols.
const _: () = assert!(TABLE.len() as u32 <= FIRST_SHARED);

impl From<Keyword> for Symbol {
    fn from(keyword: Keyword) -> Symbol {
        Symbol(keyword as u32)
    }
}

impl From<PassiveKeyword> for Symbol {
    fn from(keyword: PassiveKeyword) -> Symbol {
        Symbol(Keyword::ALL.len() as u32 + keyword as u32)
    }
}

impl PartialEq<Keyword> for Symbol {
    fn eq(&self, keyword: &Keyword) -> bool {
        *self == Symbol::from(*keyword)
    }
}

impl Keyword {
    /// Returns the keyword of a name, if it is one that asserts.
    pub(crate) fn of(name: Symbol) -> Option<Keyword> {
        Keyword::ALL.get(name.0 as usize).copied()
    }

    pub(crate) const fn definition(self) -> &'static Definition {
        &TABLE[self as usize]
    }

    pub(crate) const fn name(self) -> &'static str {
        self.definition().name
    }
}

impl Definition {
    /// Returns the row of a name; `None` if it is not a keyword.
    pub(crate) fn of(name: Symbol) -> Option<&'static Definition> {
        TABLE.get(name.0 as usize)
    }
}

impl SchemaDraft {
    /// Returns true if a name is a keyword of this draft.
    pub(crate) fn knows(self, name: Symbol) -> bool {
        Definition::of(name).is_some_and(|own| own.drafts.contains(self))
    }
}

/// Returns what the parser of JSON needs to know about schemas; made once.
pub(crate) fn language() -> &'static Language {
    static ALL: OnceLock<Language> = OnceLock::new();
    ALL.get_or_init(|| {
        let mut symbols = SymbolTable::default();
        for keyword in TABLE {
            symbols.intern(keyword.name);
        }
        let filter = TextFilter { texts: TEXTS, literals: LITERALS, free_names: FREE_NAMES };
        Language { symbols, filter }
    })
}

/// Returns the keywords of some kinds, or with some operands.
const fn with(kinds: &[KeywordKind], operands: &[Operand]) -> SymbolSet {
    let (mut set, mut at) = (SymbolSet(0), 0);
    while at < TABLE.len() {
        let (mut found, mut i) = (false, 0);
        while i < kinds.len() || i < operands.len() {
            found |= i < kinds.len() && kinds[i] as u8 == TABLE[at].kind as u8;
            found |= i < operands.len() && operands[i] as u8 == TABLE[at].operand as u8;
            i += 1;
        }
        if found {
            set = set.or(SymbolSet::one(Symbol(at as u32)));
        }
        at += 1;
    }
    set
}

/// Keywords whose values are texts for readers, if they are strings.
const TEXTS: SymbolSet = with(&[KeywordKind::ReaderText], &[]);
/// Keywords whose values are values of the instance.
const LITERALS: SymbolSet = with(&[], &[Operand::Value, Operand::Values]);
/// Keywords whose values have members with names of the user.
const FREE_NAMES: SymbolSet = with(&[], &[Operand::SchemaMap, Operand::SchemaOrNamesMap, Operand::NamesMap]);
/// Keywords that can make an instance invalid.
pub(super) const ASSERTING: SymbolSet = SymbolSet((1 << Keyword::ALL.len()) - 1);
/// Keywords of the vocabulary of assertions, which a metaschema can omit.
const VALIDATION: SymbolSet = with(&[KeywordKind::Assertion], &[]);
/// Keywords that refer to another schema.
pub(crate) const REFERENCES: SymbolSet = with(&[KeywordKind::Reference], &[]);
/// Keywords whose schemas apply to the same value.
pub(crate) const IN_PLACE: SymbolSet = with(&[KeywordKind::Reference, KeywordKind::InPlace], &[]);
/// Keywords that give a schema a name.
pub(super) const NAMING: SymbolSet = with(&[KeywordKind::Identifier], &[]);

/// Returns the set of these keywords.
pub(crate) const fn set(keywords: &[Keyword]) -> SymbolSet {
    let (mut set, mut i) = (SymbolSet(0), 0);
    while i < keywords.len() {
        set = set.or(SymbolSet::one(Symbol(keywords[i] as u32)));
        i += 1;
    }
    set
}

/// Returns the names that are not keywords of a draft.
pub(super) fn strange(draft: SchemaDraft) -> SymbolSet {
    SymbolSet::ALL.without(known(draft))
}

/// Returns the keywords that may assert something in a draft; `unasserted`: the metaschema omits
/// the vocabulary of assertions.
pub(super) fn asserting(draft: SchemaDraft, unasserted: bool) -> SymbolSet {
    let all = ASSERTING.and(known(draft));
    if unasserted { all.without(VALIDATION) } else { all }
}

/// Returns the keywords of a draft.
fn known(draft: SchemaDraft) -> SymbolSet {
    let names = language().symbols.all().filter(|&name| draft.knows(name));
    names.fold(SymbolSet::default(), |set, name| set.or(SymbolSet::one(name)))
}
