//! Subset construction over code points: from a byte automaton to one over characters.
//!
//! Sets of byte states are found byte by byte. They lie in one list, and so do their transitions
//! and their targets by continuation bytes.
//!
//! # Cost
//!
//! Sets times their transitions, at most [`MAX_SETS`] sets. The bytes of characters beyond ASCII
//! are followed once for each set, not for each character.
//!
//! # Alternatives considered
//!
//! Separate lists for each set were rejected: that is several allocations for each of many small
//! sets.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use crate::char_lang::byte_nfa::{ByteNfa, Closure};
use crate::char_lang::char_dfa::{CharDfa, MAX_RANGES, MAX_STATES, Range, add, too_large};
use crate::error::Result;

/// Maximum number of sets of automaton states.
const MAX_SETS: usize = 40_000;

/// Id of the empty set, from which no word is accepted.
const EMPTY_SET: u32 = 0;
/// Marks values that are not known yet.
const UNKNOWN: u32 = u32::MAX;

/// Range of indices of a list.
type Span = (u32, u32);

impl CharDfa {
    /// Returns the smallest automaton of a byte language. Invalid UTF-8 in it is dropped.
    pub(crate) fn from_nfa(nfa: &ByteNfa) -> Result<CharDfa> {
        let sets = Sets {
            nfa,
            members: Vec::with_capacity(64),
            sets: Vec::with_capacity(32),
            ids: HashTable::with_capacity(28),
            single: vec![UNKNOWN; nfa.states.len()],
            targets: Vec::new(),
            several: HashTable::new(),
            steps: Vec::with_capacity(64),
            tails: Vec::new(),
            buffer: Vec::new(),
            closure: Closure::default(),
        };
        sets.run()?.minimise()
    }
}

/// Data about a set of states.
#[derive(Clone, Copy)]
struct Set {
    members: Span,
    /// Its byte transitions; missing bytes lead to the empty set.
    steps: Span,
    /// Targets of one, two and three continuation bytes, by the value of their payload bits.
    tails: [Span; 3],
    /// The state of the result.
    state: u32,
}

struct Sets<'a> {
    nfa: &'a ByteNfa,
    /// The states of all sets; those of each set are sorted.
    members: Vec<u32>,
    sets: Vec<Set>,
    ids: HashTable<u32>,
    /// For each state, the set of its epsilon closure.
    single: Vec<u32>,
    /// Lists of several states.
    targets: Vec<u32>,
    /// Spans in `targets`, and the set of the epsilon closure of each.
    several: HashTable<(Span, u32)>,
    steps: Vec<(u8, u8, u32)>,
    tails: Vec<Range>,
    buffer: Vec<Range>,
    closure: Closure,
}

fn hashed(list: &[u32]) -> u64 {
    let mut hasher = FxHasher::default();
    list.hash(&mut hasher);
    hasher.finish()
}

fn part<T>(list: &[T], (from, to): Span) -> &[T] {
    &list[from as usize..to as usize]
}

