//! An `anyOf` of references shares the compiled form of the schemas that it refers to.
//!
//! It must mean the same as the expanded schemas. A keyword next to it that asserts nothing has
//! them expanded; masks and errors must then be the same. `FFWD_ORACLE_CASES` sets the number of
//! schemas.

use ffwd::{Compiler, Constraint, KeyOrder, Policy};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, row};
use serde_json::{Map, Value, json};

const DEFINITIONS: usize = 4;

/// A schema of definitions that refer to each other, mostly in an `anyOf`, with `beside` next to
/// each.
fn schema(random: &mut Random, beside: &Value) -> Value {
    let mut definitions = Map::new();
    for i in 0..DEFINITIONS {
        let part = match random.below(6) {
            0 => json!({"type": "array", "items": alternatives(random, beside), "maxItems": 2}),
            // In place: of the later ones only, so that none applies to the same value as itself.
            1 if i + 1 < DEFINITIONS => {
                let later = reference(i + 1 + random.below(DEFINITIONS - i - 1));
                with(json!({"anyOf": [later, {"type": "boolean"}]}), beside)
            }
            2 => json!({"enum": ["a", 1]}),
            _ => {
                let required: &[&str] = if random.chance(40) { &["a"] } else { &[] };
                let open = json!(random.chance(20));
                json!({
                    "type": *random.pick(&["object", "object", "array"]),
                    "properties": {"a": alternatives(random, beside), "b": alternatives(random, beside)},
                    "required": required, "additionalProperties": open
                })
            }
        };
        definitions.insert(format!("d{i}"), part);
    }
    let mut root = alternatives(random, beside);
    root["$defs"] = definitions.into();
    root
}

fn reference(i: usize) -> Value {
    json!({"$ref": format!("#/$defs/d{i}")})
}

fn with(mut schema: Value, beside: &Value) -> Value {
    for (word, value) in beside.as_object().into_iter().flatten() {
        schema[word] = value.clone();
    }
    schema
}

fn alternatives(random: &mut Random, beside: &Value) -> Value {
    let count = 1 + random.below(3);
    let branch = |random: &mut Random| match random.below(6) {
        0 => json!({"type": *random.pick(&["null", "string"]), "maxLength": 2}),
        1 => json!({"enum": ["b", null]}),
        2 => json!(false),
        _ => reference(random.below(DEFINITIONS)),
    };
    let list: Vec<Value> = (0..count).map(|_| branch(random)).collect();
    with(json!({"anyOf": list}), beside)
}

#[test]
fn shared_alternatives_mean_what_expanded_ones_do() {
    let cases = env::oracle_cases(1500);
    let words = TestVocab::new(7, 200, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let (mut compiled, mut refused, mut steps) = (0, 0, 0);
    for seed in 0..cases {
        let shared = schema(&mut Random::new(seed), &json!({}));
        let expanded = schema(&mut Random::new(seed), &json!({"minProperties": 0}));
        for key_order in [KeyOrder::Declared, KeyOrder::Any] {
            let compile = |schema: &Value| {
                let policy = Policy { key_order, ..Policy::default() };
                let constraint = Constraint::builder().policy(policy).json_schema(schema.to_string());
                constraint.and_then(|constraint| compiler.compile(&constraint))
            };
            let (grammar, expected) = match (compile(&shared), compile(&expanded)) {
                (Ok(grammar), Ok(expected)) => (grammar, expected),
                (Err(e), Err(expected)) => {
                    assert_eq!(e.kind(), expected.kind(), "{shared}\n{e}\n{expected}");
                    refused += 1;
                    continue;
                }
                (one, other) => panic!("{shared}\n{:?}\n{:?}", one.err(), other.err()),
            };
            compiled += 1;
            for walk in 0..3 {
                let mut random = Random::new(seed * 8 + walk);
                let (mut matcher, mut other) = (grammar.matcher(), expected.matcher());
                for _ in 0..40 {
                    let legal = row(&mut matcher);
                    assert_eq!(legal, row(&mut other), "{shared}");
                    assert_eq!(matcher.is_accepting(), other.is_accepting(), "{shared}");
                    let open: Vec<u32> = legal.into_iter().filter(|t| !words.eos.contains(t)).collect();
                    if open.is_empty() {
                        break;
                    }
                    steps += 1;
                    let token = *random.pick(&open);
                    matcher.accept_token(token).expect("it is legal");
                    other.accept_token(token).expect("it is legal there, too");
                }
            }
        }
    }
    eprintln!("{compiled} compiled, {refused} refused, {steps} masks");
    assert!(compiled > cases && refused > cases / 50 && steps > 20 * cases, "{compiled} {refused} {steps}");
}
