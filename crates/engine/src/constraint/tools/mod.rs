//! Tool calls: from a list of functions to a constraint on replies, and from a reply to its calls.
//!
//! The list has the form that clients of chat servers send. A [`ToolStyle`] describes how a family
//! of models writes a call. The result is a structural tag
//! ([`structural_tag`]). So free text, the tags around a call and the
//! schemas of its arguments are one automaton.
//!
//! # Cost
//!
//! The cost of the schemas.
//!
//! # Alternatives considered
//!
//! An intermediate JSON that is rewritten into the model's own form was rejected. Models call tools
//! well in the form they were trained on and badly in any other.

mod harmony;
mod other_spellings;
mod parse_reply;
mod style;

pub use parse_reply::{Reply, ToolCall};
pub use style::ToolStyle;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::style::{Arguments, CallSyntax};
use super::policy::Policy;
use super::{Constraint, structural_tag};
use crate::error::{Error, ErrorKind, Place, Result};

/// Maximum number of functions in one list.
const MAX_TOOLS: usize = 4096;

/// Functions that a model may call.
///
/// ```
/// # fn main() -> ffwd_engine::Result<()> {
/// use ffwd_engine::constraint::tools::{ToolChoice, ToolStyle, Tools};
///
/// let tools = Tools::parse(r#"[{"type": "function", "function": {"name": "add", "parameters": {
///     "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
///     "required": ["a", "b"], "additionalProperties": false}}}]"#)?;
/// let constraint = tools.constraint(ToolStyle::Hermes, &ToolChoice::default(), ffwd_engine::Policy::default())?;
/// # let _ = constraint;
/// let reply = "Let me see.\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\":1,\"b\":2}}\n</tool_call>";
/// let reply = tools.read(ToolStyle::Hermes, reply)?;
/// assert_eq!((reply.text.as_str(), reply.calls[0].name.as_str()), ("Let me see.\n", "add"));
/// assert_eq!(reply.calls[0].arguments, r#"{"a":1,"b":2}"#);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Tools {
    list: Arc<[Tool]>,
}

#[derive(Debug, Clone)]
struct Tool {
    name: String,
    /// Schema of the arguments, as text: numbers in it keep their digits.
    schema: String,
    /// JSON pointer of the schema in the list; of the function itself, if it has no schema.
    pointer: String,
}

/// Choice of the calls in a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolChoice {
    /// Content of the reply.
    pub calls: Calls,
    /// True to permit at most one call.
    pub single: bool,
}

/// Content of a reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Calls {
    /// Free text, in which calls may occur.
    #[default]
    Auto,
    /// Calls, at least one, and nothing else.
    Required,
    /// One call of the function with this name.
    Function(String),
}

#[derive(Deserialize)]
struct ToolEntry<'a> {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(borrow)]
    function: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    parameters: Option<&'a RawValue>,
    #[serde(borrow)]
    input_schema: Option<&'a RawValue>,
}

impl Tools {
    /// Parses a JSON array of functions. An entry is `{"type": "function", "function": {"name",
    /// "parameters"}}` as in chat completions, or flat, with `parameters` or `input_schema`.
    /// Without either, a function takes no arguments. Descriptions and other members only matter
    /// for the prompt.
    ///
    /// # Errors
    /// `InvalidJson` if the text is not a JSON array. The other errors have the pointer of the
    /// function: `InvalidSchema` for one without a name or with the name of another. `Unsupported`
    /// for entries that are not functions and for names that cannot be written.
    pub fn parse(text: &str) -> Result<Self> {
        let json = |e: serde_json::Error| {
            Error::new(ErrorKind::InvalidJson, e.to_string())
                .hint("a list of tools is a JSON array of functions with a `name` and `parameters`")
        };
        let entries: Vec<&RawValue> = serde_json::from_str(crate::text::without_mark(text)).map_err(json)?;
        if entries.is_empty() || entries.len() > MAX_TOOLS {
            let message =
                format!("a list of {} tools; there must be one, and at most {MAX_TOOLS}", entries.len());
            return Err(Error::new(ErrorKind::InvalidSchema, message));
        }
        let mut list: Vec<Tool> = Vec::with_capacity(entries.len());
        let mut known = rustc_hash::FxHashSet::default();
        for (i, text) in entries.iter().enumerate() {
            let tool = tool(text.get(), i)?;
            if !known.insert(tool.name.clone()) {
                let message = format!("two tools have the name `{}`", tool.name);
                return Err(at(Error::new(ErrorKind::InvalidSchema, message), &format!("/{i}")));
            }
            list.push(tool);
        }
        Ok(Tools { list: list.into() })
    }

