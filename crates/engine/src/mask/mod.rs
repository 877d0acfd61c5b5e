//! Token masks of machine configurations, memoised in layers.
//!
//! A token is legal if its bytes lead to a live configuration. Which bytes do is known to the
//! machine; this module answers for all tokens of a vocabulary at once, and remembers:
//!
//! 1. per *local state*: tokens that stay inside the rule, and the trie nodes at which the rule ends
//!    (exits) - independent of the stack, so shared by every place that calls the rule;
//! 2. per *(return state, set of exits)*: the tokens that go on after the return, and further exits;
//! 3. per *configuration*: the union of 1 and 2 along its stacks.
//!
//! Where the root rule may end, nothing can follow and there are no exits; and of two states with many
//! ways on that differ in few first bytes, as in free text, the second is made from the first.
//!
//! States for which no slice of the vocabulary fits, but which go round in some class of bytes, are answered by rows of
//! bits and a walk of what leads out (`loops`); threads that return to the same places are one for their mask.
//! Ambiguous grammars have hundreds of threads and stacks: walks remember where bytes lead from sets of threads
//! (`bunch`), and stacks are left once, by all tokens that are not legal yet (`crowd`).
//!
//! Inside string text the vocabulary slices answer for 95% of the tokens; character counts and
//! forbidden names then only filter a few hundred exits. A warm mask is one hash look-up and a copy
//! (16 KB for 128k tokens). Storing a dense row per state was rejected: 16 KB times every state, and
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

/// The tokens a configuration allows: a dense base and a few more.
#[derive(Debug, Clone)]
pub struct Mask {
    /// Packed bits, shorter than the row or as long; absent if `tokens` says it all.
    base: Option<Arc<[u32]>>,
    /// Further tokens, sorted; some may be in the base, too.
    tokens: Box<[TokenId]>,
}

impl Mask {
    /// A mask of exactly these tokens, sorted and without repetitions: packed where that is smaller.
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

    /// A mask of the tokens whose bits are set in a row.
    fn of_row(row: Vec<u32>) -> Mask {
        let count: u32 = row.iter().map(|word| word.count_ones()).sum();
        match count as usize > row.len() {
            true => Mask { base: Some(row.into()), tokens: Box::default() },
            false => Mask { base: None, tokens: union::tokens_of(&row).collect() },
        }
    }

    /// Writes the mask into `row` (bit t % 32 of word t / 32), overwriting all of it.
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

    /// Whether a token is in the mask.
    pub fn contains(&self, token: TokenId) -> bool {
        let in_base = self
            .base
            .as_ref()
            .and_then(|b| b.get(token as usize / 32))
            .is_some_and(|w| w >> (token % 32) & 1 == 1);
        in_base || self.tokens.binary_search(&token).is_ok()
    }

    /// The dense part: packed words, as many as are needed.
    pub fn base(&self) -> &[u32] {
        self.base.as_deref().unwrap_or(&[])
    }

    /// Further tokens, sorted.
    pub fn more(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Takes tokens out.
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

    /// Bytes this mask holds alone (a shared base not counted).
    pub(crate) fn bytes(&self) -> usize {
        self.tokens.len() * 4 + 64 + self.base.as_ref().map_or(0, alone)
    }
}

/// Bytes of a row that nothing else refers to yet.
fn alone(row: &Arc<[u32]>) -> usize {
    if Arc::strong_count(row) == 1 { size_of_val(&**row) } else { 0 }
}
