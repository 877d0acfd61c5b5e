//! Values of keywords, checked: lists of schemas, names, bounds, item and property schemas.
//!
//! Both the merger (`normalize`) and the validator (`validate`) read keywords through these
//! functions. So they cannot disagree about the meaning of a keyword in a draft.
//!
//! # Cost
//!
//! Each function reads the schema object once.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::context::SchemaContext;
use super::keywords::{self as kw, SchemaDraft};
use super::shape::{Bound, Test};
use crate::constraint::json::document::{Id, Symbol, Value};
use crate::decimal::Decimal;
use crate::error::{Error, ErrorKind, Result};

/// Names of properties.
pub(super) type NameList = SmallVec<[Symbol; 8]>;
/// Schemas by name, or by pattern.
pub(super) type Schemas = SmallVec<[(Symbol, Id); 8]>;

impl SchemaContext<'_> {
    /// Makes the error for an unsupported keyword.
    pub fn unsupported(&self, name: Symbol, at: Id) -> Error {
        let word = self.doc.name(name);
        self.error(ErrorKind::Unsupported, at, format!("the keyword `{word}` is not supported here"))
            .hint(hint(name))
    }

    /// Returns the schemas of `allOf`, `anyOf` or `oneOf`.
    pub fn schemas(&self, at: Id) -> Result<Vec<Id>> {
        match self.doc.value(at) {
            Value::Array { len, .. } if len > 0 => Ok(self.doc.elements(at).to_vec()),
            _ => Err(self.invalid(at, "expected a non-empty array of schemas")),
        }
    }

    /// Returns a list of names; older drafts also allow a single name in `dependencies`.
    pub fn names(&self, at: Id) -> Result<NameList> {
        if let Some(name) = self.doc.string(at) {
            return Ok(smallvec![name]);
        }
        let bad = || self.invalid(at, "expected an array of property names");
        if !matches!(self.doc.value(at), Value::Array { .. }) {
            return Err(bad());
        }
        self.doc.elements(at).iter().map(|&e| self.doc.string(e).ok_or_else(bad)).collect()
    }

    /// Reads a keyword value that must be a string.
    pub fn text(&self, at: Id) -> Result<Symbol> {
        self.doc.string(at).ok_or_else(|| self.invalid(at, "expected a string"))
    }

    /// Reads a keyword value that must be an object with member names chosen by the user.
    pub fn object(&self, at: Id) -> Result<Schemas> {
        match self.doc.value(at) {
            Value::Object { .. } => Ok(Schemas::from_slice(self.doc.members(at))),
            _ => Err(self.invalid(at, "expected an object")),
        }
    }

    /// Returns the bound a keyword sets and whether it is exclusive; `None` for the boolean forms
    /// of draft 4, which count with the bound next to them.
    pub fn bound(&mut self, schema: Id, name: Symbol, at: Id) -> Result<Option<(Bound, bool)>> {
        let own = matches!(name, kw::EXCLUSIVE_MINIMUM | kw::EXCLUSIVE_MAXIMUM);
        if own && matches!(self.doc.value(at), Value::Bool(_)) {
            return Ok(None);
        }
        let (Value::Number(text), Some(number)) = (self.doc.value(at), self.number(at)) else {
            return Err(self.invalid(at, "expected a number"));
        };
        let flag = if name == kw::MINIMUM { kw::EXCLUSIVE_MINIMUM } else { kw::EXCLUSIVE_MAXIMUM };
        let flagged = self.doc.get(schema, flag).is_some_and(|f| self.doc.value(f) == Value::Bool(true));
        let exclusive = own || flagged;
        Ok(Some((Bound { value: (*number).clone(), text, exclusive }, exclusive)))
    }

    /// Returns the divisor of `multipleOf`.
    pub fn divisor(&mut self, at: Id) -> Result<Rc<Decimal>> {
        let number = self.number(at).filter(|n| !n.is_zero() && !n.is_negative());
        number.ok_or_else(|| self.invalid(at, "expected a number greater than zero"))
    }

    /// Returns the schemas of the first items and of all further ones (`None`: anything), in any
    /// draft.
    pub fn item_schemas(&self, schema: Id) -> Result<(Vec<Id>, Option<Id>)> {
        let items = self.doc.get(schema, kw::ITEMS);
        if self.draft >= SchemaDraft::D2020 {
            let prefix = match self.doc.get(schema, kw::PREFIX_ITEMS) {
                Some(at) => self.schemas(at)?,
                None => Vec::new(),
            };
            if let Some(at) = items.filter(|&i| matches!(self.doc.value(i), Value::Array { .. })) {
                return Err(self
                    .invalid(at, "`items` is an array, which this draft of JSON Schema does not allow")
                    .hint("use `prefixItems`, or name an older draft in `$schema`"));
            }
            return Ok((prefix, items));
        }
        match items.map(|i| (i, self.doc.value(i))) {
            Some((at, Value::Array { .. })) => {
                Ok((self.doc.elements(at).to_vec(), self.doc.get(schema, kw::ADDITIONAL_ITEMS)))
            }
            _ => Ok((Vec::new(), items)),
        }
    }

    /// Returns what `properties`, `patternProperties` and `additionalProperties` of a schema object
    /// assert about the member `name`. With `only`, just what that keyword asserts.
    pub fn member_schemas(&mut self, schema: Id, name: Symbol, only: Option<Id>) -> Result<Vec<Id>> {
        let wanted = |at: Id| only.is_none_or(|o| o == at);
        let (mut found, mut declared) = (Vec::new(), false);
        if let Some(at) = self.doc.get(schema, kw::PROPERTIES)
            && let Some(value) = self.doc.get(at, name)
        {
            declared = true;
            found.extend(wanted(at).then_some(value));
        }
        if let Some(at) = self.doc.get(schema, kw::PATTERN_PROPERTIES) {
            for (pattern, value) in self.object(at)? {
                if self.passes(Test::Pattern(pattern), name, value)? {
                    declared = true;
                    found.extend(wanted(at).then_some(value));
                }
            }
        }
        if let Some(at) = self.doc.get(schema, kw::ADDITIONAL_PROPERTIES)
            && !declared
        {
            found.extend(wanted(at).then_some(at));
        }
        Ok(found)
    }
}

/// Returns the hint for an unsupported keyword.
pub(super) fn hint(name: Symbol) -> &'static str {
    match name {
        kw::UNIQUE_ITEMS => "remove `uniqueItems` and check the items afterwards, or set it to false",
        kw::MULTIPLE_OF => {
            "powers of ten up to 1 (1, 0.1, 0.01, …) are supported, and any divisor between close integer bounds"
        }
        kw::ONE_OF => "use `anyOf`, or give the branches a required property with different `const` values",
        kw::NOT => "state what is allowed instead",
        kw::MIN_PROPERTIES | kw::MAX_PROPERTIES => {
            "list the properties in `required`, or forbid further ones with `additionalProperties: false`"
        }
        kw::UNEVALUATED_PROPERTIES => "use `additionalProperties` in the schema that lists the properties",
        kw::UNEVALUATED_ITEMS => "use `items` after `prefixItems`",
        _ => "remove the keyword and check the value afterwards",
    }
}
