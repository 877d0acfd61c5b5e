//! Removes unproductive rules and the empty text from the rule graphs of a grammar.
//!
//! A rule is productive if it can produce some text. Other rules contribute nothing; if the start
//! rule is one of them, the error says why. A rule is nullable if it matches the empty text.
//!
//! After this pass each rule has its texts *without the empty one*. Each call of a nullable rule
//! has an empty edge parallel to it. So a rule is left-recursive exactly if its graph shows it, and
//! no cycle is hidden.
//!
//! # Cost
//! Both properties are least fixpoints, computed with work lists in time linear in the number of
//! edges.

use super::graph::{Label, RuleGraph, reachable};
use super::rules::{Grammar, RuleIx};
use crate::error::{Error, ErrorKind, Result};

/// Rule graphs without unproductive parts and without the empty text.
pub(super) struct TrimmedRules {
    /// The graph of each rule; `None` if the rule matches nothing, or only the empty text.
    pub graphs: Vec<Option<RuleGraph>>,
    /// For each rule: true if it matches the empty text.
    pub nullable: Vec<bool>,
}

/// Removes unproductive rules and edges, then the empty text.
///
/// # Errors
/// Returns [`ErrorKind::Unsatisfiable`] if the start rule matches no text.
pub(super) fn without_empty(grammar: &Grammar, graphs: Vec<RuleGraph>) -> Result<TrimmedRules> {
    let productive = matching_rules(grammar, &graphs, true);
    if !productive[grammar.start as usize] {
        return Err(unproductive_error(grammar, &graphs, &productive));
    }
    let nullable = matching_rules(grammar, &graphs, false);
    let trimmed = |mut graph: RuleGraph, matching: &[bool]| {
        let ends = |label| !matches!(label, Label::Rule(rule) if !matching[rule as usize]);
        graph.trim(ends).then_some(graph)
    };
    let filled = graphs.into_iter().map(|graph| match trimmed(graph, &productive) {
        Some(graph) => nonempty(&graph, &nullable),
        None => RuleGraph::new(),
    });
    let filled: Vec<RuleGraph> = filled.collect();
    // Rules that matched only the empty text now match nothing. The same holds for all rules that
    // need a text of theirs.
    let productive = matching_rules(grammar, &filled, true);
    let graphs = filled.into_iter().map(|graph| trimmed(graph, &productive)).collect();
    Ok(TrimmedRules { graphs, nullable })
}

/// Returns for each rule whether its end is reachable: over all edges if `texts` is true, otherwise
/// only over edges that take no text.
fn matching_rules(grammar: &Grammar, graphs: &[RuleGraph], texts: bool) -> Vec<bool> {
    let mut matching = vec![false; graphs.len()];
    let mut seen: Vec<Vec<bool>> = graphs.iter().map(|g| vec![false; g.edges.len()]).collect();
    // By callee that is not known to match yet: the calling rule, and its state after the call.
    let mut waiting: Vec<Vec<(RuleIx, u32)>> = vec![Vec::new(); graphs.len()];
    let mut todo: Vec<(RuleIx, u32)> = graphs.iter().zip(0..).map(|(g, rule)| (rule, g.start)).collect();
    while let Some((rule, state)) = todo.pop() {
        let graph = &graphs[rule as usize];
        if std::mem::replace(&mut seen[rule as usize][state as usize], true) {
            continue;
        }
        if state == graph.end && (texts || !grammar.rules[rule as usize].takes_text) {
            matching[rule as usize] = true;
            todo.append(&mut waiting[rule as usize]);
        }
        for &(label, to) in &graph.edges[state as usize] {
            match label {
                Label::Empty => todo.push((rule, to)),
                Label::Term(_) if texts => todo.push((rule, to)),
                Label::Term(_) => {}
                Label::Rule(callee) if matching[callee as usize] => todo.push((rule, to)),
                Label::Rule(callee) => waiting[callee as usize].push((rule, to)),
            }
        }
    }
    matching
}

/// Returns the same rule without the empty text. A new start gets every text-taking edge of each
/// state that the old start reaches without taking text. After these edges, empty calls are free.
fn nonempty(graph: &RuleGraph, nullable: &[bool]) -> RuleGraph {
    let skips = |label| match label {
        Label::Empty => true,
        Label::Rule(rule) => nullable[rule as usize],
        Label::Term(_) => false,
    };
    let mut result = graph.clone();
    for list in &mut result.edges {
        let empty: Vec<_> = list.iter().filter(|e| e.0 != Label::Empty && skips(e.0)).map(|e| e.1).collect();
        list.extend(empty.into_iter().map(|to| (Label::Empty, to)));
    }
    let (_, closure) = reachable(graph.edges.len(), graph.start, |s, next| {
        next.extend(graph.edges[s as usize].iter().filter(|e| skips(e.0)).map(|e| e.1));
    });
    result.start = result.state();
    for state in closure {
        for &(label, to) in &graph.edges[state as usize] {
            if label != Label::Empty {
                result.edge(result.start, label, to);
            }
        }
    }
    result
}

/// Explains why the start rule matches no text: reports a path of calls to a rule without a
/// productive alternative.
fn unproductive_error(grammar: &Grammar, graphs: &[RuleGraph], productive: &[bool]) -> Error {
    let (mut at, mut path) = (grammar.start, vec![grammar.start]);
    let blocked = |rule: RuleIx| {
        let calls = graphs[rule as usize].edges.iter().flatten();
        calls.filter_map(|e| match e.0 {
            Label::Rule(callee) if !productive[callee as usize] => Some(callee),
            _ => None,
        })
    };
    let mut circle = false;
    while let Some(next) = blocked(at).find(|next| !path.contains(next)).or_else(|| blocked(at).next()) {
        circle = path.contains(&next);
        path.push(next);
        if circle || path.len() > 100 {
            break;
        }
        at = next;
    }
    let last = &grammar.rules[at as usize];
    let names: Vec<String> =
        path.iter().map(|&rule| format!("`{}`", grammar.rules[rule as usize].name)).collect();
    let message = match (circle, names.len()) {
        (true, _) => format!(
            "no text ends `{}`: it always needs {}",
            grammar.rules[path[0] as usize].name,
            names[1..].join(", which needs ")
        ),
        (false, 1) => format!("nothing matches {}", names[0]),
        (false, _) => format!("no text ends {}", names.join(", which needs ")),
    };
    let hint = if circle {
        "give the recursion an alternative that does not recur"
    } else {
        "a class without characters matches nothing"
    };
    grammar.fault(ErrorKind::Unsatisfiable, message, last.span, hint)
}
