//! Negation of schemas, as far as it has a positive form.
//!
//! It serves `not`, the `else` branch of `if`, and the separation of overlapping `oneOf` branches.
//!
//! The negation of a schema is a choice between the violations of its keywords. The representation
//! cannot express some violations, such as items that are not unique. These become a refusal that
//! only counts if that alternative remains.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::exclusion::{exclude_each_other, has_few_values, only_requires};
use super::fork::{Fork, PendingKeyword};
use super::keywords::Keyword;
use super::normalize::Normalizer;
use super::number_formats::other_than_number_format;
use super::shape::{
    Bound, ContainsBound, ExistsProperty, FALSE, NameList, Names, NumberPart, Shape, Term, Terms, Test,
    lower_max,
};
use super::synthetic::of_length;
use super::types::Types;
use crate::constraint::json::document::{Id, Value};
use crate::error::Result;

/// Maximum number of branches of a `oneOf` whose pairs are written out.
const MAX_BRANCHES: usize = 24;

impl Normalizer<'_> {
    /// Merges the negation of a schema.
    pub fn negative(&mut self, fork: &mut Fork, id: Id) -> Result<()> {
        match self.context.doc.value(id) {
            Value::Bool(true) => fork.shape.types = Types::NONE,
            Value::Bool(false) => return Ok(()),
            Value::Object { .. } => {}
            _ => return Err(self.context.invalid(id, "a schema must be an object or a boolean")),
        }
        let violations = self.memoised_violations(id)?;
        match &violations[..] {
            [] => {
                self.record_unsat_cause(id, "the negated schema accepts everything");
                fork.shape.types = Types::NONE;
            }
            [only] => fork.queue(only.iter().map(|&term| PendingKeyword::Term(term))),
            _ => fork.queue([PendingKeyword::Choice(violations, id)]),
        }
        Ok(())
    }

    /// Returns the alternatives that violate a schema object; computed once.
    fn memoised_violations(&mut self, id: Id) -> Result<Rc<Vec<Terms>>> {
        if let Some(known) = self.memos.violations.get(&id) {
            return Ok(known.clone());
        }
        let found = Rc::new(violations(&mut self.context, id)?);
        self.memos.violations.insert(id, found.clone());
        Ok(found)
    }

    /// Returns true if all of these terms follow from what is merged, as far as that is cheap to
    /// see.
    pub fn implied(&mut self, shape: &Shape, terms: &[Term]) -> Result<bool> {
        for term in terms {
            let holds = match *term {
                _ if shape.terms.contains(term) => true,
                Term::Types(types) => shape.types.without(types).is_empty(),
                Term::Require(name) => shape.object.required.contains(name),
                Term::Forbid(name) => shape.object.values.get(&name).is_some_and(|v| v.contains(&FALSE)),
                Term::Property(name, schema, true) => {
                    shape.object.values.get(&name).is_some_and(|v| v.contains(&Term::Pos(schema)))
                }
                Term::Property(name, schema, false) => {
                    let mut fails = false;
                    for value in shape.object.values.get(&name).into_iter().flatten() {
                        fails = fails
                            || match *value {
                                Term::Neg(other) => other == schema,
                                Term::Pos(other) => {
                                    exclude_each_other(&mut self.context, other, schema, None)?
                                }
                                _ => *value == FALSE,
                            };
                    }
                    fails
                }
                // In a long series of `if`s that require different values of one property, the
                // first that holds decides all others.
                Term::Neg(id) => self.violated(shape, id)?,
                Term::Pos(id) => {
                    only_requires(&self.context, id, |name| shape.object.required.contains(name))
                }
                _ => false,
            };
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if what is merged violates a schema, as far as that is cheap to see.
    fn violated(&mut self, shape: &Shape, id: Id) -> Result<bool> {
        if !matches!(self.context.doc.value(id), Value::Object { .. }) {
            return Ok(false);
        }
        let ways = self.memoised_violations(id)?;
        self.context.step(ways.len() as u64, id)?;
        // No alternative contains another negation of a schema, so this ends.
        for way in ways.iter() {
            if self.implied(shape, way)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the alternative that remains of a schema and its violation, if what is merged
    /// already decides between the two, as far as that is cheap to see.
    pub fn decided<'a>(&mut self, shape: &Shape, alternatives: &'a [Terms]) -> Result<Option<&'a Terms>> {
        let [yes, no] = alternatives else { return Ok(None) };
        match (yes.first(), no.first()) {
            (Some(&Term::Pos(id)), Some(&Term::Neg(not))) if id == not => {
                if shape.terms.contains(&Term::Pos(id)) {
                    return Ok(Some(yes));
                }
                Ok(self.violated(shape, id)?.then_some(no))
            }
            _ => Ok(None),
        }
    }

    /// Merges the violation of one keyword of a schema object.
    pub fn negative_keyword(&mut self, fork: &mut Fork, schema: Id, keyword: Keyword) -> Result<()> {
        let Some(at) = self.context.doc.get(schema, keyword) else {
            fork.shape.types = Types::NONE;
            return Ok(());
        };
        let context = &mut self.context;
        match keyword {
            Keyword::Type => fork.shape.types = fork.shape.types.without(context.types(at)?),
            Keyword::Const => self.exclude(fork, &[at]),
            Keyword::Enum => {
                let values = context.doc.elements(at).to_vec();
                self.exclude(fork, &values);
            }
            Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef => {
                fork.next(&[Term::Neg(context.target(keyword, at)?)]);
            }
            Keyword::AllOf => {
                let fails = context.schemas(at)?.into_iter().map(|s| smallvec![Term::Neg(s)]);
                fork.queue([PendingKeyword::Choice(Rc::new(fails.collect()), at)]);
            }
            Keyword::AnyOf => fork.next(&context.schemas(at)?.into_iter().map(Term::Neg).collect::<Terms>()),
            Keyword::Not => fork.next(&[Term::Pos(at)]),
            Keyword::OneOf => negative_one_of(context, fork, at)?,
            Keyword::If => negative_if(context, fork, schema, at),
            // Their siblings `if` and `contains` are violated instead.
            Keyword::Then | Keyword::Else | Keyword::MinContains | Keyword::MaxContains => {
                refuse_negation(fork, keyword, Types::NONE, at);
            }
            Keyword::Minimum | Keyword::ExclusiveMinimum => {
                outside_bound(context, fork, schema, (keyword, at), NumberPart::at_most)?;
            }
            Keyword::Maximum | Keyword::ExclusiveMaximum => {
                outside_bound(context, fork, schema, (keyword, at), NumberPart::at_least)?;
            }
            Keyword::MultipleOf => no_multiple(context, fork, at)?,
            Keyword::Pattern => no_match(context, fork, at)?,
            Keyword::Format => negative_format(context, fork, at)?,
            Keyword::XVerbatim => {
                let types = if context.is_verbatim(at)? { Types::STRING } else { Types::NONE };
                refuse_negation(fork, keyword, types, at);
            }
            Keyword::MinLength => fewer(context, &mut fork.shape, Types::STRING, at)?,
            Keyword::MinItems => fewer(context, &mut fork.shape, Types::ARRAY, at)?,
            Keyword::MinProperties => fewer(context, &mut fork.shape, Types::OBJECT, at)?,
            Keyword::MaxLength => more(context, &mut fork.shape, Types::STRING, at)?,
            Keyword::MaxItems => more(context, &mut fork.shape, Types::ARRAY, at)?,
            Keyword::MaxProperties => more(context, &mut fork.shape, Types::OBJECT, at)?,
            Keyword::UniqueItems => {
                let never = context.doc.value(at) == Value::Bool(false);
                refuse_negation(fork, keyword, if never { Types::NONE } else { Types::ARRAY }, at);
            }
            Keyword::Contains => negative_contains(context, fork, schema, at)?,
            Keyword::Items | Keyword::PrefixItems | Keyword::AdditionalItems => {
                negative_items(context, fork, schema, keyword, at)?;
            }
            Keyword::UnevaluatedItems | Keyword::UnevaluatedProperties => {
                self.negative_unevaluated(fork, schema, keyword, at)?;
            }
            Keyword::Required => {
                let lacks = context.names(at)?.into_iter().map(|n| smallvec![Term::Forbid(n)]);
                object_choice(fork, lacks.collect(), at);
            }
            Keyword::Properties => object_choice(fork, failing_properties(context, at)?, at),
            Keyword::PatternProperties => object_choice(fork, failing_patterns(context, at)?, at),
            Keyword::Dependencies | Keyword::DependentRequired | Keyword::DependentSchemas => {
                object_choice(fork, broken_dependencies(context, at)?, at);
            }
            Keyword::AdditionalProperties => {
                demand(context, fork, (Names::Undeclared(schema), Some(Term::Neg(at))), at);
            }
            Keyword::PropertyNames => demand(context, fork, (Names::Failing(at), None), at),
        }
        Ok(())
    }

    /// Excludes literals.
    fn exclude(&mut self, fork: &mut Fork, values: &[Id]) {
        for &value in values {
            let types = self.context.type_of(value);
            match self.context.doc.value(value) {
                Value::Null | Value::Bool(_) => fork.shape.types = fork.shape.types.without(types),
                Value::String(text) => fork.shape.string.add(Test::Equals(text), false, value),
                Value::Number(_) => {
                    let choice = vec![
                        smallvec![Term::Types(Types::ALL.without(Types::NUMBER))],
                        smallvec![Term::Types(Types::NUMBER), Term::Below(value)],
                        smallvec![Term::Types(Types::NUMBER), Term::Above(value)],
                    ];
                    fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), value)]);
                }
                Value::Array { .. } => {
                    let choice = other_arrays(&mut self.context, value);
                    fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), value)]);
                }
                Value::Object { .. } => {
                    let choice = self.other_objects(value);
                    fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), value)]);
                }
            }
        }
    }

    /// Returns the terms of all values but one object: a property is absent, or differs, or is
    /// additional.
    fn other_objects(&mut self, value: Id) -> Vec<Terms> {
        let members = self.context.doc.members(value).to_vec();
        let no_more = self.evaluated.only_names(members.iter().map(|m| m.0).collect());
        let nothing = self.context.synthetic.constant(&mut self.context.doc, false);
        let mut choice = vec![
            smallvec![Term::Types(Types::ALL.without(Types::OBJECT))],
            smallvec![Term::Types(Types::OBJECT), Term::Unevaluated(no_more, nothing, false)],
        ];
        for (name, member) in members {
            let same = self.context.synthetic.equal_to(&mut self.context.doc, member);
            choice.push(smallvec![Term::Types(Types::OBJECT), Term::Forbid(name)]);
            choice.push(smallvec![
                Term::Types(Types::OBJECT),
                Term::Require(name),
                Term::Property(name, same, false)
            ]);
        }
        choice
    }
}

