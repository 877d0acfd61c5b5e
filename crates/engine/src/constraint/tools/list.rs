//! Parser of lists of tools, in the shapes that clients and servers send.
//!
//! | shape | a tool |
//! |---|---|
//! | chat completions | `{"type": "function", "function": {"name", "parameters"}}` |
//! | Responses | `{"type": "function", "name", "parameters"}` |
//! | servers of the Model Context Protocol | `{"name", "inputSchema"}` |
//! | Anthropic's Messages | `{"name", "input_schema"}` |
//!
//! The list is an array, the member `tools` or `functions` of an object, the same in the `result`
//! of a reply, or one tool. A member that is `null` is absent. Members with another meaning than
//! that of the arguments, such as descriptions, matter for the prompt only. Any other member is a
//! warning, because it may be a misspelt schema.
//!
//! # Cost
//! Linear in the text.
//!
//! # Alternatives considered
//! Structures derived with `serde` were rejected: they ignore what they do not know, and then a
//! function whose schema is misspelt takes no arguments.

use serde_json::{Value as Json, json};

use super::mistyped_enum;
use super::tool::{Tool, left_out};
use crate::constraint::json::document::{Doc, Id, Value};
use crate::constraint::json_schema;
use crate::edit_distance::distance;
use crate::error::{Error, ErrorKind, Result};
use crate::warning::{Warning, WarningKind};

/// Maximum number of functions in one list.
const MAX_TOOLS: usize = 4096;
/// Members of a tool that hold the schema of its arguments, in the order in which they count.
const SCHEMAS: [&str; 3] = ["parameters", "input_schema", "inputSchema"];
/// Members of a tool that say nothing about its arguments.
const OTHERS: [&str; 22] = [
    "type",
    "function",
    "name",
    "description",
    "strict",
    "title",
    "outputSchema",
    "output_schema",
    "annotations",
    "_meta",
    "meta",
    "icons",
    "execution",
    "return",
    "returns",
    "examples",
    "input_examples",
    "cache_control",
    "defer_loading",
    "allowed_callers",
    "eager_input_streaming",
    "id",
];
/// Other words that people use for the schema of the arguments.
const SYNONYMS: [&str; 11] = [
    "schema",
    "params",
    "parameter",
    "args",
    "arguments",
    "input",
    "inputs",
    "args_schema",
    "json_schema",
    "parameters_json_schema",
    "properties",
];
/// Members of an object around a list.
const AROUND: [&str; 9] =
    ["tools", "functions", "result", "nextCursor", "_meta", "jsonrpc", "id", "ttl", "cacheScope"];

/// A parsed list.
pub(super) struct List {
    pub tools: Vec<Tool>,
    pub warnings: Vec<Warning>,
}

/// Parses a list. With `skip`, a tool that cannot be used is left out, and a warning names it.
pub(super) fn read(text: &str, skip: bool) -> Result<List> {
    let hint = "a list of tools is a JSON array of functions with a `name` and `parameters`";
    let doc = Doc::parse(crate::text::without_mark(text)).map_err(|e| match e.hint_text() {
        Some(_) => e,
        None => e.hint(hint),
    })?;
    let mut reader = ListReader { doc: &doc, warnings: Vec::new() };
    let entries = reader.entries()?;
    if entries.is_empty() || entries.len() > MAX_TOOLS {
        let message =
            format!("a list of {} tools; there must be one, and at most {MAX_TOOLS}", entries.len());
        return Err(Error::new(ErrorKind::InvalidSchema, message));
    }
    let mut tools: Vec<Tool> = Vec::with_capacity(entries.len());
    let mut known = rustc_hash::FxHashSet::default();
    let mut first = None;
    for at in entries {
        let tool = reader.tool(at).and_then(|tool| match known.insert(tool.name.clone()) {
            true => Ok(tool),
            false => Err(reader.invalid(at, format!("two tools have the name `{}`", tool.name))),
        });
        match tool {
            Ok(tool) => tools.push(tool),
            Err(error) if skip => {
                reader.warnings.push(left_out(&error, &doc.pointer(at)));
                first = first.or(Some(error));
            }
            Err(error) => return Err(error),
        }
    }
    match first {
        Some(error) if tools.is_empty() => Err(error),
        _ => Ok(List { tools, warnings: reader.warnings }),
    }
}

