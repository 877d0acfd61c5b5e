//! Minimisation of automata over characters, by partition refinement.
//!
//! Blocks of states are refined until nothing changes. The first blocks hold states with the same
//! acceptance and the same distance from a state of the other acceptance. That separates the states
//! of long chains at once. Only states that lead into a divided block are looked at again. The
//! largest part of a block keeps its number (as in Hopcroft 1971).
//!
//! # Cost
//!
//! Automata that are known to be minimal are left unchanged, so most are looked at once.
//!
//! # Alternatives considered
//!
//! Comparing all states in every round (Moore 1956) was rejected: some formats need about a hundred
//! rounds.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::char_lang::char_dfa::{CharDfa, MAX_STATES, too_large};
use crate::error::Result;
use crate::incoming::Incoming;

impl CharDfa {
    /// Returns the smallest automaton of the same language.
    ///
    /// # Errors
    /// `TooComplex` if it has more than `MAX_STATES` states.
    pub(crate) fn minimise(mut self) -> Result<CharDfa> {
        if let Some(small) = self.smaller()? {
            return Ok(small);
        }
        self.minimal = true;
        Ok(self)
    }

    /// Like [`minimise`](Self::minimise), but borrows the automaton and returns it if it is
    /// minimal.
    ///
    /// # Errors
    /// The same as `minimise`.
    pub(crate) fn minimised(&self) -> Result<Cow<'_, CharDfa>> {
        Ok(self.smaller()?.map_or(Cow::Borrowed(self), Cow::Owned))
    }

    /// Returns the smallest automaton of the same language, or `None` if this is it.
    fn smaller(&self) -> Result<Option<CharDfa>> {
        if self.minimal {
            return Ok(None);
        }
        let mut block = self.blocks();
        // Numbers the blocks in the order in which their states are met.
        let mut number = vec![u32::MAX; block.len()];
        let mut count = 0;
        for b in &mut block {
            let number = &mut number[*b as usize];
            if *number == u32::MAX {
                *number = count;
                count += 1;
            }
            *b = *number;
        }
        if count as usize > MAX_STATES {
            return Err(too_large("states", MAX_STATES));
        }
        Ok((count as usize != self.states()).then(|| self.quotient(&block, count)))
    }

    /// Returns the block of each state; the states of a block have the same language.
    fn blocks(&self) -> Vec<u32> {
        let states = self.states();
        let back = self.incoming();
        let mut blocks = Partition::new(&self.distances(&back));
        if blocks.bounds.len() == states {
            return blocks.of;
        }
        let mut round = blocks.order.clone();
        let mut dirty: Vec<u32> = Vec::new();
        let mut is_dirty = vec![true; states];
        let mut moved: Vec<u32> = Vec::new();
        let mut before: Vec<u32> = Vec::new();
        let mut hashes: Vec<(u64, u32)> = Vec::new();
        while !round.is_empty() && blocks.bounds.len() < states {
            // All states are compared by the blocks at the start of this round.
            before.clone_from(&blocks.of);
            for states in round.chunk_by(|&p, &q| before[p as usize] == before[q as usize]) {
                let members = blocks.members(before[states[0] as usize]);
                if members.len() > 1 {
                    // The clean states stay, and so do the dirty states that are like them.
                    let clean = match members.len() > states.len() {
                        true => members.iter().copied().find(|&q| !is_dirty[q as usize]),
                        false => None,
                    };
                    self.split_off_groups(states, clean, &before, &mut hashes, |group| {
                        moved.extend(group.iter().map(|g| g.1));
                        blocks.part(group.iter().map(|g| g.1));
                    });
                }
            }
            round.iter().for_each(|&q| is_dirty[q as usize] = false);
            dirty.clear();
            for q in moved.drain(..) {
                for &p in back.of(q as usize) {
                    if !blocks.is_single(p) && !std::mem::replace(&mut is_dirty[p as usize], true) {
                        dirty.push(p);
                    }
                }
            }
            std::mem::swap(&mut round, &mut dirty);
            round.sort_unstable_by_key(|&q| blocks.of[q as usize]);
        }
        blocks.of
    }

    /// Returns a key for each state: its acceptance, and its distance in characters from a state of
    /// the other acceptance.
    fn distances(&self, back: &Incoming<u32>) -> Vec<u32> {
        let mut far = vec![u32::MAX / 2; self.states()];
        let mut met: Vec<u32> = Vec::with_capacity(self.states());
        for (q, &accept) in self.accept.iter().enumerate() {
            if self.transitions(q as u32).iter().any(|r| self.accept[r.to as usize] != accept) {
                far[q] = 1;
                met.push(q as u32);
            }
        }
        let mut next = 0;
        while let Some(&q) = met.get(next) {
            next += 1;
            for &p in back.of(q as usize) {
                if far[p as usize] == u32::MAX / 2 && self.accept[p as usize] == self.accept[q as usize] {
                    far[p as usize] = far[q as usize] + 1;
                    met.push(p);
                }
            }
        }
        far.iter().zip(&self.accept).map(|(&far, &accept)| far << 1 | u32::from(accept)).collect()
    }

    /// Groups the dirty states of a block by their transitions and passes on those that leave the
    /// block. These are all that differ from the clean states; without clean states, all but the
    /// largest group.
    fn split_off_groups(
        &self,
        dirty: &[u32],
        clean: Option<u32>,
        block: &[u32],
        hashes: &mut Vec<(u64, u32)>,
        mut leave: impl FnMut(&[(u64, u32)]),
    ) {
        hashes.clear();
        if let [q] = *dirty {
            hashes.push((0, q));
        } else {
            hashes.extend(dirty.iter().map(|&q| (self.hash(q, block), q)));
            hashes.sort_unstable();
        }
        let mut groups: SmallVec<[(usize, usize); 16]> = SmallVec::new();
        let mut from = 0;
        while let Some(&(hash, p)) = hashes.get(from) {
            let mut end = from + 1;
            // Others with this hash may still differ.
            let mut at = end;
            while at < hashes.len() && hashes[at].0 == hash {
                if self.alike(p, hashes[at].1, block) {
                    hashes.swap(at, end);
                    end += 1;
                }
                at += 1;
            }
            groups.push((from, end));
            from = end;
        }
        let stays = match clean {
            Some(clean) => {
                let hash = if dirty.len() == 1 { 0 } else { self.hash(clean, block) };
                groups
                    .iter()
                    .position(|&(from, _)| hashes[from].0 == hash && self.alike(clean, hashes[from].1, block))
            }
            None => (0..groups.len()).max_by_key(|&g| groups[g].1 - groups[g].0),
        };
        for (g, &(from, end)) in groups.iter().enumerate() {
            if Some(g) != stays {
                leave(&hashes[from..end]);
            }
        }
    }

    /// Returns a hash of the transitions from a state to blocks.
    fn hash(&self, q: u32, block: &[u32]) -> u64 {
        let mut hasher = FxHasher::default();
        let (mut end, mut last) = (0, u32::MAX);
        for r in self.transitions(q) {
            let to = block[r.to as usize];
            if to != last {
                (u64::from(end) << 32 | u64::from(to)).hash(&mut hasher);
                last = to;
            }
            end = r.hi;
        }
        hasher.finish()
    }

    /// Returns true if every character leads from both states to the same block.
    fn alike(&self, p: u32, q: u32, block: &[u32]) -> bool {
        let (x, y) = (self.transitions(p), self.transitions(q));
        let (mut i, mut j) = (0, 0);
        while i < x.len() && j < y.len() {
            if block[x[i].to as usize] != block[y[j].to as usize] {
                return false;
            }
            let (left, right) = (x[i].hi, y[j].hi);
            i += usize::from(left <= right);
            j += usize::from(right <= left);
        }
        true
    }

    /// Merges the states of each block. Blocks are numbered in the order in which their states are
    /// met.
    fn quotient(&self, block: &[u32], count: u32) -> CharDfa {
        let mut small = CharDfa::with_capacity(count as usize, self.ranges().len());
        for (q, &b) in block.iter().enumerate() {
            if b as usize == small.states() {
                for r in self.transitions(q as u32) {
                    small.add(r.lo, r.hi, block[r.to as usize]);
                }
                small.end_state(self.accept[q]);
            }
        }
        small.minimal = true;
        small
    }
}

