//! The leaves of a structural tag: embedded JSON Schemas, regular expressions and grammars.
//!
//! Each is parsed by its own front end. A leaf becomes one node of the document's representation. A
//! schema is taken out of the document as JSON text, because its references and its `$schema` refer
//! to the schema and not to the document around it.
//!
//! # Cost
//! Equal schemas are parsed once, so the cost is that of the distinct ones.

use std::collections::hash_map::Entry;

use rustc_hash::FxHashMap;

use super::ast::Phrase;
use super::parameters::{self, Prepared, Style};
use crate::constraint::ir::{Ir, NodeId, Quoting};
use crate::constraint::json::document::{Doc, Id};
use crate::constraint::{KeyOrder, Policy, grammar, json_schema, regex};
use crate::error::{Error, Place, Result};

/// How the values of a schema are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct ValueEncoding {
    /// True if properties come in any order, whatever the policy says.
    pub any_order: bool,
    /// The style of call parameters; `None`: JSON.
    pub style: Option<Style>,
}

/// Parses leaves into one representation.
pub(super) struct LeafParser<'a> {
    pub ir: Ir,
    policy: &'a Policy,
    /// Source text that `x-verbatim` refers to in schemas.
    source: Quoting<'a>,
    /// Nodes of the parsed schemas, by text and by how values are written.
    schemas: FxHashMap<(String, ValueEncoding), NodeId>,
    /// The pointer and the node of each schema of the document, equal ones included.
    pub places: Vec<(String, NodeId)>,
    /// Automata that all schemas of a style share.
    prepared: FxHashMap<Style, Prepared>,
}

impl<'a> LeafParser<'a> {
    pub(super) fn new(policy: &'a Policy, source: Quoting<'a>) -> Self {
        LeafParser {
            ir: Ir::new(),
            policy,
            source,
            schemas: FxHashMap::default(),
            places: Vec::new(),
            prepared: FxHashMap::default(),
        }
    }

    /// Returns the node of a JSON value valid against the schema at `at`, or of the parameters of a
    /// call. A string at `at` contains the text of the schema.
    pub(super) fn schema(&mut self, doc: &Doc, at: Id, spelling: ValueEncoding) -> Result<NodeId> {
        let text = match doc.string(at) {
            Some(inner) => doc.name(inner).to_owned(),
            None => doc.written(at),
        };
        let key = (text, spelling);
        let place = doc.pointer(at);
        if let Some(&known) = self.schemas.get(&key) {
            self.places.push((place, known));
            return Ok(known);
        }
        let mut policy = self.policy.clone();
        if spelling.any_order {
            policy.key_order = KeyOrder::Any;
        }
        let mut ir =
            json_schema::parse_from(&key.0, &policy, self.source).map_err(|e| relocate_error(e, &place))?;
        if spelling.any_order {
            ir.free_order();
        }
        if let Some(style) = spelling.style {
            let prepared = match self.prepared.entry(style) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => new.insert(Prepared::new(style)?),
            };
            parameters::write(&mut ir, prepared, &policy).map_err(|e| relocate_error(e, &place))?;
        }
        ir.warnings = ir.warnings.into_iter().map(|warning| warning.below(&place)).collect();
        let node = self.ir.append(&ir);
        self.schemas.insert(key, node);
        self.places.push((place, node));
        Ok(node)
    }

    /// Returns the node of the texts that match a regular expression.
    pub(super) fn regex(&mut self, doc: &Doc, pattern: &Phrase) -> Result<NodeId> {
        let ir = regex::parse(&pattern.text).map_err(|e| e.at(doc.place(pattern.at)))?;
        Ok(self.ir.append(&ir))
    }

    /// Returns the node of the texts of a grammar.
    pub(super) fn grammar(&mut self, doc: &Doc, text: &Phrase) -> Result<NodeId> {
        let ir = grammar::parse_from(&text.text, self.policy, self.source)
            .map_err(|e| e.at(doc.place(text.at)))?;
        Ok(self.ir.append(&ir))
    }
}

/// Moves an error of a schema to the document that contains the schema at `place`.
fn relocate_error(mut error: Error, place: &str) -> Error {
    let mut placed = false;
    for old in error.places_mut() {
        if let Place::Pointer(inner) = old {
            inner.insert_str(0, place);
            placed = true;
        }
    }
    if placed { error } else { error.at(Place::Pointer(place.to_owned())) }
}
