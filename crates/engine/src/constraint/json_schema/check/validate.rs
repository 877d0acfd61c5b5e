//! Exact validator for literals of the document: `const` and `enum` values and property names.
//!
//! Filtering the values of an `enum` by validation makes all its sibling keywords exact, even those
//! that cannot be generated for.
//!
//! # Cost
//!
//! The validator recurses over schema and value together, to at most [`MAX_NESTING`] levels. Each
//! visited keyword counts as a step of the run.
//!
//! # Alternatives considered
//!
//! Merging literals symbolically was rejected: it needs a case for every keyword, and most cases
//! are easy to get wrong.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::super::read::{Id, Keyword, SchemaContext, Symbol, Test, Types, Value};
use super::super::term::Term;
use super::evaluated::{Evaluated, EvaluatedSets, UnevaluatedKind, is_evaluated, item_outside, kind_of};
use crate::error::Result;

/// Maximum nesting of schemas and values together.
const MAX_NESTING: u32 = 300;

/// The validator, with what it reads and remembers.
pub(crate) struct Validator<'a, 'p> {
    pub context: &'a mut SchemaContext<'p>,
    pub evaluated: &'a mut EvaluatedSets,
    /// Nesting of the schema and the value that are checked.
    pub depth: u32,
}

impl Validator<'_, '_> {
    /// Returns true if a literal satisfies a term.
    fn term(&mut self, term: &Term, value: Id) -> Result<bool> {
        let is_object = matches!(self.context.doc.value(value), Value::Object { .. });
        Ok(match *term {
            Term::Pos(schema) => self.valid(schema, value)?,
            Term::Neg(schema) => !self.valid(schema, value)?,
            Term::NegKeyword(schema, name) => match self.context.doc.get(schema, name) {
                Some(at) => !self.keyword(schema, name, at, value)?,
                None => false,
            },
            Term::Types(types) => types.meets(self.context.type_of(value)),
            Term::Require(name) => !is_object || self.context.doc.get(value, name).is_some(),
            Term::Forbid(name) => !is_object || self.context.doc.get(value, name).is_none(),
            Term::Property(name, schema, holds) => match self.context.doc.get(value, name) {
                Some(member) => self.valid(schema, member)? == holds,
                None => true,
            },
            Term::MatchFails(pattern, schema) => {
                let mut fails = !is_object;
                for (name, member) in self.context.doc.members(value).to_vec() {
                    fails |= self.context.passes(Test::Pattern(pattern), name, schema)?
                        && !self.valid(schema, member)?;
                }
                fails
            }
            Term::ItemFails(index, schema) => {
                let is_array = matches!(self.context.doc.value(value), Value::Array { .. });
                match self.context.doc.elements(value).get(index as usize) {
                    Some(&element) => !self.valid(schema, element)?,
                    None => !is_array,
                }
            }
            Term::Unevaluated(set, at, holds) => {
                let seen = self.evaluated.set(set);
                let is_array = matches!(self.context.doc.value(value), Value::Array { .. });
                let concerned = if seen.kind == UnevaluatedKind::Properties { is_object } else { is_array };
                !concerned || self.outside_valid(&seen, at, value)? == holds
            }
            Term::Below(bound) => self.compare(value, bound).is_none_or(|o| o.is_lt()),
            Term::Above(bound) => self.compare(value, bound).is_none_or(|o| o.is_gt()),
        })
    }

    /// Compares two number literals; `None` if one of them is not a number.
    fn compare(&mut self, a: Id, b: Id) -> Option<Ordering> {
        Some(self.context.number(a)?.cmp(&self.context.number(b)?))
    }

    fn valid(&mut self, schema: Id, value: Id) -> Result<bool> {
        self.context.step(1, schema)?;
        if self.depth > MAX_NESTING {
            let message = format!("checking a literal goes deeper than the limit of {MAX_NESTING}");
            return Err(self.context.too_complex(schema, message));
        }
        match self.context.doc.value(schema) {
            Value::Bool(holds) => return Ok(holds),
            Value::Object { .. } => {}
            _ => return Err(self.context.invalid(schema, "a schema must be an object or a boolean")),
        }
        let keywords: SmallVec<[(Keyword, Id); 8]> = self.context.asserting(schema).collect();
        let mut holds = true;
        self.depth += 1;
        for (keyword, at) in keywords {
            holds = holds && self.keyword(schema, keyword, at, value)?;
        }
        self.depth -= 1;
        Ok(holds)
    }

