//! Values of keywords, checked: lists of schemas, names, bounds, item and property schemas.
//!
//! Both the merger (`normalize`) and the validator (`validate`) read keywords through these
//! functions. So they cannot disagree about the meaning of a keyword in a draft.
//!
//! # Cost
//!
//! Each function reads the schema object once.

use std::borrow::Cow;
use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::drafts::SchemaDraft;
use super::keywords::Keyword;
use super::number_formats::{NumberFormat, number_format};
use super::text_automata::Test;
use super::types::Types;
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};

/// Names of properties.
pub(crate) type NameList = SmallVec<[Symbol; 8]>;

/// Schemas by name, or by pattern.
pub(crate) type Schemas = SmallVec<[(Symbol, Id); 8]>;

/// Bound of a number; `exclusive` excludes the bound itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub value: Decimal,
    /// As written in the schema.
    pub text: Symbol,
    pub exclusive: bool,
}

impl SchemaContext<'_> {
    /// Makes the error for an unsupported keyword.
    pub(crate) fn unsupported(&self, keyword: Keyword, at: Id) -> Error {
        let message = format!("the keyword `{}` is not supported here", keyword.name());
        let hint = match keyword {
            Keyword::UniqueItems => "remove `uniqueItems` and check the items afterwards, or set it to false",
            Keyword::MultipleOf => {
                "powers of ten up to 1 (1, 0.1, 0.01, …) are supported, and any divisor between close integer bounds"
            }
            _ => "remove the keyword and check the value afterwards",
        };
        self.error(ErrorKind::Unsupported, at, message).hint(hint)
    }

    /// Returns the schemas of `allOf`, `anyOf` or `oneOf`.
    pub(crate) fn schemas(&self, at: Id) -> Result<Vec<Id>> {
        match self.doc.value(at) {
            Value::Array { len, .. } if len > 0 => Ok(self.doc.elements(at).to_vec()),
            _ => Err(self.invalid(at, "expected a non-empty array of schemas")),
        }
    }

    /// Returns a list of names; older drafts also allow a single name in `dependencies`.
    pub(crate) fn names(&self, at: Id) -> Result<NameList> {
        if let Some(name) = self.doc.string(at) {
            return Ok(smallvec![name]);
        }
        let expected = "expected an array of property names";
        let name = |&e: &Id| self.doc.string(e).ok_or_else(|| self.invalid(at, expected));
        self.list(at, expected)?.iter().map(name).collect()
    }

    /// Returns true if the value of a dependency is a list of names, not a schema.
    pub(crate) fn is_name_list(&self, at: Id) -> bool {
        matches!(self.doc.value(at), Value::Array { .. } | Value::String(_))
    }

    /// Reads a keyword value that must be an array.
    pub(crate) fn list(&self, at: Id, expected: &str) -> Result<&[Id]> {
        match self.doc.value(at) {
            Value::Array { .. } => Ok(self.doc.elements(at)),
            _ => Err(self.invalid(at, expected)),
        }
    }

    /// Reads a keyword value that must be a string.
    pub(crate) fn text(&self, at: Id) -> Result<Symbol> {
        self.doc.string(at).ok_or_else(|| self.invalid(at, "expected a string"))
    }

    /// Reads a keyword value that must be an object with member names chosen by the user.
    pub(crate) fn object(&self, at: Id) -> Result<Schemas> {
        match self.doc.value(at) {
            Value::Object { .. } => Ok(Schemas::from_slice(self.doc.members(at))),
            _ => Err(self.invalid(at, "expected an object")),
        }
    }

    /// Returns the members of the value of a keyword; none without it.
    pub(crate) fn entries(&self, schema: Id, keyword: Keyword) -> Result<Schemas> {
        self.doc.get(schema, keyword).map_or(Ok(Schemas::new()), |at| self.object(at))
    }

    /// Returns the bound that a keyword sets; `None` for the boolean forms of draft 4, which count
    /// with the bound next to them.
    pub(crate) fn bound(&mut self, schema: Id, name: Keyword, at: Id) -> Result<Option<Bound>> {
        let own = matches!(name, Keyword::ExclusiveMinimum | Keyword::ExclusiveMaximum);
        if own && matches!(self.doc.value(at), Value::Bool(_)) {
            return Ok(None);
        }
        let (Value::Number(text), Some(number)) = (self.doc.value(at), self.number(at)) else {
            return Err(self.invalid(at, "expected a number"));
        };
        let flag =
            if name == Keyword::Minimum { Keyword::ExclusiveMinimum } else { Keyword::ExclusiveMaximum };
        let flagged = self.doc.get(schema, flag).is_some_and(|f| self.doc.value(f) == Value::Bool(true));
        Ok(Some(Bound { value: (*number).clone(), text, exclusive: own || flagged }))
    }

    /// Returns the divisor of `multipleOf`.
    pub(crate) fn divisor(&mut self, at: Id) -> Result<Rc<Decimal>> {
        let number = self.number(at).filter(|n| !n.is_zero() && !n.is_negative());
        number.ok_or_else(|| self.invalid(at, "expected a number greater than zero"))
    }

    /// Returns the schemas of the first items and of all further ones (`None`: anything), in any
    /// draft.
    pub(crate) fn item_schemas(&self, schema: Id) -> Result<(Vec<Id>, Option<Id>)> {
        let items = self.doc.get(schema, Keyword::Items);
        if self.draft >= SchemaDraft::D2020 {
            let prefix = self.doc.get(schema, Keyword::PrefixItems);
            let prefix = prefix.map_or(Ok(Vec::new()), |at| self.schemas(at))?;
            if let Some(at) = items.filter(|&i| matches!(self.doc.value(i), Value::Array { .. })) {
                return Err(self
                    .invalid(at, "`items` is an array, which this draft of JSON Schema does not allow")
                    .hint("use `prefixItems`, or name an older draft in `$schema`"));
            }
            return Ok((prefix, items));
        }
        match items.map(|i| (i, self.doc.value(i))) {
            Some((at, Value::Array { .. })) => {
                Ok((self.doc.elements(at).to_vec(), self.doc.get(schema, Keyword::AdditionalItems)))
            }
            _ => Ok((Vec::new(), items)),
        }
    }

    /// Returns what `properties`, `patternProperties` and `additionalProperties` of a schema object
    /// assert about the member `name`. With `only`, just what that keyword asserts.
    pub(crate) fn member_schemas(&mut self, schema: Id, name: Symbol, only: Option<Id>) -> Result<Vec<Id>> {
        let wanted = |at: Id| only.is_none_or(|o| o == at);
        let (mut found, mut declared) = (Vec::new(), false);
        if let Some(at) = self.doc.get(schema, Keyword::Properties)
            && let Some(value) = self.doc.get(at, name)
        {
            declared = true;
            found.extend(wanted(at).then_some(value));
        }
        if let Some(at) = self.doc.get(schema, Keyword::PatternProperties) {
            for (pattern, value) in self.object(at)? {
                if self.passes(Test::Pattern(pattern), name, value)? {
                    declared = true;
                    found.extend(wanted(at).then_some(value));
                }
            }
        }
        if let Some(at) = self.doc.get(schema, Keyword::AdditionalProperties)
            && !declared
        {
            found.extend(wanted(at).then_some(at));
        }
        Ok(found)
    }

    /// Returns the types that a `type` keyword names.
    pub(crate) fn types(&self, at: Id) -> Result<Types> {
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
                    let hint = word.and_then(type_hint);
                    return Err(if let Some(hint) = hint { error.hint(hint) } else { error });
                }
            });
        }
        Ok(types)
    }

    /// Returns `minContains` and `maxContains`, if the draft has them.
    pub(crate) fn contains_bounds(&mut self, schema: Id) -> Result<(u32, Option<u32>)> {
        let mut bound = |name: Keyword| match self.doc.get(schema, name) {
            Some(at) if self.draft >= SchemaDraft::D2019 => self.count(at).map(Some),
            _ => Ok(None),
        };
        Ok((bound(Keyword::MinContains)?.unwrap_or(1), bound(Keyword::MaxContains)?))
    }

    /// Returns true if a schema's `properties` lists these names, so that no choice affects their
    /// order.
    pub(crate) fn declares(&self, schema: Id, names: &[Symbol]) -> bool {
        let own = self.doc.get(schema, Keyword::Properties);
        own.is_some_and(|own| names.iter().all(|&name| self.doc.get(own, name).is_some()))
    }

    /// Returns the `then` and the `else` of a schema, if they assert anything.
    pub(crate) fn branches(&self, schema: Id) -> (Option<Id>, Option<Id>) {
        let branch = |name: Keyword| self.doc.get(schema, name).filter(|&b| !self.is_true(b));
        (branch(Keyword::Then), branch(Keyword::Else))
    }

    /// Reads a keyword value that must be a boolean.
    pub(crate) fn flag(&self, at: Id) -> Result<bool> {
        match self.doc.value(at) {
            Value::Bool(holds) => Ok(holds),
            _ => Err(self.invalid(at, "expected a boolean")),
        }
    }

    /// Returns the machine type that the value of a `format` names.
    pub(crate) fn number_format(&self, at: Id) -> Option<NumberFormat> {
        number_format(self.doc.name(self.doc.string(at)?))
    }

    /// Returns the exact value of a number literal.
    pub(crate) fn number(&mut self, id: Id) -> Option<Rc<Decimal>> {
        let Value::Number(text) = self.doc.value(id) else { return None };
        let doc = &self.doc;
        Some(self.numbers.entry(id).or_insert_with(|| Rc::new(Decimal::new(doc.name(text)))).clone())
    }

    /// Reads a keyword value that must be a count.
    pub(crate) fn count(&mut self, id: Id) -> Result<u32> {
        if let Value::Number(text) = self.doc.value(id)
            && let text = self.doc.name(text)
            && text.len() <= 9
            && let Ok(count) = text.parse()
        {
            return Ok(count);
        }
        let count = self.number(id).and_then(|n| n.count());
        count.ok_or_else(|| {
            self.invalid(id, format!("expected a non-negative integer, found {}", self.show(id)))
        })
    }

    /// Returns the type of a literal.
    pub(crate) fn type_of(&mut self, id: Id) -> Types {
        match self.doc.value(id) {
            Value::Number(text) => {
                let plain = !self.doc.name(text).contains(['.', 'e', 'E']);
                let whole = self.number(id).is_some_and(|n| n.is_integer());
                // Draft 4 recognises integers by their text.
                if whole && (plain || self.draft > SchemaDraft::D4) { Types::INT } else { Types::FRACTION }
            }
            value => Types::of_form(value),
        }
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

/// Returns the only name that a pattern of the form `^name$` matches.
pub(crate) fn only_word(pattern: &str) -> Option<Cow<'_, str>> {
    let word = pattern.strip_prefix('^')?.strip_suffix('$')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "_- :/@,#%&=~!;<>".contains(c) || !c.is_ascii();
    if word.chars().all(plain) {
        return Some(Cow::Borrowed(word));
    }
    let unescaped = word.replace("\\.", ".");
    (word.split("\\.").all(|part| part.chars().all(plain))).then_some(Cow::Owned(unescaped))
}
