//! Parser of JSON text into the arena.
//!
//! # Cost
//!
//! One pass with an explicit stack, linear in the text.
//!
//! # Alternatives considered
//!
//! A recursive parser was rejected: the permitted depth of a schema must not depend on the size of
//! the thread's stack.

use smallvec::SmallVec;

use super::document::{Doc, Id, Language, MAX_BYTES, MAX_DEPTH, MAX_VALUES, Symbol, TextFilter, Value};
use crate::error::{Error, ErrorKind, Place, Result};

impl Doc {
    /// Parses any JSON text.
    pub(crate) fn parse(text: &str) -> Result<Doc> {
        Doc::with(text, None)
    }

    /// Parses a text of a language that shares symbols, without the texts that it leaves out.
    pub(crate) fn of(language: &'static Language, text: &str) -> Result<Doc> {
        Doc::with(text, Some(language))
    }

    fn with(text: &str, language: Option<&'static Language>) -> Result<Doc> {
        let mut doc = Doc::with_capacity(language, text.len());
        doc.root = doc.read(text)?;
        Ok(doc)
    }

    /// Parses another text of the same language into the same arena and returns its root.
    pub(crate) fn add(&mut self, uri: &str, text: &str) -> Result<Id> {
        let root = self.read(text).map_err(|e| e.at(Place::File(uri.into())))?;
        self.further_roots.insert(root, uri.to_string());
        Ok(root)
    }

    fn read(&mut self, text: &str) -> Result<Id> {
        if text.len() > MAX_BYTES {
            let message = format!("the schema has {} bytes; the limit is {MAX_BYTES}", text.len());
            return Err(Error::new(ErrorKind::TooComplex, message));
        }
        let (filter, waiting) = (self.filter, Vec::with_capacity(32));
        Parser { text, at: 0, doc: self, filter, waiting, decoded: String::new() }.document()
    }
}

/// A container that is not closed yet.
struct OpenContainer {
    /// Index of its first child in `Parser::waiting`.
    first: usize,
    /// In an object: name of the member whose value comes next.
    name: Option<Symbol>,
    /// True if everything inside is kept.
    literal: bool,
    /// True if all members are kept.
    keeps: bool,
    /// Names of the texts that were left out.
    skipped_texts: SmallVec<[Symbol; 2]>,
}

/// State of the parser.
struct Parser<'a> {
    text: &'a str,
    at: usize,
    doc: &'a mut Doc,
    /// Texts that are left out; `None`: none.
    filter: Option<&'static TextFilter>,
    /// Children of all containers that are not closed yet; elements of arrays have no name.
    waiting: Vec<(Symbol, Id)>,
    /// Buffer for strings with escapes.
    decoded: String,
}

impl<'a> Parser<'a> {
    /// Parses the text, which is one value.
    fn document(&mut self) -> Result<Id> {
        let mut open: Vec<OpenContainer> = Vec::with_capacity(16);
        loop {
            self.space();
            let mut done = match self.peek() {
                Some(first @ (b'[' | b'{')) => self.begin(first == b'{', &mut open)?,
                Some(b'"') if open.last().is_some_and(|container| self.skips_text(container)) => {
                    if let Some(container) = open.last_mut() {
                        container.skipped_texts.extend(container.name);
                    }
                    self.string_parts()?;
                    self.next_member(&mut open)?
                }
                _ => Some(self.scalar()?),
            };
            self.check_budgets(open.len())?;
            while let Some(value) = done.take() {
                let Some(container) = open.last() else {
                    return self.finish(value);
                };
                self.waiting.push((container.name.unwrap_or(Symbol(0)), value));
                done = self.next_member(&mut open)?;
            }
        }
    }

    /// Begins an array or an object, and returns it if it is empty.
    fn begin(&mut self, object: bool, open: &mut Vec<OpenContainer>) -> Result<Option<Id>> {
        self.at += 1;
        self.space();
        if self.take(if object { b'}' } else { b']' }) {
            return Ok(Some(if object { self.doc.close_object(&[]) } else { self.doc.close_array(&[]) }));
        }
        let name = if object { Some(self.member_name()?) } else { None };
        let opened = self.opened(open.last(), name);
        open.push(opened);
        Ok(None)
    }

