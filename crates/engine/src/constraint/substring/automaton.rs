//! Suffix automaton: the smallest deterministic automaton of all factors of a symbol sequence.
//!
//! It is built from left to right (Blumer et al. 1985). A state represents all factors that end at
//! the same positions. So each state also knows the first end of its factors and their number of
//! occurrences.
//!
//! # Cost
//!
//! Linear time, with fewer than two states and three edges per symbol. Edges lie in one pool as
//! linked lists. States with many edges have an index as well.
//!
//! # Alternatives considered
//!
//! A map per state was rejected, because most states have one edge. Lists alone were rejected,
//! because texts with many different neighbours of one symbol would take quadratic time.

use rustc_hash::FxHashMap;

/// The state of the empty factor.
pub(super) const START: u32 = 0;
/// Marks the end of a list of edges.
const NIL: u32 = u32::MAX;
/// States with more edges than this are looked up in the index.
const INDEX_ABOVE_EDGES: u32 = 8;

/// One state of the automaton.
#[derive(Debug, Clone)]
pub(super) struct SuffixState {
    /// Length of its longest factor, in symbols.
    pub len: u32,
    /// State of the longest suffix that also occurs elsewhere.
    link: u32,
    /// Last symbol of its factors; without meaning for the start.
    pub symbol: u32,
    /// First end of its factors, in symbols from the beginning.
    pub first_end: u32,
    /// Number of occurrences of its factors.
    pub count: u32,
    /// Index of its first edge.
    edge: u32,
    degree: u32,
}

#[derive(Debug, Clone)]
struct Edge {
    symbol: u32,
    to: u32,
    next: u32,
}

/// The suffix automaton of a sequence of symbols.
#[derive(Debug, Clone)]
pub(super) struct SuffixAutomaton {
    pub states: Vec<SuffixState>,
    edges: Vec<Edge>,
    /// Edges of states with many of them, by state and symbol.
    index: FxHashMap<(u32, u32), u32>,
}

impl SuffixAutomaton {
    /// Builds the automaton of all factors of `symbols`.
    pub(super) fn new(symbols: &[u32]) -> Self {
        let mut automaton = SuffixAutomaton {
            states: Vec::with_capacity(symbols.len() * 3 / 2 + 1),
            edges: Vec::with_capacity(symbols.len() * 2),
            index: FxHashMap::default(),
        };
        let start =
            SuffixState { len: 0, link: START, symbol: 0, first_end: 0, count: 0, edge: NIL, degree: 0 };
        automaton.states.push(start);
        let mut last = START;
        for &symbol in symbols {
            last = automaton.extend(last, symbol);
        }
        automaton.count();
        automaton
    }

