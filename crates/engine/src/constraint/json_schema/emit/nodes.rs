//! Nodes of the representation: each language that schemas need often is one node.
//!
//! # Cost
//!
//! A lookup in a table for each number, literal or plain type.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::super::read::{SchemaContext, Symbol, Types};
use super::plan::Keys;
use crate::constraint::ir::{AutomatonState, ByteString, Extra, FreeNumber, Ir, Node, NodeId, Object, Parts};
use crate::constraint::number::{self, NumberSpec};
use crate::constraint::policy::{Policy, Whitespace};
use crate::constraint::{ecma, regular};
use crate::error::{ErrorKind, Result};

/// Maximum number of nodes for which memory is reserved at the start.
const MAX_RESERVED: usize = 1_000;

/// Types with a single value, and its text.
pub(super) const WORDS: [(Types, &str); 3] =
    [(Types::NULL, "null"), (Types::TRUE, "true"), (Types::FALSE, "false")];

/// Texts of literals: often a single one, and most of them short.
pub(super) type LiteralSet = SmallVec<[ByteString; 1]>;

/// Key of a number language: integer, bounds, scale, greatest exponent.
pub(super) type NumberKey = (bool, Option<(Symbol, bool)>, Option<(Symbol, bool)>, Option<u32>, Option<u32>);

/// The representation that is being built, with the nodes that were made.
pub(super) struct NodeBuilder<'p> {
    pub ir: Ir,
    pub any: NodeId,
    pub never: NodeId,
    pub policy: &'p Policy,
    /// True if integers may have zeros after a point.
    pub equal_integers: bool,
    numbers: FxHashMap<NumberKey, NodeId>,
    pub literals: HashTable<NodeId>,
    /// Nodes of schemas that only name types; about half of all schemas do.
    plain: SmallVec<[(Types, NodeId); 8]>,
    /// A buffer.
    pub text: Vec<u8>,
}

impl<'p> NodeBuilder<'p> {
    pub(super) fn new(context: &SchemaContext<'p>) -> Self {
        let mut ir = Ir::new();
        // A schema mostly becomes about half as many nodes as it has values.
        ir.reserve((16 + context.doc.len() / 2).min(MAX_RESERVED));
        NodeBuilder {
            any: ir.push(Node::JsonAny),
            never: ir.push(Node::Never),
            ir,
            policy: context.policy,
            equal_integers: context.equal_integers(),
            numbers: FxHashMap::default(),
            literals: HashTable::new(),
            plain: SmallVec::new(),
            text: Vec::new(),
        }
    }

    pub(super) fn is_never(&self, node: NodeId) -> bool {
        matches!(self.ir.node(node), Node::Never)
    }

    /// Returns the node of a schema that only names types: the result of `build` in `to_ir`,
    /// without the steps before it. `None` for fractions without integers, which are computed.
    pub(super) fn types_node(&mut self, types: Types) -> Option<NodeId> {
        if let Some(&(_, node)) = self.plain.iter().find(|known| known.0 == types) {
            return Some(node);
        }
        if types.and(Types::NUMBER) == Types::FRACTION {
            return None;
        }
        let any = self.any;
        if types == Types::ALL {
            return Some(any);
        }
        let numbers = FreeNumber::new(!types.meets(Types::FRACTION), self.equal_integers, self.policy);
        let mut parts = Parts::new();
        let words = WORDS.iter().filter(|w| types.meets(w.0)).map(|w| ByteString::from_slice(w.1.as_bytes()));
        let words: LiteralSet = words.collect();
        if !words.is_empty() {
            parts.push(self.words(words));
        }
        let others = [
            (Types::NUMBER, Node::JsonNumber(numbers)),
            (Types::STRING, Node::JsonString { lang: None, min_chars: 0, max_chars: None }),
            (Types::ARRAY, Node::JsonArray { prefix: Vec::new(), rest: Some(any), min: 0, max: None }),
        ];
        for (kind, node) in others {
            if types.meets(kind) {
                parts.push(self.ir.push(node));
            }
        }
        if types.meets(Types::OBJECT) {
            let extra = vec![Extra { keys: None, value: any }];
            parts.push(self.object(Object { extra, ..Object::default() }));
        }
        let node = self.ir.union(parts);
        self.plain.push((types, node));
        Some(node)
    }

