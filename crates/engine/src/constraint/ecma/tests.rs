use proptest::prelude::*;

use super::*;
use crate::constraint::test_reference::matches;
use ffwd_testkit::random::Random;

/// Asserts that a pattern matches the texts of `yes` and none of `no`.
#[track_caller]
pub(super) fn check(pattern: &str, yes: &[&str], no: &[&str]) {
    let mut ir = Ir::new();
    let root = parse(pattern, &mut ir).unwrap_or_else(|e| panic!("{pattern}: {e}"));
    for text in yes {
        assert!(matches(&ir, root, text.as_bytes()), "{pattern} refuses {text:?}");
    }
    for text in no {
        assert!(!matches(&ir, root, text.as_bytes()), "{pattern} accepts {text:?}");
    }
}

#[test]
fn a_match_may_be_anywhere() {
    check("b", &["b", "abc", "éb"], &["", "a"]);
    check("", &["", "a", "\n"], &[]);
    check("^a", &["a", "ab"], &["ba", ""]);
    check("a$", &["a", "ba"], &["ab", "a\n"]);
    check("^a$", &["a"], &["aa", "a\n", ""]);
    check("^$", &[""], &["a", "\n"]);
    check("a+", &["a", "xaay"], &["", "x"]);
}

#[test]
fn anchors_hold_per_alternative() {
    check("^a|b$", &["ax", "xb", "a", "b"], &["xa", "bx", "xax"]);
    check("(^a|b)c", &["ac", "acx", "xbcx"], &["xac", "a", "c"]);
    check("^(a|b)$", &["a", "b"], &["ab", "xa", ""]);
    check("a|^", &["", "x", "a"], &[]);
    check("(^)*", &["", "x"], &[]);
    check("(^|,)x(,|$)", &["x", "a,x", "x,a", "a,x,b"], &["ax", "xa", "a,xb"]);
    check("(^a)*b", &["b", "ab", "xab", "aab"], &["a", ""]);
    check("^(^a)+$", &["a"], &["aa", ""]);
    check("^(a$)+", &["a"], &["aa", "ab"]);
    check(
        "^(a|^b|c$){2,3}$",
        &["aa", "ba", "ac", "bc", "bac", "aaa"],
        &["ab", "ca", "b", "bb", "cc", "baca"],
    );
    check("(^){2}a", &["a", "ab"], &["ba"]);
    check("^^a$$", &["a"], &["aa"]);
    check("(?:^|b)^a", &["a", "ax"], &["ba"]);
    check("(a?)^b", &["b", "bx"], &["ab"]);
    check("(a*|^)$^", &[""], &["a"]);
    check("($a|b)", &["b", "xb"], &["a"]);
}

#[test]
fn anchors_that_never_hold_leave_nothing() {
    for pattern in ["a^", "$a", "[]", "a(b^c)", r"\uD800", "^a$b"] {
        let mut ir = Ir::new();
        let root = parse(pattern, &mut ir).unwrap();
        assert_eq!(*ir.node(root), Node::Never, "{pattern}");
    }
}

