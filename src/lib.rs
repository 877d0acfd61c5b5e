//! Exact and fast structured generation with language models.
//!
//! A [`Constraint`] says what an output may be: a JSON Schema, a regular expression, a context-free
//! grammar, a choice, an element pattern, any JSON object, tool calls in free text, a span of a given
//! text. Compiled for a [`Vocabulary`] it becomes a byte-level automaton, and a [`Matcher`] says at each
//! step which tokens keep the output completable: a packed bitmask that is exact in both directions and
//! never empty before the end.
//!
//! ```
//! use ffwd::{Compiler, Constraint, Vocabulary};
//!
//! # fn main() -> ffwd::Result<()> {
//! # let tokenizer = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
//! #   "normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,
//! #   "trim_offsets":true,"use_regex":true},"post_processor":null,"decoder":{"type":"ByteLevel",
//! #   "add_prefix_space":true,"trim_offsets":true,"use_regex":true},"model":{"type":"BPE",
//! #   "dropout":null,"unk_token":null,"continuing_subword_prefix":null,"end_of_word_suffix":null,
//! #   "fuse_unk":false,"byte_fallback":false,"ignore_merges":false,
//! #   "vocab":{"y":0,"e":1,"s":2,"n":3,"o":4,"ye":5},"merges":["y e"]}}"#;
//! // Usually `Vocabulary::from_file("tokenizer.json")?`.
//! let vocab = Vocabulary::from_bytes(tokenizer.as_bytes())?;
//! let compiler = Compiler::new(vocab.clone());
//! let grammar = compiler.compile(&Constraint::choice(["yes", "no"])?)?;
//!
//! let mut matcher = grammar.matcher();
//! let mut row = vec![0u32; vocab.bitmask_words()];
//! matcher.fill_bitmask(&mut row);
//! assert_eq!(row[0], 1 << 0 | 1 << 3 | 1 << 5); // y, n, ye
//! matcher.accept_token(5)?;
//! assert_eq!(matcher.forced_bytes(), b"s"); // only one way to go on
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `model` there is a runner on candle and an [`Engine`] that decodes: forced runs are
//! jumped, values are drafted by copying from the prompt and by a small model, and the target model
//! verifies a whole draft in one forward. In the mode `exact` the tokens are those of plain masked
//! decoding. With the feature `embedded` two small models are part of the library:
//!
#![cfg_attr(feature = "embedded", doc = "```")]
#![cfg_attr(not(feature = "embedded"), doc = "```ignore")]
//! use ffwd::{Constraint, Engine, Prompt, Request};
//!
//! # fn main() -> ffwd::Result<()> {
//! let engine = Engine::embedded()?;
//! let request = Request::new(Prompt::text("The date is ")).constraint(Constraint::regex("2[0-9]{3}-0[1-9]")?);
//! let output = engine.generate(&request)?;
//! assert_eq!(output.text.len(), 7);
//! println!("{} in {} forwards", output.text, output.stats.forwards);
//! # Ok(())
//! # }
//! ```
//!
//! The modules depend on each other in one direction only, from `vocab` and `constraint` over
//! `machine`, `mask` and `matcher` to `decode`, `extract` and `cli`; `docs/architecture.md` tells the
//! whole story. Without features the crate is the constraint engine alone and has no candle in its
//! dependencies.

#[cfg(feature = "model")]
pub mod chat;
#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "model")]
pub mod decode;
#[cfg(feature = "model")]
pub mod draft;
#[cfg(feature = "model")]
mod exp;
#[cfg(feature = "model")]
pub mod extract;
#[cfg(feature = "model")]
pub mod model;
#[cfg(feature = "model")]
pub mod sample;

#[cfg(feature = "model")]
pub use chat::{ChatOptions, ChatTemplate, Message};
#[cfg(feature = "model")]
pub use decode::{Engine, Finish, Mode, Output, Prompt, Request, Scheduler, SchedulerOptions, Stats};

pub use ffwd_engine::{
    Bitmask, CompiledGrammar, Compiler, Constraint, ConstraintBuilder, Error, ErrorKind, ForcedPrefix,
    GrammarSizes, KeyOrder, Matcher, Policy, Result, TokenId, Vocabulary, Warning, WarningKind, Whitespace,
    constraint, error, matcher, vocab,
};
