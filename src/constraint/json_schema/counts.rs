//! `minProperties` and `maxProperties`, without a counter at run time.
//!
//! Where the required and possible properties do not settle the bounds by themselves, the object becomes
//! a union of disjoint objects in which they do (at most [`MAX_SUBSETS`]). For undeclared properties
//! that works for "at least one" and, without declared ones, for any maximum: such objects are spelled out
//! with a repetition. Duplicate names would break a minimum of two or more, so that is refused.

use smallvec::smallvec;

use super::extras::Keys;
use super::goals::{Goals, Plan};
use super::keywords as kw;
use super::lang::Dfa;
use super::lang_ir;
use crate::constraint::ir::{Node, NodeId, Property};
use crate::constraint::policy::Whitespace;
use crate::error::Result;

/// Most alternatives for a count of optional properties.
const MAX_SUBSETS: usize = 256;

impl Goals<'_> {
    /// Adds the object, or the objects, that have as many properties as allowed.
    pub fn counted(
        &mut self,
        plan: &Plan,
        mut properties: Vec<Property>,
        mut extra: Vec<(Keys, NodeId)>,
        parts: &mut Vec<NodeId>,
    ) -> Result<()> {
        let (min, max) = (plan.shape.object.min as usize, plan.shape.object.max.map(|m| m as usize));
        let required = properties.iter().filter(|p| p.required).count();
        if max == Some(required) {
            extra.clear();
            properties.retain(|p| p.required);
        }
        let count = properties.iter().filter(|p| !self.is_never(p.value)).count();
        if extra.is_empty() && count < min {
            let why = "there are fewer possible properties than `minProperties` asks for".to_string();
            self.culprit.get_or_insert((plan.shape.object.count_at.unwrap_or(self.at(&plan.shape)), why));
            return Ok(());
        }
        let low = min <= required;
        let high = max.is_none_or(|m| extra.is_empty() && m >= count);
        if low && high {
            parts.push(self.object_node(properties, &extra)?);
            return Ok(());
        }
        let choices = if extra.is_empty() {
            properties.retain(|p| !matches!(self.front.ir.node(p.value), Node::Never));
            subsets(&properties, min, max.unwrap_or(usize::MAX))
        } else if max.is_none() && min == 1 {
            parts.push(self.only_extra(&properties, &extra, (1, None))?);
            self.first_present(&properties)
        } else if count == 0 && min <= 1 {
            let max = max.map(|m| u32::try_from(m).unwrap_or(u32::MAX));
            parts.push(self.only_extra(&properties, &extra, (min as u32, max))?);
            Some(Vec::new())
        } else {
            None
        };
        let Some(choices) = choices else {
            let at = plan.shape.object.count_at.unwrap_or(self.at(&plan.shape));
            return Err(self
                .front
                .unsupported(if low { kw::MAX_PROPERTIES } else { kw::MIN_PROPERTIES }, at));
        };
        for properties in choices {
            parts.push(self.object_node(properties, &extra)?);
        }
        Ok(())
    }

    /// For each declared property the objects in which it is the first one present.
    fn first_present(&self, properties: &[Property]) -> Option<Vec<Vec<Property>>> {
        if properties.len() > MAX_SUBSETS {
            return None;
        }
        let possible = |p: &Property| !self.is_never(p.value);
        let firsts = properties.iter().enumerate().filter(|(_, p)| possible(p)).map(|(first, _)| {
            let choose = |(i, p): (usize, &Property)| match i {
                _ if i < first => Property { value: self.never, ..p.clone() },
                _ if i == first => Property { required: true, ..p.clone() },
                _ => p.clone(),
            };
            properties.iter().enumerate().map(choose).collect()
        });
        Some(firsts.collect())
    }

    /// Objects of undeclared properties only, a bounded number of them.
    fn only_extra(
        &mut self,
        properties: &[Property],
        extra: &[(Keys, NodeId)],
        (min, max): (u32, Option<u32>),
    ) -> Result<NodeId> {
        let declared = Dfa::words(properties.iter().map(|p| &*p.name))?.complement();
        let mut members = Vec::new();
        for (keys, value) in extra {
            let lang = match keys {
                keys if properties.is_empty() => self.keys_node(keys)?,
                Keys::All => Some(lang_ir::lower(&declared, &mut self.front.ir)?),
                Keys::Patterns(patterns) => {
                    let keys = self.front.any_pattern(patterns)?.intersect(&declared)?;
                    Some(lang_ir::lower(&keys, &mut self.front.ir)?)
                }
                Keys::Automaton(keys) => {
                    Some(lang_ir::lower(&keys.intersect(&declared)?, &mut self.front.ir)?)
                }
            };
            if lang.is_some_and(|l| self.is_never(l)) {
                continue;
            }
            let key = self.front.ir.push(Node::JsonString { lang, min_chars: 0, max_chars: None });
            let (space, colon) = (self.space(), self.front.ir.bytes(":"));
            members.push(self.front.ir.concat(vec![key, space, colon, space, *value, space]));
        }
        if members.is_empty() && min > 0 {
            return Ok(self.never);
        }
        let space = self.space();
        let ir = &mut self.front.ir;
        let (open, comma, close) = (ir.bytes("{"), ir.bytes(","), ir.bytes("}"));
        let member = ir.union(members);
        let another = ir.concat(vec![comma, space, member]);
        let others = ir.repeat(another, 0, max.map(|m| m.saturating_sub(1)));
        let some = ir.concat(vec![member, others]);
        let some = ir.repeat(some, min.min(1), Some(1));
        Ok(ir.concat(vec![open, space, some, close]))
    }

    /// Optional whitespace, as the policy has it.
    pub fn space(&mut self) -> NodeId {
        let Whitespace::Flexible { max } = self.front.policy.whitespace else {
            return self.front.ir.push(Node::Empty);
        };
        let byte = self.front.ir.push(Node::Class(smallvec![(b'\t', b'\n'), (b'\r', b'\r'), (b' ', b' ')]));
        self.front.ir.repeat(byte, 0, Some(u32::from(max)))
    }
}

/// Disjoint objects that together are all choices of `min` to `max` of the properties; `None` if there
/// are too many.
fn subsets(properties: &[Property], min: usize, max: usize) -> Option<Vec<Vec<Property>>> {
    // Each entry: the decided properties, how many are present, the next one to decide.
    let mut todo = vec![(Vec::new(), 0usize, 0usize)];
    let mut done = Vec::new();
    while let Some((chosen, present, next)) = todo.pop() {
        let rest = &properties[next..];
        let needed = rest.iter().filter(|p| p.required).count();
        if present + needed > max || present + rest.len() < min {
            continue;
        }
        if present + needed >= min && present + rest.len() <= max {
            let mut all: Vec<Property> = chosen;
            all.extend(rest.iter().cloned());
            done.push(all);
        } else if let Some(property) = rest.first() {
            if !property.required {
                todo.push((chosen.clone(), present, next + 1));
            }
            let mut with = chosen;
            with.push(Property { required: true, ..property.clone() });
            todo.push((with, present + 1, next + 1));
        }
        if done.len() + todo.len() > MAX_SUBSETS {
            return None;
        }
    }
    Some(done)
}
