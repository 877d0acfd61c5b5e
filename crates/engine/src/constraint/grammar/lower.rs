//! Lowers rule graphs to the intermediate representation, and decides which rules are inlined.
//!
//! A rule is inlined where it is called if it is in no cycle and is small, or used once. All other
//! rules are called. So the regular parts of a grammar are determinised as a whole and have the
//! masks of a regular expression. Shared, large parts keep one set of states and masks.
//!
//! A large regular rule is inlined, too, if it can end where it can also continue, as
//! `[^x]{1,200}` and `\w+` can. Called, each of these states would have a mask of its own with the
//! exits of most tokens.
//!
//! # Cost
//! Linear in the result, which inlining makes longer by at most [`MAX_ALL_COPIES`].
//!
//! # Alternatives considered
//! Calling every rule was rejected: a terminal of one character would cost a frame and an exit for
//! each token.

use super::analysis::TrimmedRules;
use super::graph::{Label, RuleGraph, characters, words};
use super::recursion::{calls, components, without_left_recursion};
use super::rules::{Expr, ExprId, Grammar, RuleIx};
use crate::constraint::ir::{AutomatonState, Ir, Node, NodeId, RuleId};
use crate::constraint::regular::utf8_class;
use crate::error::Result;

/// Maximum weight of a small rule.
const MAX_SMALL_WEIGHT: usize = 48;
/// Maximum weight of all copies of a rule together: of a small rule, of a large rule.
const MAX_COPIES: (usize, usize) = (12_000, 3_000);
/// The same for a regular rule that can end where it can also continue.
const MAX_OPEN_COPIES: usize = 60_000;
/// Maximum weight of all copies of all rules together.
const MAX_ALL_COPIES: usize = 100_000;
/// Maximum depth of rules inlined in each other: the lowering of the machine recurs for each level.
const MAX_INLINE_DEPTH: usize = 40;

/// Returns the intermediate representation of a grammar.
///
/// # Errors
/// Returns `TooComplex` where left recursion grows too large.
pub(super) fn lower(grammar: &Grammar, rules: &TrimmedRules) -> Result<Ir> {
    let mut graphs = without_left_recursion(grammar, rules)?;
    // The whole output: ignored text, then the start rule.
    let mut all = RuleGraph::new();
    let mut begin = all.start;
    if !grammar.ignored.is_empty() {
        begin = all.state();
        all.edge(all.start, Label::Empty, begin);
        grammar.ignored.iter().for_each(|&rule| all.edge(begin, Label::Rule(rule), begin));
    }
    all.edge(begin, Label::Rule(grammar.start), all.end);
    if rules.nullable[grammar.start as usize] {
        all.edge(begin, Label::Empty, all.end);
    }
    all.trim(|label| !matches!(label, Label::Rule(r) if graphs[r as usize].is_none()));
    graphs.push(Some(all));
    let mut lowering = GrammarLowering {
        grammar,
        ir: Ir::counting(),
        inline: inlined(&graphs, grammar),
        terms: vec![None; grammar.exprs.len()],
        done: vec![None; graphs.len()],
        named: vec![None; graphs.len()],
    };
    let (_, order) = components(&successors(&graphs));
    // Callees come first, except in cycles, whose rules are called by a name.
    for &rule in order.iter().flatten() {
        let Some(graph) = &graphs[rule as usize] else { continue };
        let node = lowering.graph(graph);
        lowering.done[rule as usize] = Some(node);
        if lowering.named[rule as usize].is_some() || !lowering.inline[rule as usize] {
            let name = lowering.name(rule);
            lowering.ir.define_rule(name, node);
        }
    }
    let mut ir = lowering.ir;
    // The last rule is the whole output.
    let root = lowering.done.last().copied().flatten().unwrap_or(NodeId(0));
    ir.set_root(root);
    ir.warnings.extend(grammar.warnings.iter().cloned());
    ir.marks.extend(grammar.literals().filter_map(possible_special_token));
    Ok(ir)
}

/// Returns the literal if it could be a special token: special tokens contain brackets or bars.
fn possible_special_token(literal: &[u8]) -> Option<String> {
    let could = literal.len() > 2 && literal.iter().any(|b| b"<[|".contains(b));
    could.then(|| String::from_utf8(literal.to_vec()).ok())?
}

fn successors(graphs: &[Option<RuleGraph>]) -> Vec<Vec<u32>> {
    let of = |graph: &Option<RuleGraph>| {
        let mut list: Vec<u32> = graph.iter().flat_map(calls).collect();
        list.sort_unstable();
        list.dedup();
        list
    };
    graphs.iter().map(of).collect()
}

