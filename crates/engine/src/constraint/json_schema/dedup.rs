//! Equal schemas of a document are one: the first of them stands wherever another one stood.
//!
//! Schemas that were made by a program repeat their parts instead of referring to them, and what keeps the
//! branches of a `oneOf` apart is then found only when `S` beside "not `S`" is seen to be impossible without
//! a look inside. Titles, descriptions and comments do not count; the order of members does, since it is the
//! order of the output. Three passes over the arena, each linear: what each value is (top down, parents have
//! the higher ids), what it equals (bottom up), and who stands for it. Comparing schemas where two of them meet was
//! rejected: the memos of merging are keyed by place.

use std::hash::BuildHasher;
use std::ops::Range;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json_schema::keyword_set::KeywordSet;
use crate::constraint::json_schema::keywords as kw;
use crate::constraint::json_schema::refs::names_members;

/// What a value of the document is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// A schema, or a list of schemas.
    Schema,
    /// Schemas under names of the user, as in `properties`.
    Named,
    /// Anything else.
    Data,
}

impl Doc {
    /// Whether there are keywords for which [`unify`](Doc::unify) is worth its time.
    pub fn offers_choices(&self) -> bool {
        let choices = KeywordSet::of(&[kw::ONE_OF, kw::NOT, kw::IF]);
        (0..self.values.len() as u32).any(|id| self.keyword_set(Id(id)).meet(choices))
    }

    /// Makes equal schemas one. References must not depend on where in the document they stand: it has
    /// neither embedded resources nor further texts.
    pub fn unify(&mut self) {
        let (roles, names) = self.roles();
        let twins = self.twins(&roles, &names);
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
                    // Other scalars are no schemas; they keep their places, for messages.
                    Value::Bool(_) => roles[child.0 as usize] == Role::Schema,
                    _ => false,
                };
                if unified {
                    *child = twins[child.0 as usize];
                }
            }
        }
    }

    /// What each value is read as, and the name of the member that it is.
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
                roles[child.0 as usize] = match role {
                    Role::Data => Role::Data,
                    Role::Named => Role::Schema,
                    Role::Schema if names_members(name) => Role::Named,
                    Role::Schema if holds_schemas(name) => Role::Schema,
                    // What an unknown keyword holds is not known; as a literal it equals only the very same.
                    Role::Schema => Role::Data,
                };
            }
        }
        (roles, names)
    }

    /// The first value that each one equals.
    fn twins(&self, roles: &[Role], names: &[Option<Symbol>]) -> Vec<Id> {
        let mut twins: Vec<Id> = Vec::with_capacity(roles.len());
        // What the first ones are, one behind the other: an allocation for each was most of the time.
        let mut keys: Vec<u32> = Vec::with_capacity(4 * roles.len());
        let mut known: HashTable<(Range<usize>, Id)> = HashTable::with_capacity(roles.len());
        for (id, &role) in (0..).map(Id).zip(roles) {
            let from = keys.len();
            let kind = |kind: u32| kind * 4 + role as u32;
            match self.value(id) {
                Value::Null => keys.push(kind(0)),
                // That a keyword is `false` is told with the place of that keyword.
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
                    let members =
                        self.members(id).iter().filter(|m| !(role == Role::Schema && self.only_tells(**m)));
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

    /// Whether a member of a schema is text for its readers.
    fn only_tells(&self, (name, at): (Symbol, Id)) -> bool {
        kw::is_annotation_text(name) && matches!(self.value(at), Value::String(_))
    }
}

/// Whether the value of this keyword is a schema or a list of schemas.
fn holds_schemas(name: Symbol) -> bool {
    matches!(name, kw::ADDITIONAL_PROPERTIES | kw::PROPERTY_NAMES | kw::UNEVALUATED_PROPERTIES)
        || matches!(name, kw::ITEMS | kw::PREFIX_ITEMS | kw::ADDITIONAL_ITEMS | kw::UNEVALUATED_ITEMS)
        || matches!(name, kw::CONTAINS | kw::ALL_OF | kw::ANY_OF | kw::ONE_OF | kw::NOT)
        || matches!(name, kw::IF | kw::THEN | kw::ELSE)
}
