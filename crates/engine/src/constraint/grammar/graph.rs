//! Rule graphs: each rule as a small automaton whose edges are texts, characters, calls, or empty.
//!
//! A graph has one start and one end, which are different states. Alternatives and sequences need
//! no empty edges, repetitions need two. Counted repetitions are written out, and grammars above
//! [`MAX_EDGES`] are refused.
//!
//! A nullable part is repeated without its empty text, any number of times up to the maximum. For
//! this it becomes a rule. Then one empty edge exits a counted repetition. If each of n parts were
//! optional by itself, every state among them would lead to all later ones. Each byte of an
//! ambiguous text would then follow n² calls.
//!
//! # Cost
//! Time and memory are linear in the result.
//!
//! # Alternatives considered
//! Removing the empty text from expressions was rejected: it doubles a sequence of n optional parts n
//! times. In the graph of a rule it adds n edges.

use super::rules::{Counts, Expr, ExprId, Grammar, Rule, RuleIx};
use crate::char_lang::char_class;
use crate::constraint::ir::{MIN_COUNTED, is_counted};
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

/// Lets repeated nullable parts be absent, and makes a rule of each one that is repeated a limited
/// number of times.
pub(super) fn name_repeated_parts(grammar: &mut Grammar) {
    let nullable = nullable(grammar);
    for id in 0..grammar.exprs.len() {
        let Expr::Repeat(mut part, _, max) = grammar.exprs[id] else { continue };
        if !nullable[part as usize] {
            continue;
        }
        if let Some(2..) = max {
            let rule = grammar.anonymous("(repeated part)", part, (0, 0));
            grammar.rules[rule as usize].takes_text = true;
            part = grammar.push(Expr::Rule(rule));
        }
        grammar.exprs[id] = Expr::Repeat(part, 0, max);
    }
}

/// Builds the graphs of all rules, in rule order.
///
/// # Errors
/// Returns [`ErrorKind::TooComplex`] with the span of the rule that exceeds the limit.
pub(super) fn build(grammar: &Grammar) -> Result<Vec<RuleGraph>> {
    let mut left = MAX_EDGES;
    // Every rule has a body once the grammar is finished.
    let rules = grammar.rules.iter().filter_map(|rule| Some((rule, rule.body?)));
    let build = |(rule, body): (&Rule, ExprId)| {
        graph(grammar, body, &mut left).ok_or_else(|| too_large(grammar, rule.span, &rule.name))
    };
    rules.map(build).collect()
}

/// Returns an error about the size of a rule.
pub(super) fn too_large(grammar: &Grammar, span: (usize, usize), name: &str) -> Error {
    let message = format!("with `{name}` the grammar has more than {MAX_EDGES} parts");
    let hint = "counted repetitions count as often as they repeat, left recursion through many rules squared";
    grammar.fault(ErrorKind::TooComplex, message, span, hint)
}

/// Returns for each expression whether it matches the empty text. Visits an expression once for
/// each of its nullable parts.
fn nullable(grammar: &Grammar) -> Vec<bool> {
    let count = grammar.exprs.len();
    let mut users: Vec<Vec<ExprId>> = vec![Vec::new(); count];
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
            Expr::Rule(rule) => grammar.rules[*rule as usize].body.as_slice(),
            Expr::Literal(_) | Expr::Class(_) | Expr::Foreign(_) | Expr::OtherThan(_) => &[],
        };
        parts.iter().for_each(|&part| users[part as usize].push(id));
    }
    let mut empty = vec![false; count];
    while let Some(id) = todo.pop() {
        if std::mem::replace(&mut empty[id as usize], true) {
            continue;
        }
        for &user in &users[id as usize] {
            let open = &mut open[user as usize];
            *open = open.saturating_sub(1);
            if *open == 0 {
                todo.push(user);
            }
        }
    }
    empty
}

/// Maximum number of parts of a set of characters.
const MAX_PARTS_OF_CHARACTERS: usize = 100;

/// An expression to be built between two states.
type PendingPart = (ExprId, u32, u32);

