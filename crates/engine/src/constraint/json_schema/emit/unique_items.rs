//! `uniqueItems`: arrays whose items differ.
//!
//! Strings, words and listed numbers have one form each, so the machine can compare them as texts
//! (`ir::Node::JsonSet`), which is cheaper. It compares everything else as values
//! (`ir::Node::JsonUnique`): `1` is `1.0`, and objects are equal in any order of their properties.
//!
//! With `contains`, enough different values must exist for the items that have to be contained.
//! This is implemented for one condition only.

use super::super::read::{Id, Keyword};
use super::lowering::SchemaLowering;
use super::nodes::NodeBuilder;
use super::plan::Plan;
use crate::char_lang::byte_nfa::ByteNfa;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{ByteString, Node, NodeId};
use crate::constraint::regular;
use crate::decimal::Decimal;
use crate::error::Result;

/// Maximum bound on the length of a string that is turned into an automaton.
const MAX_LENGTH: u32 = 2_000;

impl SchemaLowering<'_> {
    /// Builds arrays of different items, some of which must satisfy a condition. If there are
    /// enough different values at the start, the missing items can be written after any items: an
    /// item that could count does, in one of the alternatives that the machine follows.
    pub(super) fn unique_containing(&mut self, plan: &Plan, rest: Option<NodeId>, at: Id) -> Result<NodeId> {
        let part = &plan.shape.array;
        let ([condition], true, Some(rest)) = (&part.contains[..], part.prefix.is_empty(), rest) else {
            return Err(self.normalizer.context.unsupported(Keyword::UniqueItems, at));
        };
        // Items that must not count need enough different values of their own.
        if condition.from > 0 || condition.max.is_some() && part.min > condition.min {
            return Err(self.normalizer.context.unsupported(Keyword::UniqueItems, at));
        }
        let counted = plan.contains.iter().flatten().find(|way| way.0 == 1).map(|way| way.1);
        let counted = counted.map_or(self.nodes.never, |id| self.node(id));
        let enough = vec![(counted, condition.min), (rest, part.min)];
        let array = self.containing(plan)?;
        if self.nodes.is_never(array) {
            return Ok(array);
        }
        Ok(self.nodes.ir.push(Node::JsonUnique { array, enough }))
    }
}

impl NodeBuilder<'_> {
    /// Builds arrays of `min` to `max` different items of a node; `None` if these cannot be
    /// compared as texts.
    pub(super) fn unique_texts(
        &mut self,
        items: NodeId,
        (min, max): (u32, Option<u32>),
    ) -> Result<Option<NodeId>> {
        let parts: Vec<NodeId> = match self.ir.node(items) {
            Node::Union(parts) => parts.to_vec(),
            _ => vec![items],
        };
        let mut words: Vec<ByteString> = Vec::new();
        let mut made = Vec::with_capacity(parts.len());
        for part in parts {
            match self.ir.node(part).clone() {
                Node::Bytes(word) => words.push(word),
                Node::Literals(list) => words.extend_from_slice(&list),
                Node::JsonString { lang, min_chars, max_chars } => {
                    let Some(node) = self.unbounded(lang, min_chars, max_chars)? else { return Ok(None) };
                    made.push(node);
                    continue;
                }
                _ => return Ok(None),
            }
            made.push(part);
        }
        if words.iter().any(|word| matches!(word.first(), Some(b'[' | b'{'))) {
            return Ok(None);
        }
        // Numbers with different texts may be equal.
        let number = |word: &ByteString| -> Option<(Decimal, ByteString)> {
            let text = std::str::from_utf8(word).ok()?;
            let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
            is_number.then(|| (Decimal::new(text), word.clone()))
        };
        let numbers: Vec<(Decimal, ByteString)> = words.iter().filter_map(number).collect();
        let twice =
            |(i, a): (usize, &(Decimal, ByteString))| numbers[..i].iter().any(|b| a.0 == b.0 && a.1 != b.1);
        if numbers.iter().enumerate().any(twice) {
            return Ok(None);
        }
        words.sort();
        words.dedup();
        let is_string = |&node: &NodeId| matches!(self.ir.node(node), Node::JsonString { .. });
        if min as usize > words.len() && !made.iter().any(is_string) {
            return Ok(Some(self.never));
        }
        let item = self.ir.union(made);
        Ok(Some(self.ir.push(Node::JsonSet { item, min, max })))
    }

    /// Makes the bounds on the length of a string part of its language; `None` if they are too
    /// large.
    fn unbounded(&mut self, lang: Option<NodeId>, min: u32, max: Option<u32>) -> Result<Option<NodeId>> {
        let string = |lang| Node::JsonString { lang, min_chars: 0, max_chars: None };
        if min == 0 && max.is_none() {
            return Ok(Some(self.ir.push(string(lang))));
        }
        if min > MAX_LENGTH || max.is_some_and(|max| max > MAX_LENGTH) {
            return Ok(None);
        }
        let mut language = CharDfa::lengths(min, max);
        if let Some(lang) = lang {
            language = CharDfa::from_nfa(&ByteNfa::new(&self.ir, lang)?)?.intersect(&language)?;
        }
        let lang = regular::to_ir::lower(&language, &mut self.ir)?;
        Ok(Some(self.ir.push(string(Some(lang)))))
    }
}
