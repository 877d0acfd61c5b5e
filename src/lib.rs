//! Exact and fast structured generation.

pub mod constraint;
pub mod error;
pub mod machine;
pub mod mask;
pub mod matcher;
pub mod vocab;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "model")]
pub mod decode;
#[cfg(feature = "model")]
pub mod draft;
#[cfg(feature = "model")]
pub mod extract;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "model")]
pub mod sample;

#[cfg(feature = "model")]
pub use decode::{Engine, Finish, Mode, Output, Prompt, Request, Stats};

pub use constraint::{Constraint, Policy, Whitespace};
pub use error::{Error, ErrorKind, Result};
pub use matcher::{CompiledGrammar, Compiler, Matcher};
pub use vocab::{TokenId, Vocabulary};
