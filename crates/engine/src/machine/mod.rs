//! Byte automata with calls, counters and a stack: what constraints are compiled to and how they
//! run.
//!
//! [`Program`] is a constraint lowered to rules over one arena of states, without the states that
//! cannot be completed. [`Machine`] runs it over bytes and returns interned configurations. It is
//! determinised lazily.
//!
//! # Files
//!
//! Compilation:
//!
//! - `nfa`: automaton states, and the arena that all rules share.
//! - `lower`: [`Program`], and the lowering of JSON values to rules.
//! - `lower_regular`: the lowering of regular nodes to states.
//! - `scalars`: strings and numbers, and the lengths of their texts.
//! - `literals`: sets of literals as tries of states.
//! - `properties/lower`: the lowering of objects and of arrays of unique scalars.
//! - `intern`: equal nodes of the representation become one.
//! - `alphabet`: the bytes that a vocabulary can write.
//! - `register`: counters, property tables and other data that a rule carries.
//! - `liveness`: removes the states that cannot reach the end of their rule; `liveness/fast_path`:
//!   the usual case, in which all are live.
//! - `left_recursion`: refuses left recursion.
//!
//! Run time:
//!
//! - `configuration`: [`Machine`], threads, stacks and configurations; `configuration/new`: its
//!   construction and memory.
//! - `lazy_dfa`: lazy subset construction.
//! - `properties/seen_names`: interned sets of the names that an object has.
//! - `properties/guards`: guards of objects, and names that must be new.
//! - `unique_items`: arrays whose items differ as values. `value` has the values, `extensible`
//!   checks whether a new item can come, `unbounded` finds states where no check is needed, and
//!   `feasible` is the check at compile time.
//! - `shortest`: the shortest text to the end of the output; `shortest/lower_bound`: the lower
//!   bounds that guide it.
//!
//! # Cost
//!
//! A step takes one table lookup per thread, usually one thread, and a hash lookup where a rule is
//! entered or left.
//!
//! # Alternatives considered
//!
//! An Earley parser for schemas: JSON is visibly pushdown, so the height of the stack is known, and
//! the machine is deterministic except where the constraint is ambiguous.

mod alphabet;
pub mod configuration;
mod intern;
pub mod lazy_dfa;
mod left_recursion;
mod literals;
mod liveness;
mod lower;
mod lower_regular;
pub mod nfa;
mod properties;
pub mod register;
mod scalars;
mod shortest;
mod tool_check;
mod unique_items;

pub use configuration::{
    ConfigId, DEAD_CONFIG, LocalState, Machine, ROOT_STACK, StackId, StepResult, Thread, UNKNOWN_STACK,
};
pub use lower::Program;
pub use unique_items::extensible::{ExtensionProbe, ProbeStep};
