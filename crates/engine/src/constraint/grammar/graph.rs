//! Rule graphs: each rule as a small automaton whose edges are texts, characters, calls, or empty.
//!
//! A graph has one start and one end, which are different states. Alternatives and sequences need
//! no empty edges, repetitions need two. Counted repetitions are written out. So sizes are computed
//! before anything is built, and grammars above [`MAX_EDGES`] are refused.
//!
//! A nullable part is repeated without its empty text, any number of times up to the maximum. Then
//! one empty edge exits a counted repetition. If each of n parts were optional by itself, every
//! state among them would lead to all later ones. Each byte of an ambiguous text would then follow
//! n² calls.
//!
//! # Cost
//! Time and memory are linear in the result.
//!
//! # Alternatives considered
//! Transforming expressions instead of graphs was rejected: removing the empty text from a sequence
//! of n optional parts doubles it n times. In a graph it adds n edges.

use super::rules::{Expr, ExprId, Grammar, RuleIx};
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of edges of all rules of a grammar together, in each stage of compilation.
pub(super) const MAX_EDGES: usize = 400_000;

/// The label of an edge: the input that the edge takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Label {
    /// Nothing.
    Empty,
    /// A literal, a class, a list of literals or a foreign value; never the empty text.
    Term(ExprId),
    /// A call.
    Rule(RuleIx),
    /// A call that must take text, also of a nullable rule. Becomes a plain call once the empty
    /// text is removed.
    Filled(RuleIx),
}

/// An edge: its label and its target state.
pub(super) type Edge = (Label, u32);

/// The automaton of a rule.
#[derive(Debug, Clone, Default)]
pub(super) struct RuleGraph {
    pub edges: Vec<Vec<Edge>>,
    pub start: u32,
    pub end: u32,
}

