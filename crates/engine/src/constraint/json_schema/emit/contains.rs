//! Arrays with bounds on the number of items that satisfy a schema.
//!
//! The bounds come from `contains`, `minContains` and `maxContains`, and from the violations of
//! `items` and `prefixItems`.
//!
//! Such an array is an automaton over items. Its states count the items, up to the point where the
//! number stops to matter, and the items that counted for each condition. An item has one
//! alternative for each set of conditions that it counts for. With only a lower bound, an item that
//! could count need not, so no complement is needed.
//!
//! # Cost
//!
//! The number of states is the product of the counts, at most [`MAX_STATES`].
//!
//! # Alternatives considered
//!
//! Counters at run time were the alternative. They would have to follow which of two schemas an
//! item turns out to satisfy.

use super::super::read::Keyword;
use super::super::shape::ArrayPart;
use super::super::term::add_term;
use super::lowering::SchemaLowering;
use super::plan::{ConjunctionId, Plan};
use crate::constraint::ir::{AutomatonState, Edges, NodeId};
use crate::error::Result;

/// Maximum number of states of one array.
const MAX_STATES: usize = 4_096;
/// Maximum number of conditions on one array: with N of them, each item has up to 2^N alternatives.
const MAX_CONDITIONS: usize = 4;

/// An alternative for an item: the conditions for which it counts (a bit each) and its conjunction.
type Way = (u32, ConjunctionId);

impl SchemaLowering<'_> {
    /// Returns the alternatives of the items of an array with conditions, for each index up to the
    /// first from which all are the same.
    pub(super) fn contains_ways(&mut self, part: &ArrayPart) -> Result<Vec<Vec<Way>>> {
        if part.contains.is_empty() {
            return Ok(Vec::new());
        }
        if part.contains.len() > MAX_CONDITIONS {
            let at = part.contains[MAX_CONDITIONS].at;
            return Err(self.normalizer.context.unsupported(Keyword::Contains, at));
        }
        let mut positions = Vec::new();
        for at in 0..=part.uniform_from() {
            let mut ways = Vec::new();
            for counted in 0..1u32 << part.contains.len() {
                let mut terms = part.item(at).clone();
                let mut possible = true;
                for (i, condition) in part.contains.iter().enumerate() {
                    if counted >> i & 1 == 1 {
                        possible &= at >= condition.from as usize;
                        add_term(&mut terms, condition.counts);
                    } else if condition.max.is_some() && at >= condition.from as usize {
                        add_term(&mut terms, condition.fails);
                    }
                }
                if possible {
                    ways.push((counted, self.conjunction(&terms)?));
                }
            }
            positions.push(ways);
        }
        Ok(positions)
    }

    /// Builds the node of an array with conditions.
    pub(super) fn containing(&mut self, plan: &Plan) -> Result<NodeId> {
        let part = &plan.shape.array;
        let conditions = &part.contains;
        // The number of items matters up to here; it always matters whether there is an item.
        let items = plan.contains.len().saturating_sub(1).max(part.min as usize).max(1);
        let items = part.max.map_or(items, |max| items.max(max as usize));
        let caps: Vec<usize> = conditions.iter().map(|c| c.max.unwrap_or(c.min) as usize).collect();
        let size = caps.iter().try_fold(items + 1, |n, cap| n.checked_mul(cap + 1));
        if size.is_none_or(|n| n > MAX_STATES) {
            return Err(self.normalizer.context.unsupported(Keyword::Contains, conditions[0].at));
        }
        let mut nodes =
            |ways: &Vec<Way>| ways.iter().map(|&(counted, id)| (counted, self.node(id))).collect();
        let ways: Vec<Vec<(u32, NodeId)>> = plan.contains.iter().map(&mut nodes).collect();
        let counts = ContainsCounts { items, caps: &caps };
        let mut states = Vec::new();
        for state in 0..counts.len() {
            let (n, counted) = counts.of(state);
            let enough = conditions.iter().zip(&counted).all(|(c, &k)| k >= c.min as usize);
            let accept = n >= part.min as usize && enough;
            let mut edges = Edges::new();
            if part.max.is_none_or(|max| n < max as usize) {
                let mut taken: Vec<(u32, u32)> = Vec::new();
                for &(mask, node) in &ways[n.min(ways.len() - 1)] {
                    // An alternative that counts for more without effect is covered by the one that
                    // does not count for it.
                    let covered =
                        |to| taken.iter().any(|&(other, there)| other & mask == other && there == to);
                    let to = counts.after(state, mask, |i| conditions[i].max.is_some());
                    if let Some(to) = to.filter(|&to| !self.nodes.is_never(node) && !covered(to)) {
                        edges.push((self.nodes.item_node(node, n > 0), to));
                        taken.push((mask, to));
                    }
                }
            }
            states.push(AutomatonState { accept, edges });
        }
        Ok(if reaches_acceptance(&states) { self.nodes.bracketed(states) } else { self.nodes.never })
    }
}

/// States of an array: the number of items, at most `items`, and the counts of the conditions.
struct ContainsCounts<'a> {
    items: usize,
    caps: &'a [usize],
}

impl ContainsCounts<'_> {
    fn len(&self) -> usize {
        (self.items + 1) * self.caps.iter().map(|cap| cap + 1).product::<usize>()
    }

    /// Returns the counts of a state.
    fn of(&self, state: usize) -> (usize, Vec<usize>) {
        let (n, mut rest) = (state % (self.items + 1), state / (self.items + 1));
        let counted = self.caps.iter().map(|cap| {
            let count = rest % (cap + 1);
            rest /= cap + 1;
            count
        });
        (n, counted.collect())
    }

    /// Returns the state after an item that counts for the conditions of `mask`. `None` if one of
    /// them has an upper bound and has reached it.
    fn after(&self, state: usize, mask: u32, bounded: impl Fn(usize) -> bool) -> Option<u32> {
        let (n, counted) = self.of(state);
        let mut to = (n + 1).min(self.items);
        let mut unit = self.items + 1;
        for (i, (&cap, count)) in self.caps.iter().zip(counted).enumerate() {
            let more = count + (mask >> i & 1) as usize;
            if more > cap && bounded(i) {
                return None;
            }
            to += more.min(cap) * unit;
            unit *= cap + 1;
        }
        Some(to as u32)
    }
}

fn reaches_acceptance(states: &[AutomatonState]) -> bool {
    let mut seen = vec![false; states.len()];
    let mut todo = vec![0usize];
    while let Some(state) = todo.pop() {
        if std::mem::replace(&mut seen[state], true) {
            continue;
        }
        if states[state].accept {
            return true;
        }
        todo.extend(states[state].edges.iter().map(|e| e.1 as usize));
    }
    false
}
