//! Cheap facts about schemas that their keywords show: two are disjoint, one has few values.
//!
//! Which keywords list values follows from the column of operands in the table of keywords.
//!
//! # Cost
//!
//! One scan of the keywords, one level down.

use smallvec::{SmallVec, smallvec};

use super::super::read::{Id, Keyword, Operand, SchemaContext, Symbol, Types, Value, only_word};
use super::super::shape::Shape;
use crate::error::Result;

/// Maximum number of pairs of literals that are compared to separate two schemas.
const MAX_COMPARED: usize = 1_024;

/// Returns true if the keywords of two schemas show that no value satisfies both. They have no
/// common type, no common literal, or a required property to which that applies (one level
/// down, next to the given shape). Nearly all unions in use are of this kind, and merging their
/// branches takes far longer.
pub(crate) fn are_disjoint(
    context: &mut SchemaContext<'_>,
    a: Id,
    b: Id,
    beside: Option<&Shape>,
) -> Result<bool> {
    let (a, b) = (context.follow(a)?, context.follow(b)?);
    context.step(1, a)?;
    let (types, mut literals) = types_and_literals(context, a)?;
    let (other_types, mut others) = types_and_literals(context, b)?;
    let common = types.and(other_types);
    if common.is_empty() {
        return Ok(true);
    }
    if common == Types::STRING {
        for (schema, literals) in [(a, &mut literals), (b, &mut others)] {
            let word = only_text(context, schema);
            *literals = literals.take().or(word.map(|word| smallvec![word]));
        }
    }
    let doc = &context.doc;
    if let (Some(x), Some(y)) = (literals, others)
        && x.len() * y.len() <= MAX_COMPARED
        && !x.iter().any(|&x| y.iter().any(|&y| doc.equal(x, y)))
    {
        return Ok(true);
    }
    let (Some(mine), Some(others)) = (doc.get(a, Keyword::Properties), doc.get(b, Keyword::Properties))
    else {
        return Ok(false);
    };
    let Some(beside) = beside.filter(|s| common.and(s.types) == Types::OBJECT) else {
        return Ok(false);
    };
    for i in 0..context.doc.members(mine).len() {
        let (name, schema) = context.doc.members(mine)[i];
        let Some(other) = context.doc.get(others, name) else { continue };
        let required =
            beside.object.required.contains(name) || demands(context, a, name) || demands(context, b, name);
        if required && are_disjoint(context, schema, other, None)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns the types that a schema names, and the values of its `const` or `enum`.
fn types_and_literals(context: &SchemaContext<'_>, schema: Id) -> Result<(Types, Option<SmallVec<[Id; 8]>>)> {
    let (mut types, mut literals) = (Types::ALL, None);
    for (keyword, at) in context.asserting(schema) {
        match keyword.definition().operand {
            Operand::Types => types = context.types(at)?,
            Operand::Value => literals = Some(smallvec![at]),
            Operand::Values => literals = Some(context.doc.elements(at).into()),
            _ => {}
        }
    }
    Ok((types, literals))
}

/// Returns the only text that a schema's `pattern` matches, as a value.
fn only_text(context: &mut SchemaContext<'_>, schema: Id) -> Option<Id> {
    let (_, at) = context.asserting(schema).find(|k| k.0 == Keyword::Pattern)?;
    let word = only_word(context.doc.name(context.doc.string(at)?))?.into_owned();
    let name = context.doc.intern(&word);
    Some(context.doc.string_value(name))
}

/// Returns true if `required` lists a name.
fn demands(context: &SchemaContext<'_>, schema: Id, name: Symbol) -> bool {
    let listed = context.asserting(schema).find(|k| k.0 == Keyword::Required);
    listed.is_some_and(|k| context.doc.elements(k.1).iter().any(|&e| context.doc.string(e) == Some(name)))
}

/// Returns true if the keywords of a schema show that it has few values.
pub(crate) fn has_few_values(context: &mut SchemaContext<'_>, schema: Id) -> Result<bool> {
    let schema = context.follow(schema)?;
    let lists = |k: (Keyword, Id)| matches!(k.0.definition().operand, Operand::Value | Operand::Values);
    let literal = context.asserting(schema).any(lists);
    Ok(literal || only_text(context, schema).is_some())
}

/// Returns true if a schema only asserts that some properties, which `outer` declares, have few
/// values.
pub(crate) fn only_narrows_declared(context: &mut SchemaContext<'_>, outer: Id, schema: Id) -> Result<bool> {
    let keywords: SmallVec<[(Keyword, Id); 8]> = context.asserting(schema).collect();
    let [(Keyword::Properties, at)] = keywords[..] else { return Ok(false) };
    for (name, value) in context.object(at)? {
        if !context.declares(outer, &[name]) || !has_few_values(context, value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns true if a schema only requires some properties, each of which passes a test.
pub(crate) fn only_requires(context: &SchemaContext<'_>, id: Id, is_there: impl Fn(Symbol) -> bool) -> bool {
    let mut keywords = context.asserting(id);
    let (Some((Keyword::Required, at)), None) = (keywords.next(), keywords.next()) else { return false };
    let Value::Array { .. } = context.doc.value(at) else { return false };
    context.doc.elements(at).iter().all(|&name| context.doc.string(name).is_some_and(&is_there))
}
