//! The smallest automaton of a language of text.
//!
//! Blocks of states are refined until nothing changes, beginning with those that are as far from acceptance
//! and from refusal as each other, which tells the states of long chains apart at once. Only states that lead
//! into a block that was split are looked at again, and the largest part of a block keeps its number (as
//! Hopcroft 1971 does it); comparing all states in every round (Moore 1956) took a hundred rounds for some
//! formats.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::lang::{Dfa, Incoming, MAX_STATES, Range, add, too_large};
use crate::error::Result;

impl Dfa {
    /// The smallest automaton of the same language.
    ///
    /// # Errors
    /// `TooComplex` if it is above the limit.
    pub fn minimise(&self) -> Result<Dfa> {
        let states = self.rows.len();
        let back = self.incoming();
        let ends = self.distances(&back, true).into_iter().zip(self.distances(&back, false));
        let mut blocks = Blocks::new(&ends.collect::<Vec<_>>());
        let mut dirty: Vec<u32> = (0..states as u32).collect();
        let mut is_dirty = vec![true; states];
        let mut moved: Vec<u32> = Vec::new();
        while !dirty.is_empty() {
            let mut round = std::mem::take(&mut dirty);
            round.sort_unstable_by_key(|&q| blocks.of[q as usize]);
            // All are judged by the blocks as they were before this round.
            let before = blocks.of.clone();
            for states in round.chunk_by(|&p, &q| before[p as usize] == before[q as usize]) {
                self.split(states, &is_dirty, &before, &mut blocks, &mut moved);
            }
            round.iter().for_each(|&q| is_dirty[q as usize] = false);
            for q in moved.drain(..) {
                for &p in back.of(q) {
                    if !std::mem::replace(&mut is_dirty[p as usize], true) {
                        dirty.push(p);
                    }
                }
            }
        }
        let Blocks { of: mut block, bounds, .. } = blocks;
        let count = bounds.len();
        if count > MAX_STATES {
            return Err(too_large("states", MAX_STATES));
        }
        // Blocks in the order in which their states are met.
        let mut number = vec![u32::MAX; count];
        let mut next = 0;
        for b in &mut block {
            let number = &mut number[*b as usize];
            if *number == u32::MAX {
                *number = next;
                next += 1;
            }
            *b = *number;
        }
        Ok(self.quotient(&block, count))
    }

    /// How many characters each state is from one that accepts, or from one that does not.
    fn distances(&self, back: &Incoming, accept: bool) -> Vec<u32> {
        let mut far = vec![u32::MAX; self.rows.len()];
        let mut met: Vec<u32> =
            (0..self.rows.len() as u32).filter(|&q| self.accept[q as usize] == accept).collect();
        met.iter().for_each(|&q| far[q as usize] = 0);
        let mut next = 0;
        while let Some(&q) = met.get(next) {
            next += 1;
            for &p in back.of(q) {
                if far[p as usize] == u32::MAX {
                    far[p as usize] = far[q as usize] + 1;
                    met.push(p);
                }
            }
        }
        far
    }

    /// Splits the block of `dirty`, its states whose ways on may have changed; the others are alike.
    fn split(
        &self,
        dirty: &[u32],
        is_dirty: &[bool],
        before: &[u32],
        blocks: &mut Blocks,
        moved: &mut Vec<u32>,
    ) {
        let block = before[dirty[0] as usize];
        let members = blocks.members(block);
        if members.len() == 1 {
            return;
        }
        // Representatives of the groups: states with equal ways on.
        let mut groups: SmallVec<[(u32, SmallVec<[u32; 8]>); 4]> = SmallVec::new();
        let mut ids: HashTable<u32> = HashTable::new();
        // The clean states stay, and who is like them.
        let clean = (members.len() > dirty.len())
            .then(|| members.iter().copied().find(|&q| !is_dirty[q as usize]))
            .flatten();
        let hash = |q: u32| {
            let mut hasher = FxHasher::default();
            self.accept[q as usize].hash(&mut hasher);
            self.merged(q, before).for_each(|r| r.hash(&mut hasher));
            hasher.finish()
        };
        let same = |p: u32, q: u32| {
            self.accept[p as usize] == self.accept[q as usize]
                && self.merged(p, before).eq(self.merged(q, before))
        };
        if let Some(q) = clean {
            ids.insert_unique(hash(q), 0, |_| 0);
            groups.push((q, SmallVec::new()));
        }
        for &q in dirty {
            let own = hash(q);
            let group = match ids.find(own, |&g| same(groups[g as usize].0, q)) {
                Some(&group) => group,
                None => {
                    let group = groups.len() as u32;
                    ids.insert_unique(own, group, |&g| hash(groups[g as usize].0));
                    groups.push((q, SmallVec::new()));
                    group
                }
            };
            groups[group as usize].1.push(q);
        }
        let stays = match clean {
            Some(_) => 0,
            None => (0..groups.len()).max_by_key(|&g| groups[g].1.len()).unwrap_or(0),
        };
        groups.swap_remove(stays);
        for (_, group) in groups {
            moved.extend_from_slice(&group);
            blocks.part(&group);
        }
    }

