//! Graph over the characters of a source's spans, and its products with other conditions.
//!
//! A piece of several characters becomes one chain for each state that it leads to. States that
//! lead to no end are left out.
//!
//! # Cost
//!
//! All edges point to higher numbers. So products, liveness and lowering are single passes, linear
//! in the edges that are met.
//!
//! # Alternatives considered
//!
//! One chain for each edge was rejected as quadratic, because many states may share a transition.
//! Determinising was rejected: the machine does it, for the states that are visited.

use rustc_hash::FxHashMap;

use super::automaton::{START, SuffixAutomaton};
use crate::constraint::ir::{AutomatonState, Ir, Node, NodeId};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of states of a graph. A product has at most twice as many edges.
pub const MAX_SPAN_STATES: usize = 400_000;

/// A graph without loops; state 0 is the start.
#[derive(Debug, Clone)]
pub(crate) struct SubstringGraph {
    accept: Vec<bool>,
    /// Index of the first edge of each state, and the end of the last state's edges.
    first: Vec<u32>,
    edges: Vec<(char, u32)>,
}

/// Part of the source that a symbol of the suffix automaton represents.
#[derive(Debug, Clone)]
pub(super) struct Piece {
    /// First byte in the source.
    pub start: u32,
    /// Byte after the last one in the source.
    pub end: u32,
    /// True if a span may neither begin nor end with it.
    pub gap: bool,
}

impl SubstringGraph {
    /// Returns the spans of the source that begin and end with pieces that are not gaps, and the
    /// empty span.
    pub(super) fn new(automaton: &SuffixAutomaton, pieces: &[Piece], source: &str) -> SubstringGraph {
        let order = automaton.order();
        let piece = |state: u32| &pieces[automaton.states[state as usize].symbol as usize];
        let text = |state: u32| &source[piece(state).start as usize..piece(state).end as usize];
        // Entry of each state: the first state of its chain.
        let mut entry = vec![u32::MAX; order.len()];
        entry[START as usize] = 0;
        let ways = |state: u32| {
            let ways = automaton.edges(state).map(|e| e.1);
            ways.filter(move |&to| state != START || !piece(to).gap)
        };
        let gaps = pieces.iter().any(|p| p.gap);
        let mut next = 0;
        for &state in &order {
            if gaps && entry[state as usize] == u32::MAX {
                continue;
            }
            entry[state as usize] = next;
            next += if state == START { 1 } else { text(state).chars().count() as u32 };
            if gaps {
                // Reached; the final number is set later.
                ways(state).for_each(|to| entry[to as usize] = 0);
            }
        }
        let mut graph =
            SubstringGraph { accept: Vec::with_capacity(next as usize), first: vec![0], edges: Vec::new() };
        for &state in order.iter().filter(|&&s| entry[s as usize] != u32::MAX) {
            if state != START {
                for c in text(state).chars().skip(1) {
                    graph.edges.push((c, graph.accept.len() as u32 + 1));
                    graph.close(false);
                }
            }
            for to in ways(state) {
                // Pieces are not empty.
                graph.edges.extend(text(to).chars().next().map(|c| (c, entry[to as usize])));
            }
            graph.close(state == START || !piece(state).gap);
        }
        if gaps { graph.trimmed() } else { graph }
    }

    /// Ends the state whose edges were added.
    fn close(&mut self, accept: bool) {
        self.accept.push(accept);
        self.first.push(self.edges.len() as u32);
    }

    fn edges(&self, state: usize) -> &[(char, u32)] {
        &self.edges[self.first[state] as usize..self.first[state + 1] as usize]
    }

    /// Returns true if the graph accepts no text.
    pub(crate) fn is_empty(&self) -> bool {
        !self.accept[0] && self.edges.is_empty()
    }

    /// Returns the texts that have at least `min` characters.
    pub(crate) fn at_least(mut self, min: u32) -> Result<SubstringGraph> {
        match min {
            0 => Ok(self),
            1 => {
                self.accept[0] = false;
                Ok(self)
            }
            _ => self.product(0, |n, _| Some(min.min(n + 1)), |n| n >= min),
        }
    }

