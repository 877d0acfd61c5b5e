//! Hash-consing of the representation: equal sub-constraints become one node.
//!
//! Two `{"type":"integer"}` in a schema, or in two schemas, then lead to the same rule, and so to the
//! same states and masks. Equality is checked, not only hashed. One hash look-up per node.

use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;

use crate::constraint::ir::{
    AutomatonState, Demand, Extra, Ir, Node, NodeId, Object, Parts, Property, RuleId,
};
use crate::error::{Error, ErrorKind, Result};

/// An arena in which no two nodes are equal.
#[derive(Debug, Clone, Default)]
pub(super) struct Interner {
    pub(super) ir: Ir,
    known: HashTable<NodeId>,
}

impl Interner {
    /// Brings in a whole constraint and returns its root here.
    pub(super) fn import(&mut self, from: &Ir) -> Result<NodeId> {
        let first_rule = self.ir.rule_count() as u32;
        for _ in 0..from.rule_count() {
            self.ir.declare_rule();
        }
        self.ir.reserve(from.len());
        let mut here: Vec<NodeId> = Vec::with_capacity(from.len());
        for i in 0..from.len() as u32 {
            let node = translate(from, NodeId(i), &here, first_rule)?;
            here.push(self.intern(node));
        }
        for r in 0..from.rule_count() as u32 {
            if let Some(body) = from.rule(RuleId(r)) {
                self.ir.define_rule(RuleId(first_rule + r), look_up(&here, body)?);
            }
        }
        look_up(&here, from.root())
    }

    fn intern(&mut self, node: Node) -> NodeId {
        let hash = FxBuildHasher.hash_one(&node);
        let ir = &mut self.ir;
        if let Some(&id) = self.known.find(hash, |&id| *ir.node(id) == node) {
            return id;
        }
        let id = ir.push(node);
        self.known.insert_unique(hash, id, |&id| FxBuildHasher.hash_one(ir.node(id)));
        id
    }
}

fn look_up(here: &[NodeId], id: NodeId) -> Result<NodeId> {
    here.get(id.0 as usize).copied().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidOption,
            "a constraint refers to a node that was added later or elsewhere",
        )
    })
}

fn translate(from: &Ir, id: NodeId, here: &[NodeId], first_rule: u32) -> Result<Node> {
    let all = |ids: &[NodeId]| ids.iter().map(|&i| look_up(here, i)).collect::<Result<Parts>>();
    let some = |id: &Option<NodeId>| id.map(|i| look_up(here, i)).transpose();
    Ok(match from.node(id) {
        Node::Concat(parts) => Node::Concat(all(parts)?),
        Node::Union(parts) => Node::Union(all(parts)?),
        Node::Repeat { node, min, max } => Node::Repeat { node: look_up(here, *node)?, min: *min, max: *max },
        Node::Automaton { states, quotes } => {
            let state = |s: &AutomatonState| -> Result<AutomatonState> {
                let edges = s.edges.iter().map(|&(node, to)| Ok((look_up(here, node)?, to)));
                Ok(AutomatonState { accept: s.accept, edges: edges.collect::<Result<_>>()? })
            };
            Node::Automaton { states: states.iter().map(state).collect::<Result<_>>()?, quotes: *quotes }
        }
        Node::Rule(rule) => Node::Rule(RuleId(first_rule + rule.0)),
        Node::JsonString { lang, min_chars, max_chars } => {
            Node::JsonString { lang: some(lang)?, min_chars: *min_chars, max_chars: *max_chars }
        }
        Node::JsonArray { prefix, rest, min, max } => {
            Node::JsonArray { prefix: all(prefix)?.into_vec(), rest: some(rest)?, min: *min, max: *max }
        }
        Node::JsonSet { item, min, max } => {
            Node::JsonSet { item: look_up(here, *item)?, min: *min, max: *max }
        }
        Node::JsonUnique { array, enough } => {
            let enough = enough.iter().map(|&(node, count)| Ok((look_up(here, node)?, count)));
            Node::JsonUnique { array: look_up(here, *array)?, enough: enough.collect::<Result<_>>()? }
        }
        Node::JsonObject(object) => {
            let property = |p: &Property| -> Result<Property> {
                Ok(Property { name: p.name.clone(), value: look_up(here, p.value)?, required: p.required })
            };
            let other = |e: &Extra| -> Result<Extra> {
                Ok(Extra { keys: some(&e.keys)?, value: look_up(here, e.value)? })
            };
            let demand = |d: &Demand| Ok(Demand { meets: d.meets, entry: other(&d.entry)? });
            Node::JsonObject(Box::new(Object {
                properties: object.properties.iter().map(property).collect::<Result<_>>()?,
                extra: object.extra.iter().map(other).collect::<Result<_>>()?,
                demand: object.demand.iter().map(demand).collect::<Result<_>>()?,
                ..**object
            }))
        }
        leaf => leaf.clone(),
    })
}
