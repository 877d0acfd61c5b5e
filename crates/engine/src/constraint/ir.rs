//! The small intermediate representation every front end produces.
//!
//! A constraint is a graph of [`Node`]s in one arena. Regular pieces (`ByteString`, `Class`, `Concat`,
//! `Union`, `Repeat`) describe byte strings directly; the `Json*` nodes describe *values* and leave
//! their spelling (quotes, escapes, separators, whitespace) to the [`Policy`](super::Policy) when the
//! machine lowers them. Recursion goes through [`Node::Rule`] only.
//!
//! Building a node costs one push; nothing is copied when a node is used twice. A tree of boxes was
//! rejected because schemas share sub-schemas through `$ref` and may be deep: an arena needs no
//! recursion to drop, and a node id is a key for memoisation when it is lowered.

use std::sync::Arc;

use compact_str::CompactString;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::policy::Policy;
use super::substring::SourceText;
use crate::warning::Warning;

/// Index of a node in an [`Ir`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

/// Index of a rule in an [`Ir`]; rules may refer to each other and to themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub(crate) u32);

/// A byte string, in the node itself if it is short: most of a schema's nodes are small, and an
/// allocation for each was a tenth of the time to compile it.
pub type ByteString = SmallVec<[u8; 24]>;
/// Inclusive ranges of bytes.
pub type Ranges = SmallVec<[(u8, u8); 12]>;
/// What may come next in a state of an automaton: a node, and the state after it. Without an allocation
/// where there are one or two ways, as there are nearly everywhere in a large automaton.
pub type Edges = SmallVec<[(NodeId, u32); 2]>;
/// Nodes that form another one.
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
    /// Matches one byte that lies in one of these inclusive ranges (sorted, disjoint, not empty).
    Class(Ranges),
    /// Matches one of a finite set of byte strings; lowered as a trie, so that thousands are cheap.
    Literals(Arc<[ByteString]>),
    /// All of these one after the other.
    Concat(Parts),
    /// Any one of these.
    Union(Parts),
    /// `min` to `max` (`None`: unbounded) repetitions.
    Repeat {
        /// What is repeated.
        node: NodeId,
        /// Fewest repetitions.
        min: u32,
        /// Most repetitions.
        max: Option<u32>,
    },
    /// A finite automaton; the first state is the start. For languages that come from intersections,
    /// complements and grammars, whose expressions would be much larger.
    Automaton {
        /// The states.
        states: Vec<AutomatonState>,
        /// Whether its texts are spans of a source of [`Ir::sources`].
        quotes: bool,
    },
    /// A reference to a rule.
    Rule(RuleId),
    /// A text of `lang` (as in [`JsonString`](Node::JsonString)) as it is, between so many characters.
    Text {
        /// The texts.
        lang: NodeId,
        /// Fewest characters.
        min_chars: u32,
        /// Most characters.
        max_chars: Option<u32>,
    },
    /// A JSON string with its quotes. The *decoded* text is in `lang` (a regular node over UTF-8
    /// bytes, without `Rule` or `Json*` nodes below; `None`: any text) and has between
    /// `min_chars` and `max_chars` Unicode scalar values.
    JsonString {
        /// Language of the decoded text.
        lang: Option<NodeId>,
        /// Fewest characters.
        min_chars: u32,
        /// Most characters.
        max_chars: Option<u32>,
    },
    /// A JSON number without bounds. A leaf, since nearly every schema has one: a dozen nodes to make and to compare would be
    /// a tenth of the time that a small schema takes.
    JsonNumber(FreeNumber),
    /// A JSON array: the items of `prefix` in order, then any number of `rest`, `min` to `max` in all.
    /// Fewer items than `prefix` has are allowed if `min` says so, as in JSON Schema.
    JsonArray {
        /// Schemas of the first items.
        prefix: Vec<NodeId>,
        /// Schema of every further item; `None`: no further items.
        rest: Option<NodeId>,
        /// Fewest items.
        min: u32,
        /// Most items.
        max: Option<u32>,
    },
    /// A JSON array of `min` to `max` different items, which are no arrays and no objects. `item` is a
    /// string without bounds on its length, a regular node, or a union of those, and spells each value in
    /// one way only.
    JsonSet {
        /// The items.
        item: NodeId,
        /// Fewest items.
        min: u32,
        /// Most items.
        max: Option<u32>,
    },
    /// A JSON array no two items of which are equal as JSON values, whatever they are.
    JsonUnique {
        /// The arrays: a [`JsonArray`](Node::JsonArray), or a node all of whose texts are arrays.
        array: NodeId,
        /// Kinds of values, and how many different ones of each there must be for any array to be
        /// possible, beside what a `JsonArray` says itself. With them every array that was begun must be
        /// one that can be ended.
        enough: Vec<(NodeId, u32)>,
    },
    /// A JSON object, or one whose properties are written in a markup.
    JsonObject(Box<Object>),
    /// Any JSON value.
    JsonAny,
}

