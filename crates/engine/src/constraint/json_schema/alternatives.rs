//! Choices between alternatives: emptiness checks of forks and schemas, and `oneOf`.
//!
//! `oneOf` is exact without general complements. Branches that cannot hold together need no further
//! terms; merging them shows this. A branch that may overlap another one gets the negation of the
//! other.
//!
//! # Cost
//!
//! One merge per pair of remaining branches.
//!
//! # Alternatives considered
//!
//! Treating `oneOf` as `anyOf` was rejected: it accepts what validators refuse.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::keywords as kw;
use super::normalize::{Fork, Mode, PendingKeyword};
use super::properties::only_word;
use super::shape::{FALSE, Shape, Term, Terms, Types};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::{ErrorKind, Result};

/// Maximum nesting of emptiness queries through properties and items.
const MAX_EMPTY_DEPTH: u32 = 4;
/// Maximum number of pairs of literals that are compared to separate two schemas.
const MAX_COMPARED: usize = 1_024;
/// Maximum number of pairs of `oneOf` branches that are compared.
const MAX_PAIRS: usize = 20_000;

impl SchemaContext<'_> {
    /// Returns the alternatives of a `oneOf`, each with the terms that exclude the others.
    pub fn one_of(&mut self, fork: &Fork, at: Id, mode: Mode) -> Result<Vec<Terms>> {
        let mut alive = Vec::new();
        for schema in self.schemas(at)? {
            if !self.impossible(fork, &[schema])? {
                alive.push(schema);
            }
        }
        let mut terms: Vec<Terms> = alive.iter().map(|&s| smallvec![Term::Pos(s)]).collect();
        if mode == Mode::Loose {
            return Ok(terms);
        }
        if alive.len() * alive.len() / 2 > MAX_PAIRS {
            return Err(self.error(
                ErrorKind::TooComplex,
                at,
                format!("comparing {} branches of `oneOf`; the limit is {MAX_PAIRS} pairs", alive.len()),
            ));
        }
        for i in 0..alive.len() {
            for j in 0..i {
                let (a, b) = (alive[j], alive[i]);
                if a != b
                    && (self.exclude_each_other(a, b, Some(&fork.shape))?
                        || self.impossible(fork, &[a, b])?)
                {
                    continue;
                }
                terms[i].push(Term::Neg(a));
                terms[j].push(Term::Neg(b));
            }
        }
        Ok(terms)
    }

    /// Returns true if the fork, with these branches of a `oneOf` added, allows nothing; `false` if
    /// that cannot be decided. The terms around the `oneOf` do not filter literals here, because
    /// they include the `oneOf` itself. A literal of two branches violates it, and yet it is a
    /// reason to separate the branches.
    fn impossible(&mut self, fork: &Fork, schemas: &[Id]) -> Result<bool> {
        if self.empty_depth >= MAX_EMPTY_DEPTH {
            return Ok(false);
        }
        let mut both = fork.clone();
        both.shape.first_filter = both.shape.terms.len();
        both.queue(schemas.iter().map(|&s| PendingKeyword::Term(Term::Pos(s))));
        self.is_empty_fork(both)
    }

    /// Returns true if the keywords of two schemas show that they exclude each other. They have no
    /// common type, no common literal, or a required property to which that applies (one level
    /// down, next to the given shape). Nearly all unions in use are of this kind, and merging their
    /// branches takes far longer.
    pub fn exclude_each_other(&mut self, a: Id, b: Id, beside: Option<&Shape>) -> Result<bool> {
        let (a, b) = (self.follow(a)?, self.follow(b)?);
        self.step(1, a)?;
        let (types, literals) = self.types_and_literals(a)?;
        let (other_types, other_literals) = self.types_and_literals(b)?;
        let common = types.and(other_types);
        if common.is_empty() {
            return Ok(true);
        }
        let words = [a, b].map(|schema| (common == Types::STRING).then(|| self.only_text(schema)).flatten());
        let literals = literals.or(words[0].map(|word| smallvec![word]));
        let other_literals = other_literals.or(words[1].map(|word| smallvec![word]));
        let doc = &self.doc;
        if let (Some(x), Some(y)) = (literals, other_literals)
            && x.len() * y.len() <= MAX_COMPARED
            && !x.iter().any(|&x| y.iter().any(|&y| doc.equal(x, y)))
        {
            return Ok(true);
        }
        let (Some(mine), Some(others)) = (doc.get(a, kw::PROPERTIES), doc.get(b, kw::PROPERTIES)) else {
            return Ok(false);
        };
        let Some(beside) = beside.filter(|s| common.and(s.types) == Types::OBJECT) else {
            return Ok(false);
        };
        for i in 0..self.doc.members(mine).len() {
            let (name, schema) = self.doc.members(mine)[i];
            let Some(other) = self.doc.get(others, name) else { continue };
            let required =
                beside.object.required.contains(name) || self.demands(a, name) || self.demands(b, name);
            if required && self.exclude_each_other(schema, other, None)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the types that a schema names, and the values of its `const` or `enum`.
    fn types_and_literals(&self, schema: Id) -> Result<(Types, Option<SmallVec<[Id; 8]>>)> {
        let (mut types, mut literals) = (Types::ALL, None);
        for (name, at) in self.asserting(schema) {
            match name {
                kw::TYPE => types = self.types(at)?,
                kw::CONST => literals = Some(smallvec![at]),
                kw::ENUM => literals = Some(self.doc.elements(at).into()),
                _ => {}
            }
        }
        Ok((types, literals))
    }

    /// Returns the only text that a schema's `pattern` matches, as a value.
    pub fn only_text(&mut self, schema: Id) -> Option<Id> {
        let (_, at) = self.asserting(schema).find(|k| k.0 == kw::PATTERN)?;
        let word = only_word(self.doc.name(self.doc.string(at)?))?.into_owned();
        let name = self.doc.intern(&word);
        Some(self.doc.string_value(name))
    }

    /// Returns true if `required` lists a name.
    fn demands(&self, schema: Id, name: Symbol) -> bool {
        let listed = self.asserting(schema).find(|k| k.0 == kw::REQUIRED);
        listed.is_some_and(|k| self.doc.elements(k.1).iter().any(|&e| self.doc.string(e) == Some(name)))
    }

    fn is_empty_fork(&mut self, fork: Fork) -> Result<bool> {
        self.empty_depth += 1;
        let shapes = self.expand(fork, Mode::Loose);
        self.empty_depth -= 1;
        match shapes {
            Ok(shapes) => Ok(shapes.is_some_and(|s| s.is_empty())),
            Err(e) if e.kind() == ErrorKind::TooComplex && self.steps > super::context::MAX_STEPS => Err(e),
            // The fault is reported when the schema is merged in exact mode.
            Err(_) => Ok(false),
        }
    }

    /// Returns true if nothing satisfies all of these terms; `false` if that is not cheap to
    /// decide.
    pub fn value_empty(&mut self, terms: &[Term]) -> Result<bool> {
        // Most values have one schema.
        if let [Term::Pos(id)] = *terms {
            let id = self.follow(id)?;
            return Ok(self.doc.value(id) == Value::Bool(false));
        }
        if terms.contains(&FALSE) {
            return Ok(true);
        }
        let terms = self.tidy(terms)?;
        if terms.first() == Some(&FALSE) {
            return Ok(true);
        }
        if terms.len() < 2 || self.empty_depth >= MAX_EMPTY_DEPTH {
            return Ok(false);
        }
        let depth = self.empty_depth;
        // A query at a smaller depth could decide more.
        if let Some(&(known, told)) = self.empty.get(&terms)
            && (known || told <= depth)
        {
            return Ok(known);
        }
        if let [Term::Pos(first), ref rest @ ..] = terms[..] {
            for term in rest {
                if let Term::Pos(other) = *term
                    && self.exclude_each_other(first, other, None)?
                {
                    self.empty.insert(terms, (true, depth));
                    return Ok(true);
                }
            }
        }
        // This is also the answer to the same query inside itself.
        self.empty.insert(terms.clone(), (false, 0));
        let empty = self.is_empty_fork(Fork::new(&terms))?;
        self.empty.insert(terms, (empty, depth));
        Ok(empty)
    }

    /// Drops types that cannot be satisfied because of a required part; returns true if nothing is
    /// left.
    pub fn drop_impossible_types(&mut self, shape: &mut Shape) -> Result<bool> {
        shape.drop_contradictions();
        if shape.types.meets(Types::OBJECT) {
            let mut names: SmallVec<[Symbol; 16]> = shape.object.required.names().collect();
            names.sort_unstable();
            for name in names {
                let undeclared = match shape.object.values.get(&name) {
                    Some(_) => None,
                    None => Some(self.undeclared(shape, name)?),
                };
                let Some(terms) = undeclared.as_ref().or(shape.object.values.get(&name)) else { continue };
                if self.value_empty(&terms.clone())? {
                    shape.types = shape.types.without(Types::OBJECT);
                    let why = format!("the required property {:?} allows no value", self.doc.name(name));
                    if let Some(&Term::Pos(id)) = shape.terms.first() {
                        self.record_unsat_cause(id, why);
                    }
                    break;
                }
            }
        }
        if shape.types.meets(Types::ARRAY) {
            let mut empty = !shape.array.contains.is_empty() && self.contains_nothing(&shape.array)?;
            for i in 0..shape.array.prefix.len().min(shape.array.min as usize) {
                empty = empty || self.value_empty(&shape.array.prefix[i].clone())?;
            }
            if empty {
                shape.types = shape.types.without(Types::ARRAY);
            }
        }
        Ok(shape.types.is_empty())
    }

    /// Finishes a shape: filters its literals; returns true if anything is left.
    pub fn finish(&mut self, shape: &mut Shape, mode: Mode) -> Result<bool> {
        let Some(literals) = shape.literals.clone() else {
            return Ok(!self.drop_impossible_types(shape)?);
        };
        // Mostly all of them are kept.
        let mut dropped: Option<Vec<Id>> = None;
        for (i, &literal) in literals.iter().enumerate() {
            let asked = shape.types.meets(self.type_of(literal)) || shape.first_filter == 0;
            let kept = asked && self.literal_fits(&shape.terms[shape.first_filter..], literal)?;
            match &mut dropped {
                _ if kept && mode == Mode::Loose => {
                    dropped = Some(vec![literal]);
                    break;
                }
                Some(others) => others.extend(kept.then_some(literal)),
                None if kept => {}
                None => dropped = Some(literals[..i].to_vec()),
            }
        }
        let kept = dropped.map_or(literals, Rc::new);
        if kept.is_empty()
            && let Some(&Term::Pos(id)) = shape.terms.first()
        {
            self.record_unsat_cause(id, "no value of `const` or `enum` satisfies the other keywords");
        }
        let any = !kept.is_empty();
        shape.literals = Some(kept);
        Ok(any)
    }
}
