//! Running a model under a constraint.
//!
//! [`Engine`] holds the target model, the draft model and the vocabulary; a [`Request`] is a prompt
//! with a constraint and options; `session` is the loop that all modes share. See
//! `docs/architecture.md` for the modes and for why `exact` gives the tokens of `off`.

mod engine;
mod session;
mod stats;

pub use engine::{Engine, EngineBuilder, Output, Prompt, Request};
pub use session::Adversary;
pub use stats::{BySource, Finish, Mode, Stats};
