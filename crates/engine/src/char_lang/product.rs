//! Products of automata over characters: intersection, union, difference, disjointness.
//!
//! Pairs of states are numbered as they are met. The ranges of a pair are those of both states, cut
//! at each other's bounds. Either side may represent its complement, which is a flag and no copy: a
//! union is the complement of an intersection of complements.
//!
//! # Cost
//!
//! Pairs times their ranges.
//!
//! # Alternatives considered
//!
//! A hash map for all products was rejected as slower. Most products are small, so a table of all
//! pairs gives their numbers; only larger products use a map.

use rustc_hash::FxHashMap;

use crate::char_lang::char_dfa::{CharDfa, MAX_RANGES, MAX_STATES, too_large};
use crate::error::Result;

/// Maximum number of pairs that get a table.
const MAX_TABLE: usize = 1 << 14;
/// Marks a state that has no number yet.
const NO_STATE: u32 = u32::MAX;

impl CharDfa {
    /// Returns the texts in both languages.
    pub(crate) fn intersect(&self, other: &CharDfa) -> Result<CharDfa> {
        all_pairs(&Side::new(self, false), &Side::new(other, false))
    }

    /// Returns the texts in either language.
    pub(crate) fn union(&self, other: &CharDfa) -> Result<CharDfa> {
        Ok(all_pairs(&Side::new(self, true), &Side::new(other, true))?.complement())
    }

    /// Returns the texts in this language and not in the other.
    pub(crate) fn without(&self, other: &CharDfa) -> Result<CharDfa> {
        all_pairs(&Side::new(self, false), &Side::new(other, true))
    }

    /// Returns true if no text is in both languages.
    pub(crate) fn is_disjoint(&self, other: &CharDfa) -> Result<bool> {
        Ok(!pairs(&Side::new(self, false), &Side::new(other, false), true)?.accept.contains(&true))
    }
}

/// One side of a product.
struct Side<'a> {
    dfa: &'a CharDfa,
    /// True if it represents its complement.
    inverted: bool,
    /// For each state, true if it reaches acceptance.
    live: Vec<bool>,
}

impl<'a> Side<'a> {
    fn new(dfa: &'a CharDfa, inverted: bool) -> Self {
        Side { dfa, inverted, live: dfa.reaching(!inverted) }
    }

    fn accepts(&self, q: u32) -> bool {
        self.dfa.accept[q as usize] != self.inverted
    }
}

/// Numbers of the pairs.
enum PairNumbers {
    /// Number of second states, and a table with one entry per pair. An entry is one more than the
    /// pair's number, or 0 if it has none.
    Table(usize, Vec<u32>),
    Map(FxHashMap<(u32, u32), u32>),
}

impl PairNumbers {
    fn new(states: usize, others: usize) -> Self {
        match states.saturating_mul(others) {
            all if all <= MAX_TABLE => PairNumbers::Table(others, vec![0; all]),
            _ => PairNumbers::Map(FxHashMap::default()),
        }
    }

    /// Returns the number of a pair, which is `next` if it has none yet.
    fn of(&mut self, (a, b): (u32, u32), next: u32) -> u32 {
        match self {
            PairNumbers::Table(others, table) => {
                let number = &mut table[a as usize * *others + b as usize];
                if *number == 0 {
                    *number = next + 1;
                }
                *number - 1
            }
            PairNumbers::Map(map) => *map.entry((a, b)).or_insert(next),
        }
    }
}

fn all_pairs(a: &Side, b: &Side) -> Result<CharDfa> {
    let product = pairs(a, b, false)?;
    // Most products are hardly larger than their factors. Only the last of a chain is converted to
    // nodes, which minimises it.
    match product.states() > 2 * (a.dfa.states() + b.dfa.states()) {
        true => product.minimise(),
        false => Ok(product),
    }
}

