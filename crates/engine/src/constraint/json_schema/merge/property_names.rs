//! Sets of property names: those that `propertyNames` allows, and those that a demand is about.
//!
//! A demand is a property that must exist with one of many names. It comes from the violation of
//! `additionalProperties`, `patternProperties` or `propertyNames`.
//!
//! # Cost
//!
//! One automaton for each set that is asked for.

use std::sync::Arc;

use super::super::check::is_evaluated;
use super::super::read::{Id, Keyword, SchemaContext, Schemas, Symbol, Test, Types, Value, join, restrict};
use super::super::shape::{ExistsProperty, Names, Shape, StringPart};
use super::super::term::Term;
use super::normalize::Normalizer;
use super::partial_shape::{Mode, PartialShape};
use crate::char_lang::char_dfa::CharDfa;
use crate::error::Result;

/// Maximum bound on the length of a name that is turned into an automaton.
const MAX_NAME_LENGTH: u32 = 1_000;

impl Normalizer<'_> {
    /// Returns the names that satisfy `propertyNames`.
    pub(crate) fn name_language(&mut self, terms: &[Term]) -> Result<Arc<CharDfa>> {
        let mut start = PartialShape::new(terms);
        start.shape.types = Types::STRING;
        let shapes = self.expand(start, Mode::Exact)?.unwrap_or_default();
        let at = terms.iter().find_map(|t| if let Term::Pos(id) = *t { Some(id) } else { None });
        let at = at.unwrap_or(self.context.doc.root());
        let mut all: Option<Arc<CharDfa>> = None;
        for shape in &shapes {
            all = Some(join(all, shape_names(&mut self.context, shape, at)?)?);
        }
        all.map_or_else(|| CharDfa::words([]).map(Arc::new), Ok)
    }

    /// Returns true if a name is among those of a demand.
    pub(crate) fn names_have(&mut self, demand: &ExistsProperty, name: Symbol) -> Result<bool> {
        match demand.names {
            Names::Matching(pattern) => self.context.passes(Test::Pattern(pattern), name, demand.at),
            Names::Failing(schema) => Ok(!self.validator().name_valid(schema, name)?),
            Names::Outside(set) => {
                let seen = self.evaluated.set(set);
                Ok(!is_evaluated(&mut self.context, &seen, name)?)
            }
            Names::Undeclared(schema) => {
                let (properties, patterns) = declarations(&self.context, schema)?;
                Ok(!properties.contains(&name) && !self.context.passes_any(&patterns, name)?)
            }
        }
    }

    /// Returns the names of a demand, as an automaton.
    pub(crate) fn names_language(&mut self, demand: &ExistsProperty) -> Result<Arc<CharDfa>> {
        match demand.names {
            Names::Matching(pattern) => self.context.any_pattern(&[(pattern, demand.at)]),
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

    /// Drops the demands that a required property meets, and those that others imply; `closed`:
    /// there are no undeclared properties.
    pub(crate) fn drop_met_demands(&mut self, shape: &mut Shape, closed: bool) -> Result<()> {
        if shape.object.demands.is_empty() {
            return Ok(());
        }
        let mut names: Vec<Symbol> = shape.object.values.keys().collect();
        names.sort_unstable();
        // Demands that are kept, with the declared names that can meet them.
        let mut kept: Vec<(ExistsProperty, Vec<Symbol>)> = Vec::new();
        for demand in std::mem::take(&mut shape.object.demands) {
            self.context.step(names.len() as u64 / 4, demand.at)?;
            let mut able = Vec::new();
            for &name in &names {
                if self.names_have(&demand, name)? {
                    able.push(name);
                }
            }
            let any_value = match demand.value {
                None => true,
                Some(Term::Neg(id)) => self.context.doc.value(id) == Value::Bool(false),
                _ => false,
            };
            if any_value && able.iter().any(|n| shape.object.required.contains(*n)) {
                continue;
            }
            let implies = |a: &(ExistsProperty, Vec<Symbol>), b: &(ExistsProperty, Vec<Symbol>)| {
                closed && a.0.value == b.0.value && a.1.iter().all(|n| b.1.contains(n))
            };
            let own = (demand, able);
            if !kept.iter().any(|other| implies(other, &own)) {
                kept.retain(|other| !implies(&own, other));
                kept.push(own);
            }
        }
        shape.object.demands = kept.into_iter().map(|k| k.0).collect();
        Ok(())
    }
}

/// Returns the names and patterns of names that a schema object declares.
fn declarations(context: &SchemaContext<'_>, schema: Id) -> Result<(Vec<Symbol>, Schemas)> {
    let names = context.entries(schema, Keyword::Properties)?.into_iter().map(|p| p.0).collect();
    Ok((names, context.entries(schema, Keyword::PatternProperties)?))
}

/// Returns the names that are not listed and match none of the patterns.
fn other_names(
    context: &mut SchemaContext<'_>,
    names: &[Symbol],
    patterns: &[(Symbol, Id)],
) -> Result<Arc<CharDfa>> {
    let all = Arc::new(CharDfa::words(names.iter().map(|&n| context.doc.name(n)))?.complement());
    if patterns.is_empty() {
        return Ok(all);
    }
    restrict(Some(&all), &context.any_pattern(patterns)?, false)
}

fn shape_names(context: &mut SchemaContext<'_>, shape: &Shape, at: Id) -> Result<Arc<CharDfa>> {
    if let Some(literals) = &shape.literals {
        let words = literals.iter().filter_map(|&l| context.doc.string(l)).map(|n| context.doc.name(n));
        return CharDfa::words(words).map(Arc::new);
    }
    if let Some(refusal) = shape.refusals.iter().find(|r| r.types.meets(Types::STRING)) {
        return Err(refusal.error(context));
    }
    let StringPart { min, max, ref tests } = shape.string;
    let language = context.language(tests)?;
    if min > MAX_NAME_LENGTH || max.is_some_and(|m| m > MAX_NAME_LENGTH) {
        let message =
            format!("a bound on the length of property names is above the limit of {MAX_NAME_LENGTH}");
        return Err(context.too_complex(at, message));
    }
    match language {
        Some(language) if min == 0 && max.is_none() => Ok(language),
        language => restrict(language.as_deref(), &Arc::new(CharDfa::lengths(min, max)), true),
    }
}
