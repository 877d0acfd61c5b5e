//! The longest output of a JSON Schema: an upper bound in bytes, and the values that have none.
//!
//! The bound follows the keywords. Where keywords are combined in a way that it does not follow, it
//! says so and gives no bound, so a bound is never too low. A token has at least one byte, so the
//! bound also holds for tokens.

use regex_syntax::hir::Look;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::constraint::{Policy, Whitespace};

/// Longest JSON text of one character of a string: a control character as `\u0000`.
const CHARACTER: u64 = 6;
/// Deepest nesting of a schema that is followed, and most steps in all.
const MAX_DEPTH: usize = 64;
const MAX_STEPS: usize = 100_000;
/// Most values that are named.
const MAX_NAMED: usize = 32;

/// A value that can run without a known end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Endless {
    /// JSON pointer into the schema.
    pub pointer: String,
    /// What bounds it.
    pub remedy: &'static str,
}

/// Returns the most bytes of an output, if there is a known bound, and the values without one.
pub(super) fn longest(schema: &Value, policy: &Policy) -> (Option<u64>, Vec<Endless>) {
    let mut bounds = Bounds { root: schema, policy, endless: Vec::new(), open: Vec::new(), steps: 0 };
    let bytes = bounds.of(schema, "");
    (bytes, bounds.endless)
}

struct Bounds<'a> {
    root: &'a Value,
    policy: &'a Policy,
    endless: Vec<Endless>,
    /// References that are being followed.
    open: Vec<String>,
    steps: usize,
}

type Members = Map<String, Value>;

