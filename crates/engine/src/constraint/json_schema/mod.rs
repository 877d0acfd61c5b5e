//! JSON Schema (drafts 4 to 2020-12) to the common representation (`ir`).
//!
//! Terms used in this folder:
//!
//! - A *term* is one thing that a value must satisfy: a schema, the negation of a schema, a
//!   required name, ... (`term`)
//! - A *conjunction* is a list of terms that all apply to one value.
//! - A *shape* is a conjunction after merging: types, bounds, names and items, per JSON type
//!   (`shape`, with `small_map`).
//!
//! The phases, each a folder that uses those before it only:
//!
//! - `read`: the JSON text becomes an arena (`json::document`, with interned `json::symbols`). The
//!   keywords are found, older drafts and dialects recognised, and references resolved.
//! - `check`: cheap facts about schemas, and the exact validator of literals.
//! - `merge`: conjunctions become shapes.
//! - `emit`: each distinct conjunction becomes one node of the IR.
//!
//! Boolean combinations of patterns go through the automata of `constraint::regular`; those of
//! formats are shared.
//!
//! Supported keywords: every assertion is honoured exactly, or refused with a pointer and a hint.
//! The draft that the document names in `$schema` decides which keywords exist; without a name its
//! keywords show it (default: 2020-12). Annotations and unknown keywords assert nothing; unknown
//! keywords and formats are listed in the warnings. Schemas that no value can reach are not read.
//!
//! Order of properties: a schema's own `properties` in their order, then those of its sub-schemas
//! (`allOf`, `$ref`, `anyOf`, …) in the order in which their keywords are written. Then come names
//! that are only required, then undeclared ones.
//!
//! # Cost
//!
//! Linear in the number of distinct conjunctions. Nothing is unrolled; recursion goes through
//! rules.
//!
//! # Alternatives considered
//!
//! Translating keyword by keyword without merging was rejected: `additionalProperties`, `allOf` and
//! `$ref` siblings only make sense together.

mod check;
mod emit;
mod merge;
mod read;
mod shape;
mod small_map;
mod term;
#[cfg(test)]
mod tests;

pub(super) use self::read::Documents;
pub(crate) use self::read::prepare_formats;
use super::ir::{Ir, Quoting};
use super::policy::Policy;
use crate::error::Result;

/// Parses a JSON Schema.
///
/// # Errors
/// `InvalidJson` with line and column. `InvalidSchema`, `Unsupported`, `Unsatisfiable` and
/// `TooComplex` with the JSON pointer of the location.
pub(crate) fn parse(schema: &str, policy: &Policy) -> Result<Ir> {
    parse_from(schema, policy, None)
}

/// Parses a schema that is part of another constraint.
pub(super) fn parse_from(schema: &str, policy: &Policy, source: Quoting<'_>) -> Result<Ir> {
    parse_with(schema, policy, &Documents::default(), source)
}

/// Parses a schema, with the documents it may refer to and the source text of `x-verbatim`.
pub(super) fn parse_with(
    schema: &str,
    policy: &Policy,
    documents: &Documents<'_>,
    source: Quoting<'_>,
) -> Result<Ir> {
    tracing::trace!(bytes = schema.len(), "reading a JSON Schema");
    let mut context = read::read(schema, policy, documents)?;
    context.texts.quoted = source.map(|(text, options)| read::Quoted::new(text, options));
    emit::lower(context)
}

/// Returns true if an object with these members is a schema, and not one that says something else:
/// it has a keyword, or nothing but annotations.
pub(super) fn looks_like_schema<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let known = |name: &str| read::language().symbols.find(name);
    names.clone().any(|name| known(name).and_then(read::Keyword::of).is_some())
        || names.all(|name| known(name).is_some())
}
