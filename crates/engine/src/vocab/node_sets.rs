//! Sets of the bytes below the nodes of the byte trie, and walks that read them.
//!
//! # Cost
//!
//! One pass over the nodes, and eight bytes for each node and each listed child.

use super::{ByteGroups, Trie, TrieNode, byte_set};

/// Sets of bytes in a trie.
pub(crate) struct NodeSets {
    /// For each node, the bytes on the edges strictly below it.
    below: Box<[ByteGroups]>,
    /// For each listed child, the bytes on its edge and below it.
    listed: Box<[ByteGroups]>,
}

impl NodeSets {
    pub(super) fn new(trie: &Trie) -> Self {
        let below = trie.byte_sets();
        let set = |&p: &TrieNode| below[p as usize] | byte_set(trie.byte(p));
        let listed = trie.listed().iter().map(set).collect();
        NodeSets { below, listed }
    }
}

/// Children of a node that are still to be visited: in the list of children, or as nodes.
#[derive(Clone, Copy)]
pub(crate) struct Siblings {
    next: u32,
    end: u32,
    listed: bool,
}

impl Siblings {
    /// Returns the children of a node.
    #[inline]
    pub(crate) fn below(trie: &Trie, p: TrieNode) -> Self {
        match trie.fan(p).map(|fan| trie.listed_in(fan)) {
            Some(list) => Siblings { next: list.start as u32, end: list.end as u32, listed: true },
            None => Siblings { next: p + 1, end: trie.end(p), listed: false },
        }
    }

    /// Returns true if no child is left.
    #[inline]
    pub(crate) fn is_done(&self) -> bool {
        self.next >= self.end
    }

    /// Returns the next child, and the bytes on its edge and below it.
    #[inline]
    pub(crate) fn next(&mut self, trie: &Trie, sets: &NodeSets) -> Option<(TrieNode, ByteGroups)> {
        if self.is_done() {
            return None;
        }
        let i = self.next;
        if self.listed {
            self.next += 1;
            return Some((trie.listed()[i as usize], sets.listed[i as usize]));
        }
        self.next = trie.end(i);
        Some((i, sets.below[i as usize] | byte_set(trie.byte(i))))
    }
}
