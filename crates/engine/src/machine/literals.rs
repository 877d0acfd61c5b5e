//! Sets of literals as tries of states.
//!
//! Made in one pass over the sorted list, from the leaves; their depth costs no stack. Only the nodes that several
//! literals share are kept while it is made, the rest of each is one run of bytes. Cost: sorting, and one operation for each
//! byte. Rejected: a tree of all bytes first, most of which belong to one literal only.

use smallvec::SmallVec;

use super::lower_regular::Lowering;
use super::nfa::{DEAD, NfaId};
use crate::constraint::ir;
use crate::json_escape::needs_escape;

impl Lowering<'_> {
    /// The entry of some byte strings followed by a state. Open are the nodes on the way to the string at hand that it
    /// shares with others; each becomes a state when the first string without it is met.
    pub(super) fn literals(&mut self, list: &[ir::ByteString], to: NfaId) -> NfaId {
        let mut sorted: SmallVec<[&[u8]; 8]> = list.iter().map(|text| &text[..]).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut trie = Trie::default();
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
                // It is the beginning of the next one, or the empty text.
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
    fn close(&mut self, trie: &mut Trie, to: NfaId) -> NfaId {
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
    fn enter(&mut self, trie: &mut Trie, byte: u8, to: NfaId) {
        if self.escaped && needs_escape(byte) {
            trie.parts.push(self.class(&[(byte, byte)], to));
        } else if to != DEAD && self.alphabet.has(byte) {
            trie.edges.push((byte, byte, to));
        }
    }
}

/// A trie of literals while it is made.
#[derive(Default)]
struct Trie {
    /// The nodes on the way to the literal at hand that it shares with others, the root first.
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
    /// Whether a literal ends here.
    ends: bool,
    /// Where its edges and its other branches begin.
    edges: usize,
    parts: usize,
}

impl Trie {
    fn enter(&mut self, byte: u8) {
        let (edges, parts) = (self.edges.len(), self.parts.len());
        self.open.push(TrieNode { byte, ends: false, edges, parts });
    }
}

/// How many bytes two texts begin with.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
