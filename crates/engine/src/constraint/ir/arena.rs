//! The arena of nodes, with its rules, its root, and what the front ends found out.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::ids::{ByteString, NodeId, Parts, RuleId};
use super::node::Node;
use super::object::{Extra, Object};
use super::span_source::SpanSource;
use crate::warning::Warning;

/// A constraint in the intermediate representation: an arena of nodes, the rules among them, the
/// root, and warnings for the user.
#[derive(Debug, Clone)]
pub struct Ir {
    nodes: Vec<Node>,
    rules: Vec<Option<NodeId>>,
    root: NodeId,
    /// Warnings about parts that are honoured less strictly than the user may expect, such as
    /// unknown formats.
    pub warnings: Vec<Warning>,
    /// Texts that tokenizers may have as special tokens: beginnings and ends of tags, triggers,
    /// markers.
    pub marks: Vec<String>,
    /// The source texts of verbatim spans.
    pub sources: Vec<Arc<SpanSource>>,
    /// The schemas of tools, each of which must allow something.
    pub(crate) tools: Vec<ToolSchema>,
    /// Nodes of character classes that were lowered to UTF-8.
    pub(in crate::constraint) classes: FxHashMap<Box<[(char, char)]>, NodeId>,
    /// True if a register may count repeated characters. The language of a JSON string has no
    /// registers of its own.
    pub(in crate::constraint) counts: bool,
}

/// The schema of a tool in a constraint. Only compiling shows whether some schemas allow anything.
#[derive(Debug, Clone)]
pub(crate) struct ToolSchema {
    /// The node of the arguments.
    pub node: NodeId,
    pub name: String,
    /// JSON pointer of the schema in the list of tools.
    pub pointer: String,
    /// True if the tool may be left out.
    pub skipped: bool,
}

impl Default for Ir {
    fn default() -> Self {
        Self::new()
    }
}

/// Smallest number of characters of a wide class that a register counts. Of a narrow one, such as that
/// of names, four times as many: fewer are faster as states of the automaton around them.
pub(in crate::constraint) const MIN_COUNTED: u32 = 64;
/// Largest number of characters that a register counts; more are a mistake.
const MAX_COUNTED: u32 = 1 << 20;
/// Number of characters from which a class is wide.
const WIDE: u32 = 128;

/// Returns true if a register counts at most `max` characters of a class.
pub(in crate::constraint) fn is_counted(ranges: &[(char, char)], max: u32) -> bool {
    let size: u32 = ranges.iter().map(|&(low, high)| high as u32 - low as u32 + 1).sum();
    let least = if size >= WIDE { MIN_COUNTED } else { 4 * MIN_COUNTED };
    size > 0 && (least..=MAX_COUNTED).contains(&max)
}

impl Ir {
    /// Returns the representation of any JSON object.
    pub(in crate::constraint) fn json_object() -> Self {
        let mut ir = Ir::new();
        let value = ir.push(Node::JsonAny);
        let extra = vec![Extra { keys: None, value }];
        let root = ir.push(Node::JsonObject(Box::new(Object { extra, ..Default::default() })));
        ir.set_root(root);
        ir
    }

    /// Returns an empty arena whose root is [`Node::Never`] until [`set_root`](Self::set_root).
    pub fn new() -> Self {
        Ir {
            nodes: vec![Node::Never],
            rules: Vec::new(),
            root: NodeId(0),
            warnings: Vec::new(),
            marks: Vec::new(),
            sources: Vec::new(),
            tools: Vec::new(),
            classes: FxHashMap::default(),
            counts: false,
        }
    }

    /// Returns an empty arena in which registers count repeated characters.
    pub(in crate::constraint) fn counting() -> Self {
        Ir { counts: true, ..Self::new() }
    }

