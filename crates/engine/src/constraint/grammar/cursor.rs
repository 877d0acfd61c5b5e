//! A cursor over the text of a grammar, for both GBNF and Lark; errors with line and column.
//!
//! # Cost
//! All operations move forward and cost time linear in the text that they consume.
//!
//! # Alternatives considered
//! A token list was rejected: the two notations differ in their tokens, and errors need the
//! position of a character inside a token.

pub(super) use crate::char_lang::cursor::Cursor;
use crate::char_lang::pattern_text;
use crate::error::{Error, ErrorKind, Place, Result};

/// Bytes `start..end` of the grammar's text.
pub(super) type Span = (usize, usize);

/// Maximum length in bytes of a grammar that an error quotes as a whole. For longer grammars the
/// error quotes only the surroundings of the span.
const MAX_QUOTED: usize = 64 << 10;

/// Returns an error about a span of a grammar, with line and column.
pub(super) fn fault(kind: ErrorKind, message: impl Into<String>, text: &str, span: Span) -> Error {
    // A span that ends inside a character covers the whole character: "the last byte" may be in the
    // middle of one.
    let next = |at: usize| (at..=text.len()).find(|&i| text.is_char_boundary(i)).unwrap_or(text.len());
    let start = (0..=span.0.min(text.len())).rev().find(|&i| text.is_char_boundary(i)).unwrap_or(0);
    let end = next(span.1.max(start));
    let before = &text[..start];
    let line = before.matches('\n').count() + 1;
    let line_start = before.rfind('\n').map_or(0, |at| at + 1);
    let place = Place::LineColumn(line, before[line_start..].chars().count() + 1);
    if text.len() <= MAX_QUOTED {
        return pattern_text::fault(kind, message, text, start, end).at(place);
    }
    let (from, to) = (next(start.saturating_sub(100)), next(end.min(start + 200) + 100));
    pattern_text::fault(kind, message, &text[from..to], start - from, end.min(to) - from).at(place)
}

impl Cursor<'_> {
    /// Skips white space and comments. A comment begins with one of `comments` and ends with its
    /// line.
    pub(super) fn skip_blanks(&mut self, comments: &[&str]) {
        loop {
            self.take_while(|c| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}'));
            if !comments.iter().any(|comment| self.rest().starts_with(comment)) {
                return;
            }
            self.take_while(|c| c != '\n');
        }
    }

    /// Returns true if only blanks precede this position in its line.
    pub(super) fn at_line_start(&self) -> bool {
        let before = &self.text.as_bytes()[..self.pos];
        let blank = |b: &&u8| matches!(**b, b' ' | b'\t' | b'\r');
        before.iter().rev().find(|b| !blank(b)).is_none_or(|&b| b == b'\n' || b >= 0x80)
    }

    pub(super) fn invalid(&self, message: impl Into<String>, span: Span, hint: impl Into<String>) -> Error {
        fault(ErrorKind::InvalidPattern, message, self.text, span).hint(hint)
    }

    /// Returns an error about the next character.
    pub(super) fn unexpected(&self) -> Error {
        let (message, span) = match self.peek() {
            Some(c) => (format!("unexpected character {c:?}"), (self.pos, self.pos + c.len_utf8())),
            None => ("the grammar ends too soon".to_owned(), (self.pos.saturating_sub(1), self.pos)),
        };
        fault(ErrorKind::InvalidPattern, message, self.text, span)
    }

    /// Reads a string in double quotes and returns its text; the opening quote is next.
    pub(super) fn string(&mut self) -> Result<String> {
        let start = self.pos;
        let mut value = String::new();
        self.pos += 1;
        loop {
            match self.peek() {
                None | Some('\n') => {
                    return Err(self.invalid("unclosed string", (start, start + 1), "close it with `\"`"));
                }
                Some('"') => {
                    self.pos += 1;
                    return Ok(value);
                }
                Some('\\') => value.push(self.escape()?),
                Some(c) => {
                    self.pos += c.len_utf8();
                    value.push(c);
                }
            }
        }
    }

    /// Reads an escape and returns its character; the backslash is next.
    pub(super) fn escape(&mut self) -> Result<char> {
        let start = self.pos;
        self.pos += 1;
        let digits = match self.bump() {
            Some('n') => return Ok('\n'),
            Some('t') => return Ok('\t'),
            Some('r') => return Ok('\r'),
            Some('f') => return Ok('\u{c}'),
            Some('v') => return Ok('\u{b}'),
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some(c) if c.is_ascii_punctuation() => return Ok(c),
            _ => {
                let hint = "the escapes are \\n, \\t, \\r, \\\\, \\\", \\xHH, \\uHHHH and \\UHHHHHHHH";
                return Err(self.invalid("unknown escape", (start, self.pos), hint));
            }
        };
        let found = self.rest().get(..digits).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let value = found.and_then(|d| u32::from_str_radix(d, 16).ok()).and_then(char::from_u32);
        let Some(value) = value else {
            let message = format!("the escape needs {digits} hexadecimal digits of a character");
            let hint = "surrogates are no characters; write those beyond U+FFFF with `\\U`";
            return Err(self.invalid(message, (start, self.pos), hint));
        };
        self.pos += digits;
        Ok(value)
    }

    /// Reads a decimal number. A number beyond `u32` is capped there, which is above every limit.
    pub(super) fn number(&mut self) -> Option<u32> {
        let digits = self.take_while(|c| c.is_ascii_digit());
        (!digits.is_empty()).then(|| digits.parse().unwrap_or(u32::MAX))
    }
}
