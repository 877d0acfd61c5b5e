//! JSON text into one arena of values that keeps what a schema front end needs: the order of the
//! members, the text of numbers (no `f64`), decoded strings, and each value's place in the document.
//!
//! Parsing is one pass with an explicit stack, linear in the text; strings and names are interned, so
//! that the rest of the front end compares integers. `serde_json::Value` was rejected: it reads
//! numbers through `f64`, a value does not know its place, and its ids cannot be keys of a memo.
//!
//! Texts for readers (`title`, `description`, `$comment`) are half of the bytes of real schemas and an eighth of
//! their values; they are checked and left out, but where they may be values or names of the instance.
//!
//! Duplicate names in one object: the last one wins and keeps the place of the first, as in
//! `serde_json`; the document remembers that it happened, for a warning.

mod made;
mod plain;
mod twins;

use rustc_hash::FxHashMap;

use super::keywords as kw;
pub(in crate::constraint) use super::words::Words;
use crate::error::{Error, ErrorKind, Place, Result};

/// Longest JSON text in bytes.
pub(super) const MAX_BYTES: usize = 16 << 20;
/// Most values in one JSON text.
pub(super) const MAX_VALUES: usize = 1_000_000;
/// Deepest nesting of arrays and objects.
pub(super) const MAX_DEPTH: usize = 512;

/// A value of the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::constraint) struct Id(pub u32);

/// An interned string: a member name, the decoded text of a string, or the text of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::constraint) struct Name(pub u32);

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::constraint) enum Value {
    Null,
    Bool(bool),
    /// The text of the number as written.
    Number(Name),
    /// The decoded text.
    String(Name),
    /// Elements `first..first + len` of the element table.
    Array {
        first: u32,
        len: u32,
    },
    /// Members `first..first + len` of the member table.
    Object {
        first: u32,
        len: u32,
    },
}

/// Where a value lies: its parent and the index among the parent's children.
#[derive(Debug, Clone, Copy)]
struct Parent {
    id: Id,
    index: u32,
}

/// A parsed document, and further ones to which it refers.
#[derive(Debug)]
pub(in crate::constraint) struct Doc {
    values: Vec<Value>,
    parents: Vec<Option<Parent>>,
    elements: Vec<Id>,
    members: Vec<(Name, Id)>,
    words: Words,
    root: Id,
    /// String values made for property names.
    loose: FxHashMap<Name, Id>,
    /// One duplicated member name with its object, if there was any.
    pub duplicate: Option<(Id, Name)>,
    /// `false` and `true` outside the tree.
    constants: [Option<Id>; 2],
    /// Schemas made of values of the tree.
    made: FxHashMap<(Name, Box<[Id]>), Id>,
    /// Roots of further texts, with the URI under which each is known.
    others: FxHashMap<Id, String>,
}

impl Doc {
    /// Parses `text`; the words of `shared` keep their names.
    pub fn parse(text: &str, shared: &'static Words) -> Result<Doc> {
        Doc::with(text, shared, true)
    }

    /// Parses a schema, without the texts that schemas have for their readers.
    pub fn schema(text: &str) -> Result<Doc> {
        Doc::with(text, kw::words(), false)
    }

    fn with(text: &str, shared: &'static Words, all: bool) -> Result<Doc> {
        // A value takes some 20 bytes of text in real schemas.
        let values = text.len().min(MAX_BYTES) / 20;
        let mut doc = Doc {
            values: Vec::with_capacity(values),
            parents: Vec::with_capacity(values),
            elements: Vec::new(),
            members: Vec::with_capacity(values),
            words: Words::on(shared, text.len().min(MAX_BYTES)),
            root: Id(0),
            loose: FxHashMap::default(),
            duplicate: None,
            constants: [None; 2],
            made: FxHashMap::default(),
            others: FxHashMap::default(),
        };
        doc.root = doc.read(text, all)?;
        Ok(doc)
    }

    /// Parses another schema into the same arena; its root.
    pub fn add(&mut self, uri: &str, text: &str) -> Result<Id> {
        let root = self.read(text, false).map_err(|e| e.at(Place::File(uri.into())))?;
        self.others.insert(root, uri.to_string());
        Ok(root)
    }