/// Returns a tool as chat templates expect it: with `type` and `function`.
pub(super) fn for_prompt(tool: &Tool) -> Json {
    let entry: Json = serde_json::from_str(&tool.entry).unwrap_or_default();
    if entry.get("function").is_some_and(Json::is_object) {
        return entry;
    }
    let mut function = json!({"name": tool.name});
    if let Some(description) = entry.get("description").filter(|d| !d.is_null()) {
        function["description"] = description.clone();
    }
    let own = SCHEMAS.iter().find_map(|name| entry.get(*name).filter(|schema| !schema.is_null()));
    function["parameters"] = own.cloned().unwrap_or_else(|| json!({"type": "object", "properties": {}}));
    json!({"type": "function", "function": function})
}

struct ListReader<'a> {
    doc: &'a Doc,
    warnings: Vec<Warning>,
}

impl ListReader<'_> {
    fn error(&self, kind: ErrorKind, at: Id, message: impl Into<String>) -> Error {
        Error::new(kind, message).at(self.doc.place(at))
    }

    fn invalid(&self, at: Id, message: impl Into<String>) -> Error {
        self.error(ErrorKind::InvalidSchema, at, message)
    }

    fn warn(&mut self, kind: WarningKind, at: Id, message: impl Into<String>) {
        self.warnings.push(Warning::new(kind, message).at(self.doc.pointer(at)));
    }

    fn text(&self, at: Id) -> Option<&str> {
        self.doc.string(at).map(|text| self.doc.name(text))
    }

    /// Returns the tools of the document.
    fn entries(&mut self) -> Result<Vec<Id>> {
        let mut at = self.doc.root();
        if let Some(result) = self.doc.member(at, "result") {
            self.check_around(at);
            at = result;
        }
        if let Value::Array { .. } = self.doc.value(at) {
            return Ok(self.doc.elements(at).to_vec());
        }
        let Some(list) = self.doc.member(at, "tools").or_else(|| self.doc.member(at, "functions")) else {
            let single = ["name", "function"].iter().any(|name| self.doc.member(at, name).is_some());
            return match single {
                true => Ok(vec![at]),
                false => Err(self
                    .invalid(at, "neither a list of tools nor an object with `tools`")
                    .hint("a list of tools is a JSON array of functions with a `name` and `parameters`")),
            };
        };
        self.check_around(at);
        match self.doc.value(list) {
            Value::Array { .. } => Ok(self.doc.elements(list).to_vec()),
            _ => Err(self.invalid(list, "the tools must be an array")),
        }
    }

    /// Warns about the members around a list.
    fn check_around(&mut self, at: Id) {
        for &(name, value) in self.doc.members(at) {
            let name = self.doc.name(name);
            if !AROUND.contains(&name) {
                let message = format!("`{name}` is no part of a list of tools, so it has no effect");
                self.warn(WarningKind::UnknownMember, value, message);
            }
        }
        if let Some(cursor) = self.doc.member(at, "nextCursor") {
            let message = "the list continues on another page, whose tools are missing";
            self.warn(WarningKind::MissingTool, cursor, message);
        }
    }

    fn tool(&mut self, at: Id) -> Result<Tool> {
        if !matches!(self.doc.value(at), Value::Object { .. }) {
            return Err(self
                .invalid(at, "not a tool, which is an object")
                .hint("a tool has a `name` and `parameters`, or `type` and `function`"));
        }
        self.check_kind(at)?;
        let function = self.doc.member(at, "function").unwrap_or(at);
        if !matches!(self.doc.value(function), Value::Object { .. }) {
            return Err(self.invalid(function, "`function` must be an object"));
        }
        let name = self.name(function)?;
        self.check_members(at, function);
        let schemas = [function, at].into_iter().flat_map(|own| SCHEMAS.map(|word| (own, word)));
        let found: Vec<Id> = schemas.filter_map(|(own, word)| self.doc.member(own, word)).collect();
        let (schema, pointer) = match found.first() {
            Some(&schema) => (self.mended(schema), self.doc.pointer(schema)),
            None => {
                (r#"{"type":"object","additionalProperties":false}"#.to_owned(), self.doc.pointer(function))
            }
        };
        if let Some(&other) =
            found.iter().find(|&&other| self.doc.written(other) != self.doc.written(found[0]))
        {
            let message = format!("`{name}` has two schemas; that at #{pointer} counts");
            self.warn(WarningKind::DuplicateName, other, message);
        }
        Ok(Tool { name, schema, pointer, entry: self.doc.written(at) })
    }

    /// Refuses entries that are no functions with a schema.
    fn check_kind(&self, at: Id) -> Result<()> {
        let Some(kind) = self.doc.member(at, "type") else { return Ok(()) };
        let Some(name) = self.text(kind) else {
            return Err(self.invalid(kind, "the `type` of a tool must be a string"));
        };
        let free = || ["custom", "format"].iter().any(|word| self.doc.member(at, word).is_some());
        let message = match name {
            "function" => return Ok(()),
            "custom" if !free() => return Ok(()),
            "custom" => "tools that take text instead of arguments are not supported".to_owned(),
            _ => format!("tools of the type `{name}` are not supported"),
        };
        Err(self
            .error(ErrorKind::Unsupported, kind, message)
            .hint("only functions have a schema for their arguments; leave out other tools, or skip them"))
    }

    fn name(&self, function: Id) -> Result<String> {
        let Some(at) = self.doc.member(function, "name") else {
            return Err(self.invalid(function, "a function lacks its `name`"));
        };
        let Some(name) = self.text(at) else {
            return Err(self.invalid(at, "the `name` of a function must be a string"));
        };
        let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>\"'\\[]{}=|｜".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            let message = format!("a function cannot have the name {name:?}");
            return Err(self
                .error(ErrorKind::Unsupported, at, message)
                .hint("use letters, digits, `_`, `-`, `.`, `:` and `/`"));
        }
        Ok(name.to_owned())
    }

    /// Warns about members that are not known.
    fn check_members(&mut self, at: Id, function: Id) {
        for object in [at].into_iter().chain((function != at).then_some(function)) {
            for &(name, value) in self.doc.members(object) {
                let name = self.doc.name(name);
                if OTHERS.contains(&name) || SCHEMAS.contains(&name) {
                    continue;
                }
                let near = suggestion(name).map_or(String::new(), |near| format!("; did you mean `{near}`?"));
                let message = format!("a tool has no member `{name}`, so it has no effect{near}");
                self.warn(WarningKind::UnknownMember, value, message);
            }
        }
    }

    /// Returns the schema of arguments; what was mended in it is a warning.
    fn mended(&mut self, at: Id) -> String {
        let text = self.arguments(at);
        let Ok(mut schema) = serde_json::from_str(&text) else { return text };
        let mended = mistyped_enum::mend(&mut schema, &self.doc.pointer(at));
        if mended.is_empty() {
            return text;
        }
        for (place, what) in mended {
            let message = format!("no value of the `type` is in `enum`, so it is read as {what}");
            self.warnings.push(Warning::new(WarningKind::IgnoredKeyword, message).at(place));
        }
        schema.to_string()
    }

    /// Returns the schema of arguments with `type: object`, which a schema may leave out.
    fn arguments(&self, at: Id) -> String {
        let schema = match self.doc.string(at) {
            Some(inner) => return self.doc.name(inner).to_owned(),
            None => self.doc.written(at),
        };
        let members = self.doc.members(at);
        let has = |name: &str| members.iter().any(|&(own, _)| self.doc.name(own) == name);
        match self.doc.value(at) {
            Value::Bool(true) => r#"{"type":"object"}"#.to_owned(),
            // In older drafts the members next to a reference do not count.
            Value::Object { .. } if has("type") || has("$ref") => schema,
            // An object without keywords is no schema, which the front end of schemas reports.
            Value::Object { .. }
                if !json_schema::looks_like_schema(members.iter().map(|&(own, _)| self.doc.name(own))) =>
            {
                schema
            }
            Value::Object { .. } => {
                let comma = if members.is_empty() { "" } else { "," };
                format!(r#"{{"type":"object"{comma}{}"#, schema.strip_prefix('{').unwrap_or(&schema))
            }
            _ => schema,
        }
    }
}

