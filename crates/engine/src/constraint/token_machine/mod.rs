//! Constraints over token ids instead of bytes: machines built by hand, masks for each position, labels.
//!
//! A byte-level constraint says what the text is and leaves its tokens to the model. Here the tokens
//! themselves are chosen: [`TokenFsm`] is a machine whose transitions are sets of tokens, [`TokenMasks`] a
//! list of such sets, and [`Labels`] a taxonomy of which each label has one spelling in tokens, so that its
//! probability is one product. The price is that an output has fewer spellings than its text.
//!
//! All three are descriptions; they cost what they hold. [`Compiler::compile`](crate::Compiler::compile)
//! checks them against the vocabulary and makes a [`CompiledGrammar`](crate::CompiledGrammar) whose
//! matchers are used like any other. A trait for user-made machines was rejected: masks would have to be
//! asked for at each step, and nobody could check at compile time that every state can be completed.

mod encode_after;
mod fsm;
mod label_files;
mod label_trie;
mod labels;
mod token_masks;
mod token_set;

use std::sync::Arc;

pub use fsm::{FsmWalk, MAX_STATES, MAX_TRANSITIONS, State, TokenFsm};
pub(crate) use label_trie::Items;
pub use label_trie::{LabelNode, LabelTrie};
pub use labels::{Labels, Lead, Levels, MAX_LABEL_BYTES, MAX_LABELS};
pub use token_masks::TokenMasks;
pub use token_set::TokenSet;

/// A constraint over tokens, to be compiled.
#[derive(Debug, Clone)]
pub(crate) enum TokenMachine {
    /// Also what positions become.
    Fsm(Arc<TokenFsm>),
    Labels(Arc<Labels>),
}
