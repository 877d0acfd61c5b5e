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

mod file;
mod fsm;
mod labels;
mod positions;
mod set;
mod spell;
mod trie;

use std::sync::Arc;

pub use fsm::{FsmWalk, MAX_STATES, MAX_TRANSITIONS, State, TokenFsm};
pub use labels::{Labels, Lead, Levels, MAX_LABEL_BYTES, MAX_LABELS};
pub use positions::TokenMasks;
pub use set::TokenSet;
pub(crate) use trie::Items;
pub use trie::{LabelNode, LabelTrie};

/// A constraint over tokens, to be compiled.
#[derive(Debug, Clone)]
pub(crate) enum TokenMachine {
    /// Also what positions become.
    Fsm(Arc<TokenFsm>),
    Labels(Arc<Labels>),
}
