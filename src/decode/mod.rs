//! Running a model under a constraint.
//!
//! [`Engine`] holds the target model, the draft model and the vocabulary; a [`Request`] is a prompt
//! with a constraint and options; `session` is the loop that all modes share; a [`Scheduler`] runs many
//! requests in one batch. See
//! `docs/architecture.md` for the modes and for why `exact` gives the tokens of `off`.

mod best;
mod closing;
mod engine;
mod events;
mod fields;
mod labels;
mod prefix;
mod request;
mod scheduler;
mod session;
mod stats;
mod stop;
mod thinking;

pub use best::{BeamOptions, MOST_SEQUENCES, Ranked, Scored};
pub use engine::{Engine, EngineBuilder, Output};
pub use events::{CancelToken, Event};
pub use fields::{Field, FieldState, Fields};
pub use labels::{LabelOptions, LabelProbabilities, LabelProbability};
pub use request::{Prompt, Request};
pub use scheduler::{Figures, Handle, Occurrence, Rejected, Scheduler, SchedulerOptions};
pub use session::{Adversary, TokenLogprob};
pub use stats::{BySource, Finish, Mode, Spent, Stats};
