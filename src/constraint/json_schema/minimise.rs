//! The smallest automaton of a language of text.
//!
//! Blocks of states are refined until nothing changes. Only states that lead into a block that was split
//! are looked at again, and the largest part of a block keeps its number (as Hopcroft 1971 does it), so
//! the long chains that counted repetitions make cost no more than short ones; comparing all states
//! in every round (Moore 1956) took a hundred rounds for some formats.

use rustc_hash::FxHashMap;

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
        let Blocks { of: mut block, members, .. } = blocks;
        let count = members.len();
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
        let members = &blocks.members[block as usize];
        if members.len() == 1 {
            return;
        }
        let signature = |q: u32| {
            let row = &self.rows[q as usize];
            let mut signature = Vec::with_capacity(row.len());
            for r in row {
                add(&mut signature, r.lo, r.hi, before[r.to as usize]);
            }
            (self.accept[q as usize], signature)
        };
        let mut ids: FxHashMap<(bool, Vec<Range>), usize> = FxHashMap::default();
        let mut groups: Vec<Vec<u32>> = Vec::new();
        // The clean states stay, and who is like them.
        let clean = (members.len() > dirty.len())
            .then(|| members.iter().copied().find(|&q| !is_dirty[q as usize]))
            .flatten();
        if let Some(q) = clean {
            ids.insert(signature(q), 0);
            groups.push(Vec::new());
        }
        for &q in dirty {
            let fresh = groups.len();
            let group = *ids.entry(signature(q)).or_insert(fresh);
            if group == fresh {
                groups.push(Vec::new());
            }
            groups[group].push(q);
        }
        let stays = match clean {
            Some(_) => 0,
            None => (0..groups.len()).max_by_key(|&g| groups[g].len()).unwrap_or(0),
        };
        groups.swap_remove(stays);
        for group in groups {
            moved.extend(&group);
            blocks.part(group);
        }
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
    members: Vec<Vec<u32>>,
    /// Where each state stands in its block.
    place: Vec<u32>,
}

impl Blocks {
    /// All states together.
    fn new(states: usize) -> Self {
        let all: Vec<u32> = (0..states as u32).collect();
        Blocks { of: vec![0; states], members: vec![all.clone()], place: all }
    }

    /// Makes some states of one block a block of their own.
    fn part(&mut self, states: Vec<u32>) {
        let new = self.members.len() as u32;
        for (i, &q) in states.iter().enumerate() {
            let (old, place) = (self.of[q as usize] as usize, self.place[q as usize] as usize);
            self.members[old].swap_remove(place);
            if let Some(&other) = self.members[old].get(place) {
                self.place[other as usize] = place as u32;
            }
            self.of[q as usize] = new;
            self.place[q as usize] = i as u32;
        }
        self.members.push(states);
    }
}
