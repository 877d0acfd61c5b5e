//! Hash-consing of the intermediate representation: equal nodes become one.
//!
//! Two `{"type":"integer"}` in a schema, or in two schemas, then have the same rule, and so the
//! same states and masks. Equality is checked, not only hashed. The nodes of a constraint are not
//! moved: a list says for each node which one it equals ([`Nodes`]).
//!
//! # Cost
//!
//! One hash lookup per node.
//!
//! # Alternatives considered
//!
//! Copying the nodes into the arena of the base: it takes a considerable part of the time to
//! compile a small schema.

use std::hash::{Hash, Hasher};

use hashbrown::HashTable;
use rustc_hash::FxHasher;

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

/// The nodes of an arena, where equal ones count as one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Nodes<'a> {
    ir: &'a Ir,
    /// For each node, the first one that equals it; empty if no two are equal.
    same: &'a [NodeId],
}

impl<'a> Nodes<'a> {
    /// Wraps an arena in which no two nodes are equal, or in which that does not matter.
    pub(super) fn of(ir: &'a Ir) -> Nodes<'a> {
        Nodes { ir, same: &[] }
    }

    /// Returns a node.
    pub(super) fn node(&self, id: NodeId) -> &'a Node {
        self.ir.node(id)
    }

    /// Returns the node that represents all equal ones.
    pub(super) fn same(&self, id: NodeId) -> NodeId {
        self.same.get(id.0 as usize).copied().unwrap_or(id)
    }

    /// Returns the body of a rule.
    pub(super) fn rule(&self, rule: RuleId) -> Option<NodeId> {
        self.ir.rule(rule)
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.ir.len()
    }
}

/// The equal nodes of a constraint.
#[derive(Debug, Default)]
pub(super) struct Merged {
    /// For each node, the first one that equals it.
    same: Vec<NodeId>,
    /// Nodes that equal one of the base, with that one.
    pub(super) based: Vec<(NodeId, NodeId)>,
}

impl Merged {
    /// Returns the nodes of the constraint.
    pub(super) fn nodes<'a>(&'a self, ir: &'a Ir) -> Nodes<'a> {
        Nodes { ir, same: &self.same }
    }
}

impl Interner {
    /// Imports a whole constraint and returns its root here.
    pub(super) fn import(&mut self, from: &Ir) -> Result<NodeId> {
        look_up(&self.copied(from)?, from.root())
    }

    /// Imports a whole constraint and returns the new ids of its nodes.
    fn copied(&mut self, from: &Ir) -> Result<Vec<NodeId>> {
        let first_rule = self.ir.rule_count() as u32;
        for _ in 0..from.rule_count() {
            self.ir.declare_rule();
        }
        self.ir.reserve(from.len());
        let mut here: Vec<NodeId> = Vec::with_capacity(from.len());
        for i in 0..from.len() as u32 {
            let node = translate(from.node(NodeId(i)), |id| look_up(&here, id), first_rule)?;
            here.push(self.intern(node));
        }
        for r in 0..from.rule_count() as u32 {
            if let Some(body) = from.rule(RuleId(r)) {
                self.ir.define_rule(RuleId(first_rule + r), look_up(&here, body)?);
            }
        }
        Ok(here)
    }

    /// Imports a node without parts.
    pub(super) fn add(&mut self, leaf: Node) -> NodeId {
        self.intern(leaf)
    }

    fn intern(&mut self, node: Node) -> NodeId {
        let hash = hash(&node, |id| id.0);
        let ir = &mut self.ir;
        if let Some(&id) = self.known.find(hash, |&id| *ir.node(id) == node) {
            return id;
        }
        let id = ir.push(node);
        self.known.insert_unique(hash, id, |&id| self::hash(ir.node(id), |id| id.0));
        id
    }

    /// Finds the nodes of a constraint that are equal, and those that equal one here.
    pub(super) fn merge(&self, from: &Ir) -> Result<Merged> {
        let mut merged = Merged { same: Vec::with_capacity(from.len()), based: Vec::new() };
        let mut known: HashTable<NodeId> = HashTable::with_capacity(from.len());
        // The name of a node during the comparison: the node here that it equals, or a number
        // beyond all nodes here.
        let first = self.ir.len() as u32;
        let mut names: Vec<u32> = Vec::with_capacity(from.len());
        for id in (0..from.len() as u32).map(NodeId) {
            let node = from.node(id);
            let mut missing = false;
            let hash = hash(node, |child| {
                names.get(child.0 as usize).copied().unwrap_or_else(|| {
                    missing = true;
                    0
                })
            });
            if missing {
                return Err(misplaced());
            }
            let name = |child: NodeId| names[child.0 as usize];
            if let Some(&other) = known.find(hash, |&other| equal(node, name, from.node(other), name)) {
                merged.same.push(other);
                names.push(names[other.0 as usize]);
                continue;
            }
            let known_here = |&here: &NodeId| equal(node, name, self.ir.node(here), |id| id.0);
            // Rules are numbered anew in each constraint.
            let here = self.known.find(hash, known_here).filter(|_| !matches!(node, Node::Rule(_)));
            merged.same.push(id);
            merged.based.extend(here.map(|&here| (id, here)));
            names.push(here.map_or(first + id.0, |here| here.0));
            // The table has room for all nodes.
            known.insert_unique(hash, id, |_| 0);
        }
        let rules = (0..from.rule_count() as u32).filter_map(|r| from.rule(RuleId(r)));
        match rules.chain([from.root()]).all(|id| (id.0 as usize) < from.len()) {
            true => Ok(merged),
            false => Err(misplaced()),
        }
    }
}

