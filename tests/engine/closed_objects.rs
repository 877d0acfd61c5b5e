//! Closed objects: the policy that an object has only the properties that its schemas mention.
//!
//! Random compositions are compared with another validator, which reads the same schema with
//! `unevaluatedProperties: false` at the outermost schema of each object. `closed_objects.toml` in
//! `crates/engine/testdata` has the cases that this rewriting cannot express.

use ffwd::{CompiledGrammar, Compiler, Constraint, KeyOrder, Policy};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::{TestVocab, accepts};
use serde_json::{Map, Value, json};

fn compile(compiler: &Compiler, schema: &Value, closed_objects: bool) -> CompiledGrammar {
    let policy = Policy { closed_objects, key_order: KeyOrder::Any, ..Policy::default() };
    let constraint = Constraint::builder().policy(policy).json_schema(schema.to_string());
    compiler.compile(&constraint.unwrap_or_else(|e| panic!("{schema}\n{e}"))).unwrap()
}

/// A schema, and the same schema with each object closed by the standard's keyword.
struct Pair {
    schema: Value,
    closed: Value,
}

impl Pair {
    fn same(schema: Value) -> Pair {
        Pair { closed: schema.clone(), schema }
    }

    fn map(self, change: impl Fn(Value) -> Value) -> Pair {
        Pair { schema: change(self.schema), closed: change(self.closed) }
    }

    fn set(&mut self, name: &str, value: Pair) {
        self.schema[name] = value.schema;
        self.closed[name] = value.closed;
    }
}

fn scalar(random: &mut Random) -> Value {
    json!({"type": *random.pick(&["integer", "integer", "integer", "string"])})
}

/// A part of a composition: some properties, some of them required.
fn part(random: &mut Random, names: &[&str]) -> Value {
    let names: Vec<&str> = names.iter().copied().filter(|_| random.chance(70)).collect();
    let properties: Map<String, Value> =
        names.iter().map(|name| ((*name).to_string(), scalar(random))).collect();
    let required: Vec<&str> = names.into_iter().filter(|_| random.chance(30)).collect();
    json!({"properties": properties, "required": required})
}

/// A schema for one value.
fn position(random: &mut Random, depth: usize) -> Pair {
    match random.below(6) {
        0 if depth > 0 => Pair::same(scalar(random)),
        1 if depth > 0 => position(random, depth + 1).map(|items| json!({"type": "array", "items": items})),
        2 if depth > 0 => {
            // A map: no declared properties.
            position(random, depth + 1)
                .map(|values| json!({"type": "object", "additionalProperties": values}))
        }
        _ if depth > 2 => Pair::same(scalar(random)),
        _ => object(random, depth),
    }
}

fn object(random: &mut Random, depth: usize) -> Pair {
    let mut own = Pair::same(part(random, &["a", "b"]));
    own = own.map(|mut schema| {
        schema["properties"]["a"] = json!({"type": "integer"});
        schema
    });
    if random.chance(50) {
        let nested = position(random, depth + 1);
        own.schema["properties"]["n"] = nested.schema;
        own.closed["properties"]["n"] = nested.closed;
    }
    let mut parts = vec![part(random, &["c", "d"])];
    if random.chance(40) {
        // Used as a part and, at other places, alone.
        parts.push(json!({"$ref": "#/$defs/shared"}));
    }
    if random.chance(60) {
        own.set("allOf", Pair::same(json!(parts)));
    }
    let branches = json!([
        {"properties": {"c": scalar(random), "e": scalar(random)}, "required": ["e"]},
        {"properties": {"d": scalar(random), "f": scalar(random)}, "required": ["f"]}
    ]);
    match random.below(5) {
        0 => own.set("anyOf", Pair::same(branches)),
        1 => own.set("oneOf", Pair::same(branches)),
        2 => {
            own.set("if", Pair::same(json!({"required": ["b"], "properties": {"b": {"type": "integer"}}})));
            own.set("then", Pair::same(branches[0].clone()));
            own.set("else", Pair::same(part(random, &["f"])));
        }
        3 => own.set("dependentSchemas", Pair::same(json!({"a": part(random, &["e", "f"])}))),
        _ => {}
    }
    match random.below(10) {
        0 => own.set("additionalProperties", Pair::same(json!(true))),
        1 => own.set("additionalProperties", Pair::same(json!({"type": "integer"}))),
        // The standard's keyword would close what the pattern leaves open.
        2 => {
            return own.map(|mut schema| {
                schema["patternProperties"] = json!({"^x": {"type": "integer"}});
                schema
            });
        }
        _ => {}
    }
    own.closed["unevaluatedProperties"] = json!(false);
    own
}

