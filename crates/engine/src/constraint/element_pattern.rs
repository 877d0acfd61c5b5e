//! Parser for element patterns: named character classes and literals, such as `UPPER+ ':' DIGIT`.
//!
//! An element is a class name, a literal in single or double quotes, or a group in parentheses.
//! `?`, `*`, `+`, `{m}`, `{m,}` and `{m,n}` repeat the element before them (a literal as a whole).
//! `|` separates alternatives, and blanks separate elements. The whole output must match.
//!
//! | class | characters |
//! |---|---|
//! | `UPPER`, `LOWER`, `LETTER`, `DIGIT` | ASCII letters and digits |
//! | `SPACE` | the blank, U+0020 |
//! | `NEWLINE` | the line feed, U+000A |
//! | `PUNCT` | ASCII punctuation and symbols |
//! | `ANY` | any Unicode character except the line feed |
//!
//! Literals know the escapes `\n \t \r \\ \' \"` and `\u{..}`. The classes are ASCII because they
//! describe fixed layouts.
//!
//! # Cost
//!
//! Parsing is linear in the text.
//!
//! # Alternatives considered
//!
//! Unicode classes under second names were rejected as a source of silent differences.
//! `Constraint::regex` has the Unicode classes.

use regex_syntax::hir::{Class, Hir};

use super::ir::Ir;
use crate::char_lang::char_class::unicode;
use crate::char_lang::cursor::Cursor;
use crate::char_lang::hir_builder::{HirBuilder, braces, unclosed};
use crate::char_lang::pattern_text::{check_length, fault};
use crate::constraint::regular::hir_to_ir;
use crate::edit_distance::closest;
use crate::error::{Error, ErrorKind, Result};

/// Name and ranges of a class.
type NamedClass = (&'static str, &'static [(char, char)]);

const CLASSES: [NamedClass; 8] = [
    ("UPPER", &[('A', 'Z')]),
    ("LOWER", &[('a', 'z')]),
    ("LETTER", &[('A', 'Z'), ('a', 'z')]),
    ("DIGIT", &[('0', '9')]),
    ("SPACE", &[(' ', ' ')]),
    ("NEWLINE", &[('\n', '\n')]),
    ("PUNCT", &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')]),
    ("ANY", &[('\0', '\t'), ('\u{b}', char::MAX)]),
];

/// Returns the language of an element pattern.
///
/// # Errors
/// [`ErrorKind::InvalidPattern`] or [`ErrorKind::TooComplex`], each with the span of the fault.
pub(super) fn parse(text: &str) -> Result<Ir> {
    check_length(text)?;
    let hir = ElementParser { cursor: Cursor::new(text), out: HirBuilder::new(text) }.run()?;
    let mut ir = Ir::counting();
    let root = hir_to_ir::node(&hir, &mut ir);
    hir_to_ir::check_states(text, &ir, 0, root)?;
    ir.set_root(root);
    Ok(ir)
}

struct ElementParser<'a> {
    cursor: Cursor<'a>,
    out: HirBuilder<'a>,
}

