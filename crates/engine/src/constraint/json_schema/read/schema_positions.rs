//! Positions of schemas in a document: which values are schemas, by the keywords around them.
//!
//! # Cost
//!
//! One visit for each schema.

use super::keywords::{Definition, Operand};
use crate::constraint::json::document::{Doc, Id, Symbol, Value};

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
    pub(super) fn of_member(self, name: Symbol) -> Role {
        match self {
            Role::Data => Role::Data,
            Role::Named => Role::Schema,
            Role::Schema => Definition::of(name).map_or(Role::Data, |own| role_of(own.operand)),
        }
    }
}

/// Returns true if the value of this keyword is data and holds no schemas.
pub(super) fn is_data(name: Symbol) -> bool {
    let operand = Definition::of(name).map(|own| own.operand);
    matches!(operand, Some(Operand::Value | Operand::Values | Operand::Data))
}

/// Returns true if the members of this keyword's value are named by the user, and are not keywords.
pub(super) fn names_members(name: Symbol) -> bool {
    Role::Schema.of_member(name) == Role::Named
}

/// Returns the role of a keyword's value.
fn role_of(operand: Operand) -> Role {
    match operand {
        Operand::Schema | Operand::Schemas | Operand::SchemaOrSchemas => Role::Schema,
        Operand::SchemaMap | Operand::SchemaOrNamesMap => Role::Named,
        Operand::NamesMap | Operand::Names | Operand::Types => Role::Data,
        Operand::Value | Operand::Values | Operand::Data | Operand::Other => Role::Data,
        Operand::Number | Operand::Count | Operand::Flag | Operand::Text => Role::Data,
    }
}

impl Doc {
    /// Calls a function for each schema object below a schema, itself included; outer schemas come
    /// first.
    pub(crate) fn each_schema(&self, root: Id, mut visit: impl FnMut(Id)) {
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
