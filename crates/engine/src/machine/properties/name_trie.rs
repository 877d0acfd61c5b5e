//! The names that the undeclared properties of an object must not have, as a trie.
//!
//! # Cost
//!
//! The trie is made when it is first needed. A step is a binary search among the edges of a node.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

use crate::json_escape::escape_to;

/// The node of a text that has left the trie of names.
pub(crate) const OFF_TRIE: u32 = u32::MAX;

/// Names with their escapes, without quotes, one after the other.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    text: SmallVec<[u8; 48]>,
    /// The end of each name.
    ends: SmallVec<[u32; 6]>,
}

impl Names {
    /// Escapes some names.
    pub(crate) fn escaped<'a>(names: impl ExactSizeIterator<Item = &'a str> + Clone) -> Self {
        let bytes = names.clone().map(str::len).sum();
        let (text, ends) = (SmallVec::with_capacity(bytes), SmallVec::with_capacity(names.len()));
        let mut spelled = Names { text, ends };
        for name in names {
            escape_to(name, |piece| spelled.text.extend_from_slice(piece));
            spelled.ends.push(spelled.text.len() as u32);
        }
        spelled
    }

    /// Takes some raw texts, each with `behind` after it.
    pub(crate) fn plain<'a>(names: impl Iterator<Item = &'a str>, behind: &str) -> Self {
        let mut spelled = Names::default();
        for name in names {
            spelled.text.extend_from_slice(name.as_bytes());
            spelled.text.extend_from_slice(behind.as_bytes());
            spelled.ends.push(spelled.text.len() as u32);
        }
        spelled
    }

    /// Returns one of the names.
    pub(crate) fn get(&self, i: usize) -> &[u8] {
        let first = i.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[first as usize..self.ends[i] as usize]
    }
}

/// The escaped names (between the quotes) that an undeclared property must not have. Most objects
/// that may have others never meet one, so the trie is made when it is first needed.
#[derive(Debug, Clone, Default)]
pub(crate) struct NameTrie {
    names: Arc<Names>,
    nodes: OnceLock<Nodes>,
}

/// The trie itself.
#[derive(Debug, Clone)]
struct Nodes {
    /// By node: start and number of its edges, and whether a name ends here.
    nodes: Vec<(u32, u16, bool)>,
    /// Byte and child, sorted by byte within a node.
    edges: Vec<(u8, u32)>,
}

impl Nodes {
    /// Builds the trie, breadth first from the sorted names.
    fn new(names: &Names) -> Self {
        let mut names: Vec<&[u8]> = (0..names.ends.len()).map(|i| names.get(i)).collect();
        names.sort_unstable();
        names.dedup();
        let mut trie = Nodes { nodes: Vec::new(), edges: Vec::new() };
        // The names below each node that is still to be made, and its depth.
        let mut todo = std::collections::VecDeque::from([(0..names.len(), 0usize)]);
        let mut next = 1;
        while let Some((mut range, depth)) = todo.pop_front() {
            // The shortest name comes first.
            let ends = names.get(range.start).is_some_and(|n| range.start < range.end && n.len() == depth);
            range.start += usize::from(ends);
            let first = trie.edges.len() as u32;
            for group in names[range.clone()].chunk_by(|a, b| a[depth] == b[depth]) {
                trie.edges.push((group[0][depth], next));
                next += 1;
                todo.push_back((range.start..range.start + group.len(), depth + 1));
                range.start += group.len();
            }
            let count = trie.edges.len() as u32 - first;
            trie.nodes.push((first, count as u16, ends));
        }
        trie
    }
}

impl NameTrie {
    pub(crate) fn bytes(&self) -> usize {
        let names = self.names.text.capacity() + self.names.ends.capacity() * 4;
        let made =
            self.nodes.get().map_or(0, |made| size_of_val(&made.nodes[..]) + size_of_val(&made.edges[..]));
        names + made
    }

    /// Creates the trie of some names.
    pub(crate) fn new(names: Arc<Names>) -> Self {
        NameTrie { names, nodes: OnceLock::new() }
    }

    fn nodes(&self) -> &Nodes {
        self.nodes.get_or_init(|| Nodes::new(&self.names))
    }

    /// Returns the edges of `n`, sorted by byte; all other bytes leave the trie.
    #[inline]
    pub(crate) fn edges(&self, n: u32) -> &[(u8, u32)] {
        if n == OFF_TRIE {
            return &[];
        }
        let Nodes { nodes, edges } = self.nodes();
        let (first, count, _) = nodes[n as usize];
        &edges[first as usize..first as usize + usize::from(count)]
    }

    /// Returns the target of byte `b` from `n`.
    #[inline]
    pub(crate) fn step(&self, n: u32, b: u8) -> u32 {
        let edges = self.edges(n);
        edges.binary_search_by_key(&b, |e| e.0).map_or(OFF_TRIE, |i| edges[i].1)
    }

    /// Returns true if the text so far is one of the names.
    #[inline]
    pub(crate) fn is_name(&self, n: u32) -> bool {
        n != OFF_TRIE && self.nodes().nodes[n as usize].2
    }

    /// Returns true if there is no name.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.ends.is_empty()
    }
}
