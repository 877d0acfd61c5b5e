//! From a list of terms to shapes: everything that applies to one value, in disjunctive form.
//!
//! The [`Term`]s of a list are processed in order. Keywords that only restrict merge into the
//! current [`Shape`]. Keywords that offer a choice (`anyOf`, `oneOf`, `if`, `dependencies`,
//! negations) fork it. Forks that contradict themselves are dropped at once, so discriminated
//! unions stay small.
//!
//! This file also decides the order of properties: a schema's own `properties` first, then those of
//! its sub-schemas in the order in which their keywords are written.
//!
//! # Cost
//!
//! The keywords of all schemas involved, times the remaining forks ([`MAX_DISJUNCTS`]).

use std::borrow::Cow;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::contains::Contains;
use super::context::{MAX_DISJUNCTS, SchemaContext};
use super::exists_property::{ExistsProperty, Names};
use super::keyword_set::KeywordSet;
use super::keyword_values::hint;
use super::keywords::{self as kw, SchemaDraft};
use super::properties::require;
use super::shape::{FALSE, Refusal, Shape, Term, Terms, Test, Types, add_term, lower_max};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::{ErrorKind, Result};
use crate::warning::WarningKind;

/// Purpose of an expansion: shapes to generate from, or only the emptiness of a conjunction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Exact,
    /// `oneOf` counts as `anyOf`, and refusals do not matter: the result contains the exact one.
    Loose,
}

/// Maximum number of alternatives in [`Mode::Loose`].
const MAX_LOOSE_FORKS: usize = 128;

/// Work that is left for one fork.
#[derive(Debug, Clone)]
pub(super) enum PendingKeyword {
    Term(Term),
    /// One of these lists of terms applies; the `Id` is the value they come from.
    Choice(Rc<Vec<Terms>>, Id),
    /// What a property requires if it exists: a choice with two alternatives. The first list is:
    /// the value is an object, it has the property, and the terms that the property requires. The
    /// `Id` is the value the choice comes from.
    Dependency(Rc<Vec<Terms>>, Id),
    /// The `oneOf` keyword with this value.
    OneOf(Id),
}

/// Remaining shapes: one for nearly all schemas. They are boxed, because a shape is large and is
/// moved often.
pub(super) type Shapes = SmallVec<[Box<Shape>; 1]>;

/// A shape that is not finished, with the work that is left.
#[derive(Debug, Clone, Default)]
pub(super) struct Fork {
    pub shape: Box<Shape>,
    /// Work that is left, last first.
    pub left: SmallVec<[PendingKeyword; 2]>,
}

impl Fork {
    pub fn new(terms: &[Term]) -> Fork {
        let left = terms.iter().rev().cloned().map(PendingKeyword::Term).collect();
        Fork { left, ..Fork::default() }
    }

    /// Adds work to do next, in this order.
    pub fn queue(&mut self, items: impl IntoIterator<Item = PendingKeyword, IntoIter: DoubleEndedIterator>) {
        self.left.extend(items.into_iter().rev());
    }

    /// Adds terms to merge next, in this order.
    fn next(&mut self, terms: &[Term]) {
        self.left.extend(terms.iter().rev().map(|&term| PendingKeyword::Term(term)));
    }

    pub fn refuse(&mut self, types: Types, at: Id, message: String, hint: &'static str) {
        self.shape.refusals.push(Rc::new(Refusal { types, at, message, hint }));
    }
}

