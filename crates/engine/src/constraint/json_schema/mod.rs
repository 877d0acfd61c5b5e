//! JSON Schema (drafts 4 to 2020-12) to the common representation (`ir`).
//!
//! Terms used in this folder:
//!
//! - A *term* is one thing that a value must satisfy: a schema, the negation of a schema, a
//!   required name, ...
//! - A *conjunction* is a list of terms that all apply to one value. The code calls its id a
//!   *goal*.
//! - A *shape* is a conjunction after merging: types, bounds, names and items, per JSON type.
//! - A *fork* is a shape that is not finished, with the terms still to merge; a choice forks it.
//!
//! The steps, in the order of the work:
//!
//! - The JSON text is parsed into an arena (`json::document`, with interned `json::symbols`).
//! - `wrapper` finds the schema inside of a request. `draft_signs` and `dialect` recognise older
//!   drafts and other dialects. `schema_positions` knows which values are schemas.
//! - `refs`, `uri`, `documents` and `dynamic_scope` resolve references. `dedup` makes equal schemas
//!   one.
//! - `conjunctions` is the main loop: each distinct conjunction becomes one node.
//! - `normalize` turns a conjunction into shapes (`shape`, `term_set`, `small_map`). It uses
//!   `properties`, `negate`, `alternatives` (`oneOf`, empty forks), `unevaluated`, `contains` and
//!   `exists_property`. `shared_refs` handles an `anyOf` of references. `synthetic` makes the
//!   schemas that a merge needs and no document has. `closed_objects` applies the policy of that
//!   name.
//! - `to_ir` turns shapes into nodes, with `undeclared` (names that no schema declares),
//!   `literal_nodes`, `unique_items`, `multiple_of` and `verbatim` (spans of a source text).
//! - `keywords`, `keyword_set` and `keyword_values` read keywords. `unknown_keywords` reports those
//!   that are none. `number_formats` has the machine types. `context` holds the state of one
//!   run. `validate` checks literals exactly, with `literal`.
//! - Boolean combinations of patterns go through the automata of `constraint::regular`; those of
//!   formats are shared (`format_automata`).
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

mod alternatives;
mod closed_objects;
mod conjunctions;
mod contains;
mod context;
mod dedup;
mod dialect;
pub(super) mod documents;
mod draft_signs;
mod dynamic_scope;
mod exists_property;
pub(super) mod format_automata;
pub(super) mod keyword_set;
mod keyword_values;
pub(super) mod keywords;
mod literal;
mod literal_nodes;
mod multiple_of;
mod negate;
mod normalize;
mod number_formats;
mod properties;
mod refs;
mod schema_positions;
mod shape;
mod shared_refs;
mod small_map;
mod synthetic;
mod term_set;
#[cfg(test)]
mod tests;
mod to_ir;
mod undeclared;
mod unevaluated;
mod unique_items;
mod unknown_keywords;
mod uri;
mod validate;
mod verbatim;
mod wrapper;

use self::documents::Documents;
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
    let mut front = context::SchemaContext::new(schema, policy, documents)?;
    front.quoted = source.map(|(text, options)| verbatim::Quoted::new(text, options));
    conjunctions::SchemaLowering::new(front).run()
}

/// Returns true if an object with these members is a schema, and not one that says something else:
/// it has a keyword, or nothing but annotations.
pub(super) fn looks_like_schema<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let known = |name: &str| keywords::KEYWORDS.iter().position(|&keyword| keyword == name);
    let asserts = |name: &str| {
        known(name).is_some_and(|at| keywords::asserts(crate::constraint::json::document::Symbol(at as u32)))
    };
    names.clone().any(asserts) || names.all(|name| known(name).is_some())
}