impl RuleGraph {
    /// Returns a graph with a start and an end and no edges.
    pub(super) fn new() -> Self {
        RuleGraph { edges: vec![Vec::new(), Vec::new()], start: 0, end: 1 }
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

    /// Keeps the edges that `keep` accepts and that are on a path from the start to the end. The
    /// start becomes state 0. Returns true if there is such a path.
    pub(super) fn trim(&mut self, keep: impl Fn(Label) -> bool) -> bool {
        for list in &mut self.edges {
            list.retain(|e| keep(e.0));
        }
        let mut into: Vec<Vec<u32>> = vec![Vec::new(); self.edges.len()];
        for (from, list) in self.edges.iter().enumerate() {
            list.iter().for_each(|e| into[e.1 as usize].push(from as u32));
        }
        let ends = reachable(self.edges.len(), self.end, |s, next| next.extend_from_slice(&into[s as usize]));
        if !ends.0[self.start as usize] {
            return false;
        }
        let (_, order) = reachable(self.edges.len(), self.start, |s, next| {
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

/// Returns the states reachable from one state, as a set and in breadth-first order.
pub(super) fn reachable(
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

/// Builds the graphs of all rules, in rule order.
///
/// # Errors
/// Returns [`ErrorKind::TooComplex`] with the span of the rule that exceeds the limit.
pub(super) fn build(grammar: &Grammar) -> Result<Vec<RuleGraph>> {
    let nullable = nullable(grammar);
    let sizes = sizes(grammar, &nullable);
    let shape = ExprProperties { grammar, nullable: &nullable, sizes: &sizes };
    let mut total = 0u64;
    let mut graphs = Vec::with_capacity(grammar.rules.len());
    for rule in &grammar.rules {
        // Every rule has a body once the grammar is finished.
        let Some(body) = rule.body else { continue };
        total = total.saturating_add(sizes[body as usize].0);
        if total > MAX_EDGES as u64 {
            return Err(too_large(grammar, rule.span, &rule.name));
        }
        graphs.push(graph(&shape, body));
    }
    Ok(graphs)
}

/// Returns an error about the size of a rule.
pub(super) fn too_large(grammar: &Grammar, span: (usize, usize), name: &str) -> Error {
    let message = format!("with `{name}` the grammar has more than {MAX_EDGES} parts");
    grammar.fault(
        ErrorKind::TooComplex,
        message,
        span,
        "counted repetitions count as often as they repeat, left recursion through many rules squared",
    )
}

/// Returns for each expression whether it matches the empty text. Visits an expression once for
/// each of its nullable parts.
fn nullable(grammar: &Grammar) -> Vec<bool> {
    let count = grammar.exprs.len();
    let mut users: Vec<Vec<ExprId>> = vec![Vec::new(); count];
    let mut calls: Vec<Vec<ExprId>> = vec![Vec::new(); grammar.rules.len()];
    // By expression: the number of parts that are not known to be nullable yet.
    let mut open = vec![1usize; count];
    let mut todo = Vec::new();
    for (id, expr) in (0..).zip(&grammar.exprs) {
        let parts: &[ExprId] = match expr {
            Expr::Literal(text) if text.is_empty() => {
                todo.push(id);
                &[]
            }
            Expr::Repeat(_, 0, _) => {
                todo.push(id);
                &[]
            }
            Expr::Seq(parts) => {
                open[id as usize] = parts.len();
                parts
            }
            Expr::Alt(parts) => parts,
            Expr::Repeat(part, ..) | Expr::Token(part) => std::slice::from_ref(part),
            Expr::Rule(rule) => {
                calls[*rule as usize].push(id);
                &[]
            }
            Expr::Literal(_) | Expr::Class(_) | Expr::Foreign(_) | Expr::OtherThan(_) => &[],
        };
        parts.iter().for_each(|&part| users[part as usize].push(id));
    }
    let mut bodies: Vec<Vec<RuleIx>> = vec![Vec::new(); count];
    for (ix, rule) in (0..).zip(&grammar.rules) {
        rule.body.iter().for_each(|&body| bodies[body as usize].push(ix));
    }
    let mut empty = vec![false; count];
    while let Some(id) = todo.pop() {
        if std::mem::replace(&mut empty[id as usize], true) {
            continue;
        }
        let called = bodies[id as usize].iter().flat_map(|&rule| &calls[rule as usize]);
        for &user in users[id as usize].iter().chain(called) {
            let open = &mut open[user as usize];
            *open = open.saturating_sub(1);
            if *open == 0 {
                todo.push(user);
            }
        }
    }
    empty
}

/// Returns for each expression two sizes: of all its texts, and of its texts without the empty one.
/// A size counts edges, or states where those are more.
fn sizes(grammar: &Grammar, nullable: &[bool]) -> Vec<(u64, u64)> {
    let mut sizes: Vec<(u64, u64)> = Vec::with_capacity(grammar.exprs.len());
    // Children are pushed before their parents.
    for (id, expr) in grammar.exprs.iter().enumerate() {
        let all = |parts: &[ExprId], of: &dyn Fn(&ExprId) -> u64| {
            parts.iter().fold(0, |sum: u64, part| sum.saturating_add(of(part)))
        };
        let (of, filled) = (|id: &ExprId| sizes[*id as usize].0, |id: &ExprId| sizes[*id as usize].1);
        let whole = match expr {
            Expr::Seq(parts) | Expr::Alt(parts) => all(parts, &of),
            Expr::Repeat(part, min, max) => {
                let shape = ExprProperties { grammar, nullable, sizes: &sizes };
                let part = if shape.repeats_nonempty(*part, *max) { filled(part) } else { of(part) };
                part.saturating_add(2).saturating_mul(shape.count(id, *min, *max))
            }
            Expr::Token(part) => of(part).saturating_add(2 + grammar.ignored.len() as u64),
            Expr::Literal(_) | Expr::Class(_) | Expr::Rule(_) | Expr::Foreign(_) | Expr::OtherThan(_) => 1,
        };
        let rest = match expr {
            _ if !nullable[id] => whole,
            Expr::Seq(parts) => whole.saturating_add(all(parts, &filled)),
            Expr::Alt(parts) => all(parts, &filled),
            Expr::Repeat(part, min, max) => {
                let shape = ExprProperties { grammar, nullable, sizes: &sizes };
                filled(part).saturating_add(4).saturating_mul(shape.count(id, *min, *max))
            }
            Expr::Token(part) => filled(part).saturating_add(2 + 2 * grammar.ignored.len() as u64),
            _ => whole,
        };
        sizes.push((whole, rest));
    }
    sizes
}

/// The known properties of the expressions of a grammar.
struct ExprProperties<'a> {
    grammar: &'a Grammar,
    nullable: &'a [bool],
    sizes: &'a [(u64, u64)],
}

impl ExprProperties<'_> {
    /// Number of copies of the part of a repetition that are written out.
    fn count(&self, repeat: usize, min: u32, max: Option<u32>) -> u64 {
        let Expr::Repeat(part, ..) = self.grammar.exprs[repeat] else { return 1 };
        let open = if self.nullable[part as usize] { 1 } else { min.saturating_add(1) };
        u64::from(max.unwrap_or(open).max(1))
    }

    /// Returns true if a part is repeated without its empty text. This is so where the part is
    /// written out more than once, unless removing the empty text from deeply nested sequences
    /// makes it much larger.
    fn repeats_nonempty(&self, part: ExprId, max: Option<u32>) -> bool {
        let (whole, filled) = self.sizes[part as usize];
        self.nullable[part as usize] && max.is_some_and(|m| m > 1) && filled <= whole.saturating_mul(4)
    }
}

/// An expression to be built between two states; with or without its empty text.
#[derive(Clone, Copy)]
struct PendingPart {
    id: ExprId,
    filled: bool,
    from: u32,
    to: u32,
}

/// Builds the graph of one expression, with an explicit stack of parts and their two states.
fn graph(shape: &ExprProperties, body: ExprId) -> RuleGraph {
    let (grammar, nullable) = (shape.grammar, shape.nullable);
    let mut graph = RuleGraph::new();
    let mut todo = vec![PendingPart { id: body, filled: false, from: graph.start, to: graph.end }];
    while let Some(part) = todo.pop() {
        let PendingPart { id, from, to, .. } = part;
        // An expression that is not nullable has no empty text to remove.
        let filled = part.filled && nullable[id as usize];
        match grammar.expr(id) {
            Expr::Literal(text) if text.is_empty() && filled => {}
            Expr::Literal(text) if text.is_empty() => graph.edge(from, Label::Empty, to),
            Expr::Class(ranges) if ranges.is_empty() => {}
            // Only a repetition of it has a meaning.
            Expr::OtherThan(_) => {}
            Expr::Literal(_) | Expr::Class(_) | Expr::Foreign(_) => graph.edge(from, Label::Term(id), to),
            Expr::Rule(rule) if filled => graph.edge(from, Label::Filled(*rule), to),
            Expr::Rule(rule) => graph.edge(from, Label::Rule(*rule), to),
            Expr::Seq(parts) => sequence(&mut graph, &mut todo, parts, PendingPart { filled, ..part }),
            Expr::Alt(parts) if is_list(grammar, parts) => graph.edge(from, Label::Term(id), to),
            Expr::Alt(parts) => todo.extend(parts.iter().map(|&id| PendingPart { id, filled, from, to })),
            Expr::Repeat(_, _, Some(0)) if filled => {}
            Expr::Repeat(of, min, max) => {
                let least = if nullable[*of as usize] { 0 } else { *min };
                let inner =
                    PendingPart { id: *of, filled: filled || shape.repeats_nonempty(*of, *max), ..part };
                match filled {
                    true => repeat_filled(&mut graph, &mut todo, *max, inner),
                    false => repeat(&mut graph, &mut todo, (least, *max), inner),
                }
            }
            Expr::Token(of) if grammar.ignored.is_empty() => {
                todo.push(PendingPart { id: *of, filled, from, to })
            }
            Expr::Token(of) => {
                let after = graph.state();
                todo.push(PendingPart { id: *of, filled, from, to: after });
                for &rule in &grammar.ignored {
                    graph.edge(after, Label::Rule(rule), after);
                    if filled {
                        graph.edge(from, Label::Filled(rule), after);
                    }
                }
                graph.edge(after, Label::Empty, to);
            }
        }
    }
    graph
}

/// Builds parts one after the other. Without the empty text, some part is the first that takes
/// text: a path enters the sequence there and continues as usual.
fn sequence(graph: &mut RuleGraph, todo: &mut Vec<PendingPart>, parts: &[ExprId], whole: PendingPart) {
    let mut at = whole.from;
    for (i, &id) in parts.iter().enumerate() {
        let next = if i + 1 == parts.len() { whole.to } else { graph.state() };
        if whole.filled {
            todo.push(PendingPart { id, filled: true, from: whole.from, to: next });
        }
        if !whole.filled || i > 0 {
            todo.push(PendingPart { id, filled: false, from: at, to: next });
        }
        at = next;
    }
}

/// Builds a part that occurs at least once and at most `max` times.
fn repeat_filled(graph: &mut RuleGraph, todo: &mut Vec<PendingPart>, max: Option<u32>, part: PendingPart) {
    let (first, next) = (graph.state(), graph.state());
    graph.edge(part.from, Label::Empty, first);
    todo.push(PendingPart { from: first, to: next, ..part });
    match max {
        Some(max) => repeat(graph, todo, (0, Some(max - 1)), PendingPart { from: next, ..part }),
        None => {
            graph.edge(next, Label::Empty, first);
            graph.edge(next, Label::Empty, part.to);
        }
    }
}

fn repeat(
    graph: &mut RuleGraph,
    todo: &mut Vec<PendingPart>,
    (min, max): (u32, Option<u32>),
    part: PendingPart,
) {
    let (mut at, to) = (part.from, part.to);
    // Without a maximum, the last part that must occur is the one that may recur.
    let alone = if max.is_none() { min.saturating_sub(1) } else { min };
    for _ in 0..alone {
        let next = graph.state();
        todo.push(PendingPart { from: at, to: next, ..part });
        at = next;
    }
    let Some(max) = max else {
        if min > 0 {
            let (first, next) = (graph.state(), graph.state());
            graph.edge(at, Label::Empty, first);
            todo.push(PendingPart { from: first, to: next, ..part });
            graph.edge(next, Label::Empty, first);
            graph.edge(next, Label::Empty, to);
            return;
        }
        // Uses a state of its own: other edges at `from` or `to` could enter a loop there.
        let middle = graph.state();
        graph.edge(at, Label::Empty, middle);
        todo.push(PendingPart { from: middle, to: middle, ..part });
        graph.edge(middle, Label::Empty, to);
        return;
    };
    for _ in min..max {
        let next = graph.state();
        graph.edge(at, Label::Empty, to);
        todo.push(PendingPart { from: at, to: next, ..part });
        at = next;
    }
    graph.edge(at, Label::Empty, to);
}

/// Returns true if the alternatives are a list of words, which is cheaper to keep as a list than as
/// many edges.
fn is_list(grammar: &Grammar, parts: &[ExprId]) -> bool {
    parts.len() >= 4 && parts.iter().all(|&p| matches!(grammar.expr(p), Expr::Literal(t) if !t.is_empty()))
}

/// Returns the words of a list, sorted and without duplicates.
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
