//! Demands: an object must have a property with one of many names and a given kind of value.
//!
//! The property may be a declared one, which is then required with a narrower value. Or it is an
//! undeclared one: the representation can require at least one of them. The object is the union of
//! these cases, which may overlap.
//!
//! # Cost
//!
//! One object per declared property that can meet the demand.

use std::sync::Arc;

use super::super::merge::declare;
use super::super::shape::{ExistsProperty, Shape};
use super::super::term::add_term;
use super::lowering::SchemaLowering;
use super::plan::{ConjunctionId, Keys, Plan, PlannedDemands, chosen};
use crate::char_lang::char_dfa::CharDfa;
use crate::constraint::ir::{self, MAX_DEMANDS, NodeId, Parts, Property};
use crate::constraint::json::document::Symbol;
use crate::error::Result;

/// Maximum number of objects whose union meets the demands.
const MAX_OBJECTS: usize = 256;
/// Maximum number of names that can meet a demand and are declared for it.
const MAX_DECLARED_FOR_DEMAND: usize = 64;

/// Declared properties, by index, with their conjunctions.
type Chosen = Vec<(usize, ConjunctionId)>;

impl SchemaLowering<'_> {
    /// Declares the undeclared names that can meet demands if there are only a few of them. Others
    /// could use them up, so the representation cannot require one of them. Returns true if there
    /// were any.
    pub(super) fn declare_few(&mut self, shape: &mut Shape, extra: &[(Keys, ConjunctionId)]) -> Result<bool> {
        let demands = &shape.object.demands;
        if demands.is_empty() || demands.len() > MAX_DEMANDS as usize || extra.is_empty() {
            return Ok(false);
        }
        let mut few: Vec<String> = Vec::new();
        let wanted = self.wanted_names(demands)?;
        for (keys, _) in extra {
            let keys = self.keys_language(keys)?;
            for meets in 1..1u32 << demands.len() {
                let both = in_all(&keys, &wanted, meets)?;
                few.extend(both.and_then(|both| both.finite(MAX_DECLARED_FOR_DEMAND)).into_iter().flatten());
            }
        }
        few.sort_unstable();
        few.dedup();
        let mut any = false;
        for name in few {
            let name = self.normalizer.context.doc.intern(&name);
            if declare(&mut self.normalizer.context, shape, name)? {
                shape.object.late.push(name);
                any = true;
            }
        }
        Ok(any)
    }

    /// Returns the names of each demand.
    fn wanted_names(&mut self, demands: &[ExistsProperty]) -> Result<Vec<Arc<CharDfa>>> {
        demands.iter().map(|demand| self.normalizer.names_language(demand)).collect()
    }

    /// Returns the names of undeclared properties; `None`: all.
    fn keys_language(&mut self, keys: &Keys) -> Result<Option<Arc<CharDfa>>> {
        Ok(match keys {
            Keys::All => None,
            Keys::Patterns(patterns) => Some(self.normalizer.context.any_pattern(patterns)?),
            Keys::Automaton(keys) => Some(keys.clone()),
        })
    }

    /// Finds the conjunctions of a shape's demands; the shape's own properties are planned already.
    pub(super) fn plan_demands(
        &mut self,
        shape: &Shape,
        properties: &[(Symbol, ConjunctionId, bool)],
        extra: &[(Keys, ConjunctionId)],
    ) -> Result<Option<PlannedDemands>> {
        let demands = &shape.object.demands;
        if demands.is_empty() {
            return Ok(None);
        }
        if let Some(demand) = demands.get(MAX_DEMANDS as usize) {
            let message =
                format!("more than {MAX_DEMANDS} properties that must be there without being named");
            let error = self.normalizer.context.too_complex(demand.at, message);
            return Err(error.hint("state what is allowed instead"));
        }
        let all = (1u32 << demands.len()) - 1;
        let mut planned = PlannedDemands { count: demands.len(), declared: Vec::new(), extra: Vec::new() };
        for (i, &(name, id, _)) in properties.iter().enumerate() {
            let mut able = 0;
            for (bit, demand) in demands.iter().enumerate() {
                able |= u32::from(self.normalizer.names_have(demand, name)?) << bit;
            }
            for meets in (1..=all).filter(|m| m & !able == 0) {
                planned.declared.push((i, meets, self.narrowed(id, demands, meets)?));
            }
        }
        if extra.is_empty() {
            return Ok(Some(planned));
        }
        let wanted = self.wanted_names(demands)?;
        for (keys, id) in extra {
            let keys = self.keys_language(keys)?;
            for meets in 1..=all {
                let both = in_all(&keys, &wanted, meets)?;
                let both = both.filter(|both| !both.is_empty() && !self.are_declared(both, shape));
                let Some(both) = both else { continue };
                let keys = if both.is_everything() { Keys::All } else { Keys::Automaton(both) };
                let narrowed = self.narrowed(*id, demands, meets)?;
                planned.extra.push((meets, keys, narrowed, narrowed == *id));
            }
        }
        Ok(Some(planned))
    }

    /// Returns the conjunction with the terms of some demands added.
    fn narrowed(
        &mut self,
        id: ConjunctionId,
        demands: &[ExistsProperty],
        meets: u32,
    ) -> Result<ConjunctionId> {
        let mut terms = self.get(id).terms.clone();
        for demand in chosen(demands, meets) {
            demand.value.iter().for_each(|t| add_term(&mut terms, *t));
        }
        self.conjunction(&terms)
    }

    /// Builds the objects that meet the demands: each demand by a declared property, or by
    /// undeclared ones.
    pub(super) fn demanding(
        &mut self,
        plan: &Plan,
        planned: &PlannedDemands,
        properties: &[Property],
        extra: &[(&Keys, NodeId)],
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
                for &(i, meets, id) in &planned.declared {
                    if meets & bit != 0 && meets & !unmet == 0 && chosen.iter().all(|c| c.0 != i) {
                        let more = chosen.iter().copied().chain([(i, id)]).collect();
                        todo.push((more, unmet & !meets, undeclared));
                    }
                }
                continue;
            }
            objects += 1;
            if objects > MAX_OBJECTS {
                let at = plan.shape.object.demands[0].at;
                let message = format!("this takes more than {MAX_OBJECTS} kinds of objects");
                return Err(self.normalizer.context.too_complex(at, message));
            }
            if let Some(properties) = self.narrow_properties(plan, &chosen, properties) {
                match undeclared {
                    0 => self.counted(plan, properties, extra, parts)?,
                    _ => self.undeclared_demands(plan, (planned, undeclared), properties, extra, parts)?,
                }
            }
        }
        Ok(())
    }

    /// Returns the properties with those chosen required and narrowed; `None` if one of them allows
    /// no value.
    fn narrow_properties(
        &mut self,
        plan: &Plan,
        chosen: &[(usize, ConjunctionId)],
        properties: &[Property],
    ) -> Option<Vec<Property>> {
        let mut properties = properties.to_vec();
        for &(i, id) in chosen {
            let value = self.node(id);
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
        (planned, wanted): (&PlannedDemands, u32),
        properties: Vec<Property>,
        extra: &[(&Keys, NodeId)],
        parts: &mut Parts,
    ) -> Result<()> {
        let mut demand = Vec::new();
        for (meets, keys, id, by_name) in planned.extra.iter().filter(|e| e.0 & !wanted == 0) {
            let value = self.node(*id);
            if !self.nodes.is_never(value) {
                let entry = self.nodes.extra(&self.normalizer.context, keys, value)?;
                demand.push(ir::Demand { meets: *meets, by_name: *by_name, entry });
            }
        }
        if demand.iter().fold(0, |all, d| all | d.meets) != wanted {
            return Ok(());
        }
        let extra = self.extras(extra)?;
        let (min, max) = (plan.shape.object.min, plan.shape.object.max);
        if max.is_none_or(|max| properties.iter().filter(|p| p.required).count() < max as usize) {
            let object = ir::Object { properties, extra, demand, min, max, ..ir::Object::default() };
            parts.push(self.nodes.object(object));
        }
        Ok(())
    }
}

/// Returns the names of `keys` (`None`: all names) that all chosen demands want.
fn in_all(keys: &Option<Arc<CharDfa>>, wanted: &[Arc<CharDfa>], meets: u32) -> Result<Option<Arc<CharDfa>>> {
    let mut all = keys.clone();
    for own in chosen(wanted, meets) {
        all = Some(match all {
            Some(all) => Arc::new(all.intersect(own)?),
            None => own.clone(),
        });
    }
    Ok(all)
}
