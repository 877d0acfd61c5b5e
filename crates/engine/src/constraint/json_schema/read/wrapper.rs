//! Wrappers of schemas: requests and definitions that hold a schema without being one.
//!
//! Clients of chat servers send `{"name": …, "strict": true, "schema": {…}}`, a whole
//! `response_format`, or the definition of a tool. As a schema, such an object has no keyword and
//! allows any JSON. The schema inside is taken instead, with a warning.
//!
//! # Cost
//!
//! Only a document without keywords is looked into, a few levels deep.
//!
//! # Alternatives considered
//!
//! Looking for the only schema anywhere in the document was rejected: a wrapper that is not known
//! may hold several, and a wrong guess is worse than a warning.

use super::keyword_values::type_hint;
use super::keywords::{ASSERTING, Definition, Keyword, KeywordKind, set};
use crate::constraint::json::document::{Doc, Id, Symbol, Value};
use crate::warning::{Warning, WarningKind};

/// Maximum number of wrappers around each other.
const MAX_LEVELS: usize = 6;

/// Names under which wrappers hold a schema or the next wrapper, the most telling first.
const HOLDERS: &[&str] = &[
    "response_format",
    "responseFormat",
    "json_schema",
    "jsonSchema",
    "$jsonSchema",
    "inputSchema",
    "input_schema",
    "response_schema",
    "responseSchema",
    "responseJsonSchema",
    "guided_json",
    "structured_outputs",
    "generation_config",
    "generationConfig",
    "output_config",
    "output_format",
    "validator",
    "function",
    "parameters",
    "schema",
    "format",
    "text",
    "json",
    "outputSchema",
    "output_schema",
];

/// Those of them that hold another wrapper and no schema.
const OUTER: &[&str] = &[
    "structured_outputs",
    "generation_config",
    "generationConfig",
    "output_config",
    "validator",
    "function",
    "text",
];

/// Holders of a second schema beside the one that counts.
const SECOND: &[&str] = &["outputSchema", "output_schema"];

/// Values of `type` that name a wrapper, not a type.
const WRAPPER_TYPES: &[&str] = &["json_schema", "json_object", "function", "custom"];

/// Moves the root of a document to the schema inside of known wrappers. Returns a warning if it
/// did, or if the document is not empty and has no keyword.
pub(super) fn unwrap(doc: &mut Doc) -> Option<Warning> {
    let root = doc.root();
    if has_keywords(doc, root) || doc.members(root).is_empty() {
        return None;
    }
    let mut at = root;
    for _ in 0..MAX_LEVELS {
        let Some((name, next)) = held(doc, at) else { break };
        at = next;
        if is_schema(doc, at) {
            if OUTER.contains(&doc.name(name)) {
                break;
            }
            doc.set_root(at);
            let message = "the schema is inside of another object; only this part of it is used";
            return Some(Warning::new(WarningKind::Unwrapped, message).at(doc.pointer(at)));
        }
    }
    unconstrained(doc, root)
}

/// Returns a warning for a document that has members and allows any JSON.
fn unconstrained(doc: &Doc, root: Id) -> Option<Warning> {
    let members = doc.members(root);
    let means_something =
        |name: Symbol| Definition::of(name).is_none_or(|own| own.kind == KeywordKind::Definitions);
    members.iter().find(|m| means_something(m.0))?;
    let shorthand = members.iter().all(|m| match doc.value(m.1) {
        Value::String(word) => type_hint(doc.name(word)).is_some(),
        _ => doc.get(m.1, Keyword::Type).is_some(),
    });
    let message = match members.iter().any(|m| Definition::of(m.0).is_none()) {
        true if shorthand => {
            "no keyword of JSON Schema is in it, so it allows any JSON value; did you mean \
             `{\"type\": \"object\", \"properties\": {…}}`?"
        }
        true => "no keyword of JSON Schema is in it, so it allows any JSON value",
        false => "it only defines schemas and applies none of them, so it allows any JSON value",
    };
    Some(Warning::new(WarningKind::Unconstrained, message).at(""))
}

/// Returns true if an object has a keyword that asserts something.
fn has_keywords(doc: &Doc, id: Id) -> bool {
    let keys = doc.names(id).and(ASSERTING);
    // Requests have an object under `format`.
    let holder = doc.get(id, Keyword::Format).filter(|_| keys == set(&[Keyword::Format]));
    !keys.is_empty() && !holder.is_some_and(|at| is_object(doc, at))
}

/// Returns true if an object is a schema: it has a keyword, and is not another wrapper.
fn is_schema(doc: &Doc, id: Id) -> bool {
    let named = doc.get(id, Keyword::Type).and_then(|at| doc.string(at)).map(|name| doc.name(name));
    let is_wrapper = named.is_some_and(|name| WRAPPER_TYPES.contains(&name)) && held(doc, id).is_some();
    has_keywords(doc, id) && !is_wrapper
}

/// Returns the object that a wrapper holds and its name, if no other member is a schema.
fn held(doc: &Doc, wrapper: Id) -> Option<(Symbol, Id)> {
    let holder = |text: &&str| doc.lookup(text).and_then(|name| doc.get(wrapper, name).map(|at| (name, at)));
    let (name, found) = HOLDERS.iter().filter_map(holder).find(|&(_, at)| is_object(doc, at))?;
    // Properties that are written without `properties` may have these names, too.
    let typed = |id: Id| is_object(doc, id) && doc.get(id, Keyword::Type).is_some();
    let others = doc.members(wrapper).iter().filter(|m| m.0 != name && !SECOND.contains(&doc.name(m.0)));
    let alone = !others.into_iter().any(|m| typed(m.1));
    alone.then_some((name, found))
}

fn is_object(doc: &Doc, id: Id) -> bool {
    matches!(doc.value(id), Value::Object { len, .. } if len > 0)
}
