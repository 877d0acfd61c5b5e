//! Unifies equal schemas of a document before they are read, so that equal parts of branches are
//! seen to be equal.
//!
//! Generated schemas repeat their parts instead of referring to them. The separation of `oneOf`
//! branches then needs to see that `S` and "not `S`" exclude each other without a look inside.
//! Titles, descriptions and comments do not count. The order of members does, because it is the
//! order of the output.
//!
//! # Cost
//!
//! Three passes over the arena, each linear: the role of each value (top down, parents have the
//! higher ids), the first value it equals (bottom up), and the replacement.
//!
//! # Alternatives considered
//!
//! Comparing schemas where two of them meet was rejected: the memos of merging are keyed by
//! position.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use super::keywords::{Definition, Keyword, KeywordKind, set};
use super::schema_positions::Role;
use crate::constraint::json::document::{Doc, Id, Symbol, Value};

impl Doc {
    /// Returns true if the document has keywords for which [`unify`](Doc::unify) pays.
    pub(crate) fn offers_choices(&self) -> bool {
        let choices = set(&[Keyword::OneOf, Keyword::Not, Keyword::If]);
        (0..self.values.len() as u32).any(|id| self.names(Id(id)).meet(choices))
    }

    /// Makes equal schemas one. References must not depend on their position in the document: it
    /// has neither embedded resources nor further texts.
    pub(crate) fn unify(&mut self) {
        let (roles, names) = self.roles();
        let twins = self.first_equals(&roles, &names);
        for (value, _) in self.values.iter().zip(&roles).filter(|v| *v.1 != Role::Data) {
            let children: &mut dyn Iterator<Item = &mut Id> = match *value {
                Value::Array { first, len } => {
                    &mut self.elements[first as usize..(first + len) as usize].iter_mut()
                }
                Value::Object { first, len } => {
                    &mut self.members[first as usize..(first + len) as usize].iter_mut().map(|m| &mut m.1)
                }
                _ => continue,
            };
            for child in children {
                let unified = match self.values[child.0 as usize] {
                    Value::Array { .. } | Value::Object { .. } => true,
                    // Other scalars are not schemas; they keep their positions, for messages.
                    Value::Bool(_) => roles[child.0 as usize] == Role::Schema,
                    _ => false,
                };
                if unified {
                    *child = twins[child.0 as usize];
                }
            }
        }
    }

    /// Returns the role of each value, and its name if it is a member.
    fn roles(&self) -> (Vec<Role>, Vec<Option<Symbol>>) {
        let mut roles = vec![Role::Data; self.values.len()];
        let mut names = vec![None; self.values.len()];
        roles[self.root.0 as usize] = Role::Schema;
        for at in (0..self.values.len()).rev() {
            let (id, role) = (Id(at as u32), roles[at]);
            for &child in self.elements(id) {
                roles[child.0 as usize] = role;
            }
            for &(name, child) in self.members(id) {
                names[child.0 as usize] = Some(name);
                roles[child.0 as usize] = role.of_member(name);
            }
        }
        (roles, names)
    }

    /// Returns the first value that each one equals.
    fn first_equals(&self, roles: &[Role], names: &[Option<Symbol>]) -> Vec<Id> {
        let mut twins: Vec<Id> = Vec::with_capacity(roles.len());
        // Keys of the first values, one after the other; an allocation for each would dominate the
        // pass.
        let mut keys: Vec<u32> = Vec::with_capacity(4 * roles.len());
        let mut known: HashTable<(Range<usize>, Id)> = HashTable::with_capacity(roles.len());
        for (id, &role) in (0..).map(Id).zip(roles) {
            let from = keys.len();
            let kind = |kind: u32| kind * 4 + role as u32;
            match self.value(id) {
                Value::Null => keys.push(kind(0)),
                // The message for a `false` keyword names the location of that keyword.
                Value::Bool(holds) => {
                    let name = names[id.0 as usize].map_or(u32::MAX, |name| name.0);
                    keys.extend([kind(1), u32::from(holds), name]);
                }
                Value::Number(text) => keys.extend([kind(2), text.0]),
                Value::String(text) => keys.extend([kind(3), text.0]),
                Value::Array { .. } => {
                    keys.push(kind(4));
                    keys.extend(self.elements(id).iter().map(|e| twins[e.0 as usize].0));
                }
                Value::Object { .. } => {
                    keys.push(kind(5));
                    let members = self
                        .members(id)
                        .iter()
                        .filter(|m| !(role == Role::Schema && self.is_annotation(**m)));
                    keys.extend(members.flat_map(|m| [m.0.0, twins[m.1.0 as usize].0]));
                }
            }
            let key = &keys[from..];
            let hash = FxBuildHasher.hash_one(key);
            let first = known.find(hash, |(at, _)| keys[at.clone()] == *key).map(|k| k.1);
            if first.is_some() {
                keys.truncate(from);
            } else {
                let rehash = |(at, _): &(Range<usize>, Id)| FxBuildHasher.hash_one(&keys[at.clone()]);
                known.insert_unique(hash, (from..keys.len(), id), rehash);
            }
            twins.push(first.unwrap_or(id));
        }
        twins
    }

    /// Returns true if a member of a schema is text for its readers.
    fn is_annotation(&self, (name, at): (Symbol, Id)) -> bool {
        Definition::of(name).is_some_and(|own| own.kind == KeywordKind::ReaderText)
            && matches!(self.value(at), Value::String(_))
    }
}
