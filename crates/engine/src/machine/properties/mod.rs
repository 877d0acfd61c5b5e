//! Properties of JSON objects: `lower` makes their states, `seen_names` holds interned sets of the
//! names seen so far, and `guards` keeps names from repeating and checks counts and order.

pub(super) mod guards;
pub(super) mod lower;
pub(super) mod seen_names;