/// Computes the alternatives that violate a schema object. Those through a property with few
/// values come first, and the others require that this property is as the schema has it. So the
/// alternatives exclude each other where that is cheap, and one of them decides the negations
/// of many similar schemas.
fn violations(context: &mut SchemaContext<'_>, id: Id) -> Result<Vec<Terms>> {
    let (mut telling, mut others): (Vec<Terms>, Vec<Terms>) = (Vec::new(), Vec::new());
    let mut kept = Terms::new();
    let keywords: SmallVec<[(Keyword, Id); 8]> = context.asserting(id).collect();
    let value = |name: Keyword| keywords.iter().find(|k| k.0 == name).map(|k| k.1);
    let required = match value(Keyword::Required).map(|at| context.names(at)) {
        None => Some(NameList::new()),
        // A value that is not a list of names is reported where it is merged.
        Some(names) => names.ok(),
    };
    let properties = value(Keyword::Properties).map(|at| context.object(at)).transpose()?.unwrap_or_default();
    let object = Term::Types(Types::OBJECT);
    if let Some(required) = &required {
        for &(name, schema) in &properties {
            if required.contains(&name) && !context.is_true(schema) {
                // The property is absent, or violates its schema.
                let way = smallvec![object, Term::Property(name, schema, false)];
                if has_few_values(context, schema)? {
                    telling.push(way.into_iter().chain(kept.iter().cloned()).collect());
                    kept.extend([Term::Require(name), Term::Property(name, schema, true)]);
                } else {
                    others.push(way);
                }
            }
        }
        for &name in required {
            if !properties.iter().any(|p| p.0 == name && !context.is_true(p.1)) {
                telling.push([object, Term::Forbid(name)].into_iter().chain(kept.iter().cloned()).collect());
                kept.push(Term::Require(name));
            }
        }
        for &(name, schema) in &properties {
            if !required.contains(&name) && !context.is_true(schema) {
                let way: Terms = smallvec![object, Term::Require(name), Term::Property(name, schema, false)];
                if has_few_values(context, schema)? {
                    telling.push(way.into_iter().chain(kept.iter().cloned()).collect());
                    kept.push(Term::Property(name, schema, true));
                } else {
                    others.push(way);
                }
            }
        }
    }
    for &(name, _) in &keywords {
        if required.is_none() || !matches!(name, Keyword::Properties | Keyword::Required) {
            others.push(smallvec![Term::NegKeyword(id, name)]);
        }
    }
    others.iter_mut().for_each(|way| way.extend(kept.iter().cloned()));
    telling.append(&mut others);
    Ok(telling)
}

