//! Makes the free strings of a schema spans of the text: adds `x-verbatim` to them.
//!
//! # Cost
//! One walk over the schema.
//!
//! # Alternatives considered
//! An option of the constraint builder was rejected: the keyword can be written into any schema, so
//! the engine needs no second way to say the same.

use serde_json::{Map, Value};

/// Keywords that choose or shape the text of a string, so that it is not free.
const SHAPED: [&str; 14] = [
    "enum",
    "const",
    "pattern",
    "format",
    "contentEncoding",
    "contentMediaType",
    "x-verbatim",
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
];
/// Keywords whose value is a schema.
const ONE: [&str; 8] = [
    "items",
    "additionalItems",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "then",
    "else",
];
/// Keywords whose value is a list of schemas; `items` may be one, too.
const LIST: [&str; 5] = ["prefixItems", "items", "allOf", "anyOf", "oneOf"];
/// Keywords whose value has a schema for each name.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Adds `"x-verbatim": true` to each schema whose `type` has `string` and that has none of the
/// keywords that shape a text. Schemas under `not`, `if` and `propertyNames` stay as they are.
pub(super) fn quote_free_strings(schema: &mut Value) {
    let mut todo = vec![schema];
    while let Some(schema) = todo.pop() {
        let Value::Object(members) = schema else { continue };
        if is_free_string(members) {
            members.insert("x-verbatim".into(), Value::Bool(true));
        }
        for (keyword, value) in members {
            let keyword = keyword.as_str();
            if ONE.contains(&keyword) && value.is_object() {
                todo.push(value);
                continue;
            }
            match value {
                Value::Object(named) if NAMED.contains(&keyword) => todo.extend(named.values_mut()),
                Value::Array(schemas) if LIST.contains(&keyword) => todo.extend(schemas),
                _ => {}
            }
        }
    }
}

fn is_free_string(members: &Map<String, Value>) -> bool {
    let has_string = match members.get("type") {
        Some(Value::String(name)) => name == "string",
        Some(Value::Array(names)) => names.iter().any(|name| name == "string"),
        _ => false,
    };
    has_string && !SHAPED.iter().any(|keyword| members.contains_key(*keyword))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_free_strings_become_spans() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 20},
                "note": {"type": ["string", "null"]},
                "kind": {"type": "string", "enum": ["a"]},
                "day": {"type": "string", "format": "date"},
                "code": {"type": "string", "pattern": "^A"},
                "count": {"type": "integer"},
                "type": {"type": "string"},
                "tags": {"items": {"type": "string"}},
                "either": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "other": {"not": {"type": "string"}},
                "ref": {"$ref": "#/$defs/text"}
            },
            "propertyNames": {"type": "string"},
            "$defs": {"text": {"type": "string"}},
            "required": ["name"]
        });
        let plain = schema.clone();
        quote_free_strings(&mut schema);
        for pointer in [
            "/properties/name",
            "/properties/note",
            "/properties/type",
            "/properties/tags/items",
            "/properties/either/anyOf/0",
            "/$defs/text",
        ] {
            let marked = schema.pointer_mut(pointer).and_then(Value::as_object_mut).unwrap();
            assert_eq!(marked.remove("x-verbatim"), Some(json!(true)), "{pointer}");
        }
        assert_eq!(schema, plain);
    }
}
