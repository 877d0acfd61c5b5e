//! The intermediate representation (IR) of constraints, which every front end produces: byte
//! languages and JSON values, as nodes of one arena.
//!
//! A constraint is a graph of [`Node`]s in one arena. Regular nodes (`Bytes`, `Class`, `Concat`,
//! `Union`, `Repeat`) describe byte strings directly. The `Json*` nodes describe *values* and leave
//! their encoding (quotes, escapes, separators, white space) to the [`Policy`](super::Policy),
//! which applies when the machine lowers them. All recursion uses [`Node::Rule`].
//!
//! # Cost
//! Building a node costs one push; nothing is copied when a node is used twice.
//!
//! # Alternatives considered
//! A tree of boxes was rejected because schemas share sub-schemas through `$ref` and may be deep.
//! An arena needs no recursion to drop, and a node id is a key for memoisation when the node is
//! lowered.

use std::sync::Arc;

use compact_str::CompactString;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::policy::Policy;
use super::substring::SourceText;
use super::tools::ToolSchema;
use crate::warning::Warning;

/// Index of a node in an [`Ir`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// Index of a rule in an [`Ir`]; rules may refer to each other and to themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u32);

/// A byte string, stored in the node itself if it is short. Most nodes of a schema are small, so
/// separate allocations would cost much of the compile time.
pub type ByteString = SmallVec<[u8; 24]>;
/// Inclusive ranges of bytes.
pub type Ranges = SmallVec<[(u8, u8); 12]>;
/// The transitions of a state of an automaton: each is a node and the state after it. One or two
/// transitions need no allocation; nearly all states of large automata have no more.
pub type Edges = SmallVec<[(NodeId, u32); 2]>;
/// The parts of a node.
pub type Parts = SmallVec<[NodeId; 6]>;

/// One node of the representation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Node {
    /// Matches nothing at all (an unsatisfiable branch).
    Never,
    /// Matches the empty byte string.
    Empty,
    /// Matches exactly these bytes.
    Bytes(ByteString),
    /// Matches one byte that is in one of these inclusive ranges (sorted, disjoint, not empty).
    Class(Ranges),
    /// Matches one of a finite set of byte strings. Lowered as a trie, so that thousands are cheap.
    Literals(Arc<[ByteString]>),
    /// Matches all of these in order.
    Concat(Parts),
    /// Matches any one of these.
    Union(Parts),
    /// Matches `min` to `max` (`None`: unbounded) repetitions.
    Repeat {
        /// The repeated node.
        node: NodeId,
        /// Minimum number of repetitions.
        min: u32,
        /// Maximum number of repetitions.
        max: Option<u32>,
    },
    /// A finite automaton; the first state is the start. For languages of intersections,
    /// complements and grammars, whose expressions would be much larger.
    Automaton {
        /// The states.
        states: Vec<AutomatonState>,
        /// True if its texts are spans of a source of [`Ir::sources`].
        quotes: bool,
    },
    /// A reference to a rule.
    Rule(RuleId),
    /// An unescaped text of `lang` (as in [`JsonString`](Node::JsonString)) with bounds on its
    /// number of characters.
    Text {
        /// Language of the text.
        lang: NodeId,
        /// Minimum number of characters.
        min_chars: u32,
        /// Maximum number of characters.
        max_chars: Option<u32>,
    },
    /// A JSON string with its quotes. The *decoded* text is in `lang` and has between `min_chars`
    /// and `max_chars` Unicode scalar values. `lang` is a regular node over UTF-8 bytes, without
    /// `Rule` or `Json*` nodes below (`None`: any text).
    JsonString {
        /// Language of the decoded text.
        lang: Option<NodeId>,
        /// Minimum number of characters.
        min_chars: u32,
        /// Maximum number of characters.
        max_chars: Option<u32>,
    },
    /// A JSON number without bounds. It is a single leaf because nearly every schema has one:
    /// building and comparing the nodes of a number would cost much of the compile time of a small
    /// schema.
    JsonNumber(FreeNumber),
    /// A JSON array: the items of `prefix` in order, then any number of `rest`, `min` to `max`
    /// items in all. As in JSON Schema, fewer items than `prefix` has are allowed if `min` allows
    /// it.
    JsonArray {
        /// Schemas of the first items.
        prefix: Vec<NodeId>,
        /// Schema of every further item; `None`: no further items.
        rest: Option<NodeId>,
        /// Minimum number of items.
        min: u32,
        /// Maximum number of items.
        max: Option<u32>,
    },
    /// A JSON array of `min` to `max` unique items, which are not arrays or objects. `item` is a
    /// string without bounds on its length, a regular node, or a union of those. It has exactly one
    /// text for each value.
    JsonSet {
        /// Language of the items.
        item: NodeId,
        /// Minimum number of items.
        min: u32,
        /// Maximum number of items.
        max: Option<u32>,
    },
    /// A JSON array of any items, no two of which are equal as JSON values.
    JsonUnique {
        /// The arrays: a [`JsonArray`](Node::JsonArray), or a node whose texts are all arrays.
        array: NodeId,
        /// Kinds of values, each with the number of different values it must have for any array to
        /// be possible. They are in addition to the requirements of a `JsonArray` itself. If they
        /// are met, every array that was begun can be completed.
        enough: Vec<(NodeId, u32)>,
    },
    /// A JSON object, or an object whose properties are written in a markup.
    JsonObject(Box<Object>),
    /// Any JSON value.
    JsonAny,
}

