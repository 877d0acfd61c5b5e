//! Properties of an object: declared names, patterns of names, and all other names.
//!
//! Each schema object adds its `properties`, `patternProperties` and `additionalProperties` to
//! those already merged. A name that becomes known late gets the terms of undeclared names.
//!
//! # Cost
//!
//! Names times patterns. The first schema, which is mostly the only one, takes a shortcut.

use std::borrow::Cow;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::fork::Fork;
use super::keywords::Keyword;
use super::shape::{Group, Schemas, Shape, Term, Terms, Test, add_term};
use crate::constraint::json::document::{Id, Symbol};
use crate::error::Result;

/// Adds a term to those of a property.
pub(super) fn restrict(
    context: &mut SchemaContext<'_>,
    shape: &mut Shape,
    name: Symbol,
    term: Term,
) -> Result<()> {
    if !shape.object.values.contains_key(&name) {
        let known = undeclared(context, shape, name)?;
        shape.object.values.change().insert(name, known);
        shape.object.late.push(name);
    }
    if shape.object.values.get(&name).is_some_and(|terms| !terms.contains(&term))
        && let Some(terms) = shape.object.values.change().get_mut(name)
    {
        terms.push(term);
    }
    Ok(())
}

/// Returns the terms that the schemas merged until now give a name that none of them declares.
pub(super) fn undeclared(context: &mut SchemaContext<'_>, shape: &Shape, name: Symbol) -> Result<Terms> {
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
pub(super) fn members(context: &mut SchemaContext<'_>, fork: &mut Fork, id: Id) -> Result<()> {
    let additional = context.doc.get(id, Keyword::AdditionalProperties);
    let properties = context.entries(id, Keyword::Properties)?;
    let patterns = context.entries(id, Keyword::PatternProperties)?;
    fork.shape.object.open |= additional.is_some() || !patterns.is_empty();
    merge_group(context, fork, (properties, patterns), additional, id)
}

/// Merges declared names, patterns of names, and the schema of all other names.
pub(super) fn merge_group(
    context: &mut SchemaContext<'_>,
    fork: &mut Fork,
    (properties, mut patterns): (Schemas, Schemas),
    additional: Option<Id>,
    id: Id,
) -> Result<()> {
    let shape = &mut fork.shape;
    // A pattern that matches a single name declares that name, after those of `properties`.
    let mut exact: Vec<(Symbol, Id)> = Vec::new();
    patterns.retain(|&mut (pattern, schema)| match only_word(context.doc.name(pattern)) {
        Some(word) => {
            let word = word.into_owned();
            exact.push((context.doc.intern(&word), schema));
            false
        }
        None => true,
    });
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
        if !shape.object.values.contains_key(&name) {
            let known = undeclared(context, shape, name)?;
            shape.object.values.change().insert(name, known);
            shape.object.order.push(name);
        } else if !ordered || !shape.object.order.contains(&name) {
            shape.object.order.push(name);
        }
    }
    for &(name, _) in &exact {
        if !shape.object.values.contains_key(&name) {
            let known = undeclared(context, shape, name)?;
            shape.object.values.change().insert(name, known);
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

/// Returns the only name that a pattern of the form `^name$` matches.
pub(super) fn only_word(pattern: &str) -> Option<Cow<'_, str>> {
    let word = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_- :/@,#%&=~!;<>".contains(c) || !c.is_ascii();
    if word.chars().all(plain) {
        return Some(Cow::Borrowed(word));
    }
    let unescaped = word.replace("\\.", ".");
    (word.split("\\.").all(|part| part.chars().all(plain))).then_some(Cow::Owned(unescaped))
}

pub(super) fn require(shape: &mut Shape, name: Symbol) {
    if shape.object.required.insert(name, ()) {
        shape.object.late.push(name);
    }
}