    fn read(&mut self, text: &str, all: bool) -> Result<Id> {
        if text.len() > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::TooComplex,
                format!("the schema has {} bytes; the limit is {MAX_BYTES}", text.len()),
            ));
        }
        Parser { text, at: 0, doc: self, all, waiting: Vec::new(), decoded: String::new() }.document()
    }

    /// Replaces the root: by a copy of it that is specific to a dynamic scope.
    pub fn set_root(&mut self, root: Id) {
        self.root = root;
    }

    /// A copy of a value with other children, in the order of its own. The copy of a root is one.
    pub fn copy(&mut self, id: Id, children: &[(Name, Id)]) -> Id {
        let copy = match self.value(id) {
            Value::Array { .. } => self.close_array(children),
            Value::Object { .. } => self.close_object(children),
            scalar => self.push(scalar),
        };
        if let Some(uri) = self.others.get(&id).cloned() {
            self.others.insert(copy, uri);
        }
        copy
    }

    pub fn root(&self) -> Id {
        self.root
    }

    pub fn value(&self, id: Id) -> Value {
        self.values[id.0 as usize]
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn name(&self, name: Name) -> &str {
        self.words.get(name)
    }

    /// The name of a string that occurs in the document (or was interned later).
    pub fn lookup(&self, text: &str) -> Option<Name> {
        self.words.find(text)
    }

    pub fn intern(&mut self, text: &str) -> Name {
        self.words.intern(text)
    }

    /// The members of an object, in order; empty for anything else.
    pub fn members(&self, id: Id) -> &[(Name, Id)] {
        match self.value(id) {
            Value::Object { first, len } => &self.members[first as usize..(first + len) as usize],
            _ => &[],
        }
    }

    /// The elements of an array, in order; empty for anything else.
    pub fn elements(&self, id: Id) -> &[Id] {
        match self.value(id) {
            Value::Array { first, len } => &self.elements[first as usize..(first + len) as usize],
            _ => &[],
        }
    }

    /// The member of that name.
    pub fn get(&self, id: Id, name: Name) -> Option<Id> {
        self.members(id).iter().find(|m| m.0 == name).map(|m| m.1)
    }

    /// The decoded text of a string value.
    pub fn string(&self, id: Id) -> Option<Name> {
        match self.value(id) {
            Value::String(name) => Some(name),
            _ => None,
        }
    }

    pub fn parent(&self, id: Id) -> Option<Id> {
        self.parents[id.0 as usize].map(|p| p.id)
    }

    /// The JSON pointer (RFC 6901) of a value in its document.
    pub fn pointer(&self, id: Id) -> String {
        self.pointer_and_root(id).0
    }

    fn pointer_and_root(&self, id: Id) -> (String, Id) {
        let mut steps = Vec::new();
        let mut at = id;
        while let Some(parent) = self.parents[at.0 as usize] {
            steps.push(match self.value(parent.id) {
                Value::Object { first, .. } => {
                    let name = self.members[(first + parent.index) as usize].0;
                    self.name(name).replace('~', "~0").replace('/', "~1")
                }
                _ => parent.index.to_string(),
            });
            at = parent.id;
        }
        let mut text = String::new();
        for step in steps.iter().rev() {
            text.push('/');
            text.push_str(step);
        }
        (text, at)
    }

    /// The place of a value, for errors.
    pub fn place(&self, id: Id) -> Place {
        let (pointer, root) = self.pointer_and_root(id);
        match self.others.get(&root) {
            Some(uri) => Place::Document { uri: uri.clone(), pointer },
            None => Place::Pointer(pointer),
        }
    }

    fn push(&mut self, value: Value) -> Id {
        self.values.push(value);
        self.parents.push(None);
        Id(self.values.len() as u32 - 1)
    }

    /// A string value outside the document tree.
    pub fn string_value(&mut self, text: Name) -> Id {
        if let Some(&id) = self.loose.get(&text) {
            return id;
        }
        let id = self.push(Value::String(text));
        self.loose.insert(text, id);
        id
    }

    /// Closes an array whose elements are these; their names say nothing.
    fn close_array(&mut self, elements: &[(Name, Id)]) -> Id {
        let first = self.elements.len() as u32;
        self.elements.extend(elements.iter().map(|e| e.1));
        let id = self.push(Value::Array { first, len: elements.len() as u32 });
        for (&(_, child), index) in elements.iter().zip(0..) {
            self.parents[child.0 as usize] = Some(Parent { id, index });
        }
        id
    }

    fn close_object(&mut self, members: &[(Name, Id)]) -> Id {
        let first = self.members.len();
        let mut seen: FxHashMap<Name, usize> = FxHashMap::default();
        let mut duplicate = None;
        for &(name, id) in members {
            // Most objects are so small that looking at every name is faster than hashing.
            let kept = &self.members[first..];
            let known = match members.len() {
                ..=FEW => kept.iter().position(|m| m.0 == name),
                _ => seen.get(&name).copied(),
            };
            match known {
                Some(at) => {
                    self.members[first + at].1 = id;
                    duplicate = Some(name);
                }
                None => {
                    if members.len() > FEW {
                        seen.insert(name, kept.len());
                    }
                    self.members.push((name, id));
                }
            }
        }
        let len = (self.members.len() - first) as u32;
        let id = self.push(Value::Object { first: first as u32, len });
        for (&(_, child), index) in self.members[first..].iter().zip(0..) {
            self.parents[child.0 as usize] = Some(Parent { id, index });
        }
        if let Some(name) = duplicate {
            self.duplicate.get_or_insert((id, name));
        }
        id
    }
}

