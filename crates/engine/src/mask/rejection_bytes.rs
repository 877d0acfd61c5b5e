//! Necessary conditions on the bytes of a string for the automaton to reject it from a state.
//!
//! A search for `customer` rejects only strings with all of its letters. A text without a word left
//! rejects only strings with a blank. So most subtrees of the trie need no walk: the bytes below a
//! node decide.
//!
//! Conditions are propagated backwards over the states of a slice search. Each is a pair: all of
//! these bytes, and one of those. Where a condition is not known exactly, it is weakened, so it
//! holds for more strings.
//!
//! # Cost
//!
//! At most [`STEPS`] steps for each edge.
//!
//! # Alternatives considered
//!
//! The distance to the next rejecting state alone: it is 0 wherever a single byte is rejected.

use smallvec::{SmallVec, smallvec};

use crate::incoming::Incoming;
use crate::vocab::ByteGroups;

/// Maximum number of steps for each edge. Beyond it, any string may be rejected.
const STEPS: usize = 16;

/// A condition that a class of rejected strings meets.
#[derive(Debug, Clone, Copy)]
pub(super) struct RejectCondition {
    /// The string holds all of these bytes.
    pub all: ByteGroups,
    /// The string holds at least one of these bytes.
    pub any: ByteGroups,
    /// True if the condition was propagated to the predecessors.
    propagated: bool,
}

/// The conditions of a state: each rejected string meets at least one. Empty if the state rejects
/// none.
#[derive(Debug, Clone, Default)]
pub(super) struct RejectConditions(SmallVec<[RejectCondition; RejectConditions::MAX_CONDITIONS + 1]>);

impl RejectConditions {
    /// Maximum number of separate conditions.
    const MAX_CONDITIONS: usize = 8;

    /// Returns the condition that any string may meet.
    pub(super) fn unknown() -> Self {
        RejectConditions(smallvec![RejectCondition { all: 0, any: ByteGroups::MAX, propagated: false }])
    }

    /// Returns the condition that each byte of the set is rejected; the set is not empty.
    pub(super) fn of(any: ByteGroups) -> Self {
        RejectConditions(smallvec![RejectCondition { all: 0, any, propagated: false }])
    }

    /// Returns the conditions, for [`may_reject`].
    #[inline]
    pub(super) fn as_slice(&self) -> &[RejectCondition] {
        &self.0
    }

    /// Adds the conditions of another state.
    pub(super) fn join(&mut self, other: &RejectConditions) {
        other.0.iter().for_each(|&way| {
            self.add(way);
        });
    }

    /// Adds a condition. Returns false if a known one includes it.
    fn add(&mut self, way: RejectCondition) -> bool {
        let includes = |a: &RejectCondition, b: &RejectCondition| a.all & !b.all == 0 && b.any & !a.any == 0;
        if self.0.iter().any(|known| includes(known, &way)) {
            return false;
        }
        self.0.retain(|known| !includes(&way, known));
        self.0.push(way);
        while self.0.len() > Self::MAX_CONDITIONS {
            self.merge();
        }
        true
    }

    /// Merges the two conditions that have most required bytes in common.
    fn merge(&mut self) {
        let pairs = (1..self.0.len()).flat_map(|b| (0..b).map(move |a| (a, b)));
        let common = |&(a, b): &(usize, usize)| (self.0[a].all & self.0[b].all).count_ones();
        if let Some((a, b)) = pairs.max_by_key(common) {
            let (b, a) = (self.0.remove(b), self.0.remove(a));
            self.add(RejectCondition { all: a.all & b.all, any: a.any | b.any, propagated: false });
        }
    }
}

/// Returns the bytes that may be rejected at once.
pub(super) fn rejecting_bytes(ways: &[RejectCondition]) -> ByteGroups {
    ways.iter().filter(|way| way.all & !way.any == 0).fold(0, |set, way| set | way.any)
}

/// Returns true if a string of these bytes may meet one of the conditions.
#[inline]
pub(super) fn may_reject(ways: &[RejectCondition], bytes: ByteGroups) -> bool {
    ways.iter().any(|way| way.all & !bytes == 0 && way.any & bytes != 0)
}

