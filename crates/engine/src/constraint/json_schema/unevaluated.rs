//! `unevaluatedProperties`, `unevaluatedItems`, and the properties and items that others evaluate.
//!
//! That depends on which sibling schemas hold, so it is computed as *alternatives*: lists of terms
//! with the set that is evaluated if they hold. An alternative need not state which schemas do not
//! hold. A smaller evaluated set only requires more, so the union over the alternatives is exact:
//! an instance is in it through the alternative of all schemas that do hold. Negations are
//! therefore only needed if the keyword itself is negated.
//!
//! # Cost
//!
//! Alternatives that another one makes superfluous are dropped; at most [`MAX_ALTERNATIVES`] are
//! left.
//!
//! # Alternatives considered
//!
//! Annotations carried by the forks of a merge. If two schemas with this keyword are merged, their
//! sub-schemas would have to know which of the two an annotation is for.

use std::rc::Rc;

use smallvec::smallvec;

use super::contains::Contains;
use super::context::SchemaContext;
use super::exists_property::{ExistsProperty, Names};
use super::keyword_values::Schemas;
use super::keywords::{self as kw, SchemaDraft};
use super::normalize::{Fork, PendingKeyword};
use super::shape::{Term, Terms, Test, Types, add_term};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::{ErrorKind, Result};

/// Maximum number of alternatives of the evaluated set for one keyword.
const MAX_ALTERNATIVES: usize = 512;
/// Maximum nesting of schemas for the same value in which evaluation is followed.
const MAX_DEPTH: u32 = 64;

/// Kind of the keyword: about properties or about items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum UnevaluatedKind {
    Properties,
    Items,
}

/// An evaluated set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Evaluated {
    pub kind: UnevaluatedKind,
    /// Everything.
    all: bool,
    /// Properties with these names.
    pub names: Vec<Symbol>,
    /// Properties whose names match one of these patterns (with the location of one).
    pub patterns: Schemas,
    /// Number of first items.
    first: u32,
    /// Items that satisfy one of these schemas.
    matching: Vec<Id>,
}

/// Terms, and the evaluated set if they hold.
#[derive(Debug, Clone)]
struct Alternative {
    terms: Terms,
    seen: Evaluated,
}

/// Alternatives by the schema, the kind, and whether the query comes from a schema around it. In
/// that case its own `unevaluated…` keyword counts as well.
pub(super) type AlternativesMemo = rustc_hash::FxHashMap<(Id, UnevaluatedKind, bool), Rc<Alternatives>>;

/// Alternatives of which at least one holds for every instance that its schemas accept.
#[derive(Debug)]
pub(super) struct Alternatives(Vec<Alternative>);

impl Evaluated {
    fn none(kind: UnevaluatedKind) -> Evaluated {
        Evaluated {
            kind,
            all: false,
            names: Vec::new(),
            patterns: Schemas::new(),
            first: 0,
            matching: Vec::new(),
        }
    }

    fn is_nothing(&self) -> bool {
        *self == Evaluated::none(self.kind)
    }

    fn add(&mut self, other: &Evaluated) {
        self.all |= other.all;
        self.names.extend(&other.names);
        self.patterns.extend_from_slice(&other.patterns);
        self.matching.extend(&other.matching);
        self.first = self.first.max(other.first);
        self.names.sort_unstable();
        self.names.dedup();
        self.patterns.sort_unstable();
        self.patterns.dedup_by_key(|p| p.0);
        self.matching.sort_unstable();
        self.matching.dedup();
    }

    fn covers(&self, other: &Evaluated) -> bool {
        let pattern = |p: &(Symbol, Id)| self.patterns.iter().any(|q| q.0 == p.0);
        self.all
            || !other.all
                && self.first >= other.first
                && other.names.iter().all(|n| self.names.binary_search(n).is_ok())
                && other.patterns.iter().all(pattern)
                && other.matching.iter().all(|m| self.matching.binary_search(m).is_ok())
    }
}

