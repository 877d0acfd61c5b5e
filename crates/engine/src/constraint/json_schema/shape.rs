//! Data of a merged conjunction: `Shape`, the constraints for each JSON type.
//!
//! A [`Shape`] holds the constraints per JSON type after merging: intersected types and bounds, the
//! union of required names, and for each property the *list of terms* that its value must satisfy.
//!
//! Values of properties and items are lists of [`Term`]s and not shapes: merging is lazy. So
//! recursive schemas merge without a check for the end, and a list of terms is the key under which
//! the result is shared.
//!
//! # Alternatives considered
//!
//! Rewriting the schema text (merging JSON objects) was rejected: JSON Schema cannot write the
//! conjunction of `additionalProperties` with sibling properties.

use std::rc::Rc;

use smallvec::SmallVec;

use super::read::{Bound, Id, Keyword, NameList, SchemaContext, Schemas, StringTest, Symbol, Test, Types};
use super::small_map::SmallMap;
use super::term::{Term, TermSet, Terms, add_term};
use crate::error::{Error, ErrorKind};

/// Constraints on numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct NumberPart {
    pub min: Option<Bound>,
    pub max: Option<Bound>,
    /// Maximum number of digits after the point that matter (`multipleOf` 0.1, 0.01, …).
    pub scale: Option<u32>,
    /// Power of ten that numbers with an exponent stay below (`float`, `double`).
    pub magnitude: Option<u32>,
    /// Other divisors: text and location; `false`: they must not divide.
    pub divisors: Vec<(Symbol, Id, bool)>,
}

impl NumberPart {
    pub(super) fn at_least(&mut self, bound: Bound) {
        let tighter = |old: &Bound| (&bound.value, bound.exclusive) > (&old.value, old.exclusive);
        if self.min.as_ref().is_none_or(tighter) {
            self.min = Some(bound);
        }
    }

    pub(super) fn at_most(&mut self, bound: Bound) {
        let tighter = |old: &Bound| (&bound.value, !bound.exclusive) < (&old.value, !old.exclusive);
        if self.max.as_ref().is_none_or(tighter) {
            self.max = Some(bound);
        }
    }

    fn is_empty(&self) -> bool {
        match (&self.min, &self.max) {
            (Some(a), Some(b)) => a.value > b.value || (a.value == b.value && (a.exclusive || b.exclusive)),
            _ => false,
        }
    }
}

/// Constraints on strings.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct StringPart {
    pub min: u32,
    pub max: Option<u32>,
    /// Tests with the schema value they come from; `false`: the test must fail.
    pub tests: Vec<StringTest>,
}

impl StringPart {
    pub(super) fn add(&mut self, test: Test, holds: bool, at: Id) {
        if !self.tests.iter().any(|t| t.0 == test && t.1 == holds) {
            self.tests.push((test, holds, at));
        }
    }
}

/// Bound on the number of items that satisfy a term.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ContainsBound {
    /// Term of an item that counts.
    pub counts: Term,
    /// Term of an item that does not count.
    pub fails: Term,
    /// Index of the first item that may count.
    pub from: u32,
    pub min: u32,
    pub max: Option<u32>,
    /// Location of the keyword.
    pub at: Id,
}

/// Constraints on arrays.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ArrayPart {
    pub prefix: Vec<Terms>,
    /// Terms of the items after the prefix.
    pub rest: Terms,
    pub min: u32,
    pub max: Option<u32>,
    /// Location of `uniqueItems`.
    pub unique: Option<Id>,
    /// Bounds on the number of items that satisfy a term.
    pub contains: Vec<ContainsBound>,
}

impl ArrayPart {
    /// Merges terms for the first items, if there are any, and for all others.
    pub(super) fn each_item(&mut self, prefix: &[Option<Term>], rest: Option<Term>) {
        while self.prefix.len() < prefix.len() {
            self.prefix.push(self.rest.clone());
        }
        for (i, terms) in self.prefix.iter_mut().enumerate() {
            let own = if i < prefix.len() { prefix[i] } else { rest };
            if let Some(term) = own {
                add_term(terms, term);
            }
        }
        if let Some(term) = rest {
            add_term(&mut self.rest, term);
        }
    }
}

/// What one schema object asserts about properties that it does not declare.
#[derive(Debug)]
pub(super) struct Group {
    /// Patterns with their schemas.
    pub patterns: Schemas,
    /// Schema of names that no pattern matches.
    pub additional: Option<Id>,
}

/// Terms of properties, by name. The alternatives of a choice share it: many are dropped before
/// they add anything about properties.
#[derive(Debug, Clone, Default)]
pub(super) struct PropertyTerms(Option<Rc<Properties>>);

type Properties = SmallMap<Terms, 6>;

impl PropertyTerms {
    pub(super) fn get(&self, name: &Symbol) -> Option<&Terms> {
        self.0.as_ref()?.get(*name)
    }

    pub(super) fn contains_key(&self, name: &Symbol) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |known| known.len())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Symbol> {
        self.0.iter().flat_map(|known| known.names())
    }

    /// Returns the map for a change; copies it if it is shared.
    pub(super) fn change(&mut self) -> &mut Properties {
        Rc::make_mut(self.0.get_or_insert_default())
    }
}

