//! Objects that must have a property of some kind: the violations of `additionalProperties`,
//! `patternProperties` and `propertyNames`.
//!
//! The property may be a declared one, which is then required with a narrower value, or an undeclared
//! one, of which the representation can ask for at least one. The object is the union of these
//! cases, which may overlap. Cost: an object per declared property that the demand can mean.

use super::extras::Keys;
use super::front::Front;
use super::goals::{GoalId, Goals, Plan};
use super::json::{Id, Name};
use super::keywords as kw;
use super::lang::Dfa;
use super::shape::{Shape, Term, Test, add_term};
use crate::constraint::ir::{Extra, Node, NodeId, Property};
use crate::error::Result;

/// There must be a property with one of these names whose value satisfies the term.
#[derive(Debug, Clone)]
pub(super) struct Demand {
    pub names: Names,
    /// What the value must satisfy; `None`: nothing.
    pub value: Option<Term>,
    /// Where it was asked for.
    pub at: Id,
}

/// A set of property names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Names {
    /// Those that the schema neither lists in `properties` nor matches in `patternProperties`.
    Undeclared(Id),
    /// Those that match the pattern.
    Matching(Name),
    /// Those that violate the schema.
    Failing(Id),
}

/// A demand with its goals.
pub(super) struct Planned {
    /// Declared properties that can be meant, by index, with the goals of their values then.
    declared: Vec<(usize, GoalId)>,
    /// Undeclared ones.
    pub extra: Vec<(Keys, GoalId)>,
}

impl Planned {
    pub fn goals(&self) -> impl Iterator<Item = GoalId> + '_ {
        self.declared.iter().map(|d| d.1).chain(self.extra.iter().map(|e| e.1))
    }
}

impl Front<'_> {
    /// Whether a name is among those that a demand means.
    fn names_have(&mut self, names: Names, name: Name, at: Id) -> Result<bool> {
        match names {
            Names::Matching(pattern) => self.passes(Test::Pattern(pattern), name, at),
            Names::Failing(schema) => Ok(!self.name_valid(schema, name)?),
            Names::Undeclared(schema) => {
                let (properties, patterns) = self.declarations(schema)?;
                if properties.contains(&name) {
                    return Ok(false);
                }
                for (pattern, at) in patterns {
                    if self.passes(Test::Pattern(pattern), name, at)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
        }
    }

    /// The names that a demand means, as an automaton.
    fn names_language(&mut self, names: Names, at: Id) -> Result<Dfa> {
        match names {
            Names::Matching(pattern) => self.any_pattern(&[(pattern, at)]),
            Names::Failing(schema) => Ok((*self.name_language(&[Term::Neg(schema)])?).clone()),
            Names::Undeclared(schema) => {
                let (properties, patterns) = self.declarations(schema)?;
                let all = Dfa::words(properties.iter().map(|&n| self.doc.name(n)))?.complement();
                match patterns.is_empty() {
                    true => Ok(all),
                    false => all.intersect(&self.any_pattern(&patterns)?.complement()),
                }
            }
        }
    }

    /// The names and patterns of names that a schema object declares.
    fn declarations(&self, schema: Id) -> Result<(Vec<Name>, Vec<(Name, Id)>)> {
        let list = |name| match self.doc.get(schema, name) {
            Some(at) => self.object(at),
            None => Ok(Vec::new()),
        };
        Ok((list(kw::PROPERTIES)?.into_iter().map(|p| p.0).collect(), list(kw::PATTERN_PROPERTIES)?))
    }
}

impl Goals<'_> {
    /// The goals of a shape's demand; the shape's own properties are planned already.
    pub fn plan_demand(
        &mut self,
        shape: &Shape,
        properties: &[(Name, GoalId, bool)],
        extra: &[(Keys, GoalId)],
    ) -> Result<Option<Planned>> {
        let [demand, rest @ ..] = &shape.object.demands[..] else { return Ok(None) };
        if let Some(second) = rest.first() {
            let message = "two properties that must be there without being named are not supported";
            let error = self.front.error(crate::error::ErrorKind::Unsupported, second.at, message);
            return Err(error.hint("state what is allowed instead"));
        }
        let mut planned = Planned { declared: Vec::new(), extra: Vec::new() };
        for (i, &(name, goal, _)) in properties.iter().enumerate() {
            if self.front.names_have(demand.names, name, demand.at)? {
                planned.declared.push((i, self.narrowed(goal, &demand.value)?));
            }
        }
        if extra.is_empty() {
            return Ok(Some(planned));
        }
        let wanted = self.front.names_language(demand.names, demand.at)?;
        for (keys, goal) in extra {
            let both = match keys {
                Keys::All => wanted.clone(),
                Keys::Patterns(patterns) => self.front.any_pattern(patterns)?.intersect(&wanted)?,
                Keys::Automaton(keys) => keys.intersect(&wanted)?,
            };
            if both.is_empty() || self.listed(&both, shape) {
                continue;
            }
            let keys = if both.is_everything() { Keys::All } else { Keys::Automaton(both.into()) };
            planned.extra.push((keys, self.narrowed(*goal, &demand.value)?));
        }
        Ok(Some(planned))
    }

    /// The goal with one more term.
    fn narrowed(&mut self, goal: GoalId, term: &Option<Term>) -> Result<GoalId> {
        let Some(term) = term else { return Ok(goal) };
        let mut terms = self.terms(goal).clone();
        add_term(&mut terms, term.clone());
        self.goal(&terms)
    }

    /// The objects that meet the demand.
    pub fn demanding(
        &mut self,
        plan: &Plan,
        planned: &Planned,
        properties: &[Property],
        extra: &[(Keys, NodeId)],
        parts: &mut Vec<NodeId>,
    ) -> Result<()> {
        for &(i, goal) in &planned.declared {
            let value = self.node(goal);
            // Properties without a value may have been left out.
            let name = self.front.doc.name(plan.properties[i].0);
            let Some(at) = properties.iter().position(|p| *p.name == *name) else { continue };
            if !self.is_never(value) {
                let mut properties = properties.to_vec();
                properties[at] = Property { value, required: true, ..properties[at].clone() };
                self.counted(plan, properties, extra.to_vec(), parts)?;
            }
        }
        let mut demand = Vec::new();
        for (keys, goal) in &planned.extra {
            let value = self.node(*goal);
            if !self.is_never(value) {
                demand.push(Extra { keys: self.keys_node(keys)?, value });
            }
        }
        if demand.is_empty() {
            return Ok(());
        }
        let object = &plan.shape.object;
        let required = properties.iter().filter(|p| p.required).count();
        if object.max.is_some() || object.min as usize > required + 1 {
            let at = object.count_at.unwrap_or(self.at(&plan.shape));
            let keyword = if object.max.is_some() { kw::MAX_PROPERTIES } else { kw::MIN_PROPERTIES };
            return Err(self.front.unsupported(keyword, at));
        }
        let mut entries = Vec::with_capacity(extra.len());
        for (keys, value) in extra {
            entries.push(Extra { keys: self.keys_node(keys)?, value: *value });
        }
        let properties = properties.to_vec();
        parts.push(self.front.ir.push(Node::JsonObject { properties, extra: entries, demand }));
        Ok(())
    }
}