    /// Returns true if a node holds an array or an object, so that a rule of its own pays.
    pub(super) fn is_composite(&self, node: NodeId) -> bool {
        let ir = &self.ir;
        let holds = |id: NodeId| {
            matches!(ir.node(id), Node::JsonArray { .. } | Node::JsonUnique { .. } | Node::JsonObject(_))
        };
        match ir.node(node) {
            Node::Union(parts) => parts.iter().any(|&p| holds(p)),
            _ => holds(node),
        }
    }

    /// Returns the number language of a specification; equal specifications share a node.
    pub(super) fn number_node(&mut self, key: NumberKey, spec: &NumberSpec) -> Result<NodeId> {
        if let Some(&node) = self.numbers.get(&key) {
            return Ok(node);
        }
        let NumberSpec { integer, zeros, minimum, maximum, scale, max_exponent } = spec;
        let bounded = minimum.is_some() || maximum.is_some() || scale.is_some() || max_exponent.is_some();
        let node = match bounded {
            true => number_or_never(spec, self.policy, &mut self.ir)?.unwrap_or(self.never),
            false => self.ir.push(Node::JsonNumber(FreeNumber::new(*integer, *zeros, self.policy))),
        };
        self.numbers.insert(key, node);
        Ok(node)
    }

    /// Builds an array whose items the automaton describes.
    pub(super) fn bracketed(&mut self, states: Vec<AutomatonState>) -> NodeId {
        let space = self.space();
        let ir = &mut self.ir;
        let (open, close) = (ir.bytes("["), ir.bytes("]"));
        let inside = ir.push(Node::automaton(states));
        ir.concat(vec![open, space, inside, close])
    }

    /// Builds an item with its separators.
    pub(super) fn item_node(&mut self, item: NodeId, comma: bool) -> NodeId {
        let space = self.space();
        if !comma {
            return self.ir.concat(vec![item, space]);
        }
        let gap = match self.policy.whitespace {
            Whitespace::SingleSpace => self.ir.bytes(" "),
            _ => space,
        };
        let comma = self.ir.bytes(",");
        self.ir.concat(vec![comma, gap, item, space])
    }

    /// Returns optional whitespace, as the policy allows it.
    fn space(&mut self) -> NodeId {
        let Whitespace::Flexible { max } = self.policy.whitespace else {
            return self.ir.push(Node::Empty);
        };
        let byte = self.ir.push(Node::Class(smallvec![(b'\t', b'\n'), (b'\r', b'\r'), (b' ', b' ')]));
        self.ir.repeat(byte, 0, Some(u32::from(max)))
    }

    fn keys_node(&mut self, context: &SchemaContext<'_>, keys: &Keys) -> Result<Option<NodeId>> {
        Ok(match keys {
            Keys::All => None,
            Keys::Patterns(patterns) => {
                let nodes = patterns.iter().map(|&(pattern, at)| {
                    ecma::parse(context.doc.name(pattern), &mut self.ir).map_err(context.locate(at))
                });
                let nodes: Vec<NodeId> = nodes.collect::<Result<_>>()?;
                Some(self.ir.union(nodes))
            }
            Keys::Automaton(dfa) => Some(regular::to_ir::lower(dfa, &mut self.ir)?),
        })
    }

    /// Returns the entry of an object for the names of a set.
    pub(super) fn extra(&mut self, context: &SchemaContext<'_>, keys: &Keys, value: NodeId) -> Result<Extra> {
        Ok(Extra { keys: self.keys_node(context, keys)?, value })
    }

    /// Adds an object.
    pub(super) fn object(&mut self, object: Object) -> NodeId {
        self.ir.push(Node::JsonObject(Box::new(object)))
    }
}

/// Builds a number language; `None` if no number is in it.
pub(super) fn number_or_never(spec: &NumberSpec, policy: &Policy, ir: &mut Ir) -> Result<Option<NodeId>> {
    match number::number(spec, policy, ir) {
        Err(e) if e.kind() == ErrorKind::Unsatisfiable => Ok(None),
        made => made.map(Some),
    }
}
