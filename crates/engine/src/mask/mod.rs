//! Token masks of configurations: which tokens may come next.
//!
//! A token is legal if its bytes lead to a live configuration. The machine decides this for bytes.
//! This module answers for all tokens of a vocabulary at once, and memoises the answers in three
//! tables:
//!
//! 1. By *local state*: the tokens that stay inside the rule, and the *exits*, which leave it. Both
//!    are independent of the stack, so every call of the rule shares them.
//! 2. By *return state and set of exits*: the tokens that continue after the return, and further
//!    exits.
//! 3. By *configuration*: the union of both along its stacks.
//!
//! # Files
//!
//! - `cache`: [`MaskCache`], the three memo tables and how they are filled.
//! - `memo`: the data types of the memo tables, and [`BaseMasks`], which grammars share.
//! - `union`: unions of masks, and operations on mask rows.
//! - `exits`: sets of exits and the trie of what remains of their tokens.
//! - `trie_walk`: the walk of the byte trie that finds the legal tokens of a state.
//! - `thread_sets`: interned sets of threads with memoised steps, for walks in ambiguous grammars.
//! - `slice_masks`: the part of a mask that slices of the vocabulary give.
//! - `slice_fit`: how long strings over a slice may be for a state, and which slice is chosen.
//! - `slice_search`: the search of states that strings over a slice reach.
//! - `rejection_bytes`: necessary conditions on the bytes of a string that a state rejects.
//! - `rejected_tokens`: the tokens of a slice that a state rejects.
//! - `class_loops`: masks of states that loop in a class of bytes that is no slice.
//! - `similar_states`: recently masked states, from which nearly equal ones are made.
//! - `added_tokens`: the tokens that one more text state adds to a mask.
//! - `unique_names`: masks of names that must not repeat.
//! - `unique_items`: tokens that would repeat an item of an array with unique items.
//! - `stack_sweep`: masks of configurations with many stacks.
//! - `oracle_tests`: tests of all shortcuts against a plain walk.
//!
//! # Order of the strategies
//!
//! ```text
//! mask(configuration)
//!  1  configuration cache hit ................................. done
//!  2  merge_parallel_threads       threads with equal stacks and many live bytes become one
//!  3  for each local state, the first that applies:
//!     a  added_by                  text state after another text state
//!     b  root_mask                 state of the root rule: no exits
//!     c  memo table                base first, then the grammar
//!     d  bounded_text              text with a length: filter a counted mask
//!     e  unique_text_mask,         text that must be a new name:
//!        unique_language_mask        filter exits or tokens
//!     f  pattern_text_mask         pattern with a length, far from its bound
//!     g  mask_from_similar         nearly equal state with a known mask
//!     h  class_loop_mask           loop in a class of bytes that is no slice
//!     i  slice and residue walk    widest slice first, then narrower ones
//!     j  trie walk                 the whole vocabulary
//!  4  for each set of exits and stack:
//!     a  after_return              memo table, else a walk of the exit trie
//!     b  sweep_stacks              instead, if there are many pairs
//!  5  union of all parts
//!  6  remove_repeated_names        if the configuration tracks names
//!  7  remove repeated items        if the constraint has unique items
//! ```
//!
//! Step 3b makes its mask by g to j and keeps it in a table of its own. The memo table of c keeps
//! the results of d to j.
//!
//! # Cost
//!
//! A warm mask is one hash lookup and a copy of a mask row. Inside string text the slices answer
//! for nearly all tokens. Character counts and forbidden names then only filter some exits.
//!
//! # Alternatives considered
//!
//! A dense mask row for each state: it takes the size of a mask row times the number of states, and
//! in-string states of different properties would share nothing.

mod added_tokens;
mod cache;
mod class_loops;
mod exits;
mod memo;
#[cfg(test)]
mod oracle_tests;
mod rejected_tokens;
mod rejection_bytes;
mod similar_states;
mod slice_fit;
mod slice_masks;
mod slice_search;
mod stack_sweep;
mod thread_sets;
mod trie_walk;
mod union;
mod unique_items;
mod unique_names;

