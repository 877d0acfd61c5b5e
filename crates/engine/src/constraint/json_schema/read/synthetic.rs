//! Synthetic schemas, which no document has: made where a negation or a merge needs one.
//!
//! They refer to values of the document, which stay where they are. In messages they have the
//! location of a value that they represent.
//!
//! # Cost
//!
//! Each adds a few values and is made once.
//!
//! # Alternatives considered
//!
//! Terms with values of their own: every part of the front end would have to know them.

use rustc_hash::FxHashMap;

use super::keywords::Keyword;
use crate::constraint::json::document::{Doc, Id, Symbol, Value};

/// The schemas and values that were made, so that each is made once.
#[derive(Default)]
pub(crate) struct SyntheticSchemas {
    /// `false` and `true`.
    constants: [Option<Id>; 2],
    /// Schemas of one keyword with a list of values.
    lists: FxHashMap<(Keyword, Box<[Id]>), Id>,
    numbers: FxHashMap<Symbol, Id>,
}

impl SyntheticSchemas {
    /// Returns a boolean outside the document tree.
    pub(crate) fn constant(&mut self, doc: &mut Doc, value: bool) -> Id {
        *self.constants[usize::from(value)].get_or_insert_with(|| doc.push(Value::Bool(value)))
    }

    /// Returns a number outside the document tree.
    pub(crate) fn number(&mut self, doc: &mut Doc, text: &str) -> Id {
        let name = doc.intern(text);
        *self.numbers.entry(name).or_insert_with(|| doc.push(Value::Number(name)))
    }

    /// Returns a schema `{"anyOf": schemas}` outside the document tree, in messages at the location
    /// of `like`.
    pub(crate) fn any_of(&mut self, doc: &mut Doc, schemas: &[Id], like: Id) -> Id {
        self.list(doc, (Keyword::AnyOf, schemas), like)
    }

    /// Returns a schema with the value as its only instance, outside the document tree.
    pub(crate) fn equal_to(&mut self, doc: &mut Doc, value: Id) -> Id {
        self.list(doc, (Keyword::Enum, &[value]), value)
    }

    /// Returns a schema with one keyword whose value is a list of values of the document; made
    /// once.
    fn list(&mut self, doc: &mut Doc, (keyword, values): (Keyword, &[Id]), like: Id) -> Id {
        let make = || {
            let list = doc.outside_array(values);
            let id = doc.outside_object(&[(keyword.into(), list)]);
            doc.locate_as(list, like);
            doc.locate_as(id, like);
            id
        };
        *self.lists.entry((keyword, Box::from(values))).or_insert_with(make)
    }
}

/// Returns a schema of arrays with exactly `items` items, outside the document tree.
pub(crate) fn of_length(doc: &mut Doc, items: usize, like: Id) -> Id {
    let name = doc.intern(&items.to_string());
    let count = doc.push(Value::Number(name));
    let id = doc.outside_object(&[(Keyword::MinItems.into(), count), (Keyword::MaxItems.into(), count)]);
    doc.locate_as(count, like);
    doc.locate_as(id, like);
    id
}
