//! The smallest automaton of a language of text.
//!
//! Blocks of states are refined until nothing changes. Only states that lead into a block that was split
//! are looked at again, and the largest part of a block keeps its number (as Hopcroft 1971 does it), so
//! the long chains that counted repetitions make cost no more than short ones; comparing all states
//! in every round (Moore 1956) took a hundred rounds for some formats.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::lang::{Dfa, MAX_STATES, Range, add, too_large};
use crate::error::Result;

impl Dfa {
    /// The smallest automaton of the same language.
    ///
    /// # Errors
    /// `TooComplex` if it is above the limit.
    pub fn minimise(&self) -> Result<Dfa> {
        let states = self.rows.len();
        let back = self.incoming();
        let mut blocks = Blocks::new(states);
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
    /// All states together.
    fn new(states: usize) -> Self {
        let all: Vec<u32> = (0..states as u32).collect();
        Blocks { of: vec![0; states], order: all.clone(), place: all, bounds: vec![(0, states as u32)] }
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
