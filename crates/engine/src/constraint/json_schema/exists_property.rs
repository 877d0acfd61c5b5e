//! Demands: an object must have a property with one of many names and a given kind of value.
//!
//! They come from the violations of `additionalProperties`, `patternProperties` and
//! `propertyNames`.
//!
//! The property may be a declared one, which is then required with a narrower value. Or it is an
//! undeclared one: the representation can require at least one of them. The object is the union of
//! these cases, which may overlap.
//!
//! # Cost
//!
//! One object per declared property that can meet the demand.

use std::sync::Arc;

use super::conjunctions::{ConjunctionId, Plan, SchemaLowering};
use super::context::SchemaContext;
use super::evaluated::is_evaluated;
use super::keywords::Keyword;
use super::normalize::Normalizer;
use super::properties::undeclared;
use super::shape::{ExistsProperty, Names, Schemas, Shape, Term, Test, add_term};
use super::undeclared::Keys;
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{self, Extra, MAX_DEMANDS, Node, NodeId, Parts, Property};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::{ErrorKind, Result};

/// Maximum number of objects whose union meets the demands.
const MAX_OBJECTS: usize = 256;
/// Maximum number of names that can meet a demand and are declared for it.
const MAX_DECLARED_FOR_DEMAND: usize = 64;

/// The demands of a shape with their conjunctions.
pub(super) struct Planned {
    /// Number of demands.
    count: usize,
    /// Declared properties that can meet demands (a bit each), by index, with the conjunctions of
    /// their values in that case.
    declared: Vec<(usize, u32, ConjunctionId)>,
    /// Undeclared ones; the flag: each property of that name meets the demands, with any value.
    extra: Vec<(u32, Keys, ConjunctionId, bool)>,
}

impl Planned {
    pub fn goals(&self) -> impl Iterator<Item = ConjunctionId> + '_ {
        self.declared.iter().map(|d| d.2).chain(self.extra.iter().map(|e| e.2))
    }
}
/// Declared properties, by index, with their conjunctions.
type Chosen = Vec<(usize, ConjunctionId)>;

