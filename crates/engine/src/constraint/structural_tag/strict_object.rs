//! Strict reading of the members of JSON objects: unknown members are refused by name.
//!
//! These are thin helpers over the parsed document. Every error has the pointer of its value.
//!
//! # Alternatives considered
//! Deriving the structure with `serde` was rejected: its errors have neither pointers nor hints. A
//! schema inside the document would also lose the text of its numbers.

use std::rc::Rc;

use super::ast::Phrase;
use crate::constraint::json::document::{Doc, Id, Value};
use crate::edit_distance::closest;
use crate::error::{Error, ErrorKind, Result};

/// Returns an error at a value of the document.
pub(super) fn error(doc: &Doc, kind: ErrorKind, at: Id, message: impl Into<String>) -> Error {
    Error::new(kind, message).at(doc.place(at))
}

/// Returns an error about an invalid value.
pub(super) fn invalid(doc: &Doc, at: Id, message: impl Into<String>) -> Error {
    error(doc, ErrorKind::InvalidSchema, at, message)
}

/// An object of a kind whose members are known. A member that is `null` is absent.
pub(super) struct Object<'a> {
    pub doc: &'a Doc,
    pub at: Id,
    what: &'a str,
}

impl<'a> Object<'a> {
    /// Reads the object at `at`, of the kind `what`; refuses members that are not in `known`.
    pub(super) fn new(doc: &'a Doc, at: Id, what: &'a str, known: &[&str]) -> Result<Self> {
        if !matches!(doc.value(at), Value::Object { .. }) {
            return Err(invalid(doc, at, format!("{what} must be an object")));
        }
        for &(name, value) in doc.members(at) {
            let name = doc.name(name);
            // Programs write each member that they know, with `null` for those that are not given.
            if !known.contains(&name) && doc.value(value) != Value::Null {
                let message = format!("{what} has no member `{}`", shown(name));
                return Err(error(doc, ErrorKind::Unsupported, value, message).hint(suggestion(name, known)));
            }
        }
        Ok(Object { doc, at, what })
    }

    /// Returns a member if it is present; `null` counts as absent.
    pub(super) fn optional(&self, name: &str) -> Option<Id> {
        self.doc.member(self.at, name)
    }

    /// Returns a required member.
    pub(super) fn required(&self, name: &str) -> Result<Id> {
        self.optional(name)
            .ok_or_else(|| invalid(self.doc, self.at, format!("{} lacks its member `{name}`", self.what)))
    }

    /// Returns a required string.
    pub(super) fn text(&self, name: &str) -> Result<Phrase> {
        phrase(self.doc, self.required(name)?, name)
    }

    /// Returns a boolean; `absent` is the default.
    pub(super) fn flag(&self, name: &str, absent: bool) -> Result<bool> {
        match self.optional(name).map(|id| (id, self.doc.value(id))) {
            None => Ok(absent),
            Some((_, Value::Bool(value))) => Ok(value),
            Some((id, _)) => Err(invalid(self.doc, id, format!("`{name}` must be true or false"))),
        }
    }

    /// Returns a minimum, 0 if it is absent, and a maximum. A `max` of -1 means no limit, too.
    pub(super) fn bounds(&self, [min, max]: [&str; 2]) -> Result<(u32, Option<u32>)> {
        let least = self.optional(min).map_or(Ok(0), |id| self.count(id, min))?;
        let Some(id) = self.optional(max) else { return Ok((least, None)) };
        let is_open = |text| max == "max" && self.doc.name(text) == "-1";
        if matches!(self.doc.value(id), Value::Number(text) if is_open(text)) {
            return Ok((least, None));
        }
        match self.count(id, max)? {
            most if most < least => {
                let message = format!("`{max}` is {most}, less than `{min}`, which is {least}");
                Err(invalid(self.doc, id, message))
            }
            most => Ok((least, Some(most))),
        }
    }

    /// Refuses a member that is known but cannot be enforced, unless it is absent or an empty list.
    pub(super) fn refuse(&self, name: &str, why: &str, hint: &str) -> Result<()> {
        match self.optional(name) {
            Some(id) if !matches!(self.doc.value(id), Value::Array { len: 0, .. }) => {
                let message = format!("`{name}` of {} is not supported: {why}", self.what);
                Err(error(self.doc, ErrorKind::Unsupported, id, message).hint(hint))
            }
            _ => Ok(()),
        }
    }

    /// Reads a count.
    pub(super) fn count(&self, id: Id, name: &str) -> Result<u32> {
        let number = match self.doc.value(id) {
            Value::Number(text) => self.doc.name(text).parse::<u32>().ok(),
            _ => None,
        };
        number.ok_or_else(|| {
            invalid(self.doc, id, format!("`{name}` must be a whole number from 0 to {}", u32::MAX))
        })
    }