    /// Returns true if each of these schemas accepts its value.
    fn all_valid(&mut self, pairs: impl IntoIterator<Item = (Id, Id)>) -> Result<bool> {
        for (schema, value) in pairs {
            if !self.valid(schema, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the value satisfies one keyword of a schema object.
    fn keyword(&mut self, schema: Id, keyword: Keyword, at: Id, value: Id) -> Result<bool> {
        self.context.step(1, at)?;
        if !keyword.definition().about.meets(Types::of_form(self.context.doc.value(value))) {
            return Ok(true);
        }
        Ok(match keyword {
            Keyword::Type => self.context.types(at)?.meets(self.context.type_of(value)),
            Keyword::Const => self.context.doc.equal(at, value),
            Keyword::Enum => self.is_listed(at, value)?,
            Keyword::Ref | Keyword::DynamicRef | Keyword::RecursiveRef => {
                let target = self.context.target(keyword, at)?;
                self.valid(target, value)?
            }
            Keyword::AllOf => self.count_valid(at, value, usize::MAX)? == self.context.doc.elements(at).len(),
            Keyword::AnyOf => self.count_valid(at, value, 1)? > 0,
            Keyword::OneOf => self.count_valid(at, value, 2)? == 1,
            Keyword::Not => !self.valid(at, value)?,
            Keyword::If => self.branch_valid(schema, at, value)?,
            // They count with their siblings `if` and `contains`.
            Keyword::Then | Keyword::Else | Keyword::MinContains | Keyword::MaxContains => true,
            Keyword::Minimum | Keyword::ExclusiveMinimum => {
                self.within((schema, keyword, at), value, Ordering::Greater)?
            }
            Keyword::Maximum | Keyword::ExclusiveMaximum => {
                self.within((schema, keyword, at), value, Ordering::Less)?
            }
            Keyword::MultipleOf => self.is_multiple(at, value)?,
            Keyword::MinLength | Keyword::MinItems | Keyword::MinProperties => {
                self.size(value) >= self.context.count(at)?
            }
            Keyword::MaxLength | Keyword::MaxItems | Keyword::MaxProperties => {
                self.size(value) <= self.context.count(at)?
            }
            Keyword::Pattern => {
                let pattern = Test::Pattern(self.context.text(at)?);
                self.text_passes(pattern, value, at)?
            }
            Keyword::Format => self.has_format(at, value)?,
            Keyword::XVerbatim => !self.context.flag(at)? || self.text_passes(Test::Verbatim, value, at)?,
            Keyword::Items | Keyword::PrefixItems | Keyword::AdditionalItems => {
                self.items_valid(schema, value)?
            }
            Keyword::UniqueItems => self.are_unique(at, value)?,
            Keyword::Contains => self.contains(schema, at, value)?,
            Keyword::UnevaluatedItems | Keyword::UnevaluatedProperties => {
                self.unevaluated_valid(schema, keyword, at, value)?
            }
            Keyword::Required => self.has_all(at, value)?,
            Keyword::Properties | Keyword::PatternProperties | Keyword::AdditionalProperties => {
                self.members_valid(schema, at, value)?
            }
            Keyword::PropertyNames => self.names_valid(at, value)?,
            Keyword::Dependencies | Keyword::DependentRequired | Keyword::DependentSchemas => {
                self.dependencies_valid(at, value)?
            }
        })
    }

    fn is_listed(&mut self, at: Id, value: Id) -> Result<bool> {
        // The values of a list satisfy it themselves.
        if self.context.doc.parent(value) == Some(at) {
            return Ok(true);
        }
        let count = self.context.doc.elements(at).len() as u64;
        self.context.step(count / 8, at)?;
        Ok(self.context.doc.elements(at).iter().any(|&e| self.context.doc.equal(e, value)))
    }

    fn branch_valid(&mut self, schema: Id, at: Id, value: Id) -> Result<bool> {
        let branch = if self.valid(at, value)? { Keyword::Then } else { Keyword::Else };
        match self.context.doc.get(schema, branch) {
            Some(branch) => self.valid(branch, value),
            None => Ok(true),
        }
    }

    fn count_valid(&mut self, list: Id, value: Id, enough: usize) -> Result<usize> {
        let mut count = 0;
        for schema in self.context.schemas(list)? {
            count += usize::from(self.valid(schema, value)?);
            if count >= enough {
                break;
            }
        }
        Ok(count)
    }

    /// Returns true if a number is on the right side of a bound, or on it if it is not exclusive.
    fn within(
        &mut self,
        (schema, keyword, at): (Id, Keyword, Id),
        value: Id,
        side: Ordering,
    ) -> Result<bool> {
        let Some(bound) = self.context.bound(schema, keyword, at)? else { return Ok(true) };
        let order = self.compare(value, at);
        Ok(order.is_none_or(|order| order == side || (order.is_eq() && !bound.exclusive)))
    }

    fn is_multiple(&mut self, at: Id, value: Id) -> Result<bool> {
        let divisor = self.context.divisor(at)?;
        let Some(number) = self.context.number(value) else { return Ok(true) };
        let multiple = number.is_multiple_of(&divisor);
        multiple.ok_or_else(|| self.context.too_complex(at, "`multipleOf` with a very long number"))
    }

    /// Returns the number of characters, items or properties.
    fn size(&self, value: Id) -> u32 {
        let size = match self.context.doc.value(value) {
            Value::String(text) => self.context.doc.name(text).chars().count(),
            Value::Array { len, .. } | Value::Object { len, .. } => len as usize,
            _ => 0,
        };
        u32::try_from(size).unwrap_or(u32::MAX)
    }

    /// Returns true if a string passes a test.
    fn text_passes(&mut self, test: Test, value: Id, at: Id) -> Result<bool> {
        self.context.doc.string(value).map_or(Ok(true), |text| self.context.passes(test, text, at))
    }

    /// Returns true if a number is of the machine type, or a string of the format.
    fn has_format(&mut self, at: Id, value: Id) -> Result<bool> {
        match (self.context.doc.value(value), self.context.doc.string(at)) {
            (Value::Number(_), _) => {
                let format = self.context.number_format(at);
                Ok(format.is_none_or(|format| format.holds(self.context, value)))
            }
            (Value::String(text), Some(format)) => {
                self.context.texts.is_of_format(&self.context.doc, format, text, at)
            }
            _ => Ok(true),
        }
    }

    fn items_valid(&mut self, schema: Id, value: Id) -> Result<bool> {
        let (prefix, rest) = self.context.item_schemas(schema)?;
        let schemas = prefix.into_iter().map(Some).chain(std::iter::repeat(rest));
        let pairs = schemas.zip(self.context.doc.elements(value).to_vec());
        self.all_valid(pairs.filter_map(|(schema, element)| Some((schema?, element))))
    }

    fn are_unique(&mut self, at: Id, value: Id) -> Result<bool> {
        if self.context.doc.value(at) != Value::Bool(true) {
            return Ok(true);
        }
        let count = self.context.doc.elements(value).len() as u64;
        self.context.step(count * count, at)?;
        let (doc, elements) = (&self.context.doc, self.context.doc.elements(value));
        Ok(!elements.iter().enumerate().any(|(i, &a)| elements[..i].iter().any(|&b| doc.equal(a, b))))
    }

    fn contains(&mut self, schema: Id, at: Id, value: Id) -> Result<bool> {
        let mut count = 0;
        for element in self.context.doc.elements(value).to_vec() {
            count += u32::from(self.valid(at, element)?);
        }
        let (min, max) = self.context.contains_bounds(schema)?;
        Ok((min..=max.unwrap_or(u32::MAX)).contains(&count))
    }

    fn members_valid(&mut self, schema: Id, at: Id, value: Id) -> Result<bool> {
        for (name, member) in self.context.doc.members(value).to_vec() {
            let schemas = self.context.member_schemas(schema, name, Some(at))?;
            if !self.all_valid(schemas.into_iter().map(|schema| (schema, member)))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn names_valid(&mut self, at: Id, value: Id) -> Result<bool> {
        let names: Vec<Symbol> = self.context.doc.members(value).iter().map(|m| m.0).collect();
        let names: Vec<Id> = names.into_iter().map(|name| self.context.doc.string_value(name)).collect();
        self.all_valid(names.into_iter().map(|name| (at, name)))
    }

    fn dependencies_valid(&mut self, at: Id, value: Id) -> Result<bool> {
        for (name, then) in self.context.doc.members(at).to_vec() {
            if self.context.doc.get(value, name).is_none() {
                continue;
            }
            let names = self.context.is_name_list(then);
            if !(if names { self.has_all(then, value)? } else { self.valid(then, value)? }) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if an object has all names of a list.
    fn has_all(&self, names: Id, value: Id) -> Result<bool> {
        Ok(self.context.names(names)?.iter().all(|&name| self.context.doc.get(value, name).is_some()))
    }

    /// Returns true if a property name satisfies a schema (names are strings that need not occur as
    /// values).
    pub(crate) fn name_valid(&mut self, schema: Id, name: Symbol) -> Result<bool> {
        let value = self.context.doc.string_value(name);
        self.valid(schema, value)
    }

    /// Returns true if a literal satisfies all terms.
    pub(crate) fn literal_fits(&mut self, terms: &[Term], value: Id) -> Result<bool> {
        for term in terms {
            if !self.term(term, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn unevaluated_valid(&mut self, schema: Id, keyword: Keyword, at: Id, value: Id) -> Result<bool> {
        let alternatives = self.evaluated.evaluated_beside(self.context, schema, keyword)?;
        let mut seen = Evaluated::none(kind_of(keyword));
        for own in &alternatives.0 {
            let holds = self.literal_fits(&own.terms, value)?;
            if holds {
                seen.add(&own.seen);
            }
        }
        self.outside_valid(&seen, at, value)
    }

    /// Returns true if every part of a literal outside of a set satisfies the schema; true for
    /// other types.
    fn outside_valid(&mut self, seen: &Evaluated, at: Id, value: Id) -> Result<bool> {
        if seen.all {
            return Ok(true);
        }
        if seen.kind == UnevaluatedKind::Properties {
            for (name, member) in self.context.doc.members(value).to_vec() {
                if !is_evaluated(self.context, seen, name)? && !self.valid(at, member)? {
                    return Ok(false);
                }
            }
            return Ok(true);
        }
        let schema = item_outside(self.context, seen, at);
        let elements = self.context.doc.elements(value).to_vec().into_iter().skip(seen.first as usize);
        self.all_valid(elements.map(|element| (schema, element)))
    }
}
