//! `ffwd serve` on a loopback connection: answers, faults, limits, and what happens when a client or
//! the server goes away.
#![cfg(all(feature = "serve", feature = "embedded"))]

mod access;
mod answers;
mod client;
mod fields;
mod load;
mod models;
mod playground;
mod program;
mod shutdown;
