//! Hostile text: random and damaged patterns, schemas and tokenizers end in an answer or an error,
//! never in a panic.

use std::time::{Duration, Instant};

use ffwd::{Compiler, Constraint, ErrorKind, Vocabulary};
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, accepts, row};
use serde_json::json;

/// Pieces that mean something to the parsers of regular expressions, element patterns and schemas.
const REGEX: &str = r#"a b é 0 ( ) (?: (?i) [ ] [^ - | * + ? {2} {0,3} {, } . ^ $ \ \d \w \p{L} \b \x
    \u{1F600} (?= (?<a> && -- " (?s:.) {1000} \u{110000} 😀"#;
const PATTERN: &str =
    r"UPPER LOWER DIGIT ANY SPACE PUNCT NEWLINE LETTER ' a 'b' '' + * ? {1} {2,3} { } , \n \' X é 9";
const SCHEMA: &str = r##"{ } [ ] , : "type" "string" "object" "array" "integer" "properties" "a" "items" "$ref" "#"
    "#/a" "enum" "minimum" "anyOf" "not" 1 -1e999 0.5 null true "pattern" "required" "format" "date" "maxLength"
    "additionalProperties""##;

/// Random text over pieces, rarely with any other character.
fn text(random: &mut Random, pieces: &[&str], most: usize) -> String {
    let piece = |random: &mut Random| match random.below(30) {
        0 => char::from_u32(random.below(0x11_0000) as u32).unwrap_or(' ').to_string(),
        1 => (*random.pick(&[" ", "\n", "\u{1}"])).to_owned(),
        _ => (*random.pick(pieces)).to_owned(),
    };
    (0..random.below(most)).map(|_| piece(random)).collect()
}

/// `original` with a few bytes changed, removed, doubled, or the end cut off.
fn damaged(random: &mut Random, original: &[u8]) -> Vec<u8> {
    let mut bytes = original.to_vec();
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.below(256) as u8,
            1 => bytes[at] = *random.pick(b"\"{}[],:0\\-nt"),
            2 => bytes.truncate(at),
            3 => {
                let end = (at + random.below(40)).min(bytes.len());
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + random.below(40)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Compiles whatever it is and takes a few steps; false if it is refused, with a message.
fn exercise(constraint: ffwd::Result<Constraint>, compiler: &Compiler) -> bool {
    match constraint.and_then(|c| compiler.compile(&c)) {
        Ok(grammar) => {
            let mut matcher = grammar.matcher();
            for _ in 0..3 {
                let legal = row(&mut matcher);
                let token = *legal.first().expect("what compiles can begin");
                if compiler.vocabulary().eos().contains(&token) || matcher.accept_token(token).is_err() {
                    break;
                }
            }
            matcher.forced_bytes();
            true
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            false
        }
    }
}

#[test]
fn random_texts() {
    let compiler = Compiler::new(TestVocab::new(1, 100, &[]).vocab);
    let [regex, pattern, schema] = [REGEX, PATTERN, SCHEMA].map(|p| p.split_whitespace().collect::<Vec<_>>());
    let mut random = Random::new(11);
    let mut counts = [[0; 2]; 4];
    for i in 0..40_000 {
        let constraint = match i % 4 {
            0 => Constraint::regex(text(&mut random, &regex, 12)),
            1 => Constraint::pattern(text(&mut random, &pattern, 8)),
            2 => {
                let pattern = text(&mut random, &regex, 10);
                Constraint::json_schema(json!({"type": "string", "pattern": pattern}).to_string())
            }
            // Mostly well-formed: a member is a word, a colon and a value.
            _ => {
                let mut members = Vec::new();
                for _ in 0..random.below(4) {
                    let more = if random.chance(10) { text(&mut random, &schema, 4) } else { String::new() };
                    let (name, value) = (random.pick(&schema[6..]), random.pick(&schema[6..]));
                    members.push(format!("{name}:{value}{more}"));
                }
                Constraint::json_schema(format!("{{{}}}", members.join(",")))
            }
        };
        counts[i % 4][usize::from(exercise(constraint, &compiler))] += 1;
    }
    for _ in 0..5_000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.below(256) as u8).collect();
        exercise(Constraint::json_schema(String::from_utf8_lossy(&bytes)), &compiler);
        assert!(Vocabulary::from_bytes(&bytes).is_err());
    }
    assert!(counts.iter().flatten().all(|&n| n > 300), "{counts:?}: no fair mix");
}

#[test]
fn deep_and_wide_texts() {
    let compiler = Compiler::new(TestVocab::new(9, 120, &[]).vocab);
    let many = |open: &str, inner: &str, close: &str, n: usize| open.repeat(n) + inner + &close.repeat(n);
    for schema in [
        many("[", "", "]", 200_000),
        many("[", "", "", 200_000),
        many("{\"anyOf\":[", "{}", "]}", 20_000),
        many("{\"items\":", "{\"type\":\"null\"}", "}", 300),
        many("{\"items\":", "{\"type\":\"null\"}", "}", 20_000),
        many("{\"properties\":{\"a\":", "{}", "}}", 20_000),
        many("{\"not\":", "{}", "}", 500),
        format!("{{\"enum\":[{}0]}}", (1..20_000).map(|n| format!("{n},")).collect::<String>()),
        format!("{{\"type\":\"string\",\"maxLength\":{}}}", u64::MAX),
        "{\"type\":\"array\",\"minItems\":4000000000,\"items\":{\"type\":\"null\"}}".to_string(),
        format!("{{\"type\":\"string\",\"pattern\":\"{}\"}}", many("(", "a", ")", 5_000)),
        "{\"type\":\"string\",\"pattern\":\"^(((a{1,100}){1,100}){1,100}){1,100}$\"}".to_string(),
    ] {
        exercise(Constraint::json_schema(schema), &compiler);
    }
    let patterns =
        [many("(", "a", ")", 100_000), many("(?:", "a", ")*", 2_000), "a{1000}{1000}{1000}".into()];
    for text in patterns.into_iter().chain(["|".repeat(100_000)]) {
        exercise(Constraint::regex(&text), &compiler);
        exercise(Constraint::pattern(&text), &compiler);
    }
    // Refusals are what is tested above; one of each kind must still work.
    assert!(exercise(Constraint::json_schema("{\"items\":{\"items\":{}}}"), &compiler));
}

/// Reads a schema in reasonable time.
fn quick(text: &str) {
    let start = Instant::now();
    let error = Constraint::json_schema(text).err();
    assert!(start.elapsed() < Duration::from_secs(10), "slow: {text}");
    assert!(error.is_none_or(|e| !e.to_string().is_empty()), "{text}");
}

#[test]
fn extreme_schemas() {
    let says = |schema: &str, part: &str| {
        let error = Constraint::json_schema(schema).expect_err(part);
        assert!(error.to_string().contains(part), "{error}");
    };
    says(&format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), "512");
    let definitions = |count: usize, one: &dyn Fn(usize) -> String| {
        let all: Vec<String> = (0..count).map(|i| format!(r#""d{i}":{}"#, one(i + 1))).collect();
        quick(&format!(r##"{{"$defs":{{{},"d{count}":{{}}}},"$ref":"#/$defs/d0"}}"##, all.join(",")));
    };
    let reference = |i: usize| format!(r##"{{"$ref":"#/$defs/d{i}"}}"##);
    definitions(5_000, &|i| format!(r#"{{"items":{}}}"#, reference(i)));
    definitions(40, &|i| format!(r#"{{"allOf":[{0},{0}]}}"#, reference(i)));
    let wide = |i: usize| format!(r#"{{"anyOf":[{{"required":["a{i}"]}},{{"required":["b{i}"]}}]}}"#);
    let wide: Vec<String> = (0..14).map(wide).collect();
    says(&format!(r#"{{"type":"object","allOf":[{}]}}"#, wide.join(",")), "4096");
    let nullable = |depth: usize| {
        let start = r#"{"type":"object","nullable":true,"required":["a"],"properties":{"a":"#;
        format!("{}{{\"type\":\"integer\"}}{}", start.repeat(depth), "}}".repeat(depth))
    };
    let compiler = Compiler::new(TestVocab::new(1, 0, &[]).vocab);
    let grammar = compiler.compile(&Constraint::json_schema(nullable(200)).unwrap()).unwrap();
    assert!(accepts(&grammar, r#"{"a":{"a":null}}"#) && !accepts(&grammar, r#"{"a":3}"#));
    assert_eq!(Constraint::json_schema(nullable(300)).unwrap_err().kind(), ErrorKind::TooComplex);
    let many: Vec<String> = (0..200).map(|i| format!("\"unknown{i}\":1")).collect();
    let unknown = Constraint::json_schema(format!("{{\"type\":\"null\",{}}}", many.join(","))).unwrap();
    assert_eq!(unknown.warnings().len(), 51);
}

#[test]
fn tokenizers() {
    let shakespeare: &[u8] = include_bytes!("../../examples/data/shakespeare-char-1m/tokenizer.json");
    let extract: &[u8] = include_bytes!("../../crates/runtime/assets/extract-5m/tokenizer.json");
    let mut random = Random::new(13);
    let (mut good, mut bad) = (0, 0);
    for (original, count) in [(shakespeare, 1_500), (extract, 60)] {
        assert!(Vocabulary::from_bytes(original).is_ok());
        for _ in 0..count {
            match Vocabulary::from_bytes(&damaged(&mut random, original)) {
                Ok(vocab) => {
                    // It need not spell everything, but what it says must hang together.
                    let _ = vocab.encode("To be, or not to be");
                    let compiler = Compiler::new(vocab);
                    if let Ok(constraint) = Constraint::regex("[a-z ]{1,5}") {
                        let _ = compiler.compile(&constraint).map(|g| g.matcher().forced_tokens());
                    }
                    good += 1;
                }
                Err(error) => {
                    assert!(!error.message().is_empty());
                    bad += 1;
                }
            }
        }
    }
    assert!(good > 50 && bad > 50, "{good} load, {bad} do not: no fair mix");
}
