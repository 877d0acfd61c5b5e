//! Graphs by their incoming edges, and paths to some nodes whose edges have length 0 or 1.
//!
//! # Cost
//!
//! Two passes over the edges (a counting sort), and one for each kind of path.
//!
//! # Alternatives considered
//!
//! A list for each node: it needs an allocation for each.

use std::collections::VecDeque;

/// The edges into each node, in one array.
pub(crate) struct Incoming<T> {
    /// The edges into node n are `edges[first[n]..first[n + 1]]`.
    first: Vec<u32>,
    edges: Vec<T>,
}

impl<T: Copy + Default> Incoming<T> {
    /// Makes the array. `each` calls its argument with the target and the edge, for all edges and
    /// always in the same order.
    pub(crate) fn new(nodes: usize, each: impl Fn(&mut dyn FnMut(usize, T))) -> Self {
        let mut first = vec![0u32; nodes + 1];
        each(&mut |to, _| first[to + 1] += 1);
        for n in 0..nodes {
            first[n + 1] += first[n];
        }
        let mut next = first.clone();
        let mut edges = vec![T::default(); first[nodes] as usize];
        each(&mut |to, edge| {
            edges[next[to] as usize] = edge;
            next[to] += 1;
        });
        Incoming { first, edges }
    }

    /// Returns the edges into a node, in the order in which they were given.
    #[inline]
    pub(crate) fn of(&self, to: usize) -> &[T] {
        &self.edges[self.first[to] as usize..self.first[to + 1] as usize]
    }

    /// Returns the number of edges.
    pub(crate) fn len(&self) -> usize {
        self.edges.len()
    }

    /// Returns, for each node, the length of the shortest path to the nearest of `ends`, or
    /// [`u32::MAX`] (0-1 breadth-first search). `source` gives the source and length of an edge.
    pub(crate) fn shortest(
        &self,
        ends: impl Iterator<Item = usize>,
        source: impl Fn(&T) -> (usize, u32),
    ) -> Vec<u32> {
        let mut lengths = vec![u32::MAX; self.first.len() - 1];
        let mut todo: VecDeque<(usize, u32)> = ends.map(|n| (n, 0)).collect();
        todo.iter().for_each(|&(n, _)| lengths[n] = 0);
        while let Some((n, length)) = todo.pop_front() {
            if lengths[n] < length {
                continue;
            }
            for (from, more) in self.of(n).iter().map(&source) {
                let longer = length.saturating_add(more);
                if longer < lengths[from] {
                    lengths[from] = longer;
                    if more == 0 { todo.push_front((from, longer)) } else { todo.push_back((from, longer)) }
                }
            }
        }
        lengths
    }

    /// Returns, for each node, the length of the longest path from it; [`u32::MAX`] where there is a
    /// cycle, or a node without an entry in `open`. That is the number of edges out of a node.
    pub(crate) fn longest(&self, mut open: Vec<u32>, source: impl Fn(&T) -> (usize, u32)) -> Vec<u32> {
        let nodes = self.first.len() - 1;
        let (mut longest, mut so_far) = (vec![u32::MAX; nodes], vec![0u32; nodes]);
        let mut ready: Vec<usize> = (0..open.len()).filter(|&n| open[n] == 0).collect();
        while let Some(n) = ready.pop() {
            longest[n] = so_far[n];
            for (from, more) in self.of(n).iter().map(&source) {
                so_far[from] = so_far[from].max(longest[n].saturating_add(more));
                open[from] -= 1;
                if open[from] == 0 {
                    ready.push(from);
                }
            }
        }
        longest
    }
}
