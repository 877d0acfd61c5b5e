//! Byte trie of a vocabulary in depth-first arrays.
//!
//! A trie walk is one loop over the node array: continue at `p + 1` to descend, at `end(p)` to skip
//! a subtree.
//!
//! # Cost
//!
//! Building takes one sort of the tokens and one pass over their bytes.
//!
//! # Alternatives considered
//!
//! A trie of linked nodes was rejected. It costs a pointer per edge, and the tokens of a subtree
//! are no longer contiguous. Contiguous tokens allow accepting a whole subtree at once.

use super::TokenId;
use super::token_table::{Ordered, sorted};
use crate::byte_set::ByteSet;

/// Index of a trie node; 0 is the root.
pub type TrieNode = u32;

#[derive(Debug, Clone, Copy)]
struct NodeData {
    /// One past the last node of this subtree.
    end: u32,
    /// Index in `tokens` of the first token at or below this node.
    first_token: u32,
    /// Bytes from the root to here.
    depth: u16,
    /// Groups (see [`byte_group`]) of the bytes on the edges of this subtree, its own included.
    groups: u16,
    /// Bytes from here to the deepest node of this subtree.
    height: u16,
    /// The byte on the edge into this node.
    byte: u8,
    /// True if the children of the node are listed.
    fan: bool,
}

/// The children of a node with many children. They are far apart in memory, so skipping from one to
/// the next would cost a cache line each.
#[derive(Debug, Clone, Copy)]
struct ChildList {
    /// The bytes on the edges to the children.
    bytes: ByteSet,
    /// Index of the first child in the list of children, which is in byte order.
    first: u32,
}

/// A trie over the byte strings of tokens.
#[derive(Debug, Clone)]
pub struct Trie {
    nodes: Vec<NodeData>,
    /// Token ids in depth-first order; several may share one byte string.
    tokens: Vec<TokenId>,
    /// The root's child on each byte, 0 if there is none; the children of the root are far apart.
    first: Box<[TrieNode; 256]>,
    /// Child lists of nodes with many children, in node order; `fan_of` gives the index of a node's
    /// list.
    fans: Vec<ChildList>,
    fan_of: Vec<u32>,
    /// The children in `fans`.
    children: Vec<TrieNode>,
}

impl Trie {
    /// Returns the memory of the trie, in bytes.
    pub fn bytes(&self) -> usize {
        let fans = self.fans.capacity() * size_of::<ChildList>() + self.fan_of.capacity() * 4;
        let nodes = self.nodes.capacity() * size_of::<NodeData>() + self.children.capacity() * 4;
        nodes + fans + self.tokens.capacity() * 4 + size_of_val(&*self.first)
    }

