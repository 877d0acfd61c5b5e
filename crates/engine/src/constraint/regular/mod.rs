//! Toolkit for regular languages: automata over characters, and helpers for regular expressions.
//!
//! Several front ends use it; it knows nothing of their syntax. The automata are in `byte_nfa`
//! (from the common representation), `determinize`, `char_dfa`, `product`, `minimize` and `to_ir`
//! (back to it). `hir_builder`, `hir_to_ir`, `anchors` and `utf8_class` serve the parsers of
//! regular expressions.

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