    /// Returns the transitions of a state: symbols and target states.
    pub(super) fn edges(&self, state: u32) -> impl Iterator<Item = (u32, u32)> + '_ {
        let mut at = self.states[state as usize].edge;
        std::iter::from_fn(move || {
            let edge = self.edges.get(at as usize)?;
            at = edge.next;
            Some((edge.symbol, edge.to))
        })
    }

    /// Returns the states from the shortest factors to the longest. Edges point forwards in this
    /// order.
    pub(super) fn order(&self) -> Vec<u32> {
        let longest = self.states.iter().map(|s| s.len as usize).max().unwrap_or(0);
        let mut first = vec![0u32; longest + 2];
        self.states.iter().for_each(|s| first[s.len as usize + 1] += 1);
        for len in 1..first.len() {
            first[len] += first[len - 1];
        }
        let mut order = vec![0; self.states.len()];
        for (state, s) in self.states.iter().enumerate() {
            let place = &mut first[s.len as usize];
            order[*place as usize] = state as u32;
            *place += 1;
        }
        order
    }

    /// Appends a symbol to the text, whose end is the state `last`; returns the new end.
    fn extend(&mut self, last: u32, symbol: u32) -> u32 {
        let len = self.states[last as usize].len + 1;
        let new = SuffixState { len, link: START, symbol, first_end: len, count: 1, edge: NIL, degree: 0 };
        let current = self.push(new);
        let mut p = last;
        let edge = loop {
            if let Some(edge) = self.find(p, symbol) {
                break edge;
            }
            self.add(p, symbol, current);
            if p == START {
                return current;
            }
            p = self.states[p as usize].link;
        };
        let q = self.edges[edge as usize].to;
        let len = self.states[p as usize].len + 1;
        if self.states[q as usize].len == len {
            self.states[current as usize].link = q;
            return current;
        }
        // The short factors of `q` now also end here, but its long ones do not: `q` is divided.
        let short =
            self.push(SuffixState { len, count: 0, edge: NIL, degree: 0, ..self.states[q as usize].clone() });
        let mut from = self.states[q as usize].edge;
        while let Some(edge) = self.edges.get(from as usize) {
            from = edge.next;
            let (symbol, to) = (edge.symbol, edge.to);
            self.add(short, symbol, to);
        }
        while let Some(edge) = self.find(p, symbol).filter(|&e| self.edges[e as usize].to == q) {
            self.edges[edge as usize].to = short;
            if p == START {
                break;
            }
            p = self.states[p as usize].link;
        }
        self.states[q as usize].link = short;
        self.states[current as usize].link = short;
        current
    }

    fn push(&mut self, state: SuffixState) -> u32 {
        self.states.push(state);
        self.states.len() as u32 - 1
    }

    fn find(&self, state: u32, symbol: u32) -> Option<u32> {
        let s = &self.states[state as usize];
        if s.degree > INDEX_ABOVE_EDGES {
            return self.index.get(&(state, symbol)).copied();
        }
        let mut at = s.edge;
        while let Some(edge) = self.edges.get(at as usize) {
            if edge.symbol == symbol {
                return Some(at);
            }
            at = edge.next;
        }
        None
    }

    fn add(&mut self, state: u32, symbol: u32, to: u32) {
        let s = &mut self.states[state as usize];
        let new = self.edges.len() as u32;
        self.edges.push(Edge { symbol, to, next: s.edge });
        s.edge = new;
        s.degree += 1;
        if s.degree == INDEX_ABOVE_EDGES + 1 {
            let mut at = new;
            while let Some(edge) = self.edges.get(at as usize) {
                self.index.insert((state, edge.symbol), at);
                at = edge.next;
            }
        } else if s.degree > INDEX_ABOVE_EDGES {
            self.index.insert((state, symbol), new);
        }
    }

    /// Counts the occurrences of the factors of each state: as many as their extensions to the left
    /// have.
    fn count(&mut self) {
        for state in self.order().into_iter().rev().filter(|&s| s != START) {
            let SuffixState { link, count, .. } = self.states[state as usize];
            self.states[link as usize].count += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    /// Returns every factor with the positions at which it ends.
    fn factors(symbols: &[u32]) -> std::collections::BTreeMap<&[u32], Vec<u32>> {
        let mut all = std::collections::BTreeMap::<&[u32], Vec<u32>>::new();
        for to in 1..=symbols.len() {
            for from in 0..to {
                all.entry(&symbols[from..to]).or_default().push(to as u32);
            }
        }
        all
    }

    fn check(symbols: &[u32], kinds: u32) {
        let automaton = SuffixAutomaton::new(symbols);
        let n = symbols.len();
        assert!(automaton.states.len() <= (2 * n).max(2), "{symbols:?}");
        assert!(automaton.edges.len() <= (3 * n).max(1), "{symbols:?}");
        let expected = factors(symbols);
        // Follows all paths, each once: the automaton is deterministic and accepts exactly the
        // factors.
        let mut paths = vec![(START, Vec::new())];
        let mut seen = 0;
        while let Some((state, path)) = paths.pop() {
            let mut symbols: Vec<u32> = automaton.edges(state).map(|e| e.0).collect();
            symbols.sort_unstable();
            symbols.dedup();
            assert_eq!(symbols.len(), automaton.edges(state).count(), "two ways on by one symbol");
            for (symbol, to) in automaton.edges(state) {
                assert_eq!(automaton.states[to as usize].symbol, symbol);
                let longer = [&path[..], &[symbol]].concat();
                let ends = expected.get(&longer[..]).unwrap_or_else(|| panic!("{longer:?} in {symbols:?}"));
                let s = &automaton.states[to as usize];
                assert_eq!((s.first_end, s.count as usize), (ends[0], ends.len()), "{longer:?}");
                assert_eq!(automaton.find(state, symbol).map(|e| automaton.edges[e as usize].to), Some(to));
                seen += 1;
                paths.push((to, longer));
            }
            assert_eq!(automaton.find(state, kinds), None);
        }
        assert_eq!(seen, expected.len(), "factors of {symbols:?}");
        let order = automaton.order();
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(i, &s)| place[s as usize] = i);
        for state in 0..order.len() as u32 {
            assert!(automaton.edges(state).all(|(_, to)| place[to as usize] > place[state as usize]));
        }
    }

    #[test]
    fn exactly_the_factors_with_their_places() {
        let mut random = Random::new(3);
        check(&[], 1);
        for case in 0..300 {
            let kinds = [1, 2, 3, 20][case % 4];
            let length = random.below(if kinds == 20 { 60 } else { 30 });
            let symbols: Vec<u32> = (0..length).map(|_| random.below(kinds) as u32).collect();
            check(&symbols, kinds as u32);
        }
    }

    #[test]
    fn many_neighbours_of_one_symbol_take_linear_time() {
        // 0 1 0 2 0 3 …: the state of 0 has as many edges as there are symbols.
        let symbols: Vec<u32> = (1..100_000).flat_map(|n| [0, n]).collect();
        let automaton = SuffixAutomaton::new(&symbols);
        assert_eq!(automaton.edges(START).count(), 100_000);
        assert!(automaton.edges.len() < 3 * symbols.len());
    }
}
