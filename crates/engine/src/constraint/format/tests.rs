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

#[test]
fn members_are_valid_for_another_validator() {
    let mut random = Random::new(3);
    for &name in standard() {
        let validator = validator(name);
        let (ir, root) = build(name);
        for _ in 0..3000 {
            let text = String::from_utf8(member(&ir, root, &mut random).unwrap()).unwrap();
            assert!(validator.is_valid(&json!(text)), "{name}: {text:?}");
        }
    }
}

#[test]
fn changed_members_are_accepted_only_if_valid() {
    let mut random = Random::new(5);
    for &name in standard() {
        let validator = validator(name);
        let (ir, root) = build(name);
        let mut refused = 0;
        for _ in 0..1500 {
            let mut chars: Vec<char> =
                String::from_utf8(member(&ir, root, &mut random).unwrap()).unwrap().chars().collect();
            let replacement = *random
                .pick(&['0', '9', '3', '-', '.', ':', '/', 'T', 'a', 'Z', '~', '@', '#', '%', ' ', 'é']);
            let at = random.below(chars.len() + 1);
            match random.below(3) {
                0 => chars.insert(at, replacement),
                1 if at < chars.len() => drop(chars.remove(at)),
                _ if at < chars.len() => chars[at] = replacement,
                _ => {}
            }
            let text: String = chars.into_iter().collect();
            if matches(&ir, root, text.as_bytes()) {
                assert!(validator.is_valid(&json!(text)), "{name}: {text:?}");
            } else {
                refused += 1;
            }
        }
        assert!(refused > 20 || name.ends_with("json-pointer"), "{name}: {refused}");
    }
}

/// Changes characters in texts of a format. Every mutant that is still of the format is in its wide
/// language.
#[test]
fn the_wide_language_holds_what_another_validator_accepts() {
    let mut random = Random::new(11);
    for &name in standard() {
        let (ir, root) = build(name);
        let mut wide = Ir::new();
        let Some(wide_root) = superset(name, &mut wide) else { continue };
        let validator = validator(name);
        for _ in 0..2000 {
            let mut chars: Vec<char> =
                String::from_utf8(member(&ir, root, &mut random).unwrap()).unwrap().chars().collect();
            for _ in 0..random.below(4) {
                let at = random.below(chars.len() + 1);
                let c = *random.pick(&[
                    '0', '9', '-', '.', ':', '/', 't', 'z', 'p', '"', '[', '\\', '@', '%', ' ', 'é', '漢',
                    '(', '<',
                ]);
                if random.below(2) == 0 || at == chars.len() { chars.insert(at, c) } else { chars[at] = c }
            }
            let text: String = chars.into_iter().collect();
            // In a time, the validator takes some other characters for digits.
            let odd = |b| !b"0123456789:.+-TZ".contains(&b);
            if name.contains("time") && text.bytes().any(odd) {
                continue;
            }
            if validator.is_valid(&json!(text)) {
                assert!(matches(&wide, wide_root, text.as_bytes()), "{name}: {text:?}");
            }
        }
    }
}

