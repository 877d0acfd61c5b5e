//! Rules as small automata: edges are texts, characters, calls of rules, or nothing.
//!
//! A graph has one start and one end, which are different states. Alternatives and sequences need no
//! empty edges, repetitions two. Counted repetitions are written out, so sizes are computed before
//! anything is built and refused above [`MAX_EDGES`]. Cost: linear in the result. Keeping expressions and
//! transforming those was rejected: taking the empty text out of a sequence of n optional parts doubles
//! it n times, while in a graph it adds n edges.

use super::rules::{Expr, ExprId, Grammar, RuleIx};
use crate::error::{Error, ErrorKind, Result};

/// Most edges of all rules of a grammar together, in each stage of compiling it.
pub(super) const MAX_EDGES: usize = 400_000;

/// What an edge takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Label {
    /// Nothing.
    Empty,
    /// An expression that is a literal, a class, a list of literals or a foreign value; never empty text.
    Term(ExprId),
    /// A call.
    Rule(RuleIx),
}

/// An edge to a state.
pub(super) type Edge = (Label, u32);

/// The automaton of a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub edges: Vec<Vec<Edge>>,
    pub start: u32,
    pub end: u32,
}

impl Graph {
    /// A start, an end, and nothing between them.
    pub(super) fn new() -> Self {
        Graph { edges: vec![Vec::new(), Vec::new()], start: 0, end: 1 }
    }

    pub(super) fn state(&mut self) -> u32 {
        self.edges.push(Vec::new());
        self.edges.len() as u32 - 1
    }

    pub(super) fn edge(&mut self, from: u32, label: Label, to: u32) {
        self.edges[from as usize].push((label, to));
    }

    /// Number of edges.
    pub(super) fn len(&self) -> usize {
        self.edges.iter().map(Vec::len).sum()
    }

    /// Keeps the edges that `keep` accepts and that lie on a way from the start to the end; the start
    /// becomes state 0. Whether there is such a way.
    pub(super) fn trim(&mut self, keep: impl Fn(Label) -> bool) -> bool {
        for list in &mut self.edges {
            list.retain(|e| keep(e.0));
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.edges.len()];
        for (from, list) in self.edges.iter().enumerate() {
            list.iter().for_each(|e| into[e.1 as usize].push(from as u32));
        }
        let ends = reach(self.edges.len(), self.end, |s, next| next.extend_from_slice(&into[s as usize]));
        if !ends.0[self.start as usize] {
            return false;
        }
        let (_, order) = reach(self.edges.len(), self.start, |s, next| {
            next.extend(self.edges[s as usize].iter().map(|e| e.1).filter(|&to| ends.0[to as usize]));
        });
        let mut number = vec![u32::MAX; self.edges.len()];
        for (new, &old) in order.iter().enumerate() {
            number[old as usize] = new as u32;
        }
        let kept = |list: &Vec<Edge>| -> Vec<Edge> {
            let mut list: Vec<Edge> = list.iter().map(|&(label, to)| (label, number[to as usize])).collect();
            list.retain(|e| e.1 != u32::MAX);
            list
        };
        self.edges = order.iter().map(|&old| kept(&self.edges[old as usize])).collect();
        (self.start, self.end) = (0, number[self.end as usize]);
        true
    }
}

/// The states that can be reached from one, as a set and in the order in which they are met.
pub(super) fn reach(
    count: usize,
    from: u32,
    mut next: impl FnMut(u32, &mut Vec<u32>),
) -> (Vec<bool>, Vec<u32>) {
    let mut seen = vec![false; count];
    let (mut order, mut found) = (vec![from], Vec::new());
    seen[from as usize] = true;
    let mut at = 0;
    while at < order.len() {
        next(order[at], &mut found);
        at += 1;
        for s in found.drain(..) {
            if !std::mem::replace(&mut seen[s as usize], true) {
                order.push(s);
            }
        }
    }
    (seen, order)
}

/// The graphs of all rules, in their order.
///
/// # Errors
/// [`ErrorKind::TooComplex`] with the span of the rule at which the limit is passed.
pub(super) fn build(grammar: &Grammar) -> Result<Vec<Graph>> {
    let sizes = sizes(grammar);
    let mut total = 0u64;
    let mut graphs = Vec::with_capacity(grammar.rules.len());
    for rule in &grammar.rules {
        // Every rule has a body once the grammar is finished.
        let Some(body) = rule.body else { continue };
        total = total.saturating_add(sizes[body as usize]);
        if total > MAX_EDGES as u64 {
            return Err(too_large(grammar, rule.span, &rule.name));
        }
        graphs.push(graph(grammar, body));
    }
    Ok(graphs)
}

