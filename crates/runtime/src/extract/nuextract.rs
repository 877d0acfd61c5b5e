//! Templates of NuExtract: JSON whose leaves name types, converted from a JSON Schema and back.
//!
//! A template has less to say than a schema. What it cannot show is a warning: the constraint is the
//! schema as ever, so a record is valid whether or not the model saw all of it. Only alternatives of
//! objects or lists, and schemas that refer to themselves, have no template.
//!
//! # Cost
//! One walk over the schema, bounded in depth.
//!
//! # Alternatives considered
//! The outline of the general wording was rejected: models of this family repeat any prompt that is
//! not in their form.

use serde_json::{Map, Value, json};

use crate::error::{Error, ErrorKind, Place, Result};
use crate::{Warning, WarningKind};

/// Maximum nesting of a schema or a template.
const MAX_DEPTH: usize = 24;
/// Maximum number of values in a template.
const MAX_SCHEMAS: usize = 10_000;
/// Leaves that are strings of a kind for which JSON Schema has no keyword that is loose enough; `region:US`
/// has a country behind a colon.
const STRINGS: &str =
    "country currency language language-tag script url email-address phone-number iban bic region";
/// Keyword with the name of such a leaf in a schema that comes from a template.
const LEAF: &str = "x-nuextract";
/// Formats of JSON Schema that leaves have the names of.
const FORMATS: [&str; 4] = ["date-time", "date", "time", "duration"];
const ANY: &str = "the prompt shows a value of any type as a string";
const OPEN: &str = "the prompt does not show properties whose names the schema leaves open";
/// Keywords that a template has no place for.
const LOST: [(&str, &str); 4] = [
    ("description", "the prompt does not show descriptions"),
    ("patternProperties", OPEN),
    ("additionalProperties", OPEN),
    ("prefixItems", "the prompt does not show the first items of a list"),
];

/// Returns the template of a schema, with a warning for each part that it does not show. Without
/// `typed`, leaves are empty strings, as NuExtract 1.5 knows them. With `verbatim`, free strings are
/// spans of the text.
///
/// ```
/// use ffwd::extract::nuextract;
/// use serde_json::json;
///
/// # fn main() -> ffwd::Result<()> {
/// let schema = json!({"properties": {"paid": {"type": ["boolean", "null"]}, "kind": {"enum": ["bill", "offer"]}}});
/// let (template, warnings) = nuextract::to_template(&schema, true, false)?;
/// assert_eq!(template, json!({"paid": "boolean", "kind": ["bill", "offer"]}));
/// assert!(warnings.is_empty());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// `Unsupported`, with a JSON pointer, for alternatives of objects or lists, for a schema that refers to
/// itself or outside, and for one that is no object.
pub fn to_template(schema: &Value, typed: bool, verbatim: bool) -> Result<(Value, Vec<Warning>)> {
    let mut writer = Writer { root: schema, typed, verbatim, left: MAX_SCHEMAS, lost: Vec::new() };
    match writer.value(schema, "", 0)? {
        Value::Object(all) if !all.is_empty() => Ok((Value::Object(all), writer.lost)),
        _ => Err(no_template("a template is an object with properties", "")),
    }
}

/// Returns the schema of a template. Leaves may be null, and lists empty: that is how the models answer
/// what a text lacks.
///
/// # Errors
/// `InvalidSchema`, with a JSON pointer, for a leaf that names no type and for a list of anything but one
/// item or several words.
pub fn to_schema(template: &Value) -> Result<Value> {
    read(template, "", 0)
}

/// Returns true if a document is a JSON Schema and no template.
pub(super) fn is_schema(document: &Value) -> bool {
    let declares = document["properties"].as_object().is_some_and(|all| !all.values().any(Value::is_string));
    let combines = ["$ref", "allOf", "anyOf", "oneOf"].iter().any(|name| document.get(name).is_some());
    !document.is_object() || declares || combines || document["type"] == "object"
}

struct Writer<'s> {
    root: &'s Value,
    typed: bool,
    verbatim: bool,
    /// Number of schemas that may still be visited: references may multiply them.
    left: usize,
    lost: Vec<Warning>,
}