/// Returns the product, or with `first` only its part up to the first accepting state. All pairs
/// with a dead state are one state; otherwise the products of long chains would be several times
/// larger.
fn pairs(a: &Side, b: &Side, first: bool) -> Result<CharDfa> {
    const SINK: (u32, u32) = (NO_STATE, NO_STATE);
    let mut numbers = PairNumbers::new(a.dfa.states(), b.dfa.states());
    let mut met = vec![(0u32, 0u32)];
    numbers.of((0, 0), 0);
    let mut sink = NO_STATE;
    let mut sink_ranges = 0;
    let states = a.dfa.states().max(b.dfa.states());
    let mut product = CharDfa::with_capacity(states, a.dfa.ranges().len().max(b.dfa.ranges().len()));
    while let Some(&(p, q)) = met.get(product.states()) {
        if (p, q) == SINK {
            product.uniform_state(false, sink);
            sink_ranges = product.transitions(sink).len();
            continue;
        }
        let (x, y) = (a.dfa.transitions(p), b.dfa.transitions(q));
        let (mut i, mut j) = (0, 0);
        // Both lists cover the same code points.
        while i < x.len() && j < y.len() {
            let (left, right) = (x[i], y[j]);
            let next = met.len() as u32;
            let to = if a.live[left.to as usize] && b.live[right.to as usize] {
                let to = numbers.of((left.to, right.to), next);
                if to == next {
                    met.push((left.to, right.to));
                }
                to
            } else {
                if sink == NO_STATE {
                    sink = next;
                    met.push(SINK);
                }
                sink
            };
            product.add(left.lo.max(right.lo), left.hi.min(right.hi), to);
            i += usize::from(left.hi <= right.hi);
            j += usize::from(right.hi <= left.hi);
        }
        if met.len() > MAX_STATES * 4 || product.ranges().len() - sink_ranges > MAX_RANGES {
            return Err(too_large("states", MAX_STATES * 4));
        }
        product.end_state(a.accepts(p) && b.accepts(q));
        if first && product.accept.last() == Some(&true) {
            break;
        }
    }
    Ok(product)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use ffwd_testkit::random::Random;

    const LETTERS: [char; 4] = ['A', 'a', 'b', '\u{E000}'];

    /// Returns true if the automata have a text in common, by following all pairs letter by letter.
    fn meet(a: &CharDfa, b: &CharDfa) -> bool {
        let (mut todo, mut seen) = (vec![(0, 0)], HashSet::from([(0, 0)]));
        while let Some((p, q)) = todo.pop() {
            if a.accept[p as usize] && b.accept[q as usize] {
                return true;
            }
            let next = LETTERS.map(|c| (a.step(p, c as u32), b.step(q, c as u32)));
            todo.extend(next.into_iter().filter(|&pair| seen.insert(pair)));
        }
        false
    }

    #[test]
    fn as_both_sides_say() {
        let mut random = Random::new(7);
        let text = |random: &mut Random, longest: usize| -> String {
            (0..random.below(longest)).map(|_| LETTERS[random.below(4)]).collect()
        };
        let (mut disjoint, mut mapped) = (0, 0);
        for round in 0..200 {
            let [a, b] = [(), ()].map(|()| {
                if round % 4 == 0 {
                    // Too many states for a table of all pairs.
                    let words: Vec<String> = (0..150).map(|_| text(&mut random, 6)).collect();
                    return CharDfa::words(words.iter().map(String::as_str)).unwrap();
                }
                let mut dfa = CharDfa::random(&mut random, 12);
                if random.below(2) == 0 {
                    // Few words, so that some languages are disjoint.
                    let keep = random.below(dfa.states());
                    dfa.accept.iter_mut().enumerate().for_each(|(q, accept)| *accept = q == keep);
                }
                if random.below(2) == 0 { dfa.minimise().unwrap() } else { dfa }
            });
            mapped += u32::from(a.states() * b.states() > MAX_TABLE);
            let (both, either) = (a.intersect(&b).unwrap(), a.union(&b).unwrap());
            let first = a.without(&b).unwrap();
            for _ in 0..100 {
                let text = text(&mut random, if round % 4 == 0 { 6 } else { 30 });
                let (in_a, in_b) = (a.matches(&text), b.matches(&text));
                assert_eq!(both.matches(&text), in_a && in_b, "{text:?}");
                assert_eq!(either.matches(&text), in_a || in_b, "{text:?}");
                assert_eq!(first.matches(&text), in_a && !in_b, "{text:?}");
            }
            let meet = meet(&a, &b);
            assert_eq!(both.is_empty(), !meet);
            assert_eq!(a.is_disjoint(&b).unwrap(), !meet);
            disjoint += u32::from(!meet);
            // Flags and copies give the same result.
            let (not_a, not_b) = (a.clone().complement(), b.clone().complement());
            assert!(either.is_same(&not_a.intersect(&not_b).unwrap().complement()));
            assert!(first.is_same(&a.intersect(&not_b).unwrap()));
        }
        assert!((10..190).contains(&disjoint) && mapped > 25, "{disjoint} {mapped}");
    }
}
