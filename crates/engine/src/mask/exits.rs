//! Exits of a rule: the tokens that leave it, and what remains of their bytes.
//!
//! From inside a string, many tokens reach the closing quote, at many nodes of the trie. The bytes
//! after the quote are only a few dozen different strings. So these rests are merged into a trie of
//! their own. To find what may follow in a context, a walk visits a few nodes in one small array
//! instead of many subtrees of the vocabulary.
//!
//! Where blanks may end a rule, one node has half of the vocabulary below it. Such a *wide exit* is
//! kept as the node, and the walk of what follows visits the subtree of the vocabulary itself.
//!
//! An exit of a token that is legal anyway adds nothing. Where exits are many, those of tokens that
//! stay inside the rule are left out.

use super::trie_walk::{WIDE_FROM, WalkResult};
use crate::vocab::{TokenId, Trie, TrieNode, Vocabulary};

/// A token that leaves a rule after `offset` of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct ExitToken {
    pub token: TokenId,
    pub offset: u16,
}

/// Exits, before they are interned.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// Tokens that leave, one by one.
    pub tokens: Vec<ExitToken>,
    /// Nodes of the trie of the vocabulary: every token at and below one leaves there.
    pub wide: Vec<TrieNode>,
}

impl From<Vec<ExitToken>> for Exits {
    fn from(tokens: Vec<ExitToken>) -> Self {
        Exits { tokens, wide: Vec::new() }
    }
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
    /// Wide exits, as nodes of the trie of the vocabulary. The tokens at these nodes are also in
    /// `entries`.
    pub wide: Box<[TrieNode]>,
}

impl ExitSet {
    /// Returns the bytes held.
    pub(super) fn bytes(&self) -> usize {
        let lists = size_of_val(&*self.entries) + size_of_val(&*self.wide) + self.ending.capacity() * 4;
        size_of::<ExitSet>() + lists + self.trie.bytes()
    }

    pub(super) fn new(vocab: &Vocabulary, exits: Exits) -> Self {
        let entries: Box<[ExitToken]> = exits.tokens.into();
        let rest = |t: &ExitToken| &vocab.token_bytes(t.token)[t.offset as usize..];
        let ending = entries.iter().filter(|t| rest(t).is_empty()).map(|t| t.token).collect();
        let trie = Trie::new(entries.iter().enumerate().map(|(i, t)| (rest(t), i as u32)));
        ExitSet { entries, ending, trie, wide: exits.wide.into() }
    }
}

/// Returns a hash of a set of exits without repetitions. It is a sum, so it does not depend on
/// their order and nothing needs to be sorted.
pub(super) fn set_key(exits: &Exits) -> u64 {
    let mixed = |x: u64| {
        let product = u128::from(x).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
        (product >> 64) as u64 ^ product as u64
    };
    let tokens = exits.tokens.iter().map(|tail| (u64::from(tail.token) << 16 | u64::from(tail.offset)) + 1);
    let wide = exits.wide.iter().map(|&node| u64::from(node) << 16 | 1 << 63);
    let count = (exits.tokens.len() + exits.wide.len()) as u64;
    tokens.chain(wide).fold(count, |sum, x| sum.wrapping_add(mixed(x)))
}

impl ExitSet {
    /// Returns true if this is the same set of exits.
    pub(super) fn has_same_exits(&self, exits: &Exits) -> bool {
        fn same<T: Ord + Clone>(a: &[T], b: &[T]) -> bool {
            let sorted = |list: &[T]| {
                let mut list = list.to_vec();
                list.sort_unstable();
                list
            };
            a.len() == b.len() && (a == b || sorted(a) == sorted(b))
        }
        same(&self.entries, &exits.tokens) && same(&self.wide, &exits.wide)
    }
}

/// Number of tokens above which exits are filtered, and kept as nodes where many are left.
const FILTER_FROM: usize = if cfg!(test) { 20 } else { 2_000 };

/// The most exits of a mask that is of use.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExitLimit {
    tokens: usize,
    wide: usize,
}

impl ExitLimit {
    /// Any number.
    pub(super) const NONE: ExitLimit = ExitLimit { tokens: usize::MAX, wide: usize::MAX };
    /// Beyond this number, a walk with more context has fewer.
    pub(super) const USUAL: ExitLimit = match cfg!(test) {
        true => ExitLimit { tokens: 400, wide: 4 },
        false => ExitLimit { tokens: 12_000, wide: 12 },
    };
}

/// Returns the exits that a walk of a trie found, or `None` beyond the limit. The trie holds the
/// tokens without their first `before` bytes. Where exits are many, those of tokens that stay inside
/// the rule are left out; these tokens are in `legal`, if that row is made already.
pub(super) fn exits_of(
    vocab: &Vocabulary,
    (trie, before): (&Trie, u16),
    found: &WalkResult,
    legal: Option<&[u32]>,
    limit: ExitLimit,
) -> Option<Exits> {
    let shifted = |tail: ExitToken| ExitToken { offset: tail.offset + before, ..tail };
    let mut exits = Exits::default();
    if found.exits.iter().map(|node| trie.positions_below(node.0).len()).sum::<usize>() <= FILTER_FROM {
        exits.tokens.extend(found.exits.iter().flat_map(|node| below(trie, node.0)).map(shifted));
        return Some(exits);
    }
    let mut made = Vec::new();
    let row = legal.unwrap_or_else(|| {
        made = vec![0u32; vocab.len().div_ceil(32)];
        found.set_bits(trie, &mut made);
        &made
    });
    let leaves = |token: TokenId| row[token as usize / 32] >> (token % 32) & 1 == 0;
    // The exit of a token lies below the exits of its shorter beginnings. So the tokens that leave
    // are found once, as positions in the trie.
    let mut nodes: Vec<TrieNode> = found.exits.iter().map(|node| node.0).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let (mut leaving, mut visited): (Vec<u32>, u32) = (Vec::new(), 0);
    for &node in &nodes {
        let all = trie.positions_below(node);
        let new = all.start.max(visited)..all.end;
        leaving.extend(new.filter(|&at| leaves(trie.tokens()[at as usize])));
        visited = visited.max(all.end);
        let from = leaving.partition_point(|&at| at < all.start);
        let below = &leaving[from..from + leaving[from..].partition_point(|&at| at < all.end)];
        let depth = trie.depth(node) as u16 + before;
        let exit = |&at: &u32| ExitToken { token: trie.tokens()[at as usize], offset: depth };
        if below.len() < WIDE_FROM {
            exits.tokens.extend(below.iter().map(exit));
        } else {
            let here = all.start + trie.tokens_at(node).len() as u32;
            exits.tokens.extend(below.iter().take_while(|&&at| at < here).map(exit));
            exits.wide.extend(in_vocabulary(vocab, (trie, before), node));
        }
        if exits.tokens.len() > limit.tokens || exits.wide.len() > limit.wide {
            return None;
        }
    }
    exits.wide.sort_unstable();
    exits.wide.dedup();
    Some(exits)
}

/// Returns the node of the trie of the vocabulary with the same path as a node of a trie of tokens
/// without their first `before` bytes.
pub(super) fn in_vocabulary(
    vocab: &Vocabulary,
    (trie, before): (&Trie, u16),
    node: TrieNode,
) -> Option<TrieNode> {
    let depth = trie.depth(node) + before as usize;
    let path = trie.tokens_below(node).first().map(|&token| &vocab.token_bytes(token)[..depth])?;
    vocab.trie().find(path)
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
