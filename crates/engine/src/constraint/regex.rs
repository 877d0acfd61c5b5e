//! Regular expressions in the syntax of the `regex-syntax` crate, matched against the whole output.
//!
//! Unicode mode is on, and only valid UTF-8 matches. `^` and `$` may occur anywhere and mean the
//! two ends of the output. Look-around and word boundaries are resolved through automata (module
//! `look`). Multi-line anchors are refused.
//!
//! # Cost
//!
//! Parsing is linear in the pattern plus the size of its classes.
//!
//! # Alternatives considered
//!
//! Running `regex-automata`'s automata, instead of lowering to the common representation, was
//! rejected. A regular expression would then be a second kind of machine, without the counters and
//! the shared masks of the first.

use regex_syntax::ParserBuilder;
use regex_syntax::ast::{self, AssertionKind, Ast};
use regex_syntax::hir::Hir;

use self::look::Renamed;
use super::ecma::{Looks, language};
use super::ir::{Ir, Node};
use crate::char_lang::pattern_text::{MAX_NESTING, check_length, fault};
use crate::constraint::regular::hir_to_ir;
use crate::error::{Error, ErrorKind, Place, Result};

pub(in crate::constraint) mod look;

/// Returns the language of `pattern`.
///
/// # Errors
/// Each error has the span of the fault. [`ErrorKind::InvalidPattern`] if the pattern does not
/// parse, [`ErrorKind::Unsupported`] if it uses backreferences or multi-line anchors,
/// [`ErrorKind::TooComplex`] if it exceeds a limit, and [`ErrorKind::Unsatisfiable`] if no text
/// matches it.
pub(crate) fn parse(pattern: &str) -> Result<Ir> {
    check_length(pattern)?;
    let (hir, renamed) = hir(pattern)?;
    let mut ir = Ir::counting();
    let plain = if renamed.is_empty() { hir_to_ir::language(&hir, (false, false), &mut ir) } else { None };
    let root = match plain {
        Some(root) => root,
        None => {
            let (hir, looks) = resolved(pattern, &hir, &renamed)?;
            language(pattern, &hir, &looks, (false, false), &mut ir)?
        }
    };
    if *ir.node(root) == Node::Never {
        let message = "no text matches this pattern";
        return Err(fault(ErrorKind::Unsatisfiable, message, pattern, 0, pattern.len())
            .hint("look for empty classes and for anchors in the middle"));
    }
    hir_to_ir::check_states(pattern, &ir, 0, root)?;
    ir.set_root(root);
    Ok(ir)
}

/// Parses a pattern; look-arounds are groups in it.
fn hir(pattern: &str) -> Result<(Hir, Renamed)> {
    let renamed = Renamed::new(pattern);
    let parsed = ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(&renamed.text);
    let hir = parsed.map_err(|e| syntax_error(&e, pattern, |at| renamed.original(at)))?;
    Ok((hir, renamed))
}

/// Returns a pattern with its look-arounds in slots.
fn resolved(pattern: &str, hir: &Hir, renamed: &Renamed) -> Result<(Hir, Looks)> {
    let locate = |e: Error| if e.places().is_empty() { locate_look(e, pattern, renamed) } else { e };
    renamed.resolve(hir, pattern).map_err(locate)
}

/// Parses a pattern for texts that contain a match of it.
///
/// # Errors
/// As [`parse`], but a pattern that no text matches is none.
pub(super) fn parsed(pattern: &str) -> Result<(Hir, Looks)> {
    let (hir, renamed) = hir(pattern)?;
    resolved(pattern, &hir, &renamed)
}

/// Converts an error of `regex-syntax` about a pattern; `original` converts its positions.
pub(crate) fn syntax_error(
    error: &regex_syntax::Error,
    pattern: &str,
    original: impl Fn(usize) -> usize,
) -> Error {
    use regex_syntax::Error as E;
    use regex_syntax::ast::ErrorKind as Kind;
    let (message, span, kind, hint) = match error {
        E::Parse(e) => {
            let (kind, hint) = match e.kind() {
                Kind::NestLimitExceeded(_) => (ErrorKind::TooComplex, Some("nest fewer groups")),
                Kind::UnsupportedBackreference => {
                    (ErrorKind::Unsupported, Some("backreferences are not regular; write the text again"))
                }
                Kind::UnsupportedLookAround => (ErrorKind::Unsupported, Some("spell the alternatives out")),
                Kind::GroupUnopened => (ErrorKind::InvalidPattern, Some("write `\\)` for the character")),
                Kind::GroupUnclosed => (ErrorKind::InvalidPattern, Some("add a closing parenthesis")),
                Kind::ClassUnclosed => (ErrorKind::InvalidPattern, Some("add a closing bracket")),
                _ => (ErrorKind::InvalidPattern, None),
            };
            (e.kind().to_string(), Some(*e.span()), kind, hint)
        }
        E::Translate(e) => (e.kind().to_string(), Some(*e.span()), ErrorKind::InvalidPattern, None),
        _ => (error.to_string(), None, ErrorKind::InvalidPattern, None),
    };
    let (start, end) =
        span.map_or((0, pattern.len()), |s| (original(s.start.offset), original(s.end.offset)));
    let error = fault(kind, message, pattern, start, end);
    match hint {
        Some(hint) => error.hint(hint),
        None => error,
    }
}

