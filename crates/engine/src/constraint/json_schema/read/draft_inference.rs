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

/// What the schemas of a document show about its draft.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Signs {
    /// A list of schemas in `items`.
    item_lists: bool,
    /// A name of a schema in `$id`, as up to draft 7.
    named_by_id: bool,
    /// A name of a schema in `id`, as in draft 4, to which something refers.
    named_by_old_id: bool,
    recursive: bool,
}

/// Returns the draft that the keywords of a schema show; `None` without a sign of an older one.
pub fn infer_draft(doc: &Doc, root: Id) -> Option<SchemaDraft> {
    let shows = |id: Id| {
        let keys = doc.names(id);
        keys.meet(SIGNS) && signs(doc, id) != Signs::default()
    };
    // Most documents have no sign, also not in their data.
    if !(0..doc.len() as u32).map(Id).any(shows) {
        return None;
    }
    let mut all = Signs::default();
    doc.each_schema(root, |id| {
        let own = signs(doc, id);
        all.item_lists |= own.item_lists;
        all.named_by_id |= own.named_by_id;
        all.named_by_old_id |= own.named_by_old_id;
        all.recursive |= own.recursive;
    });
    let newer = (0..doc.len() as u32).any(|id| doc.get(Id(id), Keyword::PrefixItems).is_some());
    match all {
        _ if newer => None,
        Signs { named_by_id: false, named_by_old_id: true, .. } => Some(SchemaDraft::D4),
        Signs { named_by_id: true, .. } => Some(SchemaDraft::D7),
        Signs { item_lists: true, .. } | Signs { recursive: true, .. } => Some(SchemaDraft::D2019),
        _ => None,
    }
}

fn signs(doc: &Doc, id: Id) -> Signs {
    let value = |name: Symbol| doc.get(id, name);
    let anchor = |name: PassiveKeyword| {
        let text = value(name.into()).and_then(|at| doc.string(at)).map(|name| doc.name(name));
        text.is_some_and(|text| text.len() > 1 && text.starts_with('#'))
    };
    Signs {
        item_lists: value(Keyword::Items.into())
            .is_some_and(|at| matches!(doc.value(at), Value::Array { .. })),
        named_by_id: anchor(PassiveKeyword::Id),
        named_by_old_id: anchor(PassiveKeyword::OldId),
        recursive: value(Keyword::RecursiveRef.into()).is_some()
            || value(PassiveKeyword::RecursiveAnchor.into()).is_some(),
    }
}