impl Node {
    /// An automaton.
    pub fn automaton(states: Vec<AutomatonState>) -> Node {
        Node::Automaton { states, quotes: false }
    }

    /// The nodes of which this one is made.
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

    /// The same node elsewhere: with other ids of nodes, and rules that come after `first_rule` others.
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

/// A JSON object. Declared properties appear in their order, optional ones may be left out, and undeclared
/// ones come last, in any order; or all of them in any order, if the policy or the object says so. Names are decoded
/// text, and no name occurs twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Object {
    /// The declared properties, in the order in which they are written.
    pub properties: Vec<Property>,
    /// Undeclared properties; empty: none. The key languages of the entries must not overlap. Declared
    /// names are never spelled as undeclared ones.
    pub extra: Vec<Extra>,
    /// Undeclared properties that must be there, among any number of those in `extra`; keys need
    /// not be disjoint from those of `extra`, but of each there must be more than an object can have, unless
    /// the names alone meet the demand.
    pub demand: Vec<Demand>,
    /// Fewest properties, of any kind.
    pub min: u32,
    /// Most properties, of any kind.
    pub max: Option<u32>,
    /// Whether properties come in any order, whatever the policy says.
    pub any_order: bool,
    /// How properties are written, if not as in JSON.
    pub markup: Option<Arc<Markup>>,
}

impl Object {
    /// The values of all properties, declared or not.
    pub(super) fn values(&self) -> impl Iterator<Item = NodeId> + '_ {
        let entries = self.extra.iter().chain(self.demand.iter().map(|d| &d.entry));
        self.properties.iter().map(|p| p.value).chain(entries.map(|entry| entry.value))
    }
}

/// A way of writing the properties of an object one after the other, without braces, quotes, colons and commas: `open`, the
/// name as it is, `named`, the value with what closes it. Every undeclared property says which names it can have.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Markup {
    /// In front of a name.
    pub open: Box<str>,
    /// Between a name and its value.
    pub named: Box<str>,
    /// In front of the first property.
    pub first: Gap,
    /// Between two properties.
    pub between: Gap,
    /// Behind the last property.
    pub last: Gap,
}

/// What stands at a place of a [`Markup`], unless the policy asks for flexible white space: then that stands there.
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

/// Numbers without bounds and how they are written, which the policy says when a schema is parsed, as for numbers within bounds:
/// [`super::number::free`] has the texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FreeNumber {
    /// Only integers, which have no exponents.
    pub integer: bool,
    /// Whether integers may have zeros behind a point.
    pub zeros: bool,
    /// Whether there may be an exponent.
    pub exponent: bool,
    /// Most digits in front of the point, and behind it.
    pub digits: (u8, u8),
}

impl FreeNumber {
    /// All numbers, or all integers, as a policy has them.
    pub fn new(integer: bool, zeros: bool, policy: &Policy) -> Self {
        let (zeros, exponent) = (integer && zeros, !integer && policy.exponent);
        let behind = if integer && !zeros { 0 } else { policy.max_fraction_digits };
        FreeNumber { integer, zeros, exponent, digits: (policy.max_integer_digits, behind) }
    }
}

/// One state of [`Node::Automaton`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct AutomatonState {
    /// Whether the text may end here.
    pub accept: bool,
    /// What may come next, and the state after it. A node that matches the empty string makes what is
    /// possible in that state possible here.
    pub edges: Edges,
}

/// A declared property of an [`Object`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Property {
    /// The decoded name, in the property itself if it is short: most are.
    pub name: CompactString,
    /// The value. A `Never` value forbids the name (also as an extra one).
    pub value: NodeId,
    /// Whether the property must be present.
    pub required: bool,
}

/// An undeclared property of an [`Object`] that meets conditions. Together the properties that are
/// present must meet every condition that some demand names, and each must meet a new one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Demand {
    /// The conditions it meets, a bit each, at most [`MAX_DEMANDS`].
    pub meets: u32,
    /// Whether every undeclared property with such a name meets them, because the entries of `extra` that have
    /// the name ask as much of the value. Then there need not be many names.
    pub by_name: bool,
    /// Its name and value.
    pub entry: Extra,
}

/// Most conditions on the undeclared properties of one object.
pub const MAX_DEMANDS: u32 = 6;

/// Undeclared properties of an [`Object`] whose decoded names lie in `keys`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extra {
    /// Regular language of the decoded names; `None`: all names.
    pub keys: Option<NodeId>,
    /// The value.
    pub value: NodeId,
}

/// A constraint in the common representation: an arena of nodes, the rules among them, the root, and
/// what the user should be told.
#[derive(Debug, Clone)]
pub struct Ir {
    nodes: Vec<Node>,
    rules: Vec<Option<NodeId>>,
    root: NodeId,
    /// Things honoured less strictly than the user may think (unknown formats and the like).
    pub warnings: Vec<Warning>,
    /// Texts that tokenizers may have as special tokens: how tags begin and end, triggers, markers.
    pub marks: Vec<String>,
    /// The texts that spans are quoted from.
    pub sources: Vec<Arc<SourceText>>,
    /// Nodes of classes of characters that were lowered to UTF-8.
    pub(super) classes: FxHashMap<Box<[(char, char)]>, NodeId>,
}

