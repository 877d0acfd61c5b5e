//! From shapes to nodes of the IR: one node per JSON type that is left, and their union.
//!
//! Everything of bounded kinds (literals, `null`, booleans) goes into one literal set. A refusal
//! becomes an error only in this file: an unsupported keyword does no harm to a type that cannot
//! occur.

use rustc_hash::FxHashSet;
use smallvec::smallvec;

use super::super::merge::undeclared;
use super::super::read::Types;
use super::super::shape::{Shape, lower_max};
use super::super::small_map::SmallMap;
use super::super::term::{FALSE, Term, Terms};
use super::literal_nodes::Literals;
use super::lowering::{FREE, SchemaLowering};
use super::nodes::WORDS;
use super::plan::{ConjunctionId, Declared, Extras, Keys, Plan};
use crate::constraint::ir::{ByteString, Extra, Node, NodeId, Object, Parts, Property};
use crate::error::Result;

impl SchemaLowering<'_> {
    /// Finds the conjunctions of a shape's children.
    pub(super) fn plan(&mut self, mut shape: Box<Shape>) -> Result<Plan> {
        let mut plan = Plan {
            properties: Declared::new(),
            extra: Extras::new(),
            prefix: Vec::new(),
            rest: FREE,
            contains: Vec::new(),
            demands: None,
            shape: Box::default(),
        };
        if shape.literals.is_none() && shape.types.meets(Types::ARRAY) {
            self.normalizer.drop_trivial_conditions(&mut shape.array)?;
            shape.drop_contradictions();
            for terms in &shape.array.prefix {
                plan.prefix.push(self.conjunction(terms)?);
            }
            plan.rest = self.conjunction(&shape.array.rest)?;
            plan.contains = self.contains_ways(&shape.array)?;
        }
        if shape.literals.is_none() && shape.types.meets(Types::OBJECT) {
            plan.properties = self.properties(&mut shape)?;
            plan.extra = self.undeclared_properties(&shape)?;
            self.normalizer.drop_met_demands(&mut shape, plan.extra.is_empty())?;
            if self.declare_few(&mut shape, &plan.extra)? {
                plan.properties.extend(self.properties(&mut shape)?);
                plan.extra = self.undeclared_properties(&shape)?;
            }
            plan.demands = self.plan_demands(&shape, &plan.properties, &plan.extra)?;
        }
        plan.shape = shape;
        Ok(plan)
    }

    /// Returns the declared properties in the order of the output.
    fn properties(&mut self, shape: &mut Shape) -> Result<Declared> {
        if shape.object.order.is_empty() && shape.object.late.is_empty() {
            return Ok(Declared::new());
        }
        let mut names = std::mem::take(&mut shape.object.order);
        names.append(&mut shape.object.late);
        let mut properties = Declared::with_capacity(names.len());
        let mut seen = SmallMap::<(), 16>::default();
        for name in names {
            if !seen.insert(name, ()) {
                continue;
            }
            let mut terms = match shape.object.values.get(&name) {
                // Cheaper than a clone.
                Some(terms) => Terms::from_slice(terms),
                None => undeclared(&mut self.normalizer.context, shape, name)?,
            };
            for term in &shape.object.names {
                if let Term::Pos(schema) = *term
                    && !self.normalizer.validator().name_valid(schema, name)?
                {
                    terms = smallvec![FALSE];
                }
            }
            if !shape.object.values.contains_key(&name) {
                shape.object.values.change().insert(name, Terms::new());
            }
            properties.push((name, self.conjunction(&terms)?, shape.object.required.contains(name)));
        }
        Ok(properties)
    }

    /// Builds the node of a conjunction from its planned shapes and the conjunctions that are
    /// alternatives to them.
    pub(super) fn build(&mut self, plans: &[Plan], shared: &[ConjunctionId]) -> Result<NodeId> {
        let mut parts = Parts::new();
        let mut literals = Literals::default();
        for plan in plans {
            if plan.shape.is_free() {
                return Ok(self.nodes.any);
            }
            self.build_shape(plan, &mut literals, &mut parts)?;
        }
        for &id in shared {
            let node = self.node(id);
            if node == self.nodes.any {
                return Ok(node);
            }
            match self.nodes.ir.node(node) {
                Node::Union(others) => parts.extend_from_slice(others),
                Node::Never => self.cause = self.cause.take().or_else(|| self.reason(id)),
                _ => parts.push(node),
            }
        }
        parts.retain(|&mut p| !self.nodes.is_never(p));
        if parts.len() > 1 {
            let mut seen = FxHashSet::default();
            parts.retain(|&mut p| seen.insert(p));
        }
        if !literals.is_empty() {
            self.nodes.literals(literals, &mut parts);
        }
        Ok(if parts.is_empty() { self.nodes.never } else { self.nodes.ir.union(parts) })
    }

    /// Adds the literals of a shape and the nodes of its types.
    fn build_shape(&mut self, plan: &Plan, literals: &mut Literals, parts: &mut Parts) -> Result<()> {
        let shape = &plan.shape;
        let context = &self.normalizer.context;
        if let Some(values) = &shape.literals {
            values.iter().for_each(|&literal| self.nodes.literal(context, literal, literals, parts));
            return Ok(());
        }
        if let Some(refusal) = shape.refusals.iter().find(|r| r.types.meets(shape.types)) {
            return Err(refusal.error(context));
        }
        let words = WORDS.iter().filter(|word| shape.types.meets(word.0));
        literals.words.extend(words.map(|word| ByteString::from_slice(word.1.as_bytes())));
        if shape.types.meets(Types::NUMBER) {
            parts.extend(self.number(shape, &mut literals.words)?);
        }
        if shape.types.meets(Types::STRING) {
            parts.push(self.string(shape)?);
        }
        if shape.types.meets(Types::ARRAY) {
            parts.push(self.array(plan)?);
        }
        if shape.types.meets(Types::OBJECT) {
            self.object(plan, parts)?;
        }
        Ok(())
    }

    fn array(&mut self, plan: &Plan) -> Result<NodeId> {
        let part = &plan.shape.array;
        let mut max = part.max;
        let mut prefix: Vec<NodeId> = plan.prefix.iter().map(|&id| self.node(id)).collect();
        let rest = Some(self.node(plan.rest)).filter(|&r| !self.nodes.is_never(r));
        let stop = prefix.iter().position(|&p| self.nodes.is_never(p));
        if let Some(stop) = stop {
            lower_max(&mut max, stop as u32);
        } else if rest.is_none() {
            lower_max(&mut max, prefix.len() as u32);
        }
        if let Some(most) = max {
            prefix.truncate(most as usize);
            if part.min > most {
                let empty = stop.map_or(plan.rest, |s| plan.prefix[s]);
                self.cause = self.cause.take().or(self.reason(empty));
                return Ok(self.nodes.never);
            }
        }
        let unique = part.unique.filter(|_| max.is_none_or(|m| m > 1));
        if !part.contains.is_empty() {
            return match unique {
                Some(at) => self.unique_containing(plan, rest, at),
                None => self.containing(plan),
            };
        }
        if let (Some(_), true, Some(items)) = (unique, prefix.is_empty(), rest)
            && let Some(node) = self.nodes.unique_texts(items, (part.min, max))?
        {
            return Ok(node);
        }
        let rest = rest.filter(|_| max.is_none_or(|m| m as usize > prefix.len()));
        let array = self.nodes.ir.push(Node::JsonArray { prefix, rest, min: part.min, max });
        Ok(match unique {
            Some(_) => self.nodes.ir.push(Node::JsonUnique { array, enough: Vec::new() }),
            None => array,
        })
    }

    fn object(&mut self, plan: &Plan, parts: &mut Parts) -> Result<()> {
        let mut properties = Vec::with_capacity(plan.properties.len());
        for &(name, id, required) in &plan.properties {
            let value = self.node(id);
            let word = self.normalizer.context.doc.name(name);
            if required && self.nodes.is_never(value) {
                let why = format!("the required property {word:?} allows no value");
                if self.cause.is_none() {
                    self.cause = Some(match self.reason(id) {
                        Some((at, reason)) => (at, format!("{why}: {reason}").into()),
                        None => (self.representative_schema(&plan.shape), why.into()),
                    });
                }
                return Ok(());
            }
            properties.push(Property { name: word.into(), value, required });
        }
        let mut extra = Vec::with_capacity(plan.extra.len());
        for (keys, id) in &plan.extra {
            let value = self.node(*id);
            if !self.nodes.is_never(value) {
                extra.push((keys, value));
            }
        }
        if extra.is_empty() && plan.demands.is_none() {
            properties.retain(|p| !self.nodes.is_never(p.value));
        }
        match &plan.demands {
            Some(demands) => self.demanding(plan, demands, &properties, &extra, parts),
            None => self.counted(plan, properties, &extra, parts),
        }
    }

    /// Adds the object with the allowed number of properties.
    pub(super) fn counted(
        &mut self,
        plan: &Plan,
        mut properties: Vec<Property>,
        extra: &[(&Keys, NodeId)],
        parts: &mut Parts,
    ) -> Result<()> {
        let (min, max) = (plan.shape.object.min, plan.shape.object.max);
        let required = properties.iter().filter(|p| p.required).count();
        let possible = properties.iter().filter(|p| !self.nodes.is_never(p.value)).count();
        let cause = if extra.is_empty() && possible < min as usize {
            "there are fewer possible properties than `minProperties` asks for"
        } else if max.is_some_and(|max| required > max as usize) {
            "there are more required properties than `maxProperties` allows"
        } else {
            let mut entries = Vec::new();
            // If required properties use up the maximum, no others are possible.
            if max.is_none_or(|max| required < max as usize) {
                entries = self.extras(extra)?;
            } else {
                properties.retain(|p| p.required);
            }
            let object = Object { properties, extra: entries, min, max, ..Object::default() };
            parts.push(self.nodes.object(object));
            return Ok(());
        };
        let at = plan.shape.object.count_at.unwrap_or(self.representative_schema(&plan.shape));
        self.cause.get_or_insert((at, cause.into()));
        Ok(())
    }

    /// Returns the entries of undeclared properties.
    pub(super) fn extras(&mut self, extra: &[(&Keys, NodeId)]) -> Result<Vec<Extra>> {
        let context = &self.normalizer.context;
        extra.iter().map(|&(keys, value)| self.nodes.extra(context, keys, value)).collect()
    }
}