    /// Reserves memory for `nodes` more nodes.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
    }

    /// Adds a node and returns its id.
    pub fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Returns the node with this id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// Returns all objects.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Object> {
        self.nodes.iter().filter_map(|node| match node {
            Node::JsonObject(object) => Some(&**object),
            _ => None,
        })
    }

    /// Estimates the number of byte states of the lowered constraint, to reserve memory.
    pub(crate) fn weight(&self) -> usize {
        let of = |node: &Node| match node {
            Node::Bytes(bytes) => bytes.len(),
            Node::Literals(list) => list.iter().map(|word| word.len()).sum(),
            Node::Automaton { states, .. } => 2 * states.len(),
            Node::JsonObject(object) => object.properties.iter().map(|p| p.name.len() + 7).sum::<usize>() + 8,
            _ => 4,
        };
        self.nodes.iter().map(of).sum()
    }

    /// Appends the nodes, rules and warnings of another representation; returns its root here.
    pub(crate) fn append(&mut self, other: &Ir) -> NodeId {
        let (first, first_rule) = (self.nodes.len() as u32, self.rules.len() as u32);
        let moved = |id: NodeId| NodeId(first + id.0);
        self.nodes.extend(other.nodes.iter().map(|node| node.moved(moved, first_rule)));
        self.rules.extend(other.rules.iter().map(|body| body.map(moved)));
        for warning in &other.warnings {
            // A warning is kept once, however often its constraint is appended.
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        self.marks.extend(other.marks.iter().cloned());
        other.sources.iter().for_each(|source| self.add_source(source.clone()));
        self.tools
            .extend(other.tools.iter().map(|tool| ToolSchema { node: moved(tool.node), ..tool.clone() }));
        moved(other.root)
    }

    /// Adds a source text for verbatim spans.
    pub(crate) fn add_source(&mut self, source: Arc<SpanSource>) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Lets the properties of all objects come in any order.
    pub(in crate::constraint) fn free_order(&mut self) {
        for node in &mut self.nodes {
            if let Node::JsonObject(object) = node {
                object.any_order = true;
            }
        }
    }

    /// Number of nodes, for budgets.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns true if there are no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    /// Reserves a rule, to be defined later; until then it matches nothing.
    pub fn declare_rule(&mut self) -> RuleId {
        self.rules.push(None);
        RuleId(self.rules.len() as u32 - 1)
    }

    /// Sets the body of a declared rule.
    pub fn define_rule(&mut self, rule: RuleId, body: NodeId) {
        self.rules[rule.0 as usize] = Some(body);
    }

    /// Returns the body of a rule, `None` while undefined.
    pub fn rule(&self, rule: RuleId) -> Option<NodeId> {
        self.rules[rule.0 as usize]
    }

    /// Number of rules.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Sets the node that the whole output must match.
    pub fn set_root(&mut self, root: NodeId) {
        self.root = root;
    }

    /// Returns the node that the whole output must match.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Adds a literal.
    pub fn bytes(&mut self, text: impl AsRef<[u8]>) -> NodeId {
        self.push(Node::Bytes(ByteString::from_slice(text.as_ref())))
    }

    /// Adds a choice between byte strings.
    pub fn literals(&mut self, texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> NodeId {
        let texts = texts.into_iter().map(|text| ByteString::from_slice(text.as_ref())).collect();
        self.push(Node::Literals(texts))
    }

    /// Adds a concatenation.
    pub fn concat(&mut self, parts: impl Into<Parts>) -> NodeId {
        let parts = parts.into();
        match parts.len() {
            0 => self.push(Node::Empty),
            1 => parts[0],
            _ => self.push(Node::Concat(parts)),
        }
    }

    /// Adds a union.
    pub fn union(&mut self, parts: impl Into<Parts>) -> NodeId {
        let parts = parts.into();
        match parts.len() {
            0 => self.push(Node::Never),
            1 => parts[0],
            _ => self.push(Node::Union(parts)),
        }
    }

    /// Adds a repetition.
    pub fn repeat(&mut self, node: NodeId, min: u32, max: Option<u32>) -> NodeId {
        match (min, max) {
            (1, Some(1)) => node,
            (0, Some(0)) => self.push(Node::Empty),
            _ => match *self.node(node) {
                Node::Repeat { node: inner, min: least, max: most }
                    if let Some((min, max)) = repeated((least, most), (min, max)) =>
                {
                    self.push(Node::Repeat { node: inner, min, max })
                }
                _ => self.push(Node::Repeat { node, min, max }),
            },
        }
    }

    /// Adds `min` to `max` characters of a class, which a register counts.
    pub(in crate::constraint) fn counted(&mut self, class: NodeId, min: u32, max: u32) -> NodeId {
        let lang = self.repeat(class, 0, None);
        self.push(Node::Text { lang, min_chars: min, max_chars: Some(max) })
    }
}

/// Merges the counts of a repetition `inner` that is repeated `outer` times. Returns `None` where
/// the merged counts are not one range that is known without knowing the part. Written out, nested
/// repetitions such as `(x+)+` copy their part once per operator, which grows exponentially.
pub(crate) fn repeated(inner: (u32, Option<u32>), outer: (u32, Option<u32>)) -> Option<(u32, Option<u32>)> {
    match (inner, outer) {
        (_, (_, Some(0))) => None,
        ((0, None), _) => Some((0, None)),
        ((1, None), (min, _)) => Some((min, None)),
        ((0, Some(1)), (_, max)) => Some((0, max)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_of_repetitions_are_as_often() {
        const FAR: usize = 12;
        let spans = (0..4u32)
            .flat_map(|min| (min..5).map(Some).chain([None]).map(move |max| (min, max)).collect::<Vec<_>>());
        // By number of parts, up to a bound: whether this number is possible.
        let counts = |(min, max): (u32, Option<u32>)| -> [bool; FAR + 1] {
            std::array::from_fn(|n| n >= min as usize && max.is_none_or(|max| n <= max as usize))
        };
        let mut known = 0;
        for inner in spans.clone() {
            for outer in spans.clone() {
                let Some(found) = repeated(inner, outer) else { continue };
                known += 1;
                let once = counts(inner);
                let mut sums = [false; FAR + 1];
                let mut all = [false; FAR + 1];
                sums[0] = true;
                // More rounds add no part.
                for round in 0..=FAR as u32 + 4 {
                    if round >= outer.0 && outer.1.is_none_or(|max| round <= max) {
                        (0..=FAR).for_each(|n| all[n] |= sums[n]);
                    }
                    sums = std::array::from_fn(|n| (0..=n).any(|m| sums[n - m] && once[m]));
                }
                assert_eq!(counts(found), all, "{inner:?} {outer:?}");
            }
        }
        assert!(known > 30);
    }
}
