//! Exits of a rule: the tokens that leave it, and what remains of their bytes.
//!
//! From inside a string, many tokens reach the closing quote, at many nodes of the trie. The bytes
//! after the quote are only a few dozen different strings. So these rests are merged into a trie of
//! their own. To find what may follow in a context, a walk visits a few nodes in one small array
//! instead of many subtrees of the vocabulary.

use crate::vocab::{TokenId, Trie, TrieNode, Vocabulary};

/// A token that leaves a rule after `offset` of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ExitToken {
    pub token: TokenId,
    pub offset: u16,
}

/// A set of exits.
#[derive(Debug)]
pub(super) struct ExitSet {
    /// All tokens that leave, in the order in which they were found.
    pub entries: Box<[ExitToken]>,
    /// The tokens that end exactly where the rule does.
    pub ending: Vec<TokenId>,
    /// The rests of the other tokens; the ids are indices into `entries`.
    pub trie: Trie,
}

impl ExitSet {
    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        size_of::<ExitSet>() + size_of_val(&*self.entries) + self.ending.capacity() * 4 + self.trie.bytes()
    }

    pub(super) fn new(vocab: &Vocabulary, entries: Box<[ExitToken]>) -> Self {
        let rest = |t: &ExitToken| &vocab.token_bytes(t.token)[t.offset as usize..];
        let ending = entries.iter().filter(|t| rest(t).is_empty()).map(|t| t.token).collect();
        let trie = Trie::new(entries.iter().enumerate().map(|(i, t)| (rest(t), i as u32)));
        ExitSet { entries, ending, trie }
    }
}

/// Returns a hash of a set of exits without repetitions. It is a sum, so it does not depend on
/// their order and nothing needs to be sorted.
pub(super) fn set_key(entries: &[ExitToken]) -> u64 {
    entries.iter().fold(entries.len() as u64, |sum, tail| {
        let x = (u64::from(tail.token) << 16 | u64::from(tail.offset)) + 1;
        let product = u128::from(x).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        sum.wrapping_add((product >> 64) as u64 ^ product as u64)
    })
}

impl ExitSet {
    /// Returns true if this is the same set of exits.
    pub(super) fn has_same_exits(&self, entries: &[ExitToken]) -> bool {
        let sorted = |entries: &[ExitToken]| {
            let mut entries = entries.to_vec();
            entries.sort_unstable();
            entries
        };
        let same_size = self.entries.len() == entries.len();
        same_size && (*self.entries == *entries || sorted(&self.entries) == sorted(entries))
    }
}

/// Returns the exits of the tokens at and below `node` of a trie whose ids are tokens.
pub(super) fn below(trie: &Trie, node: TrieNode) -> impl Iterator<Item = ExitToken> + '_ {
    let offset = trie.depth(node) as u16;
    trie.tokens_below(node).iter().map(move |&token| ExitToken { token, offset })
}

impl ExitSet {
    /// Returns the exits of the tokens at and below `node` of the trie of this set.
    pub(super) fn below(&self, node: TrieNode) -> impl Iterator<Item = ExitToken> + '_ {
        let depth = self.trie.depth(node) as u16;
        self.trie.tokens_below(node).iter().map(move |&i| {
            let ExitToken { token, offset } = self.entries[i as usize];
            ExitToken { token, offset: offset + depth }
        })
    }
}