/// A demand: a property must exist with one of these names and a value that satisfies the term.
#[derive(Debug, Clone)]
pub(super) struct ExistsProperty {
    pub names: Names,
    /// Term of the value; `None`: any value.
    pub value: Option<Term>,
    /// Location of the keyword.
    pub at: Id,
}

/// A set of property names.
#[derive(Debug, Clone, Copy)]
pub(super) enum Names {
    /// Names that the schema neither lists in `properties` nor matches in `patternProperties`.
    Undeclared(Id),
    /// Names that match the pattern.
    Matching(Symbol),
    /// Names that violate the schema.
    Failing(Id),
    /// Names that are not in a set of evaluated ones.
    Outside(u32),
}

/// Constraints on objects.
#[derive(Debug, Clone, Default)]
pub(super) struct ObjectPart {
    /// Names declared by `properties`, in the order of the output.
    pub order: NameList,
    /// All names with terms, and their terms.
    pub values: PropertyTerms,
    /// Names in `values` that `properties` did not declare, and required names.
    pub late: NameList,
    pub required: SmallMap<(), 8>,
    pub groups: SmallVec<[Rc<Group>; 2]>,
    pub min: u32,
    pub max: Option<u32>,
    /// Terms that the names must satisfy.
    pub names: Terms,
    /// Properties that must exist without being named.
    pub demands: Vec<ExistsProperty>,
    /// Location of a bound on the number of properties.
    pub count_at: Option<Id>,
    /// True if a schema says which undeclared properties are allowed; see `closed_objects`.
    pub open: bool,
    /// Names that the keyword `required` lists, if objects are closed by policy.
    pub asked: NameList,
}

impl ObjectPart {
    pub(super) fn is_free(&self) -> bool {
        // Order, place and policy forbid nothing. A field that is left out here is an error.
        let ObjectPart {
            values,
            required,
            groups,
            min,
            max,
            names,
            demands,
            order: _,
            late: _,
            count_at: _,
            open: _,
            asked: _,
        } = self;
        let is_counted = *min > 0 || max.is_some() || !demands.is_empty();
        values.is_empty() && required.is_empty() && groups.is_empty() && names.is_empty() && !is_counted
    }
}

/// A keyword that is not supported. It matters only if a value of one of these types is possible.
#[derive(Debug)]
pub(super) struct Refusal {
    pub types: Types,
    pub at: Id,
    pub message: String,
    pub hint: &'static str,
}

impl Refusal {
    pub(super) fn error(&self, context: &SchemaContext<'_>) -> Error {
        context.error(ErrorKind::Unsupported, self.at, self.message.clone()).hint(self.hint)
    }
}

/// Everything that applies to one value.
#[derive(Debug, Clone, Default)]
pub(super) struct Shape {
    pub types: Types,
    /// If a `const` or `enum` applies: the values of the shortest one. They are filtered by
    /// `terms`.
    pub literals: Option<Rc<Vec<Id>>>,
    /// All terms that were merged: they filter literals, and no term is applied twice.
    pub terms: TermSet,
    /// Number of leading terms that do not filter literals: those around a `oneOf` whose branches
    /// are being compared. Each of them would already require that exactly one branch holds.
    pub first_filter: usize,
    pub number: NumberPart,
    pub string: StringPart,
    pub array: ArrayPart,
    pub object: ObjectPart,
    pub refusals: Vec<Rc<Refusal>>,
}

impl Shape {
    /// Returns true if every JSON value is allowed.
    pub(super) fn is_free(&self) -> bool {
        let Shape { types, literals, terms: _, first_filter: _, number, string, array, object, refusals } =
            self;
        let is_plain = *types == Types::ALL && literals.is_none() && refusals.is_empty() && object.is_free();
        // Any field that a keyword has set makes a part differ.
        let (free_string, free_array) = (StringPart::default(), ArrayPart::default());
        is_plain && *number == NumberPart::default() && *string == free_string && *array == free_array
    }

    /// Bounds the number of characters, items or properties, whichever a keyword counts.
    pub(super) fn bound_count(&mut self, keyword: Keyword, (min, max): (u32, Option<u32>), at: Id) {
        let (least, most) = match keyword.definition().about {
            Types::STRING => (&mut self.string.min, &mut self.string.max),
            Types::ARRAY => (&mut self.array.min, &mut self.array.max),
            _ => {
                self.object.count_at = Some(at);
                (&mut self.object.min, &mut self.object.max)
            }
        };
        *least = (*least).max(min);
        if let Some(max) = max {
            lower_max(most, max);
        }
    }

    /// Removes types whose own bounds contradict each other.
    pub(super) fn drop_contradictions(&mut self) {
        if self.number.is_empty() {
            self.types = self.types.without(Types::NUMBER);
        }
        if self.string.max.is_some_and(|max| max < self.string.min) {
            self.types = self.types.without(Types::STRING);
        }
        if self.array.max.is_some_and(|max| max < self.array.min) {
            self.types = self.types.without(Types::ARRAY);
        }
        let least = self.object.min.max(self.object.required.len() as u32);
        if self.object.max.is_some_and(|max| max < least) {
            self.types = self.types.without(Types::OBJECT);
        }
    }
}

/// Lowers an upper bound to `new`, if that is smaller.
pub(super) fn lower_max(old: &mut Option<u32>, new: u32) {
    *old = Some(old.map_or(new, |o| o.min(new)));
}
