//! Parser of replies: finds the tool calls in a reply and the text around them.
//!
//! It makes one pass over the reply, by the texts of its style. In all but one style, values in
//! tags do not carry their type. Such a value is a string if its schema allows nothing else, and
//! JSON if it allows no string. If the schema allows both, it is JSON if it parses as JSON. Where a
//! string is not allowed, a literal of Python is read, too: some models write `True`.
//!
//! # Cost
//!
//! Linear in the reply.
//!
//! # Alternatives considered
//!
//! Asking the automaton which path it took was rejected: replies also come from logs, without their
//! constraint.

use std::cell::Cell;
use std::ops::BitOr;

use serde_json::Value;
use serde_json::value::RawValue;

use super::reply::{Reply, ToolCall};
use super::style::{Arguments, CallSyntax};
use super::tool::Tool;
use super::{fallback_calls, python_literal};
use crate::constraint::structural_tag::{self, Tags};
use crate::error::{Error, ErrorKind, Result};

/// Maximum nesting of references and alternatives that is followed for the type of a parameter.
const MAX_DEPTH: usize = 16;
/// Maximum number of schemas that are inspected for the type of a parameter.
const MAX_INSPECTED_SCHEMAS: u32 = 2000;

/// Parses a reply in a style whose calls are in tags.
pub(super) fn read(reader: &mut Reader<'_>, [anywhere, at_start]: &[Vec<CallSyntax>; 2]) -> Result<()> {
    let usual = reader.spellings[0];
    let reply = reader.reply;
    let places = anywhere
        .iter()
        .flat_map(|spelling| reply.match_indices(spelling.name[0]).map(move |(at, _)| (at, spelling)));
    let mut places: Vec<(usize, &CallSyntax)> = places.collect();
    places.sort_by_key(|place| place.0);
    let mut places = places.into_iter().peekable();
    loop {
        let own = reader.rest().find(usual.trigger()).map_or(reply.len(), |found| reader.at + found);
        let bare = at_start.iter().find(|spelling| reader.begins_call(reader.at, spelling));
        let mut stray = bare.map(|spelling| (reader.at, spelling));
        while let (None, Some(place)) = (stray, places.next_if(|place| place.0 < own)) {
            stray =
                Some(place).filter(|(at, spelling)| *at >= reader.at && reader.begins_call(*at, spelling));
        }
        let start = stray.map_or(own, |(at, _)| at);
        let before = &reply[reader.at..start];
        if reader.out.calls.is_empty() || (before != usual.between && !before.trim().is_empty()) {
            reader.out.text.push_str(before);
        }
        reader.at = start;
        match (stray, usual.section) {
            (Some((_, spelling)), _) => {
                let call = reader.call_in(spelling)?;
                reader.out.calls.push(call);
            }
            (None, _) if start == reply.len() => return Ok(()),
            (None, None) => reader.call()?,
            (None, Some([begin, end])) => {
                reader.expect_tag(begin)?;
                reader.call()?;
                while !reader.skip_tag(end) {
                    reader.expect_tag(usual.between)?;
                    reader.call()?;
                }
            }
        }
    }
}

/// A reply that is being read.
pub(super) struct Reader<'a> {
    pub tools: &'a [Tool],
    spellings: &'a [CallSyntax],
    reply: &'a str,
    /// Position of the next byte.
    pub at: usize,
    pub out: Reply,
}

impl<'a> Reader<'a> {
    pub(super) fn new(tools: &'a [Tool], spellings: &'a [CallSyntax], reply: &'a str) -> Self {
        Reader { tools, spellings, reply, at: 0, out: Reply::default() }
    }

