//! Regular languages as nodes of the common representation.
//!
//! This is the side of the toolkit [`char_lang`](crate::char_lang) that knows nodes. `from_ir`
//! makes automata of nodes, and `to_ir` makes nodes of automata; [`intersect`] and [`complement`]
//! use both. `hir_to_ir` and `utf8_class` turn parsed patterns and character classes into nodes. The
//! syntax of patterns is that of the front ends, which nothing here knows.

pub(in crate::constraint) mod from_ir;
pub(in crate::constraint) mod hir_to_ir;
pub(in crate::constraint) mod to_ir;
pub(in crate::constraint) mod utf8_class;

use crate::char_lang::char_class::ANY_CHAR;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{Ir, Node, NodeId};
use crate::error::Result;

/// Adds to `out` a node for the texts that both regular nodes contain.
///
/// # Errors
/// `TooComplex` if an automaton gets too large or a node is not regular.
pub(in crate::constraint) fn intersect(a: (&Ir, NodeId), b: (&Ir, NodeId), out: &mut Ir) -> Result<NodeId> {
    let dfa = |(ir, node)| CharDfa::from_node(ir, node);
    to_ir::lower(&dfa(a)?.intersect(&dfa(b)?)?, out)
}

/// Adds to `out` a node for the texts that a regular node does not contain.
///
/// # Errors
/// As [`intersect`].
pub(in crate::constraint) fn complement((ir, node): (&Ir, NodeId), out: &mut Ir) -> Result<NodeId> {
    to_ir::lower(&CharDfa::from_node(ir, node)?.complement(), out)
}

/// Returns the texts that do not contain `part`; without the empty one if `nonempty`.
pub(in crate::constraint) fn without(part: &str, nonempty: bool) -> Result<Ir> {
    let mut with = Ir::new();
    let (any, part) = (utf8_class::class(&[ANY_CHAR], &mut with), with.bytes(part));
    let any = with.repeat(any, 0, None);
    let mut others = vec![with.concat(vec![any, part, any])];
    others.extend(nonempty.then(|| with.push(Node::Empty)));
    let others = with.union(others);
    let mut ir = Ir::new();
    let root = complement((&with, others), &mut ir)?;
    ir.set_root(root);
    Ok(ir)
}