impl ElementParser<'_> {
    fn invalid(
        &self,
        message: impl Into<String>,
        start: usize,
        end: usize,
        hint: impl Into<String>,
    ) -> Error {
        fault(ErrorKind::InvalidPattern, message, self.cursor.text, start, end).hint(hint)
    }

    fn run(mut self) -> Result<Hir> {
        while let Some(c) = self.cursor.peek() {
            let start = self.cursor.pos;
            match c {
                ' ' | '\t' | '\n' | '\r' => self.cursor.pos += 1,
                '\'' | '"' => self.literal(c, start)?,
                '?' | '*' | '+' | '{' => self.quantifier(c, start)?,
                '(' => {
                    self.cursor.pos += 1;
                    self.out.open(start)?;
                }
                ')' | '|' => {
                    self.need_element(start)?;
                    self.cursor.pos += 1;
                    if c == '|' {
                        self.out.alternate();
                    } else {
                        self.out.close(start)?;
                    }
                }
                _ if c.is_alphanumeric() || c == '_' => self.class(start)?,
                _ => {
                    let message = format!("unexpected character `{c}`");
                    let hint = "put literal text in quotes";
                    return Err(self.invalid(message, start, start + c.len_utf8(), hint));
                }
            }
        }
        self.need_element(self.cursor.pos)?;
        self.out.finish()
    }

    fn need_element(&self, at: usize) -> Result<()> {
        if !self.out.at_alternative_start() {
            return Ok(());
        }
        let hint = "an element is a class name such as UPPER, a literal in quotes or a group; `?` makes one optional";
        Err(self.invalid("an element is missing here", at, at + 1, hint))
    }

    fn quantifier(&mut self, c: char, start: usize) -> Result<()> {
        let (length, min, max) = match c {
            '?' => (1, 0, Some(1)),
            '*' => (1, 0, None),
            '+' => (1, 1, None),
            _ => match braces(self.cursor.rest()) {
                Some(found) => found,
                None => {
                    let hint = "write `{2}`, `{2,}` or `{2,4}`, and a literal brace in quotes";
                    return Err(self.invalid("not a quantifier", start, start + 1, hint));
                }
            },
        };
        self.cursor.pos += length;
        self.out.quantify(min, max, start, self.cursor.pos)
    }

    fn class(&mut self, start: usize) -> Result<()> {
        let rest = self.cursor.rest();
        let length = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..length];
        let Some((_, ranges)) = CLASSES.iter().find(|(known, _)| *known == name) else {
            let all = CLASSES.map(|(known, _)| known);
            let hint = match closest(&name.to_uppercase(), all) {
                Some(known) => format!("did you mean {known}?"),
                None => format!("the classes are {}; put literal text in quotes", all.join(", ")),
            };
            return Err(self.invalid(format!("unknown class `{name}`"), start, start + length, hint));
        };
        self.cursor.pos += length;
        self.out.atom(Hir::class(Class::Unicode(unicode(ranges))));
        Ok(())
    }

    fn literal(&mut self, quote: char, start: usize) -> Result<()> {
        let mut value = String::new();
        self.cursor.pos += 1;
        loop {
            let at = self.cursor.pos;
            let Some(c) = self.cursor.bump() else {
                return Err(unclosed(
                    self.cursor.text,
                    start,
                    "literal",
                    &format!("close it with `{quote}`"),
                ));
            };
            match c {
                _ if c == quote => break,
                '\\' => value.push(self.escape(at)?),
                _ => value.push(c),
            }
        }
        if value.is_empty() {
            let hint = "leave it out, or use `?` to make an element optional";
            return Err(self.invalid("an empty literal", start, self.cursor.pos, hint));
        }
        self.out.atom(Hir::literal(value.into_bytes()));
        Ok(())
    }

    /// Parses an escape and returns its character. The backslash of the escape is at `start`.
    fn escape(&mut self, start: usize) -> Result<char> {
        let hint = "the escapes are \\n, \\t, \\r, \\\\, \\', \\\" and \\u{..}";
        let Some(c) = self.cursor.bump() else {
            return Err(self.invalid("an escape is cut off", start, start + 1, hint));
        };
        match c {
            'n' => Ok('\n'),
            't' => Ok('\t'),
            'r' => Ok('\r'),
            '\\' | '\'' | '"' => Ok(c),
            'u' => {
                let digits =
                    self.cursor.rest().strip_prefix('{').and_then(|r| r.split_once('}')).map(|(d, _)| d);
                let length = digits.map_or(0, |d| d.len() + 2);
                let value = digits
                    .filter(|d| (1..=6).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_hexdigit()))
                    .and_then(|d| u32::from_str_radix(d, 16).ok())
                    .and_then(char::from_u32);
                self.cursor.pos += length;
                value.ok_or_else(|| {
                    self.invalid(
                        "not a code point",
                        start,
                        self.cursor.pos,
                        "write up to six hexadecimal digits: `\\u{e9}`",
                    )
                })
            }
            _ => Err(self.invalid(format!("unknown escape `\\{c}`"), start, self.cursor.pos, hint)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits() {
        let deep = "(".repeat(300) + "UPPER" + &")".repeat(300);
        assert_eq!(parse(&deep).unwrap_err().kind(), ErrorKind::TooComplex);
        assert_eq!(parse("((DIGIT{1000}){1000}){1000}").unwrap_err().kind(), ErrorKind::TooComplex);
        assert_eq!(parse(&"DIGIT ".repeat(20_000)).unwrap_err().kind(), ErrorKind::TooComplex);
    }

    proptest! {
        #[test]
        fn never_panics(text in r#"([A-Z]{1,6}|[()|?*+{},'"\\ 0-9un]|\PC){0,12}"#) {
            if let Err(e) = parse(&text) {
                let _ = e.to_string();
            }
        }
    }
}