impl Bounds<'_> {
    fn without(&mut self, pointer: &str, remedy: &'static str) -> Option<u64> {
        if self.endless.len() < MAX_NAMED && self.endless.iter().all(|known| known.pointer != pointer) {
            self.endless.push(Endless { pointer: pointer.to_owned(), remedy });
        }
        None
    }

    /// Returns the most bytes of a value.
    fn of(&mut self, schema: &Value, at: &str) -> Option<u64> {
        self.steps += 1;
        if self.steps > MAX_STEPS || at.matches('/').count() > MAX_DEPTH {
            return self.without(at, "the schema is too large to follow");
        }
        let schema = match schema {
            Value::Bool(false) => return Some(0),
            Value::Object(schema) => schema,
            _ => return self.without(at, "name a type"),
        };
        if let Some(value) = schema.get("const") {
            return Some(self.literal(value));
        }
        if let Some(Value::Array(values)) = schema.get("enum") {
            return values.iter().map(|value| self.literal(value)).max();
        }
        let own = self.own_keywords(schema);
        if let Some(Value::String(reference)) = schema.get("$ref") {
            return match own {
                true => self.without(at, "keywords next to $ref are not followed"),
                false => self.reference(reference, at),
            };
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            let Some(Value::Array(parts)) = schema.get(key) else { continue };
            let others = ["allOf", "anyOf", "oneOf"].iter().filter(|k| schema.contains_key(**k)).count() > 1;
            if own || others || key == "allOf" && parts.len() > 1 {
                return self.without(at, "combined keywords are not followed");
            }
            let bounds: Vec<Option<u64>> =
                parts.iter().enumerate().map(|(i, part)| self.of(part, &format!("{at}/{key}/{i}"))).collect();
            return bounds.into_iter().collect::<Option<Vec<u64>>>()?.into_iter().max();
        }
        const CONDITIONS: [&str; 6] =
            ["if", "then", "else", "dependentSchemas", "dependencies", "$dynamicRef"];
        if CONDITIONS.iter().any(|key| schema.contains_key(*key)) {
            return self.without(at, "conditions are not followed");
        }
        self.types(schema, at)
    }

    /// Returns true if the schema has keywords of its own besides combinations and annotations.
    fn own_keywords(&self, schema: &Members) -> bool {
        const NONE: [&str; 13] = [
            "$ref",
            "allOf",
            "anyOf",
            "oneOf",
            "$defs",
            "definitions",
            "title",
            "description",
            "default",
            "examples",
            "$schema",
            "$id",
            "$comment",
        ];
        schema.keys().any(|key| !NONE.contains(&key.as_str()))
    }

    fn types(&mut self, schema: &Members, at: &str) -> Option<u64> {
        let names: Vec<&str> = match schema.get("type") {
            Some(Value::String(name)) => vec![name],
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            // Keywords of one type do not exclude the other types.
            _ => return self.without(at, "name a type"),
        };
        let mut most = 0;
        let mut bounded = true;
        for name in names {
            let bytes = match name {
                "null" | "boolean" => Some(5),
                "integer" | "number" => Some(self.number()),
                "string" => self.string(schema, at),
                "array" => self.array(schema, at),
                "object" => self.object(schema, at),
                _ => self.without(at, "name a type"),
            };
            bounded &= bytes.is_some();
            most = most.max(bytes.unwrap_or_default());
        }
        // `null`, which `nullable` allows as well.
        bounded.then_some(most.max(4))
    }

    fn number(&self) -> u64 {
        let digits = u64::from(self.policy.max_integer_digits) + u64::from(self.policy.max_fraction_digits);
        // A sign, a point and an exponent.
        digits + 2 + 5
    }

    fn literal(&self, value: &Value) -> u64 {
        match value {
            Value::Number(number) => number.to_string().len() as u64 + self.number(),
            Value::Array(items) => {
                2 + items.iter().map(|item| self.literal(item) + self.separator()).sum::<u64>() + self.space()
            }
            Value::Object(members) => {
                let member =
                    |(key, value): (&String, &Value)| text(key) + self.literal(value) + 2 * self.separator();
                2 + members.iter().map(member).sum::<u64>() + self.space()
            }
            Value::String(string) => text(string),
            Value::Bool(_) | Value::Null => 5,
        }
    }

    /// Most white space at one position.
    fn space(&self) -> u64 {
        match self.policy.whitespace {
            Whitespace::Compact => 0,
            Whitespace::SingleSpace => 1,
            Whitespace::Flexible { max } => u64::from(max),
        }
    }

    /// A comma or a colon with the white space around it.
    fn separator(&self) -> u64 {
        1 + 2 * self.space()
    }

    fn string(&mut self, schema: &Members, at: &str) -> Option<u64> {
        let most = schema.get("maxLength").and_then(count);
        let format = schema.get("format").and_then(Value::as_str).and_then(format_chars);
        let pattern = schema.get("pattern").and_then(Value::as_str).and_then(pattern_bytes);
        match [most, format, pattern].into_iter().flatten().min() {
            Some(characters) => Some(characters.saturating_mul(CHARACTER).saturating_add(2)),
            None => self.without(at, "add maxLength"),
        }
    }

    fn array(&mut self, schema: &Members, at: &str) -> Option<u64> {
        let (max, prefix) = (schema.get("maxItems").and_then(count), schema.get("prefixItems"));
        let prefix = prefix.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let closed = schema.get("items") == Some(&Value::Bool(false)) && !prefix.is_empty();
        let most = match (max, closed) {
            (Some(max), true) => max.min(prefix.len() as u64),
            (None, true) => prefix.len() as u64,
            (Some(max), false) => max,
            (None, false) => return self.without(at, "add maxItems"),
        };
        if most == 0 {
            return Some(2 + 2 * self.space());
        }
        let mut longest = Some(0);
        for (i, item) in prefix.iter().enumerate() {
            let bytes = self.of(item, &format!("{at}/prefixItems/{i}"));
            longest = longest.zip(bytes).map(|(a, b)| a.max(b));
        }
        if most > prefix.len() as u64 {
            let bytes = match schema.get("items") {
                Some(items @ (Value::Object(_) | Value::Bool(_))) => self.of(items, &format!("{at}/items")),
                _ => self.without(&format!("{at}/items"), "name the type of the items"),
            };
            longest = longest.zip(bytes).map(|(a, b)| a.max(b));
        }
        let item = longest?.saturating_add(self.separator());
        Some(most.saturating_mul(item).saturating_add(2 + 2 * self.space()))
    }

    fn object(&mut self, schema: &Members, at: &str) -> Option<u64> {
        let empty = Members::new();
        let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let no = |key: &str| schema.get(key) == Some(&Value::Bool(false));
        let others = ["patternProperties", "additionalProperties", "unevaluatedProperties"];
        let named = others.iter().any(|key| schema.contains_key(*key));
        let closed = no("additionalProperties") || no("unevaluatedProperties");
        let closed = closed && !schema.contains_key("patternProperties");
        let by_policy = self.policy.closed_objects && !properties.is_empty() && !named;
        let required = schema.get("required").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let undeclared =
            required.iter().filter_map(Value::as_str).find(|name| !properties.contains_key(*name));
        let mut bytes = Some(2 + 2 * self.space());
        for (key, value) in properties {
            let pointer = format!("{at}/properties/{}", key.replace('~', "~0").replace('/', "~1"));
            let value = self.of(value, &pointer);
            let member = value.map(|value| value.saturating_add(text(key) + 2 * self.separator()));
            bytes = bytes.zip(member).map(|(a, b)| a.saturating_add(b));
        }
        if !closed && !by_policy {
            return self.without(at, "add \"additionalProperties\": false");
        }
        if undeclared.is_some() {
            return self.without(at, "declare the required properties");
        }
        // Closed by policy but with too few properties to be so.
        if schema.get("minProperties").and_then(count).is_some_and(|least| least > properties.len() as u64) {
            return self.without(at, "lower minProperties");
        }
        bytes
    }

    fn reference(&mut self, reference: &str, at: &str) -> Option<u64> {
        let Some(pointer) = reference.strip_prefix('#').filter(|p| p.is_empty() || p.starts_with('/')) else {
            return self.without(at, "references to other documents and anchors are not followed");
        };
        if self.open.iter().any(|open| open == pointer) {
            return self.without(at, "it refers to itself");
        }
        let Some(target) = self.root.pointer(pointer) else {
            return self.without(at, "the reference is not followed");
        };
        self.open.push(pointer.to_owned());
        let bytes = self.of(target, pointer);
        self.open.pop();
        bytes
    }
}