/// The formats of type generators are parts and unions of those of the standard.
#[test]
fn formats_of_type_generators_follow_from_those_of_the_standard() {
    let mut random = Random::new(17);
    assert_eq!(standard().len() + 3, NAMES.len());
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

/// Checks listed texts: accepted ones must be valid for the other validator. Refused ones must be
/// invalid for it, unless the module says that they are left out.
#[track_caller]
fn check(name: &str, yes: &[&str], no: &[&str], left_out: &[&str]) {
    let validator = validator(name);
    let (ir, root) = build(name);
    for text in yes {
        assert!(matches(&ir, root, text.as_bytes()), "{name} refuses {text:?}");
        assert!(validator.is_valid(&json!(text)), "{name}: the validator refuses {text:?}");
    }
    for text in no {
        assert!(!matches(&ir, root, text.as_bytes()), "{name} accepts {text:?}");
        assert!(!validator.is_valid(&json!(text)), "{name}: the validator accepts {text:?}");
    }
    let mut wide = Ir::new();
    let widest = superset(name, &mut wide);
    for text in left_out {
        assert!(matches(&wide, widest.expect("something is left out"), text.as_bytes()), "{name}: {text:?}");
        assert!(!matches(&ir, root, text.as_bytes()), "{name} accepts {text:?}");
        assert!(validator.is_valid(&json!(text)), "{name}: the validator refuses {text:?}");
    }
}

#[test]
fn dates_and_times() {
    check(
        "date",
        &["2024-02-29", "1999-12-31"],
        &["2023-02-29", "2024-04-31", "2024-1-1", "99-01-01", ""],
        &[],
    );
    check(
        "time",
        &["00:00:00Z", "23:59:60Z", "12:30:45.123456789+05:30", "23:59:59-23:59"],
        &[
            "24:00:00Z",
            "12:60:00Z",
            "12:00:61Z",
            "12:00:60Z",
            "12:00:00",
            "12:00:00.Z",
            "12:00:00+24:00",
            "1:00:00Z",
        ],
        &["12:00:00z", "22:59:60-01:00", "00:00:00.1234567890Z"],
    );
    check(
        "date-time",
        &["2024-02-29T12:00:00Z", "1985-04-12T23:20:50.52Z", "1998-12-31T23:59:60Z"],
        &["2023-02-29T12:00:00Z", "2024-01-01 12:00:00Z", "2024-01-01", "2024-01-01T12:00Z"],
        &["2024-01-01t12:00:00Z"],
    );
    check(
        "duration",
        &["P1Y", "P1Y2M3DT4H5M6S", "PT36H", "P2W", "P1M3D", "PT1M5S", "P0D", "P3DT1S"],
        &[
            "P", "PT", "P1", "1Y", "P1Y3D", "PT1H5S", "P1W2D", "P1D2H", "P2D1Y", "P-1D", "P1.5D", "P1DT",
            "p1d",
        ],
        &["P1234567890D"],
    );
}

#[test]
fn names_and_addresses() {
    let long = "a".repeat(63);
    let longer = "a".repeat(64);
    let thrice = [long.as_str(); 3].join(".");
    check(
        "hostname",
        &["a", "example.com", "a-b.c-d.e", "x--y", "1.2", "my-host", "a.b.c.d.e.f.g", &long, &thrice],
        &["", ".", "a.", ".a", "-a", "a-", "a..b", "a_b", "ab--cd", "é", &longer, "a b"],
        &["xn--nxasmq6b", "a.b.c.d.e.f.g.h"],
    );
    check(
        "email",
        &[
            "joe.bloggs@example.com",
            "a@b",
            "te~st@example.com",
            "!#$%&'*+/=?^_`{|}~-@x.org",
            "a.b.c.d@e.f",
            &format!("{longer}@b"),
        ],
        &[
            "",
            "a",
            "@b",
            "a@",
            ".a@b",
            "a.@b",
            "a..b@c",
            "a b@c",
            "a@b@c",
            "a@-b",
            "a@b.",
            "(a)@b",
            &format!("{longer}a@b"),
        ],
        &["\"joe bloggs\"@example.com", "joe@[127.0.0.1]", "a.b.c.d.e@f"],
    );
    check(
        "ipv4",
        &["0.0.0.0", "255.255.255.255", "192.168.1.10"],
        &["256.0.0.0", "1.2.3", "1.2.3.4.5", "01.2.3.4", "1.2.3.4 ", "1..2.3", ""],
        &[],
    );
    check(
        "ipv6",
        &[
            "::",
            "::1",
            "1::",
            "1:2:3:4:5:6:7:8",
            "fe80::a",
            "1::3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "::ffff:192.168.0.1",
            "1:2:3:4:5:6:1.2.3.4",
            "1::2:1.2.3.4",
            "1:2:3:4:5::1.2.3.4",
            "ABCD::ef01",
        ],
        &[
            "",
            ":",
            "1",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:6:7:8:9",
            "1::2::3",
            ":::",
            "12345::",
            "::1.2.3",
            "1:2:3:4:5:6:7:1.2.3.4",
            "1:2:3:4:5:6::1.2.3.4",
            "::g",
            "fe80::a%eth0",
            "1:2:3:4:5:6:7:8::",
            ":1:2:3:4:5:6:7:8",
            "::1/64",
        ],
        &[],
    );
    check(
        "uuid",
        &["2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2EB8AA08-AA98-11EA-B4AA-73B441D16380"],
        &[
            "2eb8aa08-aa98-11ea-b4aa-73b441d1638",
            "2eb8aa08aa9811eab4aa73b441d16380",
            "",
            "2eb8aa08-aa98-11ea-b4aa-73b441d1638g",
        ],
        &[],
    );
}

#[test]
fn uris_and_pointers() {
    let uris = [
        "http://foo.bar/?baz=qux#quux",
        "https://u:p@host:8080/a/b;c?d=e&f#g",
        "mailto:a@b.c",
        "urn:isbn:123",
        "tel:+1-816",
        "file:///etc/passwd",
        "a:",
        "a:/",
        "a:b//c",
        "http://",
        "http://h:",
        "x://%41/%2f",
        "ldap:a:b",
    ];
    check(
        "uri",
        &uris,
        &[
            "",
            "//a",
            "/a",
            "a",
            "1a:b",
            "http://a b",
            "http://a/<b>",
            "a:%4",
            "http://h:x",
            "a:#b#c",
            "é:a",
            "http://[1]",
        ],
        &["http://[::1]/"],
    );
    check(
        "uri-reference",
        &[uris.as_slice(), &["", "//a/b", "/a", "a/b:c", "?q", "#f", "./a:b", "..", "a@b"]].concat(),
        &["1a:b", ":a", "a b", "\\\\a", "%", "#a#b", "é", "//h:x"],
        &["//[::1]"],
    );
    check("json-pointer", &["", "/", "/a/b~0c~1d", "//", "/é/😀\n"], &["a", "/~", "/~2", "#/a", "/a~"], &[]);
    check(
        "relative-json-pointer",
        &["0", "1/a", "12#", "0/", "0#"],
        &["", "/a", "01/a", "-1/a", "1a", "0##", "#"],
        &["1234567890"],
    );
}

#[test]
fn names_and_addresses_beyond_ascii() {
    let twelve = "ÿ".repeat(12);
    check(
        "idn-hostname",
        &["example.com", "müller.de", "straße.example", "a.b.c.d.e.f.g", "www.café.co.uk", &twelve, "1ü.2"],
        &["", ".", "ü.", "-ü", "ü-", "ü..b", "ü b", "a_b"],
        &["실례.테스트", "x-ü.de", "ĝ", &"ü".repeat(13)],
    );
    check(
        "idn-email",
        &["joe.bloggs@example.com", "δοκιμή@example.com", "müller@müller.de", "漢字@a"],
        &["", "2962", "δοκιμή", "@ü", "ü@", "ü ü@a", "ü@@a"],
        &["실례@실례.테스트", "\"δοκιμή\"@example.com", "ü.ü@a", &format!("{}@a", "ü".repeat(17))],
    );
}

#[test]
fn iris_and_templates() {
    let iris = ["http://ƒøø.ßår/?∂éœ=πîx#πîüx", "urn:ü", "http://ƒøø.ßår/𐌀", "a:?\u{e000}", "mailto:a@b"];
    check(
        "iri",
        &iris,
        &["", "/abc", "âππ", "http://ƒøø.ßår/\n", "\\\\filëßåré", "a:\u{e000}", "a:#\u{e000}", "a:\u{80}"],
        &["http://[::1]", "a:\u{40000}"],
    );
    check(
        "iri-reference",
        &[iris.as_slice(), &["", "//ƒøø.ßår/?∂éœ", "/âππ", "âππ", "#ƒrägmênt"]].concat(),
        &["\\\\WINDOWS\\filëßåré", "#ƒräg\\mênt", ":ü", "ü ü"],
        &["//[::1]"],
    );
    check(
        "uri-template",
        &[
            "",
            "http://example.com/{term:1}/{term}",
            "{+var}{#a,b*}",
            "{a.b}",
            "{%41}",
            "a%41b",
            "😀",
            "a'b",
            "{v:9999}",
            "{?x,y}{&z}",
            "[a]",
        ],
        &[
            "{",
            "}",
            "{}",
            "{a,,b}",
            "{v:0}",
            "{v:01}",
            "{v:10000}",
            "{a..b}",
            "{.}",
            "{a",
            "a b",
            "a\"b",
            "<",
            "{a,}",
            "{var=def}",
            "%4",
            "{,+var}",
            "`",
            "{a*:3}",
        ],
        &["{=a}", "{,a}", "{!a}", "{@a}", "{|a}"],
    );
}

#[test]
fn regular_expressions() {
    check(
        "regex",
        &[
            "",
            "^a+$",
            "([abc])+\\s+$",
            "^(?:(?:a|b(c)?)*\\.)?$",
            "a||b",
            "()",
            "[]",
            "[^]",
            "[-a]",
            "[a-]",
            "[^^]",
            "^[A-Za-z_$][A-Za-z0-9_$-]*$",
            "[1-5][^2-4]",
            "a{3}b{2,}?c{1,20}d{10,20}e{9,100}f{12,345}",
            "\\u{1F600}",
            "(?=a)(?!b)c",
            "(?=(a))",
            "\\bword\\B",
            "[\\b\\-\\]]",
            "\\p{Lu}\\P{N}[\\p{L}]",
            "\\cA\\x41\\u0041",
            "é漢😀\n/\\/",
            "[a-z&&^b]",
            "(((a)))*",
        ],
        &[
            "^(abc]",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            "a{",
            "*",
            "+a",
            "?",
            "^*",
            "\\b+",
            "(?=a)*",
            "a**",
            "a{2}{3}",
            "\\",
            "\\a",
            "\\u",
            "\\u{110000}",
            "\\x4",
            "\\pL",
            "[z-a]",
            "[b-a]",
            "[9-0]",
            "[\\w-a]",
            "a{2,1}",
            "a{20,3}",
            "a{21,12}",
            "(?P<n>a)",
            "(?i)a",
            "(?#c)",
            "a\\",
            "[a\\]",
            "\\Z",
            "(?",
            "(?:",
            "(?=a",
            "\\c1",
        ],
        &[
            "(?<name>x)",
            "(?<n>a)\\k<n>",
            "(a)\\1",
            "(?<=a+)b",
            "(?<!a)b",
            "(?i:a)",
            "\\0",
            "[b-d]",
            "[!-/]",
            "a{12,15}",
            "a{1000}",
            "((((a))))",
            "((?=a))",
            "\\p{Script=Greek}",
            "[a-c-e]",
        ],
    );
}

/// Texts that the other validator accepts and the standard does not.
#[test]
fn regular_expressions_by_the_standard() {
    let (ir, root) = build("regex");
    for text in [r"\-", r"\p{X}", r"\p{lu}", "[\\d-z]"] {
        assert!(!matches(&ir, root, text.as_bytes()), "{text}");
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
    assert!(large.len() < 6, "{large:?}");
}