/// Builds the graph of one expression, with an explicit stack of parts. Returns `None` if it has more
/// than `left` parts, which it takes away.
fn graph(grammar: &Grammar, body: ExprId, left: &mut usize) -> Option<RuleGraph> {
    let mut graph = RuleGraph::new();
    let mut todo: Vec<PendingPart> = vec![(body, graph.start, graph.end)];
    while let Some((id, from, to)) = todo.pop() {
        *left = left.checked_sub(1).filter(|&left| todo.len() <= left)?;
        match grammar.expr(id) {
            Expr::Literal(text) if text.is_empty() => graph.edge(from, Label::Empty, to),
            Expr::Class(ranges) if ranges.is_empty() => {}
            // Only a repetition of it has a meaning.
            Expr::OtherThan(_) => {}
            Expr::Literal(_) | Expr::Class(_) | Expr::Foreign(_) => graph.edge(from, Label::Term(id), to),
            Expr::Rule(rule) => graph.edge(from, Label::Rule(*rule), to),
            Expr::Seq(parts) => {
                let mut at = from;
                for (i, &id) in parts.iter().enumerate() {
                    let next = if i + 1 == parts.len() { to } else { graph.state() };
                    todo.push((id, at, next));
                    at = next;
                }
            }
            Expr::Alt(parts) if is_list(grammar, parts) => graph.edge(from, Label::Term(id), to),
            Expr::Alt(parts) => todo.extend(parts.iter().map(|&id| (id, from, to))),
            Expr::Repeat(of, min, Some(max @ MIN_COUNTED..))
                if characters(grammar, *of).is_some_and(|ranges| is_counted(&ranges, *max)) =>
            {
                graph.edge(from, Label::Term(id), to);
                if *min == 0 {
                    graph.edge(from, Label::Empty, to);
                }
            }
            Expr::Repeat(of, min, max) => {
                *left = left.checked_sub(max.unwrap_or(*min) as usize)?;
                repeat(&mut graph, &mut todo, (*min, *max), (*of, from, to));
            }
            Expr::Token(of) if grammar.ignored.is_empty() => todo.push((*of, from, to)),
            Expr::Token(of) => {
                let after = graph.state();
                todo.push((*of, from, after));
                grammar.ignored.iter().for_each(|&rule| graph.edge(after, Label::Rule(rule), after));
                graph.edge(after, Label::Empty, to);
            }
        }
    }
    Some(graph)
}

/// Builds `min` to `max` copies of a part.
fn repeat(
    graph: &mut RuleGraph,
    todo: &mut Vec<PendingPart>,
    (min, max): Counts,
    (part, from, to): PendingPart,
) {
    let mut at = from;
    // Without a maximum, the last part that must occur is the one that may recur.
    let alone = if max.is_none() { min.saturating_sub(1) } else { min };
    for i in 0..max.unwrap_or(alone) {
        let next = graph.state();
        if i >= alone {
            graph.edge(at, Label::Empty, to);
        }
        todo.push((part, at, next));
        at = next;
    }
    match max {
        Some(_) => graph.edge(at, Label::Empty, to),
        // Uses states of its own: other edges at `from` or `to` could enter a loop there.
        None => {
            let first = graph.state();
            let next = if min > 0 { graph.state() } else { first };
            graph.edge(at, Label::Empty, first);
            todo.push((part, first, next));
            if min > 0 {
                graph.edge(next, Label::Empty, first);
            }
            graph.edge(next, Label::Empty, to);
        }
    }
}

/// Returns true if the alternatives are a list of words, which is cheaper to keep as a list than as
/// many edges.
fn is_list(grammar: &Grammar, parts: &[ExprId]) -> bool {
    parts.len() >= 4 && parts.iter().all(|&p| matches!(grammar.expr(p), Expr::Literal(t) if !t.is_empty()))
}

/// Returns the characters of an expression that matches one of them: a class, a character, or some of
/// these as alternatives or by the name of a rule.
pub(super) fn characters(grammar: &Grammar, id: ExprId) -> Option<Vec<(char, char)>> {
    let (mut ranges, mut todo) = (Vec::new(), vec![id]);
    for _ in 0..MAX_PARTS_OF_CHARACTERS {
        let Some(id) = todo.pop() else {
            return Some(char_class::ranges(&char_class::unicode(&ranges)).collect());
        };
        match grammar.expr(id) {
            Expr::Class(more) => ranges.extend_from_slice(more),
            Expr::Literal(text) => {
                let mut chars = std::str::from_utf8(text).ok()?.chars();
                let c = chars.next().filter(|_| chars.next().is_none())?;
                ranges.push((c, c));
            }
            Expr::Alt(parts) => todo.extend_from_slice(parts),
            Expr::Rule(rule) => todo.push(grammar.rules[*rule as usize].body?),
            Expr::Token(part) if grammar.ignored.is_empty() => todo.push(*part),
            _ => return None,
        }
    }
    None
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
