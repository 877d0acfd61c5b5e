//! Exact and fast structured generation with language models.
//!
//! A [`Constraint`] says what an output may be: a JSON Schema, a regular expression, a context-free
//! grammar, a choice, an element pattern, any JSON object, tool calls in free text, a span of a
//! given text. Compiled for a [`Vocabulary`] it becomes a byte-level automaton. A [`Matcher`] gives
//! at each step the tokens that keep the output completable: a packed bitmask that is exact in both
//! directions and never empty before the end. This part is the crate `ffwd-engine`, re-exported
//! here.
//!
//! An [`Engine`] runs models on the processor and decodes: it jumps forced runs, drafts values by
//! copying from the prompt and by a small model, and lets the target model verify a whole draft in
//! one forward. In the mode `exact` the tokens are those of plain masked decoding. A [`Scheduler`]
//! runs many requests in one batch. [`Engine::extract`] returns typed records.
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use ffwd::{Constraint, Engine, Prompt, Request};
//!
//! # fn main() -> ffwd::Result<()> {
//! let engine = Engine::embedded()?;
//! let date = Constraint::regex("2[0-9]{3}-0[1-9]")?;
//! let request = Request::new(Prompt::text("The date is ")).constraint(date);
//! let output = engine.generate(&request)?;
//! assert_eq!(output.text.len(), 7);
//! println!("{} in {} forwards", output.text, output.stats.forwards);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | feature | default | contents |
//! | --- | --- | --- |
//! | `model` | through the others | model runner: [`model`], [`chat`], [`sample`], [`draft`], [`decode`], [`extract`] |
//! | `embedded` | yes | three small models inside the library, for examples and tests |
//! | `cli` | yes | the program `ffwd` |
//! | `hub` | yes | models by repository name, from a model hub or its cache |
//! | `full` | no | the whole program: all features of this table but the last two rows |
//! | `shell` | in `full` | `ffwd completions` and `ffwd man` |
//! | `serve` | in `full` | `ffwd serve`, an HTTP server for clients of OpenAI's API ([`serve`]) |
//! | `bench` | in `full` | `ffwd bench` |
//! | `documents` | in `full` | PDF, e-mail, HTML, Word and hOCR as input of `ffwd extract`; `ffwd text` ([`documents`]) |
//! | `parquet` | in `full` | Parquet files as input and output of `ffwd extract` |
//! | `llguidance` | no | llguidance beside this engine in `ffwd bench masks` |
//! | `cuda`, `metal` | no | candle's forward on these devices ([`model::Device`]) |
//!
//! Without features the crate is the constraint engine alone, without candle in its dependencies.
//! The modules depend on each other in one direction; `docs/architecture.md` describes them.

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "documents")]
pub mod documents;

#[cfg(feature = "model")]
pub use ffwd_runtime::{
    ChatOptions, ChatTemplate, Engine, Finish, Message, Mode, Output, Prompt, Request, Scheduler,
    SchedulerOptions, Stats, Threads, chat, decode, default_threads, draft, extract, model, sample,
};
#[cfg(feature = "serve")]
pub use ffwd_serve as serve;

pub use ffwd_engine::{
    Bitmask, CompiledGrammar, Compiler, Constraint, ConstraintBuilder, Error, ErrorKind, ForcedPrefix,
    GrammarSizes, KeyOrder, Matcher, Policy, Result, TokenId, Vocabulary, Warning, WarningKind, Whitespace,
    constraint, error, matcher, vocab,
};

/// The programs of the README are tests.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../README.md")]
struct Readme;

/// The program of the page on extraction is a test.
#[cfg(all(doctest, feature = "embedded"))]
#[doc = include_str!("../docs/extracting.md")]
struct Extracting;