/// Most members of an object whose names are compared one by one.
const FEW: usize = 16;

/// A container that is not closed yet.
struct Open {
    /// Where its children begin among those that wait.
    first: usize,
    /// Of an object: the name that waits for its value.
    name: Option<Name>,
    /// Whether it is a part of a value that counts as a whole.
    literal: bool,
    /// Whether it may be something else than a schema, so that its members count whatever their names are.
    keeps: bool,
}

impl Open {
    /// Whether the name that waits is that of a text for readers.
    fn only_tells(&self) -> bool {
        !self.keeps && self.name.is_some_and(kw::only_tells)
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    doc: &'a mut Doc,
    /// Whether it is no schema, so that everything counts.
    all: bool,
    /// Children of all containers that are not closed yet; elements of arrays have no name of theirs.
    waiting: Vec<(Name, Id)>,
    /// A buffer for strings with escapes.
    decoded: String,
}

impl Parser<'_> {
    fn document(&mut self) -> Result<Id> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.space();
            let mut done = match self.peek() {
                Some(b'[') => {
                    self.at += 1;
                    self.space();
                    if self.take(b']') {
                        Some(self.doc.close_array(&[]))
                    } else {
                        let opened = self.opened(open.last(), None);
                        open.push(opened);
                        None
                    }
                }
                Some(b'{') => {
                    self.at += 1;
                    self.space();
                    if self.take(b'}') {
                        Some(self.doc.close_object(&[]))
                    } else {
                        let name = self.member_name()?;
                        let opened = self.opened(open.last(), Some(name));
                        open.push(opened);
                        None
                    }
                }
                Some(b'"') if open.last().is_some_and(Open::only_tells) => {
                    self.skip_string()?;
                    self.next_member(&mut open)?
                }
                _ => Some(self.scalar()?),
            };
            self.check_budgets(open.len())?;
            while let Some(value) = done.take() {
                let Some(container) = open.last() else {
                    return self.finish(value);
                };
                self.waiting.push((container.name.unwrap_or(Name(0)), value));
                done = self.next_member(&mut open)?;
            }
        }
    }

    /// A container whose first member has this name, inside another one.
    fn opened(&self, outer: Option<&Open>, name: Option<Name>) -> Open {
        let key = outer.and_then(|outer| outer.name);
        let literal = outer.map_or(self.all, |outer| outer.literal) || key.is_some_and(kw::is_literal);
        let keeps = literal || key.is_some_and(kw::maps_names);
        Open { first: self.waiting.len(), name, literal, keeps }
    }

    /// What comes behind a value: the next member of its container, or the end of that, which is then done.
    fn next_member(&mut self, open: &mut Vec<Open>) -> Result<Option<Id>> {
        let Some(container) = open.last_mut() else { return Ok(None) };
        self.space();
        let closed = self.closed(container)?;
        Ok(if closed { open.pop().map(|c| self.close(c)) } else { None })
    }

    fn finish(&mut self, value: Id) -> Result<Id> {
        self.space();
        if self.at < self.text.len() {
            return Err(self.error("text after the end of the JSON value"));
        }
        Ok(value)
    }

    /// Reads the separator after a value: whether it closes the container.
    fn closed(&mut self, container: &mut Open) -> Result<bool> {
        let (end, message) = match container.name {
            None => (b']', "expected `,` or `]`"),
            Some(_) => (b'}', "expected `,` or `}`"),
        };
        if self.take(end) {
            return Ok(true);
        }
        if !self.take(b',') {
            return Err(self.error(message));
        }
        if container.name.is_some() {
            self.space();
            container.name = Some(self.member_name()?);
        }
        Ok(false)
    }

    fn close(&mut self, container: Open) -> Id {
        let children = &self.waiting[container.first..];
        let id = match container.name {
            None => self.doc.close_array(children),
            Some(_) => self.doc.close_object(children),
        };
        self.waiting.truncate(container.first);
        id
    }

    fn check_budgets(&self, depth: usize) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(self.limit(format!("the schema is nested deeper than the limit of {MAX_DEPTH}")));
        }
        if self.doc.len() > MAX_VALUES {
            return Err(self.limit(format!("the schema has more than {MAX_VALUES} JSON values")));
        }
        Ok(())
    }

    fn member_name(&mut self) -> Result<Name> {
        if self.peek() != Some(b'"') {
            return Err(self.error("expected a member name in double quotes"));
        }
        let name = self.string()?;
        self.space();
        if !self.take(b':') {
            return Err(self.error("expected `:`"));
        }
        Ok(name)
    }

    fn scalar(&mut self) -> Result<Id> {
        let value = match self.peek() {
            Some(b'"') => Value::String(self.string()?),
            Some(b'-' | b'0'..=b'9') => Value::Number(self.number()?),
            Some(b't') => self.word("true", Value::Bool(true))?,
            Some(b'f') => self.word("false", Value::Bool(false))?,
            Some(b'n') => self.word("null", Value::Null)?,
            None => return Err(self.error("unexpected end of the text")),
            Some(_) => return Err(self.error("expected a JSON value")),
        };
        Ok(self.doc.push(value))
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value> {
        if !self.text[self.at..].starts_with(word) {
            return Err(self.error("expected a JSON value"));
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Name> {
        let start = self.at;
        self.take(b'-');
        if !self.take(b'0') && self.digits() == 0 {
            return Err(self.error("expected a digit"));
        }
        if self.take(b'.') && self.digits() == 0 {
            return Err(self.error("expected a digit after the decimal point"));
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            if self.digits() == 0 {
                return Err(self.error("expected a digit in the exponent"));
            }
        }
        let text = &self.text[start..self.at];
        Ok(self.doc.intern(text))
    }

    fn digits(&mut self) -> usize {
        let start = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - start
    }

    fn string(&mut self) -> Result<Name> {
        self.at += 1;
        self.decoded.clear();
        loop {
            let start = self.at;
            self.at += plain::plain_bytes(&self.text.as_bytes()[start..]);
            let plain = &self.text[start..self.at];
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    if self.decoded.is_empty() {
                        return Ok(self.doc.intern(plain));
                    }
                    self.decoded.push_str(plain);
                    return Ok(self.doc.intern(&self.decoded));
                }
                Some(b'\\') => {
                    self.decoded.push_str(plain);
                    self.at += 1;
                    let escaped = self.escape()?;
                    self.decoded.push(escaped);
                }
                _ => return Err(self.no_string()),
            }
        }
    }

    /// Goes on behind a string that does not count.
    fn skip_string(&mut self) -> Result<()> {
        self.at += 1;
        loop {
            self.at += plain::plain_bytes(&self.text.as_bytes()[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => {
                    self.at += 1;
                    self.escape()?;
                }
                _ => return Err(self.no_string()),
            }
        }
    }

    fn no_string(&self) -> Error {
        self.error(match self.peek() {
            Some(_) => "control character in a string; write it as an escape",
            None => "string without end",
        })
    }

    fn escape(&mut self) -> Result<char> {
        let byte = self.peek();
        self.at += 1;
        Ok(match byte {
            Some(b @ (b'"' | b'\\' | b'/')) => b as char,
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => {
                self.at -= 1;
                return Err(self.error("unknown escape"));
            }
        })
    }

    fn unicode_escape(&mut self) -> Result<char> {
        let first = self.hex4()?;
        let code = match first {
            0xD800..=0xDBFF if self.text.as_bytes()[self.at..].starts_with(b"\\u") => {
                self.at += 2;
                let second = self.hex4()?;
                if !(0xDC00..=0xDFFF).contains(&second) {
                    return Err(self.error("lone surrogate in a string"));
                }
                0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00)
            }
            _ => first,
        };
        char::from_u32(code).ok_or_else(|| self.error("lone surrogate in a string"))
    }

    fn hex4(&mut self) -> Result<u32> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).unwrap_or(&[]);
        let mut code = 0;
        for &digit in digits {
            match (digit as char).to_digit(16) {
                Some(d) => code = code * 16 + d,
                None => return Err(self.error("expected four hexadecimal digits")),
            }
        }
        if digits.len() < 4 {
            return Err(self.error("expected four hexadecimal digits"));
        }
        self.at += 4;
        Ok(code)
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn error(&self, message: &str) -> Error {
        Error::new(ErrorKind::InvalidJson, message).at(self.line_column())
    }

    fn limit(&self, message: String) -> Error {
        Error::new(ErrorKind::TooComplex, message).at(self.line_column())
    }

    fn line_column(&self) -> Place {
        let mut end = self.at.min(self.text.len());
        while !self.text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &self.text[..end];
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
        Place::LineColumn(line, column)
    }
}
