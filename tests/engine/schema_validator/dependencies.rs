//! Properties that are allowed only with some values of others, on every object of a few properties.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use ffwd::Policy;
use ffwd_testkit::random::Random;
use ffwd_testkit::vocab::accepts;

use super::{Counts, Schemas};

/// Names, with their possible values.
const NAMES: [(&str, &[&str]); 5] = [
    ("t", &["\"x\"", "\"y\"", "\"z\""]),
    ("u", &["1", "\"x\""]),
    ("a", &["1"]),
    ("b", &["1"]),
    ("c", &["1"]),
];

/// Returns all objects of these properties, in their order.
fn objects() -> Vec<String> {
    let mut all = vec![Vec::new()];
    for (name, values) in NAMES {
        let with = |value: &&str| (name, value.to_string());
        let more: Vec<Vec<(&str, String)>> = values
            .iter()
            .flat_map(|value| all.iter().map(move |object: &Vec<_>| [&object[..], &[with(value)]].concat()))
            .collect();
        all.extend(more);
    }
    let spell = |object: &Vec<(&str, String)>| {
        let members: Vec<String> = object.iter().map(|(name, value)| format!("\"{name}\":{value}")).collect();
        format!("{{{}}}", members.join(","))
    };
    all.iter().map(spell).collect()
}

/// Returns what a property requires: values of others, or their presence.
fn dependency(random: &mut Random) -> Value {
    let mut properties = Map::new();
    for _ in 0..1 + random.below(2) {
        let (name, value) = match random.below(5) {
            0 => ("u", json!({"const": 1})),
            1 => ("u", json!({"type": "string"})),
            _ => {
                let some = 1 + random.below(6);
                let values = ["x", "y", "z"].iter().enumerate().filter(|v| some >> v.0 & 1 == 1);
                ("t", json!({"enum": values.map(|v| v.1).collect::<Vec<_>>()}))
            }
        };
        properties.insert(name.into(), value);
    }
    match random.below(6) {
        0 => json!({"properties": properties, "required": ["t"]}),
        1 => json!({"required": ["b"]}),
        _ => json!({ "properties": properties }),
    }
}

#[test]
fn every_small_object_is_judged_rightly() {
    let (schemas, mut counts) = (Schemas::new(), Counts::default());
    let instances: Vec<Vec<String>> = objects().into_iter().map(|text| vec![text]).collect();
    let mut random = Random::new(31);
    for _ in 0..600 {
        let mut dependencies = Map::new();
        for _ in 0..1 + random.below(5) {
            dependencies.insert(NAMES[random.below(5)].0.into(), dependency(&mut random));
        }
        let mut schema = json!({"type": "object", "additionalProperties": false, "properties": {"t":
            {"type": "string", "maxLength": 1}, "u": {}, "a": {}, "b": {}, "c": {}}, "dependentSchemas": dependencies});
        if random.below(2) == 0 {
            let mut required = Map::new();
            for _ in 0..1 + random.below(3) {
                let others: Vec<&str> = (0..random.below(3)).map(|_| NAMES[random.below(5)].0).collect();
                required.insert(
                    NAMES[random.below(5)].0.into(),
                    others.into_iter().collect::<BTreeSet<_>>().into_iter().collect(),
                );
            }
            schema["dependentRequired"] = Value::Object(required);
        }
        match random.below(5) {
            0 => schema["required"] = json!(["t"]),
            1 => schema["not"] = json!({"dependentSchemas": {"a": dependency(&mut random)}}),
            2 => schema["minProperties"] = json!(2),
            _ => {}
        }
        schemas.compare(&schema, &instances, &mut counts);
    }
    let Counts { valid, invalid, refused, .. } = counts;
    assert!(refused.is_empty(), "{refused:?}");
    assert!(valid > 10_000 && invalid > 10_000, "{valid} valid, {invalid} invalid");
}

/// As above, with twenty names that need the same other one.
#[test]
fn many_names_beside_one() {
    let names: Vec<String> = (0..20).map(|i| format!("option{i}")).collect();
    let all = std::iter::once("base").chain(names.iter().map(String::as_str));
    let properties: Map<String, Value> = all.map(|name| (name.into(), json!({"type": "null"}))).collect();
    let needs: Map<String, Value> = names.iter().map(|n| (n.clone(), json!(["base"]))).collect();
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false,
        "dependentRequired": needs});
    let grammar = Schemas::new().compile(&schema.to_string(), &Policy::default());
    let grammar = grammar.expect("two kinds of objects");
    for (text, valid) in [
        ("{}", true),
        (r#"{"base":null}"#, true),
        (r#"{"base":null,"option4":null,"option9":null}"#, true),
        (r#"{"option4":null}"#, false),
        (r#"{"option2":null,"option19":null}"#, false),
    ] {
        assert_eq!(accepts(&grammar, text), valid, "{text}");
    }
}

/// Separate forks for twenty dependencies would be a million kinds of objects.
#[test]
fn many_names_beside_values_of_one() {
    let kinds = ["text", "number", "date", "place"];
    let names: Vec<String> = (0..20).map(|i| format!("option{i}")).collect();
    let any = names.iter().map(|name| (name.clone(), json!({"type": "boolean"})));
    let mut properties: Map<String, Value> = any.collect();
    properties.insert("type".into(), json!({"enum": kinds}));
    let only = |i: usize| json!({"properties": {"type": {"enum": [kinds[i % 4], kinds[i / 4 % 4]]}}});
    let dependencies: Map<String, Value> =
        names.iter().enumerate().map(|(i, n)| (n.clone(), only(i))).collect();
    let schema = json!({"type": "object", "properties": properties, "additionalProperties": false,
        "dependentSchemas": dependencies});
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let grammar = Schemas::new().compile(&schema.to_string(), &Policy::default());
    let grammar = grammar.expect("as many kinds as there are values");
    for kind in kinds.iter().map(Some).chain([None]) {
        for first in 0..20 {
            for second in first..20 {
                let mut object: Map<String, Value> = Map::new();
                [first, second].iter().for_each(|&i| drop(object.insert(names[i].clone(), json!(true))));
                if let Some(kind) = kind {
                    object.insert("type".into(), json!(kind));
                }
                // In the order in which the schema declares them.
                let members =
                    properties.keys().filter_map(|n| Some(format!("{}:{}", json!(n), object.get(n)?)));
                let text = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
                assert_eq!(accepts(&grammar, &text), validator.is_valid(&Value::Object(object)), "{text}");
            }
        }
    }
}
