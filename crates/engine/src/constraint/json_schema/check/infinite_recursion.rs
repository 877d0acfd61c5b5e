//! Check that no schema applies to the same value as itself, which would not end.
//!
//! # Cost
//!
//! Each schema is visited once.

use smallvec::SmallVec;

use super::super::read::{IN_PLACE, Id, Keyword, Operand, REFERENCES, SchemaContext};
use crate::error::{Error, Result};

/// State of the check for one schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecursionState {
    Unknown,
    /// Being checked.
    OnPath,
    Finite,
}

/// Schemas that are being checked, each with its next neighbours.
type Path = SmallVec<[(Id, SmallVec<[Id; 4]>); 4]>;

/// State of the check for each schema, by id.
#[derive(Default)]
pub(crate) struct RecursionCheck {
    states: Vec<RecursionState>,
}

impl RecursionCheck {
    /// Checks that no schema applies to the same value as itself; visits each schema once.
    pub(crate) fn check(&mut self, context: &mut SchemaContext<'_>, root: Id) -> Result<()> {
        if *self.state(context, root) != RecursionState::Unknown {
            return Ok(());
        }
        let mut path = Path::new();
        let checked = self.visit(context, root, &mut path);
        if checked.is_err() {
            // Emptiness queries ignore a fault, so it must be found again.
            for (id, _) in path {
                *self.state(context, id) = RecursionState::Unknown;
            }
        }
        checked
    }

    fn visit(&mut self, context: &mut SchemaContext<'_>, root: Id, path: &mut Path) -> Result<()> {
        path.push((root, in_place(context, root)?));
        *self.state(context, root) = RecursionState::OnPath;
        while let Some((id, rest)) = path.last_mut() {
            let Some(next) = rest.pop() else {
                *self.state(context, *id) = RecursionState::Finite;
                path.pop();
                continue;
            };
            match self.state(context, next) {
                RecursionState::Finite => {}
                RecursionState::OnPath => return Err(endless(context, next)),
                RecursionState::Unknown => {
                    path.push((next, in_place(context, next)?));
                    *self.state(context, next) = RecursionState::OnPath;
                }
            }
        }
        Ok(())
    }

    /// Returns the state of the check for a schema. There may be more schemas than at the last
    /// call.
    fn state(&mut self, context: &SchemaContext<'_>, id: Id) -> &mut RecursionState {
        let at = id.0 as usize;
        if at >= self.states.len() {
            self.states.resize(context.doc.len().max(at + 1), RecursionState::Unknown);
        }
        &mut self.states[at]
    }
}

fn endless(context: &SchemaContext<'_>, at: Id) -> Error {
    let error = context.invalid(at, "the schema applies to the same value as itself, without end");
    error.hint("let the recursion pass through `properties` or `items`")
}

/// Returns the schemas that apply to the same value.
fn in_place(context: &mut SchemaContext<'_>, id: Id) -> Result<SmallVec<[Id; 4]>> {
    let mut found = SmallVec::new();
    if !context.assertions(id).meet(IN_PLACE) {
        return Ok(found);
    }
    let keywords: SmallVec<[(Keyword, Id); 8]> = context.asserting(id).collect();
    for (keyword, at) in keywords.into_iter().filter(|k| IN_PLACE.may_have(k.0)) {
        if REFERENCES.may_have(keyword) {
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