impl Default for Ir {
    fn default() -> Self {
        Self::new()
    }
}

impl Ir {
    /// Any JSON object.
    pub(super) fn json_object() -> Self {
        let mut ir = Ir::new();
        let value = ir.push(Node::JsonAny);
        let extra = vec![Extra { keys: None, value }];
        let root = ir.push(Node::JsonObject(Box::new(Object { extra, ..Default::default() })));
        ir.set_root(root);
        ir
    }

    /// An empty arena whose root is [`Node::Never`] until [`set_root`](Self::set_root).
    pub fn new() -> Self {
        Ir {
            nodes: vec![Node::Never],
            rules: Vec::new(),
            root: NodeId(0),
            warnings: Vec::new(),
            marks: Vec::new(),
            sources: Vec::new(),
            classes: FxHashMap::default(),
        }
    }

    /// Makes room for so many more nodes.
    pub(crate) fn reserve(&mut self, nodes: usize) {
        self.nodes.reserve(nodes);
    }

    /// Adds a node.
    pub fn push(&mut self, node: Node) -> NodeId {
        self.nodes.push(node);
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// The node of an id.
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// About how many byte states the constraint takes when it is lowered, to reserve room for.
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

    /// Appends the nodes and rules of another representation; its root here. Its warnings come along.
    pub(crate) fn append(&mut self, other: &Ir) -> NodeId {
        let (first, first_rule) = (self.nodes.len() as u32, self.rules.len() as u32);
        let moved = |id: NodeId| NodeId(first + id.0);
        self.nodes.extend(other.nodes.iter().map(|node| node.moved(moved, first_rule)));
        self.rules.extend(other.rules.iter().map(|body| body.map(moved)));
        for warning in &other.warnings {
            // What is appended twice need not be said twice.
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
        self.marks.extend(other.marks.iter().cloned());
        other.sources.iter().for_each(|source| self.add_source(source.clone()));
        moved(other.root)
    }

    /// Notes a text that spans are quoted from.
    pub(crate) fn add_source(&mut self, source: Arc<SourceText>) {
        if !self.sources.contains(&source) {
            self.sources.push(source);
        }
    }

    /// The properties of all objects come in any order from now on.
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

    /// Whether nothing was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() <= 1
    }

    /// Reserves a rule, to be defined later; until then it matches nothing.
    pub fn declare_rule(&mut self) -> RuleId {
        self.rules.push(None);
        RuleId(self.rules.len() as u32 - 1)
    }

    /// Gives a declared rule its body.
    pub fn define_rule(&mut self, rule: RuleId, body: NodeId) {
        self.rules[rule.0 as usize] = Some(body);
    }

    /// The body of a rule, `None` while undefined.
    pub fn rule(&self, rule: RuleId) -> Option<NodeId> {
        self.rules[rule.0 as usize]
    }

    /// Number of rules.
    pub fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// Sets what the whole output must match.
    pub fn set_root(&mut self, root: NodeId) {
        self.root = root;
    }

    /// What the whole output must match.
    pub fn root(&self) -> NodeId {
        self.root
    }

    /// Shorthand: a literal.
    pub fn bytes(&mut self, text: impl AsRef<[u8]>) -> NodeId {
        self.push(Node::Bytes(ByteString::from_slice(text.as_ref())))
    }

    /// Shorthand: one of some byte strings.
    pub fn literals(&mut self, texts: impl IntoIterator<Item = impl AsRef<[u8]>>) -> NodeId {
        let texts = texts.into_iter().map(|text| ByteString::from_slice(text.as_ref())).collect();
        self.push(Node::Literals(texts))
    }

    /// Shorthand: a concatenation.
    pub fn concat(&mut self, parts: impl Into<Parts>) -> NodeId {
        let parts = parts.into();
        match parts.len() {
            0 => self.push(Node::Empty),
            1 => parts[0],
            _ => self.push(Node::Concat(parts)),
        }
    }

    /// Shorthand: a union.
    pub fn union(&mut self, parts: impl Into<Parts>) -> NodeId {
        let parts = parts.into();
        match parts.len() {
            0 => self.push(Node::Never),
            1 => parts[0],
            _ => self.push(Node::Union(parts)),
        }
    }

    /// Shorthand: a repetition.
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

/// How often a part is repeated whose repetition `inner` is repeated `outer` times, where that is one span that is known
/// without knowing the part: `(x+)+` written out would copy what it repeats with each sign, so a dozen of them thousands of times.
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
        // Which numbers of parts, up to some, there can be.
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
                // More than so many rounds add no part.
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