impl SchemaContext<'_> {
    /// Returns all shapes of a conjunction. In loose mode it returns only the first one, or `None`
    /// if there are too many forks to decide.
    pub fn expand(&mut self, start: Fork, mode: Mode) -> Result<Option<Shapes>> {
        let mut done = Shapes::new();
        // Forks below this index belong to the queries around this one.
        let bottom = self.forks.len();
        let enough = self.advance_all(start, mode, bottom, &mut done);
        self.forks.truncate(bottom);
        Ok(enough?.then_some(done))
    }

    fn advance_all(&mut self, start: Fork, mode: Mode, bottom: usize, done: &mut Shapes) -> Result<bool> {
        let mut next = Some(start);
        while let Some(fork) = next.take().or_else(|| self.next_fork(bottom)) {
            if !self.advance(fork, mode, bottom, done)? {
                return Ok(false);
            }
            if mode == Mode::Loose && !done.is_empty() {
                break;
            }
        }
        Ok(true)
    }

    fn next_fork(&mut self, bottom: usize) -> Option<Fork> {
        if self.forks.len() > bottom { self.forks.pop() } else { None }
    }

    /// Processes one fork up to its end or to the next choice. Returns `false` in loose mode if
    /// there are too many forks.
    fn advance(&mut self, mut fork: Fork, mode: Mode, bottom: usize, done: &mut Shapes) -> Result<bool> {
        let (alternatives, at) = loop {
            self.step(1 + fork.shape.object.values.len() as u64 / 16, Id(0))?;
            match fork.left.pop() {
                None => {
                    if self.finish(&mut fork.shape, mode)? {
                        done.push(fork.shape);
                    }
                    return Ok(true);
                }
                Some(PendingKeyword::Term(term)) => {
                    self.apply(&mut fork, term)?;
                    if fork.shape.types.is_empty() {
                        return Ok(true);
                    }
                }
                // With or without the property, everything required is merged already.
                Some(PendingKeyword::Dependency(choice, _))
                    if self.implied(&fork.shape, &choice[0][2..])? => {}
                Some(
                    PendingKeyword::Choice(alternatives, at) | PendingKeyword::Dependency(alternatives, at),
                ) => {
                    let mut settled = false;
                    for terms in alternatives.iter() {
                        settled = settled || self.implied(&fork.shape, terms)?;
                    }
                    if settled {
                        continue;
                    }
                    match self.decided(&fork.shape, &alternatives)? {
                        Some(terms) => fork.next(terms),
                        None => break (alternatives, at),
                    }
                }
                Some(PendingKeyword::OneOf(at)) => break (Rc::new(self.one_of(&fork, at, mode)?), at),
            }
        };
        if alternatives.len() > 1 && self.drop_impossible_types(&mut fork.shape)? {
            return Ok(true);
        }
        if done.len() + self.forks.len() - bottom + alternatives.len() > self.limit(mode) {
            return if mode == Mode::Loose { Ok(false) } else { Err(self.too_many(at)) };
        }
        let Some((first, others)) = alternatives.split_first() else { return Ok(true) };
        for terms in others.iter().rev() {
            let mut other = fork.clone();
            other.next(terms);
            self.forks.push(other);
        }
        fork.next(first);
        self.forks.push(fork);
        Ok(true)
    }

    fn limit(&self, mode: Mode) -> usize {
        if mode == Mode::Loose { MAX_LOOSE_FORKS } else { MAX_DISJUNCTS }
    }

    fn too_many(&self, at: Id) -> crate::error::Error {
        self.error(
            ErrorKind::TooComplex,
            at,
            format!("combining the alternatives gives more than {MAX_DISJUNCTS} disjuncts"),
        )
        .hint("reduce the number of `anyOf`, `oneOf`, `if` and `dependencies` that apply to the same value")
    }

    /// Merges one term into the fork.
    fn apply(&mut self, fork: &mut Fork, term: Term) -> Result<()> {
        if !fork.shape.terms.insert(term) {
            return Ok(());
        }
        if term.opposite().is_some_and(|opposite| fork.shape.terms.contains(&opposite)) {
            fork.shape.types = Types::NONE;
            return Ok(());
        }
        match term {
            Term::Pos(id) => {
                self.check_grounded(id)?;
                self.positive(fork, id)?;
            }
            Term::Neg(id) => {
                self.check_grounded(id)?;
                self.negative(fork, id)?;
            }
            Term::NegKeyword(schema, name) => self.negative_keyword(fork, schema, name)?,
            Term::Types(types) => fork.shape.types = fork.shape.types.and(types),
            Term::Require(name) => require(&mut fork.shape, name),
            Term::Forbid(name) => self.restrict(&mut fork.shape, name, FALSE)?,
            Term::Property(name, schema, holds) => {
                let term = if holds { Term::Pos(schema) } else { Term::Neg(schema) };
                self.restrict(&mut fork.shape, name, term)?;
            }
            Term::MatchFails(pattern, at) => {
                let demand =
                    ExistsProperty { names: Names::Matching(pattern), value: Some(Term::Neg(at)), at };
                fork.shape.object.demands.push(demand);
            }
            Term::ItemFails(index, schema) => {
                let array = &mut fork.shape.array;
                let prefix: Vec<Option<Term>> =
                    (0..index).map(|_| None).chain([Some(Term::Neg(schema))]).collect();
                array.each_item(&prefix, None);
                array.min = array.min.max(index.saturating_add(1));
            }
            Term::Unevaluated(set, at, holds) => self.outside(fork, set, at, holds)?,
            Term::Below(id) | Term::Above(id) => {
                if let Some((mut bound, _)) = self.bound(id, kw::MINIMUM, id)? {
                    bound.exclusive = true;
                    match term {
                        Term::Below(_) => fork.shape.number.at_most(bound),
                        _ => fork.shape.number.at_least(bound),
                    }
                }
            }
        }
        fork.shape.drop_contradictions();
        Ok(())
    }

    /// Returns the types that a single schema names, if it asserts nothing else.
    pub fn only_types(&mut self, terms: &[Term]) -> Result<Option<Types>> {
        const PLAIN: KeywordSet = KeywordSet::of(&[kw::TYPE]);
        let [Term::Pos(id)] = *terms else { return Ok(None) };
        if !self.assertions(id).without(PLAIN).is_empty() {
            return Ok(None);
        }
        let mut named = None;
        for (name, at) in self.asserting(id) {
            match name {
                kw::TYPE => named = Some(at),
                _ => return Ok(None),
            }
        }
        let Some(types) = named.map(|at| self.types(at)).transpose()? else { return Ok(None) };
        if types.is_empty() {
            return Ok(None);
        }
        self.warn_unknown(id);
        Ok(Some(types))
    }

    /// Merges a schema.
    fn positive(&mut self, fork: &mut Fork, id: Id) -> Result<()> {
        match self.doc.value(id) {
            Value::Bool(true) => return Ok(()),
            Value::Bool(false) => {
                self.record_unsat_cause(id, "the schema is `false`");
                fork.shape.types = Types::NONE;
                return Ok(());
            }
            Value::Object { .. } => {}
            _ => return Err(self.invalid(id, "a schema must be an object or a boolean")),
        }
        self.warn_unknown(id);
        let mut keywords = std::mem::take(&mut self.keywords);
        keywords.clear();
        keywords.extend(self.asserting(id));
        if keywords.iter().any(|k| k.0 == kw::REF) {
            self.warn_siblings(id);
        }
        let before = fork.shape.types;
        let mut items: SmallVec<[PendingKeyword; 2]> = SmallVec::new();
        let (mut members_done, mut items_done) = (false, false);
        for &(name, at) in &keywords {
            match name {
                kw::PROPERTIES | kw::PATTERN_PROPERTIES | kw::ADDITIONAL_PROPERTIES => {
                    if !std::mem::replace(&mut members_done, true) {
                        self.members(fork, id)?;
                    }
                }
                kw::ITEMS | kw::PREFIX_ITEMS | kw::ADDITIONAL_ITEMS => {
                    if !std::mem::replace(&mut items_done, true) {
                        let (prefix, rest) = self.item_schemas(id)?;
                        let prefix: Vec<Term> = prefix.into_iter().map(Term::Pos).collect();
                        fork.shape.array.items(&prefix, rest.map(Term::Pos));
                    }
                }
                _ => self.keyword_term(fork, id, name, at, &mut items)?,
            }
        }
        self.keywords = keywords;
        if fork.shape.types.is_empty() && !before.is_empty() {
            self.record_unsat_cause(id, "its types or values contradict what else applies to the same value");
        }
        fork.queue(items);
        Ok(())
    }

    /// Remembers why a fork was dropped.
    pub fn record_unsat_cause(&mut self, id: Id, why: impl Into<Cow<'static, str>>) {
        if self.empty_depth == 0 {
            self.culprit.get_or_insert_with(|| (id, why.into()));
        }
    }

    /// Merges one keyword, or adds work for it to `items`.
    fn keyword_term(
        &mut self,
        fork: &mut Fork,
        id: Id,
        name: Symbol,
        at: Id,
        items: &mut SmallVec<[PendingKeyword; 2]>,
    ) -> Result<()> {
        let shape = &mut fork.shape;
        match name {
            kw::TYPE => shape.types = shape.types.and(self.types(at)?),
            kw::CONST => self.literals(shape, vec![at]),
            kw::ENUM => {
                if !matches!(self.doc.value(at), Value::Array { .. }) {
                    return Err(self.invalid(at, "expected an array of values"));
                }
                self.literals(shape, self.doc.elements(at).to_vec());
            }
            kw::REF | kw::DYNAMIC_REF | kw::RECURSIVE_REF => {
                items.push(PendingKeyword::Term(Term::Pos(self.target(name, at)?)));
            }
            kw::ALL_OF => {
                items.extend(self.schemas(at)?.into_iter().map(|s| PendingKeyword::Term(Term::Pos(s))))
            }
            kw::ANY_OF => {
                let schemas = self.schemas(at)?;
                match self.pure_literals(&schemas) {
                    Some(values) => self.literals(shape, values),
                    None => {
                        let choice = schemas.into_iter().map(|s| smallvec![Term::Pos(s)]).collect();
                        items.push(PendingKeyword::Choice(Rc::new(choice), at));
                    }
                }
            }
            kw::ONE_OF => {
                let schemas = self.schemas(at)?;
                match self.pure_literals(&schemas) {
                    Some(values) => self.literals(shape, values),
                    None => items.push(PendingKeyword::OneOf(at)),
                }
            }
            kw::NOT => items.push(PendingKeyword::Term(Term::Neg(at))),
            kw::IF => items.extend(self.conditional(id, at)),
            kw::THEN | kw::ELSE => {}
            kw::MINIMUM | kw::MAXIMUM | kw::EXCLUSIVE_MINIMUM | kw::EXCLUSIVE_MAXIMUM => {
                if let Some((bound, _)) = self.bound(id, name, at)? {
                    match name {
                        kw::MINIMUM | kw::EXCLUSIVE_MINIMUM => shape.number.at_least(bound),
                        _ => shape.number.at_most(bound),
                    }
                }
            }
            kw::MULTIPLE_OF => self.multiple_of(shape, at)?,
            kw::MIN_LENGTH => shape.string.min = shape.string.min.max(self.count(at)?),
            kw::MAX_LENGTH => lower_max(&mut shape.string.max, self.count(at)?),
            kw::PATTERN => shape.string.add(Test::Pattern(self.text(at)?), true, at),
            kw::FORMAT => self.format(shape, id, at)?,
            kw::X_VERBATIM => self.verbatim(shape, at)?,
            _ => self.container_keyword(fork, id, name, at, items)?,
        }
        Ok(())
    }

    /// Merges a keyword of arrays or objects.
    fn container_keyword(
        &mut self,
        fork: &mut Fork,
        id: Id,
        name: Symbol,
        at: Id,
        items: &mut SmallVec<[PendingKeyword; 2]>,
    ) -> Result<()> {
        let shape = &mut fork.shape;
        match name {
            kw::MIN_ITEMS => shape.array.min = shape.array.min.max(self.count(at)?),
            kw::MAX_ITEMS => lower_max(&mut shape.array.max, self.count(at)?),
            kw::UNIQUE_ITEMS => match self.doc.value(at) {
                Value::Bool(true) => shape.array.unique = Some(at),
                Value::Bool(false) => {}
                _ => return Err(self.invalid(at, "expected a boolean")),
            },
            kw::CONTAINS => {
                let (min, max) = self.contains_bounds(id)?;
                if min > 0 || max.is_some() {
                    let (counts, fails) = (Term::Pos(at), Term::Neg(at));
                    shape.array.contains.push(Contains { counts, fails, from: 0, min, max, at });
                }
            }
            kw::MIN_CONTAINS | kw::MAX_CONTAINS => {}
            kw::UNEVALUATED_ITEMS | kw::UNEVALUATED_PROPERTIES => {
                shape.object.open |= name == kw::UNEVALUATED_PROPERTIES;
                // First, so that the choices of its siblings are already decided.
                if let Some(item) = self.unevaluated(id, name, at)? {
                    items.insert(0, item);
                }
            }
            kw::REQUIRED => {
                if !matches!(self.doc.value(at), Value::Array { .. }) {
                    return Err(self
                        .invalid(at, "expected an array of property names")
                        .hint("write `\"required\": [\"name\", …]` in the schema of the object"));
                }
                for name in self.names(at)? {
                    require(shape, name);
                    if self.policy.closed_objects {
                        shape.object.asked.push(name);
                    }
                }
            }
            kw::PROPERTY_NAMES => add_term(&mut shape.object.names, Term::Pos(at)),
            kw::MIN_PROPERTIES => {
                shape.object.min = shape.object.min.max(self.count(at)?);
                shape.object.count_at = Some(at);
            }
            kw::MAX_PROPERTIES => {
                lower_max(&mut shape.object.max, self.count(at)?);
                shape.object.count_at = Some(at);
            }
            kw::DEPENDENCIES | kw::DEPENDENT_REQUIRED | kw::DEPENDENT_SCHEMAS => {
                for (name, then) in self.object(at)? {
                    items.extend(self.dependency_choice(id, name, then)?);
                }
            }
            _ => self.refuse_keyword(fork, Types::ALL, name, at),
        }
        Ok(())
    }

    /// Notes that a keyword is not supported for some types.
    pub fn refuse_keyword(&mut self, fork: &mut Fork, types: Types, name: Symbol, at: Id) {
        let word = self.doc.name(name);
        fork.refuse(types, at, format!("the keyword `{word}` is not supported here"), hint(name));
    }

    /// Returns `minContains` and `maxContains`, if the draft has them.
    pub fn contains_bounds(&mut self, schema: Id) -> Result<(u32, Option<u32>)> {
        let mut bound = |name| match self.doc.get(schema, name) {
            Some(at) if self.draft >= SchemaDraft::D2019 => self.count(at).map(Some),
            _ => Ok(None),
        };
        Ok((bound(kw::MIN_CONTAINS)?.unwrap_or(1), bound(kw::MAX_CONTAINS)?))
    }

    fn literals(&mut self, shape: &mut Shape, values: Vec<Id>) {
        let types = values.iter().fold(Types::NONE, |t, &v| t.or(self.type_of(v)));
        shape.types = shape.types.and(types);
        if shape.literals.as_ref().is_none_or(|old| values.len() < old.len()) {
            shape.literals = Some(Rc::new(values));
        }
    }

    /// Returns the values of alternatives that all consist of `const` or `enum` only (with `type`).
    fn pure_literals(&self, schemas: &[Id]) -> Option<Vec<Id>> {
        let mut values = Vec::new();
        for &schema in schemas {
            let mut own = None;
            for (name, at) in self.asserting(schema) {
                match name {
                    kw::CONST => own = Some(vec![at]),
                    kw::ENUM if own.is_none() => own = Some(self.doc.elements(at).to_vec()),
                    kw::ENUM | kw::TYPE => {}
                    _ => return None,
                }
            }
            values.extend(own?);
        }
        Some(values)
    }

    /// Returns the choice that a schema's `if` gives. It is made once, because a series of them
    /// meets every fork.
    fn conditional(&mut self, id: Id, at: Id) -> Option<PendingKeyword> {
        if let Some(known) = self.conditionals.get(&id) {
            return Some(PendingKeyword::Choice(known.clone(), at));
        }
        let branch = |name| self.doc.get(id, name).filter(|&b| !self.is_true(b));
        let (then, or) = (branch(kw::THEN), branch(kw::ELSE));
        if then.is_none() && or.is_none() {
            return None;
        }
        let mut yes: Terms = smallvec![Term::Pos(at)];
        yes.extend(then.map(Term::Pos));
        let mut no: Terms = smallvec![Term::Neg(at)];
        no.extend(or.map(Term::Pos));
        let choice = Rc::new(vec![yes, no]);
        self.conditionals.insert(id, choice.clone());
        Some(PendingKeyword::Choice(choice, at))
    }

    /// Returns the choice that a schema's dependency of a name gives.
    fn dependency_choice(&mut self, id: Id, name: Symbol, then: Id) -> Result<Option<PendingKeyword>> {
        let listed = matches!(self.doc.value(then), Value::Array { .. } | Value::String(_));
        let mut present: Terms = smallvec![Term::Types(Types::OBJECT), Term::Require(name)];
        if listed {
            let others = self.names(then)?;
            match others[..] {
                [] => return Ok(None),
                // Many names may need the same one. Forking on that one decides the others, too.
                [other] if self.declares(id, &[name, other]) => {
                    let neither =
                        smallvec![Term::Types(Types::OBJECT), Term::Forbid(other), Term::Forbid(name)];
                    let choice = vec![smallvec![Term::Require(other)], neither];
                    return Ok(Some(PendingKeyword::Choice(Rc::new(choice), then)));
                }
                _ => present.extend(others.into_iter().map(Term::Require)),
            }
        } else if self.is_true(then) {
            return Ok(None);
        } else if self.declares(id, &[name]) && self.only_narrows_declared(id, then)? {
            // Many names may be allowed only with some values of another property. Forking on that
            // value decides most choices once one of them is made.
            let absent = smallvec![Term::Neg(then), Term::Forbid(name)];
            return Ok(Some(PendingKeyword::Choice(Rc::new(vec![smallvec![Term::Pos(then)], absent]), then)));
        } else {
            present.push(Term::Pos(then));
        }
        Ok(Some(PendingKeyword::Dependency(Rc::new(vec![present, smallvec![Term::Forbid(name)]]), then)))
    }

    /// Returns true if a schema's `properties` lists these names, so that no choice affects their
    /// order.
    pub fn declares(&self, schema: Id, names: &[Symbol]) -> bool {
        let own = self.doc.get(schema, kw::PROPERTIES);
        own.is_some_and(|own| names.iter().all(|&name| self.doc.get(own, name).is_some()))
    }

    fn multiple_of(&mut self, shape: &mut Shape, at: Id) -> Result<()> {
        let divisor = self.divisor(at)?;
        match divisor.negative_power_of_ten() {
            // In draft 4, `1.0` is a multiple of 1, but not an integer.
            Some(0) if !self.policy.equal_numbers || self.draft > SchemaDraft::D4 => {
                shape.types = shape.types.without(Types::FRACTION);
            }
            Some(k) => lower_max(&mut shape.number.scale, k),
            None => {
                if let Value::Number(text) = self.doc.value(at) {
                    shape.number.divisors.push((text, at, true));
                }
            }
        }
        Ok(())
    }

    fn format(&mut self, shape: &mut Shape, id: Id, at: Id) -> Result<()> {
        let Some(name) = self.doc.string(at) else {
            self.warn(WarningKind::UnknownFormat, kw::FORMAT, at, "`format` is not a string and is ignored");
            return Ok(());
        };
        let own = self.doc.get(id, kw::TYPE).map(|at| self.types(at)).transpose()?.unwrap_or(Types::ALL);
        let (concerned, kind) = match self.number_format(at) {
            Some(format) => {
                self.bound_by_format(shape, format);
                (Types::NUMBER, "numbers")
            }
            None if self.knows_format(name) => {
                shape.string.add(Test::Format(name), true, at);
                (Types::STRING, "strings")
            }
            None => (Types::NONE, ""),
        };
        if own.meets(concerned) {
            return Ok(());
        }
        let word = self.doc.name(name);
        let message = match kind {
            "" => format!("unknown format {word:?} is only an annotation"),
            _ => format!("the format {word:?} is one of {kind}; for other types it is only an annotation"),
        };
        self.warn(WarningKind::UnknownFormat, name, at, &message);
        Ok(())
    }
}
