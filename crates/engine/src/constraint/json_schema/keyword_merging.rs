//! Merging of the keywords that only restrict, or that add one choice: each reads the context and
//! changes one shape.
//!
//! # Cost
//!
//! One look at the value of the keyword.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::drafts::SchemaDraft;
use super::exclusion::only_narrows_declared;
use super::fork::PendingKeyword;
use super::keyword_set::set;
use super::keywords::Keyword;
use super::number_formats::bound_by_format;
use super::properties::require;
use super::shape::{ContainsBound, Shape, Term, Terms, Test, lower_max};
use super::types::Types;
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::constraint::json::symbol_set::SymbolSet;
use crate::error::Result;
use crate::warning::WarningKind;

/// What the keywords of one schema add to a fork.
#[derive(Default)]
pub(super) struct Added {
    pub work: SmallVec<[PendingKeyword; 2]>,
    /// True if the keywords of declared and undeclared properties are merged, which one step does.
    pub has_members: bool,
    /// True if those of items are merged.
    pub has_items: bool,
}

impl Added {
    pub fn term(&mut self, term: Term) {
        self.work.push(PendingKeyword::Term(term));
    }
}

pub(super) fn enumeration(context: &mut SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    if !matches!(context.doc.value(at), Value::Array { .. }) {
        return Err(context.invalid(at, "expected an array of values"));
    }
    literals(context, shape, context.doc.elements(at).to_vec());
    Ok(())
}

/// Merges `anyOf` or `oneOf`.
pub(super) fn alternatives_of(
    context: &mut SchemaContext<'_>,
    shape: &mut Shape,
    keyword: Keyword,
    at: Id,
    added: &mut Added,
) -> Result<()> {
    let schemas = context.schemas(at)?;
    if let Some(values) = pure_literals(context, &schemas) {
        literals(context, shape, values);
    } else if keyword == Keyword::OneOf {
        added.work.push(PendingKeyword::OneOf(at));
    } else {
        let choice = schemas.into_iter().map(|s| smallvec![Term::Pos(s)]).collect();
        added.work.push(PendingKeyword::Choice(Rc::new(choice), at));
    }
    Ok(())
}

pub(super) fn unique_items(context: &mut SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    match context.doc.value(at) {
        Value::Bool(true) => shape.array.unique = Some(at),
        Value::Bool(false) => {}
        _ => return Err(context.invalid(at, "expected a boolean")),
    }
    Ok(())
}

pub(super) fn contains_condition(
    context: &mut SchemaContext<'_>,
    shape: &mut Shape,
    id: Id,
    at: Id,
) -> Result<()> {
    let (min, max) = context.contains_bounds(id)?;
    if min > 0 || max.is_some() {
        let (counts, fails) = (Term::Pos(at), Term::Neg(at));
        shape.array.contains.push(ContainsBound { counts, fails, from: 0, min, max, at });
    }
    Ok(())
}

pub(super) fn required(context: &mut SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    if !matches!(context.doc.value(at), Value::Array { .. }) {
        return Err(context
            .invalid(at, "expected an array of property names")
            .hint("write `\"required\": [\"name\", …]` in the schema of the object"));
    }
    for name in context.names(at)? {
        require(shape, name);
        if context.policy.closed_objects {
            shape.object.asked.push(name);
        }
    }
    Ok(())
}

pub(super) fn literals(context: &mut SchemaContext<'_>, shape: &mut Shape, values: Vec<Id>) {
    let types = values.iter().fold(Types::NONE, |t, &v| t.or(context.type_of(v)));
    shape.types = shape.types.and(types);
    if shape.literals.as_ref().is_none_or(|old| values.len() < old.len()) {
        shape.literals = Some(Rc::new(values));
    }
}

