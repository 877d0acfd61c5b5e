//! Objects that remember their properties, and arrays of unique scalars.

pub(super) mod guards;
pub(super) mod lower;
pub(super) mod memory;
pub(super) mod name_trie;
pub(super) mod seen_names;
pub(super) mod table;