impl Writer<'_> {
    /// Notes what is not shown, once for each kind.
    fn lose(&mut self, what: &str, at: &str) {
        if self.typed && self.lost.iter().all(|lost| lost.message() != what) {
            self.lost.push(Warning::new(WarningKind::NotShown, what).at(at));
        }
    }

    fn value(&mut self, schema: &Value, at: &str, depth: usize) -> Result<Value> {
        self.left = self.left.saturating_sub(1);
        if depth > MAX_DEPTH || self.left == 0 {
            return Err(no_template("the schema refers to itself, or is too large", at));
        }
        let get = |name: &str| schema.get(name).filter(|value| **value != false);
        let list = |name: &str| get(name).and_then(Value::as_array);
        LOST.iter().filter(|(name, _)| get(name).is_some()).for_each(|(_, what)| self.lose(what, at));
        if let Some(reference) = get("$ref") {
            let pointer = reference.as_str().and_then(|text| text.strip_prefix('#'));
            let found = pointer.and_then(|pointer| Some((pointer, self.root.pointer(pointer)?)));
            let (at, target) = found.ok_or_else(|| no_template("`$ref` leads out of the schema", at))?;
            return self.value(target, at, depth + 1);
        }
        if let Some(words) = list("enum").map(Vec::as_slice).or(get("const").map(std::slice::from_ref)) {
            return Ok(self.words(words, at));
        }
        if let Some(kinds) = list("type") {
            let mut one = schema.clone();
            let mut of = |kind: &Value| {
                one["type"] = kind.clone();
                one.clone()
            };
            return self.joined(&kinds.iter().map(&mut of).collect::<Vec<_>>(), at, depth);
        }
        let usable = |name: &&str| list(name).is_some_and(|ways| *name != "allOf" || ways.len() == 1);
        let combined = ["anyOf", "oneOf", "allOf"].into_iter().find(|name| get(name).is_some());
        if let (Some(ways), None) = (combined.filter(usable).and_then(list), get("properties")) {
            return self.joined(ways, at, depth);
        }
        combined.iter().for_each(|name| self.lose(&format!("the prompt does not show `{name}`"), at));
        let text = |name: &str| get(name).and_then(Value::as_str);
        let name = match text("type").or(get("properties").map(|_| "object")) {
            Some("object") => {
                let mut members = Map::new();
                for (name, value) in get("properties").and_then(Value::as_object).into_iter().flatten() {
                    let value = self.value(value, &below(&format!("{at}/properties"), name), depth + 1)?;
                    members.insert(name.clone(), value);
                }
                if members.is_empty() {
                    self.lose(OPEN, at);
                }
                return Ok(Value::Object(members));
            }
            Some("array") => {
                let items = get("items").unwrap_or(&Value::Null);
                let item = self.value(items, &format!("{at}/items"), depth + 1)?;
                return Ok(if item == "" { json!([]) } else { json!([item]) });
            }
            Some("string") => match text(LEAF).or(text("format")) {
                Some("email" | "idn-email") => "email-address",
                Some("uri" | "iri") => "url",
                Some(name) if FORMATS.contains(&name) || get(LEAF).is_some() => name,
                _ if self.verbatim || get("x-verbatim").is_some() => "verbatim-string",
                _ => "string",
            },
            Some(kind @ ("integer" | "number" | "boolean")) => kind,
            _ => {
                self.lose(ANY, at);
                "string"
            }
        };
        Ok(self.leaf(name))
    }

    fn leaf(&self, name: &str) -> Value {
        if self.typed { name.into() } else { "".into() }
    }

    /// Returns the template of an enumeration.
    fn words(&mut self, words: &[Value], at: &str) -> Value {
        let words: Vec<&Value> = words.iter().filter(|word| !word.is_null()).collect();
        let all = |fits: fn(&Value) -> bool| words.iter().all(|word| fits(word));
        if self.typed && words.len() > 1 && all(Value::is_string) {
            return json!(words);
        }
        self.lose("the prompt does not show which values are allowed", at);
        self.leaf(match words.first() {
            Some(_) if all(Value::is_boolean) => "boolean",
            Some(_) if all(Value::is_number) => "number",
            _ => "string",
        })
    }

    /// Returns the template of alternatives.
    fn joined(&mut self, ways: &[Value], at: &str, depth: usize) -> Result<Value> {
        let ways = ways.iter().filter(|way| way["type"] != "null");
        let mut found = ways.map(|way| self.value(way, at, depth + 1)).collect::<Result<Vec<_>>>()?;
        found.dedup();
        let all = |names: [&str; 2]| found.iter().all(|way| names.iter().any(|name| way == name));
        // One item is a list of such items, several are words.
        let is_leaf = |way: &Value| way.is_string() || way.as_array().is_some_and(|list| list.len() > 1);
        let name = match &found[..] {
            [_] => return Ok(found.remove(0)),
            [_, ..] if all(["date", "date-time"]) => "date-time",
            [_, ..] if all(["integer", "number"]) => "number",
            list if list.iter().all(is_leaf) => {
                self.lose("the prompt shows alternatives as a string", at);
                "string"
            }
            _ => return Err(no_template("alternatives of objects or lists", at)),
        };
        Ok(self.leaf(name))
    }
}