/// Returns the values of alternatives that all consist of `const` or `enum` only (with `type`).
pub(super) fn pure_literals(context: &SchemaContext<'_>, schemas: &[Id]) -> Option<Vec<Id>> {
    const LITERALS: SymbolSet = set(&[Keyword::Const, Keyword::Enum, Keyword::Type]);
    let mut values = Vec::new();
    for &schema in schemas {
        if !context.assertions(schema).without(LITERALS).is_empty() {
            return None;
        }
        let own = context.asserting(schema).fold(None, |own, (keyword, at)| match (keyword, &own) {
            (Keyword::Const, _) => Some(vec![at]),
            (Keyword::Enum, None) => Some(context.doc.elements(at).to_vec()),
            _ => own,
        });
        values.extend(own?);
    }
    Some(values)
}

/// Returns the choice that a schema's dependency of a name gives.
pub(super) fn dependency_choice(
    context: &mut SchemaContext<'_>,
    id: Id,
    name: Symbol,
    then: Id,
) -> Result<Option<PendingKeyword>> {
    let listed = matches!(context.doc.value(then), Value::Array { .. } | Value::String(_));
    let mut present: Terms = smallvec![Term::Types(Types::OBJECT), Term::Require(name)];
    if listed {
        let others = context.names(then)?;
        match others[..] {
            [] => return Ok(None),
            // Many names may need the same one. Forking on that one decides the others, too.
            [other] if context.declares(id, &[name, other]) => {
                let neither = smallvec![Term::Types(Types::OBJECT), Term::Forbid(other), Term::Forbid(name)];
                let choice = vec![smallvec![Term::Require(other)], neither];
                return Ok(Some(PendingKeyword::Choice(Rc::new(choice), then)));
            }
            _ => present.extend(others.into_iter().map(Term::Require)),
        }
    } else if context.is_true(then) {
        return Ok(None);
    } else if context.declares(id, &[name]) && only_narrows_declared(context, id, then)? {
        // Many names may be allowed only with some values of another property. Forking on that
        // value decides most choices once one of them is made.
        let absent = smallvec![Term::Neg(then), Term::Forbid(name)];
        return Ok(Some(PendingKeyword::Choice(Rc::new(vec![smallvec![Term::Pos(then)], absent]), then)));
    } else {
        present.push(Term::Pos(then));
    }
    Ok(Some(PendingKeyword::Dependency(Rc::new(vec![present, smallvec![Term::Forbid(name)]]), then)))
}

pub(super) fn multiple_of(context: &mut SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    let divisor = context.divisor(at)?;
    match divisor.negative_power_of_ten() {
        // In draft 4, `1.0` is a multiple of 1, but not an integer.
        Some(0) if !context.policy.equal_numbers || context.draft > SchemaDraft::D4 => {
            shape.types = shape.types.without(Types::FRACTION);
        }
        Some(k) => lower_max(&mut shape.number.scale, k),
        None => {
            if let Value::Number(text) = context.doc.value(at) {
                shape.number.divisors.push((text, at, true));
            }
        }
    }
    Ok(())
}

pub(super) fn format(context: &mut SchemaContext<'_>, shape: &mut Shape, id: Id, at: Id) -> Result<()> {
    let Some(name) = context.doc.string(at) else {
        context.warn(
            WarningKind::UnknownFormat,
            Keyword::Format.into(),
            at,
            "`format` is not a string and is ignored",
        );
        return Ok(());
    };
    let own =
        context.doc.get(id, Keyword::Type).map(|at| context.types(at)).transpose()?.unwrap_or(Types::ALL);
    let (concerned, kind) = match context.number_format(at) {
        Some(format) => {
            bound_by_format(context, shape, format);
            (Types::NUMBER, "numbers")
        }
        None if context.texts.knows_format(&context.doc, name) => {
            shape.string.add(Test::Format(name), true, at);
            (Types::STRING, "strings")
        }
        None => (Types::NONE, ""),
    };
    if own.meets(concerned) {
        return Ok(());
    }
    let word = context.doc.name(name);
    let message = match kind {
        "" => format!("unknown format {word:?} is only an annotation"),
        _ => format!("the format {word:?} is one of {kind}; for other types it is only an annotation"),
    };
    context.warn(WarningKind::UnknownFormat, name, at, &message);
    Ok(())
}
