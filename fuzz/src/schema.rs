//! JSON Schemas read off bytes: mostly well-formed, small, and with keywords that meet.

use serde_json::{Map, Value, json};

use crate::Bytes;

/// Deepest nesting of subschemas.
const MAX_DEPTH: usize = 4;
const NAMES: [&str; 6] = ["a", "b", "ab", "x/y", "\u{e9}\"", ""];
const PATTERNS: [&str; 8] = ["a", "^a*$", "^[a-c]{2,4}$", "b|c", "^(x|xx)+", "\\d", "^.$", "[^a]$"];
const FORMATS: [&str; 5] = ["date", "time", "uuid", "ipv4", "email"];
const TYPES: [&str; 7] = ["string", "object", "array", "integer", "number", "boolean", "null"];

/// A schema with two definitions that subschemas may refer to.
pub fn document(bytes: &mut Bytes) -> Value {
    let mut root = schema(bytes, 0);
    if let Some(object) = root.as_object_mut() {
        object.insert("$defs".into(), json!({"s": schema(bytes, 2), "t": schema(bytes, 2)}));
    }
    root
}

fn schema(bytes: &mut Bytes, depth: usize) -> Value {
    let count = if depth >= MAX_DEPTH { 1 } else { 1 + bytes.below(4) };
    let mut object = Map::new();
    for _ in 0..count {
        keyword(bytes, depth, &mut object);
    }
    match bytes.byte() {
        250..=252 => Value::Bool(true),
        253 => Value::Bool(false),
        _ => Value::Object(object),
    }
}

fn keyword(bytes: &mut Bytes, depth: usize, into: &mut Map<String, Value>) {
    let small = |bytes: &mut Bytes| json!(bytes.below(5));
    // Those with subschemas come last, so that deep schemas can be kept from them.
    let kinds = if depth >= MAX_DEPTH { 17 } else { 36 };
    let (name, value) = match bytes.below(kinds) {
        0..=2 => ("type", json!(bytes.pick(&TYPES))),
        3 => ("type", json!([bytes.pick(&TYPES[..3]), bytes.pick(&TYPES[3..])])),
        4 => ("enum", json!([literal(bytes), literal(bytes), 7])),
        5 => ("const", literal(bytes)),
        6 => ("minLength", small(bytes)),
        7 => ("maxLength", small(bytes)),
        8 => ("pattern", json!(bytes.pick(&PATTERNS))),
        9 => ("minimum", number(bytes)),
        10 => ("maximum", number(bytes)),
        11 => ("exclusiveMinimum", number(bytes)),
        12 => ("multipleOf", bytes.pick(&[json!(1), json!(3), json!(0.5), json!(10), json!(0.25)]).clone()),
        13 => ("minItems", small(bytes)),
        14 => ("maxItems", small(bytes)),
        15 => ("required", json!([bytes.pick(&NAMES)])),
        16 => ("$ref", json!(bytes.pick(&["#", "#/$defs/s", "#/$defs/t"]))),
        17..=20 => ("properties", members(bytes, depth, &NAMES)),
        21 => ("patternProperties", members(bytes, depth, &PATTERNS)),
        22 => ("additionalProperties", schema(bytes, depth + 1)),
        23 => ("items", schema(bytes, depth + 1)),
        24 => ("prefixItems", several(bytes, depth)),
        25 => ("contains", schema(bytes, depth + 1)),
        26 => ("anyOf", several(bytes, depth)),
        27 => ("oneOf", several(bytes, depth)),
        28 => ("allOf", several(bytes, depth)),
        29 => ("not", schema(bytes, depth + 1)),
        30 => ("if", schema(bytes, depth + 1)),
        31 => ("then", schema(bytes, depth + 1)),
        32 => ("else", schema(bytes, depth + 1)),
        33 => ("propertyNames", schema(bytes, depth + 1)),
        34 => ("dependentSchemas", members(bytes, depth, &NAMES)),
        _ => match bytes.below(5) {
            0 => ("minProperties", small(bytes)),
            1 => ("maxProperties", small(bytes)),
            2 => ("format", json!(bytes.pick(&FORMATS))),
            3 => ("uniqueItems", json!(true)),
            _ => ("maxContains", small(bytes)),
        },
    };
    into.insert(name.into(), value);
}

fn several(bytes: &mut Bytes, depth: usize) -> Value {
    (0..1 + bytes.below(3)).map(|_| schema(bytes, depth + 1)).collect()
}

fn members(bytes: &mut Bytes, depth: usize, names: &[&str]) -> Value {
    let count = 1 + bytes.below(3);
    let pairs = (0..count).map(|_| (bytes.pick(names).to_string(), schema(bytes, depth + 1)));
    Value::Object(pairs.collect())
}

fn number(bytes: &mut Bytes) -> Value {
    let n = i64::from(bytes.byte() as i8);
    if n % 3 == 0 { json!(n as f64 / 4.0) } else { json!(n) }
}

fn literal(bytes: &mut Bytes) -> Value {
    match bytes.below(7) {
        0 => json!(null),
        1 => json!(bytes.below(2) == 0),
        2 => number(bytes),
        3 => json!(bytes.pick(&NAMES)),
        4 => json!([literal_leaf(bytes)]),
        5 => json!({*bytes.pick(&NAMES): literal_leaf(bytes)}),
        _ => json!({}),
    }
}

fn literal_leaf(bytes: &mut Bytes) -> Value {
    if bytes.below(2) == 0 { number(bytes) } else { json!(bytes.pick(&NAMES)) }
}
