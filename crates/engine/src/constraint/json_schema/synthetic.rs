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

use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json_schema::keywords as kw;

impl Doc {
    /// Returns a boolean outside the document tree.
    pub fn constant(&mut self, value: bool) -> Id {
        match self.constants[usize::from(value)] {
            Some(id) => id,
            None => {
                let id = self.push(Value::Bool(value));
                *self.constants[usize::from(value)].insert(id)
            }
        }
    }

    /// Returns a schema `{"anyOf": schemas}` outside the document tree, in messages at the location
    /// of `like`.
    pub fn any_of(&mut self, schemas: &[Id], like: Id) -> Id {
        self.made((kw::ANY_OF, schemas), like)
    }

    /// Returns a schema with the value as its only instance, outside the document tree.
    pub fn equal_to(&mut self, value: Id) -> Id {
        self.made((kw::ENUM, &[value]), value)
    }

    /// Returns a schema of arrays with exactly `items` items, outside the document tree.
    pub fn of_length(&mut self, items: usize, like: Id) -> Id {
        let name = self.intern(&items.to_string());
        let count = self.push(Value::Number(name));
        let first = self.open_members();
        self.members.extend([(kw::MIN_ITEMS, count), (kw::MAX_ITEMS, count)]);
        let id = self.object_of(first);
        self.parents[count.0 as usize] = self.parents[like.0 as usize];
        self.parents[id.0 as usize] = self.parents[like.0 as usize];
        id
    }

    /// Returns a schema with one keyword whose value is a list of values of the document; made
    /// once.
    fn made(&mut self, (keyword, values): (Symbol, &[Id]), like: Id) -> Id {
        let key = (keyword, Box::from(values));
        if let Some(&id) = self.synthetic.get(&key) {
            return id;
        }
        // The values keep their parents.
        let (first, len) = (self.elements.len() as u32, values.len() as u32);
        self.elements.extend(values);
        let list = self.push(Value::Array { first, len });
        let first = self.open_members();
        self.members.push((keyword, list));
        let id = self.object_of(first);
        self.parents[list.0 as usize] = self.parents[like.0 as usize];
        self.parents[id.0 as usize] = self.parents[like.0 as usize];
        self.synthetic.insert(key, id);
        id
    }
}
