//! Outline of a schema: its properties as a list that models understand better than JSON Schema.
//!
//! # Cost
//! One walk, bounded in depth and size. A schema that the list cannot describe has no outline.
//!
//! # Alternatives considered
//! Rules about dates, numbers and copying below the schema were measured, and give fewer right
//! fields than the list alone. They remain available as a placeholder, for other models.

use std::fmt::Write;

use serde_json::{Map, Value};

/// Maximum nesting of values.
const MAX_DEPTH: usize = 6;
/// Maximum length of an outline in bytes.
const MAX_LENGTH: usize = 1 << 16;

/// Returns the outline of a schema, if it describes an object in simple terms.
pub(super) fn outline(schema: &Value) -> Option<String> {
    let mut out = String::new();
    let object = follow(schema, schema)?;
    properties(object.as_object()?, schema, 0, &mut out)?;
    Some(out.trim_end().to_owned())
}

/// Writes a line for each property of an object.
fn properties(object: &Map<String, Value>, root: &Value, depth: usize, out: &mut String) -> Option<()> {
    if depth > MAX_DEPTH || out.len() > MAX_LENGTH {
        return None;
    }
    if ["allOf", "oneOf", "if", "not", "patternProperties"].iter().any(|word| object.contains_key(*word)) {
        return None;
    }
    for (name, value) in object.get("properties")?.as_object()? {
        let _ = write!(out, "{:indent$}- {name}: ", "", indent = 2 * depth);
        describe(value, root, depth, out)?;
    }
    Some(())
}

/// Writes the type of a value, its description, and the lines of the objects in it.
fn describe(value: &Value, root: &Value, depth: usize, out: &mut String) -> Option<()> {
    let value = follow(value, root)?;
    let (kind, inner) = kind(value, root, 0)?;
    out.push_str(&kind);
    if let Some(text) = value.get("description").and_then(Value::as_str) {
        let _ = write!(out, " ({})", text.trim().replace('\n', " "));
    }
    out.push('\n');
    match inner {
        Some(object) => properties(object, root, depth + 1, out),
        None => Some(()),
    }
}

/// Returns the words for the type of a value, and the object in it whose properties follow.
fn kind<'s>(
    value: &'s Value,
    root: &'s Value,
    depth: usize,
) -> Option<(String, Option<&'s Map<String, Value>>)> {
    if depth > MAX_DEPTH {
        return None;
    }
    let value = follow(value, root)?;
    let members = value.as_object()?;
    if let Some(Value::Array(values)) = members.get("enum") {
        let values: Vec<String> = values.iter().map(Value::to_string).collect();
        return Some((format!("one of {}", values.join(", ")), None));
    }
    if let Some(value) = members.get("const") {
        return Some((value.to_string(), None));
    }
    if let Some(Value::Array(list)) = members.get("anyOf") {
        let mut inner = None;
        let mut words = Vec::new();
        for branch in list {
            let (word, object) = kind(branch, root, depth + 1)?;
            if object.is_some() && inner.is_some() {
                return None;
            }
            inner = inner.or(object);
            words.push(word);
        }
        return Some((words.join(" or "), inner));
    }
    of_types(members, root, depth)
}

/// Returns the words for the types of a value, and the object in it.
fn of_types<'s>(
    members: &'s Map<String, Value>,
    root: &'s Value,
    depth: usize,
) -> Option<(String, Option<&'s Map<String, Value>>)> {
    let types: Vec<&str> = match members.get("type")? {
        Value::String(text) => vec![text],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let mut inner = None;
    let mut words = Vec::new();
    for name in types {
        words.push(match name {
            "string" => match members.get("format").and_then(Value::as_str) {
                Some("date") => "date, YYYY-MM-DD".to_owned(),
                Some("date-time") => "date and time, YYYY-MM-DDTHH:MM:SSZ".to_owned(),
                Some("time") => "time, HH:MM:SSZ".to_owned(),
                Some(format) => format!("string ({format})"),
                None => "string".to_owned(),
            },
            "boolean" => "true or false".to_owned(),
            "array" => {
                let (word, object) = kind(members.get("items")?, root, depth + 1)?;
                inner = object;
                format!("array of {word}")
            }
            "object" => {
                inner = Some(members);
                "object".to_owned()
            }
            other => other.to_owned(),
        });
    }
    Some((words.join(" or "), inner))
}

/// Follows references into the same document.
fn follow<'s>(mut value: &'s Value, root: &'s Value) -> Option<&'s Value> {
    for _ in 0..MAX_DEPTH {
        let Some(reference) = value.get("$ref") else { return Some(value) };
        value = root.pointer(reference.as_str()?.strip_prefix('#')?)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schema: &str) -> Option<String> {
        outline(&serde_json::from_str(schema).unwrap())
    }

    #[test]
    fn properties_are_lines() {
        let schema = r##"{"$defs": {"item": {"type": "object", "properties": {"name": {"type": "string"},
            "size": {"enum": ["S", 2]}}}}, "type": "object", "properties": {
            "due": {"type": "string", "format": "date", "description": "Day of\npayment."},
            "paid": {"type": ["boolean", "null"]}, "total": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "items": {"type": "array", "items": {"$ref": "#/$defs/item"}}, "kind": {"const": "bill"}}}"##;
        let expected = "- due: date, YYYY-MM-DD (Day of payment.)\n- paid: true or false or null\n\
            - total: number or null\n- items: array of object\n  - name: string\n  - size: one of \"S\", 2\n\
            - kind: \"bill\"";
        assert_eq!(of(schema).unwrap(), expected);
    }

    #[test]
    fn schemas_that_are_not_simple_have_none() {
        for schema in [
            "true",
            r#"{"type": "string"}"#,
            r#"{"properties": {"a": {}}}"#,
            r#"{"properties": {"a": {"type": "string"}}, "allOf": []}"#,
            r##"{"$ref": "#"}"##,
            r##"{"properties": {"a": {"$ref": "#"}}}"##,
            r##"{"properties": {"a": {"$ref": "https://example.com/x"}}}"##,
            r#"{"properties": {"a": {"type": "array"}}}"#,
        ] {
            assert_eq!(of(schema), None, "{schema}");
        }
    }
}
