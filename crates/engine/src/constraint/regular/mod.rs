//! Regular languages: automata over characters, the operations on them, and helpers for regular
//! expressions. Several front ends use this; it knows nothing of their syntax.
//!
//! `byte_nfa` (from the representation), `determinize`, `char_dfa`, `product`, `minimize` and `to_ir`
//! (back to the representation) are the automata. `hir_builder`, `hir_to_ir`, `anchors` and
//! `utf8_class` serve the parsers of regular expressions.

pub(in crate::constraint) mod anchors;
pub(in crate::constraint) mod byte_nfa;
pub(in crate::constraint) mod char_dfa;
pub(in crate::constraint) mod determinize;
pub(in crate::constraint) mod hir_builder;
pub(in crate::constraint) mod hir_to_ir;
pub(in crate::constraint) mod minimize;
pub(in crate::constraint) mod product;
pub(in crate::constraint) mod to_ir;
pub(in crate::constraint) mod utf8_class;
