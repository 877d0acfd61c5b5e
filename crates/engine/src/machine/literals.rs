//! Sets of literals as tries of automaton states.
//!
//! The trie is made in one pass over the sorted list, from the leaves; its depth costs no stack.
//! Only the nodes that several literals share are kept while it is made. The rest of each literal
//! is one run of bytes.
//!
//! # Cost
//!
//! Sorting, and one operation for each byte.
//!
//! # Alternatives considered
//!
//! A tree of all bytes first: most of them belong to one literal only.

use smallvec::SmallVec;

use super::lower_regular::RegularLowering;
use super::nfa::{DEAD, NfaId};
use crate::constraint::ir;
use crate::json_escape::needs_escape;

impl RegularLowering<'_> {
    /// Returns the entry of some byte strings followed by a state. The open nodes are on the path
    /// to the current string and shared with others. Each becomes a state when the first string
    /// without it is met.
    pub(super) fn literals(&mut self, list: &[ir::ByteString], to: NfaId) -> NfaId {
        let mut sorted: SmallVec<[&[u8]; 8]> = list.iter().map(|text| &text[..]).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut trie = LiteralTrie::default();
        trie.enter(0);
        let mut before = 0;
        for (i, &text) in sorted.iter().enumerate() {
            while trie.open.len() > before + 1 {
                self.close(&mut trie, to);
            }
            let behind = sorted.get(i + 1).map_or(0, |next| common(text, next));
            let shared = before.max(behind);
            text[before..shared].iter().for_each(|&b| trie.enter(b));
            match text[shared..] {
                // It is a prefix of the next string, or the empty text.
                [] => trie.open.last_mut().into_iter().for_each(|node| node.ends = true),
                [first, ref rest @ ..] => {
                    let entry = self.bytes(rest, to);
                    self.enter(&mut trie, first, entry);
                }
            }
            before = behind;
        }
        let mut entry = DEAD;
        while !trie.open.is_empty() {
            entry = self.close(&mut trie, to);
        }
        entry
    }

    /// Makes the state of the last open node of a trie, and an edge to it.
    fn close(&mut self, trie: &mut LiteralTrie, to: NfaId) -> NfaId {
        let Some(node) = trie.open.pop() else { return DEAD };
        let plain = self.sparse(&trie.edges[node.edges..], self.flags());
        trie.edges.truncate(node.edges);
        let entry = if trie.parts.len() == node.parts && !node.ends {
            plain
        } else {
            trie.parts.push(plain);
            if node.ends {
                trie.parts.push(to);
            }
            self.union(&trie.parts[node.parts..])
        };
        trie.parts.truncate(node.parts);
        if !trie.open.is_empty() {
            self.enter(trie, node.byte, entry);
        }
        entry
    }

    /// Adds an edge to the last open node of a trie.
    fn enter(&mut self, trie: &mut LiteralTrie, byte: u8, to: NfaId) {
        if self.escaped && needs_escape(byte) {
            trie.parts.push(self.class(&[(byte, byte)], to));
        } else if to != DEAD && self.alphabet.has(byte) {
            trie.edges.push((byte, byte, to));
        }
    }
}

/// A trie of literals under construction.
#[derive(Default)]
struct LiteralTrie {
    /// The nodes on the path to the current literal that it shares with others, the root first.
    open: SmallVec<[TrieNode; 32]>,
    /// The edges of the open nodes, those of the root first.
    edges: SmallVec<[(u8, u8, NfaId); 32]>,
    /// Their other branches: characters that are escaped.
    parts: SmallVec<[NfaId; 8]>,
}

/// An open node of a trie of literals.
struct TrieNode {
    /// The byte that leads here.
    byte: u8,
    /// True if a literal ends here.
    ends: bool,
    /// Start of its edges and of its other branches.
    edges: usize,
    parts: usize,
}

impl LiteralTrie {
    fn enter(&mut self, byte: u8) {
        let (edges, parts) = (self.edges.len(), self.parts.len());
        self.open.push(TrieNode { byte, ends: false, edges, parts });
    }
}

/// Returns the length of the common prefix of two texts.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
