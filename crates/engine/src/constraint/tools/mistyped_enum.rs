//! Enumerations in the arguments of tools that no value of their type can satisfy.
//!
//! Lists of tools are written by many hands. Two mistakes are common: the names of the items of an array
//! stand at the array, and numbers are written as strings. What is meant is clear, so it is mended, and
//! a warning names the place. In all other schemas such an enumeration is an error.
//!
//! # Cost
//! One pass over the schema.

use serde_json::{Map, Value};

/// Mends the enumerations of a schema; returns the pointer of each and what it is read as.
pub(super) fn mend(schema: &mut Value, pointer: &str) -> Vec<(String, &'static str)> {
    let mut mended = Vec::new();
    let mut todo = vec![(schema, pointer.to_owned())];
    while let Some((value, at)) = todo.pop() {
        let Value::Object(own) = value else { continue };
        if let Some(what) = mend_one(own) {
            mended.push((at.clone(), what));
        }
        for (name, inner) in own {
            let below = |part: &str| format!("{at}/{name}/{}", part.replace('~', "~0").replace('/', "~1"));
            match (name.as_str(), inner) {
                ("properties" | "$defs" | "definitions", Value::Object(members)) => {
                    todo.extend(members.iter_mut().map(|(part, one)| (one, below(part))));
                }
                ("anyOf" | "oneOf" | "allOf" | "prefixItems", Value::Array(list)) => {
                    todo.extend(list.iter_mut().enumerate().map(|(i, one)| (one, below(&i.to_string()))));
                }
                ("items" | "additionalProperties", inner) => todo.push((inner, format!("{at}/{name}"))),
                _ => {}
            }
        }
    }
    mended
}

fn mend_one(schema: &mut Map<String, Value>) -> Option<&'static str> {
    let texts: Vec<&str> =
        schema.get("enum")?.as_array()?.iter().map(Value::as_str).collect::<Option<_>>()?;
    let kind = schema.get("type")?.as_str()?;
    match kind {
        "array" => {
            let items = schema.get("items").and_then(Value::as_object);
            if items.is_some_and(|items| items.contains_key("enum") || items.contains_key("$ref")) {
                return None;
            }
            let names = schema.remove("enum")?;
            let items = schema.entry("items").or_insert_with(|| Value::Object(Map::new()));
            items.as_object_mut()?.insert("enum".into(), names);
            Some("that of the items")
        }
        "integer" | "number" | "boolean" => {
            let fits = |value: &Value| match kind {
                "boolean" => value.is_boolean(),
                "integer" => value.is_i64() || value.is_u64(),
                _ => value.is_number(),
            };
            let parsed = texts.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
            let values: Vec<Value> = parsed.filter(fits).collect();
            if values.is_empty() {
                return None;
            }
            schema.insert("enum".into(), values.into());
            Some("values of the type")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn mistakes_are_mended_and_nothing_else() {
        let mut schema = json!({"type": "object", "properties": {
            "a": {"type": "array", "items": {"type": "string"}, "enum": ["x", "y"]},
            "b": {"anyOf": [{"type": "integer", "enum": ["1", "2", "any"]}, {"type": "boolean", "enum": ["true"]}]},
            "c": {"type": "array", "items": {"type": "array", "enum": ["z"]}},
        }});
        let places = mend(&mut schema, "/0/parameters");
        assert_eq!(
            schema,
            json!({"type": "object", "properties": {
                "a": {"type": "array", "items": {"type": "string", "enum": ["x", "y"]}},
                "b": {"anyOf": [{"type": "integer", "enum": [1, 2]}, {"type": "boolean", "enum": [true]}]},
                "c": {"type": "array", "items": {"type": "array", "items": {"enum": ["z"]}}},
            }})
        );
        let mut places: Vec<String> = places.into_iter().map(|place| place.0).collect();
        places.sort();
        let base = "/0/parameters/properties/";
        assert_eq!(places, ["a", "b/anyOf/0", "b/anyOf/1", "c/items"].map(|end| format!("{base}{end}")));
        for same in [
            json!({"type": "string", "enum": ["1"]}),
            json!({"type": "integer", "enum": ["one"]}),
            json!({"type": "integer", "enum": [1, "2"]}),
            json!({"type": "array", "enum": [["x"]]}),
            json!({"type": "array", "items": {"enum": ["x"]}, "enum": ["x"]}),
            json!({"properties": {"enum": {"type": "string"}}, "enum": "x"}),
        ] {
            let mut schema = same.clone();
            assert!(mend(&mut schema, "").is_empty() && schema == same, "{same}");
        }
    }
}
