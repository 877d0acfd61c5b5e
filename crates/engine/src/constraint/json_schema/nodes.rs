//! Nodes of the representation: each language that schemas need often is one node.
//!
//! # Cost
//!
//! A lookup in a table for each number, literal or plain type.

use hashbrown::HashTable;
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::literal_nodes::{LiteralSet, WORDS};
use super::types::Types;
use super::undeclared::Keys;
use crate::constraint::ecma;
use crate::constraint::ir::{AutomatonState, ByteString, Extra, FreeNumber, Ir, Node, NodeId, Object, Parts};
use crate::constraint::json::document::{Id, Symbol};
use crate::constraint::number::{self, NumberSpec};
use crate::constraint::policy::Whitespace;
use crate::constraint::regular;
use crate::error::{ErrorKind, Result};

/// Maximum number of nodes for which memory is reserved at the start.
const MAX_RESERVED: usize = 1_000;

/// Key of a number language: integer, bounds, scale.
pub(super) type NumberKey = (bool, Option<(Symbol, bool)>, Option<(Symbol, bool)>, Option<u32>, Option<u32>);

/// The representation that is being built, with the nodes that were made.
pub(super) struct NodeBuilder {
    pub ir: Ir,
    pub any: NodeId,
    pub never: NodeId,
    numbers: FxHashMap<NumberKey, NodeId>,
    pub literals: HashTable<NodeId>,
    /// Nodes of schemas that only name types; about half of all schemas do.
    plain: SmallVec<[(Types, NodeId); 8]>,
    /// A buffer.
    pub text: Vec<u8>,
}

impl NodeBuilder {
    /// Creates a builder for a document of `values` values.
    pub fn new(values: usize) -> Self {
        let mut ir = Ir::new();
        // A schema mostly becomes about half as many nodes as it has values.
        ir.reserve((16 + values / 2).min(MAX_RESERVED));
        let any = ir.push(Node::JsonAny);
        let never = ir.push(Node::Never);
        NodeBuilder {
            ir,
            any,
            never,
            numbers: FxHashMap::default(),
            literals: HashTable::new(),
            plain: SmallVec::new(),
            text: Vec::new(),
        }
    }

    pub fn is_never(&self, node: NodeId) -> bool {
        matches!(self.ir.node(node), Node::Never)
    }

    /// Returns the node of a schema that only names types: the result of `build` in `to_ir`,
    /// without the steps before it. `None` for fractions without integers, which are computed.
    pub fn types_node(&mut self, context: &SchemaContext<'_>, types: Types) -> Option<NodeId> {
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
        let zeros = context.equal_integers();
        let numbers = FreeNumber::new(!types.meets(Types::FRACTION), zeros, context.policy);
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
            let object = Object { extra, ..Object::default() };
            parts.push(self.ir.push(Node::JsonObject(Box::new(object))));
        }
        let node = self.ir.union(parts);
        self.plain.push((types, node));
        Some(node)
    }

    /// Returns true if a node holds an array or an object, so that a rule of its own pays.
    pub fn is_composite(&self, node: NodeId) -> bool {
        let ir = &self.ir;
        let holds = |id: NodeId| {
            matches!(ir.node(id), Node::JsonArray { .. } | Node::JsonUnique { .. } | Node::JsonObject(_))
        };
        match ir.node(node) {
            Node::Union(parts) => parts.iter().any(|&p| holds(p)),
            _ => holds(node),
        }
    }

    /// Returns the node of a pattern that was parsed from the text `name`.
    pub fn read_pattern(
        &mut self,
        context: &SchemaContext<'_>,
        pattern: &ecma::Pattern,
        name: Symbol,
        at: Id,
    ) -> Result<NodeId> {
        let node = pattern.node(context.doc.name(name), &mut self.ir);
        node.map_err(|e| e.at(context.doc.place(at)))
    }

    /// Parses a pattern and returns its node.
    pub fn pattern_node(&mut self, context: &SchemaContext<'_>, pattern: Symbol, at: Id) -> Result<NodeId> {
        ecma::parse(context.doc.name(pattern), &mut self.ir).map_err(|e| e.at(context.doc.place(at)))
    }

    /// Returns the number language of a specification; equal specifications share a node.
    pub fn number_node(
        &mut self,
        context: &SchemaContext<'_>,
        key: NumberKey,
        spec: &NumberSpec,
        at: Id,
    ) -> Result<NodeId> {
        if let Some(&node) = self.numbers.get(&key) {
            return Ok(node);
        }
        let (policy, ir) = (context.policy, &mut self.ir);
        let made = match spec.minimum.is_none()
            && spec.maximum.is_none()
            && spec.scale.is_none()
            && spec.max_exponent.is_none()
        {
            true => Ok(ir.push(Node::JsonNumber(FreeNumber::new(spec.integer, spec.zeros, policy)))),
            false => number::number(spec, policy, ir),
        };
        let node = match made {
            Ok(node) => node,
            Err(e) if e.kind() == ErrorKind::Unsatisfiable => self.never,
            Err(e) => return Err(e.at(context.doc.place(at))),
        };
        self.numbers.insert(key, node);
        Ok(node)
    }

    /// Builds an array whose items the automaton describes.
    pub fn bracketed(&mut self, context: &SchemaContext<'_>, states: Vec<AutomatonState>) -> NodeId {
        let space = self.space(context);
        let ir = &mut self.ir;
        let (open, close) = (ir.bytes("["), ir.bytes("]"));
        let inside = ir.push(Node::automaton(states));
        ir.concat(vec![open, space, inside, close])
    }

    /// Builds an item with its separators.
    pub fn item_node(&mut self, context: &SchemaContext<'_>, item: NodeId, comma: bool) -> NodeId {
        let space = self.space(context);
        if !comma {
            return self.ir.concat(vec![item, space]);
        }
        let gap = match context.policy.whitespace {
            Whitespace::SingleSpace => self.ir.bytes(" "),
            _ => space,
        };
        let comma = self.ir.bytes(",");
        self.ir.concat(vec![comma, gap, item, space])
    }

    /// Returns optional whitespace, as the policy allows it.
    fn space(&mut self, context: &SchemaContext<'_>) -> NodeId {
        let Whitespace::Flexible { max } = context.policy.whitespace else {
            return self.ir.push(Node::Empty);
        };
        let byte = self.ir.push(Node::Class(smallvec![(b'\t', b'\n'), (b'\r', b'\r'), (b' ', b' ')]));
        self.ir.repeat(byte, 0, Some(u32::from(max)))
    }

    pub fn keys_node(&mut self, context: &SchemaContext<'_>, keys: &Keys) -> Result<Option<NodeId>> {
        Ok(match keys {
            Keys::All => None,
            Keys::Patterns(patterns) => {
                let mut nodes = Vec::new();
                for &(pattern, at) in patterns {
                    nodes.push(self.pattern_node(context, pattern, at)?);
                }
                Some(self.ir.union(nodes))
            }
            Keys::Automaton(dfa) => Some(regular::to_ir::lower(dfa, &mut self.ir)?),
        })
    }
}
