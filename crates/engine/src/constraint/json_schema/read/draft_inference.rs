//! The draft that the keywords of a document show, for documents that name none.
//!
//! Older drafts are common in lists of tools, and rarely named there. The newest draft that has the
//! keywords is taken, so newer keywords next to them count.
//!
//! # Cost
//!
//! One pass over the keyword sets. Schemas are visited only if there is a sign.

use super::drafts::SchemaDraft;
use super::keywords::{Keyword, NAMING, PassiveKeyword, set};
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json::symbol_set::SymbolSet;

/// Keywords that show which draft a document follows.
const SIGNS: SymbolSet = set(&[Keyword::Items, Keyword::RecursiveRef]).or(NAMING);

/// A list of schemas in `items`.
const ITEM_LISTS: u8 = 1;
/// A name of a schema in `$id`, as up to draft 7.
const NAMED_BY_ID: u8 = 2;
/// A name of a schema in `id`, as in draft 4, to which something refers.
const NAMED_BY_OLD_ID: u8 = 4;
/// `$recursiveRef` or `$recursiveAnchor`.
const RECURSIVE: u8 = 8;

/// Returns the draft that the keywords of a schema show; `None` without a sign of an older one.
pub(super) fn infer_draft(doc: &Doc, root: Id) -> Option<SchemaDraft> {
    let shows = |id: Id| {
        let keys = doc.names(id);
        keys.meet(SIGNS) && signs(doc, id) != 0
    };
    // Most documents have no sign, also not in their data.
    if !(0..doc.len() as u32).map(Id).any(shows) {
        return None;
    }
    let mut all = 0;
    doc.each_schema(root, |id| all |= signs(doc, id));
    let newer = (0..doc.len() as u32).any(|id| doc.get(Id(id), Keyword::PrefixItems).is_some());
    if newer || all == 0 {
        return None;
    }
    Some(match all & (NAMED_BY_ID | NAMED_BY_OLD_ID) {
        NAMED_BY_OLD_ID => SchemaDraft::D4,
        0 => SchemaDraft::D2019,
        _ => SchemaDraft::D7,
    })
}

/// Returns what a schema shows about its draft, a bit for each sign.
fn signs(doc: &Doc, id: Id) -> u8 {
    let value = |name: Symbol| doc.get(id, name);
    let lists = value(Keyword::Items.into()).is_some_and(|at| matches!(doc.value(at), Value::Array { .. }));
    let recursive = [Keyword::RecursiveRef.into(), PassiveKeyword::RecursiveAnchor.into()];
    let anchor = |name: PassiveKeyword| {
        let text = value(name.into()).and_then(|at| doc.string(at)).map(|name| doc.name(name));
        text.is_some_and(|text| text.len() > 1 && text.starts_with('#'))
    };
    let signs = [
        (lists, ITEM_LISTS),
        (anchor(PassiveKeyword::Id), NAMED_BY_ID),
        (anchor(PassiveKeyword::OldId), NAMED_BY_OLD_ID),
        (recursive.into_iter().any(|name| value(name).is_some()), RECURSIVE),
    ];
    signs.into_iter().filter(|sign| sign.0).fold(0, |all, sign| all | sign.1)
}
