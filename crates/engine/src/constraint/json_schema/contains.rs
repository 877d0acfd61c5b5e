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

use super::conjunctions::{ConjunctionId, Plan, SchemaLowering};
use super::keywords::Keyword;
use super::normalize::Normalizer;
use super::shape::{ArrayPart, Terms, add_term, lower_max};
use crate::constraint::ir::{AutomatonState, Edges, NodeId};
use crate::error::Result;

/// Maximum number of states of one array.
const MAX_STATES: usize = 4_096;
/// Maximum number of conditions on one array: with N of them, each item has up to 2^N alternatives.
const MAX_CONDITIONS: usize = 4;

/// An alternative for an item: the conditions for which it counts (a bit each) and its conjunction.
type Way = (u32, ConjunctionId);

impl ArrayPart {
    /// Returns the first index from which all items have the same terms.
    fn uniform_from(&self) -> usize {
        let from = self.contains.iter().map(|c| c.from as usize).max().unwrap_or(0);
        self.prefix.len().max(from)
    }

    /// Returns the terms of the item at an index.
    fn item(&self, at: usize) -> &Terms {
        self.prefix.get(at).unwrap_or(&self.rest)
    }
}

impl Normalizer<'_> {
    /// Returns true if no item can count for a condition that requires one; `false` if that cannot
    /// be decided.
    pub fn contains_nothing(&mut self, part: &ArrayPart) -> Result<bool> {
        for condition in part.contains.iter().filter(|c| c.min > 0) {
            let mut possible = false;
            for at in condition.from as usize..=part.uniform_from() {
                let mut terms = part.item(at).clone();
                add_term(&mut terms, condition.counts);
                possible |= part.max.is_none_or(|m| at < m as usize) && !self.value_empty(&terms)?;
            }
            if !possible {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Drops conditions for which every item counts, or none does: they bound the number of items,
    /// or assert nothing. Lists of different texts that must differ from each other are of this
    /// kind.
    pub fn drop_trivial_conditions(&mut self, part: &mut ArrayPart) -> Result<()> {
        let mut kept = Vec::new();
        for condition in std::mem::take(&mut part.contains) {
            let (mut all, mut none) = (true, condition.min == 0);
            for at in condition.from as usize..=part.uniform_from().max(condition.from as usize) {
                if part.max.is_some_and(|max| at >= max as usize) {
                    break;
                }
                for (holds, term) in [(&mut all, condition.fails), (&mut none, condition.counts)] {
                    let mut terms = part.item(at).clone();
                    add_term(&mut terms, term);
                    *holds = *holds && self.value_empty(&terms)?;
                }
            }
            if all {
                let least = if condition.min > 0 { condition.from.saturating_add(condition.min) } else { 0 };
                part.min = part.min.max(least);
                if let Some(max) = condition.max {
                    lower_max(&mut part.max, condition.from.saturating_add(max));
                }
            } else if !none {
                kept.push(condition);
            }
        }
        part.contains = kept;
        Ok(())
    }
}

impl SchemaLowering<'_> {
    /// Returns the alternatives of the items of an array with conditions, for each index up to the
    /// first from which all are alike.
    pub fn contains_ways(&mut self, part: &ArrayPart) -> Result<Vec<Vec<Way>>> {
        if part.contains.is_empty() {
            return Ok(Vec::new());
        }
        if part.contains.len() > MAX_CONDITIONS {
            return Err(self
                .normalizer
                .context
                .unsupported(Keyword::Contains, part.contains[MAX_CONDITIONS].at));
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
    pub fn containing(&mut self, plan: &Plan) -> Result<NodeId> {
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
        let ways: Vec<Vec<(u32, NodeId)>> = plan
            .contains
            .iter()
            .map(|ways| ways.iter().map(|&(counted, goal)| (counted, self.node(goal))).collect())
            .collect();
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
                    let Some(to) = counts.after(state, mask, |i| conditions[i].max.is_some()) else {
                        continue;
                    };
                    // An alternative that counts for more without effect is covered by the one that
                    // does not count for it.
                    let covered = |&(other, there): &(u32, u32)| other & mask == other && there == to;
                    if !self.nodes.is_never(node) && !taken.iter().any(covered) {
                        edges.push((self.nodes.item_node(&self.normalizer.context, node, n > 0), to));
                        taken.push((mask, to));
                    }
                }
            }
            states.push(AutomatonState { accept, edges });
        }
        if !reaches_acceptance(&states) {
            return Ok(self.nodes.never);
        }
        Ok(self.nodes.bracketed(&self.normalizer.context, states))
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
