//! Regular expressions inside a grammar, converted to grammar expressions.
//!
//! `regex-syntax` parses them. Brackets in classes are escaped first, because the dialect of Lark
//! (that of Python) has no nested classes and no operators on classes. Anchors and look-around are
//! refused: a terminal does not see the text around it.
//!
//! # Cost
//! Linear in the pattern and its classes.
//!
//! # Alternatives considered
//! Building automata here was rejected: small rules are inlined anyway.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::cursor::Span;
use super::rules::{Expr, ExprId, Grammar};
use crate::char_lang::char_class;
use crate::char_lang::pattern_text::{MAX_NESTING, MAX_PATTERN_BYTES};
use crate::constraint::regex::syntax_error;
use crate::error::{ErrorKind, Result};

/// Converts a pattern to an expression; `span` is its span in the grammar.
///
/// # Errors
/// Returns [`ErrorKind::InvalidPattern`], [`ErrorKind::Unsupported`] or [`ErrorKind::TooComplex`],
/// with that span.
pub(super) fn expression(
    pattern: &str,
    (ignore_case, dot_all): (bool, bool),
    span: Span,
    grammar: &mut Grammar,
) -> Result<ExprId> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let message = format!("a pattern of more than {MAX_PATTERN_BYTES} bytes");
        return Err(grammar.fault(ErrorKind::TooComplex, message, span, "split it into several terminals"));
    }
    let parsed = ParserBuilder::new()
        .nest_limit(MAX_NESTING)
        .case_insensitive(ignore_case)
        .dot_matches_new_line(dot_all)
        .build()
        .parse(&plain_classes(pattern));
    let hir = parsed.map_err(|error| {
        let error = syntax_error(&error, pattern, |at| at);
        let hint = match error.kind() {
            ErrorKind::Unsupported => "spell the alternatives out",
            _ => "literal braces, brackets and other operators are written with a backslash",
        };
        grammar.fault(error.kind(), format!("in this pattern: {}", error.message()), span, hint)
    })?;
    convert(&hir, span, grammar)
}

/// Escapes the characters in classes that only `regex-syntax` treats specially.
fn plain_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len() + 8);
    let mut chars = pattern.chars().peekable();
    let (mut inside, mut first) = (false, false);
    while let Some(c) = chars.next() {
        let opened = std::mem::take(&mut first);
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '[' if !inside => {
                inside = true;
                first = true;
                out.push(c);
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                continue;
            }
            // A bracket right after the opening one is a member.
            ']' if inside && opened => out.push('\\'),
            ']' if inside => inside = false,
            '[' | '&' | '~' if inside => out.push('\\'),
            '-' if inside && chars.peek() == Some(&'-') => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Converts a parsed pattern. The recursion follows the nesting, which the parser limits.
fn convert(hir: &Hir, span: Span, grammar: &mut Grammar) -> Result<ExprId> {
    let expr = match hir.kind() {
        HirKind::Empty => Expr::Literal(Vec::new()),
        HirKind::Literal(literal) => Expr::Literal(literal.0.to_vec()),
        HirKind::Class(Class::Unicode(class)) => Expr::Class(char_class::ranges(class).collect()),
        // Unicode mode is on. Only the flag `u` in a group can turn it off and produce classes of
        // bytes.
        HirKind::Class(Class::Bytes(class)) => Expr::Class(
            class.ranges().iter().map(|r| (char::from(r.start()), char::from(r.end().min(0x7f)))).collect(),
        ),
        HirKind::Look(_) => {
            let message = "anchors and word boundaries have no meaning inside a terminal";
            let hint = "remove them: a terminal always matches as a whole";
            return Err(grammar.fault(ErrorKind::Unsupported, message, span, hint));
        }
        HirKind::Capture(capture) => return convert(&capture.sub, span, grammar),
        HirKind::Repetition(repetition) => {
            let sub = convert(&repetition.sub, span, grammar)?;
            return Ok(grammar.repeat(sub, repetition.min, repetition.max));
        }
        HirKind::Concat(parts) => {
            let parts = parts.iter().map(|p| convert(p, span, grammar)).collect::<Result<_>>()?;
            return Ok(grammar.seq(parts));
        }
        HirKind::Alternation(parts) => {
            let parts = parts.iter().map(|p| convert(p, span, grammar)).collect::<Result<_>>()?;
            return Ok(grammar.alt(parts));
        }
    };
    Ok(grammar.push(expr))
}

/// Matches a text with any case of its letters.
pub(super) fn any_case(text: &str, grammar: &mut Grammar) -> ExprId {
    let mut parts = Vec::new();
    for c in text.chars() {
        let mut class = char_class::unicode(&[(c, c)]);
        class.case_fold_simple();
        let ranges = char_class::ranges(&class).collect();
        parts.push(grammar.push(Expr::Class(ranges)));
    }
    grammar.seq(parts)
}
