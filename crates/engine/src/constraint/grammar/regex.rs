//! Regular expressions inside a grammar, converted to grammar expressions.
//!
//! `regex-syntax` parses them. Brackets in classes are escaped first, because the dialect of Lark
//! (that of Python) has no nested classes and no operators on classes. Anchors, word boundaries and
//! look-around see the text of their terminal only. Such a pattern becomes an automaton.
//!
//! # Cost
//! Linear in the pattern and its classes; with look-around, that of the product of its automata.
//!
//! # Alternatives considered
//! Building automata here was rejected: small rules are inlined anyway.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind};

use super::cursor::Span;
use super::rules::{Expr, ExprId, Grammar};
use crate::char_lang::char_class;
use crate::char_lang::char_dfa::CharDfa;
use crate::char_lang::pattern_text::{MAX_NESTING, MAX_PATTERN_BYTES};
use crate::constraint::ecma::language;
use crate::constraint::ir::Ir;
use crate::constraint::regex::look::Renamed;
use crate::constraint::regex::syntax_error;
use crate::constraint::regular::to_ir;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Converts a pattern with some of the flags `i`, `s` and `x` to an expression; `span` is its span
/// in the grammar.
///
/// # Errors
/// Returns [`ErrorKind::InvalidPattern`], [`ErrorKind::Unsupported`] or [`ErrorKind::TooComplex`],
/// with that span.
pub(super) fn expression(pattern: &str, flags: &str, span: Span, grammar: &mut Grammar) -> Result<ExprId> {
    if pattern.len() > MAX_PATTERN_BYTES {
        let message = format!("a pattern of more than {MAX_PATTERN_BYTES} bytes");
        return Err(grammar.fault(ErrorKind::TooComplex, message, span, "split it into several terminals"));
    }
    let spaced = flags.contains('x');
    let renamed = Renamed::new(&plain_classes(pattern, spaced));
    let parsed = ParserBuilder::new()
        .nest_limit(MAX_NESTING)
        .case_insensitive(flags.contains('i'))
        .dot_matches_new_line(flags.contains('s'))
        .ignore_whitespace(spaced)
        .build()
        .parse(&renamed.text);
    let parsed = parsed.map_err(|error| syntax_error(&error, pattern, |at| at));
    let converted = parsed.and_then(|hir| {
        if renamed.is_empty() && hir.properties().look_set().is_empty() {
            return Ok(convert(&hir, grammar));
        }
        looking(&renamed, &hir, pattern, grammar)
    });
    converted.map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::InvalidPattern => {
                "literal braces, brackets and other operators are written with a backslash"
            }
            _ => "look-around sees the text of its terminal only; spell the alternatives out",
        };
        grammar.fault(error.kind(), format!("in this pattern: {}", error.message()), span, hint)
    })
}

/// Converts a pattern with anchors, word boundaries or look-around.
fn looking(renamed: &Renamed, hir: &Hir, pattern: &str, grammar: &mut Grammar) -> Result<ExprId> {
    let (hir, looks) = renamed.resolve(hir, pattern)?;
    let (mut nodes, mut ir) = (Ir::new(), Ir::new());
    let root = language(pattern, &hir, &looks, (false, false), &mut nodes)?;
    let texts = CharDfa::from_node(&nodes, root)?;
    if texts.is_empty() {
        let message = "look-around that no text of the terminal fits";
        return Err(Error::new(ErrorKind::Unsupported, message));
    }
    // An embedded value is never the empty text.
    let least = u32::from(!texts.matches(""));
    let root = to_ir::lower(&texts.without(&CharDfa::words([""])?)?, &mut ir)?;
    ir.set_root(root);
    grammar.foreign.push(ir);
    let message = format!("anchors and look-around see the text of their terminal only: /{pattern}/");
    grammar.warnings.push(Warning::new(WarningKind::TerminalLookAround, message));
    let value = grammar.push(Expr::Foreign(grammar.foreign.len() - 1));
    Ok(grammar.repeat(value, least, Some(1)))
}

/// Escapes the characters in classes that only `regex-syntax` treats specially: brackets, operators,
/// and if blanks are ignored (`spaced`), blanks and `#`.
fn plain_classes(pattern: &str, spaced: bool) -> String {
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
            '\n' | '\r' | '\t' | ' ' | '#' if inside && spaced => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}

/// Converts a parsed pattern without look-around. The recursion follows the nesting, which the parser
/// limits.
fn convert(hir: &Hir, grammar: &mut Grammar) -> ExprId {
    let expr = match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Expr::Literal(Vec::new()),
        HirKind::Literal(literal) => Expr::Literal(literal.0.to_vec()),
        HirKind::Class(Class::Unicode(class)) => Expr::Class(char_class::ranges(class).collect()),
        // Unicode mode is on. Only the flag `u` in a group can turn it off and produce classes of
        // bytes.
        HirKind::Class(Class::Bytes(class)) => Expr::Class(
            class.ranges().iter().map(|r| (char::from(r.start()), char::from(r.end().min(0x7f)))).collect(),
        ),
        HirKind::Capture(capture) => return convert(&capture.sub, grammar),
        HirKind::Repetition(repetition) => {
            let sub = convert(&repetition.sub, grammar);
            return grammar.repeat(sub, repetition.min, repetition.max);
        }
        HirKind::Concat(parts) => {
            let parts = parts.iter().map(|p| convert(p, grammar)).collect();
            return grammar.seq(parts);
        }
        HirKind::Alternation(parts) => {
            let parts = parts.iter().map(|p| convert(p, grammar)).collect();
            return grammar.alt(parts);
        }
    };
    grammar.push(expr)
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
