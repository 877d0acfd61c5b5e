//! Closed objects: the policy that an object has only the properties that its schemas mention.
//!
//! Random compositions are compared with another validator, which reads the same schema with
//! `unevaluatedProperties: false` at the outermost schema of each object. Tables hold the cases
//! that this rewriting cannot express.

use ffwd::{CompiledGrammar, Compiler, Constraint, ErrorKind, KeyOrder, Policy};
use ffwd_testkit::env;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::TestVocab;
use serde_json::{Map, Value, json};

/// Byte by byte: the first 256 tokens are the bytes.
fn accepts(grammar: &CompiledGrammar, value: &Value) -> bool {
    let mut matcher = grammar.matcher();
    let text = value.to_string();
    text.bytes().all(|b| matcher.accept_token(u32::from(b)).is_ok()) && matcher.is_accepting()
}

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
            let found = accepts(&closed, &value);
            assert_eq!(found, expected.is_valid(&value), "seed {seed}: {value}\n{}", root.schema);
            assert_eq!(accepts(&open, &value), written.is_valid(&value), "seed {seed}: {value}");
            assert!(!found || written.is_valid(&value), "seed {seed}: {value}\n{}", root.schema);
            accepted += u64::from(found);
            removed += u64::from(!found && written.is_valid(&value));
        }
    }
    eprintln!("{accepted} values accepted, {removed} only open");
    assert!(accepted > cases && removed > cases, "{accepted} {removed}");
}

/// Values that a schema accepts with closed objects, and values that only open ones have.
fn check(schema: Value, yes: &[Value], no: &[Value]) {
    let words = TestVocab::new(7, 100, &[]);
    let compiler = Compiler::new(words.vocab.clone());
    let (closed, open) = (compile(&compiler, &schema, true), compile(&compiler, &schema, false));
    for value in yes {
        assert!(accepts(&closed, value) && accepts(&open, value), "{schema}\nshould accept {value}");
    }
    for value in no {
        assert!(!accepts(&closed, value), "{schema}\nshould not accept {value}");
        assert!(accepts(&open, value), "{schema}\nshould accept {value} with open objects");
    }
}

#[test]
fn objects_without_declared_properties_are_maps() {
    check(json!({"type": "object"}), &[json!({}), json!({"a": 1})], &[]);
    check(json!({"type": "object", "properties": {}}), &[json!({"a": 1})], &[]);
    check(json!({"required": ["a"]}), &[json!({"a": 1, "b": 2}), json!(3)], &[]);
    check(json!({"additionalProperties": {"type": "integer"}}), &[json!({"b": 2})], &[]);
    let schema = json!({"properties": {"a": {}}, "patternProperties": {"^x-": {"type": "integer"}}});
    check(schema, &[json!({"a": 1, "x-b": 2, "c": 3})], &[]);
    check(json!({"properties": {"a": {}}, "additionalProperties": true}), &[json!({"b": 2})], &[]);
    check(json!({"properties": {"a": {}}, "unevaluatedProperties": true}), &[json!({"b": 2})], &[]);
    check(json!({}), &[json!({"b": 2})], &[]);
    check(json!({"enum": [{"a": 1, "b": 2}], "properties": {"a": {}}}), &[json!({"a": 1, "b": 2})], &[]);
}

