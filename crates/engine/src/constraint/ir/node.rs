//! The kinds of nodes.

use std::sync::Arc;

use super::ids::{ByteString, Edges, NodeId, Parts, Ranges, RuleId};
use super::object::Object;
use crate::constraint::policy::Policy;

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
        /// True if its texts are spans of a source of [`Ir::sources`](super::Ir::sources).
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
    pub(in crate::constraint) fn parts(&self, mut part: impl FnMut(NodeId)) {
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
    pub(in crate::constraint) fn moved(&self, to: impl Fn(NodeId) -> NodeId, first_rule: u32) -> Node {
        let mut copy = self.clone();
        let part = |id: &mut NodeId| *id = to(*id);
        match &mut copy {
            Node::Never
            | Node::Empty
            | Node::Bytes(_)
            | Node::Class(_)
            | Node::Literals(_)
            | Node::JsonNumber(_)
            | Node::JsonAny => {}
            Node::Rule(rule) => rule.0 += first_rule,
            Node::Concat(parts) | Node::Union(parts) => parts.iter_mut().for_each(part),
            Node::Repeat { node, .. } => part(node),
            Node::Automaton { states, .. } => {
                states.iter_mut().flat_map(|s| &mut s.edges).for_each(|edge| part(&mut edge.0));
            }
            Node::Text { lang, .. } => part(lang),
            Node::JsonString { lang, .. } => lang.iter_mut().for_each(part),
            Node::JsonArray { prefix, rest, .. } => prefix.iter_mut().chain(rest).for_each(part),
            Node::JsonSet { item, .. } => part(item),
            Node::JsonUnique { array, enough } => {
                part(array);
                enough.iter_mut().for_each(|(node, _)| part(node));
            }
            Node::JsonObject(object) => {
                object.properties.iter_mut().for_each(|property| part(&mut property.value));
                let entries = object.extra.iter_mut().chain(object.demand.iter_mut().map(|d| &mut d.entry));
                entries.flat_map(|entry| entry.keys.iter_mut().chain([&mut entry.value])).for_each(part);
            }
        }
        copy
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
