use proptest::prelude::*;

use super::*;
use crate::constraint::test_reference::matches;
use ffwd_testkit::random::Random;

#[test]
fn limits() {
    let kind = |pattern: &str| parse(pattern, &mut Ir::new()).unwrap_err().kind();
    assert_eq!(kind("^((a{1000}){1000}){1000}$"), ErrorKind::TooComplex);
    assert_eq!(kind(r"^\p{L}{3000}$"), ErrorKind::TooComplex);
    assert_eq!(kind(&("(".repeat(201) + &")".repeat(201))), ErrorKind::TooComplex);
    assert_eq!(kind(&"a".repeat(70_000)), ErrorKind::TooComplex);
    assert_eq!(kind("^a{99999999999}$"), ErrorKind::TooComplex);
    assert!(parse(&("(".repeat(200) + "a" + &")".repeat(200)), &mut Ir::new()).is_ok());
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