/// Adds the span of the first anchor inside of the pattern to an error. HIR has no spans, so it
/// cannot give one.
fn locate_look(error: Error, pattern: &str, renamed: &Renamed) -> Error {
    let find = LookFinder { word: None, line: None };
    let parsed = ast::parse::ParserBuilder::new().nest_limit(MAX_NESTING).build().parse(&renamed.text);
    let Ok(tree) = parsed else { return error };
    let found = ast::visit(&tree, find).unwrap_or(None);
    let (start, end) =
        found.map_or((0, pattern.len()), |(start, end)| (renamed.original(start), renamed.original(end)));
    error
        .at(Place::Span { text: pattern.to_owned(), start, end })
        .hint("only the two ends of the output can be anchored: write the neighbouring characters as a class")
}

struct LookFinder {
    word: Option<(usize, usize)>,
    line: Option<(usize, usize)>,
}

impl ast::Visitor for LookFinder {
    type Output = Option<(usize, usize)>;
    type Err = std::convert::Infallible;

    fn finish(self) -> Result<Self::Output, Self::Err> {
        Ok(self.word.or(self.line))
    }

    fn visit_pre(&mut self, tree: &Ast) -> Result<(), Self::Err> {
        if let Ast::Assertion(assertion) = tree {
            let slot = match assertion.kind {
                AssertionKind::StartText | AssertionKind::EndText => return Ok(()),
                AssertionKind::StartLine | AssertionKind::EndLine => &mut self.line,
                _ => &mut self.word,
            };
            slot.get_or_insert((assertion.span.start.offset, assertion.span.end.offset));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constraint::test_reference::matches;
    use proptest::prelude::*;

    /// Compares with the ECMA parser, which has look-around too, on all short texts.
    #[test]
    fn look_around_is_that_of_patterns() {
        let patterns = [
            "(?=.*1)[ab1 ]{2,3}",
            "(?!.*aa).*",
            "(?!(?:a|b)$)[ab]{1,3}",
            "a(?=b)[ab1]*",
            ".*(?<=a)1.*",
            ".*(?<!a)1",
            "(?:(?<=^|,)[ab]+(?=,|$),?)*",
            "(?=(?!a)[ab])[ab1]{2}",
            r"\ba[ab]*\b.*",
            r".*\Bb.*",
            r"(?=.*\b1\b)[ab1 ]+",
            r"[(?=]+\(?=?",
        ];
        let alphabet = ['a', 'b', '1', ' ', ',', '(', '?', '='];
        let mut texts = vec![String::new()];
        let mut last = 0;
        for _ in 0..4 {
            let more = texts[last..].iter().flat_map(|t| alphabet.iter().map(move |c| format!("{t}{c}")));
            let more: Vec<String> = more.collect();
            last = texts.len();
            texts.extend(more);
        }
        for pattern in patterns {
            let ir = parse(pattern).unwrap_or_else(|e| panic!("{e}"));
            let mut other = Ir::new();
            let root = crate::constraint::ecma::parse(&format!("^(?:{pattern})$"), &mut other).unwrap();
            let mut counts = [0; 2];
            for text in &texts {
                let expected = matches(&other, root, text.as_bytes());
                counts[usize::from(expected)] += 1;
                assert_eq!(matches(&ir, ir.root(), text.as_bytes()), expected, "{pattern} on {text:?}");
            }
            assert!(counts.iter().all(|&n| n > 0), "{pattern} {counts:?}");
        }
    }

    #[test]
    fn literals_become_a_trie() {
        let ir = parse("red|green|blue").unwrap();
        let Node::Literals(texts) = ir.node(ir.root()) else { panic!("{:?}", ir.node(ir.root())) };
        assert!(texts.iter().map(|t| &t[..]).eq([&b"blue"[..], b"green", b"red"]));
        let ir = parse("abc").unwrap();
        assert_eq!(*ir.node(ir.root()), Node::Bytes(b"abc".as_slice().into()));
    }

    #[test]
    fn limits() {
        let kind = |pattern: &str| parse(pattern).unwrap_err().kind();
        assert_eq!(kind(&"a".repeat(70_000)), ErrorKind::TooComplex);
        assert_eq!(kind(&("(".repeat(300) + &")".repeat(300))), ErrorKind::TooComplex);
        assert_eq!(kind("(?:ab){100001}"), ErrorKind::TooComplex);
        assert_eq!(kind("a{2000000}"), ErrorKind::TooComplex);
        assert!(parse("(?:ab){100000}").is_ok());
    }

    proptest! {
        #[test]
        fn never_panics(text in r"([\\^$.|?*+(){}\[\]a-cpbP0-9<>=!:,&-]|\PC){0,16}") {
            if let Err(e) = parse(&text) {
                let _ = e.to_string();
            }
        }
    }
}
