//! JSON Schema (drafts 4 to 2020-12) to the common representation.
//!
//! The text is parsed into an arena (`json`), references are resolved (`refs`, `scope`, `documents`),
//! and the schemas that apply to one value are merged into normalised conjunctions (`shape`, `expand`,
//! `negate`, `choice`; `contains` and `demands` for what must be among items and properties). Each distinct conjunction becomes one node (`goals`, `build`, `extras`, `spelled`), so cost
//! is linear in the number of distinct conjunctions and nothing is unrolled; recursion goes through
//! rules. Boolean combinations of patterns go through small automata (`nfa`, `determinise`, `lang`,
//! `product`, `minimise`, `lang_ir`), literals are filtered by an exact validator (`validate`), spans of a
//! source are joined with them by products (`verbatim`). Translating keyword by keyword without merging was
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

mod alternatives;
mod conjunctions;
mod contains;
mod context;
mod decimal;
mod dedup;
pub(super) mod documents;
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
mod properties;
mod refs;
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
mod uri;
mod validate;
mod verbatim;

use self::documents::Documents;
use super::ir::{Ir, NodeId};
use super::policy::Policy;
use super::substring::SubstringOptions;
use crate::error::Result;

/// Parses a JSON Schema.
///
/// # Errors
/// `InvalidJson` with line and column; `InvalidSchema`, `Unsupported`, `Unsatisfiable` and `TooComplex`
/// with the JSON pointer of the location.
pub(crate) fn parse(schema: &str, policy: &Policy) -> Result<Ir> {
    parse_from(schema, policy, None)
}

/// A text that strings copy from, and what counts as a span of it.
pub(super) type Quoting<'a> = Option<(&'a str, &'a SubstringOptions)>;

/// Parses a schema that is part of another constraint.
pub(super) fn parse_from(schema: &str, policy: &Policy, source: Quoting<'_>) -> Result<Ir> {
    parse_with(schema, policy, &Documents::default(), source)
}

/// Parses a schema with the documents it may refer to and the text that `x-verbatim` means.
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

/// Parses any JSON text into the arena that the schema front end uses, for other front ends.
///
/// # Errors
/// `InvalidJson` or `TooComplex` with line and column.
pub(super) fn document(text: &str) -> Result<crate::constraint::json::document::Doc> {
    crate::constraint::json::document::Doc::parse(text)
}

/// The texts that lie in both of two regular nodes, as a node of `out`.
///
/// # Errors
/// `TooComplex` if an automaton gets too large or a node is not regular.
pub(super) fn intersect(a: (&Ir, NodeId), b: (&Ir, NodeId), out: &mut Ir) -> Result<NodeId> {
    let dfa = |(ir, node)| {
        crate::constraint::regular::char_dfa::CharDfa::from_nfa(
            &crate::constraint::regular::byte_nfa::ByteNfa::new(ir, node)?,
        )
    };
    crate::constraint::regular::to_ir::lower(&dfa(a)?.intersect(&dfa(b)?)?, out)
}

/// The texts that do not lie in a regular node, as a node of `out`.
///
/// # Errors
/// As [`intersect`].
pub(super) fn complement((ir, node): (&Ir, NodeId), out: &mut Ir) -> Result<NodeId> {
    let dfa = crate::constraint::regular::char_dfa::CharDfa::from_nfa(
        &crate::constraint::regular::byte_nfa::ByteNfa::new(ir, node)?,
    )?;
    crate::constraint::regular::to_ir::lower(&dfa.complement(), out)
}
