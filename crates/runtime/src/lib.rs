//! The model runner of `ffwd`: loads models, decodes under a constraint, extracts records.
//!
//! The crate `ffwd` re-exports everything here and is the one to depend on. The modules depend on
//! each other in one direction: `threads`, then `model`, then `chat`, `sample` and `speedup`, then `draft`,
//! `decode` and `extract`. Constraints and bitmasks come from `ffwd-engine`.
//!
//! # Cost
//! That of the model's forwards; see [`model`] and [`decode`].
//!
//! # Alternatives considered
//! One crate with the program was rejected: a changed help text would compile the kernels again.

pub mod chat;
pub mod decode;
pub mod draft;
mod exp;
pub mod extract;
mod files;
pub mod model;
pub mod sample;
pub mod speedup;
mod threads;

pub use chat::{ChatOptions, ChatTemplate, Message};
pub use threads::{Threads, default_threads};

pub use decode::{Engine, Finish, Mode, Output, Prompt, Request, Scheduler, SchedulerOptions, Stats};

pub use ffwd_engine::{
    Bitmask, CompiledGrammar, Compiler, Constraint, ConstraintBuilder, Error, ErrorKind, ForcedPrefix,
    GrammarSizes, KeyOrder, Matcher, Policy, Result, TokenId, Vocabulary, Warning, WarningKind, Whitespace,
    constraint, error, matcher, vocab,
};
