//! Negation of schemas, as far as it has a positive form.
//!
//! It serves `not`, the `else` branch of `if`, and the separation of overlapping `oneOf` branches.
//!
//! The negation of a schema is a choice between the violations of its keywords. The representation
//! cannot express some violations, such as items that are not unique. These become a refusal that
//! only counts if that alternative remains.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::super::check::{are_disjoint, has_few_values, only_requires};
use super::super::read::{Bound, Keyword, NameList, SchemaContext, Test, Types, of_length};
use super::super::shape::{ContainsBound, ExistsProperty, Names, NumberPart, Shape};
use super::super::term::{FALSE, Term, Terms};
use super::normalize::Normalizer;
use super::partial_shape::{PartialShape, Pending};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::Result;

/// Maximum number of branches of a `oneOf` whose pairs are written out.
const MAX_BRANCHES: usize = 24;

impl Normalizer<'_> {
    /// Merges the negation of a schema.
    pub fn negative(&mut self, partial: &mut PartialShape, id: Id) -> Result<()> {
        match self.context.doc.value(id) {
            Value::Bool(true) => partial.shape.types = Types::NONE,
            Value::Bool(false) => return Ok(()),
            Value::Object { .. } => {}
            _ => return Err(self.context.invalid(id, "a schema must be an object or a boolean")),
        }
        let violations = self.memoised_violations(id)?;
        match &violations[..] {
            [] => {
                self.record_unsat_cause(id, "the negated schema accepts everything");
                partial.shape.types = Types::NONE;
            }
            [only] => partial.next(only),
            _ => partial.queue([Pending::Choice(violations, id)]),
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
                                Term::Pos(other) => are_disjoint(&mut self.context, other, schema, None)?,
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
    pub fn negative_keyword(
        &mut self,
        partial: &mut PartialShape,
        schema: Id,
        keyword: Keyword,
    ) -> Result<()> {
        let Some(at) = self.context.doc.get(schema, keyword) else {
            partial.shape.types = Types::NONE;
            return Ok(());
        };
        let context = &mut self.context;
        match keyword {
            Keyword::Type => partial.shape.types = partial.shape.types.without(context.types(at)?),
            Keyword::Const => self.exclude(partial, &[at]),
            Keyword::Enum => {
                let values = context.doc.elements(at).to_vec();
                self.exclude(partial, &values);
            }
            Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef => {
                partial.next(&[Term::Neg(context.target(keyword, at)?)]);
            }
            Keyword::AllOf => {
                let fails = context.schemas(at)?.into_iter().map(|s| smallvec![Term::Neg(s)]);
                partial.choose(fails.collect(), at);
            }
            Keyword::AnyOf => {
                partial.next(&context.schemas(at)?.into_iter().map(Term::Neg).collect::<Terms>())
            }
            Keyword::Not => partial.next(&[Term::Pos(at)]),
            Keyword::OneOf => negative_one_of(context, partial, at)?,
            Keyword::If => negative_if(context, partial, schema, at),
            // Their siblings `if` and `contains` are violated instead.
            Keyword::Then | Keyword::Else | Keyword::MinContains | Keyword::MaxContains => {
                refuse_negation(partial, keyword, Types::NONE, at);
            }
            Keyword::Minimum | Keyword::ExclusiveMinimum => {
                outside_bound(context, partial, schema, (keyword, at), NumberPart::at_most)?;
            }
            Keyword::Maximum | Keyword::ExclusiveMaximum => {
                outside_bound(context, partial, schema, (keyword, at), NumberPart::at_least)?;
            }
            Keyword::MultipleOf => {
                context.divisor(at)?;
                partial.only(Types::NUMBER);
                if let Value::Number(text) = context.doc.value(at) {
                    partial.shape.number.divisors.push((text, at, false));
                }
            }
            Keyword::Pattern => {
                partial.only(Types::STRING);
                partial.shape.string.add(Test::Pattern(context.text(at)?), false, at);
            }
            Keyword::Format => negative_format(context, partial, at)?,
            Keyword::XVerbatim => {
                let types = if context.flag(at)? { Types::STRING } else { Types::NONE };
                refuse_negation(partial, keyword, types, at);
            }
            Keyword::MinLength | Keyword::MinItems | Keyword::MinProperties => {
                match context.count(at)?.checked_sub(1) {
                    Some(most) => partial.shape.bound_count(keyword, (0, Some(most)), at),
                    None => partial.shape.types = Types::NONE,
                }
                partial.only(keyword.definition().about);
            }
            Keyword::MaxLength | Keyword::MaxItems | Keyword::MaxProperties => {
                let least = context.count(at)?.saturating_add(1);
                partial.shape.bound_count(keyword, (least, None), at);
                partial.only(keyword.definition().about);
            }
            Keyword::UniqueItems => {
                let never = context.doc.value(at) == Value::Bool(false);
                refuse_negation(partial, keyword, if never { Types::NONE } else { Types::ARRAY }, at);
            }
            Keyword::Contains => negative_contains(context, partial, schema, at)?,
            Keyword::Items | Keyword::PrefixItems | Keyword::AdditionalItems => {
                negative_items(context, partial, schema, (keyword, at))?;
            }
            Keyword::UnevaluatedItems | Keyword::UnevaluatedProperties => {
                self.negative_unevaluated(partial, schema, keyword, at)?;
            }
            Keyword::Required => {
                let lacks = context.names(at)?.into_iter().map(|n| smallvec![Term::Forbid(n)]);
                object_choice(partial, lacks.collect(), at);
            }
            Keyword::Properties | Keyword::PatternProperties => {
                let fails = |(name, schema): (Symbol, Id)| match keyword {
                    Keyword::Properties => {
                        smallvec![Term::Require(name), Term::Property(name, schema, false)]
                    }
                    _ => smallvec![Term::MatchFails(name, schema)],
                };
                let schemas = context.object(at)?.into_iter().filter(|s| !context.is_true(s.1));
                object_choice(partial, schemas.map(fails).collect(), at);
            }
            Keyword::Dependencies | Keyword::DependentRequired | Keyword::DependentSchemas => {
                object_choice(partial, broken_dependencies(context, at)?, at);
            }
            Keyword::AdditionalProperties => {
                demand(context, partial, (Names::Undeclared(schema), Some(Term::Neg(at))), at);
            }
            Keyword::PropertyNames => demand(context, partial, (Names::Failing(at), None), at),
        }
        Ok(())
    }

    /// Excludes literals.
    fn exclude(&mut self, partial: &mut PartialShape, values: &[Id]) {
        for &value in values {
            let types = self.context.type_of(value);
            match self.context.doc.value(value) {
                Value::Null | Value::Bool(_) => partial.shape.types = partial.shape.types.without(types),
                Value::String(text) => partial.shape.string.add(Test::Equals(text), false, value),
                Value::Number(_) => {
                    let beyond = [Term::Below(value), Term::Above(value)];
                    let others = Types::ALL.without(Types::NUMBER);
                    let mut choice: Vec<Terms> = vec![smallvec![Term::Types(others)]];
                    choice.extend(beyond.map(|term| smallvec![Term::Types(Types::NUMBER), term]));
                    partial.choose(choice, value);
                }
                Value::Array { .. } => partial.choose(other_arrays(&mut self.context, value), value),
                Value::Object { .. } => partial.choose(self.other_objects(value), value),
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
            let other = Term::Property(name, same, false);
            choice.push(smallvec![Term::Types(Types::OBJECT), Term::Require(name), other]);
        }
        choice
    }
}

/// Alternatives that violate a schema object. Those through a property with few values come first,
/// and the others require that this property is as the schema has it. So the alternatives exclude
/// each other where that is cheap, and one of them decides the negations of many similar schemas.
#[derive(Default)]
struct Violations {
    /// Through a property with few values, or one that is absent.
    first: Vec<Terms>,
    others: Vec<Terms>,
    /// Terms that exclude all of the first ones.
    kept: Terms,
}

impl Violations {
    /// Adds a violation of a property's schema.
    fn property(
        &mut self,
        context: &mut SchemaContext<'_>,
        (name, schema): (Symbol, Id),
        required: bool,
    ) -> Result<()> {
        let exists = (!required).then_some(Term::Require(name));
        let mut way: Terms = [Term::Types(Types::OBJECT)].into_iter().chain(exists).collect();
        way.push(Term::Property(name, schema, false));
        if !has_few_values(context, schema)? {
            self.others.push(way);
            return Ok(());
        }
        way.extend_from_slice(&self.kept);
        self.first.push(way);
        self.kept.extend(required.then_some(Term::Require(name)));
        self.kept.push(Term::Property(name, schema, true));
        Ok(())
    }
}

fn violations(context: &mut SchemaContext<'_>, id: Id) -> Result<Vec<Terms>> {
    let mut all = Violations::default();
    let keywords: SmallVec<[(Keyword, Id); 8]> = context.asserting(id).collect();
    let value = |name: Keyword| keywords.iter().find(|k| k.0 == name).map(|k| k.1);
    let required = match value(Keyword::Required).map(|at| context.names(at)) {
        None => Some(NameList::new()),
        // A value that is not a list of names is reported where it is merged.
        Some(names) => names.ok(),
    };
    let mut properties =
        value(Keyword::Properties).map(|at| context.object(at)).transpose()?.unwrap_or_default();
    properties.retain(|p| !context.is_true(p.1));
    if let Some(required) = &required {
        for &property in properties.iter().filter(|p| required.contains(&p.0)) {
            all.property(context, property, true)?;
        }
        for &name in required.iter().filter(|&&name| properties.iter().all(|p| p.0 != name)) {
            let absent = [Term::Types(Types::OBJECT), Term::Forbid(name)];
            all.first.push(absent.iter().chain(&all.kept).copied().collect());
            all.kept.push(Term::Require(name));
        }
        for &property in properties.iter().filter(|p| !required.contains(&p.0)) {
            all.property(context, property, false)?;
        }
    }
    for &(name, _) in &keywords {
        if required.is_none() || !matches!(name, Keyword::Properties | Keyword::Required) {
            all.others.push(smallvec![Term::NegKeyword(id, name)]);
        }
    }
    all.others.iter_mut().for_each(|way| way.extend_from_slice(&all.kept));
    all.first.append(&mut all.others);
    Ok(all.first)
}

/// Merges the demand that violates a schema of properties or of their names.
fn demand(
    context: &SchemaContext<'_>,
    partial: &mut PartialShape,
    (names, value): (Names, Option<Term>),
    at: Id,
) {
    partial.only(if context.is_true(at) { Types::NONE } else { Types::OBJECT });
    partial.shape.object.demands.push(ExistsProperty { names, value, at });
}

/// Merges an object that one of these lists of terms applies to.
fn object_choice(partial: &mut PartialShape, choice: Vec<Terms>, at: Id) {
    partial.only(Types::OBJECT);
    partial.choose(choice, at);
}

/// Returns the alternatives that violate a dependency.
fn broken_dependencies(context: &SchemaContext<'_>, at: Id) -> Result<Vec<Terms>> {
    let mut choice: Vec<Terms> = Vec::new();
    for (name, then) in context.object(at)? {
        if context.is_name_list(then) {
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
    partial: &mut PartialShape,
    schema: Id,
    (keyword, at): (Keyword, Id),
    restrict: fn(&mut NumberPart, Bound),
) -> Result<()> {
    partial.only(Types::NUMBER);
    match context.bound(schema, keyword, at)? {
        Some((mut bound, exclusive)) => {
            bound.exclusive = !exclusive;
            restrict(&mut partial.shape.number, bound);
        }
        None => partial.shape.types = Types::NONE,
    }
    Ok(())
}

fn negative_contains(
    context: &mut SchemaContext<'_>,
    partial: &mut PartialShape,
    schema: Id,
    at: Id,
) -> Result<()> {
    partial.only(Types::ARRAY);
    let (counts, fails) = (Term::Pos(at), Term::Neg(at));
    let (min, max) = match context.contains_bounds(schema)? {
        (1, None) => {
            partial.shape.array.each_item(&[], Some(fails));
            return Ok(());
        }
        (0, None) => {
            partial.shape.types = Types::NONE;
            return Ok(());
        }
        (min, None) => (0, Some(min - 1)),
        (0, Some(max)) => (max.saturating_add(1), None),
        _ => {
            refuse_negation(partial, Keyword::Contains, Types::ARRAY, at);
            return Ok(());
        }
    };
    partial.shape.array.contains.push(ContainsBound { counts, fails, from: 0, min, max, at });
    Ok(())
}

/// Merges an array that violates the schemas of its items.
fn negative_items(
    context: &mut SchemaContext<'_>,
    partial: &mut PartialShape,
    schema: Id,
    (keyword, at): (Keyword, Id),
) -> Result<()> {
    partial.only(Types::ARRAY);
    let is_list = |at: Id| matches!(context.doc.value(at), Value::Array { .. });
    let listed = is_list(at);
    if keyword == Keyword::AdditionalItems && !context.doc.get(schema, Keyword::Items).is_some_and(is_list) {
        // Without a list of items this keyword asserts nothing.
        partial.shape.types = Types::NONE;
        return Ok(());
    }
    let (prefix, rest) = context.item_schemas(schema)?;
    if listed {
        // A list of schemas is violated by violating one of them.
        let fails = |(i, s): (usize, &Id)| smallvec![Term::ItemFails(i as u32, *s)];
        let choice: Vec<Terms> = prefix.iter().enumerate().map(fails).collect();
        partial.choose(choice, at);
    } else if let Some(rest) = rest.filter(|&r| !context.is_true(r)) {
        let from = prefix.len() as u32;
        let (counts, fails) = (Term::Neg(rest), Term::Pos(rest));
        partial.shape.array.contains.push(ContainsBound { counts, fails, from, min: 1, max: None, at });
    } else {
        partial.shape.types = Types::NONE;
    }
    Ok(())
}

/// Merges: none of the schemas holds, or two of them do.
fn negative_one_of(context: &mut SchemaContext<'_>, partial: &mut PartialShape, at: Id) -> Result<()> {
    let schemas = context.schemas(at)?;
    if schemas.len() > MAX_BRANCHES {
        refuse_negation(partial, Keyword::OneOf, Types::ALL, at);
        return Ok(());
    }
    let mut choice: Vec<Terms> = vec![schemas.iter().map(|&s| Term::Neg(s)).collect()];
    for (i, &a) in schemas.iter().enumerate() {
        for &b in &schemas[..i] {
            if a == b || !are_disjoint(context, a, b, Some(&partial.shape))? {
                choice.push(smallvec![Term::Pos(b), Term::Pos(a)]);
            }
        }
    }
    partial.choose(choice, at);
    Ok(())
}

/// Refuses the violation of a keyword, which cannot be expressed; only values of these types
/// can violate it.
fn refuse_negation(partial: &mut PartialShape, keyword: Keyword, types: Types, at: Id) {
    partial.only(types);
    let word = keyword.name();
    partial.refuse(
        types,
        at,
        format!("the negation of `{word}` (by `not`, `if`, or overlapping `oneOf` branches) is not supported"),
        "state what is allowed instead; give `oneOf` branches a required property with different `const` values",
    );
}

fn negative_if(context: &mut SchemaContext<'_>, partial: &mut PartialShape, schema: Id, at: Id) {
    let branches = [(Keyword::Then, Term::Pos(at)), (Keyword::Else, Term::Neg(at))].into_iter();
    let choice = branches.filter_map(|(name, holds)| {
        context.doc.get(schema, name).map(|branch| smallvec![holds, Term::Neg(branch)])
    });
    partial.choose(choice.collect(), at);
}

fn negative_format(context: &mut SchemaContext<'_>, partial: &mut PartialShape, at: Id) -> Result<()> {
    if let Some(format) = context.number_format(at) {
        let mut choice: Vec<Terms> = Vec::new();
        for (bound, beyond) in format.bounds.into_iter().zip([Term::Below, Term::Above]) {
            let bound = context.synthetic.number(&mut context.doc, bound);
            choice.push(smallvec![Term::Types(Types::NUMBER), beyond(bound)]);
        }
        if format.magnitude.is_none() {
            choice.push(smallvec![Term::Types(Types::FRACTION)]);
        }
        partial.choose(choice, at);
        return Ok(());
    }
    partial.only(Types::STRING);
    match context.doc.string(at) {
        Some(name) if context.texts.knows_format(&context.doc, name) => {
            partial.shape.string.add(Test::Format(name), false, at);
        }
        // An annotation is never violated.
        _ => partial.shape.types = Types::NONE,
    }
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
