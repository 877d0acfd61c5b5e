//! From the representation to a byte automaton with a stack, lazily determinised.
//!
//! [`Program`] is a constraint lowered to rules over one arena of states, with everything that cannot
//! be completed removed; [`Machine`] runs it over bytes and hands out interned configurations. The
//! cost of a step is one table look-up per thread (usually one), plus a hash look-up where a rule is
//! entered or left. An Earley parser, as the peers use, was rejected for schemas: JSON is visibly
//! pushdown, so the stack height is known and the machine is deterministic but for real ambiguity.
//!
//! Files: `nfa` (states), `regular` (lowering of regular nodes), `text` (strings, numbers, lengths),
//! `lower` (values to rules), `object` (their properties), `liveness` (no dead ends), `recursion`,
//! `intern`, `dfa` (lazy subset construction), `register` (counters), `written` (what objects have so
//! far), `fresh` (guards and new names), `distinct` (items that differ as values: `value`, `open`, `rich`,
//! `enough`), `config` (threads, stacks, configurations), `shortest` (ways to the end, guided by `least`).

mod alphabet;
pub mod config;
pub mod dfa;
mod distinct;
mod enough;
mod fresh;
mod intern;
mod least;
mod literals;
mod liveness;
mod lower;
pub mod nfa;
mod object;
mod open;
mod recursion;
pub mod register;
mod regular;
mod rich;
mod shortest;
mod sure;
mod text;
mod value;
mod written;

pub use crate::escape::escape;
pub use config::{BASE, ConfigId, DEAD_CONFIG, Local, Machine, ROOT, Reached, StackId, Thread};
pub use lower::Program;
pub use open::{Followed, Place};
pub use written::Shown;