    /// Returns the names, in the order of the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|tool| &*tool.name)
    }

    /// Returns the constraint on a reply.
    ///
    /// # Errors
    /// The errors of a JSON schema ([`Constraint::json_schema`]), each with a pointer into the list
    /// of tools. `InvalidOption` if the choice names a function that is not in the list.
    pub fn constraint(&self, style: ToolStyle, choice: &ToolChoice, policy: Policy) -> Result<Constraint> {
        let chosen: Vec<&Tool> = match &choice.calls {
            Calls::Function(name) => self.list.iter().filter(|tool| tool.name == *name).collect(),
            _ => self.list.iter().collect(),
        };
        if chosen.is_empty()
            && let Calls::Function(name) = &choice.calls
        {
            let names: Vec<&str> = self.names().take(20).collect();
            return Err(Error::new(ErrorKind::InvalidOption, format!("no tool has the name `{name}`"))
                .hint(format!("there are: {}", names.join(", "))));
        }
        let format = format(&style.spelling(), &chosen, choice);
        let places = places(&format, &chosen);
        let document = json!({"type": "structural_tag", "format": format}).to_string();
        let mut ir = structural_tag::parse(&document, &policy).map_err(|e| moved(&e, &places))?;
        for warning in &mut ir.warnings {
            if let Some(at) = warning.pointer()
                && let Some((from, to)) = places.iter().find(|(from, _)| at.starts_with(from.as_str()))
            {
                let moved = format!("{to}{}", &at[from.len()..]);
                *warning = warning.clone().at(moved);
            }
        }
        Ok(Constraint::from_ir(ir, policy))
    }

    /// Parses the calls in a reply that satisfies the constraint.
    ///
    /// # Errors
    /// `InvalidReply` with the byte at which a call breaks off or is not written in the style.
    pub fn read(&self, style: ToolStyle, reply: &str) -> Result<Reply> {
        parse_reply::read(&self.list, &style.spelling(), reply)
    }

    /// Parses calls that a model wrote in another spelling than it was asked for: JSON with a `name`
    /// and `arguments`, bare or in a code fence. Returns `None` if there are none. The arguments are
    /// an object, but nothing checked them against the schema of the function.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::constraint::tools::Tools;
    ///
    /// let tools = Tools::parse(r#"[{"name": "add", "parameters": {"type": "object"}}]"#)?;
    /// let reply = tools.read_other("Sure.\n```json\n{\"name\": \"add\", \"arguments\": {\"a\": 1}}\n```");
    /// assert_eq!(reply.unwrap().calls[0].arguments, r#"{"a":1}"#);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_other(&self, reply: &str) -> Option<Reply> {
        other_spellings::read(|name| self.names().any(|known| known == name), reply)
    }
}

fn at(error: Error, pointer: &str) -> Error {
    error.at(Place::Pointer(pointer.to_owned()))
}

fn tool(text: &str, i: usize) -> Result<Tool> {
    let wrong = |e: serde_json::Error, pointer: &str| {
        at(Error::new(ErrorKind::InvalidSchema, format!("not a tool: {e}")), pointer)
            .hint("a tool is an object with a `name` and `parameters`, or with `type` and `function`")
    };
    let mut pointer = format!("/{i}");
    let entry: ToolEntry<'_> = serde_json::from_str(text).map_err(|e| wrong(e, &pointer))?;
    if let Some(kind) = entry.kind.filter(|kind| kind != "function" && kind != "custom") {
        let message = format!("tools of the type `{kind}` are not supported");
        return Err(at(Error::new(ErrorKind::Unsupported, message), &format!("{pointer}/type"))
            .hint("only functions have a schema for their arguments"));
    }
    let text = entry.function.map_or(text, RawValue::get);
    if entry.function.is_some() {
        pointer.push_str("/function");
    }
    let function: Function<'_> = serde_json::from_str(text).map_err(|e| wrong(e, &pointer))?;
    let Some(name) = function.name else {
        return Err(at(Error::new(ErrorKind::InvalidSchema, "a function lacks its `name`"), &pointer));
    };
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !"<>\"'\\[]{}=|｜".contains(c);
    if name.is_empty() || !name.chars().all(plain) {
        let error = Error::new(ErrorKind::Unsupported, format!("a function cannot have the name {name:?}"));
        return Err(
            at(error, &format!("{pointer}/name")).hint("use letters, digits, `_`, `-`, `.`, `:` and `/`")
        );
    }
    let member = if function.parameters.is_some() { "parameters" } else { "input_schema" };
    let schema = match function.parameters.or(function.input_schema).map(|schema| schema.get().trim()) {
        None | Some("null") => r#"{"type":"object","additionalProperties":false}"#.to_owned(),
        Some(schema) => {
            pointer.push('/');
            pointer.push_str(member);
            arguments(schema)
        }
    };
    Ok(Tool { name, schema, pointer })
}

