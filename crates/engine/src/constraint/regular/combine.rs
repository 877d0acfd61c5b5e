//! Intersection and complement of regular nodes.

use super::to_ir::lower;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Ir, NodeId};
use crate::error::Result;

/// Adds to `out` a node for the texts that both regular nodes contain.
///
/// # Errors
/// `TooComplex` if an automaton gets too large or a node is not regular.
pub(in crate::constraint) fn intersect(a: (&Ir, NodeId), b: (&Ir, NodeId), out: &mut Ir) -> Result<NodeId> {
    let dfa = |(ir, node)| CharDfa::from_node(ir, node);
    lower(&dfa(a)?.intersect(&dfa(b)?)?, out)
}

/// Adds to `out` a node for the texts that a regular node does not contain.
///
/// # Errors
/// As [`intersect`].
pub(in crate::constraint) fn complement((ir, node): (&Ir, NodeId), out: &mut Ir) -> Result<NodeId> {
    lower(&CharDfa::from_node(ir, node)?.complement(), out)
}
