//! Predefined character classes of ECMA-262 and the members of a bracketed class.
//!
//! # Cost
//!
//! Constant, except for Unicode properties, which `regex-syntax` looks up in its tables.
//!
//! # Alternatives considered
//!
//! Property tables of our own were rejected, because they would go out of date.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

use crate::char_lang::char_class::unicode;

pub(super) fn digit() -> ClassUnicode {
    unicode(&[('0', '9')])
}

pub(super) fn word() -> ClassUnicode {
    unicode(&[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')])
}

/// Returns the characters of `\s`: WhiteSpace and LineTerminator.
pub(super) fn space() -> ClassUnicode {
    unicode(&[
        ('\t', '\r'),
        (' ', ' '),
        ('\u{a0}', '\u{a0}'),
        ('\u{1680}', '\u{1680}'),
        ('\u{2000}', '\u{200a}'),
        ('\u{2028}', '\u{2029}'),
        ('\u{202f}', '\u{202f}'),
        ('\u{205f}', '\u{205f}'),
        ('\u{3000}', '\u{3000}'),
        ('\u{feff}', '\u{feff}'),
    ])
}

/// Returns the characters of `.`: all but LineTerminator.
pub(super) fn dot() -> ClassUnicode {
    negated(unicode(&[('\n', '\n'), ('\r', '\r'), ('\u{2028}', '\u{2029}')]))
}

pub(super) fn negated(mut class: ClassUnicode) -> ClassUnicode {
    class.negate();
    class
}

/// Returns the characters with a Unicode property, given by its name without braces.
pub(super) fn property(name: &str) -> Option<ClassUnicode> {
    if name.eq_ignore_ascii_case("any") {
        return Some(negated(unicode(&[])));
    }
    let hir = regex_syntax::parse(&format!("\\p{{{name}}}")).ok()?;
    match hir.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class),
        HirKind::Literal(literal) => {
            let c = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some(unicode(&[(c, c)]))
        }
        _ => None,
    }
}

/// Meaning of an escape or a class member. Code points include surrogates until they are paired; a
/// lone surrogate matches no text.
pub(super) enum ClassItem {
    Code(u32),
    Set(ClassUnicode),
}

/// Members of a bracketed class, collected while it is parsed.
#[derive(Default)]
pub(super) struct Members(Vec<ClassUnicodeRange>);

impl Members {
    pub(super) fn push(&mut self, item: ClassItem) {
        match item {
            ClassItem::Code(code) => self.range(code, code),
            ClassItem::Set(class) => self.0.extend(class.ranges()),
        }
    }

    /// Adds the code points `low..=high` without the surrogates among them, which no text contains.
    pub(super) fn range(&mut self, low: u32, high: u32) {
        for (low, high) in [(low, high.min(0xD7FF)), (low.max(0xE000), high)] {
            if low <= high
                && let (Some(low), Some(high)) = (char::from_u32(low), char::from_u32(high))
            {
                self.0.push(ClassUnicodeRange::new(low, high));
            }
        }
    }

    pub(super) fn finish(self) -> ClassUnicode {
        ClassUnicode::new(self.0)
    }
}