#[test]
fn classes_have_their_ecma_meaning() {
    check(r"^\d$", &["0", "9"], &["٣", "a"]);
    check(r"^\D$", &["٣", "a"], &["0"]);
    check(r"^\w$", &["a", "Z", "_", "0"], &["é", "-"]);
    check(r"^\W$", &["é", "-"], &["a"]);
    check(
        r"^\s$",
        &[" ", "\t", "\u{b}", "\u{a0}", "\u{feff}", "\u{2028}", "\u{3000}"],
        &["\u{85}", "a", "\u{200b}"],
    );
    check(r"^\S$", &["\u{85}", "a"], &["\u{feff}"]);
    check("^.$", &["a", "😀", "\u{85}", "\u{b}"], &["\n", "\r", "\u{2028}", "\u{2029}", ""]);
    check("^[^]$", &["\n", "a"], &[""]);
    check(r"^[^a-c]$", &["d", "\n"], &["b"]);
    check(r"^[\w-.]+$", &["a-b.c"], &["a,b"]);
    check(r"^[a-\d]+$", &["a-5"], &["b"]);
    check(r"^[\]\-\\^]+$", &["]-\\^"], &["["]);
    check("^[[a&&b~~-]+$", &["[&~-ab"], &["c"]);
    check("^[[:alpha:]]$", &["a]", ":]"], &["x]", "a"]);
    check(r"^[\b]$", &["\u{8}"], &["b"]);
    check("^[-a]$", &["-", "a"], &[","]);
    check("^[a-]$", &["-", "a"], &[","]);
    check(r"^[😀-😂]$", &["😁"], &["😃"]);
    check(r"^[\u{1F600}-\uD83D\uDE02]$", &["😁"], &["😃"]);
    check(r"^[\uD7FF-\uE000]$", &["\u{d7ff}", "\u{e000}"], &["\u{e001}"]);
}

#[test]
fn escapes() {
    check(r"^\/\-\_\@\ \#\é$", &["/-_@ #é"], &[]);
    check(r"^\cJ\cj\0\x41\u0042\u{43}\u{00000044}$", &["\n\n\0ABCD"], &[]);
    check(r"^\uD83D\uDE00$", &["😀"], &["\u{fffd}"]);
    check(r"^\t\n\v\f\r$", &["\t\n\u{b}\u{c}\r"], &[]);
    check(r"^\^\$\\\.\*\+\?\(\)\[\]\{\}\|$", &["^$\\.*+?()[]{}|"], &[]);
    check(r"^\p{L}+$", &["aé语"], &["1", ""]);
    check(r"^\P{L}+$", &["1-"], &["1a"]);
    check(r"^\p{Letter}cole$", &["École"], &["1cole"]);
    check(r"^\p{digit}+$", &["42", "৪২"], &["-"]);
    check(r"^[\p{Lu}\p{Script=Greek}_]+$", &["ÉΩ_ω"], &["é"]);
    check(r"^\p{General_Category=Decimal_Number}\p{Any}$", &["1\n"], &["aa"]);
}

#[test]
fn quantifiers() {
    check("^a{2}$", &["aa"], &["a", "aaa"]);
    check("^a{2,}$", &["aa", "aaaa"], &["a"]);
    check("^a{1,2}?b??$", &["a", "aa", "aab"], &["aaa", "b"]);
    check("^a{$", &["a{"], &["a"]);
    check("^a{,2}$", &["a{,2}"], &["aa"]);
    check("^{a}$", &["{a}"], &["a"]);
    check("^x{a}]$", &["x{a}]"], &[]);
    check("^(ab|c){2}$", &["abab", "cab"], &["ab", "abb"]);
    check("^(?<year>[0-9]{4})-(?<m>x)$", &["2024-x"], &["2024-"]);
    check("^(?:a*)*$", &["", "aaa"], &["b"]);
    check("^(a|){3}$", &["", "a", "aaa"], &["aaaa"]);
    check(".{3,5}", &["abc", "abcdefgh"], &["ab", "a\nb\nc"]);
    check("^a.*b?c*", &["a", "axyz"], &["b"]);
}

