//! Decoding: runs a model under a constraint.
//!
//! [`Engine`] holds the target model, the draft model and the vocabulary. A [`Request`] is a prompt
//! with a constraint and options. `session` is the loop that all modes share, and a [`Scheduler`]
//! runs many requests in one batch. See `docs/architecture.md` for the modes and for why `exact`
//! gives the tokens of `off`.

mod completion;
mod engine;
mod events;
mod json_stream;
mod label_probabilities;
mod origin;
mod prefix_cache;
mod prompt;
mod request;
mod scheduler;
mod search;
mod session;
mod stats;
mod stop;
mod thinking;
mod watch;

pub use engine::{Engine, EngineBuilder, Output};
pub use events::{CancelToken, Event};
pub use json_stream::{Field, FieldState, JsonStream};
pub use label_probabilities::{LabelOptions, LabelProbabilities, LabelProbability};
pub use origin::{TokenOrigin, TokenSource};
pub use prompt::Prompt;
pub use request::Request;
pub use scheduler::{Handle, HandleEvent, Rejected, Scheduler, SchedulerOptions, SchedulerStats};
pub use search::{BeamOptions, MOST_SEQUENCES, Ranked, Scored};
pub use session::{DraftOverride, TokenLogprob};
pub use stats::{BySource, Finish, Mode, Stats, TimeBreakdown};
