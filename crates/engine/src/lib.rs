//! The constraint engine of `ffwd`: exact token bitmasks for structured generation.
//!
//! A [`Constraint`] says what an output may be: a JSON Schema, a regular expression, a context-free
//! grammar, a choice, an element pattern, any JSON object, tool calls in free text, a span of a
//! given text. A [`Compiler`] turns it into a byte-level automaton for a [`Vocabulary`]. A
//! [`Matcher`] follows one generation: at each step it gives a packed bitmask of the tokens that
//! keep the output completable. The mask is exact in both directions and never empty before the
//! end.
//!
//! ```
//! use ffwd_engine::{Compiler, Constraint, Vocabulary};
//!
//! # fn main() -> ffwd_engine::Result<()> {
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
//! assert_eq!(matcher.forced_bytes(), b"s"); // only one continuation
//! # Ok(())
//! # }
//! ```
//!
//! The modules depend on each other in one direction: `vocab`, `char_lang` and `constraint`, then
//! `machine`, `mask` and `matcher`. `char_lang` (languages of characters), `machine` (automata over
//! bytes) and `mask` (bitmasks of configurations) are private. The crate has no `unsafe` code and
//! does not depend on a model runner.

#![forbid(unsafe_code)]

mod byte_set;
mod char_lang;
pub mod constraint;
mod decimal;
mod edit_distance;
pub mod error;
#[cfg(test)]
#[path = "tests/fault_injection.rs"]
mod fault;
mod incoming;
pub mod json_escape;
#[doc(hidden)]
pub mod json_scan;
mod machine;
mod mask;
pub mod matcher;
pub mod text;
pub mod vocab;
mod warning;

pub use constraint::{Constraint, ConstraintBuilder, KeyOrder, Policy, Whitespace};
pub use error::{Error, ErrorKind, Result};
pub use matcher::{Bitmask, CompiledGrammar, Compiler, ForcedPrefix, GrammarSizes, Matcher};
pub use vocab::{TokenId, Vocabulary};
pub use warning::{Warning, WarningKind};
