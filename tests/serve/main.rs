//! `ffwd serve` on a loopback connection: answers, faults, limits, and what happens when a client or
//! the server goes away.

mod access;
mod answers;
mod automaton;
mod client;
mod curve;
mod extract;
mod fields;
mod label_tree;
mod load;
mod mask_explorer;
mod models;
mod playground;
mod program;
mod shutdown;