/// Returns the bytes of a string as JSON.
fn text(string: &str) -> u64 {
    ffwd_engine::json_escape::escape(string).len() as u64 + 2
}

/// Returns a count, also if it is written as `2.0`.
fn count(value: &Value) -> Option<u64> {
    let whole = |x: f64| (x >= 0.0 && x.fract() == 0.0 && x < 1e15).then_some(x as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(whole))
}

/// Returns the most characters of a format that has a bound.
fn format_chars(name: &str) -> Option<u64> {
    match name {
        "date" => Some(10),
        "uuid" => Some(36),
        "ipv4" => Some(15),
        _ => None,
    }
}

/// Returns the most bytes of a text that a pattern matches as a whole.
fn pattern_bytes(pattern: &str) -> Option<u64> {
    let parsed = regex_syntax::parse(pattern).ok()?;
    let properties = parsed.properties();
    let whole = properties.look_set_prefix().contains(Look::Start)
        && properties.look_set_suffix().contains(Look::End);
    properties.maximum_len().filter(|_| whole).map(|bytes| bytes as u64)
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::constraint::Constraint;
    use crate::matcher::Compiler;
    use ffwd_runtime::speedup::Walker;

    fn of(schema: &str) -> (Option<u64>, Vec<String>) {
        let policy = Policy { closed_objects: true, ..Policy::default() };
        let (bytes, endless) = longest(&serde_json::from_str(schema).unwrap(), &policy);
        (bytes, endless.into_iter().map(|e| e.pointer).collect())
    }

    #[test]
    fn values_without_a_bound_are_named() {
        for (schema, pointers) in [
            (
                r#"{"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}"#,
                &["/properties/a"][..],
            ),
            (r#"{"type": "array", "items": {"type": "string", "maxLength": 3}}"#, &[""]),
            (
                r#"{"type": "array", "maxItems": 2, "items": {"type": "string", "pattern": "^a+$"}}"#,
                &["/items"],
            ),
            (
                r##"{"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}}"##,
                &["/$defs/n/properties/next"],
            ),
            (r#"{"type": "object"}"#, &[""]),
            (r#"{"type": "object", "properties": {"a/b": true}}"#, &["/properties/a~1b"]),
            (r#"{"properties": {"a": {"type": "null"}}, "required": ["a"]}"#, &[""]),
            (r#"{"type": "string", "pattern": "[a-z]{3}"}"#, &[""]),
        ] {
            assert_eq!(of(schema), (None, pointers.iter().map(|p| (*p).to_owned()).collect()), "{schema}");
        }
    }

    #[test]
    fn no_walk_is_longer_than_the_bound() {
        let vocab = crate::model::embedded::vocabulary().unwrap();
        let compiler = Compiler::new(vocab.clone());
        let policies = [Whitespace::Compact, Whitespace::SingleSpace, Whitespace::Flexible { max: 2 }];
        let schemas = [
            r#"{"type": "string", "maxLength": 5}"#,
            r#"{"enum": ["\u0001", 1.5, [1, {"a": null}], true]}"#,
            r#"{"type": ["number", "null"]}"#,
            r#"{"type": "array", "maxItems": 4, "items": {"type": "integer"}}"#,
            r#"{"type": "array", "prefixItems": [{"type": "boolean"}], "items": false}"#,
            r#"{"type": "object", "properties": {"a": {"type": "string", "pattern": "^[a-c]{2,4}$"}, "d": {"type": "string", "format": "date"},
                "x": {"anyOf": [{"const": "long text"}, {"type": "null"}]}}, "required": ["a"], "additionalProperties": false}"#,
            r##"{"$ref": "#/$defs/n", "$defs": {"n": {"type": "object", "properties": {"u": {"type": "string", "format": "uuid"}}}}}"##,
        ];
        for schema in schemas {
            for whitespace in policies {
                let policy = Policy { whitespace, closed_objects: true, ..Policy::default() };
                let (bytes, endless) = longest(&serde_json::from_str(schema).unwrap(), &policy);
                let bytes = bytes.unwrap_or_else(|| panic!("{schema}: {endless:?}"));
                let constraint = Constraint::builder().policy(policy).json_schema(schema).unwrap();
                let grammar = compiler.compile(&constraint).unwrap();
                // Strings that are as long as they may be.
                let mut walker = Walker::new(&vocab, 1000);
                let mut most = 0;
                for _ in 0..40 {
                    let walk = walker.walk(&grammar).unwrap();
                    most = most.max(vocab.decode(&walk.tokens).len() as u64);
                }
                assert!(most > 0 && most <= bytes, "{schema} {whitespace:?}: {most} of {bytes}");
            }
        }
    }
}