    pub(super) fn rest(&self) -> &'a str {
        &self.reply[self.at..]
    }

    pub(super) fn fault(&self, what: &str) -> Error {
        let part = if self.spellings[0].messages { "message" } else { "call" };
        let message = match self.rest().is_empty() {
            true => format!("the reply breaks off in a {part}: {what} is missing"),
            false => format!("byte {} of the reply is not {what}", self.at),
        };
        Error::new(ErrorKind::InvalidReply, message).hint("only whole replies in this style can be read")
    }

    pub(super) fn expect(&mut self, text: &str) -> Result<()> {
        match self.skip(text) {
            true => Ok(()),
            false => Err(self.fault(&format!("{text:?}"))),
        }
    }

    /// Skips a text if it comes next; returns true if it did.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        let is_there = self.rest().starts_with(text);
        self.at += if is_there { text.len() } else { 0 };
        is_there
    }

    /// Skips a text between calls, in which white space may be missing or be added: what a template
    /// writes differs between versions of it.
    fn skip_tag(&mut self, text: &str) -> bool {
        let before = self.at;
        if self.skip(text) {
            return true;
        }
        for word in text.split_inclusive(|c: char| "]>,".contains(c)) {
            self.skip_white();
            if !self.skip(word.trim()) {
                self.at = before;
                return false;
            }
        }
        if text.ends_with(char::is_whitespace) {
            self.skip_white();
        }
        true
    }

    fn expect_tag(&mut self, text: &str) -> Result<()> {
        match self.skip_tag(text) {
            true => Ok(()),
            false => Err(self.fault(&format!("{text:?}"))),
        }
    }

    /// Reads a call in one of the spellings.
    fn call(&mut self) -> Result<()> {
        let start = self.at;
        let mut best: Option<(usize, Error)> = None;
        for spelling in self.spellings {
            match self.call_in(spelling) {
                Ok(call) => {
                    self.out.calls.push(call);
                    return Ok(());
                }
                Err(error) if best.as_ref().is_none_or(|best| best.0 < self.at) => {
                    best = Some((self.at, error));
                }
                Err(_) => {}
            }
            self.at = start;
        }
        match (self.json_call(), best) {
            (Some(call), _) => {
                self.out.calls.push(call);
                Ok(())
            }
            (None, Some((at, error))) => {
                self.at = at;
                Err(error)
            }
            (None, None) => Err(self.fault("a call")),
        }
    }

    /// Returns true if a call of a tool in this spelling begins at a byte.
    fn begins_call(&self, at: usize, spelling: &CallSyntax) -> bool {
        let [open, behind] = spelling.name;
        let named =
            |rest: &str, name: &str| rest.strip_prefix(name).is_some_and(|rest| rest.starts_with(behind));
        let rest = self.reply[at..].strip_prefix(open);
        rest.is_some_and(|rest| self.tools.iter().any(|tool| named(rest, &tool.name)))
    }

    fn call_in(&mut self, spelling: &CallSyntax) -> Result<ToolCall> {
        let [before, behind] = spelling.name;
        self.expect(before)?;
        let called =
            |tool: &&Tool| self.rest().strip_prefix(&*tool.name).is_some_and(|rest| rest.starts_with(behind));
        // If one name is a prefix of another, the longer one counts.
        let Some(tool) = self.tools.iter().filter(called).max_by_key(|tool| tool.name.len()) else {
            return Err(self.fault("the name of a tool"));
        };
        self.at += tool.name.len() + behind.len();
        let arguments = match spelling.arguments {
            Arguments::Json => self.json()?.to_owned(),
            Arguments::Numbered(between) | Arguments::Identified(between) => {
                let word = |b: &u8| b.is_ascii_alphanumeric() || b"_-".contains(b);
                self.at += self.rest().bytes().take_while(word).count();
                self.expect(between)?;
                self.json()?.to_owned()
            }
            Arguments::None => "{}".to_owned(),
            Arguments::Parameters("python") => {
                let read = python_literal::arguments(self.rest());
                let (arguments, length) = read.ok_or_else(|| self.fault("arguments in Python"))?;
                self.at += length;
                arguments
            }
            Arguments::Parameters(style) => {
                let Some(tags) = structural_tag::tags(style) else { return Err(self.fault("known")) };
                self.parameters(tool, style, tags)?
            }
        };
        if matches!(spelling.arguments, Arguments::Parameters(_)) {
            self.skip_white();
            self.expect(spelling.end.trim_start())?;
        } else {
            self.expect(spelling.end)?;
        }
        Ok(ToolCall { name: tool.name.clone(), arguments })
    }

    /// Reads a call that is a JSON object, with any white space, order and further members. Returns
    /// `None` with nothing read if there is none, or if calls of the style are no objects.
    fn json_call(&mut self) -> Option<ToolCall> {
        let usual = &self.spellings[0];
        let before = usual.name[0].strip_suffix("{\"name\": \"")?;
        let start = self.at;
        let read = |reader: &mut Self| {
            reader.skip(before.trim_end()).then_some(())?;
            reader.skip_white();
            let value: Value = serde_json::from_str(reader.json().ok()?).ok()?;
            let call = fallback_calls::call(&value)?;
            reader.tools.iter().any(|tool| tool.name == call.name).then_some(())?;
            let end = usual.end.strip_prefix('}')?.trim_start();
            if !end.is_empty() {
                reader.skip_white();
                reader.skip(end).then_some(())?;
            }
            Some(call)
        };
        let call = read(self);
        if call.is_none() {
            self.at = start;
        }
        call
    }

    /// Reads a JSON value.
    pub(super) fn json(&mut self) -> Result<&'a str> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter::<&RawValue>();
        let Some(Ok(value)) = values.next() else { return Err(self.fault("JSON")) };
        self.at += values.byte_offset();
        Ok(value.get())
    }

    pub(super) fn skip_white(&mut self) {
        self.at = self.reply.len() - self.rest().trim_start_matches([' ', '\t', '\r', '\n']).len();
    }

    fn parameters(&mut self, tool: &Tool, style: &str, tags: Tags) -> Result<String> {
        let schema: Value = serde_json::from_str(&tool.schema).unwrap_or(Value::Bool(true));
        let mut out = String::from("{");
        loop {
            let before = self.at;
            self.skip_white();
            if !self.rest().starts_with(tags.open) {
                self.at = before;
                out.push('}');
                return Ok(out);
            }
            self.at += tags.open.len();
            let name = self.until(tags.named)?;
            let look = TypeInspector { root: &schema, left: Cell::new(MAX_INSPECTED_SCHEMAS) };
            let mut types = look.property(&schema, name, 0);
            if style.starts_with("deepseek_") {
                let string = self.until("\">")? == "true";
                types = if string { STRING } else { OTHER };
            }
            if style == "glm_xml" {
                self.skip_white();
                self.expect("<arg_value>")?;
            }
            let value = self.until(tags.close)?;
            if out.len() > 1 {
                out.push(',');
            }
            out.push_str(&Value::from(name).to_string());
            out.push(':');
            out.push_str(&to_json(value, types, style == "qwen_xml"));
        }
    }

    /// Reads up to a text and past it; returns the part before it.
    fn until(&mut self, text: &str) -> Result<&'a str> {
        let Some((before, _)) = self.rest().split_once(text) else {
            self.at = self.reply.len();
            return Err(self.fault(&format!("{text:?}")));
        };
        self.at += before.len() + text.len();
        Ok(before)
    }
}

