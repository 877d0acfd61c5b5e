//! Values of enumerations that a text does not support: none of their words is a reason for them.
//!
//! A value has *support* if each of its words begins a word of the text, in small or capital letters. It is a
//! sign and no proof: `high` is also supported by `highway`, and a model may be right about a value whose
//! words are not there.
//!
//! # Cost
//! A walk of the schema, and a search of the text, for each string of a record.
//!
//! # Alternatives considered
//! Asking for the whole value was rejected: `credit_note` stands in texts as two words.

use std::collections::HashSet;

use serde_json::{Map, Value};

use crate::decode::leaf_values;

/// Largest number of schemas that are looked at for one value.
const MAX_SCHEMAS: usize = 4096;

/// Returns the values of a record (JSON text) that the schema lists among others, and that the text does not
/// support, by their JSON pointers.
pub(super) fn unsupported(schema: &Value, text: &str, record: &str) -> Map<String, Value> {
    let text = text.to_lowercase();
    let mut found = Map::new();
    for leaf in leaf_values(record.as_bytes()) {
        let Ok(value) = serde_json::from_str::<String>(&record[leaf.bytes]) else { continue };
        if is_listed(schema, &leaf.pointer, &value)
            && !words(&value).iter().all(|word| stands_in(word, &text))
        {
            found.insert(leaf.pointer, value.into());
        }
    }
    found
}

/// Returns true if the schema of the value at a pointer lists it among others.
fn is_listed(root: &Value, pointer: &str, value: &str) -> bool {
    let mut here = alternatives(root, vec![root]);
    for name in pointer.split('/').skip(1) {
        let name = name.replace("~1", "/").replace("~0", "~");
        let number = name.parse().unwrap_or(usize::MAX);
        let below = here.iter().flat_map(|(schema, _)| {
            let at = |keyword: &str| schema.get(keyword);
            let items = at("items");
            [
                at("properties").and_then(|all| all.get(&name)),
                at("additionalProperties"),
                items.filter(|items| items.is_object()),
                items.and_then(|items| items.get(number)),
                at("prefixItems").and_then(|all| all.get(number)),
            ]
        });
        here = alternatives(root, below.flatten().collect());
    }
    here.iter().any(|(schema, is_one_of)| {
        let listed = schema.get("enum").and_then(Value::as_array).filter(|list| *is_one_of || list.len() > 1);
        let only = schema.get("const").filter(|_| *is_one_of);
        listed.into_iter().flatten().chain(only).any(|one| one == value)
    })
}

/// Returns these schemas and all that hold for the same value, each with whether it is one of several.
fn alternatives<'s>(root: &'s Value, schemas: Vec<&'s Value>) -> Vec<(&'s Value, bool)> {
    // Each counts once, so that schemas that refer to themselves do not multiply with each level.
    let (mut all, mut seen): (Vec<(&Value, bool)>, _) = (Vec::new(), HashSet::new());
    let mut add = |all: &mut Vec<_>, schema: &'s Value, is_one_of: bool| {
        if all.len() < MAX_SCHEMAS && seen.insert((std::ptr::from_ref(schema), is_one_of)) {
            all.push((schema, is_one_of));
        }
    };
    schemas.into_iter().for_each(|schema| add(&mut all, schema, false));
    let mut next = 0;
    while let Some(&(schema, is_one_of)) = all.get(next) {
        next += 1;
        let target = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#'));
        if let Some(target) = target.and_then(|target| root.pointer(target)) {
            add(&mut all, target, is_one_of);
        }
        for (keyword, choice) in [("allOf", is_one_of), ("anyOf", true), ("oneOf", true)] {
            let list = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
            list.for_each(|branch| add(&mut all, branch, choice));
        }
    }
    all
}

/// Returns the words of a value in small letters, those of `creditNote` too.
fn words(value: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut last = None;
    for c in value.chars() {
        if !c.is_alphanumeric() || last.is_some_and(char::is_lowercase) && c.is_uppercase() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (c.is_alphanumeric(), words.last_mut()) {
            word.extend(c.to_lowercase());
        }
        last = Some(c);
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Returns true if a word begins a word of the text; one of a script without spaces may be anywhere.
fn stands_in(word: &str, text: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !word.is_ascii() || !text[..at].chars().next_back().is_some_and(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_without_words_in_the_text_are_named() {
        let schema = json!({"$defs": {"kind": {"enum": ["invoice", "credit_note", "creditNote"]}}, "properties": {
            "kind": {"$ref": "#/$defs/kind"},
            "state": {"anyOf": [{"const": "paid"}, {"const": "open"}, {"type": "null"}]},
            "lines": {"type": "array", "items": {"properties": {"unit": {"enum": ["pieces", "hours", 3]}}}},
            "pair": {"prefixItems": [{"enum": ["a", "b"]}, {"type": "string"}]},
            "currency": {"const": "EUR"}, "free": {"type": "string"}, "town": {"enum": ["東京", "大阪"]},
            "a/b": {"type": ["string", "null"], "enum": ["x", null]}}});
        let of = |record: Value, text: &str| json!(unsupported(&schema, text, &record.to_string()));
        let text = "CREDIT  NOTES, 3 hours, 東京都. Reopened.";
        assert_eq!(of(json!({"kind": "credit_note", "town": "東京"}), text), json!({}));
        assert_eq!(of(json!({"kind": "creditNote"}), text), json!({}));
        let record = json!({"kind": "invoice", "state": "open", "lines": [{"unit": "hours"}, {"unit": "pieces"}],
            "pair": ["b", "c"], "currency": "EUR", "free": "invented", "town": "大阪", "a/b": "x"});
        let expected = json!({"/kind": "invoice", "/state": "open", "/lines/1/unit": "pieces", "/pair/0": "b",
            "/town": "大阪", "/a~1b": "x"});
        assert_eq!(of(record, text), expected);
        assert_eq!(of(json!({"state": null, "a/b": null}), text), json!({}));
        // References in a circle end.
        let circle = json!({"$ref": "#", "anyOf": [{"$ref": "#"}, {"enum": ["x", "y"]}]});
        assert_eq!(json!(unsupported(&circle, "z", "\"x\"")), json!({"": "x"}));
        // Two ways into the same schema at each of many levels.
        let twice = json!({"properties": {"a": {"$ref": "#"}}, "additionalProperties": {"$ref": "#"},
            "enum": ["x", "y"]});
        let deep = format!("{}\"x\"{}", "{\"a\":".repeat(60), "}".repeat(60));
        assert_eq!(unsupported(&twice, "z", &deep).len(), 1);
    }
}
