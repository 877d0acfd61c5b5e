//! Literals as nodes: the values of `enum` and `const` in every form that the policy allows.
//!
//! A literal with one form is a text. All texts of a schema are one node, which is lowered as a
//! trie; equal sets share it. Literals with several forms (white space, order of names, equal
//! numbers) become nodes, children first.
//!
//! # Cost
//!
//! Linear in the text.
//!
//! # Alternatives considered
//!
//! An alternative for each form was rejected: their number is a product over all choices.

use std::collections::BTreeMap;
use std::hash::BuildHasher;

use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use super::context::SchemaContext;
use super::drafts::SchemaDraft;
use super::nodes::NodeBuilder;
use super::types::Types;
use crate::constraint::ir::{ByteString, Node, NodeId, Object, Parts, Property};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::constraint::number;
use crate::constraint::policy::{KeyOrder, Whitespace};
use crate::decimal::Decimal;

/// Types with a single value, and its text.
pub(super) const WORDS: [(Types, &str); 3] =
    [(Types::NULL, "null"), (Types::TRUE, "true"), (Types::FALSE, "false")];

/// Texts of literals: often a single one, and most of them short.
pub(super) type LiteralSet = SmallVec<[ByteString; 1]>;

/// Texts of literals, while they are collected.
#[derive(Default)]
pub(super) struct Literals {
    pub words: LiteralSet,
    /// Numbers that may be written in several forms, by the zeros that may follow.
    numbers: BTreeMap<number::Tail, Vec<Vec<u8>>>,
}

impl Literals {
    pub fn is_empty(&self) -> bool {
        self.words.is_empty() && self.numbers.is_empty()
    }
}

/// Up to this number, texts are compared one by one.
const MAX_SCANNED_LITERALS: usize = 12;

impl NodeBuilder {
    /// Returns the node of a set of literals; equal sets share it.
    pub fn words(&mut self, mut words: LiteralSet) -> NodeId {
        if words.len() <= MAX_SCANNED_LITERALS {
            let mut fresh = 0;
            for at in 0..words.len() {
                if !words[..fresh].contains(&words[at]) {
                    words.swap(fresh, at);
                    fresh += 1;
                }
            }
            words.truncate(fresh);
        } else {
            // Duplicates move behind the texts that are kept.
            let mut seen = HashTable::with_capacity(words.len());
            let mut fresh = 0;
            for at in 0..words.len() {
                let hash = FxBuildHasher.hash_one(&words[at]);
                if seen.find(hash, |&known: &usize| words[known] == words[at]).is_none() {
                    words.swap(fresh, at);
                    seen.insert_unique(hash, fresh, |&known| FxBuildHasher.hash_one(&words[known]));
                    fresh += 1;
                }
            }
            words.truncate(fresh);
        }
        let node = match words.len() {
            1 => Node::Bytes(words.pop().unwrap_or_default()),
            _ => Node::Literals(words.drain(..).collect()),
        };
        let hash = FxBuildHasher.hash_one(&node);
        let ir = &mut self.ir;
        if let Some(&known) = self.literals.find(hash, |&id| *ir.node(id) == node) {
            return known;
        }
        let id = ir.push(node);
        self.literals.insert_unique(hash, id, |&id| FxBuildHasher.hash_one(ir.node(id)));
        id
    }

    /// Adds a literal as a text; one with several forms becomes nodes.
    pub fn literal(
        &mut self,
        context: &SchemaContext<'_>,
        id: Id,
        literals: &mut Literals,
        parts: &mut Parts,
    ) {
        let policy = context.policy;
        let one_way = policy.whitespace == Whitespace::Compact && policy.key_order == KeyOrder::Declared;
        let as_node = match context.doc.value(id) {
            Value::Array { .. } | Value::Object { .. } => !one_way || policy.equal_numbers,
            Value::Number(text) if policy.equal_numbers => return self.equal_number(context, text, literals),
            _ => false,
        };
        if as_node {
            parts.push(self.literal_node(context, id));
            return;
        }
        self.text.clear();
        context.doc.write(id, &mut self.text);
        literals.words.push(ByteString::from_slice(&self.text));
    }

    /// Adds a number in every form that is equal to it, including that of the schema.
    fn equal_number(&self, context: &SchemaContext<'_>, text: Symbol, literals: &mut Literals) {
        let own = context.doc.name(text);
        let policy = context.policy;
        // Numbers with more digits than the policy allows are written as in the schema. In draft 4
        // so are integers, because a point makes another type.
        let as_written = context.draft <= SchemaDraft::D4 && Decimal::new(own).is_integer();
        let exact = Decimal::parse(own).ok().filter(|_| !as_written);
        let equal = exact.and_then(|exact| number::equal_texts(&exact, policy));
        let digits = own.split('.').nth(1).map_or(0, str::len);
        let plain = !own.contains(['e', 'E']) && digits <= usize::from(policy.max_fraction_digits);
        if equal.is_none() || !plain {
            literals.words.push(ByteString::from_slice(own.as_bytes()));
        }
        if let Some((texts, tail)) = equal {
            literals.numbers.entry(tail).or_default().extend(texts);
        }
    }

    /// Adds the nodes of collected literals.
    pub fn literals(&mut self, literals: Literals, parts: &mut Parts) {
        // One node of trailing zeros serves any number of numbers.
        for (tail, texts) in literals.numbers {
            let texts = self.words(texts.into_iter().map(ByteString::from_vec).collect());
            let ir = &mut self.ir;
            let tail = number::tail(tail, ir);
            parts.push(ir.concat(vec![texts, tail]));
        }
        if !literals.words.is_empty() {
            parts.insert(0, self.words(literals.words));
        }
    }

    /// Builds the nodes of a literal, children first (explicit stack).
    fn literal_node(&mut self, context: &SchemaContext<'_>, root: Id) -> NodeId {
        let mut todo = vec![(root, false)];
        let mut made: Vec<NodeId> = Vec::new();
        while let Some((id, ready)) = todo.pop() {
            let children: Vec<Id> = match context.doc.value(id) {
                Value::Array { .. } => context.doc.elements(id).to_vec(),
                Value::Object { .. } => context.doc.members(id).iter().map(|m| m.1).collect(),
                Value::Number(text) if context.policy.equal_numbers => {
                    let (mut literals, mut parts) = (Literals::default(), Parts::new());
                    self.equal_number(context, text, &mut literals);
                    self.literals(literals, &mut parts);
                    made.push(self.ir.union(parts));
                    continue;
                }
                _ => {
                    let mut text = Vec::new();
                    context.doc.write(id, &mut text);
                    made.push(self.ir.bytes(text));
                    continue;
                }
            };
            if !ready {
                todo.push((id, true));
                todo.extend(children.into_iter().rev().map(|c| (c, false)));
                continue;
            }
            let nodes = made.split_off(made.len() - children.len());
            let count = nodes.len() as u32;
            let node = match context.doc.value(id) {
                Value::Array { .. } => {
                    Node::JsonArray { prefix: nodes, rest: None, min: count, max: Some(count) }
                }
                _ => {
                    let doc = &context.doc;
                    let names = doc.members(id).iter().map(|m| doc.name(m.0).into());
                    let property = |(name, value)| Property { name, value, required: true };
                    let properties = names.zip(nodes).map(property).collect();
                    Node::JsonObject(Box::new(Object { properties, ..Object::default() }))
                }
            };
            made.push(self.ir.push(node));
        }
        made.pop().unwrap_or(self.never)
    }
}
