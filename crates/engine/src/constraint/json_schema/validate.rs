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

use smallvec::SmallVec;

use super::context::SchemaContext;
use super::keywords as kw;
use super::shape::{Term, Test, Types};
use super::unevaluated::UnevaluatedKind;
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::error::{ErrorKind, Result};

/// Maximum nesting of schemas and values together.
const MAX_NESTING: u32 = 300;

impl SchemaContext<'_> {
    /// Returns true if a literal satisfies a term.
    pub fn satisfies(&mut self, term: &Term, value: Id) -> Result<bool> {
        self.term(term, value, 0)
    }

    pub fn term(&mut self, term: &Term, value: Id, depth: u32) -> Result<bool> {
        let is_object = matches!(self.doc.value(value), Value::Object { .. });
        Ok(match *term {
            Term::Pos(schema) => self.valid(schema, value, depth)?,
            Term::Neg(schema) => !self.valid(schema, value, depth)?,
            Term::NegKeyword(schema, name) => match self.doc.get(schema, name) {
                Some(at) => !self.keyword(schema, name, at, value, depth)?,
                None => false,
            },
            Term::Types(types) => types.meets(self.type_of(value)),
            Term::Require(name) => !is_object || self.doc.get(value, name).is_some(),
            Term::Forbid(name) => !is_object || self.doc.get(value, name).is_none(),
            Term::Property(name, schema, holds) => match self.doc.get(value, name) {
                Some(member) => self.valid(schema, member, depth)? == holds,
                None => true,
            },
            Term::MatchFails(pattern, schema) => {
                let mut fails = !is_object;
                for (name, member) in self.doc.members(value).to_vec() {
                    fails |= self.passes(Test::Pattern(pattern), name, schema)?
                        && !self.valid(schema, member, depth)?;
                }
                fails
            }
            Term::ItemFails(index, schema) => match self.doc.value(value) {
                Value::Array { .. } => match self.doc.elements(value).get(index as usize) {
                    Some(&element) => !self.valid(schema, element, depth)?,
                    None => false,
                },
                _ => true,
            },
            Term::Unevaluated(set, at, holds) => {
                let seen = self.evaluated[set as usize].clone();
                let is_array = matches!(self.doc.value(value), Value::Array { .. });
                let concerned = if seen.kind == UnevaluatedKind::Properties { is_object } else { is_array };
                !concerned || self.outside_valid(&seen, at, value, depth)? == holds
            }
            Term::Below(bound) => self.compare(value, bound).is_none_or(|o| o.is_lt()),
            Term::Above(bound) => self.compare(value, bound).is_none_or(|o| o.is_gt()),
        })
    }

    /// Compares two number literals; `None` if one of them is not a number.
    fn compare(&mut self, a: Id, b: Id) -> Option<std::cmp::Ordering> {
        Some(self.number(a)?.cmp(&self.number(b)?))
    }

    pub fn valid(&mut self, schema: Id, value: Id, depth: u32) -> Result<bool> {
        self.step(1, schema)?;
        if depth > MAX_NESTING {
            return Err(self.error(
                ErrorKind::TooComplex,
                schema,
                format!("checking a literal goes deeper than the limit of {MAX_NESTING}"),
            ));
        }
        match self.doc.value(schema) {
            Value::Bool(holds) => return Ok(holds),
            Value::Object { .. } => {}
            _ => return Err(self.invalid(schema, "a schema must be an object or a boolean")),
        }
        let keywords: SmallVec<[(Symbol, Id); 8]> = self.asserting(schema).collect();
        for (name, at) in keywords {
            if !self.keyword(schema, name, at, value, depth)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns true if the value satisfies one keyword of a schema object.
    fn keyword(&mut self, schema: Id, name: Symbol, at: Id, value: Id, depth: u32) -> Result<bool> {
        self.step(1, at)?;
        Ok(match name {
            kw::TYPE => self.types(at)?.meets(self.type_of(value)),
            kw::CONST => self.doc.equal(at, value),
            kw::ENUM => {
                // The values of a list satisfy it themselves.
                if self.doc.parent(value) == Some(at) {
                    return Ok(true);
                }
                let count = self.doc.elements(at).len() as u64;
                self.step(count / 8, at)?;
                self.doc.elements(at).iter().any(|&e| self.doc.equal(e, value))
            }
            kw::REF | kw::DYNAMIC_REF | kw::RECURSIVE_REF => {
                let target = self.target(name, at)?;
                self.valid(target, value, depth + 1)?
            }
            kw::ALL_OF => self.count_valid(at, value, depth, usize::MAX)? == self.doc.elements(at).len(),
            kw::ANY_OF => self.count_valid(at, value, depth, 1)? > 0,
            kw::ONE_OF => self.count_valid(at, value, depth, 2)? == 1,
            kw::NOT => !self.valid(at, value, depth + 1)?,
            kw::IF => {
                let branch = if self.valid(at, value, depth + 1)? { kw::THEN } else { kw::ELSE };
                match self.doc.get(schema, branch) {
                    Some(branch) => self.valid(branch, value, depth + 1)?,
                    None => true,
                }
            }
            kw::THEN | kw::ELSE => true,
            _ => match self.doc.value(value) {
                Value::Number(_) => self.number_keyword(schema, name, at, value)?,
                Value::String(text) => self.string_keyword(name, at, text)?,
                Value::Array { .. } => self.array_keyword(schema, name, at, value, depth)?,
                Value::Object { .. } => self.object_keyword(schema, name, at, value, depth)?,
                _ => true,
            },
        })
    }

    fn count_valid(&mut self, list: Id, value: Id, depth: u32, enough: usize) -> Result<usize> {
        let mut count = 0;
        for schema in self.schemas(list)? {
            count += usize::from(self.valid(schema, value, depth + 1)?);
            if count >= enough {
                break;
            }
        }
        Ok(count)
    }

    fn number_keyword(&mut self, schema: Id, name: Symbol, at: Id, value: Id) -> Result<bool> {
        let bounded =
            matches!(name, kw::MINIMUM | kw::MAXIMUM | kw::EXCLUSIVE_MINIMUM | kw::EXCLUSIVE_MAXIMUM);
        if bounded {
            let Some((_, exclusive)) = self.bound(schema, name, at)? else { return Ok(true) };
            let order = self.compare(value, at);
            let upper = matches!(name, kw::MAXIMUM | kw::EXCLUSIVE_MAXIMUM);
            return Ok(order.is_none_or(|o| {
                let o = if upper { o } else { o.reverse() };
                o.is_lt() || (o.is_eq() && !exclusive)
            }));
        }
        if name == kw::FORMAT {
            return Ok(self.number_format(at).is_none_or(|format| self.is_of_number_format(format, value)));
        }
        if name != kw::MULTIPLE_OF {
            return Ok(true);
        }
        let divisor = self.divisor(at)?;
        let Some(number) = self.number(value) else { return Ok(true) };
        let multiple = number.is_multiple_of(&divisor);
        multiple.ok_or_else(|| self.error(ErrorKind::TooComplex, at, "`multipleOf` with a very long number"))
    }

    fn string_keyword(&mut self, name: Symbol, at: Id, text: Symbol) -> Result<bool> {
        Ok(match name {
            kw::MIN_LENGTH => self.length(text) >= u64::from(self.count(at)?),
            kw::MAX_LENGTH => self.length(text) <= u64::from(self.count(at)?),
            kw::PATTERN => {
                let pattern = self.text(at)?;
                self.passes(Test::Pattern(pattern), text, at)?
            }
            kw::FORMAT => match self.doc.string(at) {
                Some(format) => self.is_of_format(format, text, at)?,
                None => true,
            },
            kw::X_VERBATIM if self.is_verbatim(at)? => self.passes(Test::Verbatim, text, at)?,
            _ => true,
        })
    }

    fn length(&self, text: Symbol) -> u64 {
        self.doc.name(text).chars().count() as u64
    }

    fn array_keyword(&mut self, schema: Id, name: Symbol, at: Id, value: Id, depth: u32) -> Result<bool> {
        let elements = self.doc.elements(value).to_vec();
        let count = elements.len() as u64;
        Ok(match name {
            kw::MIN_ITEMS => count >= u64::from(self.count(at)?),
            kw::MAX_ITEMS => count <= u64::from(self.count(at)?),
            kw::ITEMS | kw::PREFIX_ITEMS | kw::ADDITIONAL_ITEMS => {
                let (prefix, rest) = self.item_schemas(schema)?;
                for (i, &element) in elements.iter().enumerate() {
                    let Some(schema) = prefix.get(i).copied().or(rest) else { continue };
                    if !self.valid(schema, element, depth + 1)? {
                        return Ok(false);
                    }
                }
                true
            }
            kw::UNIQUE_ITEMS if self.doc.value(at) == Value::Bool(true) => {
                self.step(count * count, at)?;
                let doc = &self.doc;
                !elements.iter().enumerate().any(|(i, &a)| elements[..i].iter().any(|&b| doc.equal(a, b)))
            }
            kw::CONTAINS => self.contains(schema, at, &elements, depth)?,
            kw::UNEVALUATED_ITEMS => self.unevaluated_valid(schema, (name, at), value, depth)?,
            _ => true,
        })
    }

    fn contains(&mut self, schema: Id, at: Id, elements: &[Id], depth: u32) -> Result<bool> {
        let mut count = 0;
        for &element in elements {
            count += u32::from(self.valid(at, element, depth + 1)?);
        }
        let (min, max) = self.contains_bounds(schema)?;
        Ok((min..=max.unwrap_or(u32::MAX)).contains(&count))
    }

    fn object_keyword(&mut self, schema: Id, name: Symbol, at: Id, value: Id, depth: u32) -> Result<bool> {
        let members = self.doc.members(value).to_vec();
        let count = members.len() as u64;
        Ok(match name {
            kw::MIN_PROPERTIES => count >= u64::from(self.count(at)?),
            kw::MAX_PROPERTIES => count <= u64::from(self.count(at)?),
            kw::REQUIRED => self.names(at)?.iter().all(|&n| self.doc.get(value, n).is_some()),
            kw::PROPERTIES | kw::PATTERN_PROPERTIES | kw::ADDITIONAL_PROPERTIES => {
                for (name, member) in members {
                    for schema in self.member_schemas(schema, name, Some(at))? {
                        if !self.valid(schema, member, depth + 1)? {
                            return Ok(false);
                        }
                    }
                }
                true
            }
            kw::PROPERTY_NAMES => {
                for (name, _) in members {
                    if !self.name_valid(at, name)? {
                        return Ok(false);
                    }
                }
                true
            }
            kw::DEPENDENCIES | kw::DEPENDENT_REQUIRED | kw::DEPENDENT_SCHEMAS => {
                for (name, then) in self.doc.members(at).to_vec() {
                    if self.doc.get(value, name).is_some() && !self.dependency(then, value, depth)? {
                        return Ok(false);
                    }
                }
                true
            }
            kw::UNEVALUATED_PROPERTIES => self.unevaluated_valid(schema, (name, at), value, depth)?,
            _ => true,
        })
    }

    fn dependency(&mut self, then: Id, value: Id, depth: u32) -> Result<bool> {
        if matches!(self.doc.value(then), Value::Array { .. } | Value::String(_)) {
            return Ok(self.names(then)?.iter().all(|&n| self.doc.get(value, n).is_some()));
        }
        self.valid(then, value, depth + 1)
    }

    /// Returns true if a property name satisfies a schema (names are strings that need not occur as
    /// values).
    pub fn name_valid(&mut self, schema: Id, name: Symbol) -> Result<bool> {
        let value = self.doc.string_value(name);
        self.valid(schema, value, 1)
    }

    /// Returns true if a literal satisfies all terms.
    pub fn literal_fits(&mut self, terms: &[Term], value: Id) -> Result<bool> {
        for term in terms {
            if !self.satisfies(term, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the types that a `type` keyword names.
    pub fn types(&self, at: Id) -> Result<Types> {
        let own = [at];
        let list = match self.doc.value(at) {
            Value::Array { .. } => self.doc.elements(at),
            _ => &own[..],
        };
        let mut types = Types::NONE;
        for &item in list {
            let word = self.doc.string(item).map(|n| self.doc.name(n));
            types = types.or(match word {
                Some("null") => Types::NULL,
                Some("boolean") => Types::BOOL,
                Some("integer") => Types::INT,
                Some("number") => Types::NUMBER,
                Some("string") => Types::STRING,
                Some("array") => Types::ARRAY,
                Some("object") => Types::OBJECT,
                _ => {
                    let error = self.invalid(item, format!("{} is not a type", self.show(item)));
                    return Err(match word.and_then(type_hint) {
                        Some(hint) => error.hint(hint),
                        None => error,
                    });
                }
            });
        }
        Ok(types)
    }
}

/// Returns what to write instead of a word that is not a type.
pub(super) fn type_hint(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "integer" | "int" | "int32" | "int64" | "long" | "uint" => "write \"integer\"",
        "number" | "float" | "double" | "decimal" | "num" => "write \"number\"",
        "string" | "str" | "text" | "char" => "write \"string\"",
        "boolean" | "bool" => "write \"boolean\"",
        "array" | "list" | "tuple" | "set" => "write \"array\"",
        "object" | "dict" | "map" | "struct" | "record" => "write \"object\"",
        "null" | "none" | "nil" => "write \"null\"",
        "any" => "leave `type` out to allow any value",
        "date" | "datetime" | "date-time" | "time" | "email" | "uuid" | "uri" | "url" => {
            "write \"string\" with a `format`"
        }
        "enum" => "write the values in `enum`",
        "json_schema" | "json_object" => {
            "this is the `response_format` of a request; pass the schema inside of it, or {\"type\": \"object\"}"
        }
        "function" | "custom" => "this is the definition of a tool; pass the schema inside of it",
        _ => return None,
    })
}