use std::sync::Arc;

use rustc_hash::FxHashSet;

pub use cache::MaskCache;
pub use memo::BaseMasks;

use crate::vocab::TokenId;

/// The tokens that a configuration allows: a packed base row and a list of further tokens.
#[derive(Debug, Clone)]
pub struct Mask {
    /// Packed bits, at most as long as a mask row; `None` if `tokens` holds the whole mask.
    base: Option<Arc<[u32]>>,
    /// Further tokens, sorted; some of them may also be in the base.
    tokens: Box<[TokenId]>,
}

impl Mask {
    /// Returns the mask of exactly these tokens, which are sorted and unique. It is packed where
    /// that is smaller.
    pub(crate) fn of_tokens(tokens: Vec<TokenId>) -> Mask {
        let words = tokens.last().map_or(0, |&t| t as usize / 32 + 1);
        if tokens.len() <= words {
            return Mask { base: None, tokens: tokens.into() };
        }
        let mut row = vec![0u32; words];
        for t in tokens {
            row[t as usize / 32] |= 1 << (t % 32);
        }
        Mask { base: Some(row.into()), tokens: Box::default() }
    }

    /// Returns the mask of the tokens whose bits are set in a mask row.
    fn of_row(row: Vec<u32>) -> Mask {
        let count: u32 = row.iter().map(|word| word.count_ones()).sum();
        match count as usize > row.len() {
            true => Mask { base: Some(row.into()), tokens: Box::default() },
            false => Mask { base: None, tokens: union::tokens_of(&row).collect() },
        }
    }

    /// Writes the mask into `row` (bit `t % 32` of word `t / 32` for token `t`) and overwrites all
    /// of it.
    pub fn write(&self, row: &mut [u32]) {
        let copied = match &self.base {
            Some(base) => {
                let n = base.len().min(row.len());
                row[..n].copy_from_slice(&base[..n]);
                n
            }
            None => 0,
        };
        row[copied..].fill(0);
        for &t in self.tokens.iter() {
            row[t as usize / 32] |= 1 << (t % 32);
        }
    }

    /// Returns true if a token is in the mask.
    pub fn contains(&self, token: TokenId) -> bool {
        let in_base = self
            .base
            .as_ref()
            .and_then(|b| b.get(token as usize / 32))
            .is_some_and(|w| w >> (token % 32) & 1 == 1);
        in_base || self.tokens.binary_search(&token).is_ok()
    }

    /// Returns the dense part: packed words, as many as are needed.
    pub fn base(&self) -> &[u32] {
        self.base.as_deref().unwrap_or(&[])
    }

    /// Returns the further tokens, sorted.
    pub fn more(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Removes tokens from the mask.
    fn remove(&mut self, out: &[TokenId]) {
        if out.is_empty() {
            return;
        }
        if let Some(base) = &mut self.base {
            let base = Arc::make_mut(base);
            for token in out {
                if let Some(word) = base.get_mut(*token as usize / 32) {
                    *word &= !(1 << (token % 32));
                }
            }
        }
        let tokens = std::mem::take(&mut self.tokens).into_vec();
        let out: FxHashSet<TokenId> = out.iter().copied().collect();
        self.tokens = tokens.into_iter().filter(|t| !out.contains(t)).collect();
    }

    /// Returns the bytes that only this mask holds, without a shared base.
    pub(crate) fn bytes(&self) -> usize {
        self.tokens.len() * 4 + 64 + self.base.as_ref().map_or(0, alone)
    }
}

/// Returns the bytes of a mask row that has no other owner yet, else 0.
fn alone(row: &Arc<[u32]>) -> usize {
    if Arc::strong_count(row) == 1 { size_of_val(&**row) } else { 0 }
}