/// Merges the demand that violates a schema of properties or of their names.
fn demand(context: &SchemaContext<'_>, fork: &mut Fork, (names, value): (Names, Option<Term>), at: Id) {
    let possible = if context.is_true(at) { Types::NONE } else { Types::OBJECT };
    fork.shape.types = fork.shape.types.and(possible);
    fork.shape.object.demands.push(ExistsProperty { names, value, at });
}

/// Merges an object that one of these lists of terms applies to.
fn object_choice(fork: &mut Fork, choice: Vec<Terms>, at: Id) {
    fork.shape.types = fork.shape.types.and(Types::OBJECT);
    fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
}

/// Returns the alternatives that violate `properties`.
fn failing_properties(context: &SchemaContext<'_>, at: Id) -> Result<Vec<Terms>> {
    let properties = context.object(at)?.into_iter().filter(|p| !context.is_true(p.1));
    Ok(properties.map(|(n, s)| smallvec![Term::Require(n), Term::Property(n, s, false)]).collect())
}

/// Returns the alternatives that violate `patternProperties`.
fn failing_patterns(context: &SchemaContext<'_>, at: Id) -> Result<Vec<Terms>> {
    let patterns = context.object(at)?.into_iter().filter(|p| !context.is_true(p.1));
    Ok(patterns.map(|(pattern, s)| smallvec![Term::MatchFails(pattern, s)]).collect())
}

