//! The byte trie of a vocabulary in depth-first arrays.
//!
//! A walk is one loop over the node array: go to `p + 1` to descend, to `end(p)` to skip a subtree.
//! Building costs one sort of the tokens and one pass over their bytes. A trie of linked nodes was
//! rejected: it costs a pointer per edge and loses the property that the tokens of a subtree are
//! one slice, which lets a whole subtree be accepted at once.

use super::TokenId;

/// Index of a trie node; 0 is the root.
pub type TrieNode = u32;

#[derive(Debug, Clone, Copy)]
struct Node {
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
}

/// A trie over the byte strings of tokens.
#[derive(Debug, Clone)]
pub struct Trie {
    nodes: Vec<Node>,
    /// Token ids in depth-first order; several may share one byte string.
    tokens: Vec<TokenId>,
    /// The root's child on each byte, 0 if there is none: the children of the root lie far apart.
    first: Box<[TrieNode; 256]>,
}

impl Trie {
    /// Bytes held.
    pub fn bytes(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.tokens.capacity() * 4 + size_of_val(&*self.first)
    }

    /// Builds the trie of `(bytes, id)` pairs; empty byte strings and ones longer than
    /// [`Trie::MAX_DEPTH`] are left out.
    pub fn new<'a>(pairs: impl IntoIterator<Item = (&'a [u8], TokenId)>) -> Self {
        let mut sorted: Vec<(&[u8], TokenId)> =
            pairs.into_iter().filter(|(b, _)| !b.is_empty() && b.len() <= Self::MAX_DEPTH).collect();
        sorted.sort_unstable();
        let mut nodes = vec![Node { end: 0, first_token: 0, depth: 0, groups: 0, height: 0, byte: 0 }];
        let mut tokens = Vec::with_capacity(sorted.len());
        let mut path: Vec<u32> = vec![0];
        let mut previous: &[u8] = &[];
        for (bytes, id) in sorted {
            let common = bytes.iter().zip(previous).take_while(|(a, b)| a == b).count();
            while path.len() > common + 1 {
                // `path` always holds the root, so the pop cannot fail.
                let closed = path.pop().unwrap_or(0);
                close(&mut nodes, closed, path.last().copied());
            }
            for (depth, &byte) in bytes.iter().enumerate().skip(common) {
                path.push(nodes.len() as u32);
                let (depth, groups) = (depth as u16 + 1, byte_group(byte));
                let first_token = tokens.len() as u32;
                nodes.push(Node { end: 0, first_token, depth, groups, height: 0, byte });
            }
            tokens.push(id);
            previous = bytes;
        }
        let total = nodes.len() as u32;
        while let Some(open) = path.pop() {
            close(&mut nodes, open, path.last().copied());
        }
        let first_token = tokens.len() as u32;
        nodes.push(Node { end: total + 1, first_token, depth: 0, groups: 0, height: 0, byte: 0 });
        let mut trie = Trie { nodes, tokens, first: Box::new([0; 256]) };
        for child in trie.children(0).collect::<Vec<_>>() {
            trie.first[trie.byte(child) as usize] = child;
        }
        trie
    }

    /// The child of the root on `byte`, 0 if there is none.
    #[inline]
    pub fn first(&self, byte: u8) -> TrieNode {
        self.first[byte as usize]
    }

    /// Longest token, in bytes, that the trie takes.
    pub const MAX_DEPTH: usize = 60_000;

    /// Number of nodes, with the root.
    pub fn len(&self) -> u32 {
        self.nodes.len() as u32 - 1
    }

    /// Whether there is no token.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// One past the last node of the subtree of `p`; the next sibling, if there is one.
    #[inline]
    pub fn end(&self, p: TrieNode) -> TrieNode {
        self.nodes[p as usize].end
    }

    /// The byte on the edge into `p`.
    #[inline]
    pub fn byte(&self, p: TrieNode) -> u8 {
        self.nodes[p as usize].byte
    }

    /// Number of bytes from the root to `p`.
    #[inline]
    pub fn depth(&self, p: TrieNode) -> usize {
        self.nodes[p as usize].depth as usize
    }

    /// Groups of the bytes on the edges of the subtree of `p`, the one into `p` included.
    #[inline]
    pub fn groups(&self, p: TrieNode) -> u16 {
        self.nodes[p as usize].groups
    }

    /// Bytes that the longest token below `p` has after it.
    #[inline]
    pub fn height(&self, p: TrieNode) -> usize {
        self.nodes[p as usize].height as usize
    }

    /// The tokens that end exactly at `p`.
    #[inline]
    pub fn tokens_at(&self, p: TrieNode) -> &[TokenId] {
        let (from, to) = (self.nodes[p as usize].first_token, self.nodes[p as usize + 1].first_token);
        &self.tokens[from as usize..to as usize]
    }

    /// The tokens at and below `p`.
    #[inline]
    pub fn tokens_below(&self, p: TrieNode) -> &[TokenId] {
        let node = &self.nodes[p as usize];
        &self.tokens[node.first_token as usize..self.nodes[node.end as usize].first_token as usize]
    }

    /// The children of `p` in byte order.
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

    /// The child of `p` on `byte`.
    pub fn child(&self, p: TrieNode, byte: u8) -> Option<TrieNode> {
        match p {
            0 => Some(self.first(byte)).filter(|&c| c != 0),
            _ => self.children(p).find(|&c| self.byte(c) == byte),
        }
    }

    /// The node that `bytes` lead to.
    pub fn find(&self, bytes: &[u8]) -> Option<TrieNode> {
        bytes.iter().try_fold(0, |p, &b| self.child(p, b))
    }

    /// The longest token that is a prefix of `bytes`, with its length.
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

/// Ends the subtree of `node` and tells its parent which bytes it holds and how far down.
fn close(nodes: &mut [Node], node: TrieNode, parent: Option<TrieNode>) {
    nodes[node as usize].end = nodes.len() as u32;
    let Node { groups, height, .. } = nodes[node as usize];
    if let Some(parent) = parent {
        let parent = &mut nodes[parent as usize];
        parent.groups |= groups;
        parent.height = parent.height.max(height + 1);
    }
}

/// A coarse set of bytes, one bit per group, kept per subtree: if no byte of a group occurs below a
/// node, a walk that needs one can skip it.
pub fn byte_group(byte: u8) -> u16 {
    1 << match byte {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_tokens_and_subtrees_agree_with_the_list() {
        let words: [&[u8]; 7] = [b"a", b"ab", b"abc", b"b", b"ab", b"", b"\xff\x00"];
        let trie = Trie::new(words.iter().enumerate().map(|(i, w)| (*w, i as TokenId)));
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
            for (i, w) in words.iter().enumerate().filter(|(_, w)| !w.is_empty()) {
                assert_eq!(below.contains(&(i as u32)), w.starts_with(&path), "{w:?} below {path:?}");
                assert_eq!(at.contains(&(i as u32)), *w == &path[..]);
            }
        }
        assert_eq!(trie.longest_prefix(b"abx"), Some((1, 2)));
        assert_eq!(trie.longest_prefix(b"x"), None);
    }

    #[test]
    fn empty_trie_has_a_root() {
        let trie = Trie::new(std::iter::empty());
        assert_eq!((trie.len(), trie.end(0)), (1, 1));
        assert!(trie.tokens_below(0).is_empty());
    }
}