/// An edge into a state: its source, and its byte if there is only one.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InEdge {
    pub from: u32,
    pub byte: ByteGroups,
    /// True if a character ends on it.
    pub ends: bool,
}

impl InEdge {
    /// Returns the source, and the number of characters that end on the edge.
    pub(super) fn source(&self) -> (usize, u32) {
        (self.from as usize, u32::from(self.ends))
    }
}

/// Propagates the conditions of all states backwards, from those that reject the next byte.
pub(super) fn propagate(
    mut conditions: Vec<RejectConditions>,
    into: &Incoming<InEdge>,
) -> Vec<RejectConditions> {
    let mut waiting: Vec<bool> = conditions.iter().map(|d| !d.0.is_empty()).collect();
    let mut todo: std::collections::VecDeque<usize> = (0..conditions.len()).filter(|&n| waiting[n]).collect();
    let mut steps = into.len() * STEPS;
    while let Some(n) = todo.pop_front() {
        waiting[n] = false;
        let mut ways: SmallVec<[RejectCondition; 8]> = SmallVec::new();
        for way in conditions[n].0.iter_mut().filter(|way| !way.propagated) {
            ways.push(*way);
            way.propagated = true;
        }
        for &InEdge { from, byte, .. } in into.of(n) {
            let Some(left) = steps.checked_sub(1) else {
                conditions.fill(RejectConditions::unknown());
                return conditions;
            };
            steps = left;
            let from = from as usize;
            let mut changed = false;
            for way in &ways {
                changed |= conditions[from].add(RejectCondition { all: way.all | byte, ..*way });
            }
            if changed && !std::mem::replace(&mut waiting[from], true) {
                todo.push_back(from);
            }
        }
    }
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    /// Searches for a string over the bytes that a state rejects.
    fn killable(
        n: usize,
        kills: &[ByteGroups],
        edges: &[(usize, usize, ByteGroups)],
        bytes: ByteGroups,
    ) -> bool {
        let mut seen = vec![false; kills.len()];
        let mut todo = vec![n];
        while let Some(n) = todo.pop() {
            if kills[n] & bytes != 0 {
                return true;
            }
            for &(from, to, on) in edges {
                if from == n && on & bytes != 0 && !std::mem::replace(&mut seen[to], true) {
                    todo.push(to);
                }
            }
        }
        false
    }

    #[test]
    fn nothing_that_kills_is_missed() {
        let mut random = Random::new(5);
        let (mut spared, mut deaths) = (0, 0);
        for _ in 0..300 {
            let n = 2 + random.below(12);
            let mut set = |most: usize| (0..1 + random.below(most)).fold(0, |s, _| s | 1 << random.below(8));
            let kills: Vec<ByteGroups> = (0..n).map(|i| if i == 0 { set(2) } else { 0 }).collect();
            let sets: Vec<ByteGroups> = (0..3 * n).map(|_| set(2)).collect();
            let edges: Vec<(usize, usize, ByteGroups)> =
                sets.into_iter().map(|on| (random.below(n), random.below(n), on)).collect();
            let into = Incoming::new(n, |edge| {
                for &(from, to, on) in &edges {
                    let byte = if on.count_ones() == 1 { on } else { 0 };
                    edge(to, InEdge { from: from as u32, byte, ends: true });
                }
            });
            let start = kills
                .iter()
                .map(|&k| if k == 0 { RejectConditions::default() } else { RejectConditions::of(k) });
            let conditions = propagate(start.collect(), &into);
            for (state, ways) in conditions.iter().enumerate() {
                for bytes in 0..256 {
                    let dies = killable(state, &kills, &edges, bytes);
                    assert!(!dies || may_reject(ways.as_slice(), bytes));
                    deaths += usize::from(dies);
                    spared += usize::from(!may_reject(ways.as_slice(), bytes));
                }
            }
        }
        assert!(deaths > 10_000 && spared > 10_000, "{deaths} {spared}");
    }
}