/// Returns the schema of arguments with `type: object`, which a schema may leave out.
fn arguments(schema: &str) -> String {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<&'a RawValue>,
        #[serde(rename = "$ref", borrow)]
        reference: Option<&'a RawValue>,
    }
    match (schema, serde_json::from_str::<Typed<'_>>(schema)) {
        ("true", _) => r#"{"type":"object"}"#.to_owned(),
        // In older drafts the members next to a reference do not count.
        (_, Ok(Typed { kind: None, reference: None })) => {
            let rest = schema.strip_prefix('{').unwrap_or(schema).trim_start();
            let comma = if rest.starts_with('}') { "" } else { "," };
            format!(r#"{{"type":"object"{comma}{rest}"#)
        }
        _ => schema.to_owned(),
    }
}

/// Returns the structural-tag format of a reply.
fn format(spelling: &CallSyntax, tools: &[&Tool], choice: &ToolChoice) -> Value {
    let single = choice.single || matches!(choice.calls, Calls::Function(_));
    let tags: Vec<Value> = tools.iter().map(|tool| tag(spelling, tool)).collect();
    if spelling.messages {
        return harmony::format(tags, &choice.calls);
    }
    let several = |tags: Vec<Value>| {
        json!({"type": "tags_with_separator", "tags": tags, "separator": spelling.between,
            "at_least_one": true, "stop_after_first": single})
    };
    let section = |[begin, end]: [&str; 2], tags| json!({"type": "tag", "begin": begin, "content": several(tags), "end": end});
    match (&choice.calls, spelling.section) {
        // No call can follow a section, so the text ends there.
        (Calls::Auto, Some(around)) => json!({"type": "triggered_tags", "triggers": [spelling.trigger()],
            "tags": [section(around, tags)], "stop_after_first": true}),
        (Calls::Auto, None) => {
            json!({"type": "triggered_tags", "triggers": [spelling.trigger()], "tags": tags,
            "stop_after_first": single})
        }
        (_, Some(around)) => section(around, tags),
        (_, None) => several(tags),
    }
}

fn tag(spelling: &CallSyntax, tool: &Tool) -> Value {
    let style = |style: &str| json!({"type": "json_schema", "json_schema": tool.schema, "style": style});
    let content = match spelling.arguments {
        Arguments::Json => style("json"),
        Arguments::Parameters(name) => style(name),
        Arguments::Numbered(between) => json!({"type": "sequence", "elements": [
            {"type": "regex", "pattern": "0|[1-9][0-9]{0,3}"}, {"type": "const_string", "value": between}, style("json")]}),
    };
    json!({"begin": format!("{}{}{}", spelling.name[0], tool.name, spelling.name[1]), "content": content,
        "end": spelling.end})
}