    /// The ways on from a state to blocks, neighbours with the same target in one.
    fn merged(&self, q: u32, block: &[u32]) -> impl Iterator<Item = Range> {
        let mut row =
            self.rows[q as usize].iter().map(|r| Range { to: block[r.to as usize], ..*r }).peekable();
        std::iter::from_fn(move || {
            let mut range = row.next()?;
            while let Some(next) = row.next_if(|n| n.to == range.to && n.lo == range.hi + 1) {
                range.hi = next.hi;
            }
            Some(range)
        })
    }

    /// Merges the states of each block; the start state's block becomes 0 because blocks are numbered
    /// in the order in which states are met.
    fn quotient(&self, block: &[u32], count: usize) -> Dfa {
        let mut accept = vec![false; count];
        let mut rows: Vec<Vec<Range>> = vec![Vec::new(); count];
        for (q, row) in self.rows.iter().enumerate() {
            let b = block[q] as usize;
            accept[b] = self.accept[q];
            if rows[b].is_empty() {
                for r in row {
                    add(&mut rows[b], r.lo, r.hi, block[r.to as usize]);
                }
            }
        }
        Dfa { accept, rows }
    }
}

/// A partition of states.
struct Blocks {
    /// The block of each state.
    of: Vec<u32>,
    /// The states, block by block.
    order: Vec<u32>,
    /// Where each state stands in `order`.
    place: Vec<u32>,
    /// Where each block lies in `order`.
    bounds: Vec<(u32, u32)>,
}

impl Blocks {
    /// States together that have the same key.
    fn new(keys: &[(u32, u32)]) -> Self {
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|&q| keys[q as usize]);
        let (mut of, mut place) = (vec![0; keys.len()], vec![0; keys.len()]);
        let mut bounds = Vec::new();
        let mut from = 0;
        for block in order.chunk_by(|&p, &q| keys[p as usize] == keys[q as usize]) {
            for (&q, at) in block.iter().zip(from..) {
                (of[q as usize], place[q as usize]) = (bounds.len() as u32, at);
            }
            bounds.push((from, from + block.len() as u32));
            from += block.len() as u32;
        }
        Blocks { of, order, place, bounds }
    }

    fn members(&self, block: u32) -> &[u32] {
        let (from, to) = self.bounds[block as usize];
        &self.order[from as usize..to as usize]
    }

    /// Makes some states of one block, but not all, a block of their own.
    fn part(&mut self, states: &[u32]) {
        let Some(&first) = states.first() else { return };
        let new = self.bounds.len() as u32;
        let old = self.of[first as usize] as usize;
        let end = self.bounds[old].1;
        for &q in states {
            // To the end of the old block, which then ends before it.
            self.bounds[old].1 -= 1;
            let (place, last) = (self.place[q as usize], self.bounds[old].1);
            let other = self.order[last as usize];
            self.order.swap(place as usize, last as usize);
            self.place[other as usize] = place;
            self.place[q as usize] = last;
            self.of[q as usize] = new;
        }
        self.bounds.push((self.bounds[old].1, end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::testing::Random;

    /// How many states differ, by comparing all of them until nothing changes.
    fn different(dfa: &Dfa) -> usize {
        let mut class: Vec<u32> = dfa.accept.iter().map(|&a| u32::from(a)).collect();
        loop {
            let key = |q: usize| {
                let row = dfa.rows[q].iter().map(|r| class[r.to as usize]).collect::<Vec<_>>();
                (class[q], row)
            };
            let mut keys: Vec<_> = (0..class.len()).map(key).collect();
            let next: Vec<_> = keys.clone();
            keys.sort();
            keys.dedup();
            let number = |k: &_| keys.binary_search(k).unwrap() as u32;
            let finer: Vec<u32> = next.iter().map(number).collect();
            let before = class.iter().collect::<std::collections::HashSet<_>>().len();
            class = finer;
            if keys.len() == before {
                return before;
            }
        }
    }

    #[test]
    fn as_small_as_comparing_all_states() {
        let mut random = Random::new(5);
        for _ in 0..300 {
            let states = 1 + random.below(40);
            // The same ranges in every row, so that rows can be compared one by one.
            let mut to = |from: usize| {
                // Mostly to the next states: long chains.
                if random.below(3) == 0 { random.below(states) } else { (from + 1).min(states - 1) }
            };
            let rows: Vec<Vec<Range>> = (0..states)
                .map(|q| {
                    [(0, 96), (97, 97), (98, 0xD7FF), (0xE000, 0x10FFFF)]
                        .map(|(lo, hi)| Range { lo, hi, to: to(q) as u32 })
                        .to_vec()
                })
                .collect();
            let accept = (0..states).map(|_| random.below(4) == 0).collect();
            let dfa = Dfa { accept, rows };
            let small = dfa.minimise().unwrap();
            assert_eq!(small.rows.len(), different(&dfa));
            for _ in 0..50 {
                let text: String =
                    (0..random.below(30)).map(|_| ['A', 'a', 'b', '\u{E000}'][random.below(4)]).collect();
                assert_eq!(small.matches(&text), dfa.matches(&text), "{text:?}");
            }
        }
    }
}