/// Returns a hash of a node whose parts are named by `name`.
fn hash(node: &Node, mut name: impl FnMut(NodeId) -> u32) -> u64 {
    let mut hasher = FxHasher::default();
    std::mem::discriminant(node).hash(&mut hasher);
    match node {
        Node::Concat(parts) | Node::Union(parts) => parts.iter().for_each(|&p| name(p).hash(&mut hasher)),
        Node::Repeat { node, min, max } => (name(*node), min, max).hash(&mut hasher),
        Node::Automaton { states, quotes } => {
            quotes.hash(&mut hasher);
            for state in states {
                state.accept.hash(&mut hasher);
                state.edges.iter().for_each(|&(node, to)| (name(node), to).hash(&mut hasher));
            }
        }
        Node::JsonString { lang, min_chars, max_chars } => {
            (lang.map(name), min_chars, max_chars).hash(&mut hasher);
        }
        Node::Text { lang, min_chars, max_chars } => {
            (name(*lang), min_chars, max_chars).hash(&mut hasher);
        }
        Node::JsonArray { prefix, rest, min, max } => {
            prefix.iter().for_each(|&p| name(p).hash(&mut hasher));
            (rest.map(name), min, max).hash(&mut hasher);
        }
        Node::JsonSet { item, min, max } => (name(*item), min, max).hash(&mut hasher),
        Node::JsonUnique { array, enough } => {
            name(*array).hash(&mut hasher);
            enough.iter().for_each(|&(node, count)| (name(node), count).hash(&mut hasher));
        }
        Node::JsonObject(object) => {
            (object.min, object.max, object.any_order, &object.markup).hash(&mut hasher);
            for extra in object.extra.iter().chain(object.demand.iter().map(|d| &d.entry)) {
                (extra.keys.map(&mut name), name(extra.value)).hash(&mut hasher);
            }
            for property in &object.properties {
                (&property.name, name(property.value), property.required).hash(&mut hasher);
            }
        }
        leaf => leaf.hash(&mut hasher),
    }
    hasher.finish()
}