/// A partition of states.
struct Partition {
    /// The block of each state.
    of: Vec<u32>,
    /// The states, block by block.
    order: Vec<u32>,
    /// Index of each state in `order`.
    place: Vec<u32>,
    /// Range of each block in `order`.
    bounds: Vec<(u32, u32)>,
}

impl Partition {
    /// Creates one block for all states with the same key.
    fn new(keys: &[u32]) -> Self {
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
        Partition { of, order, place, bounds }
    }

    fn members(&self, block: u32) -> &[u32] {
        let (from, to) = self.bounds[block as usize];
        &self.order[from as usize..to as usize]
    }

    /// Returns true if a state is alone in its block.
    fn is_single(&self, q: u32) -> bool {
        let (from, to) = self.bounds[self.of[q as usize] as usize];
        to - from == 1
    }

    /// Moves some states of one block, but not all, to a new block.
    fn part(&mut self, states: impl Iterator<Item = u32>) {
        let mut states = states.peekable();
        let Some(&first) = states.peek() else { return };
        let new = self.bounds.len() as u32;
        let old = self.of[first as usize] as usize;
        let end = self.bounds[old].1;
        for q in states {
            // Swaps the state to the end of the old block, which then ends before it.
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
    use ffwd_testkit::random::Random;

    /// Returns the number of different states, by comparing all of them until nothing changes.
    fn different(dfa: &CharDfa) -> usize {
        let mut class: Vec<u32> = dfa.accept.iter().map(|&a| u32::from(a)).collect();
        loop {
            let key = |q: usize| {
                let to = ['A', 'a', 'b', '\u{E000}'].map(|c| class[dfa.step(q as u32, c as u32) as usize]);
                (class[q], to)
            };
            let next: Vec<_> = (0..class.len()).map(key).collect();
            let mut keys = next.clone();
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
            let dfa = CharDfa::random(&mut random, 40);
            let small = dfa.clone().minimise().unwrap();
            assert_eq!(small.states(), different(&dfa));
            // The shortcut for minimal automata agrees with the general computation.
            assert_eq!((small.live(), small.clone().complement().live()), {
                let mut unknown = small.clone();
                unknown.minimal = false;
                assert!(unknown.minimised().is_ok_and(|same| same.is_same(&small)));
                (unknown.live(), unknown.complement().live())
            });
            for _ in 0..50 {
                let text: String =
                    (0..random.below(30)).map(|_| ['A', 'a', 'b', '\u{E000}'][random.below(4)]).collect();
                assert_eq!(small.matches(&text), dfa.matches(&text), "{text:?}");
            }
        }
    }
}
