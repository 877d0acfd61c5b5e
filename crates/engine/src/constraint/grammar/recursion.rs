//! Replaces left recursion in rule graphs by loops.
//!
//! Rules that can begin with each other form a group. No rule matches the empty text here, see
//! [`analysis`](super::analysis). So each text of a group begins, in the end, with a part that is
//! *not* of the group: a base. After the base some rule `d` of the group continues until it is
//! complete. Then some rule that begins with `d` continues after it, and so on upwards.
//!
//! So all graphs of the group become one. It has a common start with the bases. Each edge of a rule
//! `e` that begins with a call of `d` becomes an empty edge from the end of `d` to the target of
//! that edge. Each rule of the group is this graph with its own end.
//!
//! This is the left-corner transformation (Rosenkrantz and Lewis 1970) on automata:
//! `e: e "+" n | n` becomes a loop without recursion.
//!
//! A call of the rule itself at the very end of its graph becomes an empty edge to the start,
//! because both then lead to the same end. So `e: e "+" e | n` is a loop, too, and has only one
//! reading.
//!
//! # Cost
//! Linear for a group of one rule. A group of n rules is copied for each of its rules that is
//! called.
//!
//! # Alternatives considered
//! Paull's substitution was rejected: it is exponential in the number of rules that begin with each
//! other, and it needs the alternatives written out.

use super::analysis::TrimmedRules;
use super::graph::{Label, MAX_EDGES, RuleGraph, too_large};
use super::rules::{Grammar, RuleIx};
use crate::error::Result;

/// Returns the rules that the start rule needs, without left recursion.
///
/// # Errors
/// Returns `TooComplex` if the copies of a group are too large.
pub(super) fn without_left_recursion(
    grammar: &Grammar,
    rules: &TrimmedRules,
) -> Result<Vec<Option<RuleGraph>>> {
    let begins: Vec<Vec<u32>> =
        rules.graphs.iter().map(|g| g.as_ref().map_or(Vec::new(), first_calls)).collect();
    let (group_of, groups) = components(&begins);
    let mut result: Vec<Option<RuleGraph>> = vec![None; rules.graphs.len()];
    let mut joined: Vec<Option<(RuleGraph, Vec<u32>)>> = vec![None; groups.len()];
    let mut total = 0;
    let mut todo: Vec<RuleIx> = grammar.ignored.iter().copied().chain([grammar.start]).collect();
    while let Some(rule) = todo.pop() {
        let at = rule as usize;
        let (Some(graph), None) = (&rules.graphs[at], &result[at]) else { continue };
        let group = &groups[group_of[at] as usize];
        let mut graph = if group.len() == 1 && !begins[at].contains(&rule) {
            graph.clone()
        } else {
            let slot = &mut joined[group_of[at] as usize];
            let (graph, ends) = slot.get_or_insert_with(|| join(group, &rules.graphs, &group_of));
            // The group contains the rule.
            let place = group.iter().position(|&r| r == rule).unwrap_or(0);
            RuleGraph { end: ends[place], ..graph.clone() }
        };
        loop_tail_calls(&mut graph, rule);
        graph.trim(|_| true);
        total += graph.len();
        if total > MAX_EDGES {
            let known = &grammar.rules[at];
            return Err(too_large(grammar, known.span, &known.name));
        }
        todo.extend(calls(&graph));
        result[at] = Some(graph);
    }
    Ok(result)
}

/// Returns the rules called anywhere in a graph.
pub(super) fn calls(graph: &RuleGraph) -> impl Iterator<Item = RuleIx> + '_ {
    graph.edges.iter().flatten().filter_map(|e| match e.0 {
        Label::Rule(rule) => Some(rule),
        _ => None,
    })
}

/// Returns the rules with which a graph can begin; its start has no empty edges.
fn first_calls(graph: &RuleGraph) -> Vec<RuleIx> {
    let first = graph.edges[graph.start as usize].iter();
    let mut calls: Vec<RuleIx> =
        first.filter_map(|e| if let Label::Rule(r) = e.0 { Some(r) } else { None }).collect();
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// Joins the graphs of a group to one, and returns it with the end of each rule.
fn join(group: &[RuleIx], graphs: &[Option<RuleGraph>], group_of: &[u32]) -> (RuleGraph, Vec<u32>) {
    let mut joined = RuleGraph::new();
    let (start, mut ends, mut first) = (joined.start, Vec::new(), Vec::new());
    for graph in group.iter().map(|&r| graphs[r as usize].as_ref()) {
        first.push(joined.edges.len() as u32);
        ends.push(graph.map_or(0, |g| g.end + first[first.len() - 1]));
        let moved = |&(label, to): &(Label, u32)| (label, to + first[first.len() - 1]);
        let lists = graph.into_iter().flat_map(|g| &g.edges).map(|list| list.iter().map(moved).collect());
        joined.edges.extend(lists);
    }
    for (place, graph) in group.iter().map(|&r| graphs[r as usize].as_ref()).enumerate() {
        let begin = graph.into_iter().flat_map(|g| &g.edges[g.start as usize]);
        for &(label, to) in begin {
            let to = to + first[place];
            match label {
                Label::Rule(left) if group_of[left as usize] == group_of[group[0] as usize] => {
                    // The group contains every rule with that group number, in order.
                    let left = group.binary_search(&left).unwrap_or(0);
                    joined.edge(ends[left], Label::Empty, to);
                }
                _ => joined.edge(start, label, to),
            }
        }
    }
    (joined, ends)
}

/// Turns calls of the rule itself that lead to its end into edges back to its start.
fn loop_tail_calls(graph: &mut RuleGraph, rule: RuleIx) {
    let (start, end) = (graph.start, graph.end);
    for edge in graph.edges.iter_mut().flatten() {
        if *edge == (Label::Rule(rule), end) {
            *edge = (Label::Empty, start);
        }
    }
}

/// Returns the strongly connected components of a graph (Tarjan 1972, with an explicit stack): the
/// component of each node, and the sorted nodes of each component. A component follows those it
/// leads to.
pub(super) fn components(successors: &[Vec<u32>]) -> (Vec<u32>, Vec<Vec<u32>>) {
    const UNSEEN: u32 = u32::MAX;
    let count = successors.len();
    let (mut index, mut low, mut of) = (vec![UNSEEN; count], vec![0u32; count], vec![UNSEEN; count]);
    let (mut open, mut groups, mut next) = (Vec::new(), Vec::new(), 0u32);
    for root in 0..count as u32 {
        if index[root as usize] != UNSEEN {
            continue;
        }
        let mut path = vec![(root, 0usize)];
        while let Some(&mut (node, ref mut edge)) = path.last_mut() {
            let at = node as usize;
            if *edge == 0 {
                (index[at], low[at]) = (next, next);
                next += 1;
                open.push(node);
            }
            if let Some(&to) = successors[at].get(*edge) {
                *edge += 1;
                if index[to as usize] == UNSEEN {
                    path.push((to, 0));
                } else if of[to as usize] == UNSEEN {
                    low[at] = low[at].min(index[to as usize]);
                }
                continue;
            }
            path.pop();
            if let Some(&(parent, _)) = path.last() {
                low[parent as usize] = low[parent as usize].min(low[at]);
            }
            if low[at] == index[at] {
                // The node itself is open, so there is a position to cut at.
                let cut = open.iter().rposition(|&n| n == node).unwrap_or(0);
                let mut group: Vec<u32> = open.split_off(cut);
                group.sort_unstable();
                group.iter().for_each(|&n| of[n as usize] = groups.len() as u32);
                groups.push(group);
            }
        }
    }
    (of, groups)
}
