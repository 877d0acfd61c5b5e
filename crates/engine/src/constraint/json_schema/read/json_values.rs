//! Literal values of the document: writing them compactly, and comparing them as JSON Schema does.
//!
//! # Cost
//!
//! Both walk the value once. The parser limits the nesting, so they may recurse.

use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::decimal::Decimal;
use crate::json_escape::escape_to;

impl Doc {
    /// Appends the compact text: names in the given order, numbers as written in the document.
    pub(crate) fn write(&self, id: Id, out: &mut Vec<u8>) {
        match self.value(id) {
            Value::Null => out.extend_from_slice(b"null"),
            Value::Bool(holds) => out.extend_from_slice(if holds { &b"true"[..] } else { b"false" }),
            Value::Number(text) => out.extend_from_slice(self.name(text).as_bytes()),
            Value::String(text) => write_string(self.name(text), out),
            Value::Array { .. } => {
                out.push(b'[');
                for (i, &element) in self.elements(id).iter().enumerate() {
                    out.extend((i > 0).then_some(b','));
                    self.write(element, out);
                }
                out.push(b']');
            }
            Value::Object { .. } => {
                out.push(b'{');
                for (i, &(name, member)) in self.members(id).iter().enumerate() {
                    out.extend((i > 0).then_some(b','));
                    write_string(self.name(name), out);
                    out.push(b':');
                    self.write(member, out);
                }
                out.push(b'}');
            }
        }
    }

    /// Returns true if two values are equal: numbers by value, objects in any order of names.
    pub(crate) fn equal(&self, a: Id, b: Id) -> bool {
        if a == b {
            return true;
        }
        match (self.value(a), self.value(b)) {
            (Value::Number(x), Value::Number(y)) => {
                x == y || Decimal::new(self.name(x)) == Decimal::new(self.name(y))
            }
            (Value::Array { .. }, Value::Array { .. }) => {
                let (x, y) = (self.elements(a), self.elements(b));
                x.len() == y.len() && x.iter().zip(y).all(|(&p, &q)| self.equal(p, q))
            }
            (Value::Object { .. }, Value::Object { .. }) => {
                let (x, y) = (self.members(a), self.members(b));
                let same = |&(name, p): &(Symbol, Id)| self.get(b, name).is_some_and(|q| self.equal(p, q));
                x.len() == y.len() && x.iter().all(same)
            }
            (x, y) => x == y,
        }
    }
}

/// Appends a JSON string: short escapes and `\u00XX` for characters that must be escaped, all
/// others unchanged.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    escape_to(text, |piece| out.extend_from_slice(piece));
    out.push(b'"');
}
