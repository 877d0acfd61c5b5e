//! Keywords that depend on their siblings: `unevaluated…`, `$dynamicRef` in random dynamic scopes, and
//! negations of objects.

use serde_json::{Value, json};

use ffwd::constraint::ir::MAX_DEMANDS;
use ffwd_testkit::random::Random;

use super::{Counts, Schemas};

/// Returns objects with some of three names, in all orders.
fn objects() -> Vec<Vec<String>> {
    const ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let values = ["", "0", "\"s\""];
    let mut all = vec![vec!["1".to_string()]];
    for code in 0..27 {
        let value = |i: usize| values[code / 3usize.pow(i as u32) % 3];
        let member = |i: &usize| format!("\"{}\":{}", ["a", "b", "c"][*i], value(*i));
        let spell = |order: &[usize; 3]| {
            let members: Vec<String> = order.iter().filter(|&&i| !value(i).is_empty()).map(member).collect();
            format!("{{{}}}", members.join(","))
        };
        all.push(ORDERS.iter().map(spell).collect());
    }
    all
}

/// Returns arrays of up to three items.
fn arrays() -> Vec<Vec<String>> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    for i in 0..13 {
        for item in ["0", "\"s\"", "null"] {
            let longer = all[i].iter().copied().chain([item]).collect();
            all.push(longer);
        }
    }
    let spelled = all.iter().map(|items| vec![format!("[{}]", items.join(","))]);
    spelled.chain([vec!["1".to_string()]]).collect()
}

fn leaf(random: &mut Random) -> Value {
    let all = [json!(true), json!({"type": "integer"}), json!({"type": "string"}), json!({})];
    all[random.below(all.len())].clone()
}

/// Returns a schema that applies to an object or an array.
fn schema(random: &mut Random, depth: u32, about_objects: bool) -> Value {
    let mut all = serde_json::Map::new();
    let own = |random: &mut Random, all: &mut serde_json::Map<String, Value>| {
        let name = ["a", "b", "c"][random.below(3)];
        match (about_objects, random.below(6)) {
            (true, 0..=2) => {
                all.insert("properties".into(), json!({name: leaf(random)}));
            }
            (true, 3) => {
                all.insert("required".into(), json!([name]));
            }
            (true, 4) => {
                all.insert("patternProperties".into(), json!({"^[ab]": leaf(random)}));
            }
            (true, _) if random.below(3) == 0 => {
                all.insert("additionalProperties".into(), leaf(random));
            }
            (false, 0..=2) => {
                all.insert("prefixItems".into(), (0..1 + random.below(2)).map(|_| leaf(random)).collect());
            }
            (false, 3) => {
                all.insert("contains".into(), leaf(random));
            }
            (false, 4) if random.below(2) == 0 => {
                all.insert("items".into(), leaf(random));
            }
            _ => {
                all.insert("minItems".into(), json!(random.below(3)));
            }
        }
    };
    own(random, &mut all);
    if depth == 0 {
        return Value::Object(all);
    }
    let sub = |random: &mut Random| schema(random, depth - 1, about_objects);
    for _ in 0..1 + random.below(2) {
        let key = ["allOf", "anyOf", "oneOf", "if", "not", "dependentSchemas", "$ref"][random.below(7)];
        match key {
            "if" => {
                all.insert("if".into(), sub(random));
                for branch in ["then", "else"] {
                    if random.below(3) > 0 {
                        all.insert(branch.into(), sub(random));
                    }
                }
            }
            "not" => {
                all.insert(key.into(), sub(random));
            }
            "dependentSchemas" => {
                all.insert(key.into(), json!({["a", "b"][random.below(2)]: sub(random)}));
            }
            "$ref" => {
                all.insert(key.into(), json!(format!("#/$defs/d{}", random.below(2))));
            }
            _ => {
                all.insert(key.into(), (0..2).map(|_| sub(random)).collect());
            }
        }
    }
    if random.below(2) == 0 {
        let key = if about_objects { "unevaluatedProperties" } else { "unevaluatedItems" };
        all.insert(key.into(), [json!(false), leaf(random)][random.below(2)].clone());
    }
    Value::Object(all)
}

#[test]
fn unevaluated_is_what_another_validator_says() {
    let schemas = Schemas::new();
    for (about_objects, instances) in [(true, objects()), (false, arrays())] {
        let mut random = Random::new(11);
        let mut counts = Counts::default();
        for _ in 0..400 {
            let mut root = schema(&mut random, 2, about_objects);
            let key = if about_objects { "unevaluatedProperties" } else { "unevaluatedItems" };
            root[key] = [json!(false), json!({"type": "string"})][random.below(2)].clone();
            root["$defs"] = json!({
                "d0": schema(&mut random, 0, about_objects),
                "d1": schema(&mut random, 0, about_objects),
            });
            schemas.compare(&root, &instances, &mut counts);
        }
        let Counts { compared, valid, invalid, refused, .. } = counts;
        // A few need more than the limits on demands and conditions.
        assert!(refused.len() < 40, "{} refused: {refused:#?}", refused.len());
        assert!(compared > 350 && valid > 1_500 && invalid > 1_500, "{compared}, {valid}, {invalid}");
    }
}

