//! JSON Schema (drafts 4 to 2020-12) to the common representation.
//!
//! The text is parsed into an arena (`json`), references are resolved inside the document (`refs`),
//! and the schemas that apply to one value are merged into normalised conjunctions (`shape`, `expand`,
//! `negate`, `choice`; `contains` and `demands` for what must be among items and properties). Each distinct conjunction becomes one node (`goals`, `build`, `extras`), so cost
//! is linear in the number of distinct conjunctions and nothing is unrolled; recursion goes through
//! rules. Boolean combinations of patterns go through small automata (`lang`, `nfa`, `lang_ir`), literals
//! are filtered by an exact validator (`validate`). Translating keyword by keyword without merging was
//! rejected: `additionalProperties`, `allOf` and `$ref` siblings only make sense together.
//!
//! **What is honoured.** Every assertion is honoured exactly, or refused with a pointer and a hint; what
//! draft the document names in `$schema` decides which keywords exist (default: 2020-12). Annotations and
//! unknown keywords say nothing; likely misspellings and unknown formats are listed in the warnings.
//! Schemas that no value can reach are not looked at.
//!
//! **Order of properties.** A schema's own `properties` in their order, then those of its sub-schemas
//! (`allOf`, `$ref`, `anyOf`, …) in the order in which their keywords are written, then names that are
//! only required, then undeclared ones.

mod build;
mod choice;
mod contains;
mod counts;
mod demands;
mod expand;
mod extras;
mod front;
mod goals;
mod json;
mod keywords;
mod lang;
mod lang_ir;
mod literal;
mod minimise;
mod multiples;
mod negate;
mod nfa;
mod number;
mod operands;
mod refs;
mod shape;
#[cfg(test)]
mod tests;
mod validate;

use super::ir::Ir;
use super::policy::Policy;
use crate::error::Result;

/// Parses a JSON Schema.
///
/// # Errors
/// `InvalidJson` with line and column; `InvalidSchema`, `Unsupported`, `Unsatisfiable` and `TooComplex` with
/// the JSON pointer of the place.
pub fn parse(schema: &str, policy: &Policy) -> Result<Ir> {
    let front = front::Front::new(schema, policy)?;
    goals::Goals::new(front).run()
}
