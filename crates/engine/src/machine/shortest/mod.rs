//! Search for the shortest text to the end of the output.
//!
//! It is A* (Hart, Nilsson, Raphael 1968) over configurations, guided by [`lower_bound`]. Where the
//! bound is exact, which is usual, the search visits only configurations on the path. If it does
//! not finish within [`MAX_EXACT`] configurations, it continues greedily. Every configuration has a
//! path to its end, so one is found, though perhaps not the shortest.
//!
//! # Cost
//!
//! A few steps for each byte where the bound is exact, whatever else the constraint allows.
//!
//! # Alternatives considered
//!
//! Breadth-first search over bytes: it finds nothing for many real schemas. Their shortest
//! documents have hundreds of bytes and thousands of choices.

pub(super) mod lower_bound;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::configuration::{ConfigId, DEAD_CONFIG, Machine};
use crate::machine::shortest::lower_bound::{LowerBounds, StackBounds};

/// Maximum number of configurations visited for the shortest text, in addition to one for each byte
/// that is missing at least. Configurations without a choice are not counted.
const MAX_EXACT: usize = 2_000;
/// The same for any text.
const MAX_ANY: usize = 5_000;
/// Maximum number of configurations that a search keeps, and so of bytes in its result.
const MAX_NODES: usize = 1 << 18;

/// A configuration on the path.
struct PathNode {
    config: ConfigId,
    /// The node before it.
    from: u32,
    /// The byte between them.
    byte: u8,
    /// Number of bytes from the start.
    depth: u32,
}

/// One search.
struct Search<'a> {
    machine: &'a mut Machine,
    least: &'a LowerBounds,
    below: StackBounds,
    nodes: Vec<PathNode>,
    /// The least depth at which a configuration was met.
    met: FxHashMap<ConfigId, u32>,
    /// Nodes to visit, the best first: by their order, of equals the deepest.
    open: BinaryHeap<Reverse<(u32, u32, u32)>>,
    greedy: bool,
    most: u32,
}

/// Returns bytes that lead from `config` to where the output may end: the fewest, unless the search
/// for them takes too long. Returns `None` if all texts are longer than `most`, or if none was found
/// within the limits above.
pub(crate) fn shortest_text(machine: &mut Machine, config: ConfigId, most: usize) -> Option<Vec<u8>> {
    let least = machine.lower_bounds();
    let most = u32::try_from(most).unwrap_or(u32::MAX);
    for (greedy, budget) in [(false, MAX_EXACT), (true, MAX_ANY)] {
        let mut search = Search {
            machine,
            least: &least,
            below: StackBounds::default(),
            nodes: Vec::new(),
            met: FxHashMap::default(),
            open: BinaryHeap::new(),
            greedy,
            most,
        };
        let missing = search.missing(config) as usize;
        search.add_within(PathNode { config, from: 0, byte: 0, depth: 0 }, u32::MAX);
        if missing > MAX_NODES {
            return None;
        }
        match search.run(budget + missing) {
            SearchOutcome::Found(node) => return Some(search.way(node)),
            SearchOutcome::TooFar => return None,
            SearchOutcome::OutOfBudget => {}
        }
    }
    None
}

enum SearchOutcome {
    Found(u32),
    TooFar,
    OutOfBudget,
}