/// Returns the alternatives that violate a dependency.
fn broken_dependencies(context: &SchemaContext<'_>, at: Id) -> Result<Vec<Terms>> {
    let mut choice: Vec<Terms> = Vec::new();
    for (name, then) in context.object(at)? {
        if matches!(context.doc.value(then), Value::Array { .. } | Value::String(_)) {
            let lacks = context.names(then)?.into_iter();
            choice.extend(lacks.map(|other| smallvec![Term::Require(name), Term::Forbid(other)]));
        } else {
            choice.push(smallvec![Term::Require(name), Term::Neg(then)]);
        }
    }
    Ok(choice)
}

/// Merges a number beyond a bound; `restrict` merges the opposite bound.
fn outside_bound(
    context: &mut SchemaContext<'_>,
    fork: &mut Fork,
    schema: Id,
    (keyword, at): (Keyword, Id),
    restrict: fn(&mut NumberPart, Bound),
) -> Result<()> {
    fork.shape.types = fork.shape.types.and(Types::NUMBER);
    match context.bound(schema, keyword, at)? {
        Some((mut bound, exclusive)) => {
            bound.exclusive = !exclusive;
            restrict(&mut fork.shape.number, bound);
        }
        None => fork.shape.types = Types::NONE,
    }
    Ok(())
}