/// Returns for each rule whether it is inlined where it is called.
fn inlined(graphs: &[Option<RuleGraph>], grammar: &Grammar) -> Vec<bool> {
    let next = successors(graphs);
    let (_, order) = components(&next);
    let mut uses = vec![0usize; graphs.len()];
    graphs.iter().flatten().flat_map(calls).for_each(|rule| uses[rule as usize] += 1);
    let mut inline = vec![false; graphs.len()];
    let mut budget = MAX_ALL_COPIES;
    let (mut weight, mut depth) = (vec![1usize; graphs.len()], vec![0usize; graphs.len()]);
    // Rules without calls and values, once others are inlined; those that can end early.
    let (mut regular, mut open) = (vec![false; graphs.len()], vec![false; graphs.len()]);
    for group in order {
        let [rule] = group[..] else { continue };
        let at = rule as usize;
        let Some(graph) = &graphs[at] else { continue };
        if next[at].contains(&rule) {
            continue;
        }
        let mut sum = 1usize;
        regular[at] = true;
        for &(label, to) in graph.edges.iter().flatten() {
            regular[at] &= is_regular(grammar, &regular, &inline, label);
            open[at] |= match label {
                Label::Empty => to == graph.end,
                Label::Rule(callee) => open[callee as usize],
                _ => false,
            };
            sum = sum.saturating_add(match label {
                Label::Empty => 1,
                Label::Term(id) => term_weight(grammar, id),
                Label::Rule(callee) if inline[callee as usize] => {
                    depth[at] = depth[at].max(depth[callee as usize] + 1);
                    weight[callee as usize]
                }
                Label::Rule(_) => 1,
            });
        }
        weight[at] = sum;
        let copies = sum.saturating_mul(uses[at]);
        let most = match regular[at] && open[at] {
            true => MAX_OPEN_COPIES,
            false if sum <= MAX_SMALL_WEIGHT => MAX_COPIES.0,
            false => MAX_COPIES.1,
        };
        inline[at] = depth[at] < MAX_INLINE_DEPTH && (uses[at] <= 1 || copies <= most && copies <= budget);
        if inline[at] && uses[at] > 1 {
            budget -= copies;
        }
    }
    inline
}

/// Returns true if an edge needs neither a call nor a value.
fn is_regular(grammar: &Grammar, regular: &[bool], inline: &[bool], label: Label) -> bool {
    match label {
        Label::Empty => true,
        Label::Term(id) => !matches!(grammar.expr(id), Expr::Foreign(_) | Expr::Repeat(..)),
        Label::Rule(rule) => regular[rule as usize] && inline[rule as usize],
    }
}

/// Estimates the number of states of a term.
fn term_weight(grammar: &Grammar, id: ExprId) -> usize {
    match grammar.expr(id) {
        Expr::Literal(text) => text.len(),
        // Characters beyond ASCII take some states for each lead byte.
        Expr::Class(ranges) => 1 + ranges.iter().filter(|r| !r.1.is_ascii()).count() * 8,
        Expr::Alt(parts) => parts.iter().map(|&p| term_weight(grammar, p)).sum(),
        _ => 8,
    }
}

struct GrammarLowering<'a> {
    grammar: &'a Grammar,
    ir: Ir,
    inline: Vec<bool>,
    terms: Vec<Option<NodeId>>,
    /// Nodes of the rules that are lowered already.
    done: Vec<Option<NodeId>>,
    named: Vec<Option<RuleId>>,
}

impl GrammarLowering<'_> {
    fn name(&mut self, rule: RuleIx) -> RuleId {
        *self.named[rule as usize].get_or_insert_with(|| self.ir.declare_rule())
    }

    fn label(&mut self, label: Label) -> NodeId {
        match label {
            Label::Empty => self.ir.push(Node::Empty),
            Label::Term(id) => self.term(id),
            Label::Rule(rule) => match self.done[rule as usize] {
                Some(node) if self.inline[rule as usize] => node,
                _ => {
                    let name = self.name(rule);
                    self.ir.push(Node::Rule(name))
                }
            },
        }
    }

    fn term(&mut self, id: ExprId) -> NodeId {
        if let Some(known) = self.terms[id as usize] {
            return known;
        }
        let node = match self.grammar.expr(id) {
            Expr::Literal(text) => self.ir.bytes(text),
            Expr::Class(ranges) => utf8_class::class(ranges, &mut self.ir),
            Expr::Alt(parts) => self.ir.literals(words(self.grammar, parts)),
            Expr::Repeat(part, min, Some(max)) => {
                let ranges = characters(self.grammar, *part).unwrap_or_default();
                let class = utf8_class::class(&ranges, &mut self.ir);
                self.ir.counted(class, (*min).max(1), *max)
            }
            Expr::Foreign(at) => self.ir.append(&self.grammar.foreign[*at]),
            // Graphs have no other terms.
            _ => self.ir.push(Node::Never),
        };
        self.terms[id as usize] = Some(node);
        node
    }

    /// Lowers a graph whose start is state 0.
    fn graph(&mut self, graph: &RuleGraph) -> NodeId {
        if let [start, end] = &graph.edges[..]
            && let ([(label, 1)], []) = (&start[..], &end[..])
        {
            return self.label(*label);
        }
        let mut states = Vec::with_capacity(graph.edges.len());
        for (state, list) in graph.edges.iter().enumerate() {
            let edges = list.iter().map(|&(label, to)| (self.label(label), to)).collect();
            states.push(AutomatonState { accept: state as u32 == graph.end, edges });
        }
        self.ir.push(Node::automaton(states))
    }
}