impl Sets<'_> {
    fn run(mut self) -> Result<CharDfa> {
        self.set(&[])?;
        let start = self.closed(&[self.nfa.start])?;
        self.sets[start as usize].state = 0;
        let mut states = vec![start];
        let mut dfa = CharDfa::with_capacity(16, 64);
        let mut found: Vec<Range> = Vec::new();
        while let Some(&set) = states.get(dfa.states()) {
            found.clear();
            self.transitions(set, &mut found)?;
            let members = part(&self.members, self.sets[set as usize].members);
            let accept = members.binary_search(&self.nfa.accept).is_ok();
            dfa.listed_state(accept, &found, EMPTY_SET);
            dfa.retarget_last(|set| {
                let state = &mut self.sets[set as usize].state;
                if *state == UNKNOWN {
                    *state = states.len() as u32;
                    states.push(set);
                }
                *state
            });
            if states.len() > MAX_STATES || dfa.ranges().len() > MAX_RANGES {
                return Err(too_large("states", MAX_STATES));
            }
        }
        Ok(dfa)
    }

    /// Returns the set of the epsilon closure of `from`.
    fn closed(&mut self, from: &[u32]) -> Result<u32> {
        if let [q] = *from {
            if self.single[q as usize] == UNKNOWN {
                self.single[q as usize] = self.closure_of(from)?;
            }
            return Ok(self.single[q as usize]);
        }
        let hash = hashed(from);
        if let Some(&(_, known)) = self.several.find(hash, |&(of, _)| part(&self.targets, of) == from) {
            return Ok(known);
        }
        let set = self.closure_of(from)?;
        let begin = self.targets.len() as u32;
        self.targets.extend_from_slice(from);
        let targets = &self.targets;
        self.several
            .insert_unique(hash, ((begin, targets.len() as u32), set), |&(of, _)| hashed(part(targets, of)));
        Ok(set)
    }

    fn closure_of(&mut self, from: &[u32]) -> Result<u32> {
        let mut closure = std::mem::take(&mut self.closure);
        let set = self.set(self.nfa.closure(from, &mut closure));
        self.closure = closure;
        set
    }

    fn set(&mut self, states: &[u32]) -> Result<u32> {
        let Sets { members, sets, ids, .. } = self;
        let of = |id: u32| part(members, sets[id as usize].members);
        let hash = hashed(states);
        if let Some(&id) = ids.find(hash, |&id| of(id) == states) {
            return Ok(id);
        }
        if sets.len() >= MAX_SETS {
            return Err(too_large("sets of states", MAX_SETS));
        }
        let id = sets.len() as u32;
        ids.insert_unique(hash, id, |&id| hashed(of(id)));
        let from = members.len() as u32;
        members.extend_from_slice(states);
        sets.push(Set {
            members: (from, members.len() as u32),
            steps: (UNKNOWN, 0),
            tails: [(UNKNOWN, 0); 3],
            state: UNKNOWN,
        });
        Ok(id)
    }

    /// Returns the byte transitions of a set, sorted and disjoint.
    fn steps(&mut self, set: u32) -> Result<Span> {
        let Set { members, steps: known, .. } = self.sets[set as usize];
        if known.0 != UNKNOWN {
            return Ok(known);
        }
        let mut ranges: SmallVec<[(u8, u8, u32); 32]> = SmallVec::new();
        for &q in part(&self.members, members) {
            ranges.extend_from_slice(&self.nfa.states[q as usize].ranges);
        }
        ranges.sort_unstable_by_key(|r| r.0);
        // Bytes at which a range begins or has just ended.
        let mut cuts: SmallVec<[u16; 64]> = SmallVec::new();
        cuts.extend(ranges.iter().flat_map(|&(lo, hi, _)| [u16::from(lo), u16::from(hi) + 1]));
        cuts.sort_unstable();
        cuts.dedup();
        let from = self.steps.len() as u32;
        // The ranges over the bytes between two cuts: their ends and targets.
        let (mut over, mut next) = (SmallVec::<[(u8, u32); 16]>::new(), 0);
        let mut targets: SmallVec<[u32; 16]> = SmallVec::new();
        for pair in cuts.windows(2) {
            let (lo, hi) = (pair[0] as u8, (pair[1] - 1) as u8);
            over.retain(|r| r.0 >= lo);
            while let Some(&(_, hi, to)) = ranges.get(next).filter(|r| r.0 == lo) {
                over.push((hi, to));
                next += 1;
            }
            if !over.is_empty() {
                targets.clear();
                targets.extend(over.iter().map(|r| r.1));
                let to = self.closed(&targets)?;
                self.steps.push((lo, hi, to));
            }
        }
        let steps = (from, self.steps.len() as u32);
        self.sets[set as usize].steps = steps;
        Ok(steps)
    }

    /// Finds the code points that lead from a set to sets other than the empty one, in order.
    fn transitions(&mut self, set: u32, found: &mut Vec<Range>) -> Result<()> {
        let (from, to) = self.steps(set)?;
        for i in from..to {
            let (lo, hi, to) = self.steps[i as usize];
            if lo < 0x80 && to != EMPTY_SET {
                found.push(Range { lo: lo.into(), hi: hi.min(0x7F).into(), to });
            }
            for lead in lo.max(0xC2)..=hi.min(0xF4) {
                // Overlong forms and values beyond Unicode are not text.
                let (bits, more, least) = match lead {
                    0xC2..=0xDF => (u32::from(lead & 0x1F), 1, 0x80),
                    0xE0..=0xEF => (u32::from(lead & 0x0F), 2, 0x800),
                    _ => (u32::from(lead & 0x07), 3, 0x10000),
                };
                let base = bits << (6 * more);
                let tail = self.tail(to, more)?;
                for r in part(&self.tails, tail) {
                    let (lo, hi) = ((base + r.lo).max(least), (base + r.hi).min(0x10FFFF));
                    if lo <= hi && r.to != EMPTY_SET {
                        add(found, lo, hi, r.to);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the targets of `more` continuation bytes from a set, by the value of their payload
    /// bits.
    fn tail(&mut self, set: u32, more: u32) -> Result<Span> {
        let known = self.sets[set as usize].tails[more as usize - 1];
        if known.0 != UNKNOWN {
            return Ok(known);
        }
        let steps = self.steps(set)?;
        let continues = |(lo, hi, to): (u8, u8, u32)| (lo.max(0x80), hi.min(0xBF), to);
        if more > 1 {
            // The inner tails come first, so that the ranges found here lie together.
            for i in steps.0..steps.1 {
                let (lo, hi, next) = continues(self.steps[i as usize]);
                if lo <= hi {
                    self.tail(next, more - 1)?;
                }
            }
        }
        let mut found = std::mem::take(&mut self.buffer);
        for &step in part(&self.steps, steps) {
            let (lo, hi, to) = continues(step);
            if lo > hi {
                continue;
            }
            let (first, last) = (u32::from(lo & 0x3F), u32::from(hi & 0x3F));
            if more == 1 {
                add(&mut found, first, last, to);
                continue;
            }
            let rest = part(&self.tails, self.sets[to as usize].tails[more as usize - 2]);
            for payload in first..=last {
                let base = payload << (6 * (more - 1));
                for r in rest {
                    add(&mut found, base + r.lo, base + r.hi, r.to);
                }
            }
        }
        let begin = self.tails.len() as u32;
        self.tails.append(&mut found);
        self.buffer = found;
        let tail = (begin, self.tails.len() as u32);
        self.sets[set as usize].tails[more as usize - 1] = tail;
        Ok(tail)
    }
}