/// Returns true if two nodes are equal when their parts are named like this.
fn equal(a: &Node, name_a: impl Fn(NodeId) -> u32, b: &Node, name_b: impl Fn(NodeId) -> u32) -> bool {
    let same = |a: &NodeId, b: &NodeId| name_a(*a) == name_b(*b);
    let named = |node: &Node, name: &dyn Fn(NodeId) -> u32| translate(node, |id| Ok(NodeId(name(id))), 0);
    match (a, b) {
        // Most nodes are compared where they are.
        (Node::Concat(a), Node::Concat(b)) | (Node::Union(a), Node::Union(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Node::Repeat { node, min, max }, Node::Repeat { node: other, min: least, max: most }) => {
            (min, max) == (least, most) && same(node, other)
        }
        (Node::Class(_) | Node::Bytes(_), _) => a == b,
        _ if std::mem::discriminant(a) != std::mem::discriminant(b) => false,
        _ => matches!((named(a, &name_a), named(b, &name_b)), (Ok(a), Ok(b)) if a == b),
    }
}

fn look_up(here: &[NodeId], id: NodeId) -> Result<NodeId> {
    here.get(id.0 as usize).copied().ok_or_else(misplaced)
}

fn misplaced() -> Error {
    let message = "a constraint refers to a node that was added later or elsewhere";
    Error::new(ErrorKind::InvalidOption, message)
}

/// Returns a node with other names of its parts, and later numbers of rules.
fn translate(node: &Node, part: impl Fn(NodeId) -> Result<NodeId>, first_rule: u32) -> Result<Node> {
    let all = |ids: &[NodeId]| ids.iter().map(|&id| part(id)).collect::<Result<Parts>>();
    let some = |id: &Option<NodeId>| id.map(&part).transpose();
    Ok(match node {
        Node::Concat(parts) => Node::Concat(all(parts)?),
        Node::Union(parts) => Node::Union(all(parts)?),
        Node::Repeat { node, min, max } => Node::Repeat { node: part(*node)?, min: *min, max: *max },
        Node::Automaton { states, quotes } => {
            let state = |s: &AutomatonState| -> Result<AutomatonState> {
                let edges = s.edges.iter().map(|&(node, to)| Ok((part(node)?, to)));
                Ok(AutomatonState { accept: s.accept, edges: edges.collect::<Result<_>>()? })
            };
            Node::Automaton { states: states.iter().map(state).collect::<Result<_>>()?, quotes: *quotes }
        }
        Node::Rule(rule) => Node::Rule(RuleId(first_rule + rule.0)),
        Node::JsonString { lang, min_chars, max_chars } => {
            Node::JsonString { lang: some(lang)?, min_chars: *min_chars, max_chars: *max_chars }
        }
        Node::Text { lang, min_chars, max_chars } => {
            Node::Text { lang: part(*lang)?, min_chars: *min_chars, max_chars: *max_chars }
        }
        Node::JsonArray { prefix, rest, min, max } => {
            Node::JsonArray { prefix: all(prefix)?.into_vec(), rest: some(rest)?, min: *min, max: *max }
        }
        Node::JsonSet { item, min, max } => Node::JsonSet { item: part(*item)?, min: *min, max: *max },
        Node::JsonUnique { array, enough } => {
            let enough = enough.iter().map(|&(node, count)| Ok((part(node)?, count)));
            Node::JsonUnique { array: part(*array)?, enough: enough.collect::<Result<_>>()? }
        }
        Node::JsonObject(object) => {
            let property = |p: &Property| -> Result<Property> {
                Ok(Property { name: p.name.clone(), value: part(p.value)?, required: p.required })
            };
            let other =
                |e: &Extra| -> Result<Extra> { Ok(Extra { keys: some(&e.keys)?, value: part(e.value)? }) };
            let demand = |d: &Demand| Ok(Demand { entry: other(&d.entry)?, ..*d });
            Node::JsonObject(Box::new(Object {
                properties: object.properties.iter().map(property).collect::<Result<_>>()?,
                extra: object.extra.iter().map(other).collect::<Result<_>>()?,
                demand: object.demand.iter().map(demand).collect::<Result<_>>()?,
                markup: object.markup.clone(),
                ..**object
            }))
        }
        leaf => leaf.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::Constraint;

    const SCHEMAS: [&str; 4] = [
        r#"{"properties": {"a": {"type": "integer"}, "b": {"minimum": 3, "maxLength": 5}, "c": {"enum": [1, "x"]}},
            "patternProperties": {"^[a-c]+$": {"items": {"type": "integer"}}}, "minProperties": 2}"#,
        r##"{"$defs": {"tree": {"properties": {"l": {"$ref": "#/$defs/tree"}, "n": {"type": ["null", "number"]}}}},
            "prefixItems": [{"$ref": "#/$defs/tree"}, {"type": "integer"}, {"type": "string", "pattern": "^a{2,3}b"}],
            "items": {"uniqueItems": true, "minItems": 1, "items": {"type": "string"}}, "maxItems": 9}"##,
        r#"{"items": {"allOf": [{"pattern": "ab"}, {"pattern": "ba"}], "type": "string"}, "uniqueItems": true}"#,
        r#"{"anyOf": [{"type": "integer"}, {"const": {"a": [1, 2]}}, {"type": "array", "items": {"type": "integer"}}],
            "contains": {"type": "string"}}"#,
    ];

    #[test]
    fn nodes_that_are_not_copied_are_equal_where_copies_are() {
        let mut base = Interner::default();
        let (mut twice, mut known) = (0, 0);
        for schema in SCHEMAS {
            let constraint = Constraint::json_schema(schema).unwrap();
            let from = constraint.ir();
            let mut alone = Interner::default();
            let copies = alone.copied(from).unwrap();
            let merged = base.merge(from).unwrap();
            let nodes = merged.nodes(from);
            for (&a, i) in copies.iter().zip(0..) {
                let first = copies.iter().position(|&b| b == a).unwrap();
                assert_eq!(
                    nodes.same(NodeId(i)),
                    NodeId(first as u32),
                    "{schema} {:?}",
                    from.node(NodeId(i))
                );
                twice += usize::from(first < i as usize);
            }
            // On top of a base, the nodes whose copies existed already are those of the base.
            let before = base.ir.len() as u32;
            let here = base.copied(from).unwrap();
            let of_base = |id: NodeId| merged.based.iter().find(|b| b.0 == nodes.same(id)).map(|b| b.1);
            for id in (0..from.len() as u32).map(NodeId) {
                let there = here[id.0 as usize];
                assert_eq!(of_base(id), (there.0 < before).then_some(there), "{schema} {:?}", from.node(id));
                known += usize::from(there.0 < before);
            }
        }
        assert!(twice > 5 && known > 5, "{twice} {known}");
    }
}