impl Alternative {
    fn and(&self, other: &Alternative) -> Alternative {
        let mut both = self.clone();
        other.terms.iter().for_each(|t| add_term(&mut both.terms, *t));
        both.seen.add(&other.seen);
        both
    }

    fn with_terms(mut self, terms: &[Term]) -> Alternative {
        let mut all: Terms = terms.iter().cloned().collect();
        self.terms.drain(..).for_each(|t| add_term(&mut all, t));
        self.terms = all;
        self
    }
}

impl Alternatives {
    fn none(kind: UnevaluatedKind) -> Alternatives {
        Alternatives(vec![Alternative { terms: Terms::new(), seen: Evaluated::none(kind) }])
    }

    fn is_nothing(&self) -> bool {
        self.0.iter().all(|a| a.seen.is_nothing())
    }

    /// Returns the same alternatives with more terms, which come first.
    fn with_terms(&self, terms: &[Term]) -> Alternatives {
        Alternatives(self.0.iter().map(|a| a.clone().with_terms(terms)).collect())
    }

    fn and(&self, other: &Alternatives) -> Alternatives {
        if other.is_nothing() {
            // The terms of `other` are merged elsewhere.
            return Alternatives(self.0.clone());
        }
        let all = self.0.iter().flat_map(|a| other.0.iter().map(move |b| a.and(b)));
        Alternatives(all.collect()).pruned()
    }

    fn or(mut self, other: Alternatives) -> Alternatives {
        self.0.extend(other.0);
        self.pruned()
    }

    /// Drops alternatives that require more and evaluate no more than another one.
    fn pruned(self) -> Alternatives {
        let mut kept: Vec<Alternative> = Vec::with_capacity(self.0.len());
        let beats = |a: &Alternative, b: &Alternative| {
            a.terms.len() <= b.terms.len()
                && a.seen.covers(&b.seen)
                && a.terms.iter().all(|t| b.terms.contains(t))
        };
        for own in self.0 {
            if !kept.iter().any(|other| beats(other, &own)) {
                kept.retain(|other| !beats(&own, other));
                kept.push(own);
            }
        }
        Alternatives(kept)
    }
}

