//! Reading members of JSON objects strictly: what is unknown is refused by name.
//!
//! Thin helpers over the parsed document; every error has the pointer of the value it is about. Deriving
//! the structure with `serde` was rejected: its errors know neither pointers nor hints, and a schema in
//! the middle of the document would lose the text of its numbers.

use std::rc::Rc;

use super::ast::Phrase;
use crate::constraint::element_pattern::distance;
use crate::constraint::json::document::{Doc, Id, Value};
use crate::error::{Error, ErrorKind, Result};

/// An error at a value of the document.
pub(super) fn error(doc: &Doc, kind: ErrorKind, at: Id, message: impl Into<String>) -> Error {
    Error::new(kind, message).at(doc.place(at))
}

/// An error about a value that is not what it must be.
pub(super) fn invalid(doc: &Doc, at: Id, message: impl Into<String>) -> Error {
    error(doc, ErrorKind::InvalidSchema, at, message)
}

/// An object of a kind whose members are known.
pub(super) struct Object<'a> {
    pub doc: &'a Doc,
    pub at: Id,
    what: &'a str,
}

impl<'a> Object<'a> {
    /// The object at `at`, a `what`, which has no members but those `known`.
    pub fn new(doc: &'a Doc, at: Id, what: &'a str, known: &[&str]) -> Result<Self> {
        if !matches!(doc.value(at), Value::Object { .. }) {
            return Err(invalid(doc, at, format!("{what} must be an object")));
        }
        for &(name, value) in doc.members(at) {
            let name = doc.name(name);
            if !known.contains(&name) {
                return Err(error(
                    doc,
                    ErrorKind::Unsupported,
                    value,
                    format!("{what} has no member `{}`", shown(name)),
                )
                .hint(suggestion(name, known)));
            }
        }
        Ok(Object { doc, at, what })
    }

    /// A member; `null` counts as absent.
    pub fn optional(&self, name: &str) -> Option<Id> {
        let id = self.doc.get(self.at, self.doc.lookup(name)?)?;
        (self.doc.value(id) != Value::Null).then_some(id)
    }

    /// A member that must be there.
    pub fn required(&self, name: &str) -> Result<Id> {
        self.optional(name)
            .ok_or_else(|| invalid(self.doc, self.at, format!("{} lacks its member `{name}`", self.what)))
    }

    /// A string that must be there.
    pub fn text(&self, name: &str) -> Result<Phrase> {
        phrase(self.doc, self.required(name)?, name)
    }

    /// A truth value, and what it is if it is absent.
    pub fn flag(&self, name: &str, absent: bool) -> Result<bool> {
        match self.optional(name).map(|id| (id, self.doc.value(id))) {
            None => Ok(absent),
            Some((_, Value::Bool(value))) => Ok(value),
            Some((id, _)) => Err(invalid(self.doc, id, format!("`{name}` must be true or false"))),
        }
    }

    /// A count.
    pub fn count(&self, id: Id, name: &str) -> Result<u32> {
        let number = match self.doc.value(id) {
            Value::Number(text) => self.doc.name(text).parse::<u32>().ok(),
            _ => None,
        };
        number.ok_or_else(|| {
            invalid(self.doc, id, format!("`{name}` must be a whole number from 0 to {}", u32::MAX))
        })
    }

    /// The elements of an array that must be there and not be empty.
    pub fn list(&self, name: &str) -> Result<&'a [Id]> {
        let id = self.required(name)?;
        match self.doc.value(id) {
            Value::Array { len: 1.., .. } => Ok(self.doc.elements(id)),
            Value::Array { .. } => Err(invalid(self.doc, id, format!("`{name}` is empty"))),
            _ => Err(invalid(self.doc, id, format!("`{name}` must be an array"))),
        }
    }

    /// What names a token, which is its text: its number is one of a vocabulary.
    pub fn token(&self) -> Result<Phrase> {
        token(self.doc, self.required("token")?, "token")
    }

    /// The texts that a free text must not hold, tokens among them.
    pub fn excludes(&self) -> Result<Rc<[Phrase]>> {
        let texts = self.phrases("excludes")?;
        let Some(id) = self.optional("exclude_tokens") else { return Ok(texts) };
        if !matches!(self.doc.value(id), Value::Array { .. }) {
            return Err(invalid(self.doc, id, "`exclude_tokens` must be an array of strings"));
        }
        let tokens = self.doc.elements(id).iter().map(|&id| token(self.doc, id, "exclude_tokens"));
        texts.iter().cloned().map(Ok).chain(tokens).collect()
    }

    /// Strings, none of them empty; absent: none.
    pub fn phrases(&self, name: &str) -> Result<Rc<[Phrase]>> {
        let Some(id) = self.optional(name) else { return Ok(Rc::new([])) };
        if !matches!(self.doc.value(id), Value::Array { .. }) {
            return Err(invalid(self.doc, id, format!("`{name}` must be an array of strings")));
        }
        let phrase = |&id: &Id| {
            let phrase = phrase(self.doc, id, name)?;
            match phrase.text.is_empty() {
                true => Err(invalid(self.doc, id, format!("an empty string in `{name}`"))
                    .hint("the empty text occurs everywhere; leave it out")),
                false => Ok(phrase),
            }
        };
        self.doc.elements(id).iter().map(phrase).collect()
    }
}

/// The text of a token at `at`, the value of a member `name` or in it.
fn token(doc: &Doc, at: Id, name: &str) -> Result<Phrase> {
    if let Value::Number(_) = doc.value(at) {
        let message = format!("`{name}` names a token by its number, which only a vocabulary knows");
        return Err(error(doc, ErrorKind::Unsupported, at, message).hint("give the text of the token"));
    }
    let phrase = phrase(doc, at, name)?;
    match phrase.text.is_empty() {
        true => {
            Err(invalid(doc, at, format!("an empty string in `{name}`")).hint("give the text of the token"))
        }
        false => Ok(phrase),
    }
}

/// The text at `at`, the `name` of a tag: a string, or a format of the type `token`.
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

/// The string at `at`, the value of a member `name`.
pub(super) fn phrase(doc: &Doc, at: Id, name: &str) -> Result<Phrase> {
    match doc.value(at) {
        Value::String(text) => Ok(Phrase { text: doc.name(text).into(), at }),
        Value::Object { .. } => Err(error(
            doc,
            ErrorKind::Unsupported,
            at,
            format!("`{name}` must be a string; formats of single tokens are not supported here"),
        )
        .hint("write the text of the token")),
        _ => Err(invalid(doc, at, format!("`{name}` must be a string"))),
    }
}

/// A name from the document, cut if it is absurdly long.
pub(super) fn shown(name: &str) -> String {
    if name.chars().count() <= 60 {
        return name.to_owned();
    }
    name.chars().take(60).chain(['…']).collect()
}

/// What `name` was probably meant to be.
pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|k| (distance(k, name), *k)).filter(|&(d, k)| d <= 2 && d < k.len());
    match near.min() {
        Some((_, near)) => format!("did you mean `{near}`?"),
        None => format!("known are: {}", known.join(", ")),
    }
}