impl Node {
    /// Creates an automaton whose texts are not spans of a source.
    pub fn automaton(states: Vec<AutomatonState>) -> Node {
        Node::Automaton { states, quotes: false }
    }

    /// Calls `part` with each node of which this one consists.
    pub(super) fn parts(&self, mut part: impl FnMut(NodeId)) {
        match self {
            Node::Never
            | Node::Empty
            | Node::Bytes(_)
            | Node::Class(_)
            | Node::Literals(_)
            | Node::Rule(_)
            | Node::JsonNumber(_)
            | Node::JsonAny => {}
            Node::Concat(parts) | Node::Union(parts) => parts.iter().copied().for_each(part),
            Node::Repeat { node, .. } => part(*node),
            Node::Automaton { states, .. } => {
                states.iter().flat_map(|s| &s.edges).for_each(|edge| part(edge.0));
            }
            Node::Text { lang, .. } => part(*lang),
            Node::JsonString { lang, .. } => lang.iter().copied().for_each(part),
            Node::JsonArray { prefix, rest, .. } => prefix.iter().chain(rest).copied().for_each(part),
            Node::JsonSet { item, .. } => part(*item),
            Node::JsonUnique { array, enough } => {
                part(*array);
                enough.iter().for_each(|&(node, _)| part(node));
            }
            Node::JsonObject(object) => {
                let entries = object.extra.iter().chain(object.demand.iter().map(|d| &d.entry));
                entries.filter_map(|entry| entry.keys).for_each(&mut part);
                object.values().for_each(part);
            }
        }
    }

    /// Returns a copy of the node for another arena: with the node ids that `to` returns, and with
    /// rules numbered from `first_rule`.
    pub(super) fn moved(&self, to: impl Fn(NodeId) -> NodeId, first_rule: u32) -> Node {
        let all = |ids: &[NodeId]| ids.iter().map(|&id| to(id)).collect::<Parts>();
        match self {
            Node::Concat(parts) => Node::Concat(all(parts)),
            Node::Union(parts) => Node::Union(all(parts)),
            Node::Repeat { node, min, max } => Node::Repeat { node: to(*node), min: *min, max: *max },
            Node::Automaton { states, quotes } => {
                let state = |s: &AutomatonState| AutomatonState {
                    accept: s.accept,
                    edges: s.edges.iter().map(|&(id, next)| (to(id), next)).collect(),
                };
                Node::Automaton { states: states.iter().map(state).collect(), quotes: *quotes }
            }
            Node::Rule(rule) => Node::Rule(RuleId(first_rule + rule.0)),
            Node::JsonString { lang, min_chars, max_chars } => {
                Node::JsonString { lang: lang.map(to), min_chars: *min_chars, max_chars: *max_chars }
            }
            Node::Text { lang, min_chars, max_chars } => {
                Node::Text { lang: to(*lang), min_chars: *min_chars, max_chars: *max_chars }
            }
            Node::JsonArray { prefix, rest, min, max } => {
                Node::JsonArray { prefix: all(prefix).into_vec(), rest: rest.map(to), min: *min, max: *max }
            }
            Node::JsonSet { item, min, max } => Node::JsonSet { item: to(*item), min: *min, max: *max },
            Node::JsonUnique { array, enough } => {
                let enough = enough.iter().map(|&(node, count)| (to(node), count)).collect();
                Node::JsonUnique { array: to(*array), enough }
            }
            Node::JsonObject(object) => {
                let property = |p: &Property| Property { value: to(p.value), ..p.clone() };
                let other = |e: &Extra| Extra { keys: e.keys.map(&to), value: to(e.value) };
                let demand = |d: &Demand| Demand { entry: other(&d.entry), ..*d };
                Node::JsonObject(Box::new(Object {
                    properties: object.properties.iter().map(property).collect(),
                    extra: object.extra.iter().map(other).collect(),
                    demand: object.demand.iter().map(demand).collect(),
                    markup: object.markup.clone(),
                    ..**object
                }))
            }
            Node::Never
            | Node::Empty
            | Node::Bytes(_)
            | Node::Class(_)
            | Node::Literals(_)
            | Node::JsonNumber(_)
            | Node::JsonAny => self.clone(),
        }
    }
}