/// An error about the size of a rule.
pub(super) fn too_large(grammar: &Grammar, span: (usize, usize), name: &str) -> Error {
    let message = format!("with `{name}` the grammar has more than {MAX_EDGES} parts");
    grammar
        .fault(ErrorKind::TooComplex, message, span)
        .hint("counted repetitions count as often as they repeat, left recursion through many rules squared")
}

/// Edges of each expression, and states where those are more.
fn sizes(grammar: &Grammar) -> Vec<u64> {
    let mut sizes: Vec<u64> = Vec::with_capacity(grammar.exprs.len());
    // Children are pushed before their parents.
    for expr in &grammar.exprs {
        let of = |id: &ExprId| sizes[*id as usize];
        sizes.push(match expr {
            Expr::Seq(parts) | Expr::Alt(parts) => {
                parts.iter().fold(0, |sum: u64, id| sum.saturating_add(of(id)))
            }
            Expr::Repeat(part, min, max) => {
                let count = u64::from(max.unwrap_or(min.saturating_add(1)).max(1));
                of(part).saturating_add(2).saturating_mul(count)
            }
            Expr::Token(part) => of(part) + 2 + grammar.ignored.len() as u64,
            Expr::Literal(_) | Expr::Class(_) | Expr::Rule(_) | Expr::Foreign(_) => 1,
        });
    }
    sizes
}

/// The graph of one expression, built with an explicit stack of parts and their two states.
fn graph(grammar: &Grammar, body: ExprId) -> Graph {
    let mut graph = Graph::new();
    let mut todo = vec![(body, graph.start, graph.end)];
    while let Some((id, from, to)) = todo.pop() {
        match grammar.expr(id) {
            Expr::Literal(text) if text.is_empty() => graph.edge(from, Label::Empty, to),
            Expr::Class(ranges) if ranges.is_empty() => {}
            Expr::Literal(_) | Expr::Class(_) | Expr::Foreign(_) => graph.edge(from, Label::Term(id), to),
            Expr::Rule(rule) => graph.edge(from, Label::Rule(*rule), to),
            Expr::Seq(parts) => {
                let mut at = from;
                for (i, &part) in parts.iter().enumerate() {
                    let next = if i + 1 == parts.len() { to } else { graph.state() };
                    todo.push((part, at, next));
                    at = next;
                }
            }
            Expr::Alt(parts) if is_list(grammar, parts) => graph.edge(from, Label::Term(id), to),
            Expr::Alt(parts) => todo.extend(parts.iter().map(|&part| (part, from, to))),
            Expr::Repeat(part, min, max) => repeat(&mut graph, &mut todo, *part, (*min, *max), (from, to)),
            Expr::Token(part) if grammar.ignored.is_empty() => todo.push((*part, from, to)),
            Expr::Token(part) => {
                let after = graph.state();
                todo.push((*part, from, after));
                for &rule in &grammar.ignored {
                    graph.edge(after, Label::Rule(rule), after);
                }
                graph.edge(after, Label::Empty, to);
            }
        }
    }
    graph
}

fn repeat(
    graph: &mut Graph,
    todo: &mut Vec<(ExprId, u32, u32)>,
    part: ExprId,
    (min, max): (u32, Option<u32>),
    (from, to): (u32, u32),
) {
    let mut at = from;
    for _ in 0..min {
        let next = graph.state();
        todo.push((part, at, next));
        at = next;
    }
    let Some(max) = max else {
        // A state of its own: a loop at `from` or `to` would be open to what else stands there.
        let middle = graph.state();
        graph.edge(at, Label::Empty, middle);
        todo.push((part, middle, middle));
        graph.edge(middle, Label::Empty, to);
        return;
    };
    for _ in min..max {
        let next = graph.state();
        graph.edge(at, Label::Empty, to);
        todo.push((part, at, next));
        at = next;
    }
    graph.edge(at, Label::Empty, to);
}

/// Whether alternatives are a list of words, which is better kept as a list than as many edges.
fn is_list(grammar: &Grammar, parts: &[ExprId]) -> bool {
    parts.len() >= 4 && parts.iter().all(|&p| matches!(grammar.expr(p), Expr::Literal(t) if !t.is_empty()))
}

/// The words of a list.
pub(super) fn words(grammar: &Grammar, parts: &[ExprId]) -> Vec<Vec<u8>> {
    let word = |&part: &ExprId| match grammar.expr(part) {
        Expr::Literal(text) => Some(text.clone()),
        _ => None,
    };
    let mut words: Vec<Vec<u8>> = parts.iter().filter_map(word).collect();
    words.sort_unstable();
    words.dedup();
    words
}
