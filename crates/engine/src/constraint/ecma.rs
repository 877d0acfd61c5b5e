//! Parser for regular expressions of ECMA-262, as JSON Schema's `pattern` uses them.
//!
//! The dialect is that of the `u` flag: characters are Unicode scalar values. Annex B leniency
//! applies where it cannot mislead: identity escapes of punctuation, `{` and `]` as literals,
//! `[\w-.]`. `\d \w \s .` have their ECMA meaning, and `$` matches only at the end. Look-around and
//! `\b` are resolved through automata (module `lookaround`). Backreferences and inline flags are
//! refused with their span. Letters with a meaning in other dialects (`\A`, `\Z`, `\h`) are errors,
//! not literals.
//!
//! A pattern with a group that only other dialects have, such as `(?i)` or `(?P<name>...)`, is none of
//! ECMA-262. It has the syntax and meaning of the crate regex-syntax, as pydantic's patterns have.
//!
//! A pattern matches anywhere in the text, so the language is that of all texts that *contain* a
//! match. Anchors are resolved exactly. Repetitions at an open end are
//! first cut to their minimum, because the text around the match absorbs the rest.
//!
//! # Cost
//!
//! Linear in the pattern plus the size of its classes.
//!
//! # Alternatives considered
//!
//! Rewriting the pattern into the string of another dialect was rejected: spans are lost, and class
//! syntax differs in ways that rewriting gets wrong.

use regex_syntax::hir::{self, Class, ClassUnicode, Hir, HirKind};

use self::class::ClassItem;
use super::ir::{Ir, Node, NodeId};
use crate::char_lang::char_class::{self, ANY_CHAR};
use crate::char_lang::cursor::Cursor;
use crate::char_lang::hir_builder::{HirBuilder, braces, unclosed};
use crate::char_lang::pattern_text::{check_length, fault};
use crate::constraint::regular::hir_to_ir;
use crate::constraint::regular::utf8_class;
use crate::error::{Error, ErrorKind, Result};
pub(super) use lookaround::{LOOKAROUND_SLOTS, Look, Looks, language};

mod class;
mod lookaround;

/// Returns the language of all texts that contain a match of `pattern`, or a [`Node::Never`] if no
/// text does.
///
/// # Errors
/// [`ErrorKind::InvalidPattern`], [`ErrorKind::Unsupported`] or [`ErrorKind::TooComplex`], each
/// with the span of the fault.
pub(crate) fn parse(pattern: &str, ir: &mut Ir) -> Result<NodeId> {
    Pattern::parse(pattern)?.node(pattern, ir)
}

/// A parsed pattern, for callers that ask more than one question about it.
pub(crate) struct Pattern {
    hir: Hir,
    /// Look-arounds of the pattern. In `hir`, the entries of [`lookaround::LOOKAROUND_SLOTS`]
    /// represent them.
    looks: Looks,
}

/// Ranges of a class (sorted, disjoint), and the minimum and maximum number of its characters.
pub(crate) type SingleClass = (Vec<(char, char)>, u32, Option<u32>);

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// The same as [`parse()`].
    pub(crate) fn parse(pattern: &str) -> Result<Self> {
        check_length(pattern)?;
        if is_of_other_dialect(pattern) {
            let (hir, looks) = super::regex::parsed(pattern)?;
            return Ok(Pattern { hir: trim(hir, true, true), looks });
        }
        let out = HirBuilder::new(pattern);
        let (hir, looks) = EcmaParser {
            cursor: Cursor::new(pattern),
            out,
            open_lookarounds: Vec::new(),
            looks: Looks::default(),
        }
        .run()?;
        Ok(Pattern { hir: trim(hir, true, true), looks })
    }

    /// Returns the language of all texts that contain a match of this pattern. `text` is the text
    /// that the pattern was parsed from.
    ///
    /// # Errors
    /// The same as [`parse()`].
    pub(crate) fn node(&self, text: &str, ir: &mut Ir) -> Result<NodeId> {
        let base = ir.len();
        match hir_to_ir::language(&self.hir, (true, true), ir) {
            Some(root) => hir_to_ir::check_states(text, ir, base, root).map(|()| root),
            None => lookaround::language(text, &self.hir, &self.looks, (true, true), ir),
        }
    }

    /// Returns a class and two counts if the texts that contain a match are exactly those of `min`
    /// to `max` characters out of that class. So `^[a-z]{1,40}$` needs only a counter, and `.*`
    /// needs no automaton.
    pub(crate) fn single_class(&self) -> Option<SingleClass> {
        let properties = self.hir.properties();
        if properties.minimum_len() == Some(0) && properties.look_set().is_empty() {
            return Some((vec![ANY_CHAR], 0, None));
        }
        class_between_anchors(match self.hir.kind() {
            HirKind::Concat(items) => items,
            HirKind::Empty => &[],
            _ => std::slice::from_ref(&self.hir),
        })
    }
}