/// A JSON object. Declared properties appear in their order, and optional ones may be left out.
/// Undeclared properties come last, in any order. If the policy or the object says so, all
/// properties come in any order. Names are decoded text, and no name occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Object {
    /// The declared properties, in the order in which they are written.
    pub properties: Vec<Property>,
    /// Undeclared properties; empty: none. The key languages of the entries must not overlap.
    /// Declared names are never written as undeclared ones.
    pub extra: Vec<Extra>,
    /// Required undeclared properties, among any number of those in `extra`. Their keys may overlap
    /// with those of `extra`. Each must have more possible keys than an object can have, unless the
    /// names alone meet the demand.
    pub demand: Vec<Demand>,
    /// Minimum number of properties of any kind.
    pub min: u32,
    /// Maximum number of properties of any kind.
    pub max: Option<u32>,
    /// True if properties come in any order, whatever the policy says.
    pub any_order: bool,
    /// The markup of the properties; `None`: JSON.
    pub markup: Option<Arc<Markup>>,
}

impl Object {
    /// Returns the values of all properties, declared or not.
    pub(super) fn values(&self) -> impl Iterator<Item = NodeId> + '_ {
        let entries = self.extra.iter().chain(self.demand.iter().map(|d| &d.entry));
        self.properties.iter().map(|p| p.value).chain(entries.map(|entry| entry.value))
    }
}

/// A markup for the properties of an object, without braces, quotes, colons and commas. A property
/// is `open`, the unescaped name, `named`, and the value with its closing text. Every undeclared
/// property has a language of names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Markup {
    /// The text before a name.
    pub open: Box<str>,
    /// The text between a name and its value.
    pub named: Box<str>,
    /// The gap before the first property.
    pub first: Gap,
    /// The gap between two properties.
    pub between: Gap,
    /// The gap after the last property.
    pub last: Gap,
}

/// White space in a [`Markup`]. A policy with flexible white space replaces it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Gap {
    /// Nothing.
    #[default]
    None,
    /// A line break.
    Line,
    /// A line break or nothing.
    MayLine,
}

/// Numbers without bounds, and how they are written. The policy determines this when a schema is
/// parsed, as for numbers with bounds. `number::free` has the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FreeNumber {
    /// Only integers, which have no exponents.
    pub integer: bool,
    /// True if integers may have zeros after a point.
    pub zeros: bool,
    /// True if there may be an exponent.
    pub exponent: bool,
    /// Maximum number of digits before and after the point.
    pub digits: (u8, u8),
}

impl FreeNumber {
    /// Returns all numbers, or all integers, as a policy writes them.
    pub fn new(integer: bool, zeros: bool, policy: &Policy) -> Self {
        let (zeros, exponent) = (integer && zeros, !integer && policy.exponent);
        let behind = if integer && !zeros { 0 } else { policy.max_fraction_digits };
        FreeNumber { integer, zeros, exponent, digits: (policy.max_integer_digits, behind) }
    }
}

/// One state of [`Node::Automaton`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AutomatonState {
    /// True if the text may end here.
    pub accept: bool,
    /// The transitions: a node and the state after it. A node that matches the empty string makes
    /// the transitions of that state possible here.
    pub edges: Edges,
}

/// A declared property of an [`Object`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Property {
    /// The decoded name, stored in the property itself if it is short: most are.
    pub name: CompactString,
    /// The value. A `Never` value forbids the name (also as an undeclared one).
    pub value: NodeId,
    /// True if the property must be present.
    pub required: bool,
}

/// An undeclared property of an [`Object`] that meets conditions. The properties present must
/// together meet every condition of all demands, and each must meet a new one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The conditions it meets, one bit each, at most [`MAX_DEMANDS`].
    pub meets: u32,
    /// True if every undeclared property with such a name meets the conditions, because the entries
    /// of `extra` with that name require the same of the value. Then few names suffice.
    pub by_name: bool,
    /// Its name and value.
    pub entry: Extra,
}

/// Maximum number of conditions on the undeclared properties of one object.
pub const MAX_DEMANDS: u32 = 6;

/// Undeclared properties of an [`Object`] whose decoded names are in `keys`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Regular language of the decoded names; `None`: all names.
    pub keys: Option<NodeId>,
    /// The value.
    pub value: NodeId,
}

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
    pub sources: Vec<Arc<SourceText>>,
    /// The schemas of tools, each of which must allow something.
    pub(crate) tools: Vec<ToolSchema>,
    /// Nodes of character classes that were lowered to UTF-8.
    pub(super) classes: FxHashMap<Box<[(char, char)]>, NodeId>,
}

impl Default for Ir {
    fn default() -> Self {
        Self::new()
    }
}

impl Ir {
    /// Returns the representation of any JSON object.
    pub(super) fn json_object() -> Self {
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
        }
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
    pub(crate) fn add_source(&mut self, source: Arc<SourceText>) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// Lets the properties of all objects come in any order.
    pub(super) fn free_order(&mut self) {
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
