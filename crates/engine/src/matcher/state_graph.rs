//! The states of a small constraint as a graph over bytes: for people, not for decoding loops.
//!
//! States are configurations, so the graph has what masks are computed for: the state of the
//! automaton with its stack and its counters. Two states may accept the same texts.
//!
//! # Cost
//!
//! A step for each byte in each state, and one mask for each state. The caller bounds the states,
//! because a constraint with recursion or counters has more than anyone can look at.
//!
//! # Alternatives considered
//!
//! Drawing the states of the automaton alone was rejected: without the stack, an end of a rule
//! leads to every place that calls it.

use rustc_hash::FxHashMap;

use super::{Bitmask, Matcher};
use crate::machine::{ConfigId, DEAD_CONFIG};

/// The states that are reachable from a position, with their transitions.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StateGraph {
    /// The states by their distance from the position, which is the first.
    pub states: Vec<GraphState>,
    /// True if these are all states, and false if the limit was reached.
    pub complete: bool,
}

/// A state of a [`StateGraph`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphState {
    /// True if the output may end here.
    pub accepting: bool,
    /// Number of legal tokens, end tokens included.
    pub legal_tokens: usize,
    /// The transitions, one for each target.
    pub edges: Vec<GraphEdge>,
}

/// The transitions from a state to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct GraphEdge {
    /// The bytes that lead there, as ranges in ascending order.
    pub bytes: Vec<(u8, u8)>,
    /// The index of the target; `None` if it lies beyond the limit.
    pub to: Option<usize>,
}

impl Matcher {
    /// Returns the states that are reachable from here, at most `limit`, by their distance. Returns
    /// `None` for a machine over tokens, which has no bytes, and after an end token.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// # let tokenizer = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/../runtime/assets/extract-5m/tokenizer.json"));
    /// use ffwd_engine::{Compiler, Constraint, Vocabulary};
    ///
    /// let vocab = Vocabulary::from_bytes(tokenizer)?;
    /// let mut matcher = Compiler::new(vocab).compile(&Constraint::regex("[0-9]+")?)?.matcher();
    /// let graph = matcher.state_graph(10).expect("bytes");
    /// assert!(graph.complete && graph.states.len() == 2);
    /// assert_eq!(graph.states[1].edges[0].bytes, [(b'0', b'9')]);
    /// assert_eq!(graph.states[1].edges[0].to, Some(1));
    /// assert!(graph.states[1].accepting);
    /// # Ok(())
    /// # }
    /// ```
    pub fn state_graph(&mut self, limit: usize) -> Option<StateGraph> {
        if self.ended || self.token_level {
            return None;
        }
        self.with_tables(|tables, start, vocab| {
            let mut graph = StateGraph { states: Vec::new(), complete: true };
            let mut found = vec![start];
            let mut index: FxHashMap<ConfigId, usize> = FxHashMap::from_iter([(start, 0)]);
            let mut at = 0;
            while let Some(&config) = found.get(at).filter(|_| at < limit) {
                at += 1;
                let mut targets: Vec<(ConfigId, Vec<(u8, u8)>)> = Vec::new();
                for byte in 0..=u8::MAX {
                    let to = tables.machine()?.step_bytes(config, &[byte]);
                    if to != DEAD_CONFIG {
                        add_byte(&mut targets, to, byte);
                    }
                }
                let mut edges = Vec::with_capacity(targets.len());
                for (to, bytes) in targets {
                    let known = index.get(&to).copied();
                    let to = known.or_else(|| {
                        let is_within = found.len() < limit;
                        graph.complete &= is_within;
                        is_within.then(|| {
                            index.insert(to, found.len());
                            found.push(to);
                            found.len() - 1
                        })
                    });
                    edges.push(GraphEdge { bytes, to });
                }
                let accepting = tables.is_accepting(config);
                let mask = tables.mask(config);
                let ends = if accepting { vocab.eos() } else { &[] };
                let bitmask = Bitmask { mask: Some(&mask), ends, words: vocab.bitmask_words() };
                graph.states.push(GraphState { accepting, legal_tokens: bitmask.count(), edges });
            }
            tables.note_size();
            Some(graph)
        })
    }
}

/// Adds a byte to the ranges of its target.
fn add_byte(targets: &mut Vec<(ConfigId, Vec<(u8, u8)>)>, to: ConfigId, byte: u8) {
    let Some((_, ranges)) = targets.iter_mut().find(|target| target.0 == to) else {
        return targets.push((to, vec![(byte, byte)]));
    };
    match ranges.last_mut() {
        Some(last) if byte > 0 && last.1 == byte - 1 => last.1 = byte,
        _ => ranges.push((byte, byte)),
    }
}