    /// Returns true if the next value of a container is a text that is left out.
    fn skips_text(&self, container: &OpenContainer) -> bool {
        let Some(filter) = self.filter.filter(|_| !container.keeps) else { return false };
        container.name.is_some_and(|name| filter.texts.may_have(name))
    }

    /// Returns a container inside another one; `name` is the name of its first member.
    fn opened(&self, outer: Option<&OpenContainer>, name: Option<Symbol>) -> OpenContainer {
        let (mut literal, mut keeps) = (true, true);
        if let Some(filter) = self.filter {
            let key = outer.and_then(|outer| outer.name);
            literal = outer.is_some_and(|outer| outer.literal)
                || key.is_some_and(|key| filter.literals.may_have(key));
            keeps = literal || key.is_some_and(|key| filter.free_names.may_have(key));
        }
        OpenContainer { first: self.waiting.len(), name, literal, keeps, skipped_texts: SmallVec::new() }
    }

    /// Continues after a value: begins the next member of its container, or closes and returns it.
    fn next_member(&mut self, open: &mut Vec<OpenContainer>) -> Result<Option<Id>> {
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

    /// Reads the separator after a value; returns true if it closes the container.
    fn closed(&mut self, container: &mut OpenContainer) -> Result<bool> {
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

    fn close(&mut self, container: OpenContainer) -> Id {
        let children = &self.waiting[container.first..];
        let id = match container.name {
            None => self.doc.close_array(children),
            Some(_) => self.doc.close_object(children),
        };
        let skipped = &container.skipped_texts;
        let twice = |&(i, name): &(usize, &Symbol)| {
            skipped[..i].contains(name) || children.iter().any(|c| c.0 == *name)
        };
        if let Some((_, &name)) = skipped.iter().enumerate().find(twice) {
            self.doc.duplicate.get_or_insert((id, name));
        }
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

    fn member_name(&mut self) -> Result<Symbol> {
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

    fn number(&mut self) -> Result<Symbol> {
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

    fn string(&mut self) -> Result<Symbol> {
        let plain = self.string_parts()?;
        if self.decoded.is_empty() {
            return Ok(self.doc.intern(plain));
        }
        self.decoded.push_str(plain);
        Ok(self.doc.intern(&self.decoded))
    }

    /// Reads a string: decodes it up to its last escape, and returns the part after that.
    fn string_parts(&mut self) -> Result<&'a str> {
        self.at += 1;
        self.decoded.clear();
        loop {
            let start = self.at;
            self.at += plain_bytes(&self.text.as_bytes()[start..]);
            let plain = &self.text[start..self.at];
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(plain);
                }
                Some(b'\\') => {
                    self.decoded.push_str(plain);
                    self.at += 1;
                    let escaped = self.escape()?;
                    self.decoded.push(escaped);
                }
                Some(_) => return Err(self.error("control character in a string; write it as an escape")),
                None => return Err(self.error("string without end")),
            }
        }
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

/// Returns the number of bytes before the end of a string, an escape or a control character. It
/// looks at eight bytes at a time, because descriptions are most of the text of a schema.
fn plain_bytes(text: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    // Sets the highest bit of each byte that is zero; only the lowest of these bits is exact.
    let zeros = |x: u64| x.wrapping_sub(ONES) & !x & (ONES << 7);
    let mut at = 0;
    for eight in text.as_chunks::<8>().0 {
        let word = u64::from_le_bytes(*eight);
        let controls = zeros(word & (ONES * 0xe0));
        let found =
            controls | zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return at + found.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let plain = |b: &u8| *b != b'"' && *b != b'\\' && *b >= 0x20;
    at + text[at..].iter().take_while(|b| plain(b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ffwd_testkit::random::Random;

    #[test]
    fn as_byte_by_byte() {
        let plain = |b: &u8| *b != b'"' && *b != b'\\' && *b >= 0x20;
        let mut random = Random::new(3);
        for byte in 0..=255u8 {
            for _ in 0..20 {
                let mut text: Vec<u8> =
                    (0..random.below(30)).map(|_| 0x1e + random.below(226) as u8).collect();
                if !text.is_empty() {
                    let at = random.below(text.len());
                    text[at] = byte;
                }
                assert_eq!(plain_bytes(&text), text.iter().take_while(|b| plain(b)).count(), "{text:?}");
            }
        }
    }
}
