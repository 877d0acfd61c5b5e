//! Choices between alternatives: emptiness checks of shapes and schemas, and `oneOf`.
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

use super::super::check::are_disjoint;
use super::super::read::{Id, MAX_STEPS, Symbol, Types, Value};
use super::super::shape::Shape;
use super::super::term::{FALSE, Term, Terms, tidy};
use super::normalize::Normalizer;
use super::partial_shape::{Mode, PartialShape};
use super::properties::undeclared;
use crate::error::{ErrorKind, Result};

/// Maximum nesting of emptiness queries through properties and items.
const MAX_EMPTY_DEPTH: u32 = 4;

/// Maximum number of pairs of `oneOf` branches that are compared.
const MAX_PAIRS: usize = 20_000;

impl Normalizer<'_> {
    /// Returns the alternatives of a `oneOf`, each with the terms that exclude the others.
    pub(crate) fn one_of(&mut self, partial: &PartialShape, at: Id, mode: Mode) -> Result<Vec<Terms>> {
        let mut alive = Vec::new();
        for schema in self.context.schemas(at)? {
            if !self.impossible(partial, &[schema])? {
                alive.push(schema);
            }
        }
        let mut terms: Vec<Terms> = alive.iter().map(|&s| smallvec![Term::Pos(s)]).collect();
        if mode == Mode::Loose {
            return Ok(terms);
        }
        if alive.len() * alive.len() / 2 > MAX_PAIRS {
            let message =
                format!("comparing {} branches of `oneOf`; the limit is {MAX_PAIRS} pairs", alive.len());
            return Err(self.context.too_complex(at, message));
        }
        for (i, &b) in alive.iter().enumerate() {
            for (j, &a) in alive[..i].iter().enumerate() {
                if a == b
                    || !are_disjoint(&mut self.context, a, b, Some(&partial.shape))?
                        && !self.impossible(partial, &[a, b])?
                {
                    terms[i].push(Term::Neg(a));
                    terms[j].push(Term::Neg(b));
                }
            }
        }
        Ok(terms)
    }

    /// Returns true if the shape, with these branches of a `oneOf` added, allows nothing; `false`
    /// if that cannot be decided. The terms around the `oneOf` do not filter literals here, because
    /// they include the `oneOf` itself. A literal of two branches violates it, and yet it is a
    /// reason to separate the branches.
    fn impossible(&mut self, partial: &PartialShape, schemas: &[Id]) -> Result<bool> {
        if self.empty_depth >= MAX_EMPTY_DEPTH {
            return Ok(false);
        }
        let mut both = partial.clone();
        both.shape.first_filter = both.shape.terms.len();
        both.next(&schemas.iter().map(|&s| Term::Pos(s)).collect::<Terms>());
        self.is_empty_shape(both)
    }

    fn is_empty_shape(&mut self, partial: PartialShape) -> Result<bool> {
        self.empty_depth += 1;
        let shapes = self.expand(partial, Mode::Loose);
        self.empty_depth -= 1;
        match shapes {
            Ok(shapes) => Ok(shapes.is_some_and(|s| s.is_empty())),
            Err(e) if e.kind() == ErrorKind::TooComplex && self.context.steps > MAX_STEPS => Err(e),
            // The fault is reported when the schema is merged in exact mode.
            Err(_) => Ok(false),
        }
    }

    /// Returns true if nothing satisfies all of these terms; `false` if that is not cheap to
    /// decide.
    pub(crate) fn value_empty(&mut self, terms: &[Term]) -> Result<bool> {
        // Most values have one schema.
        if let [Term::Pos(id)] = *terms {
            let id = self.context.follow(id)?;
            return Ok(self.context.doc.value(id) == Value::Bool(false));
        }
        let never = terms.contains(&FALSE);
        let terms = if never { smallvec![FALSE] } else { tidy(&mut self.context, terms)? };
        if terms.contains(&FALSE) {
            return Ok(true);
        }
        if terms.len() < 2 || self.empty_depth >= MAX_EMPTY_DEPTH {
            return Ok(false);
        }
        let depth = self.empty_depth;
        // A query at a smaller depth could decide more.
        if let Some(&(known, asked_at)) = self.memos.empty.get(&terms)
            && (known || asked_at <= depth)
        {
            return Ok(known);
        }
        let mut empty = false;
        if let [Term::Pos(first), ref rest @ ..] = terms[..] {
            for term in rest {
                if let Term::Pos(other) = *term {
                    empty = empty || are_disjoint(&mut self.context, first, other, None)?;
                }
            }
        }
        if !empty {
            // This is also the answer to the same query inside itself.
            self.memos.empty.insert(terms.clone(), (false, 0));
            empty = self.is_empty_shape(PartialShape::new(&terms))?;
        }
        self.memos.empty.insert(terms, (empty, depth));
        Ok(empty)
    }

    /// Drops types that cannot be satisfied because of a required part; returns true if nothing is
    /// left.
    pub(crate) fn drop_impossible_types(&mut self, shape: &mut Shape) -> Result<bool> {
        shape.drop_contradictions();
        if shape.types.meets(Types::OBJECT) {
            let mut names: SmallVec<[Symbol; 16]> = shape.object.required.names().collect();
            names.sort_unstable();
            for name in names {
                let terms = match shape.object.values.get(&name) {
                    Some(terms) => terms.clone(),
                    None => undeclared(&mut self.context, shape, name)?,
                };
                if self.value_empty(&terms)? {
                    shape.types = shape.types.without(Types::OBJECT);
                    let why =
                        format!("the required property {:?} allows no value", self.context.doc.name(name));
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
    pub(crate) fn finish(&mut self, shape: &mut Shape, mode: Mode) -> Result<bool> {
        let Some(literals) = shape.literals.clone() else {
            return Ok(!self.drop_impossible_types(shape)?);
        };
        // Mostly all of them are kept.
        let mut dropped: Option<Vec<Id>> = None;
        for (i, &literal) in literals.iter().enumerate() {
            let asked = shape.types.meets(self.context.type_of(literal)) || shape.first_filter == 0;
            let kept = asked && self.validator().literal_fits(&shape.terms[shape.first_filter..], literal)?;
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
