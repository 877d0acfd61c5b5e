//! Regular languages as nodes of the common representation.
//!
//! This is the side of the toolkit [`char_lang`](crate::char_lang) that knows nodes. `from_ir`
//! makes automata of nodes, and `to_ir` makes nodes of automata; `combine` is both. `hir_to_ir`, `anchors` and
//! `utf8_class` turn parsed patterns and character classes into nodes. The syntax of patterns is
//! that of the front ends, which nothing here knows.

pub(in crate::constraint) mod anchors;
pub(in crate::constraint) mod combine;
pub(in crate::constraint) mod from_ir;
pub(in crate::constraint) mod hir_to_ir;
pub(in crate::constraint) mod to_ir;
pub(in crate::constraint) mod utf8_class;