/// Returns the known member that an unknown one may stand for.
fn suggestion(name: &str) -> Option<&'static str> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
    let word = plain(name);
    if SYNONYMS.iter().any(|synonym| plain(synonym) == word) {
        return Some(SCHEMAS[0]);
    }
    let all = SCHEMAS.iter().chain(&OTHERS).map(|&known| (distance(&plain(known), &word), known));
    all.filter(|&(distance, known)| distance <= 2 && distance < known.len().min(word.len()))
        .min()
        .map(|n| n.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{"u":{"type":"string"}}}"#;

    fn schemas(text: &str) -> Vec<(String, String, String)> {
        let list = read(text, false).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(list.warnings.is_empty(), "{text}: {:?}", list.warnings);
        list.tools.into_iter().map(|tool| (tool.name, tool.schema, tool.pointer)).collect()
    }

    #[test]
    fn all_shapes_have_the_same_schema() {
        let tool = |name: &str| format!(r#"{{"name": "f", "description": "d", "{name}": {SCHEMA}}}"#);
        for (list, pointer) in [
            (
                format!(r#"[{{"type": "function", "function": {}}}]"#, tool("parameters")),
                "/0/function/parameters",
            ),
            (format!("[{}]", tool("parameters")), "/0/parameters"),
            (format!("[{}]", tool("inputSchema")), "/0/inputSchema"),
            (format!("\u{feff}[{}]", tool("input_schema")), "/0/input_schema"),
            (
                format!(r#"{{"tools": [{}], "nextCursor": null}}"#, tool("inputSchema")),
                "/tools/0/inputSchema",
            ),
            (format!(r#"{{"functions": [{}]}}"#, tool("parameters")), "/functions/0/parameters"),
            (
                format!(r#"{{"jsonrpc": "2.0", "id": 1, "result": {{"tools": [{}]}}}}"#, tool("inputSchema")),
                "/result/tools/0/inputSchema",
            ),
            (tool("parameters"), "/parameters"),
            (format!(r#"[{{"function": {{"name": "f"}}, "parameters": {SCHEMA}}}]"#), "/0/parameters"),
        ] {
            assert_eq!(schemas(&list), [("f".into(), SCHEMA.into(), pointer.into())], "{list}");
        }
    }

    #[test]
    fn arguments_are_objects() {
        for (schema, expected) in [
            ("true", r#"{"type":"object"}"#),
            ("{}", r#"{"type":"object"}"#),
            ("null", r#"{"type":"object","additionalProperties":false}"#),
            (r#"{ "minProperties": 1e0 }"#, r#"{"type":"object","minProperties":1e0}"#),
            (r#"{"type": ["object"]}"#, r#"{"type":["object"]}"#),
            (r##"{"$ref": "#/a"}"##, r##"{"$ref":"#/a"}"##),
            (r#""{\"minimum\": 1}""#, r#"{"minimum": 1}"#),
            (r#"{"url": {}}"#, r#"{"url":{}}"#),
            (r#"{"title": "t"}"#, r#"{"type":"object","title":"t"}"#),
            ("false", "false"),
        ] {
            assert_eq!(schemas(&format!(r#"[{{"name": "f", "parameters": {schema}}}]"#))[0].1, expected);
        }
    }

    #[test]
    fn broken_tools_can_be_left_out() {
        let list = r#"[{"name": "f"}, {"type": "web_search"}, 1, {"name": "f"}]"#;
        let found = read(list, true).unwrap();
        assert_eq!(found.tools.len(), 1);
        let at: Vec<_> = found.warnings.iter().filter_map(Warning::pointer).collect();
        assert_eq!(at, ["/1/type", "/2", "/3"]);
        assert!(found.warnings.iter().all(|w| w.kind() == WarningKind::MissingTool));
        assert!(read("[1]", true).is_err());
    }

    #[test]
    fn prompts_have_one_form() {
        let chat = r#"[{"type":"function","function":{"name":"f","parameters":{"a":1.0}},"x":2}]"#;
        let of = |text: &str| for_prompt(&read(text, false).unwrap().tools[0]).to_string();
        assert_eq!(format!("[{}]", of(chat)), chat);
        let flat = format!(r#"[{{"name": "f", "title": "t", "description": "d", "inputSchema": {SCHEMA}}}]"#);
        let expected = format!(
            r#"{{"type":"function","function":{{"name":"f","description":"d","parameters":{SCHEMA}}}}}"#
        );
        assert_eq!(of(&flat), expected);
        assert!(of(r#"[{"name": "f"}]"#).contains(r#""parameters":{"type":"object","properties":{}}"#));
    }
}