    /// Returns the texts that a deterministic automaton also accepts. The automaton is given by its
    /// start, its transitions (`None`: no continuation) and the acceptance of its states. Only
    /// pairs of states that are met are built.
    ///
    /// # Errors
    /// `TooComplex` above [`MAX_SPAN_STATES`].
    pub(crate) fn product(
        &self,
        start: u32,
        step: impl Fn(u32, char) -> Option<u32>,
        accepts: impl Fn(u32) -> bool,
    ) -> Result<SubstringGraph> {
        // Pairs of each state here: the state of the automaton, and a number in order of discovery.
        let mut met: Vec<Vec<(u32, u32)>> = vec![Vec::new(); self.accept.len()];
        met[0].push((start, 0));
        let mut known: FxHashMap<(u32, u32), u32> = FxHashMap::default();
        let mut place = vec![0];
        let mut product = SubstringGraph { accept: Vec::new(), first: vec![0], edges: Vec::new() };
        for state in 0..self.accept.len() {
            for (other, number) in std::mem::take(&mut met[state]) {
                place[number as usize] = product.accept.len() as u32;
                for &(c, to) in self.edges(state) {
                    let Some(then) = step(other, c) else { continue };
                    let new = place.len() as u32;
                    let number = *known.entry((to, then)).or_insert(new);
                    if number == new {
                        place.push(0);
                        met[to as usize].push((then, number));
                    }
                    product.edges.push((c, number));
                }
                product.close(self.accept[state] && accepts(other));
                if place.len() > MAX_SPAN_STATES || product.edges.len() > 2 * MAX_SPAN_STATES {
                    return Err(too_complex());
                }
            }
        }
        product.edges.iter_mut().for_each(|e| e.1 = place[e.1 as usize]);
        Ok(product.trimmed())
    }

    /// Removes states from which no text ends. The start stays.
    fn trimmed(self) -> SubstringGraph {
        let mut live = self.accept.clone();
        for state in (0..live.len()).rev() {
            live[state] |= self.edges(state).iter().any(|e| live[e.1 as usize]);
        }
        live[0] = true;
        let mut number = vec![0u32; live.len()];
        let mut next = 0;
        for (number, _) in number.iter_mut().zip(&live).filter(|n| *n.1) {
            *number = next;
            next += 1;
        }
        let mut graph =
            SubstringGraph { accept: Vec::with_capacity(next as usize), first: vec![0], edges: Vec::new() };
        for state in (0..live.len()).filter(|&s| live[s]) {
            let edges = self.edges(state).iter().filter(|e| live[e.1 as usize]);
            graph.edges.extend(edges.map(|&(c, to)| (c, number[to as usize])));
            graph.close(self.accept[state]);
        }
        graph
    }

    /// Returns the graph as a node; [`Node::Never`] if there is no text.
    pub(crate) fn node(&self, ir: &mut Ir) -> Result<NodeId> {
        if self.is_empty() {
            return Ok(ir.push(Node::Never));
        }
        if self.accept.len() > MAX_SPAN_STATES {
            return Err(too_complex());
        }
        let mut of_char: FxHashMap<char, NodeId> = FxHashMap::default();
        let mut buffer = [0; 4];
        let mut edge = |&(c, to): &(char, u32)| {
            let node = *of_char.entry(c).or_insert_with(|| ir.bytes(c.encode_utf8(&mut buffer)));
            (node, to)
        };
        let states = (0..self.accept.len())
            .map(|s| AutomatonState {
                accept: self.accept[s],
                edges: self.edges(s).iter().map(&mut edge).collect(),
            })
            .collect();
        Ok(ir.push(Node::Automaton { states, quotes: true }))
    }
}

fn too_complex() -> Error {
    let message = format!("the spans of the source need more than {MAX_SPAN_STATES} states here");
    Error::new(ErrorKind::TooComplex, message)
        .hint("use a shorter source text, a smaller minimum length, or a simpler pattern beside it")
}