#[test]
fn refusals_have_kind_span_and_hint() {
    let cases = [
        (r"(a)\1", ErrorKind::Unsupported, 3, 5),
        (r"(?<n>a)\k<n>", ErrorKind::Unsupported, 7, 9),
        (r"a(?i)b", ErrorKind::InvalidPattern, 1, 4),
        (r"(?P<n>a)", ErrorKind::InvalidPattern, 0, 3),
        (r"a\Z", ErrorKind::InvalidPattern, 1, 3),
        (r"(a", ErrorKind::InvalidPattern, 0, 1),
        (r"a)", ErrorKind::InvalidPattern, 1, 2),
        (r"é[a", ErrorKind::InvalidPattern, 2, 3),
        (r"*a", ErrorKind::InvalidPattern, 0, 1),
        (r"{2}", ErrorKind::InvalidPattern, 0, 3),
        (r"\", ErrorKind::InvalidPattern, 0, 1),
        (r"\u{110000}", ErrorKind::InvalidPattern, 0, 10),
        (r"\p{Nope}", ErrorKind::InvalidPattern, 0, 8),
        (r"\pL", ErrorKind::InvalidPattern, 0, 2),
        (r"[\1]", ErrorKind::InvalidPattern, 1, 3),
        (r"\01", ErrorKind::InvalidPattern, 0, 2),
    ];
    for (pattern, kind, start, end) in cases {
        let error = parse(pattern, &mut Ir::new()).unwrap_err();
        assert_eq!(error.kind(), kind, "{pattern}: {error}");
        let place = crate::error::Place::Span { text: pattern.to_owned(), start, end };
        assert_eq!(error.places(), [place], "{pattern}");
        assert!(error.hint_text().is_some(), "{pattern}");
    }
    for pattern in
        ["a**", "^*", "a{2}{3}", "a{3,2}", "[b-a]", r"\xZZ", r"\u12", r"\c1", "(?<>a)", "(?<1>a)", "(?<a"]
    {
        let error = parse(pattern, &mut Ir::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidPattern, "{pattern}: {error}");
        assert_eq!(error.places().len(), 1, "{pattern}");
    }
}

#[test]
fn limits() {
    let kind = |pattern: &str| parse(pattern, &mut Ir::new()).unwrap_err().kind();
    assert_eq!(kind("^((a{1000}){1000}){1000}$"), ErrorKind::TooComplex);
    assert_eq!(kind(r"^\p{L}{3000}$"), ErrorKind::TooComplex);
    assert_eq!(kind(&("(".repeat(201) + &")".repeat(201))), ErrorKind::TooComplex);
    assert_eq!(kind(&"a".repeat(70_000)), ErrorKind::TooComplex);
    assert_eq!(kind("^a{99999999999}$"), ErrorKind::TooComplex);
    assert!(parse(&("(".repeat(200) + "a" + &")".repeat(200)), &mut Ir::new()).is_ok());
    // Only the open end may absorb repetitions.
    check(".{0,32767}", &["", "\n"], &[]);
    check("^a{1,1000000}", &["a", "ab"], &["b"]);
}

/// The single class of a pattern, or `None` if it does not parse.
fn single_class(pattern: &str) -> Option<SingleClass> {
    Pattern::parse(pattern).ok()?.single_class()
}

#[test]
fn single_classes_are_found() {
    let az = vec![('a', 'z')];
    let any = vec![ANY_CHAR];
    assert_eq!(single_class("^[a-z]{2,9}$"), Some((az.clone(), 2, Some(9))));
    assert_eq!(single_class("^[a-z]*$"), Some((az.clone(), 0, None)));
    assert_eq!(single_class("^[a-z]+$"), Some((az.clone(), 1, None)));
    assert_eq!(single_class("^(?:[a-z]{3,})$"), Some((az.clone(), 3, None)));
    assert_eq!(single_class("(^[a-z]$)"), Some((az.clone(), 1, Some(1))));
    assert_eq!(single_class("^[a-z][a-z]{0,8}$"), Some((az.clone(), 1, Some(9))));
    assert_eq!(single_class("^a{3}$"), Some((vec![('a', 'a')], 3, Some(3))));
    assert_eq!(single_class("^(?:a|b|c)*$"), Some((vec![('a', 'c')], 0, None)));
    assert_eq!(single_class("^.{1,99999}$").unwrap().2, Some(99999));
    for pattern in ["", ".*", "^", "$", "^.*", "[a-z]*", "(a|)"] {
        assert_eq!(single_class(pattern), Some((any.clone(), 0, None)), "{pattern}");
    }
    assert_eq!(single_class(r"[\s\S]+"), Some((any.clone(), 1, None)));
    assert_eq!(single_class(r"^[^]{2,4}"), Some((any.clone(), 2, None)));
    assert_eq!(single_class("^$").map(|(_, min, max)| (min, max)), Some((0, Some(0))));
    for pattern in [
        "^[a-z]",
        "[a-z]$",
        "[a-z]+",
        "^[a-z][0-9]$",
        "^a$",
        "^[a-z]*|b$",
        "^ab$",
        "^([a-z]{2})*$",
        "(",
        ".+",
    ] {
        assert_eq!(single_class(pattern), None, "{pattern}");
    }
    let mut ir = Ir::new();
    let node = class_star(&[('a', 'b')], &mut ir);
    assert!(matches(&ir, node, b"abba") && matches(&ir, node, b"") && !matches(&ir, node, b"abc"));
}

#[test]
fn open_ends_leave_small_languages() {
    let mut ir = Ir::new();
    let root = parse("[a-z]{3,60}", &mut ir).unwrap();
    let size = crate::constraint::regular::hir_to_ir::states(&ir, 0, root);
    assert!(size < 60, "{size} states");
}

/// Returns a random pattern of letters, groups, alternatives, quantifiers and anchors. It stays in
/// a subset in which the `regex` crate agrees with ECMA-262.
fn random_pattern(random: &mut Random, depth: usize) -> String {
    let mut out = String::new();
    for _ in 0..1 + random.below(3) {
        match random.below(if depth == 0 { 6 } else { 9 }) {
            0 | 1 => out.push('a'),
            2 => out.push('b'),
            3 => out.push('^'),
            4 => out.push('$'),
            5 => out.push_str("[ab]"),
            6 => out += &format!("(?:{})", random_pattern(random, depth - 1)),
            _ => {
                out +=
                    &format!("({}|{})", random_pattern(random, depth - 1), random_pattern(random, depth - 1));
            }
        }
        if !out.ends_with(['^', '$']) {
            out.push_str(random.pick::<&str>(&["", "", "", "*", "?", "+", "{2}", "{2,3}", "{0,2}", "{1,}"]));
        }
    }
    out
}

#[test]
fn search_agrees_with_another_engine() {
    let mut random = Random::new(7);
    let texts: Vec<String> = (0..6u32)
        .flat_map(|n| {
            (0..1u32 << n)
                .map(move |bits| (0..n).map(|i| if bits >> i & 1 == 1 { 'b' } else { 'a' }).collect())
        })
        .collect();
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..1500 {
        let pattern = random_pattern(&mut random, 3);
        let other = ::regex::Regex::new(&pattern).unwrap();
        let mut ir = Ir::new();
        let root = parse(&pattern, &mut ir).unwrap();
        let single = single_class(&pattern);
        for text in &texts {
            let expected = other.is_match(text);
            assert_eq!(matches(&ir, root, text.as_bytes()), expected, "{pattern} on {text:?}");
            if let Some((ranges, min, max)) = &single {
                let count = text.len() as u32;
                let inside = text.chars().all(|c| ranges.iter().any(|&(lo, hi)| lo <= c && c <= hi));
                assert_eq!(
                    inside && *min <= count && max.is_none_or(|m| count <= m),
                    expected,
                    "{pattern} {text:?}"
                );
            }
            if expected { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted > 5000 && refused > 5000, "{accepted} accepted, {refused} refused");
}

proptest! {
    #[test]
    fn never_panics(text in r"([\\^$.|?*+(){}\[\]a-cpu0-9<>=!:,-]|\PC){0,16}") {
        let mut ir = Ir::new();
        if let Err(e) = parse(&text, &mut ir) {
            let _ = e.to_string();
        }
        let _ = single_class(&text);
    }
}
