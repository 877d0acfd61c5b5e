//! Complete deterministic automata over characters: complement, membership, emptiness, listing.
//!
//! Patterns that must hold together need boolean operations that the common representation does not
//! have. Examples are pattern and format, two patterns, or a name that must not match a pattern. A
//! byte language is determinised over code points (module `determinize`), combined by products
//! (`product`), minimised (`minimize`) and converted back (`to_ir`).
//!
//! # Cost
//!
//! The ranges of all states lie in one list, so a copy is three allocations. Most operations need
//! no more.
//!
//! # Alternatives considered
//!
//! A list for each state was rejected: much of the compile time of schemas with patterns then went
//! to the allocator. Working over bytes was rejected: the complement would have to be restricted to
//! valid UTF-8, and it would carry several states per character.

use smallvec::SmallVec;

use crate::error::{Error, ErrorKind, Result};
use crate::incoming::Incoming;

/// Maximum number of states of one automaton.
pub(crate) const MAX_STATES: usize = 4_000;
/// Maximum number of transitions of one automaton.
pub(crate) const MAX_RANGES: usize = 200_000;

/// The Unicode scalar values.
pub(crate) const SCALARS: [(u32, u32); 2] = [(0, 0xD7FF), (0xE000, 0x10FFFF)];

/// One transition: the code points `lo..=hi` lead to `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub lo: u32,
    pub hi: u32,
    pub to: u32,
}

/// A complete deterministic automaton. State 0 is the start, and all states are reachable from it.
#[derive(Debug, Clone)]
pub(crate) struct CharDfa {
    pub accept: Vec<bool>,
    /// Transitions, state by state: sorted ranges that cover all scalar values.
    ranges: Vec<Range>,
    /// Index of the first range of each state, and the end of the last state's ranges.
    first: Vec<u32>,
    /// True if it is known that no two states have the same language.
    pub(crate) minimal: bool,
}

/// Adds a range to a list of transitions, merging it with its neighbour.
pub(crate) fn add(row: &mut Vec<Range>, lo: u32, hi: u32, to: u32) {
    if let Some(last) = row.last_mut()
        && last.to == to
        && last.hi + 1 == lo
    {
        last.hi = hi;
        return;
    }
    row.push(Range { lo, hi, to });
}

pub(crate) fn too_large(what: &str, limit: usize) -> Error {
    Error::new(
        ErrorKind::TooComplex,
        format!("combining patterns needs more than {limit} {what}; the limit cannot be raised here"),
    )
}

/// Construction, state by state.
impl CharDfa {
    /// Creates an automaton without states, with room for some states and ranges.
    pub(crate) fn with_capacity(states: usize, ranges: usize) -> CharDfa {
        let mut first = Vec::with_capacity(states + 1);
        first.push(0);
        CharDfa {
            accept: Vec::with_capacity(states),
            ranges: Vec::with_capacity(ranges),
            first,
            minimal: false,
        }
    }

    /// Adds a range to the state under construction. The state before it ends with the last scalar
    /// value, so the range never merges into that state.
    pub(crate) fn add(&mut self, lo: u32, hi: u32, to: u32) {
        add(&mut self.ranges, lo, hi, to);
    }

    /// Finishes the state under construction, which has all of its ranges.
    pub(crate) fn end_state(&mut self, accept: bool) {
        self.accept.push(accept);
        self.first.push(self.ranges.len() as u32);
    }

    /// Adds a state from which every character leads to `to`.
    pub(crate) fn uniform_state(&mut self, accept: bool, to: u32) {
        self.ranges.extend(SCALARS.map(|(lo, hi)| Range { lo, hi, to }));
        self.end_state(accept);
    }

    /// Adds a state with a few listed transitions, in order. All other characters lead to `rest`.
    pub(crate) fn listed_state(&mut self, accept: bool, ways: &[Range], rest: u32) {
        for (lo, hi) in SCALARS {
            let mut from = lo;
            for r in ways.iter().filter(|r| r.lo <= hi && r.hi >= lo) {
                let (a, b) = (r.lo.max(lo), r.hi.min(hi));
                if a > from {
                    self.add(from, a - 1, rest);
                }
                self.add(a, b, r.to);
                from = b + 1;
            }
            if from <= hi {
                self.add(from, hi, rest);
            }
        }
        self.end_state(accept);
    }