/// Uses up to the maximum number of demands; several properties can meet each of them.
#[test]
fn properties_that_must_be_there_are_what_another_validator_says() {
    let schemas = Schemas::new();
    let letters = ["a", "b", "c", "d", "e", "f"];
    assert_eq!(letters.len(), MAX_DEMANDS as usize);
    let names = ["", "ab", "cde", "ef", "abcdef", "g"];
    let of = names.len();
    let mut instances = Vec::new();
    for code in 0..of.pow(3) {
        let members = [code % of, code / of % of, code / of / of].map(|i| names[i]);
        if members[0] <= members[1] && members[1] <= members[2] {
            for values in 0..8 {
                let object: serde_json::Map<_, _> = members
                    .iter()
                    .enumerate()
                    .filter(|m| !m.1.is_empty())
                    .map(|(i, &name)| (name.to_owned(), [json!(0), json!("s")][values >> i & 1].clone()))
                    .collect();
                instances.push(vec![Value::Object(object).to_string()]);
            }
        }
    }
    instances.sort();
    instances.dedup();
    let mut random = Random::new(5);
    let mut counts = Counts::default();
    for n in 1..=letters.len() {
        for _ in 0..n / 2 {
            let part = |letter: &&str| {
                let value = [json!(false), json!({"type": "integer"})][random.below(2)].clone();
                json!({"not": {"patternProperties": {*letter: value}}})
            };
            let parts: Vec<Value> = letters[..n].iter().map(part).collect();
            schemas.compare(&json!({"type": "object", "allOf": parts}), &instances, &mut counts);
        }
    }
    let Counts { compared, valid, invalid, refused, .. } = counts;
    assert!(refused.is_empty(), "{refused:?}");
    assert!(compared == 9 && valid > 100 && invalid > 500, "{compared}, {valid}, {invalid}");
}

/// Returns a schema for objects that differ by values, or by the properties they have.
fn branch(random: &mut Random) -> Value {
    let value = |random: &mut Random| [json!(0), json!("s")][random.below(2)].clone();
    let mut all = serde_json::Map::new();
    for name in ["a", "b", "c"] {
        let schema = match random.below(5) {
            0 => json!({"const": value(random)}),
            1 => json!({"enum": [value(random)], "type": ["string", "integer"]}),
            2 => json!({"type": "string", "pattern": "^s$"}),
            3 => leaf(random),
            _ => continue,
        };
        all.entry("properties").or_insert(json!({}))[name] = schema;
    }
    let required: Vec<&str> = ["a", "b", "c"].into_iter().filter(|_| random.below(3) == 0).collect();
    if !required.is_empty() {
        all.insert("required".into(), json!(required));
    }
    match random.below(6) {
        0 => drop(all.insert("additionalProperties".into(), json!(false))),
        1 => drop(all.insert("type".into(), json!("object"))),
        2 => drop(all.insert("propertyNames".into(), json!({"enum": ["a", "b"]}))),
        _ => {}
    }
    Value::Object(all)
}

#[test]
fn negations_are_what_another_validator_says() {
    let schemas = Schemas::new();
    let mut random = Random::new(23);
    let mut counts = Counts::default();
    let instances = [objects(), arrays()].concat();
    for _ in 0..400 {
        let mut root = json!({});
        for _ in 0..1 + random.below(2) {
            let value = |random: &mut Random| [json!(0), json!("s")][random.below(2)].clone();
            match random.below(5) {
                0 => root["oneOf"] = (0..2 + random.below(2)).map(|_| branch(&mut random)).collect(),
                1 => root["not"] = branch(&mut random),
                2 => {
                    root["not"] =
                        json!({"enum": [{"a": value(&mut random), "b": 0}, [0, value(&mut random)], {}]})
                }
                3 => root["not"] = json!({"propertyNames": {"not": {"enum": ["a", "b"]}}}),
                _ => root["anyOf"] = json!([{"not": branch(&mut random)}, branch(&mut random)]),
            }
        }
        if random.below(3) == 0 {
            root["maxProperties"] = json!(1 + random.below(2));
        }
        schemas.compare(&root, &instances, &mut counts);
    }
    let Counts { compared, valid, invalid, refused, .. } = counts;
    assert!(refused.len() < 20, "{} refused: {refused:#?}", refused.len());
    assert!(compared > 380 && valid > 4_000 && invalid > 4_000, "{compared}, {valid}, {invalid}");
}

#[test]
fn dynamic_references_are_what_another_validator_says() {
    let schemas = Schemas::new();
    let mut random = Random::new(5);
    let mut counts = Counts::default();
    let instances = arrays();
    for _ in 0..400 {
        // Resources that refer to each other, to the next ones only, so that the recursion ends.
        let mut resources = serde_json::Map::new();
        for i in (0..4).rev() {
            let mut own = json!({"$id": format!("https://example.com/r{i}")});
            if random.below(2) == 0 {
                let mut anchor = leaf(&mut random);
                if anchor == json!(true) {
                    anchor = json!({"type": "null"});
                }
                anchor["$dynamicAnchor"] = json!("x");
                own["$defs"]["x"] = anchor;
            } else if random.below(2) == 0 {
                own["$defs"]["x"] = json!({"$anchor": "x", "type": "integer"});
            } else {
                own["$defs"]["x"] = json!({"$dynamicAnchor": "x"});
            }
            let to = |random: &mut Random| i + 1 + random.below(3 - i.min(2));
            own["items"] = match random.below(3) {
                0 if i < 3 => json!({"$ref": format!("r{}#/items", to(&mut random))}),
                _ => json!({"$dynamicRef": "#x"}),
            };
            if i < 3 && random.below(2) == 0 {
                own["allOf"] = json!([{"$ref": format!("r{}", to(&mut random))}]);
            }
            resources.insert(format!("r{i}"), own);
        }
        let mut root = json!({"$id": "https://example.com/root", "$ref": format!("r{}", random.below(3))});
        if random.below(2) == 0 {
            resources.insert("x".into(), json!({"$dynamicAnchor": "x", "type": "string"}));
        }
        root["$defs"] = Value::Object(resources);
        schemas.compare(&root, &instances, &mut counts);
    }
    let Counts { compared, valid, invalid, refused, .. } = counts;
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(compared == 400 && valid > 1_000 && invalid > 1_000, "{compared}, {valid}, {invalid}");
}
