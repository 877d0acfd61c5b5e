//! Decoding: runs a model under a constraint.
//!
//! [`Engine`] holds the target model, the draft model and the vocabulary. A [`Request`] is a prompt
//! with a constraint and options. `session` is the loop that all modes share, and a [`Scheduler`]
//! runs many requests in one batch. See `docs/architecture.md` for the modes and for why `exact`
//! gives the tokens of `off`.

mod alternatives;
mod best_first;
mod completion;
mod confidence;
mod drafting;
mod engine;
mod events;
mod json_stream;
mod json_values;
mod label_probabilities;
mod origin;
mod output;
mod prefix_cache;
mod prefix_reader;
mod prompt;
mod request;
mod scheduler;
mod search;
mod session;
mod stats;
mod stop;
mod thinking;
mod trace;
mod transcript;
mod utf8;
mod watch;

pub use crate::sample::TokenLogprob;
pub use alternatives::{AlternativeOptions, ValueAlternatives, ValueProbability};
pub use confidence::{ValueConfidence, forced_share};
pub use engine::{Engine, EngineBuilder};
pub use events::{CancelToken, Event};
pub use json_stream::{Field, FieldState, JsonStream};
pub use json_values::{LeafValue, leaf_values};
pub use label_probabilities::{LabelOptions, LabelProbabilities, LabelProbability};
pub use origin::{TokenOrigin, TokenSource};
pub use output::Output;
pub use prompt::Prompt;
pub use request::{DraftOverride, Request};
pub use scheduler::{
    Handle, HandleEvent, HandleMessage, Rejected, Scheduler, SchedulerOptions, SchedulerStats,
};
pub use search::{BeamOptions, MOST_SEQUENCES, Ranked, Scored};
pub use stats::{BySource, Finish, Mode, Stats, TimeBreakdown};
pub use trace::{ForwardTrace, RejectedDraft, TracedToken};
