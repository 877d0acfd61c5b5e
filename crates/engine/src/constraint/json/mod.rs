//! JSON text in an arena that keeps locations, order and the text of numbers; see [`document`].

pub(in crate::constraint) mod document;
mod parser;
pub(in crate::constraint) mod symbol_set;
pub(in crate::constraint) mod symbols;
