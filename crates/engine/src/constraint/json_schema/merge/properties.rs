//! Properties of an object: declared names, patterns of names, and all other names.
//!
//! Each schema object adds its `properties`, `patternProperties` and `additionalProperties` to
//! those already merged. A name that becomes known late gets the terms of undeclared names.
//!
//! # Cost
//!
//! Names times patterns. The first schema, which is mostly the only one, takes a shortcut.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::super::read::{Id, Keyword, SchemaContext, Schemas, Symbol, Test, only_word};
use super::super::shape::{Group, Shape};
use super::super::term::{Term, Terms, add_term};
use super::partial_shape::PartialShape;
use crate::error::Result;

/// Adds a term to those of a property.
pub(super) fn restrict_property(
    context: &mut SchemaContext<'_>,
    shape: &mut Shape,
    name: Symbol,
    term: Term,
) -> Result<()> {
    if declare(context, shape, name)? {
        shape.object.late.push(name);
    }
    if shape.object.values.get(&name).is_some_and(|terms| !terms.contains(&term))
        && let Some(terms) = shape.object.values.change().get_mut(name)
    {
        terms.push(term);
    }
    Ok(())
}

/// Gives a name without terms of its own those of undeclared names; returns false if it has terms.
pub(crate) fn declare(context: &mut SchemaContext<'_>, shape: &mut Shape, name: Symbol) -> Result<bool> {
    let new = !shape.object.values.contains_key(&name);
    if new {
        let known = undeclared(context, shape, name)?;
        shape.object.values.change().insert(name, known);
    }
    Ok(new)
}

/// Returns the terms that the schemas merged until now give a name that none of them declares.
pub(crate) fn undeclared(context: &mut SchemaContext<'_>, shape: &Shape, name: Symbol) -> Result<Terms> {
    let mut terms = Terms::new();
    for group in &shape.object.groups {
        let mut matched = false;
        for &(pattern, schema) in &group.patterns {
            if context.passes(Test::Pattern(pattern), name, schema)? {
                matched = true;
                add_term(&mut terms, Term::Pos(schema));
            }
        }
        if let Some(schema) = group.additional.filter(|_| !matched) {
            add_term(&mut terms, Term::Pos(schema));
        }
    }
    Ok(terms)
}

/// Merges `properties`, `patternProperties` and `additionalProperties` of one schema object.
pub(super) fn members(context: &mut SchemaContext<'_>, partial: &mut PartialShape, id: Id) -> Result<()> {
    let additional = context.doc.get(id, Keyword::AdditionalProperties);
    let properties = context.entries(id, Keyword::Properties)?;
    let patterns = context.entries(id, Keyword::PatternProperties)?;
    partial.shape.object.open |= additional.is_some() || !patterns.is_empty();
    merge_group(context, partial, (properties, patterns), additional, id)
}

/// Merges declared names, patterns of names, and the schema of all other names.
pub(super) fn merge_group(
    context: &mut SchemaContext<'_>,
    partial: &mut PartialShape,
    (properties, mut patterns): (Schemas, Schemas),
    additional: Option<Id>,
    id: Id,
) -> Result<()> {
    let shape = &mut partial.shape;
    let exact = take_exact(context, &mut patterns);
    let additional = additional.filter(|&a| !context.is_true(a));
    context.step((properties.len() + shape.object.values.len() / 4) as u64, id)?;
    let first = shape.object.values.is_empty() && shape.object.groups.is_empty();
    if first && patterns.is_empty() && exact.is_empty() {
        // The first schema with properties is mostly the only one: there is nothing to merge
        // with.
        let values = shape.object.values.change();
        values.reserve(properties.len());
        for &(name, schema) in &properties {
            values.insert(name, smallvec![Term::Pos(schema)]);
        }
        shape.object.order.extend(properties.iter().map(|p| p.0));
        if additional.is_some() {
            shape.object.groups.push(Rc::new(Group { patterns, additional }));
        }
        return Ok(());
    }
    let ordered = !shape.object.order.is_empty();
    for &(name, _) in &properties {
        if declare(context, shape, name)? || !ordered || !shape.object.order.contains(&name) {
            shape.object.order.push(name);
        }
    }
    for &(name, _) in &exact {
        if declare(context, shape, name)? {
            shape.object.late.push(name);
        }
    }
    let declared: rustc_hash::FxHashMap<Symbol, Id> = properties.into_iter().collect();
    let known: Vec<Symbol> = shape.object.values.keys().collect();
    for name in known {
        let mut said: SmallVec<[Id; 4]> = declared.get(&name).copied().into_iter().collect();
        said.extend(exact.iter().filter(|e| e.0 == name).map(|e| e.1));
        for &(pattern, schema) in &patterns {
            if context.passes(Test::Pattern(pattern), name, schema)? {
                said.push(schema);
            }
        }
        if said.is_empty() {
            said.extend(additional);
        }
        if let Some(terms) = shape.object.values.change().get_mut(name) {
            said.into_iter().for_each(|s| add_term(terms, Term::Pos(s)));
        }
    }
    if !patterns.is_empty() || additional.is_some() {
        shape.object.groups.push(Rc::new(Group { patterns, additional }));
    }
    Ok(())
}

/// Takes the patterns that match a single name: they declare that name, after those of
/// `properties`.
fn take_exact(context: &mut SchemaContext<'_>, patterns: &mut Schemas) -> Vec<(Symbol, Id)> {
    let mut exact = Vec::new();
    patterns.retain(|&mut (pattern, schema)| {
        let word = only_word(context.doc.name(pattern)).map(|word| word.into_owned());
        exact.extend(word.iter().map(|word| (context.doc.intern(word), schema)));
        word.is_none()
    });
    exact
}

pub(super) fn require(shape: &mut Shape, name: Symbol) {
    if shape.object.required.insert(name, ()) {
        shape.object.late.push(name);
    }
}
