//! Look-around and word boundaries in regular expressions, which the parser of `regex-syntax` does
//! not have.
//!
//! Each opening of a look-around is read as that of a group with a name of its own, so flags and
//! nesting are the parser's. In the result these groups become look-arounds, resolved through the
//! automata of the module `ecma::lookaround`. Word boundaries become look-arounds of `\w`.
//!
//! # Cost
//!
//! One pass over the pattern and one over its HIR.
//!
//! # Alternatives considered
//!
//! Reading such a pattern with the ECMA parser was rejected: `\d`, classes and flags would change
//! their meaning with an added lookahead.

use regex_syntax::hir::{self, Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind};

use crate::char_lang::pattern_text::fault;
use crate::constraint::ecma::{LOOKAROUND_SLOTS, Look, Looks};
use crate::error::{Error, ErrorKind, Result};

/// Openings of look-around: the text, whether it looks ahead, and whether it is negated.
const OPENINGS: [(&str, bool, bool); 4] =
    [("(?<=", false, false), ("(?<!", false, true), ("(?=", true, false), ("(?!", true, true)];

/// A pattern in which look-arounds are groups.
pub(in crate::constraint) struct Renamed {
    pub text: String,
    /// For each opening: its place in the pattern and in `text`, and its form.
    openings: Vec<(usize, usize, &'static (&'static str, bool, bool))>,
}

/// Returns the name of the group for a look-around.
fn name(number: usize) -> String {
    format!("_.[{number}]")
}

impl Renamed {
    /// Renames the look-arounds of a pattern.
    pub(in crate::constraint) fn new(pattern: &str) -> Renamed {
        let (mut text, mut openings) = (String::with_capacity(pattern.len()), Vec::new());
        let (mut at, mut classes) = (0, 0);
        while let Some(c) = pattern[at..].chars().next() {
            let rest = &pattern[at..];
            let opening = OPENINGS.iter().find(|o| classes == 0 && rest.starts_with(o.0));
            if let Some(opening) = opening {
                let number = openings.len();
                openings.push((at, text.len(), opening));
                text.push_str(&format!("(?<{}>", name(number)));
                at += opening.0.len();
                continue;
            }
            let taken = match c {
                '\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
                '[' => {
                    classes += 1;
                    // A bracket that closes nothing, at the start of a class, is a member of it.
                    let start = if rest[1..].starts_with('^') { 2 } else { 1 };
                    start + usize::from(rest[start..].starts_with(']'))
                }
                ']' => {
                    classes = usize::saturating_sub(classes, 1);
                    1
                }
                _ => c.len_utf8(),
            };
            text.push_str(&rest[..taken]);
            at += taken;
        }
        Renamed { text, openings }
    }

    pub(in crate::constraint) fn is_empty(&self) -> bool {
        self.openings.is_empty()
    }

    /// Returns the place in the pattern of a place in the text.
    pub(super) fn original(&self, at: usize) -> usize {
        let mut shift = 0;
        for (number, (from, to, opening)) in self.openings.iter().enumerate() {
            let long = "(?<>".len() + name(number).len();
            if at <= *to {
                break;
            }
            if at < to + long {
                return from + (at - to).min(opening.0.len());
            }
            shift = (to + long) - (from + opening.0.len());
        }
        at - shift
    }

    /// Returns the HIR with its look-arounds in slots.
    ///
    /// # Errors
    /// `TooComplex` for too many look-arounds, `Unsupported` for line anchors next to them.
    pub(in crate::constraint) fn resolve(&self, hir: &Hir, pattern: &str) -> Result<(Hir, Looks)> {
        let mut resolver = Resolver { renamed: self, pattern, looks: Looks::default(), found: 0 };
        let resolved = resolver.part(hir)?;
        if resolver.found < self.openings.len() {
            let message = "a look-around is in a place where it has no effect, or in a comment";
            let at = self.openings[0].0;
            return Err(fault(ErrorKind::Unsupported, message, pattern, at, at + 3).hint("leave it out"));
        }
        Ok((resolved, resolver.looks))
    }
}

struct Resolver<'a> {
    renamed: &'a Renamed,
    pattern: &'a str,
    looks: Looks,
    /// Number of look-arounds of the pattern that were found.
    found: usize,
}

impl Resolver<'_> {
    /// Rebuilds a part. The recursion is as deep as the nesting, which the parser limits.
    fn part(&mut self, hir: &Hir) -> Result<Hir> {
        Ok(match hir.kind() {
            HirKind::Capture(capture) => {
                let names = capture.name.as_deref();
                let number = (0..self.renamed.openings.len()).find(|&n| names == Some(&*name(n)));
                let body = self.part(&capture.sub)?;
                match number {
                    None => body,
                    Some(number) => {
                        self.found += 1;
                        let &(from, _, &(_, ahead, negated)) = &self.renamed.openings[number];
                        {
                            let look = self.looks.slot(Look { ahead, negated, body });
                            look.ok_or_else(|| self.too_many(from))?
                        }
                    }
                }
            }
            HirKind::Look(look) => self.anchor(*look)?,
            HirKind::Class(Class::Bytes(class)) => {
                // In a pattern of valid UTF-8 these are ASCII.
                let ranges = class.ranges().iter();
                let ranges = ranges.map(|r| ClassUnicodeRange::new(r.start().into(), r.end().into()));
                Hir::class(Class::Unicode(ClassUnicode::new(ranges)))
            }
            HirKind::Repetition(repetition) => {
                let sub = Box::new(self.part(&repetition.sub)?);
                Hir::repetition(hir::Repetition { sub, ..repetition.clone() })
            }
            HirKind::Concat(parts) => Hir::concat(self.parts(parts)?),
            HirKind::Alternation(parts) => Hir::alternation(self.parts(parts)?),
            HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => hir.clone(),
        })
    }

    fn parts(&mut self, parts: &[Hir]) -> Result<Vec<Hir>> {
        parts.iter().map(|part| self.part(part)).collect()
    }

    fn too_many(&self, at: usize) -> Error {
        let message = format!("more than {} look-arounds", LOOKAROUND_SLOTS.len());
        fault(ErrorKind::TooComplex, message, self.pattern, at, at + 1).hint("use fewer of them")
    }

    fn anchor(&mut self, look: hir::Look) -> Result<Hir> {
        let (inside, ascii) = match look {
            hir::Look::Start | hir::Look::End => return Ok(Hir::look(look)),
            hir::Look::WordAscii => (false, true),
            hir::Look::WordAsciiNegate => (true, true),
            hir::Look::WordUnicode => (false, false),
            hir::Look::WordUnicodeNegate => (true, false),
            _ => return Err(self.unsupported()),
        };
        let word = word(ascii).ok_or_else(|| self.unsupported())?;
        self.looks.word_boundary(&word, inside).ok_or_else(|| self.too_many(0))
    }

    fn unsupported(&self) -> Error {
        Error::new(ErrorKind::Unsupported, "line anchors and half word boundaries are not supported")
    }
}

/// Returns the class of the characters of words.
fn word(ascii: bool) -> Option<Hir> {
    let text = if ascii { "[0-9A-Za-z_]" } else { r"\w" };
    regex_syntax::parse(text).ok()
}
