//! Constraints over token ids instead of bytes: hand-built automata, masks by position, labels.
//!
//! A byte-level constraint describes the text and leaves its tokens to the model. Here the tokens
//! themselves are constrained:
//!
//! - [`TokenFsm`] is an automaton whose transitions are sets of tokens.
//! - [`TokenMasks`] is a list of such sets, one for each position.
//! - [`Labels`] is a taxonomy in which each label has one tokenisation, so that its probability is
//!   one product.
//!
//! The price is that an output has fewer tokenisations than its text allows.
//!
//! # Cost
//! All three are descriptions and cost what they contain.
//! [`Compiler::compile`](crate::Compiler::compile) checks them against the vocabulary and makes a
//! [`CompiledGrammar`](crate::CompiledGrammar), whose matchers are used like any other.
//!
//! # Alternatives considered
//! A trait for machines of the user was rejected: it would be called for a mask at each step. It
//! could not be checked at compile time that every state can be completed.

mod encode_after;
mod fsm;
mod label_files;
mod label_trie;
mod labels;
mod token_masks;
mod token_set;

use std::sync::Arc;

pub use fsm::{FsmWalk, MAX_STATES, MAX_TRANSITIONS, State, TokenFsm};
pub(crate) use label_trie::LabelItems;
pub use label_trie::{LabelNode, LabelTrie};
pub use labels::{Labels, Lead, Levels, MAX_LABEL_BYTES, MAX_LABELS};
pub use token_masks::TokenMasks;
pub use token_set::TokenSet;

/// A constraint over tokens, to be compiled.
#[derive(Debug, Clone)]
pub(crate) enum TokenMachine {
    /// Lists of masks also become this.
    Fsm(Arc<TokenFsm>),
    Labels(Arc<Labels>),
}
