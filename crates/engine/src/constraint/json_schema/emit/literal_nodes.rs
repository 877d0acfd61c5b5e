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

use super::super::read::{Id, SchemaContext, SchemaDraft, Symbol, Value};
use super::nodes::{LiteralSet, NodeBuilder};
use crate::constraint::ir::{ByteString, Node, NodeId, Object, Parts, Property};
use crate::constraint::number;
use crate::constraint::policy::{KeyOrder, Whitespace};
use crate::decimal::Decimal;

/// Texts of literals, while they are collected.
#[derive(Default)]
pub(super) struct Literals {
    pub words: LiteralSet,
    /// Numbers that may be written in several forms, by the zeros that may follow.
    numbers: BTreeMap<number::Tail, Vec<Vec<u8>>>,
}

impl Literals {
    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.numbers.is_empty()
    }
}

/// Up to this number, texts are compared one by one.
const MAX_SCANNED_LITERALS: usize = 12;

impl NodeBuilder<'_> {
    /// Returns the node of a set of literals; equal sets share it.
    pub(super) fn words(&mut self, mut words: LiteralSet) -> NodeId {
        let many = words.len() > MAX_SCANNED_LITERALS;
        // Duplicates move behind the texts that are kept.
        let mut seen = HashTable::with_capacity(if many { words.len() } else { 0 });
        let mut fresh = 0;
        for at in 0..words.len() {
            let hash = if many { FxBuildHasher.hash_one(&words[at]) } else { 0 };
            let known = match many {
                true => seen.find(hash, |&known: &usize| words[known] == words[at]).is_some(),
                false => words[..fresh].contains(&words[at]),
            };
            if !known {
                words.swap(fresh, at);
                if many {
                    seen.insert_unique(hash, fresh, |&known| FxBuildHasher.hash_one(&words[known]));
                }
                fresh += 1;
            }
        }
        words.truncate(fresh);
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
    pub(super) fn literal(
        &mut self,
        context: &SchemaContext<'_>,
        id: Id,
        literals: &mut Literals,
        parts: &mut Parts,
    ) {
        let policy = self.policy;
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
        let policy = self.policy;
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
    pub(super) fn literals(&mut self, literals: Literals, parts: &mut Parts) {
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

    /// Builds the nodes of a literal. The parser limits the nesting, so this may recurse.
    fn literal_node(&mut self, context: &SchemaContext<'_>, id: Id) -> NodeId {
        let doc = &context.doc;
        let node = match doc.value(id) {
            Value::Array { .. } => {
                let prefix: Vec<NodeId> =
                    doc.elements(id).iter().map(|&element| self.literal_node(context, element)).collect();
                let count = prefix.len() as u32;
                Node::JsonArray { prefix, rest: None, min: count, max: Some(count) }
            }
            Value::Object { .. } => {
                let members = doc.members(id).iter().map(|&(name, member)| {
                    let value = self.literal_node(context, member);
                    Property { name: doc.name(name).into(), value, required: true }
                });
                let properties = members.collect();
                return self.object(Object { properties, ..Object::default() });
            }
            Value::Number(text) if self.policy.equal_numbers => {
                let (mut literals, mut parts) = (Literals::default(), Parts::new());
                self.equal_number(context, text, &mut literals);
                self.literals(literals, &mut parts);
                return self.ir.union(parts);
            }
            _ => {
                self.text.clear();
                doc.write(id, &mut self.text);
                Node::Bytes(ByteString::from_slice(&self.text))
            }
        };
        self.ir.push(node)
    }
}
