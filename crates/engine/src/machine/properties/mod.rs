//! Properties of JSON objects: how they are lowered, the names seen so far, and the guards that keep
//! a name from occurring twice.

pub(super) mod guards;
pub(super) mod lower;
pub(super) mod seen_names;
