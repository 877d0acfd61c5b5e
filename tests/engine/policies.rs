//! Policies: a policy changes how values may be written, never which values are valid.
//!
//! One space after commas and colons, and every way to write a number, each on real schemas. An
//! instance is judged as the same instance in the default form under the default policy. Numbers
//! are tested on random schemas, too, against another validator. The real schemas need the
//! benchmark data (`FFWD_BENCH_DIR`, or `../shared/bench`).

use ffwd::{CompiledGrammar, Compiler, Constraint, ErrorKind, KeyOrder, Policy, Result, Whitespace};
use ffwd_testkit::data::{self, Entry};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, accepts};
use serde_json::{Value, json};

/// The parts of a compact JSON text that are strings, and those that are not.
fn parts(text: &str) -> Vec<(bool, &str)> {
    let (mut all, mut from, mut quoted, mut escaped) = (Vec::new(), 0, false, false);
    for (at, b) in text.bytes().enumerate() {
        match (quoted, escaped, b) {
            (_, true, _) => escaped = false,
            (true, _, b'\\') => escaped = true,
            (false, _, b'"') => {
                all.push((false, &text[from..at]));
                (from, quoted) = (at, true);
            }
            (true, _, b'"') => {
                all.push((true, &text[from..=at]));
                (from, quoted) = (at + 1, false);
            }
            _ => {}
        }
    }
    all.push((quoted, &text[from..]));
    all
}

/// With a blank behind each comma and each colon.
fn spaced(text: &str) -> String {
    let part = |&(quoted, part): &(bool, &str)| match quoted {
        true => part.to_owned(),
        false => part.replace(',', ", ").replace(':', ": "),
    };
    parts(text).iter().map(part).collect()
}

/// With up to two zeros more behind the point of each number.
fn with_zeros(text: &str, random: &mut Random) -> String {
    let mut out = String::new();
    for (quoted, part) in parts(text) {
        if quoted {
            out.push_str(part);
            continue;
        }
        let mut rest = part;
        while !rest.is_empty() {
            let number = |c: char| c.is_ascii_digit() || "+-.eE".contains(c) && !rest.starts_with(['e', 'E']);
            let length = rest.find(|c| !number(c)).unwrap_or(rest.len());
            let (found, after) = rest.split_at(length);
            out.push_str(found);
            let zeros = random.below(3);
            if found.contains(|c: char| c.is_ascii_digit()) && !found.contains(['e', 'E']) && zeros > 0 {
                out.push_str(if found.contains('.') { "" } else { "." });
                out.push_str(&"0".repeat(zeros));
            }
            let other = after.find(|c: char| c.is_ascii_digit() || c == '-').unwrap_or(after.len());
            out.push_str(&after[..other]);
            rest = &after[other..];
        }
    }
    out
}

fn compiled(compiler: &Compiler, schema: &str, policy: Policy) -> Result<CompiledGrammar> {
    compiler.compile(&Constraint::builder().policy(policy).json_schema(schema)?)
}

fn real_schemas() -> Option<Vec<Entry>> {
    let dir = data::bench_dir();
    if dir.is_none() {
        eprintln!("skipped: no benchmark data; set FFWD_BENCH_DIR to the folder that holds it");
    }
    Some(data::load(&dir?.join("maskbench-dev-sample.jsonl.zst")).expect("readable data"))
}

#[test]
fn one_blank_changes_nothing_else() {
    let Some(entries) = real_schemas() else { return };
    let compiler = Compiler::new(TestVocab::new(1, 50, &[]).vocab);
    let (mut judged, mut accepted) = (0, 0);
    for entry in entries {
        for key_order in [KeyOrder::Declared, KeyOrder::Any] {
            let policy = Policy { key_order, ..Policy::default() };
            let single = Policy { whitespace: Whitespace::SingleSpace, ..policy.clone() };
            let (compact, single) =
                (compiled(&compiler, &entry.schema, policy), compiled(&compiler, &entry.schema, single));
            let (compact, single) = match (compact, single) {
                (Ok(compact), Ok(single)) => (compact, single),
                (Err(a), Err(b)) => {
                    assert_eq!(a.kind(), b.kind(), "{}: {a} and {b}", entry.id);
                    continue;
                }
                (a, b) => panic!("{}: {:?} and {:?}", entry.id, a.err(), b.err()),
            };
            for test in &entry.tests {
                let Some(text) = data::canonical(&test.data) else { continue };
                let (want, other) = (accepts(&compact, &text), spaced(&text));
                assert_eq!(accepts(&single, &other), want, "{}: {other}", entry.id);
                assert!(other == text || !accepts(&single, &text), "{}: {text}", entry.id);
                assert!(other == text || !accepts(&compact, &other), "{}: {other}", entry.id);
                judged += 1;
                accepted += usize::from(want);
            }
            let matcher = single.matcher();
            let end = matcher
                .shortest_completion(usize::MAX)
                .unwrap_or_else(|| panic!("no completion of {} {key_order:?}", entry.id));
            let end = String::from_utf8(end).expect("text");
            assert!(accepts(&single, &end), "{}: {end}", entry.id);
        }
    }
    assert!(accepted > 500 && judged > accepted + 500, "{accepted} of {judged}");
}