    /// Replaces the targets of the last state's transitions, in order.
    pub(crate) fn retarget_last(&mut self, mut to: impl FnMut(u32) -> u32) {
        let from = self.first[self.first.len() - 2] as usize;
        self.ranges[from..].iter_mut().for_each(|r| r.to = to(r.to));
    }

    /// Returns the automaton of exactly these words.
    pub(crate) fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<CharDfa> {
        // Sorted transitions of each state, and true if a word ends there.
        let mut trie: Vec<(SmallVec<[Range; 1]>, bool)> = vec![(SmallVec::new(), false)];
        for word in words {
            let mut at = 0usize;
            for c in word.chars().map(u32::from) {
                let next = trie.len() as u32;
                let ways = &mut trie[at].0;
                at = match ways.binary_search_by_key(&c, |r| r.lo) {
                    Ok(known) => ways[known].to as usize,
                    Err(place) => {
                        ways.insert(place, Range { lo: c, hi: c, to: next });
                        trie.push((SmallVec::new(), false));
                        next as usize
                    }
                };
                if trie.len() > MAX_STATES {
                    return Err(too_large("states", MAX_STATES));
                }
            }
            trie[at].1 = true;
        }
        let sink = trie.len() as u32;
        let mut dfa = CharDfa::with_capacity(trie.len() + 1, 4 * trie.len() + 2);
        for (ways, accept) in &trie {
            dfa.listed_state(*accept, ways, sink);
        }
        dfa.uniform_state(false, sink);
        Ok(dfa)
    }

    /// Returns the automaton of the texts of `min` to `max` characters.
    pub(crate) fn lengths(min: u32, max: Option<u32>) -> CharDfa {
        let last = max.map_or(min, |m| m.max(min).saturating_add(1));
        let mut dfa = CharDfa::with_capacity(last as usize + 1, 2 * (last as usize + 1));
        for n in 0..=last {
            dfa.uniform_state(n >= min && max.is_none_or(|m| n <= m), (n + 1).min(last));
        }
        dfa
    }
}

impl CharDfa {
    /// Returns the number of states.
    pub(crate) fn states(&self) -> usize {
        self.accept.len()
    }

    /// Returns the transitions of a state, sorted. They cover all scalar values.
    pub(crate) fn transitions(&self, state: u32) -> &[Range] {
        &self.ranges[self.first[state as usize] as usize..self.first[state as usize + 1] as usize]
    }

    /// Returns the transitions of all states together.
    pub(crate) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// Returns true if both automata are equal state by state.
    pub(crate) fn is_same(&self, other: &CharDfa) -> bool {
        self.accept == other.accept && self.first == other.first && self.ranges == other.ranges
    }

    /// Returns the state after a character.
    pub(crate) fn step(&self, state: u32, code: u32) -> u32 {
        let row = self.transitions(state);
        row[row.partition_point(|r| r.hi < code)].to
    }

    /// Returns true if the text is accepted.
    pub(crate) fn matches(&self, text: &str) -> bool {
        self.accept[text.chars().fold(0, |at, c| self.step(at, c as u32)) as usize]
    }

    /// Returns the automaton of all texts that are not accepted.
    pub(crate) fn complement(mut self) -> CharDfa {
        for accept in &mut self.accept {
            *accept = !*accept;
        }
        self
    }

    /// Returns the states that lead to each state, each once.
    pub(crate) fn incoming(&self) -> Incoming<u32> {
        Incoming::new(self.states(), |edge| {
            let mut seen = vec![u32::MAX; self.states()];
            for q in 0..self.states() as u32 {
                for r in self.transitions(q) {
                    if std::mem::replace(&mut seen[r.to as usize], q) != q {
                        edge(r.to as usize, q);
                    }
                }
            }
        })
    }

