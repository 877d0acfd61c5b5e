//! Byte automata with calls, counters and a stack: what constraints are compiled to and how they
//! run.
//!
//! [`Program`] is a constraint lowered to rules over one arena of states, without the states that
//! cannot be completed. [`Machine`] runs it over bytes and returns interned configurations. It is
//! determinised lazily.
//!
//! # Files
//!
//! A file uses those above it in these lists. Two folders stand beside them.
//!
//! Data of a program:
//!
//! - `nfa`: automaton states, and the arena that all rules share.
//! - `register`: counters, property tables and other data that a rule carries.
//! - `lazy_dfa`: lazy subset construction.
//! - `program`: [`Program`], and the rules and registers of every base.
//!
//! Compilation:
//!
//! - `alphabet`: the bytes that a vocabulary can write.
//! - `intern`: equal nodes of the representation become one.
//! - `lower_regular`: the lowering of regular nodes to states.
//! - `literals`: sets of literals as tries of states.
//! - `scalars`: strings and numbers, and the lengths of their texts.
//! - `liveness`: removes the states that cannot reach the end of their rule; `liveness/fast_path`:
//!   the usual case, in which all are live.
//! - `builder`: rules under construction, and those that are still to be built.
//! - `lower`: the lowering of JSON values to rules.
//! - `left_recursion`: refuses left recursion. `tool_check`: tools whose schemas allow nothing.
//! - `compile`: from a constraint to a checked program.
//!
//! Run time:
//!
//! - `thread`: local states, frames and threads.
//! - `automaton`: the automaton of a program with the deterministic states met so far.
//! - `local`: moves inside one rule, registers included.
//! - `stack`: stacks of return frames.
//! - `closure`: steps of threads, with the calls and returns that follow a byte.
//! - `configuration`: [`Machine`] and its interned configurations.
//! - `shortest`: the shortest text to the end of the output; `shortest/lower_bound`: the lower
//!   bounds that guide it.
//!
//! The part `properties`, for objects and arrays of unique scalars:
//!
//! - `table`: what the register of an object knows about its properties. `name_trie`: names that
//!   others must not repeat. `seen_names`: interned sets of the names that an object has.
//! - `memory`: what a rule must remember. `lower`: the lowering of objects.
//! - `guards`: guards of objects at run time, and names that must be new.
//!
//! The part `unique_items`, for arrays whose items differ as values:
//!
//! - `value`: the values. `matching`: whether different ones can fill all positions.
//! - `unbounded`: states where no check is needed.
//! - `unique_items`: the items so far, and repeated ones.
//! - `extensible`: whether a new item can come.
//! - `feasible`: the check at compile time. It runs a machine of its own, so it is above both.
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
mod automaton;
mod builder;
mod closure;
mod compile;
mod configuration;
mod intern;
mod lazy_dfa;
mod left_recursion;
mod literals;
mod liveness;
mod local;
mod lower;
mod lower_regular;
mod nfa;
mod program;
mod properties;
mod register;
mod scalars;
mod shortest;
mod stack;
mod thread;
mod tool_check;
mod unique_items;

pub(crate) use automaton::Automaton;
pub(crate) use closure::{PendingCall, StackMachine, StepResult};
pub(crate) use configuration::{ConfigId, DEAD_CONFIG, Machine};
pub(crate) use program::Program;
pub(crate) use properties::seen_names::TRIED;
pub(crate) use shortest::shortest_text;
pub(crate) use thread::{LocalState, ROOT_STACK, StackId, Thread, UNKNOWN_STACK};
pub(crate) use unique_items::UniqueArray;
