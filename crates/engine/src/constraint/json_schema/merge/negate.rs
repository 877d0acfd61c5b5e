//! Negation of schemas, as far as it has a positive form.
//!
//! It serves `not`, the `else` branch of `if`, and the separation of overlapping `oneOf` branches.
//!
//! The negation of a schema is a choice between the violations of its keywords. The representation
//! cannot express some violations, such as items that are not unique. These become a refusal that
//! only counts if that alternative remains.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::super::check::{EvaluatedSets, are_disjoint, has_few_values, only_requires};
use super::super::read::{
    Bound, Id, Keyword, NameList, SchemaContext, Symbol, Test, Types, Value, of_length,
};
use super::super::shape::{ContainsBound, ExistsProperty, Names, NumberPart, Refusal, Shape};
use super::super::term::{FALSE, Term, Terms};
use super::normalize::Normalizer;
use super::partial_shape::{PartialShape, Pending};
use crate::error::Result;

/// Maximum number of branches of a `oneOf` whose pairs are written out.
const MAX_BRANCHES: usize = 24;

impl Normalizer<'_> {
    /// Merges the negation of a schema.
    pub(crate) fn negative(&mut self, partial: &mut PartialShape, id: Id) -> Result<()> {
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
    pub(crate) fn implied(&mut self, shape: &Shape, terms: &[Term]) -> Result<bool> {
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
    pub(crate) fn decided<'a>(
        &mut self,
        shape: &Shape,
        alternatives: &'a [Terms],
    ) -> Result<Option<&'a Terms>> {
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
    pub(crate) fn negative_keyword(
        &mut self,
        partial: &mut PartialShape,
        schema: Id,
        keyword: Keyword,
    ) -> Result<()> {
        let Normalizer { context, evaluated, .. } = self;
        match context.doc.get(schema, keyword) {
            Some(at) => Violation { context, evaluated, partial, schema, keyword, at }.merge()?,
            None => partial.only(Types::NONE),
        }
        Ok(())
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

/// Violation of one keyword of a schema object.
pub(super) struct Violation<'a, 'p> {
    pub context: &'a mut SchemaContext<'p>,
    pub evaluated: &'a mut EvaluatedSets,
    pub partial: &'a mut PartialShape,
    pub schema: Id,
    pub keyword: Keyword,
    /// Value of the keyword.
    pub at: Id,
}

impl Violation<'_, '_> {
    fn merge(mut self) -> Result<()> {
        let Violation { ref mut context, ref mut partial, schema, keyword, at, .. } = self;
        // Most violations are of one of the types that the keyword is about.
        let about = keyword.definition().about;
        match keyword {
            Keyword::Type => partial.only(Types::ALL.without(context.types(at)?)),
            Keyword::Const => self.exclude(&[at]),
            Keyword::Enum => {
                let values = context.doc.elements(at).to_vec();
                self.exclude(&values);
            }
            Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef => {
                partial.next(&[Term::Neg(context.target(keyword, at)?)]);
            }
            Keyword::AllOf => {
                let fails = context.schemas(at)?.into_iter().map(|s| smallvec![Term::Neg(s)]);
                partial.choose(fails.collect(), at);
            }
            Keyword::AnyOf => {
                let fails: Terms = context.schemas(at)?.into_iter().map(Term::Neg).collect();
                partial.next(&fails);
            }
            Keyword::Not => partial.next(&[Term::Pos(at)]),
            Keyword::OneOf => self.one_of()?,
            Keyword::If => {
                let branches = [(Keyword::Then, Term::Pos(at)), (Keyword::Else, Term::Neg(at))];
                let fails = |(name, holds)| Some(smallvec![holds, Term::Neg(context.doc.get(schema, name)?)]);
                partial.choose(branches.into_iter().filter_map(fails).collect(), at);
            }
            // Their siblings `if` and `contains` are violated instead.
            Keyword::Then | Keyword::Else | Keyword::MinContains | Keyword::MaxContains => {
                self.refuse(Types::NONE);
            }
            Keyword::Minimum | Keyword::ExclusiveMinimum => self.beyond(NumberPart::at_most)?,
            Keyword::Maximum | Keyword::ExclusiveMaximum => self.beyond(NumberPart::at_least)?,
            Keyword::MultipleOf => {
                context.divisor(at)?;
                partial.only(about);
                if let Value::Number(text) = context.doc.value(at) {
                    partial.shape.number.divisors.push((text, at, false));
                }
            }
            Keyword::Pattern => {
                partial.only(about);
                partial.shape.string.add(Test::Pattern(context.text(at)?), false, at);
            }
            Keyword::Format => self.format(),
            Keyword::XVerbatim => {
                let possible = context.flag(at)?;
                self.refuse(if possible { about } else { Types::NONE });
            }
            Keyword::MinLength | Keyword::MinItems | Keyword::MinProperties => {
                match context.count(at)?.checked_sub(1) {
                    Some(most) => partial.shape.bound_count(keyword, (0, Some(most)), at),
                    None => partial.only(Types::NONE),
                }
                partial.only(about);
            }
            Keyword::MaxLength | Keyword::MaxItems | Keyword::MaxProperties => {
                let least = context.count(at)?.saturating_add(1);
                partial.shape.bound_count(keyword, (least, None), at);
                partial.only(about);
            }
            Keyword::UniqueItems => {
                let never = context.doc.value(at) == Value::Bool(false);
                self.refuse(if never { Types::NONE } else { about });
            }
            Keyword::Contains => self.contains()?,
            Keyword::Items | Keyword::PrefixItems | Keyword::AdditionalItems => self.items()?,
            Keyword::UnevaluatedItems | Keyword::UnevaluatedProperties => self.unevaluated()?,
            Keyword::Required => {
                let lacks = context.names(at)?.into_iter().map(|n| smallvec![Term::Forbid(n)]);
                partial.only(about);
                partial.choose(lacks.collect(), at);
            }
            Keyword::Properties | Keyword::PatternProperties => {
                let fails = |(name, schema): (Symbol, Id)| match keyword {
                    Keyword::Properties => {
                        smallvec![Term::Require(name), Term::Property(name, schema, false)]
                    }
                    _ => smallvec![Term::MatchFails(name, schema)],
                };
                let schemas = context.object(at)?.into_iter().filter(|s| !context.is_true(s.1));
                partial.only(about);
                partial.choose(schemas.map(fails).collect(), at);
            }
            Keyword::Dependencies | Keyword::DependentRequired | Keyword::DependentSchemas => {
                self.dependencies()?
            }
            Keyword::AdditionalProperties => self.demand(Names::Undeclared(schema), Some(Term::Neg(at))),
            Keyword::PropertyNames => self.demand(Names::Failing(at), None),
        }
        Ok(())
    }

    /// Merges an object that has a property and not what the property requires.
    fn dependencies(&mut self) -> Result<()> {
        let mut choice: Vec<Terms> = Vec::new();
        for (name, then) in self.context.object(self.at)? {
            if self.context.is_name_list(then) {
                let lacks = self.context.names(then)?.into_iter();
                choice.extend(lacks.map(|other| smallvec![Term::Require(name), Term::Forbid(other)]));
            } else {
                choice.push(smallvec![Term::Require(name), Term::Neg(then)]);
            }
        }
        self.partial.only(Types::OBJECT);
        self.partial.choose(choice, self.at);
        Ok(())
    }

    /// Excludes literals.
    fn exclude(&mut self, values: &[Id]) {
        for &value in values {
            let types = Types::of_form(self.context.doc.value(value));
            let choice = match self.context.doc.value(value) {
                Value::Null | Value::Bool(_) => {
                    self.partial.only(Types::ALL.without(types));
                    continue;
                }
                Value::String(text) => {
                    self.partial.shape.string.add(Test::Equals(text), false, value);
                    continue;
                }
                Value::Number(_) => vec![smallvec![Term::Below(value)], smallvec![Term::Above(value)]],
                Value::Array { .. } => self.other_arrays(value),
                Value::Object { .. } => self.other_objects(value),
            };
            let others = smallvec![Term::Types(Types::ALL.without(types))];
            let of_type =
                choice.into_iter().map(|way: Terms| [Term::Types(types)].into_iter().chain(way).collect());
            self.partial.choose([others].into_iter().chain(of_type).collect(), value);
        }
    }

    /// Returns the alternatives to one array: another number of items, or an item that differs.
    fn other_arrays(&mut self, value: Id) -> Vec<Terms> {
        let SchemaContext { doc, synthetic, .. } = &mut *self.context;
        let items = doc.elements(value).to_vec();
        let mut choice: Vec<Terms> = vec![smallvec![Term::Neg(of_length(doc, items.len(), value))]];
        for (i, item) in items.into_iter().enumerate() {
            choice.push(smallvec![Term::ItemFails(i as u32, synthetic.equal_to(doc, item))]);
        }
        choice
    }

    /// Returns the alternatives to one object: a property is absent, or differs, or is additional.
    fn other_objects(&mut self, value: Id) -> Vec<Terms> {
        let SchemaContext { doc, synthetic, .. } = &mut *self.context;
        let members = doc.members(value).to_vec();
        let no_more = self.evaluated.only_names(members.iter().map(|m| m.0).collect());
        let nothing = synthetic.constant(doc, false);
        let mut choice: Vec<Terms> = vec![smallvec![Term::Unevaluated(no_more, nothing, false)]];
        for (name, member) in members {
            let other = Term::Property(name, synthetic.equal_to(doc, member), false);
            choice.extend([smallvec![Term::Forbid(name)], smallvec![Term::Require(name), other]]);
        }
        choice
    }

    /// Demands a property, of an object.
    fn demand(&mut self, names: Names, value: Option<Term>) {
        self.partial.only(if self.context.is_true(self.at) { Types::NONE } else { Types::OBJECT });
        self.partial.shape.object.demands.push(ExistsProperty { names, value, at: self.at });
    }

    /// Merges a number beyond a bound; `restrict` merges the opposite bound.
    fn beyond(&mut self, restrict: fn(&mut NumberPart, Bound)) -> Result<()> {
        self.partial.only(Types::NUMBER);
        match self.context.bound(self.schema, self.keyword, self.at)? {
            Some(mut bound) => {
                bound.exclusive = !bound.exclusive;
                restrict(&mut self.partial.shape.number, bound);
            }
            None => self.partial.only(Types::NONE),
        }
        Ok(())
    }

    fn contains(&mut self) -> Result<()> {
        let at = self.at;
        let array = &mut self.partial.shape.array;
        let (counts, fails) = (Term::Pos(at), Term::Neg(at));
        let mut bound = |min, max| {
            array.contains.push(ContainsBound { counts, fails, from: 0, min, max, at });
        };
        match self.context.contains_bounds(self.schema)? {
            (1, None) => array.each_item(&[], Some(fails)),
            (0, None) => self.partial.only(Types::NONE),
            (min, None) => bound(0, Some(min - 1)),
            (0, Some(max)) => bound(max.saturating_add(1), None),
            _ => self.refuse(Types::ARRAY),
        }
        self.partial.only(Types::ARRAY);
        Ok(())
    }

    /// Merges an array that violates the schemas of its items.
    fn items(&mut self) -> Result<()> {
        let (context, at) = (&self.context, self.at);
        let is_list = |at: Id| matches!(context.doc.value(at), Value::Array { .. });
        let list = context.doc.get(self.schema, Keyword::Items).filter(|&items| is_list(items));
        if self.keyword == Keyword::AdditionalItems && list.is_none() {
            // Without a list of items this keyword asserts nothing.
            self.partial.only(Types::NONE);
            return Ok(());
        }
        self.partial.only(Types::ARRAY);
        let (prefix, rest) = context.item_schemas(self.schema)?;
        if is_list(at) {
            // A list of schemas is violated by violating one of them.
            let fails = prefix.iter().zip(0..).map(|(&s, i)| smallvec![Term::ItemFails(i, s)]);
            self.partial.choose(fails.collect(), at);
        } else if let Some(rest) = rest.filter(|&r| !context.is_true(r)) {
            let (counts, fails, from) = (Term::Neg(rest), Term::Pos(rest), prefix.len() as u32);
            let bound = ContainsBound { counts, fails, from, min: 1, max: None, at };
            self.partial.shape.array.contains.push(bound);
        } else {
            self.partial.only(Types::NONE);
        }
        Ok(())
    }

    /// Merges: none of the schemas holds, or two of them do.
    fn one_of(&mut self) -> Result<()> {
        let schemas = self.context.schemas(self.at)?;
        if schemas.len() > MAX_BRANCHES {
            self.refuse(Types::ALL);
            return Ok(());
        }
        let mut choice: Vec<Terms> = vec![schemas.iter().map(|&s| Term::Neg(s)).collect()];
        for (i, &a) in schemas.iter().enumerate() {
            for &b in &schemas[..i] {
                if a == b || !are_disjoint(self.context, a, b, Some(&self.partial.shape))? {
                    choice.push(smallvec![Term::Pos(b), Term::Pos(a)]);
                }
            }
        }
        self.partial.choose(choice, self.at);
        Ok(())
    }

    /// Refuses a violation that cannot be expressed; only values of these types are one.
    fn refuse(&mut self, types: Types) {
        let (word, at) = (self.keyword.name(), self.at);
        let message = format!(
            "the negation of `{word}` (by `not`, `if`, or overlapping `oneOf` branches) is not supported"
        );
        let hint = "state what is allowed instead; give `oneOf` branches a required property with different `const` values";
        self.partial.only(types);
        self.partial.shape.refusals.push(Rc::new(Refusal { types, at, message, hint }));
    }

    fn format(&mut self) {
        let (context, at) = (&mut *self.context, self.at);
        if let Some(format) = context.number_format(at) {
            let mut choice: Vec<Terms> = Vec::new();
            for (bound, beyond) in format.bounds.into_iter().zip([Term::Below, Term::Above]) {
                let bound = context.synthetic.number(&mut context.doc, bound);
                choice.push(smallvec![Term::Types(Types::NUMBER), beyond(bound)]);
            }
            if format.magnitude.is_none() {
                choice.push(smallvec![Term::Types(Types::FRACTION)]);
            }
            return self.partial.choose(choice, at);
        }
        self.partial.only(Types::STRING);
        match context.doc.string(at) {
            Some(name) if context.knows_format(name) => {
                self.partial.shape.string.add(Test::Format(name), false, at);
            }
            // An annotation is never violated.
            _ => self.partial.only(Types::NONE),
        }
    }
}