#[test]
fn zeros_behind_the_point_change_nothing_else() {
    let Some(entries) = real_schemas() else { return };
    let compiler = Compiler::new(TestVocab::new(1, 50, &[]).vocab);
    let (mut random, mut respelled) = (Random::new(5), 0);
    for entry in entries {
        let equal = Policy { equal_numbers: true, ..Policy::default() };
        let strict = compiled(&compiler, &entry.schema, Policy::default());
        let (Ok(strict), Ok(equal)) = (strict, compiled(&compiler, &entry.schema, equal)) else { continue };
        for test in &entry.tests {
            let Some(text) = data::canonical(&test.data) else { continue };
            let other = with_zeros(&text, &mut random);
            let want = accepts(&equal, &text);
            assert!(want || !accepts(&strict, &text), "{}: only without other spellings: {text}", entry.id);
            let found = accepts(&equal, &other);
            // Where `1.0` is no integer.
            let old = want && ["draft-03", "draft-04"].iter().any(|draft| entry.schema.contains(draft));
            assert!(found == want || old, "{}: {other}", entry.id);
            respelled += usize::from(found && other != text);
        }
    }
    assert!(respelled > 100, "{respelled}");
}

/// Numbers of different values, some in the spelling that is not the shortest.
const NUMBERS: [&str; 9] = ["0", "1", "2.0", "3", "-1", "0.50", "1.5", "10", "2.25"];

fn number(random: &mut Random) -> Value {
    serde_json::from_str(random.pick::<&str>(&NUMBERS)).expect("a number")
}

/// A schema about numbers, and about arrays and objects with numbers.
fn schema(random: &mut Random, depth: usize) -> Value {
    let inner = |random: &mut Random| schema(random, depth - 1);
    match random.below(if depth == 0 { 7 } else { 15 }) {
        0 => json!({"const": number(random)}),
        1 => json!({"enum": [number(random), number(random), "x"]}),
        2 => json!({"type": "integer"}),
        3 => json!({"type": "number"}),
        4 => json!({"type": "number", "multipleOf": random.pick(&[0.5, 0.25, 1.0, 3.0])}),
        5 => json!({"type": ["integer", "string"], "minimum": number(random), "maximum": 3}),
        6 => json!({"enum": [[number(random)], {"a": number(random)}, number(random)]}),
        7 => json!({"not": inner(random)}),
        8 => json!({"allOf": [inner(random), inner(random)]}),
        9 => json!({"anyOf": [inner(random), inner(random)]}),
        10 => json!({"oneOf": [inner(random), inner(random)]}),
        11 => json!({"if": inner(random), "then": inner(random), "else": inner(random)}),
        12 => json!({"type": "array", "items": inner(random), "uniqueItems": random.chance(50)}),
        13 => json!({"type": "array", "items": inner(random), "contains": inner(random), "maxContains": 1}),
        _ => json!({"type": "object", "properties": {"a": inner(random)}, "additionalProperties": false}),
    }
}

fn instance(random: &mut Random) -> String {
    let one = |random: &mut Random| random.pick::<&str>(&NUMBERS).to_string();
    match random.below(6) {
        0..=2 => one(random),
        3 => format!("[{}]", one(random)),
        4 => format!("[{},{}]", one(random), one(random)),
        _ => format!("{{\"a\":{}}}", one(random)),
    }
}

#[test]
fn equal_numbers_are_judged_as_values() {
    let compiler = Compiler::new(TestVocab::new(2, 50, &[]).vocab);
    let (mut valid, mut invalid, mut refused, mut impossible) = (0, 0, 0, 0);
    for seed in 0..800 {
        let mut random = Random::new(seed);
        let mut schema = schema(&mut random, 2);
        // Where `1.0` is no integer, some of what is valid is not written.
        let old = seed % 4 == 3;
        if old {
            schema["$schema"] = "http://json-schema.org/draft-04/schema#".into();
        }
        let validator = jsonschema::validator_for(&schema).expect("a schema");
        let loose = Policy { equal_numbers: true, max_fraction_digits: 6, ..Policy::default() };
        let grammar = match compiled(&compiler, &schema.to_string(), loose) {
            Ok(grammar) => Some(grammar),
            Err(error) if error.kind() == ErrorKind::Unsatisfiable => None,
            Err(error) => {
                assert!(matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::TooComplex), "{error}");
                refused += 1;
                continue;
            }
        };
        impossible += usize::from(grammar.is_none());
        for _ in 0..30 {
            let text = with_zeros(&instance(&mut random), &mut random);
            let want = validator.is_valid(&serde_json::from_str(&text).expect("JSON"));
            let accepted = grammar.as_ref().is_some_and(|grammar| accepts(grammar, &text));
            assert!(accepted == want || old && want, "seed {seed}: {text} for {schema}");
            *if want { &mut valid } else { &mut invalid } += 1;
        }
    }
    eprintln!("{valid} valid, {invalid} invalid, {refused} schemas refused, {impossible} impossible");
    assert!(valid > 4_000 && invalid > 4_000, "{valid} valid, {invalid} invalid");
    assert!(refused < 30, "{refused} refused");
}