    /// Returns the state that only leads to itself and accepts, or does not. In a minimal automaton
    /// it is the only one from which everything is accepted, or nothing.
    pub(crate) fn loop_state(&self, accept: bool) -> Option<u32> {
        (0..self.states() as u32)
            .find(|&q| self.accept[q as usize] == accept && self.transitions(q).iter().all(|r| r.to == q))
    }

    /// Returns a flag for each state: true if it reaches acceptance.
    pub(crate) fn live(&self) -> Vec<bool> {
        self.reaching(true)
    }

    /// Returns a flag for each state: true if it reaches a state whose acceptance is `accept`.
    pub(crate) fn reaching(&self, accept: bool) -> Vec<bool> {
        if self.minimal {
            let mut live = vec![true; self.states()];
            if let Some(q) = self.loop_state(!accept) {
                live[q as usize] = false;
            }
            return live;
        }
        let back = self.incoming();
        let mut live: Vec<bool> = self.accept.iter().map(|&a| a == accept).collect();
        let mut todo: Vec<u32> = (0..live.len() as u32).filter(|&q| live[q as usize]).collect();
        while let Some(q) = todo.pop() {
            for &p in back.of(q as usize) {
                if !live[p as usize] {
                    live[p as usize] = true;
                    todo.push(p);
                }
            }
        }
        live
    }

    /// Returns true if no text is accepted.
    pub(crate) fn is_empty(&self) -> bool {
        !self.accept.contains(&true)
    }

    /// Returns true if every text is accepted.
    pub(crate) fn is_everything(&self) -> bool {
        !self.accept.contains(&false)
    }

    /// Returns true if there are infinitely many words, that is, a loop through live states.
    fn is_infinite(&self, live: &[bool]) -> bool {
        let targets =
            |q: usize| self.transitions(q as u32).iter().map(|r| r.to as usize).filter(|&to| live[to]);
        let into = Incoming::new(live.len(), |edge| {
            (0..live.len()).for_each(|q| targets(q).for_each(|to| edge(to, q as u32)));
        });
        let open = (0..live.len()).map(|q| targets(q).count() as u32).collect();
        into.longest(open, |&q| (q as usize, 1))[0] == u32::MAX
    }

    /// Returns all words, if there are at most `limit`.
    pub(crate) fn finite(&self, limit: usize) -> Option<Vec<String>> {
        let live = self.live();
        if self.is_infinite(&live) {
            return None;
        }
        let mut words = Vec::new();
        let mut layer: Vec<(u32, String)> = if live[0] { vec![(0, String::new())] } else { vec![] };
        for _ in 0..=self.states() {
            let mut next = Vec::new();
            for (q, word) in layer {
                if self.accept[q as usize] {
                    words.push(word.clone());
                }
                for range in self.transitions(q).iter().filter(|r| live[r.to as usize]) {
                    if (range.hi - range.lo) as usize + next.len() + words.len() > limit {
                        return None;
                    }
                    for c in (range.lo..=range.hi).filter_map(char::from_u32) {
                        let mut longer = word.clone();
                        longer.push(c);
                        next.push((range.to, longer));
                    }
                }
            }
            if next.is_empty() {
                return (words.len() <= limit).then_some(words);
            }
            layer = next;
        }
        None
    }
}

#[cfg(test)]
impl CharDfa {
    /// Returns a random automaton of at most `states` states, mostly in long chains. It
    /// distinguishes `A`, `a`, `b` and U+E000.
    pub(crate) fn random(random: &mut ffwd_testkit::random::Random, states: usize) -> CharDfa {
        let states = 1 + random.below(states);
        let mut dfa = CharDfa::with_capacity(states, 4 * states);
        for q in 0..states {
            for (lo, hi) in [(0, 96), (97, 97), (98, 0xD7FF), (0xE000, 0x10FFFF)] {
                let to = if random.below(3) == 0 { random.below(states) } else { (q + 1).min(states - 1) };
                dfa.add(lo, hi, to as u32);
            }
            dfa.end_state(random.below(4) == 0);
        }
        dfa
    }
}