/// Pairs the pointer of each schema in a format with its pointer in the list of tools.
fn places(format: &Value, tools: &[&Tool]) -> Vec<(String, String)> {
    fn walk(value: &Value, at: &str, found: &mut Vec<String>) {
        match value {
            Value::Object(members) => {
                for (name, member) in members {
                    let at = format!("{at}/{name}");
                    if name == "json_schema" { found.push(at) } else { walk(member, &at, found) }
                }
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(i, item)| walk(item, &format!("{at}/{i}"), found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk(format, "/format", &mut found);
    // Each tool has one, in their order.
    found.into_iter().zip(tools.iter().map(|tool| tool.pointer.clone())).collect()
}

/// Converts an error of the structural tag into one of the list of tools.
fn moved(error: &Error, places: &[(String, String)]) -> Error {
    let mut new = Error::new(error.kind(), error.message());
    for place in error.places() {
        new = new.at(match place {
            Place::Pointer(inner) => {
                // A longer number is another location.
                let within = |from: &str| {
                    inner.strip_prefix(from).filter(|rest| rest.is_empty() || rest.starts_with('/'))
                };
                let known = places.iter().find_map(|(from, to)| Some(format!("{to}{}", within(from)?)));
                Place::Pointer(known.unwrap_or_else(|| inner.clone()))
            }
            other => other.clone(),
        });
    }
    match error.hint_text() {
        Some(hint) => new.hint(hint),
        None => new,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = r#"[
        {"type": "function", "function": {"name": "add", "description": "x", "strict": true, "parameters":
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}},
        {"name": "get.it", "input_schema": {"properties": {"b": {"type": "string"}}}},
        {"type": "function", "name": "now"}
    ]"#;

    #[test]
    fn all_forms_are_read() {
        let tools = Tools::parse(LIST).unwrap();
        assert_eq!(tools.names().collect::<Vec<_>>(), ["add", "get.it", "now"]);
        let schemas: Vec<_> = tools.list.iter().map(|t| (&*t.schema, &*t.pointer)).collect();
        assert!(schemas[0].1 == "/0/function/parameters" && schemas[1].1 == "/1/input_schema");
        assert_eq!(schemas[1].0, r#"{"type":"object","properties": {"b": {"type": "string"}}}"#);
        assert_eq!(schemas[2], (r#"{"type":"object","additionalProperties":false}"#, "/2"));
        for style in ToolStyle::ALL {
            for calls in [Calls::Auto, Calls::Required, Calls::Function("now".into())] {
                for single in [false, true] {
                    let choice = ToolChoice { calls: calls.clone(), single };
                    let made = tools.constraint(style, &choice, Policy::default());
                    made.unwrap_or_else(|e| panic!("{style:?} {choice:?}: {e}"));
                }
            }
        }
    }

    #[test]
    fn tokenizers_may_have_the_tags_as_special_tokens() {
        let tools = Tools::parse(LIST).unwrap();
        let made = tools.constraint(ToolStyle::Kimi, &ToolChoice::default(), Policy::default()).unwrap();
        for mark in ["<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"] {
            assert!(made.ir().marks.iter().any(|text| text.contains(mark)), "{mark}");
        }
        let made = tools.constraint(ToolStyle::Harmony, &ToolChoice::default(), Policy::default()).unwrap();
        let marked = |mark: &str| made.ir().marks.iter().any(|text| text.contains(mark));
        for mark in ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>"] {
            assert!(marked(mark), "{mark}");
        }
        // They end the generation.
        assert!(!marked("<|call|>") && !marked("<|return|>"));
    }

    #[test]
    fn arguments_are_objects() {
        for (schema, expected) in [
            ("true", r#"{"type":"object"}"#),
            ("{}", r#"{"type":"object"}"#),
            ("{ \"minProperties\": 1e0 }", r#"{"type":"object","minProperties": 1e0 }"#),
            (r#"{"type": ["object"]}"#, r#"{"type": ["object"]}"#),
            (r##"{"$ref": "#/a"}"##, r##"{"$ref": "#/a"}"##),
            ("false", "false"),
        ] {
            assert_eq!(arguments(schema), expected);
        }
    }

    #[test]
    fn faults_have_a_place() {
        let refused = |list: &str, kind, pointer: Option<&str>, message: &str| {
            let tools = Tools::parse(list);
            let made =
                tools.and_then(|t| t.constraint(ToolStyle::Kimi, &ToolChoice::default(), Policy::default()));
            let error = made.map(drop).expect_err(list);
            assert_eq!((error.kind(), error.pointer()), (kind, pointer), "{error}");
            assert!(error.message().contains(message), "{error}");
        };
        refused("[", ErrorKind::InvalidJson, None, "EOF");
        refused("[]", ErrorKind::InvalidSchema, None, "a list of 0 tools");
        refused("[1]", ErrorKind::InvalidSchema, Some("/0"), "not a tool");
        refused("[{}]", ErrorKind::InvalidSchema, Some("/0"), "lacks its `name`");
        refused(r#"[{"name": "a"}, {"name": "a"}]"#, ErrorKind::InvalidSchema, Some("/1"), "two tools");
        refused(r#"[{"name": "a b"}]"#, ErrorKind::Unsupported, Some("/0/name"), "\"a b\"");
        refused(r#"[{"type": "web_search"}]"#, ErrorKind::Unsupported, Some("/0/type"), "`web_search`");
        let list = r#"[{"name": "a"}, {"function": {"name": "b", "parameters": {"properties": {"x": {"type": "strin"}}}}}]"#;
        refused(list, ErrorKind::InvalidSchema, Some("/1/function/parameters/properties/x/type"), "strin");
        let tools = Tools::parse(LIST).unwrap();
        let choice = ToolChoice { calls: Calls::Function("sub".into()), single: false };
        let error = tools.constraint(ToolStyle::Llama, &choice, Policy::default()).unwrap_err();
        assert!(error.hint_text().unwrap().contains("add, get.it, now"), "{error}");
        let list =
            r#"[{"name": "a"}, {"name": "b", "parameters": {"properties": {"x": {"format": "odd"}}}}]"#;
        let made =
            Tools::parse(list).unwrap().constraint(ToolStyle::Glm, &ToolChoice::default(), Policy::default());
        assert!(made.unwrap().warnings()[0].pointer().unwrap().starts_with("/1/parameters/properties/x"));
    }
}