/// A value that a schema above is likely to accept.
fn value(random: &mut Random, depth: usize) -> Value {
    match random.below(12) {
        0 => json!("s"),
        1 => json!([value(random, depth + 1)]),
        2..=5 if depth > 0 => json!(7),
        _ if depth > 3 => json!(7),
        _ => {
            let mut members = Map::new();
            for name in ["a", "b", "c", "d", "e", "f", "n", "x1", "z"] {
                let percent = if name < "n" { 45 } else { 12 };
                if random.chance(percent) {
                    let own = if name == "n" { value(random, depth + 1) } else { json!(1) };
                    members.insert(name.into(), own);
                }
            }
            members.into()
        }
    }
}

#[test]
fn closing_is_the_standard_keyword_at_the_outermost_schema() {
    let words = TestVocab::new(7, 100, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let (mut accepted, mut removed) = (0, 0);
    let cases = env::oracle_cases(400);
    for seed in 0..cases {
        let mut random = Random::new(seed);
        let mut root = object(&mut random, 0);
        let shared = part(&mut random, &["d", "e"]);
        let alone = Pair {
            closed: json!({"$ref": "#/$defs/shared", "unevaluatedProperties": false}),
            schema: json!({"$ref": "#/$defs/shared"}),
        };
        root = Pair {
            schema: json!({"anyOf": [root.schema, {"type": "array", "items": alone.schema}]}),
            closed: json!({"anyOf": [root.closed, {"type": "array", "items": alone.closed}]}),
        };
        root.set("$defs", Pair::same(json!({"shared": shared})));
        // A part without properties is a map where it is alone.
        if shared["properties"] == json!({}) {
            continue;
        }
        let (closed, open) =
            (compile(&compiler, &root.schema, true), compile(&compiler, &root.schema, false));
        let expected = jsonschema::validator_for(&root.closed).unwrap();
        let written = jsonschema::validator_for(&root.schema).unwrap();
        for _ in 0..60 {
            let value = value(&mut random, 0);
            let found = accepts(&closed, &value.to_string());
            assert_eq!(found, expected.is_valid(&value), "seed {seed}: {value}\n{}", root.schema);
            assert_eq!(accepts(&open, &value.to_string()), written.is_valid(&value), "seed {seed}: {value}");
            assert!(!found || written.is_valid(&value), "seed {seed}: {value}\n{}", root.schema);
            accepted += u64::from(found);
            removed += u64::from(!found && written.is_valid(&value));
        }
    }
    eprintln!("{accepted} values accepted, {removed} only open");
    assert!(accepted > cases && removed > cases, "{accepted} {removed}");
}

#[test]
fn large_objects_are_closed_in_bounded_time() {
    let properties: Map<String, Value> = (0..20_000).map(|i| (format!("p{i}"), json!({}))).collect();
    let required: Vec<&String> = properties.keys().collect();
    let schema =
        json!({"properties": properties, "required": required, "oneOf": [{"required": ["p1"]}, false]});
    let policy = Policy { closed_objects: true, ..Policy::default() };
    assert!(Constraint::builder().policy(policy).json_schema(schema.to_string()).is_ok());
}
