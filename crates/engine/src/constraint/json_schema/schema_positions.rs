//! Positions of schemas in a document: which values are schemas, by the keywords around them.
//!
//! # Cost
//!
//! One visit for each schema.

use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::constraint::json_schema::keywords as kw;

/// Role of a value of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// A schema, or a list of schemas.
    Schema,
    /// Schemas under names of the user, as in `properties`.
    Named,
    /// Anything else.
    Data,
}

impl Role {
    /// Returns the role of a member of a value with this role. The content of an unknown keyword
    /// may be anything.
    pub fn of_member(self, name: Symbol) -> Role {
        match self {
            Role::Data => Role::Data,
            Role::Named => Role::Schema,
            Role::Schema if names_members(name) => Role::Named,
            Role::Schema if holds_schemas(name) => Role::Schema,
            Role::Schema => Role::Data,
        }
    }
}

/// Returns true if the members of this keyword's value are named by the user, and are not keywords.
pub(super) fn names_members(name: Symbol) -> bool {
    matches!(
        name,
        kw::PROPERTIES
            | kw::PATTERN_PROPERTIES
            | kw::DEFINITIONS
            | kw::DEFS
            | kw::DEPENDENT_SCHEMAS
            | kw::DEPENDENCIES
    )
}

/// Returns true if the value of this keyword is a schema or a list of schemas.
fn holds_schemas(name: Symbol) -> bool {
    matches!(name, kw::ADDITIONAL_PROPERTIES | kw::PROPERTY_NAMES | kw::UNEVALUATED_PROPERTIES)
        || matches!(name, kw::ITEMS | kw::PREFIX_ITEMS | kw::ADDITIONAL_ITEMS | kw::UNEVALUATED_ITEMS)
        || matches!(name, kw::CONTAINS | kw::ALL_OF | kw::ANY_OF | kw::ONE_OF | kw::NOT)
        || matches!(name, kw::IF | kw::THEN | kw::ELSE)
}

impl Doc {
    /// Calls a function for each schema object below a schema, itself included; outer schemas come
    /// first.
    pub(super) fn each_schema(&self, root: Id, mut visit: impl FnMut(Id)) {
        let mut todo = vec![(root, Role::Schema)];
        while let Some((id, role)) = todo.pop() {
            if role == Role::Schema && matches!(self.value(id), Value::Object { .. }) {
                visit(id);
            }
            todo.extend(self.elements(id).iter().map(|&element| (element, role)));
            let members = self.members(id).iter().map(|&(name, member)| (member, role.of_member(name)));
            todo.extend(members.filter(|m| m.1 != Role::Data));
        }
    }
}
