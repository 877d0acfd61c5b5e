//! Sets of keywords that several parts of the front end need.

use super::drafts::SchemaDraft;
use super::keywords::{Keyword, KeywordKind, language, of_kinds};
use crate::constraint::json::document::Symbol;
use crate::constraint::json::symbol_set::SymbolSet;

/// Keywords that can make an instance invalid.
pub(super) const ASSERTING: SymbolSet = of_kinds(&[
    KeywordKind::Assertion,
    KeywordKind::Extension,
    KeywordKind::InPlace,
    KeywordKind::Parts,
    KeywordKind::Reference,
]);
/// Keywords of the vocabulary of assertions, which a metaschema can omit.
pub(super) const VALIDATION: SymbolSet = of_kinds(&[KeywordKind::Assertion]);
/// Keywords that refer to another schema.
pub(super) const REFERENCES: SymbolSet = of_kinds(&[KeywordKind::Reference]);
/// Keywords whose schemas apply to the same value.
pub(super) const IN_PLACE: SymbolSet = of_kinds(&[KeywordKind::Reference, KeywordKind::InPlace]);
/// Keywords that give a schema a name.
pub(super) const NAMING: SymbolSet = of_kinds(&[KeywordKind::Identifier]);

/// Returns the set of these keywords.
pub(super) const fn set(keywords: &[Keyword]) -> SymbolSet {
    let (mut set, mut i) = (SymbolSet(0), 0);
    while i < keywords.len() {
        set = set.or(SymbolSet::one(Symbol(keywords[i] as u32)));
        i += 1;
    }
    set
}

/// Returns the names that are not keywords of a draft.
pub(super) fn strange(draft: SchemaDraft) -> SymbolSet {
    SymbolSet::ALL.without(known(|name| draft.knows(name)))
}

/// Returns the keywords that may assert something in a draft; `unasserted`: the metaschema omits
/// the vocabulary of assertions.
pub(super) fn asserting(draft: SchemaDraft, unasserted: bool) -> SymbolSet {
    let all = ASSERTING.and(known(|name| draft.knows(name)));
    if unasserted { all.without(VALIDATION) } else { all }
}

/// Returns the keywords that pass a test.
fn known(test: impl Fn(Symbol) -> bool) -> SymbolSet {
    let names = language().symbols.all().filter(|&name| test(name));
    names.fold(SymbolSet::default(), |set, name| set.or(SymbolSet::one(name)))
}