fn no_multiple(context: &mut SchemaContext<'_>, fork: &mut Fork, at: Id) -> Result<()> {
    context.divisor(at)?;
    fork.shape.types = fork.shape.types.and(Types::NUMBER);
    if let Value::Number(text) = context.doc.value(at) {
        fork.shape.number.divisors.push((text, at, false));
    }
    Ok(())
}

fn no_match(context: &SchemaContext<'_>, fork: &mut Fork, at: Id) -> Result<()> {
    fork.shape.types = fork.shape.types.and(Types::STRING);
    fork.shape.string.add(Test::Pattern(context.text(at)?), false, at);
    Ok(())
}

fn negative_contains(context: &mut SchemaContext<'_>, fork: &mut Fork, schema: Id, at: Id) -> Result<()> {
    fork.shape.types = fork.shape.types.and(Types::ARRAY);
    let (counts, fails) = (Term::Pos(at), Term::Neg(at));
    let (min, max) = match context.contains_bounds(schema)? {
        (1, None) => {
            fork.shape.array.items(&[], Some(fails));
            return Ok(());
        }
        (0, None) => {
            fork.shape.types = Types::NONE;
            return Ok(());
        }
        (min, None) => (0, Some(min - 1)),
        (0, Some(max)) => (max.saturating_add(1), None),
        _ => {
            refuse_negation(fork, Keyword::Contains, Types::ARRAY, at);
            return Ok(());
        }
    };
    fork.shape.array.contains.push(ContainsBound { counts, fails, from: 0, min, max, at });
    Ok(())
}

/// Merges an array that violates the schemas of its items.
fn negative_items(
    context: &mut SchemaContext<'_>,
    fork: &mut Fork,
    schema: Id,
    keyword: Keyword,
    at: Id,
) -> Result<()> {
    fork.shape.types = fork.shape.types.and(Types::ARRAY);
    let list = context
        .doc
        .get(schema, Keyword::Items)
        .is_some_and(|i| matches!(context.doc.value(i), Value::Array { .. }));
    if keyword == Keyword::AdditionalItems && !list {
        // Without a list of items this keyword asserts nothing.
        fork.shape.types = Types::NONE;
        return Ok(());
    }
    let (prefix, rest) = context.item_schemas(schema)?;
    let listed = matches!(context.doc.value(at), Value::Array { .. });
    if listed {
        // A list of schemas is violated by violating one of them.
        let fails = |(i, s): (usize, &Id)| smallvec![Term::ItemFails(i as u32, *s)];
        let choice: Vec<Terms> = prefix.iter().enumerate().map(fails).collect();
        fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
    } else if let Some(rest) = rest.filter(|&r| !context.is_true(r)) {
        let from = prefix.len() as u32;
        let (counts, fails) = (Term::Neg(rest), Term::Pos(rest));
        fork.shape.array.contains.push(ContainsBound { counts, fails, from, min: 1, max: None, at });
    } else {
        fork.shape.types = Types::NONE;
    }
    Ok(())
}

