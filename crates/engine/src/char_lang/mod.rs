//! Toolkit for languages of characters: automata, character classes, and the pieces of patterns.
//!
//! Front ends of [`constraint`](crate::constraint) combine patterns, formats and names with it. It
//! knows no syntax, no schema and no node of the common representation, and it depends on errors
//! only. So it may be used, tested and changed by itself. What turns nodes into automata and back
//! is in `constraint/regular/`, which knows both sides.
//!
//! - `byte_nfa`: nondeterministic automata over bytes
//! - `determinize`: their subset construction over code points
//! - `char_dfa`: complete deterministic automata over code points, their complement and listing
//! - `product`, `minimize`: their boolean combinations and their smallest form
//! - `char_class`: sets of characters
//! - `cursor`: a position in a text
//! - `hir_builder`, `pattern_text`: construction of HIR for the parsers of patterns, and their
//!   limits and errors

pub(crate) mod byte_nfa;
pub(crate) mod char_class;
pub(crate) mod char_dfa;
pub(crate) mod cursor;
mod determinize;
pub(crate) mod hir_builder;
mod minimize;
pub(crate) mod pattern_text;
mod product;