impl Normalizer<'_> {
    /// Returns true if a name is among those of a demand.
    fn names_have(&mut self, names: Names, name: Symbol, at: Id) -> Result<bool> {
        match names {
            Names::Matching(pattern) => self.context.passes(Test::Pattern(pattern), name, at),
            Names::Failing(schema) => Ok(!self.validator().name_valid(schema, name)?),
            Names::Outside(set) => {
                let seen = self.evaluated.set(set);
                Ok(!is_evaluated(&mut self.context, &seen, name)?)
            }
            Names::Undeclared(schema) => {
                let (properties, patterns) = declarations(&self.context, schema)?;
                if properties.contains(&name) {
                    return Ok(false);
                }
                for (pattern, at) in patterns {
                    if self.context.passes(Test::Pattern(pattern), name, at)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// Returns the names of a demand, as an automaton.
    fn names_language(&mut self, names: Names, at: Id) -> Result<Arc<CharDfa>> {
        match names {
            Names::Matching(pattern) => self.context.texts.any_pattern(&self.context.doc, &[(pattern, at)]),
            Names::Failing(schema) => self.name_language(&[Term::Neg(schema)]),
            Names::Undeclared(schema) => {
                let (properties, patterns) = declarations(&self.context, schema)?;
                other_names(&mut self.context, &properties, &patterns)
            }
            Names::Outside(set) => {
                let seen = self.evaluated.set(set);
                other_names(&mut self.context, &seen.names, &seen.patterns)
            }
        }
    }
}

/// Returns the names that are not listed and match none of the patterns.
fn other_names(
    context: &mut SchemaContext<'_>,
    names: &[Symbol],
    patterns: &[(Symbol, Id)],
) -> Result<Arc<CharDfa>> {
    let all = CharDfa::words(names.iter().map(|&n| context.doc.name(n)))?.complement();
    match patterns.is_empty() {
        true => Ok(Arc::new(all)),
        false => {
            let patterns = context.texts.any_pattern(&context.doc, patterns)?;
            all.without(&patterns).map(Arc::new)
        }
    }
}

/// Returns the names and patterns of names that a schema object declares.
fn declarations(context: &SchemaContext<'_>, schema: Id) -> Result<(Vec<Symbol>, Schemas)> {
    let names = context.entries(schema, Keyword::Properties)?.into_iter().map(|p| p.0).collect();
    Ok((names, context.entries(schema, Keyword::PatternProperties)?))
}

impl SchemaLowering<'_> {
    /// Drops the demands that a required property meets, and those that others imply; `closed`:
    /// there are no undeclared properties.
    pub fn drop_met_demands(&mut self, shape: &mut Shape, closed: bool) -> Result<()> {
        if shape.object.demands.is_empty() {
            return Ok(());
        }
        let mut names: Vec<Symbol> = shape.object.values.keys().collect();
        names.sort_unstable();
        // Demands that are kept, with the declared names that can meet them.
        let mut kept: Vec<(ExistsProperty, Vec<Symbol>)> = Vec::new();
        for demand in std::mem::take(&mut shape.object.demands) {
            self.normalizer.context.step(names.len() as u64 / 4, demand.at)?;
            let mut meant = Vec::new();
            for &name in &names {
                if self.normalizer.names_have(demand.names, name, demand.at)? {
                    meant.push(name);
                }
            }
            if self.accepts_any_value(&demand) && meant.iter().any(|n| shape.object.required.contains(*n)) {
                continue;
            }
            let within = |a: &[Symbol], b: &[Symbol]| a.iter().all(|n| b.contains(n));
            let implies = |a: &(ExistsProperty, Vec<Symbol>), b: &(ExistsProperty, Vec<Symbol>)| {
                closed && a.0.value == b.0.value && within(&a.1, &b.1)
            };
            let own = (demand, meant);
            if !kept.iter().any(|other| implies(other, &own)) {
                kept.retain(|other| !implies(&own, other));
                kept.push(own);
            }
        }
        shape.object.demands = kept.into_iter().map(|k| k.0).collect();
        Ok(())
    }

    /// Returns true if any value meets a demand.
    fn accepts_any_value(&self, demand: &ExistsProperty) -> bool {
        match demand.value {
            None => true,
            Some(Term::Neg(id)) => self.normalizer.context.doc.value(id) == Value::Bool(false),
            _ => false,
        }
    }

    /// Declares the undeclared names that can meet demands if there are only a few of them. Others
    /// could use them up, so the representation cannot require one of them. Returns true if there
    /// were any.
    pub fn declare_few(&mut self, shape: &mut Shape, extra: &[(Keys, ConjunctionId)]) -> Result<bool> {
        let mut few: Vec<String> = Vec::new();
        let demands = &shape.object.demands;
        if demands.is_empty() || demands.len() > MAX_DEMANDS as usize {
            return Ok(false);
        }
        for (keys, _) in extra {
            let keys = self.keys_language(keys)?;
            for meets in 1..1u32 << demands.len() {
                let mut both = keys.clone();
                for (_, demand) in demands.iter().enumerate().filter(|(bit, _)| meets >> bit & 1 == 1) {
                    let own = self.normalizer.names_language(demand.names, demand.at)?;
                    both = Some(match both {
                        Some(both) => Arc::new(both.intersect(&own)?),
                        None => own,
                    });
                }
                few.extend(both.and_then(|both| both.finite(MAX_DECLARED_FOR_DEMAND)).into_iter().flatten());
            }
        }
        few.sort_unstable();
        few.dedup();
        let mut any = false;
        for name in few {
            let name = self.normalizer.context.doc.intern(&name);
            if !shape.object.values.contains_key(&name) {
                let known = undeclared(&mut self.normalizer.context, shape, name)?;
                shape.object.values.change().insert(name, known);
                shape.object.late.push(name);
                any = true;
            }
        }
        Ok(any)
    }

    /// Returns the names of undeclared properties; `None`: all.
    fn keys_language(&mut self, keys: &Keys) -> Result<Option<Arc<CharDfa>>> {
        Ok(match keys {
            Keys::All => None,
            Keys::Patterns(patterns) => {
                Some(self.normalizer.context.texts.any_pattern(&self.normalizer.context.doc, patterns)?)
            }
            Keys::Automaton(keys) => Some(keys.clone()),
        })
    }

    /// Finds the conjunctions of a shape's demands; the shape's own properties are planned already.
    pub fn plan_demands(
        &mut self,
        shape: &Shape,
        properties: &[(Symbol, ConjunctionId, bool)],
        extra: &[(Keys, ConjunctionId)],
    ) -> Result<Option<Planned>> {
        let demands = &shape.object.demands;
        if demands.is_empty() {
            return Ok(None);
        }
        if demands.len() > MAX_DEMANDS as usize {
            let message =
                format!("more than {MAX_DEMANDS} properties that must be there without being named");
            let error = self.normalizer.context.error(
                ErrorKind::TooComplex,
                demands[MAX_DEMANDS as usize].at,
                message,
            );
            return Err(error.hint("state what is allowed instead"));
        }
        let all = (1u32 << demands.len()) - 1;
        let mut planned = Planned { count: demands.len(), declared: Vec::new(), extra: Vec::new() };
        for (i, &(name, goal, _)) in properties.iter().enumerate() {
            let mut able = 0;
            for (bit, demand) in demands.iter().enumerate() {
                able |= u32::from(self.normalizer.names_have(demand.names, name, demand.at)?) << bit;
            }
            for meets in (1..=all).filter(|m| m & !able == 0) {
                planned.declared.push((i, meets, self.narrowed(goal, demands, meets)?));
            }
        }
        if extra.is_empty() {
            return Ok(Some(planned));
        }
        let mut wanted: Vec<Arc<CharDfa>> = Vec::new();
        for demand in demands {
            wanted.push(self.normalizer.names_language(demand.names, demand.at)?);
        }
        for (keys, goal) in extra {
            let keys = self.keys_language(keys)?;
            for meets in 1..=all {
                let mut both = keys.clone();
                for (_, own) in wanted.iter().enumerate().filter(|(bit, _)| meets >> bit & 1 == 1) {
                    both = Some(match both {
                        Some(both) => Arc::new(both.intersect(own)?),
                        None => own.clone(),
                    });
                }
                let Some(both) = both.filter(|b| !b.is_empty() && !self.listed(b, shape)) else { continue };
                let keys = if both.is_everything() { Keys::All } else { Keys::Automaton(both) };
                let narrowed = self.narrowed(*goal, demands, meets)?;
                planned.extra.push((meets, keys, narrowed, narrowed == *goal));
            }
        }
        Ok(Some(planned))
    }

    /// Returns the conjunction with the terms of some demands added.
    fn narrowed(
        &mut self,
        goal: ConjunctionId,
        demands: &[ExistsProperty],
        meets: u32,
    ) -> Result<ConjunctionId> {
        let mut terms = self.conjunctions.terms(goal).clone();
        for (_, demand) in demands.iter().enumerate().filter(|(bit, _)| meets >> bit & 1 == 1) {
            demand.value.iter().for_each(|t| add_term(&mut terms, *t));
        }
        self.conjunction(&terms)
    }

    /// Builds the objects that meet the demands: each demand by a declared property, or by
    /// undeclared ones.
    pub fn demanding(
        &mut self,
        plan: &Plan,
        planned: &Planned,
        properties: &[Property],
        extra: &[(Keys, NodeId)],
        parts: &mut Parts,
    ) -> Result<()> {
        // Each entry: chosen declared properties, demands that are not met yet, and those left to
        // undeclared properties.
        let mut todo: Vec<(Chosen, u32, u32)> = vec![(Vec::new(), (1 << planned.count) - 1, 0)];
        let mut objects = 0;
        while let Some((chosen, unmet, undeclared)) = todo.pop() {
            if unmet != 0 {
                let bit = unmet & unmet.wrapping_neg();
                todo.push((chosen.clone(), unmet & !bit, undeclared | bit));
                for &(i, meets, goal) in &planned.declared {
                    if meets & bit != 0 && meets & !unmet == 0 && chosen.iter().all(|c| c.0 != i) {
                        let mut more = chosen.clone();
                        more.push((i, goal));
                        todo.push((more, unmet & !meets, undeclared));
                    }
                }
                continue;
            }
            objects += 1;
            if objects > MAX_OBJECTS {
                let at = plan.shape.object.demands[0].at;
                let message = format!("this takes more than {MAX_OBJECTS} kinds of objects");
                return Err(self.normalizer.context.error(ErrorKind::TooComplex, at, message));
            }
            if let Some(properties) = self.chosen(plan, &chosen, properties) {
                match undeclared {
                    0 => self.counted(plan, properties, extra, parts)?,
                    _ => self.undeclared_demands(plan, planned, undeclared, properties, extra, parts)?,
                }
            }
        }
        Ok(())
    }

    /// Returns the properties with those chosen required and narrowed; `None` if one of them allows
    /// no value.
    fn chosen(
        &mut self,
        plan: &Plan,
        chosen: &[(usize, ConjunctionId)],
        properties: &[Property],
    ) -> Option<Vec<Property>> {
        let mut properties = properties.to_vec();
        for &(i, goal) in chosen {
            let value = self.node(goal);
            let name = self.normalizer.context.doc.name(plan.properties[i].0);
            let property = properties.iter_mut().find(|p| *p.name == *name)?;
            if self.nodes.is_never(value) {
                return None;
            }
            (property.value, property.required) = (value, true);
        }
        Some(properties)
    }

    /// Builds the object whose undeclared properties meet some of the demands.
    fn undeclared_demands(
        &mut self,
        plan: &Plan,
        planned: &Planned,
        wanted: u32,
        properties: Vec<Property>,
        extra: &[(Keys, NodeId)],
        parts: &mut Parts,
    ) -> Result<()> {
        let mut demand = Vec::new();
        for (meets, keys, goal, by_name) in planned.extra.iter().filter(|e| e.0 & !wanted == 0) {
            let value = self.node(*goal);
            if !self.nodes.is_never(value) {
                let entry = Extra { keys: self.nodes.keys_node(&self.normalizer.context, keys)?, value };
                demand.push(ir::Demand { meets: *meets, by_name: *by_name, entry });
            }
        }
        if demand.iter().fold(0, |all, d| all | d.meets) != wanted {
            return Ok(());
        }
        let mut entries = Vec::with_capacity(extra.len());
        for (keys, value) in extra {
            entries
                .push(Extra { keys: self.nodes.keys_node(&self.normalizer.context, keys)?, value: *value });
        }
        let (min, max) = (plan.shape.object.min, plan.shape.object.max);
        if max.is_some_and(|max| properties.iter().filter(|p| p.required).count() >= max as usize) {
            return Ok(());
        }
        let object = ir::Object { properties, extra: entries, demand, min, max, ..ir::Object::default() };
        parts.push(self.nodes.ir.push(Node::JsonObject(Box::new(object))));
        Ok(())
    }
}