impl SchemaContext<'_> {
    /// Returns the work for `unevaluatedProperties` or `unevaluatedItems` (`name`, with the value
    /// `at`) of a schema object. It comes before that of the sibling schemas.
    pub fn unevaluated(&mut self, schema: Id, name: Symbol, at: Id) -> Result<Option<PendingKeyword>> {
        if self.is_true(at) {
            return Ok(None);
        }
        let choice = self.evaluated_beside(schema, name)?;
        let mut alternatives = Vec::with_capacity(choice.0.len());
        for own in &choice.0 {
            let mut terms = own.terms.clone();
            if !own.seen.all {
                terms.push(Term::Unevaluated(self.evaluated_set(&own.seen), at, true));
            }
            alternatives.push(terms);
        }
        Ok(Some(PendingKeyword::Choice(Rc::new(alternatives), at)))
    }

    /// Merges the violation of the keyword: if an alternative holds, something outside of its
    /// evaluated set violates the schema.
    pub fn negative_unevaluated(&mut self, fork: &mut Fork, schema: Id, name: Symbol, at: Id) -> Result<()> {
        let types = if kind_of(name) == UnevaluatedKind::Properties { Types::OBJECT } else { Types::ARRAY };
        let possible = if self.is_true(at) { Types::NONE } else { types };
        fork.shape.types = fork.shape.types.and(possible);
        if fork.shape.types.is_empty() {
            return Ok(());
        }
        let mut items = Vec::new();
        for own in &self.evaluated_beside(schema, name)?.0 {
            let mut ways: Vec<Terms> = Vec::new();
            if !own.seen.all {
                ways.push(smallvec![Term::Unevaluated(self.evaluated_set(&own.seen), at, false)]);
            }
            for term in &own.terms {
                ways.push(match *term {
                    Term::Pos(id) => smallvec![Term::Neg(id)],
                    Term::Neg(id) => smallvec![Term::Pos(id)],
                    Term::Types(types) => smallvec![Term::Types(Types::ALL.without(types))],
                    Term::Require(name) => smallvec![Term::Types(Types::OBJECT), Term::Forbid(name)],
                    Term::Forbid(name) => smallvec![Term::Types(Types::OBJECT), Term::Require(name)],
                    // Alternatives consist of the terms above.
                    _ => continue,
                });
            }
            items.push(PendingKeyword::Choice(Rc::new(ways), at));
        }
        fork.queue(items);
        Ok(())
    }

    /// Merges the term that everything outside of a set satisfies the schema, or (`holds` is false)
    /// something does not.
    pub fn outside(&mut self, fork: &mut Fork, set: u32, at: Id, holds: bool) -> Result<()> {
        let seen = self.evaluated[set as usize].clone();
        match seen.kind {
            UnevaluatedKind::Properties if holds => {
                let truth = self.doc.constant(true);
                let properties = seen.names.iter().map(|&n| (n, truth)).collect();
                let patterns = seen.patterns.iter().map(|p| (p.0, truth)).collect();
                self.merge_group(fork, (properties, patterns), Some(at), at)?;
            }
            UnevaluatedKind::Properties => {
                let names = Names::Outside(set);
                fork.shape.object.demands.push(ExistsProperty { names, value: Some(Term::Neg(at)), at });
            }
            UnevaluatedKind::Items => {
                let schema = self.item_outside(&seen, at);
                let array = &mut fork.shape.array;
                if holds {
                    array.each_item(&vec![None; seen.first as usize], Some(Term::Pos(schema)));
                } else {
                    let (counts, fails) = (Term::Neg(schema), Term::Pos(schema));
                    let bound = Contains { counts, fails, from: seen.first, min: 1, max: None, at };
                    array.contains.push(bound);
                }
            }
        }
        Ok(())
    }

    /// Returns the schema of an item after the first ones: `contains` evaluates it, or it satisfies
    /// the keyword's schema.
    fn item_outside(&mut self, seen: &Evaluated, at: Id) -> Id {
        let mut schemas = seen.matching.clone();
        if self.doc.value(at) != Value::Bool(false) {
            schemas.push(at);
        }
        match schemas[..] {
            [] => at,
            [only] => only,
            _ => self.doc.any_of(&schemas, at),
        }
    }

    /// Returns true if a literal satisfies the keyword `name` of a schema object.
    pub fn unevaluated_valid(
        &mut self,
        schema: Id,
        (name, at): (Symbol, Id),
        value: Id,
        depth: u32,
    ) -> Result<bool> {
        let mut seen = Evaluated::none(kind_of(name));
        for own in &self.evaluated_beside(schema, name)?.0 {
            let mut holds = true;
            for term in &own.terms {
                holds = holds && self.term(term, value, depth + 1)?;
            }
            if holds {
                seen.add(&own.seen);
            }
        }
        self.outside_valid(&seen, at, value, depth)
    }

    /// Returns true if every part of a literal outside of a set satisfies the schema; true for
    /// other types.
    pub fn outside_valid(&mut self, seen: &Evaluated, at: Id, value: Id, depth: u32) -> Result<bool> {
        if seen.all {
            return Ok(true);
        }
        if seen.kind == UnevaluatedKind::Properties {
            for (name, member) in self.doc.members(value).to_vec() {
                if !self.is_evaluated(seen, name)? && !self.valid(at, member, depth + 1)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let schema = self.item_outside(seen, at);
        for element in self.doc.elements(value).iter().skip(seen.first as usize).copied().collect::<Vec<_>>()
        {
            if !self.valid(schema, element, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if a property of that name is evaluated.
    pub fn is_evaluated(&mut self, seen: &Evaluated, name: Symbol) -> Result<bool> {
        if seen.all || seen.names.binary_search(&name).is_ok() {
            return Ok(true);
        }
        for &(pattern, at) in &seen.patterns {
            if self.passes(Test::Pattern(pattern), name, at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the set of the properties with these names.
    pub fn only_names(&mut self, mut names: Vec<Symbol>) -> u32 {
        names.sort_unstable();
        self.evaluated_set(&Evaluated { names, ..Evaluated::none(UnevaluatedKind::Properties) })
    }

    /// Returns the number of a set.
    fn evaluated_set(&mut self, seen: &Evaluated) -> u32 {
        let known = self.evaluated.iter().position(|s| **s == *seen);
        known.unwrap_or_else(|| {
            self.evaluated.push(Rc::new(seen.clone()));
            self.evaluated.len() - 1
        }) as u32
    }

    /// Returns the evaluated sets for a keyword of a schema object.
    fn evaluated_beside(&mut self, schema: Id, name: Symbol) -> Result<Rc<Alternatives>> {
        self.evaluated_by(schema, kind_of(name), false, 0)
    }

    /// Returns what a schema evaluates; with `around`, its own `unevaluated…` keyword counts.
    fn evaluated_by(
        &mut self,
        id: Id,
        kind: UnevaluatedKind,
        around: bool,
        depth: u32,
    ) -> Result<Rc<Alternatives>> {
        if let Some(known) = self.alternatives.get(&(id, kind, around)) {
            return Ok(known.clone());
        }
        if depth > MAX_DEPTH {
            let message = format!("what is evaluated is nested deeper than the limit of {MAX_DEPTH}");
            return Err(self.error(ErrorKind::TooComplex, id, message));
        }
        let seen = self.evaluated_directly(id, kind, around)?;
        let mut all = Alternatives(vec![Alternative { terms: Terms::new(), seen }]);
        if !all.0[0].seen.all {
            let keywords: Vec<(Symbol, Id)> = self.asserting(id).collect();
            for (name, at) in keywords {
                let own = self.evaluated_through(id, (name, at), kind, depth)?;
                if let Some(own) = own {
                    self.step((all.0.len() * own.0.len()) as u64, at)?;
                    all = all.and(&own);
                }
                if all.0.len() > MAX_ALTERNATIVES {
                    let message = format!(
                        "what is evaluated beside `unevaluated…` depends on more than {MAX_ALTERNATIVES} combinations"
                    );
                    return Err(self.error(ErrorKind::TooComplex, at, message));
                }
            }
        }
        let all = Rc::new(all);
        self.alternatives.insert((id, kind, around), all.clone());
        Ok(all)
    }

    /// Returns what a schema object evaluates by keywords of its own.
    fn evaluated_directly(&mut self, id: Id, kind: UnevaluatedKind, around: bool) -> Result<Evaluated> {
        let mut seen = Evaluated::none(kind);
        let has = |front: &Self, name| front.doc.get(id, name).is_some();
        match kind {
            UnevaluatedKind::Properties => {
                let list = |front: &Self, name| match front.doc.get(id, name) {
                    Some(at) => front.object(at),
                    None => Ok(Schemas::new()),
                };
                seen.names = list(self, kw::PROPERTIES)?.into_iter().map(|p| p.0).collect();
                seen.names.sort_unstable();
                seen.patterns = list(self, kw::PATTERN_PROPERTIES)?;
                seen.patterns.sort_unstable();
                seen.all =
                    has(self, kw::ADDITIONAL_PROPERTIES) || around && has(self, kw::UNEVALUATED_PROPERTIES);
            }
            UnevaluatedKind::Items => {
                let (prefix, rest) = self.item_schemas(id)?;
                seen.first = prefix.len() as u32;
                seen.all = rest.is_some() || around && has(self, kw::UNEVALUATED_ITEMS);
                if self.draft >= SchemaDraft::D2020 {
                    seen.matching.extend(self.doc.get(id, kw::CONTAINS));
                }
            }
        }
        Ok(seen)
    }

    /// Returns what a schema object evaluates through the schemas of one keyword; `None`: nothing.
    fn evaluated_through(
        &mut self,
        id: Id,
        (name, at): (Symbol, Id),
        kind: UnevaluatedKind,
        depth: u32,
    ) -> Result<Option<Alternatives>> {
        Ok(Some(match name {
            kw::REF | kw::DYNAMIC_REF | kw::RECURSIVE_REF => {
                let target = self.target(name, at)?;
                self.holding(target, kind, depth)?
            }
            kw::ALL_OF => {
                let mut all = Alternatives::none(kind);
                for schema in self.schemas(at)? {
                    all = all.and(&self.holding(schema, kind, depth)?);
                }
                all
            }
            kw::ANY_OF => {
                let mut all = Alternatives::none(kind);
                let mut each = true;
                for schema in self.schemas(at)? {
                    let own = self.holding(schema, kind, depth)?;
                    each &= own.0.iter().all(|a| !a.seen.is_nothing());
                    self.step((all.0.len() * own.0.len()) as u64, at)?;
                    all = all.and(&own.or(Alternatives::none(kind)));
                    if all.0.len() > MAX_ALTERNATIVES {
                        break;
                    }
                }
                if each {
                    // At least one of them holds, and evaluates something.
                    all.0.retain(|a| !a.terms.is_empty());
                }
                all
            }
            kw::ONE_OF => {
                let mut all = Alternatives(Vec::new());
                for schema in self.schemas(at)? {
                    all = all.or(self.holding(schema, kind, depth)?);
                }
                all
            }
            kw::IF => self.evaluated_by_if(id, at, kind, depth)?,
            kw::DEPENDENCIES | kw::DEPENDENT_SCHEMAS => {
                let mut all = Alternatives::none(kind);
                for (name, then) in self.object(at)? {
                    if matches!(self.doc.value(then), Value::Object { .. }) {
                        let there = [Term::Types(Types::OBJECT), Term::Require(name)];
                        let own = self.holding(then, kind, depth)?;
                        if !own.is_nothing() {
                            let absent = Alternatives::none(kind).with_terms(&[Term::Forbid(name)]);
                            all = all.and(&own.with_terms(&there).or(absent));
                        }
                    }
                }
                all
            }
            _ => return Ok(None),
        }))
    }

    fn evaluated_by_if(&mut self, id: Id, at: Id, kind: UnevaluatedKind, depth: u32) -> Result<Alternatives> {
        let branch = |front: &Self, name| front.doc.get(id, name).filter(|&b| !front.is_true(b));
        let (then, or) = (branch(self, kw::THEN), branch(self, kw::ELSE));
        let mut yes = self.holding(at, kind, depth)?;
        if then.is_none() && or.is_none() {
            return Ok(yes.or(Alternatives::none(kind)));
        }
        if let Some(then) = then {
            yes = yes.and(&self.holding(then, kind, depth)?);
        }
        let no = match or {
            Some(or) => self.holding(or, kind, depth)?,
            None => Alternatives::none(kind),
        };
        Ok(yes.with_terms(&[Term::Pos(at)]).or(no.with_terms(&[Term::Neg(at)])))
    }

    /// Returns what a schema evaluates, with the term that the schema holds added to each
    /// alternative that evaluates something.
    fn holding(&mut self, schema: Id, kind: UnevaluatedKind, depth: u32) -> Result<Alternatives> {
        let own = self.evaluated_by(schema, kind, true, depth + 1)?;
        let mut all = Vec::with_capacity(own.0.len());
        for alternative in &own.0 {
            all.push(match alternative.seen.is_nothing() && alternative.terms.is_empty() {
                true => alternative.clone(),
                false => alternative.clone().with_terms(&[Term::Pos(schema)]),
            });
        }
        Ok(Alternatives(all).pruned())
    }
}

fn kind_of(name: Symbol) -> UnevaluatedKind {
    if name == kw::UNEVALUATED_ITEMS { UnevaluatedKind::Items } else { UnevaluatedKind::Properties }
}