    /// Builds the trie of `(bytes, id)` pairs; empty byte strings and ones longer than
    /// [`Trie::MAX_DEPTH`] are left out.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a [u8], TokenId)>) -> Self {
        let pairs: Vec<(&[u8], TokenId)> = pairs.into_iter().collect();
        // Equal strings are in the order of their ids only if the pairs are.
        let mut by_id: Vec<u32> = (0..pairs.len() as u32).collect();
        by_id.sort_by_key(|&i| pairs[i as usize].1);
        let pair = |i: u32| pairs[by_id[i as usize] as usize];
        let order = sorted(pairs.len(), |i| pair(i).0);
        Trie::of_sorted(order.into_iter().map(|o| {
            let (bytes, token) = pair(o.token);
            (bytes, Ordered { token, ..o })
        }))
    }

    /// Builds the trie of tokens in the order of their bytes, each with the number of bytes that it
    /// shares with the one before it.
    pub(super) fn of_sorted<'a>(order: impl Iterator<Item = (&'a [u8], Ordered)>) -> Self {
        let root = NodeData { end: 0, first_token: 0, depth: 0, groups: 0, height: 0, byte: 0, fan: false };
        let most = order.size_hint().1.unwrap_or(0);
        let mut nodes = Vec::with_capacity(most);
        nodes.push(root);
        let mut tokens = Vec::with_capacity(most);
        let mut path: Vec<u32> = vec![0];
        for (bytes, Ordered { token, common }) in order {
            // `path` always holds the root. Before the first token it holds nothing else.
            let common = usize::from(common).min(path.len() - 1);
            while path.len() > common + 1 {
                let closed = path.pop().unwrap_or(0);
                close(&mut nodes, closed, path.last().copied());
            }
            for (depth, &byte) in bytes.iter().enumerate().skip(common) {
                path.push(nodes.len() as u32);
                let (depth, groups) = (depth as u16 + 1, byte_group(byte));
                let first_token = tokens.len() as u32;
                nodes.push(NodeData { first_token, depth, groups, byte, ..root });
            }
            tokens.push(token);
        }
        let total = nodes.len() as u32;
        while let Some(open) = path.pop() {
            close(&mut nodes, open, path.last().copied());
        }
        let first_token = tokens.len() as u32;
        nodes.push(NodeData { end: total + 1, first_token, ..root });
        nodes.shrink_to_fit();
        tokens.shrink_to_fit();
        let (fans, fan_of, children) = Default::default();
        let mut trie = Trie { nodes, tokens, first: Box::new([0; 256]), fans, fan_of, children };
        for child in trie.children(0).collect::<Vec<_>>() {
            trie.first[trie.byte(child) as usize] = child;
        }
        if total >= Self::LARGE {
            trie.list_children();
        }
        trie
    }

    /// Smallest number of nodes of a trie with child lists; smaller tries stay in the cache.
    const LARGE: u32 = 1_000;
    /// Smallest number of children of a node with a child list.
    const MANY: usize = 4;

    fn list_children(&mut self) {
        self.fan_of = vec![0; self.len() as usize];
        for p in 0..self.len() {
            // Most nodes have one child or none.
            let end = self.end(p);
            if p + 1 >= end || self.end(p + 1) == end {
                continue;
            }
            let first = self.children.len();
            let mut child = p + 1;
            while child < end {
                self.children.push(child);
                child = self.end(child);
            }
            if self.children.len() - first < Self::MANY {
                self.children.truncate(first);
                continue;
            }
            let mut bytes = ByteSet::default();
            self.children[first..].iter().for_each(|&child| bytes.add(self.nodes[child as usize].byte));
            self.nodes[p as usize].fan = true;
            self.fan_of[p as usize] = self.fans.len() as u32;
            self.fans.push(ChildList { bytes, first: first as u32 });
        }
    }

    /// Returns the index of the child list of `p`, if `p` has one.
    #[inline]
    pub fn fan(&self, p: TrieNode) -> Option<u32> {
        self.nodes[p as usize].fan.then(|| self.fan_of[p as usize])
    }

    /// Returns the bytes of the children in a list.
    #[inline]
    pub fn fan_bytes(&self, fan: u32) -> &ByteSet {
        &self.fans[fan as usize].bytes
    }

    /// Returns the child on `byte`, which must be in the list.
    #[inline]
    pub fn child_in(&self, fan: u32, byte: u8) -> TrieNode {
        let ChildList { bytes, first } = &self.fans[fan as usize];
        self.children[(first + bytes.rank(byte)) as usize]
    }

    /// Returns the indices in [`Trie::listed`] of the children in a list.
    pub fn listed_in(&self, fan: u32) -> std::ops::Range<usize> {
        let ChildList { bytes, first } = &self.fans[fan as usize];
        *first as usize..(first + bytes.len()) as usize
    }

    /// Returns all children in lists.
    pub fn listed(&self) -> &[TrieNode] {
        &self.children
    }

    /// Returns the child of the root on `byte`, 0 if there is none.
    #[inline]
    pub fn first(&self, byte: u8) -> TrieNode {
        self.first[byte as usize]
    }

    /// Length of the longest token that the trie accepts, in bytes.
    pub const MAX_DEPTH: usize = 60_000;

    /// Returns the number of nodes, the root included.
    pub fn len(&self) -> u32 {
        self.nodes.len() as u32 - 1
    }

    /// Returns true if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Returns the index one past the last node of the subtree of `p`; it is the next sibling, if
    /// there is one.
    #[inline]
    pub fn end(&self, p: TrieNode) -> TrieNode {
        self.nodes[p as usize].end
    }

    /// Returns the byte on the edge into `p`.
    #[inline]
    pub fn byte(&self, p: TrieNode) -> u8 {
        self.nodes[p as usize].byte
    }

    /// Returns the number of bytes from the root to `p`.
    #[inline]
    pub fn depth(&self, p: TrieNode) -> usize {
        self.nodes[p as usize].depth as usize
    }

    /// Returns the groups of the bytes on the edges of the subtree of `p`, the edge into `p`
    /// included.
    #[inline]
    pub fn groups(&self, p: TrieNode) -> u16 {
        self.nodes[p as usize].groups
    }

    /// Returns, for each node, the bytes on the edges strictly below it. Costs one pass over the
    /// nodes.
    pub fn byte_sets(&self) -> Box<[ByteGroups]> {
        let mut sets: Box<[ByteGroups]> = vec![0; self.len() as usize].into();
        // Children come after their parents, so a backward pass has visited everything below a
        // node.
        for p in (0..self.len()).rev() {
            sets[p as usize] =
                self.children(p).fold(0, |set, c| set | sets[c as usize] | byte_set(self.byte(c)));
        }
        sets
    }

    /// Returns the number of bytes from `p` to the end of the longest token below it.
    #[inline]
    pub fn height(&self, p: TrieNode) -> usize {
        self.nodes[p as usize].height as usize
    }

    /// Returns the tokens that end exactly at `p`.
    #[inline]
    pub fn tokens_at(&self, p: TrieNode) -> &[TokenId] {
        let (from, to) = (self.nodes[p as usize].first_token, self.nodes[p as usize + 1].first_token);
        &self.tokens[from as usize..to as usize]
    }

    /// Returns the positions of the tokens at and below `p` among the tokens of the trie.
    pub fn positions_below(&self, p: TrieNode) -> std::ops::Range<u32> {
        let node = &self.nodes[p as usize];
        node.first_token..self.nodes[node.end as usize].first_token
    }

    /// Returns all tokens in depth-first order.
    pub fn tokens(&self) -> &[TokenId] {
        &self.tokens
    }

    /// Returns the tokens at and below `p`.
    #[inline]
    pub fn tokens_below(&self, p: TrieNode) -> &[TokenId] {
        let node = &self.nodes[p as usize];
        &self.tokens[node.first_token as usize..self.nodes[node.end as usize].first_token as usize]
    }

    /// Iterates over the children of `p` in byte order.
    pub fn children(&self, p: TrieNode) -> impl Iterator<Item = TrieNode> + '_ {
        let end = self.end(p);
        let mut next = p + 1;
        std::iter::from_fn(move || {
            (next < end).then(|| {
                let child = next;
                next = self.end(child);
                child
            })
        })
    }

    /// Returns the child of `p` on `byte`.
    pub fn child(&self, p: TrieNode, byte: u8) -> Option<TrieNode> {
        match (p, self.fan(p)) {
            (0, _) => Some(self.first(byte)).filter(|&c| c != 0),
            (_, Some(fan)) => self.fan_bytes(fan).has(byte).then(|| self.child_in(fan, byte)),
            (_, None) => self.children(p).find(|&c| self.byte(c) == byte),
        }
    }

    /// Returns the node at the end of the path `bytes`.
    pub fn find(&self, bytes: &[u8]) -> Option<TrieNode> {
        bytes.iter().try_fold(0, |p, &b| self.child(p, b))
    }

    /// Splits `bytes` greedily into the longest tokens. Returns the tokens and the number of bytes
    /// they cover, which is all of them unless the vocabulary lacks a byte.
    pub fn longest_split(&self, bytes: &[u8]) -> (Vec<TokenId>, usize) {
        let (mut tokens, mut at) = (Vec::new(), 0);
        while let Some((token, len)) = self.longest_prefix(&bytes[at..]) {
            tokens.push(token);
            at += len;
        }
        (tokens, at)
    }

    /// Returns the longest token that is a prefix of `bytes`, and its length.
    pub fn longest_prefix(&self, bytes: &[u8]) -> Option<(TokenId, usize)> {
        let mut best = None;
        let mut p = 0;
        for (i, &b) in bytes.iter().enumerate() {
            let Some(next) = self.child(p, b) else { break };
            p = next;
            if let Some(&token) = self.tokens_at(p).first() {
                best = Some((token, i + 1));
            }
        }
        best
    }
}

