//! Negation of schemas, as far as it has a positive form.
//!
//! It serves `not`, the `else` branch of `if`, and the separation of overlapping `oneOf` branches.
//!
//! The negation of a schema is a choice between the violations of its keywords. The representation
//! cannot express some violations, such as items that are not unique. These become a refusal that
//! only counts if that alternative remains.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::contains::Contains;
use super::context::SchemaContext;
use super::exists_property::{ExistsProperty, Names};
use super::keyword_values::NameList;
use super::keywords as kw;
use super::normalize::{Fork, PendingKeyword};
use super::shape::{FALSE, Shape, Term, Terms, Test, Types, lower_max};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::Result;

/// Maximum number of branches of a `oneOf` whose pairs are written out.
const MAX_BRANCHES: usize = 24;

impl SchemaContext<'_> {
    /// Merges the negation of a schema.
    pub fn negative(&mut self, fork: &mut Fork, id: Id) -> Result<()> {
        match self.doc.value(id) {
            Value::Bool(true) => fork.shape.types = Types::NONE,
            Value::Bool(false) => return Ok(()),
            Value::Object { .. } => {}
            _ => return Err(self.invalid(id, "a schema must be an object or a boolean")),
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
        if let Some(known) = self.violations.get(&id) {
            return Ok(known.clone());
        }
        let found = Rc::new(self.violations(id)?);
        self.violations.insert(id, found.clone());
        Ok(found)
    }

    /// Computes the alternatives that violate a schema object. Those through a property with few
    /// values come first, and the others require that this property is as the schema has it. So the
    /// alternatives exclude each other where that is cheap, and one of them decides the negations
    /// of many similar schemas.
    fn violations(&mut self, id: Id) -> Result<Vec<Terms>> {
        let (mut telling, mut others): (Vec<Terms>, Vec<Terms>) = (Vec::new(), Vec::new());
        let mut kept = Terms::new();
        let keywords: SmallVec<[(Symbol, Id); 8]> = self.asserting(id).collect();
        let value = |name| keywords.iter().find(|k| k.0 == name).map(|k| k.1);
        let required = match value(kw::REQUIRED).map(|at| self.names(at)) {
            None => Some(NameList::new()),
            // A value that is not a list of names is reported where it is merged.
            Some(names) => names.ok(),
        };
        let properties = value(kw::PROPERTIES).map(|at| self.object(at)).transpose()?.unwrap_or_default();
        let object = Term::Types(Types::OBJECT);
        if let Some(required) = &required {
            for &(name, schema) in &properties {
                if required.contains(&name) && !self.is_true(schema) {
                    // The property is absent, or violates its schema.
                    let way = smallvec![object, Term::Property(name, schema, false)];
                    if self.has_few_values(schema)? {
                        telling.push(way.into_iter().chain(kept.iter().cloned()).collect());
                        kept.extend([Term::Require(name), Term::Property(name, schema, true)]);
                    } else {
                        others.push(way);
                    }
                }
            }
            for &name in required {
                if !properties.iter().any(|p| p.0 == name && !self.is_true(p.1)) {
                    telling
                        .push([object, Term::Forbid(name)].into_iter().chain(kept.iter().cloned()).collect());
                    kept.push(Term::Require(name));
                }
            }
            for &(name, schema) in &properties {
                if !required.contains(&name) && !self.is_true(schema) {
                    let way: Terms =
                        smallvec![object, Term::Require(name), Term::Property(name, schema, false)];
                    if self.has_few_values(schema)? {
                        telling.push(way.into_iter().chain(kept.iter().cloned()).collect());
                        kept.push(Term::Property(name, schema, true));
                    } else {
                        others.push(way);
                    }
                }
            }
        }
        for &(name, _) in &keywords {
            if required.is_none() || !matches!(name, kw::PROPERTIES | kw::REQUIRED) {
                others.push(smallvec![Term::NegKeyword(id, name)]);
            }
        }
        others.iter_mut().for_each(|way| way.extend(kept.iter().cloned()));
        telling.append(&mut others);
        Ok(telling)
    }

    /// Returns true if the keywords of a schema show that it has few values.
    fn has_few_values(&mut self, schema: Id) -> Result<bool> {
        let schema = self.follow(schema)?;
        let literal = self.asserting(schema).any(|k| matches!(k.0, kw::CONST | kw::ENUM));
        Ok(literal || self.only_text(schema).is_some())
    }

    /// Returns true if a schema only asserts that some properties, which `outer` declares, have few
    /// values.
    pub fn only_narrows_declared(&mut self, outer: Id, schema: Id) -> Result<bool> {
        let keywords: SmallVec<[(Symbol, Id); 8]> = self.asserting(schema).collect();
        let [(kw::PROPERTIES, at)] = keywords[..] else { return Ok(false) };
        for (name, value) in self.object(at)? {
            if !self.declares(outer, &[name]) || !self.has_few_values(value)? {
                return Ok(false);
            }
        }
        Ok(true)
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
                                Term::Pos(other) => self.exclude_each_other(other, schema, None)?,
                                _ => *value == FALSE,
                            };
                    }
                    fails
                }
                // In a long series of `if`s that require different values of one property, the
                // first that holds decides all others.
                Term::Neg(id) => self.violated(shape, id)?,
                Term::Pos(id) => self.only_requires(id, |name| shape.object.required.contains(name)),
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
        if !matches!(self.doc.value(id), Value::Object { .. }) {
            return Ok(false);
        }
        let ways = self.memoised_violations(id)?;
        self.step(ways.len() as u64, id)?;
        // No alternative contains another negation of a schema, so this ends.
        for way in ways.iter() {
            if self.implied(shape, way)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns true if a schema only requires some properties, each of which passes a test.
    fn only_requires(&self, id: Id, is_there: impl Fn(Symbol) -> bool) -> bool {
        let mut keywords = self.asserting(id);
        let (Some((kw::REQUIRED, at)), None) = (keywords.next(), keywords.next()) else { return false };
        let Value::Array { .. } = self.doc.value(at) else { return false };
        self.doc.elements(at).iter().all(|&name| self.doc.string(name).is_some_and(&is_there))
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
    pub fn negative_keyword(&mut self, fork: &mut Fork, schema: Id, name: Symbol) -> Result<()> {
        let Some(at) = self.doc.get(schema, name) else {
            fork.shape.types = Types::NONE;
            return Ok(());
        };
        let all = |terms: Terms| terms.into_iter().map(PendingKeyword::Term);
        match name {
            kw::TYPE => fork.shape.types = fork.shape.types.without(self.types(at)?),
            kw::CONST => self.exclude(fork, &[at]),
            kw::ENUM => {
                let values = self.doc.elements(at).to_vec();
                self.exclude(fork, &values);
            }
            kw::REF | kw::DYNAMIC_REF | kw::RECURSIVE_REF => {
                fork.queue(all(smallvec![Term::Neg(self.target(name, at)?)]));
            }
            kw::ALL_OF => {
                let choice = self.schemas(at)?.into_iter().map(|s| smallvec![Term::Neg(s)]).collect();
                fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), at)]);
            }
            kw::ANY_OF => fork.queue(all(self.schemas(at)?.into_iter().map(Term::Neg).collect())),
            kw::NOT => fork.queue(all(smallvec![Term::Pos(at)])),
            kw::ONE_OF => self.negative_one_of(fork, at)?,
            kw::MULTIPLE_OF => {
                self.divisor(at)?;
                fork.shape.types = fork.shape.types.and(Types::NUMBER);
                if let Value::Number(text) = self.doc.value(at) {
                    fork.shape.number.divisors.push((text, at, false));
                }
            }
            kw::IF => self.negative_if(fork, schema, at),
            kw::MINIMUM | kw::MAXIMUM | kw::EXCLUSIVE_MINIMUM | kw::EXCLUSIVE_MAXIMUM => {
                fork.shape.types = fork.shape.types.and(Types::NUMBER);
                match self.bound(schema, name, at)? {
                    Some((mut bound, exclusive)) => {
                        bound.exclusive = !exclusive;
                        match name {
                            kw::MINIMUM | kw::EXCLUSIVE_MINIMUM => fork.shape.number.at_most(bound),
                            _ => fork.shape.number.at_least(bound),
                        }
                    }
                    None => fork.shape.types = Types::NONE,
                }
            }
            kw::PATTERN => {
                fork.shape.types = fork.shape.types.and(Types::STRING);
                fork.shape.string.add(Test::Pattern(self.text(at)?), false, at);
            }
            kw::FORMAT => self.negative_format(fork, at)?,
            kw::MIN_LENGTH | kw::MIN_ITEMS | kw::MIN_PROPERTIES => self.fewer(fork, name, at)?,
            kw::MAX_LENGTH | kw::MAX_ITEMS | kw::MAX_PROPERTIES => self.more(fork, name, at)?,
            _ => self.negative_container(fork, schema, name, at)?,
        }
        Ok(())
    }

    fn negative_container(&mut self, fork: &mut Fork, schema: Id, name: Symbol, at: Id) -> Result<()> {
        let choice = match name {
            kw::REQUIRED => self.names(at)?.into_iter().map(|n| smallvec![Term::Forbid(n)]).collect(),
            kw::PROPERTIES => {
                let properties = self.object(at)?.into_iter().filter(|p| !self.is_true(p.1));
                properties.map(|(n, s)| smallvec![Term::Require(n), Term::Property(n, s, false)]).collect()
            }
            kw::DEPENDENCIES | kw::DEPENDENT_REQUIRED | kw::DEPENDENT_SCHEMAS => {
                let mut choice: Vec<Terms> = Vec::new();
                for (n, then) in self.object(at)? {
                    if matches!(self.doc.value(then), Value::Array { .. } | Value::String(_)) {
                        let lacks = self.names(then)?.into_iter();
                        choice.extend(lacks.map(|m| smallvec![Term::Require(n), Term::Forbid(m)]));
                    } else {
                        choice.push(smallvec![Term::Require(n), Term::Neg(then)]);
                    }
                }
                choice
            }
            kw::PATTERN_PROPERTIES => {
                let patterns = self.object(at)?.into_iter().filter(|p| !self.is_true(p.1));
                patterns.map(|(pattern, s)| smallvec![Term::MatchFails(pattern, s)]).collect()
            }
            kw::ADDITIONAL_PROPERTIES | kw::PROPERTY_NAMES => {
                let (names, value) = match name {
                    kw::PROPERTY_NAMES => (Names::Failing(at), None),
                    _ => (Names::Undeclared(schema), Some(Term::Neg(at))),
                };
                let none = self.is_true(at);
                fork.shape.types = if none { Types::NONE } else { fork.shape.types.and(Types::OBJECT) };
                fork.shape.object.demands.push(ExistsProperty { names, value, at });
                return Ok(());
            }
            kw::CONTAINS | kw::ITEMS | kw::PREFIX_ITEMS | kw::ADDITIONAL_ITEMS => {
                return self.negative_items(fork, schema, name, at);
            }
            kw::UNEVALUATED_ITEMS | kw::UNEVALUATED_PROPERTIES => {
                return self.negative_unevaluated(fork, schema, name, at);
            }
            _ => return self.negative_rest(fork, name, at),
        };
        fork.shape.types = fork.shape.types.and(Types::OBJECT);
        fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), at)]);
        Ok(())
    }

    /// Merges an array that violates `contains` or the schemas of its items.
    fn negative_items(&mut self, fork: &mut Fork, schema: Id, name: Symbol, at: Id) -> Result<()> {
        fork.shape.types = fork.shape.types.and(Types::ARRAY);
        if name == kw::CONTAINS {
            let (counts, fails) = (Term::Pos(at), Term::Neg(at));
            let (min, max) = match self.contains_bounds(schema)? {
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
                _ => return self.negative_rest(fork, name, at),
            };
            fork.shape.array.contains.push(Contains { counts, fails, from: 0, min, max, at });
            return Ok(());
        }
        let list =
            self.doc.get(schema, kw::ITEMS).is_some_and(|i| matches!(self.doc.value(i), Value::Array { .. }));
        if name == kw::ADDITIONAL_ITEMS && !list {
            // Without a list of items this keyword asserts nothing.
            fork.shape.types = Types::NONE;
            return Ok(());
        }
        let (prefix, rest) = self.item_schemas(schema)?;
        let listed = matches!(self.doc.value(at), Value::Array { .. });
        if listed {
            // A list of schemas is violated by violating one of them.
            let fails = |(i, s): (usize, &Id)| smallvec![Term::ItemFails(i as u32, *s)];
            let choice: Vec<Terms> = prefix.iter().enumerate().map(fails).collect();
            fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
        } else if let Some(rest) = rest.filter(|&r| !self.is_true(r)) {
            let from = prefix.len() as u32;
            let (counts, fails) = (Term::Neg(rest), Term::Pos(rest));
            fork.shape.array.contains.push(Contains { counts, fails, from, min: 1, max: None, at });
        } else {
            fork.shape.types = Types::NONE;
        }
        Ok(())
    }

    /// Merges: none of the schemas holds, or two of them do.
    fn negative_one_of(&mut self, fork: &mut Fork, at: Id) -> Result<()> {
        let schemas = self.schemas(at)?;
        if schemas.len() > MAX_BRANCHES {
            return self.negative_rest(fork, kw::ONE_OF, at);
        }
        let mut choice: Vec<Terms> = vec![schemas.iter().map(|&s| Term::Neg(s)).collect()];
        for (i, &a) in schemas.iter().enumerate() {
            for &b in &schemas[..i] {
                if a == b || !self.exclude_each_other(a, b, Some(&fork.shape))? {
                    choice.push(smallvec![Term::Pos(b), Term::Pos(a)]);
                }
            }
        }
        fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
        Ok(())
    }

    /// Refuses keywords whose violation cannot be expressed.
    fn negative_rest(&mut self, fork: &mut Fork, name: Symbol, at: Id) -> Result<()> {
        let types = match name {
            kw::THEN | kw::ELSE | kw::MIN_CONTAINS | kw::MAX_CONTAINS => Types::NONE,
            kw::UNIQUE_ITEMS if self.doc.value(at) == Value::Bool(false) => Types::NONE,
            kw::X_VERBATIM if self.is_verbatim(at)? => Types::STRING,
            kw::UNIQUE_ITEMS | kw::CONTAINS => Types::ARRAY,
            kw::ONE_OF => Types::ALL,
            _ => Types::NONE,
        };
        fork.shape.types = fork.shape.types.and(types);
        let word = self.doc.name(name);
        fork.refuse(
            types,
            at,
            format!("the negation of `{word}` (by `not`, `if`, or overlapping `oneOf` branches) is not supported"),
            "state what is allowed instead; give `oneOf` branches a required property with different `const` values",
        );
        Ok(())
    }

    fn negative_if(&mut self, fork: &mut Fork, schema: Id, at: Id) {
        let mut choice = Vec::new();
        if let Some(then) = self.doc.get(schema, kw::THEN) {
            choice.push(smallvec![Term::Pos(at), Term::Neg(then)]);
        }
        if let Some(or) = self.doc.get(schema, kw::ELSE) {
            choice.push(smallvec![Term::Neg(at), Term::Neg(or)]);
        }
        fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), at)]);
    }

    fn negative_format(&mut self, fork: &mut Fork, at: Id) -> Result<()> {
        if let Some(format) = self.number_format(at) {
            let choice = self.other_than_number_format(format)?;
            fork.queue([PendingKeyword::Choice(Rc::new(choice), at)]);
            return Ok(());
        }
        fork.shape.types = fork.shape.types.and(Types::STRING);
        match self.doc.string(at) {
            Some(name) if self.knows_format(name) => {
                fork.shape.string.add(Test::Format(name), false, at);
            }
            // An annotation is never violated.
            _ => fork.shape.types = Types::NONE,
        }
        Ok(())
    }

    /// Merges the violation of a lower count.
    fn fewer(&mut self, fork: &mut Fork, name: Symbol, at: Id) -> Result<()> {
        let shape = &mut fork.shape;
        let (types, max) = match name {
            kw::MIN_LENGTH => (Types::STRING, &mut shape.string.max),
            kw::MIN_ITEMS => (Types::ARRAY, &mut shape.array.max),
            _ => {
                shape.object.count_at = Some(at);
                (Types::OBJECT, &mut shape.object.max)
            }
        };
        match self.count(at)?.checked_sub(1) {
            Some(most) => {
                lower_max(max, most);
                shape.types = shape.types.and(types);
            }
            None => shape.types = Types::NONE,
        }
        Ok(())
    }

    /// Merges the violation of an upper count.
    fn more(&mut self, fork: &mut Fork, name: Symbol, at: Id) -> Result<()> {
        let shape = &mut fork.shape;
        let least = self.count(at)?.saturating_add(1);
        let (types, min) = match name {
            kw::MAX_LENGTH => (Types::STRING, &mut shape.string.min),
            kw::MAX_ITEMS => (Types::ARRAY, &mut shape.array.min),
            _ => {
                shape.object.count_at = Some(at);
                (Types::OBJECT, &mut shape.object.min)
            }
        };
        *min = (*min).max(least);
        shape.types = shape.types.and(types);
        Ok(())
    }

    /// Excludes literals.
    fn exclude(&mut self, fork: &mut Fork, values: &[Id]) {
        for &value in values {
            let types = self.type_of(value);
            match self.doc.value(value) {
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
                    let choice = self.other_arrays(value);
                    fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), value)]);
                }
                Value::Object { .. } => {
                    let choice = self.other_objects(value);
                    fork.queue(vec![PendingKeyword::Choice(Rc::new(choice), value)]);
                }
            }
        }
    }

    /// Returns the terms of all values but one array: another number of items, or an item that
    /// differs.
    fn other_arrays(&mut self, value: Id) -> Vec<Terms> {
        let items = self.doc.elements(value).to_vec();
        let length = self.doc.of_length(items.len(), value);
        let mut choice = vec![
            smallvec![Term::Types(Types::ALL.without(Types::ARRAY))],
            smallvec![Term::Types(Types::ARRAY), Term::Neg(length)],
        ];
        for (i, item) in items.into_iter().enumerate() {
            let same = self.doc.equal_to(item);
            choice.push(smallvec![Term::Types(Types::ARRAY), Term::ItemFails(i as u32, same)]);
        }
        choice
    }

    /// Returns the terms of all values but one object: a property is absent, or differs, or is
    /// additional.
    fn other_objects(&mut self, value: Id) -> Vec<Terms> {
        let members = self.doc.members(value).to_vec();
        let no_more = self.only_names(members.iter().map(|m| m.0).collect());
        let nothing = self.doc.constant(false);
        let mut choice = vec![
            smallvec![Term::Types(Types::ALL.without(Types::OBJECT))],
            smallvec![Term::Types(Types::OBJECT), Term::Unevaluated(no_more, nothing, false)],
        ];
        for (name, member) in members {
            let same = self.doc.equal_to(member);
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
