//! Check that no schema applies to the same value as itself.
//!
//! # Cost
//!
//! Each schema is visited once.

use smallvec::SmallVec;

use super::context::SchemaContext;
use super::keyword_set;
use super::keywords::{Keyword, Operand};
use crate::constraint::json::document::Id;
use crate::error::{Error, Result};

/// State of the check that a schema does not apply to the same value as itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grounded {
    Unknown,
    /// Being checked.
    OnPath,
    Yes,
}

/// State of the check for each schema, by id.
#[derive(Default)]
pub(super) struct GroundedSchemas {
    checked: Vec<Grounded>,
}

impl GroundedSchemas {
    /// Checks that no schema applies to the same value as itself; visits each schema once.
    pub fn check(&mut self, context: &mut SchemaContext<'_>, root: Id) -> Result<()> {
        if *self.state(context, root) != Grounded::Unknown {
            return Ok(());
        }
        let neighbours = in_place(context, root)?;
        if neighbours.is_empty() {
            *self.state(context, root) = Grounded::Yes;
            return Ok(());
        }
        // Each entry: the schema and its next neighbours.
        let mut path = vec![(root, neighbours)];
        *self.state(context, root) = Grounded::OnPath;
        while let Some((id, rest)) = path.last_mut() {
            let Some(next) = rest.pop() else {
                *self.state(context, *id) = Grounded::Yes;
                path.pop();
                continue;
            };
            match self.state(context, next) {
                Grounded::Yes => {}
                Grounded::OnPath => {
                    let fault = context
                        .invalid(next, "the schema applies to the same value as itself, without end")
                        .hint("let the recursion pass through `properties` or `items`");
                    return Err(self.forget(context, path, fault));
                }
                Grounded::Unknown => {
                    let neighbours = match in_place(context, next) {
                        Ok(neighbours) => neighbours,
                        Err(fault) => return Err(self.forget(context, path, fault)),
                    };
                    *self.state(context, next) = Grounded::OnPath;
                    path.push((next, neighbours));
                }
            }
        }
        Ok(())
    }

    /// Forgets that the schemas on the path were checked. Emptiness queries ignore a fault, so it
    /// must be found again.
    fn forget(
        &mut self,
        context: &SchemaContext<'_>,
        path: Vec<(Id, SmallVec<[Id; 4]>)>,
        fault: Error,
    ) -> Error {
        for (id, _) in path {
            *self.state(context, id) = Grounded::Unknown;
        }
        fault
    }

    /// Returns the state of the check for a schema. There may be more schemas than at the last
    /// call.
    fn state(&mut self, context: &SchemaContext<'_>, id: Id) -> &mut Grounded {
        let at = id.0 as usize;
        if at >= self.checked.len() {
            self.checked.resize(context.doc.len().max(at + 1), Grounded::Unknown);
        }
        &mut self.checked[at]
    }
}

/// Returns the schemas that apply to the same value.
fn in_place(context: &mut SchemaContext<'_>, id: Id) -> Result<SmallVec<[Id; 4]>> {
    let mut found = SmallVec::new();
    let in_place = context.assertions(id).and(keyword_set::IN_PLACE);
    if in_place.is_empty() {
        return Ok(found);
    }
    for i in 0..context.doc.members(id).len() {
        let (name, at) = context.doc.members(id)[i];
        let Some(keyword) = Keyword::of(name).filter(|_| in_place.may_have(name)) else { continue };
        if keyword_set::REFERENCES.may_have(name) {
            if context.doc.string(at).is_some() {
                found.push(context.target(keyword, at)?);
            }
            continue;
        }
        match keyword.definition().operand {
            Operand::Schema => found.push(at),
            Operand::Schemas => found.extend_from_slice(context.doc.elements(at)),
            Operand::SchemaMap | Operand::SchemaOrNamesMap => {
                found.extend(context.doc.members(at).iter().map(|m| m.1));
            }
            // No keyword that applies schemas to the same value has another operand.
            Operand::SchemaOrSchemas | Operand::NamesMap | Operand::Names | Operand::Types => {}
            Operand::Value | Operand::Values | Operand::Data | Operand::Other => {}
            Operand::Number | Operand::Count | Operand::Flag | Operand::Text => {}
        }
    }
    Ok(found)
}
