use serde_json::json;

use super::*;
use crate::constraint::regular::hir_to_ir::states;
use crate::constraint::test_reference::{matches, member};
use ffwd_testkit::random::Random;

/// The formats of the standard, which the other validator knows.
fn standard() -> &'static [&'static str] {
    &NAMES[..19]
}

fn validator(name: &str) -> jsonschema::Validator {
    jsonschema::options().should_validate_formats(true).build(&json!({ "format": name })).unwrap()
}

fn build(name: &str) -> (Ir, NodeId) {
    let mut ir = Ir::new();
    let root = language(name, &mut ir).unwrap();
    assert_ne!(*ir.node(root), Node::Never, "{name}");
    (ir, root)
}

/// Returns a random text of a format.
fn random_text((ir, root): &(Ir, NodeId), random: &mut Random) -> String {
    String::from_utf8(member(ir, *root, random).unwrap()).unwrap()
}

/// Inserts, removes or replaces a character.
fn change(text: &str, with: &[char], random: &mut Random) -> String {
    let mut chars: Vec<char> = text.chars().collect();
    let (at, c) = (random.below(chars.len() + 1), *random.pick(with));
    match random.below(3) {
        0 => chars.insert(at, c),
        1 if at < chars.len() => drop(chars.remove(at)),
        _ if at < chars.len() => chars[at] = c,
        _ => {}
    }
    chars.into_iter().collect()
}

#[test]
fn members_are_valid_for_another_validator() {
    let mut random = Random::new(3);
    for &name in standard() {
        let (validator, format) = (validator(name), build(name));
        for _ in 0..3000 {
            let text = random_text(&format, &mut random);
            assert!(validator.is_valid(&json!(text)), "{name}: {text:?}");
        }
    }
}

#[test]
fn changed_members_are_accepted_only_if_valid() {
    let with = ['0', '9', '3', '-', '.', ':', '/', 'T', 'a', 'Z', '~', '@', '#', '%', ' ', 'é'];
    let mut random = Random::new(5);
    for &name in standard() {
        let (validator, format) = (validator(name), build(name));
        let mut refused = 0;
        for _ in 0..1500 {
            let text = change(&random_text(&format, &mut random), &with, &mut random);
            if matches(&format.0, format.1, text.as_bytes()) {
                assert!(validator.is_valid(&json!(text)), "{name}: {text:?}");
            } else {
                refused += 1;
            }
        }
        assert!(refused > 20 || name.ends_with("json-pointer"), "{name}: {refused}");
    }
}

/// Every changed text that is still of the format is in its wide language.
#[test]
fn the_wide_language_holds_what_another_validator_accepts() {
    let with =
        ['0', '9', '-', '.', ':', '/', 't', 'z', 'p', '"', '[', '\\', '@', '%', ' ', 'é', '漢', '(', '<'];
    let mut random = Random::new(11);
    for &name in standard() {
        let (validator, format) = (validator(name), build(name));
        let mut wide = Ir::new();
        let Some(wide_root) = superset(name, &mut wide) else { continue };
        for _ in 0..2000 {
            let mut text = random_text(&format, &mut random);
            for _ in 0..random.below(4) {
                text = change(&text, &with, &mut random);
            }
            // In a time, the validator takes some other characters for digits.
            let odd = |b| !b"0123456789:.+-TZ".contains(&b);
            if (!name.contains("time") || !text.bytes().any(odd)) && validator.is_valid(&json!(text)) {
                assert!(matches(&wide, wide_root, text.as_bytes()), "{name}: {text:?}");
            }
        }
    }
}

/// The formats of type generators are parts and unions of those of the standard.
#[test]
fn formats_of_type_generators_follow_from_those_of_the_standard() {
    let mut random = Random::new(17);
    assert_eq!(standard().len() + 21, NAMES.len());
    let valid = |name: &str, text: &str| validator(name).is_valid(&json!(text));
    for name in ["ip", "partial-time", "partial-date-time"] {
        let (ir, root) = build(name);
        let means = |text: &str| match name {
            "ip" => valid("ipv4", text) || valid("ipv6", text),
            "partial-time" => valid("time", &format!("{text}Z")),
            _ => valid("date-time", &format!("{text}Z")),
        };
        let mut refused = 0;
        for round in 0..400 {
            let mut text = String::from_utf8(member(&ir, root, &mut random).unwrap()).unwrap();
            assert!(means(&text), "{name}: {text:?}");
            if round % 2 == 0 {
                let at = random.below(text.len());
                let part = *random.pick(&["0", "9", ":", ".", "-", "", "x"]);
                text.replace_range(at..at + 1, part);
            }
            let accepted = matches(&ir, root, text.as_bytes());
            assert!(!accepted || means(&text), "{name}: {text:?}");
            refused += usize::from(!accepted);
        }
        assert!(refused > 30, "{name}: {refused}");
    }
}

#[test]
fn every_date_is_exact() {
    let (ir, root) = build("date");
    let validator = validator("date");
    for year in [0, 1, 4, 100, 400, 1600, 1900, 1996, 1999, 2000, 2023, 2024, 2100, 9600, 9999] {
        for month in 0..=13 {
            for day in 0..=32 {
                let text = format!("{year:04}-{month:02}-{day:02}");
                assert_eq!(matches(&ir, root, text.as_bytes()), validator.is_valid(&json!(text)), "{text}");
            }
        }
    }
    for year in 0..10_000 {
        let text = format!("{year:04}-02-29");
        assert_eq!(matches(&ir, root, text.as_bytes()), validator.is_valid(&json!(text)), "{text}");
    }
}

#[test]
fn unknown_names_have_no_language() {
    for name in ["url", "color", "", "Date"] {
        assert_eq!(language(name, &mut Ir::new()), None, "{name}");
    }
}

#[test]
fn automata_stay_small() {
    let size = |name: &str| {
        let (ir, root) = build(name);
        states(&ir, 0, root)
    };
    let large: Vec<_> = NAMES.iter().map(|name| (name, size(name))).filter(|s| s.1 >= 700).collect();
    let most = |name: &str| match name {
        "idn-email" | "regex" => 2000,
        _ => 1000,
    };
    assert!(large.iter().all(|&(name, size)| size < most(name)), "{large:?}");
    // Types of networks are several addresses each.
    let is_address = |name: &str| name.starts_with("ipv") && !["ipv4", "ipv6"].contains(&name);
    let others: Vec<_> = large.iter().filter(|(name, _)| !is_address(name)).collect();
    assert!(others.len() < 6, "{others:?}");
}
