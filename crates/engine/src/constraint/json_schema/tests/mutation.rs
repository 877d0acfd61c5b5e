//! Tests of broken schemas: never a panic, and always an answer in reasonable time.

use std::time::{Duration, Instant};

use ffwd_testkit::random::Random;

use super::coverage::corpus;
use crate::constraint::Policy;
use crate::constraint::json_schema::parse;

const SCHEMAS: &[&str] = &[
    r##"{"$defs":{"a":{"type":"object","properties":{"b":{"$ref":"#/$defs/a"},"c":{"enum":[1,"x",null]}}}},"allOf":[{"$ref":"#/$defs/a"},{"required":["c"]}],"patternProperties":{"^x-":{"type":"string","pattern":"^[a-z]{1,3}$"}},"additionalProperties":false}"##,
    r#"{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"}},"required":["k"]}],"minProperties":1}"#,
    r#"{"type":["array","null"],"prefixItems":[{"type":"integer","minimum":-5,"maximum":1e2,"multipleOf":5}],"items":{"type":"number","multipleOf":0.01},"minItems":1,"maxItems":4}"#,
    r#"{"if":{"properties":{"t":{"const":1}}},"then":{"required":["u"]},"else":{"not":{"required":["v"]}},"dependentRequired":{"a":["b"]},"propertyNames":{"maxLength":5}}"#,
    r#"{"type":"string","pattern":"^(a|b)+\\d?$","format":"date-time","minLength":2,"maxLength":30,"anyOf":[{"pattern":"x"},{"not":{"enum":["a","b"]}}]}"#,
];

const PIECES: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\\",
    "\\ud800",
    "-",
    "1e999999999",
    "1e-999999999",
    "0.",
    "null",
    "true",
    "false",
    "\"type\":",
    "\"$ref\":\"#\"",
    "\"not\":{}",
    "\"anyOf\":[{},{}]",
    "\"items\":false",
    "\"minItems\":99999999999",
    "\"pattern\":\"(\"",
    "\"multipleOf\":0",
    "\"é\"",
    "\u{0}",
    "\"required\":[\"a\"]",
    "\"oneOf\":[{\"$ref\":\"#\"}]",
];

fn mutate(text: &str, random: &mut Random) -> String {
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len() + 1);
        match random.below(5) {
            0 => bytes.truncate(at),
            1 => {
                let end = (at + 1 + random.below(12)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            2 => {
                let piece = PIECES[random.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            3 if at < bytes.len() => bytes[at] = b' ' + random.below(95) as u8,
            _ => {
                let end = (at + random.below(40)).min(bytes.len());
                let copy = bytes[at.min(end)..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn quick(text: &str) {
    let start = Instant::now();
    let result = parse(text, &Policy::default());
    assert!(start.elapsed() < Duration::from_secs(10), "slow: {text}");
    if let Err(e) = result {
        assert!(!e.to_string().is_empty());
    }
}

#[test]
fn mutated_schemas_do_not_panic() {
    let mut random = Random::new(1);
    for schema in SCHEMAS {
        for end in 0..schema.len() {
            if schema.is_char_boundary(end) {
                quick(&schema[..end]);
            }
        }
        for _ in 0..1_500 {
            quick(&mutate(schema, &mut random));
        }
    }
}

#[test]
fn mutated_corpus_does_not_panic() {
    let Some(cases) = corpus("maskbench-dev-sample.jsonl.zst") else { return };
    let mut random = Random::new(2);
    for case in cases.iter().filter(|c| c.schema.len() < 5_000) {
        for _ in 0..8 {
            quick(&mutate(&case.schema, &mut random));
        }
    }
}

#[test]
fn extreme_inputs_are_refused() {
    let deep = |n: usize| format!("{}1{}", "[".repeat(n), "]".repeat(n));
    assert!(parse(&deep(100_000), &Policy::default()).unwrap_err().to_string().contains("512"));
    let nested = format!("{}{{}}{}", r#"{"not":"#.repeat(500), "}".repeat(500));
    quick(&nested);
    let chain: Vec<String> =
        (0..5_000).map(|i| format!(r##""d{i}":{{"items":{{"$ref":"#/$defs/d{}"}}}}"##, i + 1)).collect();
    quick(&format!(r##"{{"$defs":{{{},"d5000":{{}}}},"$ref":"#/$defs/d0"}}"##, chain.join(",")));
    let wide: Vec<String> = (0..14)
        .map(|i| format!(r#"{{"anyOf":[{{"required":["a{i}"]}},{{"required":["b{i}"]}}]}}"#))
        .collect();
    let error = parse(&format!(r#"{{"type":"object","allOf":[{}]}}"#, wide.join(",")), &Policy::default())
        .unwrap_err();
    assert!(error.message().contains("4096"), "{error}");
    let doubling: Vec<String> = (0..40)
        .map(|i| {
            format!(r##""d{i}":{{"allOf":[{{"$ref":"#/$defs/d{0}"}},{{"$ref":"#/$defs/d{0}"}}]}}"##, i + 1)
        })
        .collect();
    quick(&format!(
        r##"{{"$defs":{{{},"d40":{{"type":"null"}}}},"$ref":"#/$defs/d0"}}"##,
        doubling.join(",")
    ));
}