/// Types that a value may have: some of [`STRING`] and [`OTHER`], as bits.
type Types = u8;

const STRING: Types = 1;
/// Any type but string.
const OTHER: Types = 2;

/// Converts a value of these types to JSON text. With `lines`, line breaks may surround the value.
fn to_json(text: &str, types: Types, lines: bool) -> String {
    let inner = text.trim_matches([' ', '\t', '\r', '\n']);
    let value = serde_json::from_str::<&RawValue>(inner).map(RawValue::get).unwrap_or_default();
    let other = !value.is_empty() && !value.starts_with('"');
    if other && types != STRING {
        return value.to_owned();
    }
    if types & STRING == 0
        && let Some(value) = python_literal::to_json(inner)
    {
        return value;
    }
    let text = if lines { text.strip_prefix('\n').unwrap_or(text) } else { text };
    let text = if lines { text.strip_suffix('\n').unwrap_or(text) } else { text };
    Value::from(text).to_string()
}

/// Inspects a schema for the types of its parameters.
struct TypeInspector<'a> {
    root: &'a Value,
    /// Number of schemas that may still be inspected. References to alternatives could continue
    /// without end.
    left: Cell<u32>,
}

impl TypeInspector<'_> {
    /// Returns the types that a schema permits for the property with this name.
    fn property(&self, schema: &Value, name: &str, depth: usize) -> Types {
        let declared = schema.get("properties").and_then(|p| p.get(name));
        let patterns = schema.get("patternProperties").is_some();
        let own = declared.or_else(|| schema.get("additionalProperties").filter(|_| !patterns));
        let types = own.map_or(STRING | OTHER, |own| self.value(own, depth + 1));
        types & self.applied_types(schema, depth, &|schema, depth| self.property(schema, name, depth))
    }

    /// Returns the types that a schema permits for a value.
    fn value(&self, schema: &Value, depth: usize) -> Types {
        if schema == &Value::Bool(false) {
            return 0;
        }
        let either = |is_string: bool| if is_string { STRING } else { OTHER };
        let named = |kind: &Value| either(kind == "string");
        let mut types = match schema.get("type") {
            Some(Value::Array(kinds)) => kinds.iter().map(named).fold(0, Types::bitor),
            Some(kind) => named(kind),
            None => STRING | OTHER,
        };
        if let Some(values) = schema.get("enum").and_then(Value::as_array) {
            types &= values.iter().map(|value| either(value.is_string())).fold(0, Types::bitor);
        }
        if let Some(value) = schema.get("const") {
            types &= either(value.is_string());
        }
        types & self.applied_types(schema, depth, &|schema, depth| self.value(schema, depth))
    }

    /// Returns the types that `of` permits in the schemas that apply together with this one.
    fn applied_types(&self, schema: &Value, depth: usize, of: &dyn Fn(&Value, usize) -> Types) -> Types {
        let mut types = STRING | OTHER;
        let left = self.left.get();
        if depth >= MAX_DEPTH || left == 0 {
            return types;
        }
        self.left.set(left - 1);
        let list = |name: &str| schema.get(name).and_then(Value::as_array).into_iter().flatten();
        for also in list("allOf") {
            types &= of(also, depth + 1);
        }
        for name in ["anyOf", "oneOf"] {
            if schema.get(name).is_some() {
                types &= list(name).map(|way| of(way, depth + 1)).fold(0, Types::bitor);
            }
        }
        let local = schema.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix('#'));
        match local.and_then(|pointer| self.root.pointer(pointer)) {
            Some(also) => types & of(also, depth + 1),
            None => types,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn types_of_parameters() {
        let schema = json!({
            "properties": {"a": {"type": ["string", "null"]}, "b": {"$ref": "#/$defs/n"}, "c": {"enum": ["x"]}, "d": false},
            "additionalProperties": {"const": 1},
            "$defs": {"n": {"anyOf": [{"type": "integer"}, {"type": "array"}]}},
        });
        let look = |schema: &Value, name: &str| {
            let types = TypeInspector { root: schema, left: Cell::new(MAX_INSPECTED_SCHEMAS) }
                .property(schema, name, 0);
            (types & STRING != 0, types & OTHER != 0)
        };
        let all = [
            ("a", (true, true)),
            ("b", (false, true)),
            ("c", (true, false)),
            ("d", (false, false)),
            ("e", (false, true)),
        ];
        for (name, expected) in all {
            assert_eq!(look(&schema, name), expected, "{name}");
        }
        let outer = json!({"allOf": [schema], "oneOf": [{"properties": {"a": {"type": "string"}}}]});
        assert_eq!(look(&outer, "a"), (true, false));
        // Sixteen levels of twenty alternatives each.
        let ways: Vec<Value> = (0..20).map(|_| json!({"$ref": "#/$defs/x"})).collect();
        let endless = json!({"$ref": "#/$defs/x", "$defs": {"x": {"anyOf": ways}}});
        assert_eq!(look(&endless, "a"), (true, true));
    }
}
