//! A trie of texts over characters, whose nodes become states of the automaton.
//!
//! Common beginnings of texts are one path. So the common part is forced and costs one state per
//! character.
//!
//! # Cost
//! Inserting is linear in the text, building in the number of reached nodes.
//!
//! # Alternatives considered
//! A union of literals was rejected: with hundreds of tools it has hundreds of automaton states at
//! every step.

use rustc_hash::FxHashMap;

use super::graph::{StateIx, TagGraph};
use crate::constraint::json::document::Id;
use crate::error::Result;

/// A set of texts with the states after them; node 0 is the root.
#[derive(Debug)]
pub(super) struct TriggerTrie {
    edges: FxHashMap<(u32, char), u32>,
    nodes: Vec<TrieNode>,
}

#[derive(Debug, Default)]
struct TrieNode {
    children: Vec<(char, u32)>,
    targets: Vec<StateIx>,
}

impl Default for TriggerTrie {
    fn default() -> Self {
        TriggerTrie { edges: FxHashMap::default(), nodes: vec![TrieNode::default()] }
    }
}

impl TriggerTrie {
    /// Adds a text and the state after it; returns its node.
    pub(super) fn insert(&mut self, text: &str, target: Option<StateIx>) -> u32 {
        let mut at = 0;
        for c in text.chars() {
            let new = self.nodes.len() as u32;
            let next = *self.edges.entry((at, c)).or_insert(new);
            if next == new {
                self.nodes.push(TrieNode::default());
                self.nodes[at as usize].children.push((c, new));
            }
            at = next;
        }
        self.nodes[at as usize].targets.extend(target);
        at
    }

    pub(super) fn child(&self, node: u32, c: char) -> Option<u32> {
        self.edges.get(&(node, c)).copied()
    }

    /// Returns the node of a text that is a prefix of a text in the trie.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        text.chars().try_fold(0, |node, c| self.child(node, c))
    }

    pub(super) fn children(&self, node: u32) -> &[(char, u32)] {
        &self.nodes[node as usize].children
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns a map in which no node has a state yet.
    pub(super) fn states(&self) -> TrieStates {
        TrieStates { of: vec![None; self.nodes.len()], todo: Vec::new() }
    }
}

/// The states of the nodes of a trie.
pub(super) struct TrieStates {
    of: Vec<Option<StateIx>>,
    todo: Vec<u32>,
}

impl TrieStates {
    /// Returns the state of a node; its transitions are built later.
    pub(super) fn reach(&mut self, graph: &mut TagGraph<'_>, node: u32, at: Id) -> Result<StateIx> {
        if let Some(known) = self.of[node as usize] {
            return Ok(known);
        }
        let state = graph.state(at)?;
        self.of[node as usize] = Some(state);
        self.todo.push(node);
        Ok(state)
    }

    /// Builds the transitions of all reached nodes.
    pub(super) fn build(&mut self, graph: &mut TagGraph<'_>, trie: &TriggerTrie, at: Id) -> Result<()> {
        while let Some(node) = self.todo.pop() {
            let state = self.reach(graph, node, at)?;
            let TrieNode { children, targets } = &trie.nodes[node as usize];
            targets.iter().for_each(|&target| graph.add_empty_edge(state, target));
            for &(c, child) in children {
                let (node, to) = (graph.char(c), self.reach(graph, child, at)?);
                graph.edge(state, node, to);
            }
        }
        Ok(())
    }
}