/// Returns true if a pattern has a group with flags or a named group of Python.
fn is_of_other_dialect(pattern: &str) -> bool {
    let (mut chars, mut in_class) = (pattern.char_indices(), false);
    while let Some((at, c)) = chars.next() {
        let rest = &pattern[at..];
        match c {
            '\\' => drop(chars.next()),
            ']' => in_class = false,
            '[' => in_class = true,
            '(' if !in_class => {
                let Some(rest) = rest.strip_prefix("(?") else { continue };
                let end = rest.trim_start_matches(|c: char| "imsuxURL-".contains(c));
                if rest.starts_with("P<") || end.len() < rest.len() && end.starts_with([':', ')']) {
                    return true;
                }
            }
            _ => {}
        }
    }
    false
}

/// Returns the class and counts of a sequence whose items all use the same class.
fn class_between_anchors(items: &[Hir]) -> Option<SingleClass> {
    let (start, end, items) = hir_to_ir::between_anchors(items);
    let mut found = (vec![ANY_CHAR], 0u32, Some(0u32));
    for (index, item) in items.iter().enumerate() {
        let (ranges, min, max) = class_of(item)?;
        if index > 0 && ranges != found.0 {
            return None;
        }
        let max = found.2.zip(max).map(|(a, b)| a.saturating_add(b));
        found = (ranges, found.1.saturating_add(min), max);
    }
    if start && end {
        return Some(found);
    }
    // Any text may follow at an open end. That is one class only if the rest is any text, too.
    (found.0 == [ANY_CHAR]).then_some((found.0, found.1, None))
}

/// Returns the ranges and counts of a class or of a repetition of one. Plain literals give `None`:
/// they are better kept as literals.
fn class_of(hir: &Hir) -> Option<SingleClass> {
    match hir.kind() {
        HirKind::Class(Class::Unicode(class)) => Some((char_class::ranges(class).collect(), 1, Some(1))),
        HirKind::Repetition(repetition) => {
            let ranges = match repetition.sub.kind() {
                HirKind::Class(Class::Unicode(class)) => char_class::ranges(class).collect(),
                HirKind::Literal(literal) => {
                    let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
                    let (first, None) = (chars.next()?, chars.next()) else { return None };
                    vec![(first, first)]
                }
                _ => return None,
            };
            Some((ranges, repetition.min, repetition.max))
        }
        _ => None,
    }
}

/// Returns the language of any number of characters out of `ranges`.
pub(crate) fn class_star(ranges: &[(char, char)], ir: &mut Ir) -> NodeId {
    let class = utf8_class::class(ranges, ir);
    if *ir.node(class) == Node::Never {
        return ir.push(Node::Empty);
    }
    ir.repeat(class, 0, None)
}

/// Cuts repetitions at an open end, `left` or `right` of the part, to their minimum: `any* X{2,9} Y`
/// becomes `any* X{2} Y`. This also holds with anchors inside `X`, because a dropped iteration takes
/// its condition with it. The recursion follows the nesting, which the parser limits.
fn trim(hir: Hir, left: bool, right: bool) -> Hir {
    // Most parts stay unchanged, and taking one apart and rebuilding it allocates.
    if let HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) = hir.kind() {
        return hir;
    }
    match hir.into_kind() {
        HirKind::Repetition(hir::Repetition { min, sub, .. }) => {
            Hir::repetition(hir::Repetition { min, max: Some(min), greedy: true, sub })
        }
        HirKind::Alternation(parts) => {
            Hir::alternation(parts.into_iter().map(|p| trim(p, left, right)).collect())
        }
        HirKind::Concat(parts) => trim_sequence(parts, left, right),
        HirKind::Capture(capture) => trim(*capture.sub, left, right),
        // Returned above.
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) | HirKind::Look(_) => Hir::empty(),
    }
}

fn trim_sequence(parts: Vec<Hir>, left: bool, right: bool) -> Hir {
    let mut head = Vec::with_capacity(parts.len());
    let mut parts = parts.into_iter();
    let mut tail = None;
    // A part that became empty exposes its neighbour.
    while left && let Some(first) = parts.next() {
        let first = trim(first, true, right && parts.len() == 0);
        if *first.kind() != HirKind::Empty {
            head.push(first);
            break;
        }
    }
    while right && let Some(last) = parts.next_back() {
        let last = trim(last, left && head.is_empty(), true);
        if *last.kind() != HirKind::Empty {
            tail = Some(last);
            break;
        }
    }
    head.extend(parts);
    head.extend(tail);
    Hir::concat(head)
}