/// Ends the subtree of `node` and adds its groups and height to its parent.
fn close(nodes: &mut [NodeData], node: TrieNode, parent: Option<TrieNode>) {
    nodes[node as usize].end = nodes.len() as u32;
    let NodeData { groups, height, .. } = nodes[node as usize];
    if let Some(parent) = parent {
        let parent = &mut nodes[parent as usize];
        parent.groups |= groups;
        parent.height = parent.height.max(height + 1);
    }
}

/// Returns the group of a byte as a set of one. The trie keeps such a coarse set, one bit per
/// group, for each subtree: if no byte of a group occurs below a node, a walk that needs one can
/// skip the node.
#[inline]
pub(crate) fn byte_group(byte: u8) -> u16 {
    GROUP[byte as usize]
}

const GROUP: [u16; 256] = {
    let mut group = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        group[byte] = 1 << group_of(byte as u8);
        byte += 1;
    }
    group
};

const fn group_of(byte: u8) -> u8 {
    match byte {
        b'"' => 0,
        b'\\' => 1,
        0..0x20 | 0x7f => 2,
        0x80.. => 3,
        b' ' => 4,
        b'a'..=b'z' => 5,
        b'A'..=b'Z' => 6,
        b'0'..=b'9' => 7,
        b'-' => 8,
        b'_' => 9,
        b'.' => 10,
        b',' | b':' | b';' => 11,
        b'/' => 12,
        b'{' | b'}' | b'[' | b']' | b'(' | b')' | b'<' | b'>' => 13,
        b'@' | b'#' | b'%' | b'+' | b'=' | b'&' | b'?' => 14,
        _ => 15,
    }
}

