//! Emission: from merged conjunctions to nodes of the IR.
//!
//! - `lowering` is the state: each distinct conjunction has one id and one node. `plan` has what is
//!   known of a conjunction before its node is built.
//! - `worklist` is the main loop, children first.
//! - `to_ir` turns shapes into nodes, with `numbers`, `strings`, `contains` and `unique_items`.
//! - `undeclared` are the names that no schema declares, and `exists_property` the properties that
//!   must exist without being named.
//! - `nodes` and `literal_nodes` make nodes that are needed often.
//!
//! Each file adds methods to the state and uses files before it only.
//!
//! # Cost
//!
//! Linear in the number of distinct conjunctions. Nothing is unrolled; recursion goes through
//! rules.
//!
//! # Alternatives considered
//!
//! A trait by which the parts ask for nodes was rejected: it would have one implementation. The
//! state and the plans stand in files below the parts instead.

mod contains;
mod exists_property;
mod literal_nodes;
mod lowering;
mod nodes;
mod numbers;
mod plan;
mod strings;
mod to_ir;
mod undeclared;
mod unique_items;
mod worklist;

use super::read::SchemaContext;
use crate::constraint::ir::Ir;
use crate::error::Result;

/// Builds everything below the root schema.
pub(super) fn lower(context: SchemaContext<'_>) -> Result<Ir> {
    lowering::SchemaLowering::new(context).run()
}