#[test]
fn compositions_close_as_one() {
    // Two parts declare the same property, each with a part of it.
    let schema = json!({"allOf": [
        {"properties": {"p": {"properties": {"x": {"type": "integer"}}}}},
        {"properties": {"p": {"properties": {"y": {"type": "integer"}}}, "q": {}}}
    ]});
    check(schema, &[json!({"p": {"x": 1, "y": 2}, "q": 3})], &[json!({"p": {"z": 1}}), json!({"r": 1})]);
    // A definition that is a part at one place, and alone at another.
    let schema = json!({
        "$defs": {"named": {"type": "object", "properties": {"name": {"type": "string"}}}},
        "allOf": [{"$ref": "#/$defs/named"}],
        "properties": {"age": {"type": "integer"}, "friend": {"$ref": "#/$defs/named"}}
    });
    let (yes, no) = (json!({"name": "a", "age": 1, "friend": {"name": "b"}}), json!({"friend": {"age": 1}}));
    check(schema, &[yes], &[no, json!({"other": 1})]);
    // Branches that hold together.
    let contact = json!({"properties": {"name": {}}, "anyOf": [
        {"properties": {"phone": {"type": "integer"}}, "required": ["phone"]},
        {"properties": {"mail": {"type": "string"}}, "required": ["mail"]}
    ]});
    let both = json!({"phone": 1, "mail": "a", "name": 0});
    check(
        contact,
        &[both, json!({"phone": 1})],
        &[json!({"phone": 1, "mail": 2}), json!({"phone": 1, "z": 2})],
    );
    // Branches that exclude each other, also by what they forbid.
    let shapes = json!({"oneOf": [
        {"properties": {"kind": {"const": "dot"}}, "required": ["kind"]},
        {"properties": {"kind": {"const": "circle"}, "radius": {"type": "integer"}}, "required": ["kind"]}
    ]});
    let (dot, circle) = (json!({"kind": "dot"}), json!({"kind": "circle", "radius": 1}));
    check(shapes, &[dot, circle], &[json!({"kind": "dot", "radius": 1})]);
    let one = json!({"oneOf": [
        {"properties": {"a": {"type": "integer"}}, "required": ["a"]},
        {"properties": {"b": {"type": "integer"}}, "required": ["b"]}
    ]});
    check(one, &[json!({"a": 1})], &[json!({"a": 1, "b": "wrong"})]);
    // Alternatives that are references: the properties of one of them.
    let union = json!({
        "$defs": {"a": {"properties": {"a": {}}, "required": ["a"]}, "b": {"properties": {"b": {}}, "required": ["b"]}},
        "anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"type": "null"}]
    });
    check(union, &[json!({"a": 1}), json!({"b": 1}), Value::Null], &[json!({"a": 1, "c": 1})]);
}

#[test]
fn recursion_items_and_older_drafts_are_closed() {
    let tree = json!({
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"value": {}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}
    });
    check(
        tree,
        &[json!({"value": 1, "children": [{"children": []}]})],
        &[json!({"children": [{"other": 1}]})],
    );
    for draft in ["http://json-schema.org/draft-04/schema#", "http://json-schema.org/draft-07/schema#"] {
        let schema = json!({"$schema": draft, "properties": {"a": {"type": "integer"}},
            "items": {"properties": {"b": {}}}});
        check(schema, &[json!({"a": 1}), json!([{"b": 1}])], &[json!({"b": 1}), json!([{"a": 1}])]);
    }
}

#[test]
fn closing_leaves_no_object_without_the_properties_it_needs() {
    check(
        json!({"properties": {"a": {}}, "required": ["b"]}),
        &[json!({"a": 1, "b": 2})],
        &[json!({"b": 1, "c": 2})],
    );
    check(json!({"properties": {"a": {}}, "minProperties": 2}), &[json!({"a": 1, "z": 2})], &[]);
    let schema = json!({"properties": {"a": {}}, "not": {"properties": {"b": {"type": "integer"}}}});
    check(schema, &[json!({"b": "x"})], &[]);
    let schema = json!({"properties": {"a": {}}, "dependentRequired": {"b": ["c"]}});
    check(schema, &[json!({"a": 1})], &[json!({"b": 1, "c": 1})]);
}

#[test]
fn pointers_of_warnings_and_errors_are_those_of_the_schema() {
    let policy = Policy { closed_objects: true, ..Policy::default() };
    let read = |schema: &str| Constraint::builder().policy(policy.clone()).json_schema(schema);
    let constraint = read(r#"{"allOf": [{"properties": {"a": {"format": "nonsense"}}}]}"#).unwrap();
    assert_eq!(constraint.warnings()[0].pointer(), Some("/allOf/0/properties/a/format"));
    let error = read(r#"{"properties": {"a": {"type": "strin"}}}"#).unwrap_err();
    assert_eq!((error.kind(), error.pointer()), (ErrorKind::InvalidSchema, Some("/properties/a/type")));
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