struct EcmaParser<'a> {
    cursor: Cursor<'a>,
    out: HirBuilder<'a>,
    /// State outside of each open look-around, outermost first.
    open_lookarounds: Vec<OpenLookaround<'a>>,
    looks: Looks,
}

/// An open look-around whose body is being parsed, with the state outside of it.
struct OpenLookaround<'a> {
    out: HirBuilder<'a>,
    start: usize,
    ahead: bool,
    negated: bool,
}

fn set(class: ClassUnicode) -> Hir {
    Hir::class(Class::Unicode(class))
}

impl EcmaParser<'_> {
    fn invalid(&self, message: impl Into<String>, start: usize, hint: impl Into<String>) -> Error {
        let end = self.cursor.pos.max(start + 1);
        fault(ErrorKind::InvalidPattern, message, self.cursor.text, start, end).hint(hint)
    }

    fn run(mut self) -> Result<(Hir, Looks)> {
        while let Some(c) = self.cursor.peek() {
            let start = self.cursor.pos;
            match c {
                '{' if braces(self.cursor.rest()).is_some() => self.quantifier(start)?,
                '*' | '+' | '?' => self.quantifier(start)?,
                '(' => self.group(start)?,
                '[' => {
                    self.cursor.pos += 1;
                    let class = self.class(start)?;
                    self.out.atom(set(class));
                }
                '\\' => self.escape(start)?,
                _ => {
                    self.cursor.pos += c.len_utf8();
                    match c {
                        '^' => self.out.anchor(Hir::look(hir::Look::Start)),
                        '$' => self.out.anchor(Hir::look(hir::Look::End)),
                        '|' => self.out.alternate(),
                        ')' => self.close(start)?,
                        '.' => self.out.atom(set(class::dot())),
                        _ => self.out.character(c),
                    }
                }
            }
        }
        let hir = self.out.finish()?;
        match self.open_lookarounds.first() {
            Some(open) => Err(unclosed(self.cursor.text, open.start, "group", "add a closing parenthesis")),
            None => Ok((hir, self.looks)),
        }
    }

    /// Closes a group or the body of a look-around.
    fn close(&mut self, at: usize) -> Result<()> {
        if !self.out.is_flat() {
            return self.out.close(at);
        }
        let Some(OpenLookaround { out, start, ahead, negated }) = self.open_lookarounds.pop() else {
            return self.out.close(at);
        };
        let body = std::mem::replace(&mut self.out, out).finish()?;
        let look = self.looks.slot(Look { ahead, negated, body });
        self.condition(look, start)
    }

    /// Appends the assertion of a look-around or word boundary; `None` is one too many.
    fn condition(&mut self, condition: Option<Hir>, start: usize) -> Result<()> {
        let Some(condition) = condition else {
            let message = format!("more than {} look-arounds and word boundaries", LOOKAROUND_SLOTS.len());
            return Err(fault(ErrorKind::TooComplex, message, self.cursor.text, start, self.cursor.pos));
        };
        self.out.anchor(condition);
        Ok(())
    }

    fn quantifier(&mut self, start: usize) -> Result<()> {
        let (length, min, max) = match self.cursor.peek() {
            Some('*') => (1, 0, None),
            Some('+') => (1, 1, None),
            Some('?') => (1, 0, Some(1)),
            _ => braces(self.cursor.rest()).unwrap_or((1, 1, Some(1))),
        };
        self.cursor.pos += length;
        self.cursor.eat("?");
        self.out.quantify(min, max, start, self.cursor.pos)
    }

    fn group(&mut self, start: usize) -> Result<()> {
        self.cursor.pos += 1;
        if self.cursor.eat("?:") || !self.cursor.eat("?") {
            return self.out.open(start);
        }
        for (look, ahead, negated) in
            [("=", true, false), ("!", true, true), ("<=", false, false), ("<!", false, true)]
        {
            if self.cursor.eat(look) {
                if self.open_lookarounds.len() >= LOOKAROUND_SLOTS.len() {
                    let message = format!("more than {} look-arounds", LOOKAROUND_SLOTS.len());
                    let hint = self.cursor.pos;
                    return Err(fault(ErrorKind::TooComplex, message, self.cursor.text, start, hint));
                }
                let out = std::mem::replace(&mut self.out, HirBuilder::new(self.cursor.text));
                self.open_lookarounds.push(OpenLookaround { out, start, ahead, negated });
                return Ok(());
            }
        }
        if self.cursor.eat("<") {
            let name_start = self.cursor.pos;
            let Some(length) = self.cursor.rest().find('>') else {
                return Err(unclosed(self.cursor.text, start, "group name", "close it with `>`"));
            };
            self.cursor.pos += length + 1;
            let name = &self.cursor.text[name_start..name_start + length];
            let valid = |(i, c): (usize, char)| {
                c == '_' || c == '$' || c.is_alphabetic() || (i > 0 && c.is_alphanumeric())
            };
            if name.is_empty() || !name.chars().enumerate().all(valid) {
                let hint = "names have letters, digits, `_` and `$`";
                return Err(self.invalid("not a group name", name_start, hint));
            }
            return self.out.open(start);
        }
        self.cursor.bump();
        let hint = "groups are `(...)`, `(?:...)`, `(?<name>...)` and those with flags, such as `(?i:...)`";
        Err(self.invalid("unknown kind of group", start, hint))
    }

    /// Parses an escape outside a class.
    fn escape(&mut self, start: usize) -> Result<()> {
        self.cursor.pos += 1;
        match self.cursor.peek() {
            Some(kind @ ('b' | 'B')) => {
                self.cursor.pos += 1;
                let boundary = self.looks.word_boundary(&set(class::word()), kind == 'B');
                return self.condition(boundary, start);
            }
            Some('k' | '1'..='9') => {
                self.cursor.pos += 1;
                let message = "backreferences are not supported";
                return Err(fault(ErrorKind::Unsupported, message, self.cursor.text, start, self.cursor.pos)
                    .hint("they are not regular: write the text again, or list the alternatives"));
            }
            _ => {}
        }
        match self.character_escape(start)? {
            ClassItem::Code(code) => match char::from_u32(code) {
                Some(c) => self.out.character(c),
                None => self.out.atom(Hir::fail()),
            },
            ClassItem::Set(class) => self.out.atom(set(class)),
        }
        Ok(())
    }

    /// Parses an escape with the same meaning inside and outside a class. `pos` is after the
    /// backslash.
    fn character_escape(&mut self, start: usize) -> Result<ClassItem> {
        let Some(c) = self.cursor.bump() else {
            let hint = "write `\\\\` for a backslash";
            return Err(self.invalid("the pattern ends in a backslash", start, hint));
        };
        let code = match c {
            'd' => return Ok(ClassItem::Set(class::digit())),
            'D' => return Ok(ClassItem::Set(class::negated(class::digit()))),
            'w' => return Ok(ClassItem::Set(class::word())),
            'W' => return Ok(ClassItem::Set(class::negated(class::word()))),
            's' => return Ok(ClassItem::Set(class::space())),
            'S' => return Ok(ClassItem::Set(class::negated(class::space()))),
            'p' | 'P' => return self.property(c == 'P', start).map(ClassItem::Set),
            't' => 0x09,
            'n' => 0x0A,
            'v' => 0x0B,
            'f' => 0x0C,
            'r' => 0x0D,
            '0' if !self.cursor.peek().is_some_and(|c| c.is_ascii_digit()) => 0,
            'c' => match self.cursor.peek() {
                Some(letter) if letter.is_ascii_alphabetic() => {
                    self.cursor.pos += 1;
                    letter as u32 % 32
                }
                _ => return Err(self.invalid("`\\c` must be followed by a letter", start, "such as `\\cJ`")),
            },
            'x' => self.hex(2, start)?,
            'u' => self.unicode_escape(start)?,
            '0'..='9' => {
                return Err(self.invalid("octal escapes are not supported", start, "write `\\xHH`"));
            }
            _ if c.is_ascii_alphabetic() => {
                let hint = match c {
                    'A' => "write `^` for the start of the text".to_owned(),
                    'z' | 'Z' => "write `$` for the end of the text".to_owned(),
                    _ => format!("write `{c}` for the letter itself"),
                };
                return Err(self.invalid(format!("unknown escape `\\{c}`"), start, hint));
            }
            _ => c as u32,
        };
        Ok(ClassItem::Code(code))
    }

    fn hex(&mut self, digits: usize, start: usize) -> Result<u32> {
        let value = self.cursor.rest().get(..digits).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        match value.and_then(|d| u32::from_str_radix(d, 16).ok()) {
            Some(value) => {
                self.cursor.pos += digits;
                Ok(value)
            }
            None => {
                let message = format!("this escape needs {digits} hexadecimal digits");
                Err(self.invalid(message, start, "such as `\\x41` and `\\u0041`"))
            }
        }
    }

    /// Parses the rest of `\u`: four digits, a surrogate pair, or a code point in braces.
    fn unicode_escape(&mut self, start: usize) -> Result<u32> {
        if self.cursor.eat("{") {
            let end = self.cursor.rest().find('}').unwrap_or(0);
            let digits = &self.cursor.text[self.cursor.pos..self.cursor.pos + end];
            let significant = digits.trim_start_matches('0');
            let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
            let value = if hex && significant.len() <= 6 {
                u32::from_str_radix(significant, 16).unwrap_or(0)
            } else {
                u32::MAX
            };
            self.cursor.pos += end + usize::from(end > 0);
            if value > char::MAX as u32 {
                let hint = "write hexadecimal digits up to 10FFFF: `\\u{1F600}`";
                return Err(self.invalid("not a code point", start, hint));
            }
            return Ok(value);
        }
        let lead = self.hex(4, start)?;
        if (0xD800..0xDC00).contains(&lead) {
            let behind = self.cursor.pos;
            if self.cursor.eat("\\u")
                && let Ok(trail) = self.hex(4, start)
                && (0xDC00..0xE000).contains(&trail)
            {
                return Ok(0x1_0000 + ((lead - 0xD800) << 10) + (trail - 0xDC00));
            }
            self.cursor.pos = behind;
        }
        Ok(lead)
    }

    /// Parses the rest of `\p` or `\P`.
    fn property(&mut self, negated: bool, start: usize) -> Result<ClassUnicode> {
        let end = if self.cursor.eat("{") { self.cursor.rest().find('}').unwrap_or(0) } else { 0 };
        if end == 0 {
            return Err(self.invalid("a property needs a name in braces", start, "such as `\\p{L}`"));
        }
        let name = &self.cursor.text[self.cursor.pos..self.cursor.pos + end];
        self.cursor.pos += end + 1;
        let valid = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'=');
        let class = valid.then(|| class::property(name)).flatten();
        match class {
            Some(class) if negated => Ok(class::negated(class)),
            Some(class) => Ok(class),
            None => Err(self.invalid(
                format!("unknown property `{name}`"),
                start,
                "such as `L`, `Lu`, `Script=Greek`, `Alphabetic`",
            )),
        }
    }

    /// Parses the rest of a class whose bracket at `start` was read.
    fn class(&mut self, start: usize) -> Result<ClassUnicode> {
        let negated = self.cursor.eat("^");
        let mut members = class::Members::default();
        loop {
            let at = self.cursor.pos;
            match self.cursor.peek() {
                None => return Err(unclosed(self.cursor.text, start, "class", "add a closing bracket")),
                Some(']') => {
                    self.cursor.pos += 1;
                    let class = members.finish();
                    return Ok(if negated { class::negated(class) } else { class });
                }
                Some(_) => {}
            }
            let low = self.class_item(at)?;
            let ranged = self.cursor.rest().starts_with('-')
                && !self.cursor.rest().starts_with("-]")
                && self.cursor.rest().len() > 1;
            if !ranged {
                members.push(low);
                continue;
            }
            self.cursor.pos += 1;
            let dash_end = self.cursor.pos;
            let high = self.class_item(dash_end)?;
            match (low, high) {
                (ClassItem::Code(low), ClassItem::Code(high)) if low <= high => members.range(low, high),
                (ClassItem::Code(_), ClassItem::Code(_)) => {
                    let hint = "smallest first";
                    return Err(self.invalid("the ends of this range are out of order", at, hint));
                }
                // Annex B: next to a class on either side, the hyphen is itself a member.
                (low, high) => {
                    members.push(low);
                    members.push(ClassItem::Code('-' as u32));
                    members.push(high);
                }
            }
        }
    }

    fn class_item(&mut self, start: usize) -> Result<ClassItem> {
        let Some(c) = self.cursor.bump() else {
            return Err(self.invalid("the class ends here", start, "add a closing bracket"));
        };
        if c != '\\' {
            return Ok(ClassItem::Code(c as u32));
        }
        match self.cursor.peek() {
            Some('b') => {
                self.cursor.pos += 1;
                Ok(ClassItem::Code(0x08))
            }
            Some('1'..='9') => {
                self.cursor.pos += 1;
                Err(self.invalid("octal escapes are not supported", start, "write `\\xHH`"))
            }
            _ => self.character_escape(start),
        }
    }
}

#[cfg(test)]
mod tests;
