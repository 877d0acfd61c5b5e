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
//! - `keywords` is the table of keywords. `keyword_set`, `drafts`, `types` and `schema_positions`
//!   answer from it. `misspelling` and `unknown_keywords` report names that are no keywords.
//! - `wrapper` finds the schema inside of a request. `draft_signs` and `dialect` recognise older
//!   drafts and other dialects.
//! - `refs`, `uri`, `documents` and `dynamic_scope` resolve references. `dedup` makes equal schemas
//!   one.
//! - `context` is the context of one run, with `text_tests`, `diagnostics` and `synthetic` (schemas
//!   that a merge needs and no document has). `keyword_values` reads and checks values.
//! - `conjunctions` is the main loop: each distinct conjunction becomes one node.
//! - `normalize` turns a conjunction into shapes (`shape`, `term_set`, `small_map`) by way of
//!   `fork`s, and has the tables of what was merged. Its chapters are `keyword_merging`,
//!   `properties`, `negate`, `alternatives` (`oneOf`, empty forks) and `unevaluated`. `shared_refs`
//!   handles an `anyOf` of references, and `closed_objects` applies the policy of that name.
//! - Cheap facts come first: `exclusion` (schemas that exclude each other), `grounded` (no schema
//!   applies to the same value as itself) and `evaluated` (what `unevaluated…` leaves over).
//! - `validate` checks literals exactly, with `literal`; `number_formats` has the machine types.
//! - `to_ir` turns shapes into nodes, with `nodes` (nodes that are needed often), `undeclared`
//!   (names that no schema declares), `exists_property`, `contains`, `literal_nodes`,
//!   `unique_items`, `multiple_of` and `verbatim` (spans of a source text).
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
mod diagnostics;
mod dialect;
pub(super) mod documents;
mod draft_signs;
mod drafts;
mod dynamic_scope;
mod evaluated;
mod exclusion;
mod exists_property;
mod fork;
pub(super) mod format_automata;
mod grounded;
mod keyword_merging;
mod keyword_set;
mod keyword_values;
mod keywords;
mod literal;
mod literal_nodes;
mod misspelling;
mod multiple_of;
mod negate;
mod nodes;
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
mod text_tests;
mod to_ir;
mod types;
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
    tracing::trace!(bytes = schema.len(), "reading a JSON Schema");
    let mut context = context::SchemaContext::new(schema, policy, documents)?;
    context.texts.quoted = source.map(|(text, options)| text_tests::Quoted::new(text, options));
    conjunctions::SchemaLowering::new(context).run()
}

/// Returns true if an object with these members is a schema, and not one that says something else:
/// it has a keyword, or nothing but annotations.
pub(super) fn looks_like_schema<'a>(mut names: impl Iterator<Item = &'a str> + Clone) -> bool {
    let known = |name: &str| keywords::language().symbols.find(name);
    names.clone().any(|name| known(name).and_then(keywords::Keyword::of).is_some())
        || names.all(|name| known(name).is_some())
}