/// Merges: none of the schemas holds, or two of them do.
fn negative_one_of(context: &mut SchemaContext<'_>, fork: &mut Fork, at: Id) -> Result<()> {
    let schemas = context.schemas(at)?;
    if schemas.len() > MAX_BRANCHES {
        refuse_negation(fork, Keyword::OneOf, Types::ALL, at);
        return Ok(());
    }
    let mut choice: Vec<Terms> = vec![schemas.iter().map(|&s| Term::Neg(s)).collect()];
    for (i, &a) in schemas.iter().enumerate() {
        for &b in &schemas[..i] {
            if a == b || !exclude_each_other(context, a, b, Some(&fork.shape))? {
                choice.push(smallvec![Term::Pos(b), Term::Pos(a)]);
            }
        }
    }
    fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
    Ok(())
}

/// Refuses the violation of a keyword, which cannot be expressed; only values of these types
/// can violate it.
fn refuse_negation(fork: &mut Fork, keyword: Keyword, types: Types, at: Id) {
    fork.shape.types = fork.shape.types.and(types);
    let word = keyword.name();
    fork.refuse(
        types,
        at,
        format!("the negation of `{word}` (by `not`, `if`, or overlapping `oneOf` branches) is not supported"),
        "state what is allowed instead; give `oneOf` branches a required property with different `const` values",
    );
}

fn negative_if(context: &mut SchemaContext<'_>, fork: &mut Fork, schema: Id, at: Id) {
    let mut choice = Vec::new();
    if let Some(then) = context.doc.get(schema, Keyword::Then) {
        choice.push(smallvec![Term::Pos(at), Term::Neg(then)]);
    }
    if let Some(or) = context.doc.get(schema, Keyword::Else) {
        choice.push(smallvec![Term::Neg(at), Term::Neg(or)]);
    }
    fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), at)]);
}

fn negative_format(context: &mut SchemaContext<'_>, fork: &mut Fork, at: Id) -> Result<()> {
    if let Some(format) = context.number_format(at) {
        let choice = other_than_number_format(context, format)?;
        fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
        return Ok(());
    }
    fork.shape.types = fork.shape.types.and(Types::STRING);
    match context.doc.string(at) {
        Some(name) if context.texts.knows_format(&context.doc, name) => {
            fork.shape.string.add(Test::Format(name), false, at);
        }
        // An annotation is never violated.
        _ => fork.shape.types = Types::NONE,
    }
    Ok(())
}

/// Merges the violation of a lower count of values of a type.
fn fewer(context: &mut SchemaContext<'_>, shape: &mut Shape, types: Types, at: Id) -> Result<()> {
    if types == Types::OBJECT {
        shape.object.count_at = Some(at);
    }
    match context.count(at)?.checked_sub(1) {
        Some(most) => {
            lower_max(shape.counts(types).1, most);
            shape.types = shape.types.and(types);
        }
        None => shape.types = Types::NONE,
    }
    Ok(())
}

/// Merges the violation of an upper count of values of a type.
fn more(context: &mut SchemaContext<'_>, shape: &mut Shape, types: Types, at: Id) -> Result<()> {
    let least = context.count(at)?.saturating_add(1);
    if types == Types::OBJECT {
        shape.object.count_at = Some(at);
    }
    let min = shape.counts(types).0;
    *min = (*min).max(least);
    shape.types = shape.types.and(types);
    Ok(())
}

/// Returns the terms of all values but one array: another number of items, or an item that
/// differs.
fn other_arrays(context: &mut SchemaContext<'_>, value: Id) -> Vec<Terms> {
    let items = context.doc.elements(value).to_vec();
    let length = of_length(&mut context.doc, items.len(), value);
    let mut choice = vec![
        smallvec![Term::Types(Types::ALL.without(Types::ARRAY))],
        smallvec![Term::Types(Types::ARRAY), Term::Neg(length)],
    ];
    for (i, item) in items.into_iter().enumerate() {
        let same = context.synthetic.equal_to(&mut context.doc, item);
        choice.push(smallvec![Term::Types(Types::ARRAY), Term::ItemFails(i as u32, same)]);
    }
    choice
}