#[test]
fn strict_constraints_have_no_warnings() {
    let strict = |schema: &str| Constraint::json_schema(schema).unwrap().strict();
    assert!(strict(r#"{"type": "string", "format": "date", "title": "A day"}"#).is_ok());
    for (schema, word) in [
        (
            r#"{"properties": {"a": {"type": "string", "format": "zip-code-of-mars"}}}"#,
            "#/properties/a/format",
        ),
        (r#"{"type": "string", "maxlength": 3}"#, "maxlength"),
    ] {
        let error = strict(schema).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains(word) && error.hint_text().is_some(), "{error}");
    }
    let grammar = Constraint::ebnf("root ::= \"a\"\nother ::= \"b\"").unwrap();
    assert!(grammar.strict().unwrap_err().message().contains("other"));
}

#[test]
fn long_lists_of_numbers_have_every_spelling() {
    let equal = Policy { equal_numbers: true, ..Policy::default() };
    let list: Vec<String> =
        (0..50_000).map(|i| format!("{}.5", i * 7)).chain((0..10_000).map(|i| (i * 7).to_string())).collect();
    let compiler = Compiler::new(TestVocab::new(1, 50, &[]).vocab);
    let schema = format!("{{\"enum\": [{}, 1e3, 0, -2.50, 0.123456789012345678901]}}", list.join(","));
    let grammar = compiled(&compiler, &schema, equal).unwrap();
    for text in [
        "7.5",
        "349993.500",
        "7",
        "69993.0",
        "1e3",
        "1000.0",
        "0",
        "-0",
        "0.00",
        "-2.5",
        "-2.500",
        "0.123456789012345678901",
    ] {
        assert!(accepts(&grammar, text), "{text}");
    }
    for text in ["8", "8.5", "7.05", "7.", "07", "1e2", "2.5", "-7", "0.1234567890123456789010"] {
        assert!(!accepts(&grammar, text), "{text}");
    }
}

/// How numbers are written is settled when a schema is parsed, with bounds and without, whatever
/// policy comes later; so numbers are regular, like all that is spelled out.
#[test]
fn numbers_stay_as_they_were_parsed() {
    let compiler = Compiler::new(TestVocab::new(1, 50, &[]).vocab);
    let takes = |constraint: &Constraint, text: &str| accepts(&compiler.compile(constraint).unwrap(), text);
    let short = Policy { max_integer_digits: 2, max_fraction_digits: 1, ..Policy::default() };
    let long = Policy { max_integer_digits: 4, exponent: true, equal_numbers: true, ..Policy::default() };
    let parse = |schema: &str, policy: &Policy| {
        Constraint::builder().policy(policy.clone()).json_schema(schema).unwrap()
    };
    let draft_4 = r#"{"$schema": "http://json-schema.org/draft-04/schema#", "type": "integer"}"#;
    for (schema, taken, long_only) in [
        (r#"{"type": "number"}"#, "-12.5", &["123", "1.25", "1e5"][..]),
        (r#"{"type": "integer"}"#, "-12", &["123", "1.0"]),
        (r#"{"type": ["integer", "string"]}"#, "12", &["123", "1.0"]),
        (draft_4, "12", &["123"]),
    ] {
        let (first, second) = (parse(schema, &short), parse(schema, &long));
        assert!(takes(&first, taken) && takes(&second, taken), "{schema}");
        for text in long_only {
            assert!(!takes(&first.clone().with_policy(long.clone()), text), "{schema}: {text}");
            assert!(takes(&second.clone().with_policy(short.clone()), text), "{schema}: {text}");
        }
        assert!(
            schema != draft_4
                || !takes(&second, "1.0") && !takes(&first.clone().with_policy(long.clone()), "1.0")
        );
    }
    let two = Constraint::regex("[0-9.]{2}").unwrap();
    let both = parse(r#"{"type": "integer"}"#, &long).and(&two).unwrap();
    assert!(takes(&both, "12") && !takes(&both, "1") && !takes(&both, "02") && !takes(&both, "1."));
    let other = parse(r#"{"type": "integer"}"#, &short).not().unwrap();
    assert!(takes(&other, "a") && takes(&other, "123") && takes(&other, "02") && !takes(&other, "12"));
    // What is spelled out asks nothing of a policy.
    let values =
        Constraint::json_object().with_policy(Policy { key_order: KeyOrder::Any, ..Policy::default() });
    assert!(takes(&parse(r#"{"type": "integer"}"#, &short).then(&values).unwrap(), "12{}"));
}
