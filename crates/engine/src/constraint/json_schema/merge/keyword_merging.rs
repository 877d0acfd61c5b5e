//! Merging of the keywords that only restrict, or that add one choice: each reads the context and
//! changes one shape.
//!
//! # Cost
//!
//! One look at the value of the keyword.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::super::check::only_narrows_declared;
use super::super::read::{
    Bound, Id, Keyword, NumberFormat, Operand, SchemaContext, SchemaDraft, Symbol, Test, Types, Value,
};
use super::super::shape::{ContainsBound, Shape, lower_max};
use super::super::term::{Term, Terms};
use super::partial_shape::Pending;
use super::properties::require;
use crate::constraint::format::ANNOTATIONS;
use crate::decimal::Decimal;
use crate::error::Result;
use crate::warning::WarningKind;

/// What the keywords of one schema add to a shape.
#[derive(Default)]
pub(super) struct Added {
    pub work: SmallVec<[Pending; 2]>,
    /// True if the keywords of declared and undeclared properties are merged, which one step does.
    pub has_members: bool,
    /// True if those of items are merged.
    pub has_items: bool,
}

impl Added {
    pub(super) fn term(&mut self, term: Term) {
        self.work.push(Pending::Term(term));
    }
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
        added.work.push(Pending::OneOf(at));
    } else {
        let choice = schemas.into_iter().map(|s| smallvec![Term::Pos(s)]).collect();
        added.work.push(Pending::Choice(Rc::new(choice), at));
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

pub(super) fn required(context: &SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    let checked = context.list(at, "expected an array of property names");
    checked.map_err(|e| e.hint("write `\"required\": [\"name\", …]` in the schema of the object"))?;
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
fn pure_literals(context: &SchemaContext<'_>, schemas: &[Id]) -> Option<Vec<Id>> {
    let mut values = Vec::new();
    for &schema in schemas {
        let mut own: Option<&[Id]> = None;
        let keywords: SmallVec<[(Keyword, Id); 4]> = context.asserting(schema).collect();
        for (keyword, at) in &keywords {
            match keyword.definition().operand {
                Operand::Types => {}
                Operand::Value => own = Some(std::slice::from_ref(at)),
                Operand::Values => own = own.or(Some(context.doc.elements(*at))),
                _ => return None,
            }
        }
        values.extend_from_slice(own?);
    }
    Some(values)
}

/// Returns the choice that a schema's dependency of a name gives.
pub(super) fn dependency_choice(
    context: &mut SchemaContext<'_>,
    id: Id,
    name: Symbol,
    then: Id,
) -> Result<Option<Pending>> {
    let mut present: Terms = smallvec![Term::Types(Types::OBJECT), Term::Require(name)];
    if context.is_name_list(then) {
        let others = context.names(then)?;
        match others[..] {
            [] => return Ok(None),
            // Many names may need the same one. A choice about that one decides the others, too.
            [other] if context.declares(id, &[name, other]) => {
                let neither = smallvec![Term::Types(Types::OBJECT), Term::Forbid(other), Term::Forbid(name)];
                let choice = vec![smallvec![Term::Require(other)], neither];
                return Ok(Some(Pending::Choice(Rc::new(choice), then)));
            }
            _ => present.extend(others.into_iter().map(Term::Require)),
        }
    } else if context.is_true(then) {
        return Ok(None);
    } else if context.declares(id, &[name]) && only_narrows_declared(context, id, then)? {
        // Many names may be allowed only with some values of another property. A choice about
        // that value decides most choices once one of them is made.
        let absent = smallvec![Term::Neg(then), Term::Forbid(name)];
        return Ok(Some(Pending::Choice(Rc::new(vec![smallvec![Term::Pos(then)], absent]), then)));
    } else {
        present.push(Term::Pos(then));
    }
    Ok(Some(Pending::Dependency(Rc::new(vec![present, smallvec![Term::Forbid(name)]]), then)))
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
        let message = "`format` is not a string and is ignored";
        context.warn(WarningKind::UnknownFormat, Keyword::Format.into(), at, message);
        return Ok(());
    };
    let own = context.doc.get(id, Keyword::Type).map_or(Ok(Types::ALL), |at| context.types(at))?;
    let (concerned, kind) = match context.number_format(at) {
        Some(format) => {
            bound_by_format(context, shape, format);
            (Types::NUMBER, "numbers")
        }
        None if context.knows_format(name) => {
            shape.string.add(Test::Format(name), true, at);
            (Types::STRING, "strings")
        }
        None if ANNOTATIONS.contains(&context.doc.name(name)) => return Ok(()),
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

/// Merges a machine type.
fn bound_by_format(context: &mut SchemaContext<'_>, shape: &mut Shape, format: NumberFormat) {
    let digits = u32::from(context.policy.max_integer_digits.max(1));
    match format.magnitude {
        None => shape.types = shape.types.without(Types::FRACTION),
        // Without an exponent no number is that long.
        Some(magnitude) if digits <= magnitude => return lower_max(&mut shape.number.magnitude, magnitude),
        Some(_) => {}
    }
    let mut bound =
        |text: &str| Bound { value: Decimal::new(text), text: context.doc.intern(text), exclusive: false };
    shape.number.at_least(bound(format.bounds[0]));
    shape.number.at_most(bound(format.bounds[1]));
}

/// Merges `x-verbatim`.
pub(super) fn verbatim(context: &mut SchemaContext<'_>, shape: &mut Shape, at: Id) -> Result<()> {
    if context.flag(at)? {
        // The option's bound is counted by the string node and not expressed in states.
        shape.string.min = shape.string.min.max(context.texts.source(&context.doc, at)?.min_chars());
        shape.string.add(Test::Verbatim, true, at);
    }
    Ok(())
}