    /// Returns the elements of a required array, which must not be empty.
    pub(super) fn list(&self, name: &str) -> Result<&'a [Id]> {
        let id = self.required(name)?;
        match self.doc.value(id) {
            Value::Array { len: 1.., .. } => Ok(self.doc.elements(id)),
            Value::Array { .. } => Err(invalid(self.doc, id, format!("`{name}` is empty"))),
            _ => Err(invalid(self.doc, id, format!("`{name}` must be an array"))),
        }
    }

    /// Returns the text of a `token`: a token is named by its text, because numbers depend on a
    /// vocabulary.
    pub(super) fn token(&self) -> Result<Phrase> {
        token(self.doc, self.required("token")?, "token")
    }

    /// Returns the texts that a free text must not contain, including excluded tokens.
    pub(super) fn excludes(&self) -> Result<Rc<[Phrase]>> {
        let (texts, tokens) = (self.phrases("excludes")?, self.tokens("exclude_tokens")?);
        Ok(texts.iter().chain(&*tokens).cloned().collect())
    }

    /// Returns an array of texts of tokens; none if it is absent.
    pub(super) fn tokens(&self, name: &str) -> Result<Rc<[Phrase]>> {
        self.texts(name, token)
    }

    /// Returns an array of nonempty strings; no strings if it is absent.
    pub(super) fn phrases(&self, name: &str) -> Result<Rc<[Phrase]>> {
        self.texts(name, |doc, at, name| {
            nonempty(doc, at, name, "the empty text occurs everywhere; leave it out")
        })
    }

    fn texts(&self, name: &str, text: fn(&Doc, Id, &str) -> Result<Phrase>) -> Result<Rc<[Phrase]>> {
        let Some(id) = self.optional(name) else { return Ok(Rc::new([])) };
        if !matches!(self.doc.value(id), Value::Array { .. }) {
            return Err(invalid(self.doc, id, format!("`{name}` must be an array of strings")));
        }
        self.doc.elements(id).iter().map(|&id| text(self.doc, id, name)).collect()
    }
}

/// Returns the text of the token at `at`, in the member `name`.
fn token(doc: &Doc, at: Id, name: &str) -> Result<Phrase> {
    if let Value::Number(_) = doc.value(at) {
        let message = format!("`{name}` names a token by its number, which only a vocabulary knows");
        return Err(error(doc, ErrorKind::Unsupported, at, message).hint("give the text of the token"));
    }
    nonempty(doc, at, name, "give the text of the token")
}

fn nonempty(doc: &Doc, at: Id, name: &str, hint: &str) -> Result<Phrase> {
    match phrase(doc, at, name)? {
        text if text.text.is_empty() => {
            Err(invalid(doc, at, format!("an empty string in `{name}`")).hint(hint))
        }
        text => Ok(text),
    }
}

/// Returns the text at `at`, the `name` of a tag: a string, or a format of the type `token`.
pub(super) fn tag_text(doc: &Doc, at: Id, name: &str) -> Result<Phrase> {
    if !matches!(doc.value(at), Value::Object { .. }) {
        return phrase(doc, at, name);
    }
    let object = Object::new(doc, at, "a token", &["type", "token"])?;
    let kind = object.text("type")?;
    if &*kind.text != "token" {
        let message = format!("`{name}` must be a string or a format of the type `token`");
        return Err(
            error(doc, ErrorKind::Unsupported, kind.at, message).hint("give the text, or that of the token")
        );
    }
    object.token()
}

/// Returns the string at `at`, in the member `name`.
pub(super) fn phrase(doc: &Doc, at: Id, name: &str) -> Result<Phrase> {
    match doc.value(at) {
        Value::String(text) => Ok(Phrase { text: doc.name(text).into(), at }),
        Value::Object { .. } => {
            let message =
                format!("`{name}` must be a string; formats of single tokens are not supported here");
            Err(error(doc, ErrorKind::Unsupported, at, message).hint("write the text of the token"))
        }
        _ => Err(invalid(doc, at, format!("`{name}` must be a string"))),
    }
}

/// Returns a name of the document for a message, cut if it is very long.
pub(super) fn shown(name: &str) -> String {
    if name.chars().count() <= 60 {
        return name.to_owned();
    }
    name.chars().take(60).chain(['…']).collect()
}

/// Returns a hint with the known name most similar to `name`.
pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    match closest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known are: {}", known.join(", ")),
    }
}