fn below(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn no_template(what: &str, at: &str) -> Error {
    let hint = "write one object with the properties of all, or use --prompt-form default";
    let error = Error::new(ErrorKind::Unsupported, format!("no template of NuExtract: {what}"));
    error.at(Place::Pointer(at.to_owned())).hint(hint)
}

/// Reads a template; null is not among its values.
fn read(template: &Value, at: &str, depth: usize) -> Result<Value> {
    let fault = |what: &str| {
        let hint =
            format!("leaves are string, verbatim-string, integer, number, boolean, date-time, {STRINGS}");
        let error = Error::new(ErrorKind::InvalidSchema, format!("the template of NuExtract: {what}"));
        Err(error.at(Place::Pointer(at.to_owned())).hint(hint))
    };
    match template {
        _ if depth > MAX_DEPTH => fault("it is nested too deep"),
        Value::Object(members) => {
            let mut properties = Map::new();
            for (name, value) in members {
                let mut value = read(value, &below(at, name), depth + 1)?;
                match value["type"].as_str() {
                    Some("object" | "array") => {}
                    Some(kind) => value["type"] = json!([kind, "null"]),
                    None => value = json!({"anyOf": [value, {"type": "null"}]}),
                }
                properties.insert(name.clone(), value);
            }
            let required: Vec<&String> = members.keys().collect();
            Ok(json!({"type": "object", "properties": properties, "required": required,
                "additionalProperties": false}))
        }
        Value::Array(list) if list.len() > 1 && list.iter().all(Value::is_string) => {
            Ok(json!({"enum": list}))
        }
        Value::Array(list) if list.len() < 2 => {
            let item = list.first().map(|item| read(item, &format!("{at}/0"), depth + 1));
            Ok(json!({"type": "array", "items": item.unwrap_or(Ok(json!({"type": "string"})))?}))
        }
        Value::String(name) => match name.as_str() {
            "" | "string" => Ok(json!({"type": "string"})),
            "verbatim-string" => Ok(json!({"type": "string", "x-verbatim": true})),
            "integer" | "number" | "boolean" => Ok(json!({"type": name})),
            "float" => Ok(json!({"type": "number"})),
            // The models answer with a date where the text has no time.
            "date-time" => Ok(json!({"anyOf": [{"type": "string", "format": "date-time"},
                {"type": "string", "format": "date"}]})),
            other if FORMATS.contains(&other) => Ok(json!({"type": "string", "format": other})),
            other if STRINGS.split(' ').any(|known| other.split(':').next() == Some(known)) => {
                Ok(json!({"type": "string", LEAF: other}))
            }
            other => fault(&format!("no type of a leaf is called `{}`", other.escape_debug())),
        },
        _ => fault("neither a type, nor a list of one item or of words, nor an object"),
    }
}
