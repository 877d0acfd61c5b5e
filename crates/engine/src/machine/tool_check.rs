//! Tools whose schemas allow nothing, which only the automaton shows.
//!
//! Without this check such a tool would vanish from a constraint that has others.
//!
//! # Cost
//!
//! A few lookups for each tool: lowering has decided already which rules can match.
//!
//! # Alternatives considered
//!
//! Compiling each schema alone: it takes the time of the whole constraint once more.

use rustc_hash::FxHashSet;

use super::intern::Nodes;
use super::lower_regular::Value;
use crate::constraint::ir::{Node, NodeId, ToolSchema};

/// What lowering found out about the nodes of a constraint.
pub(super) struct ToolCheck<'a> {
    pub nodes: Nodes<'a>,
    /// The rules of the nodes that needed one.
    pub values: &'a [Option<Value>],
    /// Rules that can match.
    pub rule_ok: &'a [bool],
}

impl ToolCheck<'_> {
    /// Returns the tools whose schemas cannot match.
    pub(super) fn lost(&self, tools: &[ToolSchema]) -> Vec<ToolSchema> {
        tools.iter().filter(|tool| !self.may_match(tool.node)).cloned().collect()
    }

    /// Returns true if a value may match; also for nodes that needed no rule.
    fn may_match(&self, node: NodeId) -> bool {
        let (mut todo, mut seen) = (vec![node], FxHashSet::default());
        while let Some(node) = todo.pop() {
            let node = self.nodes.same(node);
            if !seen.insert(node) {
                continue;
            }
            match (self.values[node.0 as usize], self.nodes.node(node)) {
                (Some(value), _) if value.is_some_and(|(rule, _)| self.rule_ok[rule.0 as usize]) => {
                    return true;
                }
                (Some(_), _) | (None, Node::Never) => {}
                (None, Node::Union(parts)) => todo.extend(parts.iter()),
                (None, _) => return true,
            }
        }
        false
    }
}
