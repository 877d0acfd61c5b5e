//! The constraint engine of `ffwd` for C and C++.
//!
//! `include/ffwd.h` is made of these files by cbindgen, comments included; the program in `header`
//! compares both. One file for each kind of object. Rules that all of them follow: a fault becomes a
//! status and an error object, no panic leaves a function, and memory of the caller is reached through
//! `memory` alone. Objects are handles of what the engine counts references of, so the order in which
//! they are freed does not matter.
//!
//! # Cost
//!
//! A call adds a few checks to the engine's function.
//!
//! # Alternatives considered
//!
//! A header written by hand was rejected: nothing would compare its types with these.
//!
//! A function for each kind of constraint was rejected: kinds and options have names, as in Python, so
//! new ones change no function.

// The header states what a caller must ensure, once for all functions.
#![allow(clippy::missing_safety_doc)]

pub mod callbacks;
pub mod constraint;
pub mod error;
pub mod grammar;
mod guard;
pub mod matcher;
mod memory;
pub mod vocabulary;