/// A set of bytes with one bit for each of 64 classes. It is finer than [`byte_group`], for tests
/// that justify reading eight bytes per node. The two cases of a letter are one class, and so are
/// matching brackets and most bytes beyond ASCII.
pub(crate) type ByteGroups = u64;

/// Returns the set of one byte.
#[inline]
pub(crate) fn byte_set(byte: u8) -> ByteGroups {
    1 << CLASS[byte as usize]
}

const CLASS: [u8; 256] = {
    let mut class = [0; 256];
    // Punctuation; marks in one string share a class.
    let marks: [&[u8]; 25] = [
        b"!", b"\"", b"#", b"$", b"%", b"&|", b"'`", b"()", b"*", b"+", b",", b"-", b".", b"/", b":", b";",
        b"<>", b"=", b"?", b"@", b"[]", b"\\", b"^~", b"_", b"{}",
    ];
    let mut byte = 0;
    while byte < 256 {
        class[byte] = match byte as u8 {
            b @ b'a'..=b'z' => b - b'a',
            b @ b'A'..=b'Z' => b - b'A',
            b'0' => 26,
            b'1' => 27,
            b'2'..=b'5' => 28,
            b'6'..=b'9' => 29,
            b' ' => 30,
            // White space beyond ASCII begins with these bytes, and 0x80 usually follows.
            0xc2 => 31,
            0xe1 | 0xe2 => 32,
            0xe3 => 33,
            0xef => 34,
            0x80 => 35,
            0x81..=0xbf => 36,
            0xc0.. => 37,
            _ => 38,
        };
        byte += 1;
    }
    let mut mark = 0;
    while mark < marks.len() {
        let mut i = 0;
        while i < marks[mark].len() {
            class[marks[mark][i] as usize] = 39 + mark as u8;
            i += 1;
        }
        mark += 1;
    }
    class
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_tokens_and_subtrees_agree_with_the_list() {
        let words: [&[u8]; 7] = [b"a", b"ab", b"abc", b"b", b"ab", b"", b"\xff\x00"];
        let trie = Trie::new(words.iter().enumerate().map(|(i, w)| (*w, i as TokenId)));
        let sets = trie.byte_sets();
        for p in 0..trie.len() {
            let below = trie.tokens_below(p).to_vec();
            let at = trie.tokens_at(p).to_vec();
            let mut path = vec![];
            let mut q = 0;
            while q != p {
                let c = trie.children(q).find(|&c| c <= p && p < trie.end(c)).unwrap();
                path.push(trie.byte(c));
                q = c;
            }
            assert_eq!(trie.depth(p), path.len());
            assert_eq!(trie.find(&path), Some(p));
            let deepest = words.iter().filter(|w| w.starts_with(&path)).map(|w| w.len()).max();
            assert_eq!(trie.height(p), deepest.unwrap() - path.len());
            let rests = words.iter().filter_map(|w| w.strip_prefix(&path[..]));
            assert_eq!(sets[p as usize], rests.flatten().fold(0, |set, &b| set | byte_set(b)));
            for (i, w) in words.iter().enumerate().filter(|(_, w)| !w.is_empty()) {
                assert_eq!(below.contains(&(i as u32)), w.starts_with(&path), "{w:?} below {path:?}");
                assert_eq!(at.contains(&(i as u32)), *w == &path[..]);
            }
        }
        assert_eq!(trie.longest_prefix(b"abx"), Some((1, 2)));
        assert_eq!(trie.longest_prefix(b"x"), None);
    }

    #[test]
    fn lists_of_children_agree_with_the_nodes() {
        let words: Vec<[u8; 3]> =
            (0..2_000u32).map(|i| [(i % 40) as u8 * 6, (i / 7 % 23) as u8 * 11, i as u8]).collect();
        let trie = Trie::new(words.iter().enumerate().map(|(i, w)| (&w[..], i as TokenId)));
        let mut lists = 0;
        for p in 0..trie.len() {
            let children: Vec<TrieNode> = trie.children(p).collect();
            let Some(fan) = trie.fan(p) else {
                assert!(children.len() < 4);
                continue;
            };
            lists += 1;
            let mut bytes = *trie.fan_bytes(fan);
            for &child in &children {
                assert_eq!(bytes.pop(), Some(trie.byte(child)));
                assert_eq!(trie.child_in(fan, trie.byte(child)), child);
            }
            assert_eq!(bytes, ByteSet::default());
        }
        assert!(lists > 40);
    }

    #[test]
    fn empty_trie_has_a_root() {
        let trie = Trie::new(std::iter::empty());
        assert_eq!((trie.len(), trie.end(0)), (1, 1));
        assert!(trie.tokens_below(0).is_empty());
    }
}