impl Search<'_> {
    fn run(&mut self, budget: usize) -> SearchOutcome {
        let mut left = budget;
        while let Some(Reverse((first, _, at))) = self.open.pop() {
            let PathNode { config, depth, .. } = self.nodes[at as usize];
            if self.machine.is_accepting(config) {
                return SearchOutcome::Found(at);
            }
            // Every open node was met.
            if self.met[&config] < depth {
                continue;
            }
            let before = self.nodes.len();
            let later = self.expand(at, first);
            if later != u32::MAX {
                self.open.push(Reverse((later, u32::MAX - depth, at)));
            }
            if self.nodes.len() != before + 1 {
                left -= 1;
            }
            if left == 0 || self.nodes.len() > MAX_NODES {
                return SearchOutcome::OutOfBudget;
            }
        }
        SearchOutcome::TooFar
    }

    /// Adds the successors of a node that order before or with `first`. Returns the order of the
    /// best of the others, or [`u32::MAX`]. Most successors are detours that are never visited
    /// (partial expansion: Yoshizumi, Miura, Ishida 2000).
    fn expand(&mut self, at: u32, first: u32) -> u32 {
        let PathNode { config, depth, .. } = self.nodes[at as usize];
        let (before, mut later) = (self.nodes.len(), u32::MAX);
        for all in [false, true] {
            let mut bytes = representative_bytes(self.machine, config, all);
            if self.greedy && !bytes.is_empty() {
                // Starts with a different one each time, so that several texts soon differ from
                // each other.
                let first = before % bytes.len();
                bytes.rotate_left(first);
            }
            for byte in bytes {
                let next = self.machine.step_bytes(config, &[byte]);
                if next != DEAD_CONFIG {
                    later = later.min(
                        self.add_within(PathNode { config: next, from: at, byte, depth: depth + 1 }, first),
                    );
                }
            }
            // Only where texts must be new do bytes of one range differ.
            let found = self.nodes.len() > before || later != u32::MAX;
            if found || !(self.machine.tracks_names() || self.machine.has_unique_items()) {
                break;
            }
        }
        later
    }

    /// Adds a node if it orders before or with `first`; returns its order if it does not.
    fn add_within(&mut self, node: PathNode, first: u32) -> u32 {
        if self.met.get(&node.config).is_some_and(|&known| known <= node.depth) {
            return u32::MAX;
        }
        let missing = self.missing(node.config);
        let whole = node.depth.saturating_add(missing);
        if whole > self.most {
            return u32::MAX;
        }
        let order = if self.greedy { missing } else { whole };
        if order > first {
            return order;
        }
        self.met.insert(node.config, node.depth);
        // Of equals the deepest, also in the greedy search: a text that is not new yet continues.
        self.open.push(Reverse((order, u32::MAX - node.depth, self.nodes.len() as u32)));
        self.nodes.push(node);
        u32::MAX
    }

    /// Returns a lower bound of the bytes that are missing after a configuration.
    fn missing(&mut self, config: ConfigId) -> u32 {
        if self.machine.is_accepting(config) {
            return 0;
        }
        let threads = self.machine.threads(config);
        self.below.of_threads(self.least, &self.machine.core, &threads)
    }

    /// Returns the bytes that lead to a node.
    fn way(&self, mut at: u32) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.nodes[at as usize].depth as usize);
        while at != 0 {
            let node = &self.nodes[at as usize];
            bytes.push(node.byte);
            at = node.from;
        }
        bytes.reverse();
        bytes
    }
}

/// Returns one byte of each range that the threads of a configuration distinguish, the most
/// readable one. Where texts must be new, also returns all letters and digits. With `all`,
/// returns all bytes.
fn representative_bytes(machine: &mut Machine, config: ConfigId, all: bool) -> Vec<u8> {
    // The starts of ranges, and the bytes inside one.
    let (mut begins, mut live) = ([false; 257], [false; 256]);
    let mut new = machine.has_unique_items();
    let threads = machine.threads(config);
    let automaton = &mut machine.core.local.automaton;
    for thread in threads.iter() {
        new |= automaton.is_unique_name(thread.local);
        for (lo, hi, _) in automaton.ranges(thread.local.state) {
            begins[lo as usize] = true;
            begins[hi as usize + 1] = true;
            live[lo as usize..=hi as usize].fill(true);
        }
    }
    let mut bytes = Vec::new();
    let mut from = 0;
    while from < 256 {
        let to = (from + 1..=256).find(|&b| b == 256 || begins[b]).unwrap_or(256);
        if live[from] {
            let range = from as u8..=(to - 1) as u8;
            if all {
                bytes.extend(range);
            } else {
                let best = plain(range.clone());
                bytes.push(best);
                bytes.extend(range.filter(|&b| new && b != best && b.is_ascii_alphanumeric()));
            }
        }
        from = to;
    }
    bytes
}

/// Returns the most readable byte of a range.
fn plain(range: std::ops::RangeInclusive<u8>) -> u8 {
    let first = |of: std::ops::RangeInclusive<u8>| range.clone().find(|b| of.contains(b));
    first(b'a'..=b'z').or(first(b'0'..=b'9')).or(first(b'A'..=b'Z')).unwrap_or(*range.start())
}
