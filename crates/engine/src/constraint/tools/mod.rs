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

mod fallback_calls;
mod harmony;
mod list;
mod mistyped_enum;
mod parse_reply;
mod python_literal;
mod reply;
mod style;
mod tool;

pub use reply::{Calls, Reply, StrayCall, ToolCall, ToolChoice};
pub use style::ToolStyle;

use std::sync::Arc;

use serde_json::{Value, json};

use self::style::{Arguments, CallSyntax};
use self::tool::Tool;
use super::ir::{NodeId, ToolSchema};
use super::policy::Policy;
use super::{Constraint, structural_tag};
use crate::error::{Error, ErrorKind, Place, Result};
use crate::warning::Warning;

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
    warnings: Arc<[Warning]>,
    /// True if tools that cannot be used are left out.
    skipping: bool,
}

impl Tools {
    /// Parses a list of functions: a JSON array, an object with the array in `tools`, or one
    /// function. A function is `{"type": "function", "function": {"name", "parameters"}}` as in chat
    /// completions, or flat, with `parameters`, `input_schema` or `inputSchema`. Without a schema, a
    /// function takes no arguments. Descriptions and the like only matter for the prompt; members
    /// that are not known are [warnings](Self::warnings).
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::constraint::tools::Tools;
    ///
    /// let tools = Tools::parse(r#"{"tools": [{"name": "fetch", "inputSchema": {"type": "object",
    ///     "properties": {"url": {"type": "string"}}, "required": ["url"]}}]}"#)?;
    /// assert!(tools.warnings().is_empty());
    /// let misspelt = Tools::parse(r#"[{"name": "fetch", "paramters": {"type": "object"}}]"#)?;
    /// assert!(misspelt.warnings()[0].message().contains("did you mean `parameters`?"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidJson` if the text is not JSON. The other errors have the pointer of the function:
    /// `InvalidSchema` for one without a name or with the name of another. `Unsupported` for entries
    /// that are not functions and for names that cannot be written.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Self::of(list::read(text, false)?))
    }

    /// Parses a list as [`parse`](Self::parse) does, and leaves out every tool that cannot be used:
    /// one that is no function, or whose schema is refused in this style under this policy. A
    /// [warning](Self::warnings) names each. A schema may turn out to allow nothing only when the
    /// constraint is compiled; the warning is then one of the compiled grammar.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::Policy;
    /// use ffwd_engine::constraint::tools::{ToolStyle, Tools};
    ///
    /// let list = r##"[{"name": "now"}, {"name": "odd", "parameters": {"$ref": "#/nowhere"}}]"##;
    /// let tools = Tools::parse_skipping_broken(list, ToolStyle::Hermes, &Policy::default())?;
    /// assert_eq!(tools.names().collect::<Vec<_>>(), ["now"]);
    /// assert!(tools.warnings()[0].message().contains("the tool `odd`"));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// `InvalidJson` if the text is not JSON, `InvalidSchema` if it is no list of tools. The error of
    /// the first tool, if none can be used.
    pub fn parse_skipping_broken(text: &str, style: ToolStyle, policy: &Policy) -> Result<Self> {
        let all = Self::of(list::read(text, true)?);
        let (mut tools, mut warnings) = (Vec::new(), all.warnings.to_vec());
        let mut first = None;
        for tool in all.list.iter() {
            let alone = Tools { list: [tool.clone()].into(), warnings: [].into(), skipping: true };
            match alone.constraint(style, &ToolChoice::default(), policy.clone()) {
                Ok(_) => tools.push(tool.clone()),
                Err(error) => {
                    warnings.push(tool::left_out(&error, &tool.pointer));
                    first = first.or(Some(error));
                }
            }
        }
        match first {
            Some(error) if tools.is_empty() => Err(error),
            _ => Ok(Tools { list: tools.into(), warnings: warnings.into(), skipping: true }),
        }
    }

    fn of(list: list::List) -> Self {
        Tools { list: list.tools.into(), warnings: list.warnings.into(), skipping: false }
    }

    /// Returns what the author of the list may not expect: members that are not known, and tools
    /// that are left out. The constraint has these warnings, too.
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// Returns the tools as chat templates expect them: `{"type": "function", "function": {"name",
    /// "description", "parameters"}}`. An entry in that form is returned as it is.
    pub fn for_prompt(&self) -> Vec<Value> {
        self.list.iter().map(list::for_prompt).collect()
    }

    /// Returns the names, in the order of the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.list.iter().map(|tool| &*tool.name)
    }

    /// Returns the calls in other spellings that a reply of this style may have with [`Calls::Auto`],
    /// such as JSON in a code fence: those that count anywhere, and those that count at the beginning or
    /// behind another call.
    pub fn stray_calls(&self, style: ToolStyle) -> [Vec<StrayCall>; 2] {
        style.stray_spellings(self.list.len()).map(|spellings| {
            let call = |spelling: &CallSyntax, tool: &Tool| StrayCall {
                name: tool.name.clone(),
                begin: begin(spelling, tool),
                end: spelling.end,
            };
            let calls = spellings.iter().flat_map(|own| self.list.iter().map(move |tool| call(own, tool)));
            calls.collect()
        })
    }

    /// Returns the constraint on a reply.
    ///
    /// # Errors
    /// The errors of a JSON schema ([`Constraint::json_schema`]), each with a pointer into the list
    /// of tools. `InvalidOption` if the choice names a function that is not in the list. Compiling the
    /// constraint returns `Unsatisfiable` with the name of a tool whose schema allows nothing.
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
        let format = format(style, &chosen, choice);
        let places = places(&format, &chosen);
        let document = json!({"type": "structural_tag", "format": format}).to_string();
        let parsed = structural_tag::parse(&document, &policy, None);
        let (mut ir, _, schemas) = parsed.map_err(|e| moved(e, &places))?;
        let tool_schema = |(pointer, node): (String, NodeId)| {
            let place = found(&places, &pointer)?;
            let (name, pointer) = (place.name.to_owned(), place.to.to_owned());
            Some(ToolSchema { node, name, pointer, skipped: self.skipping })
        };
        ir.tools = schemas.into_iter().filter_map(tool_schema).collect();
        for warning in &mut ir.warnings {
            if let Some((place, rest)) = warning.pointer().and_then(|at| Some((found(&places, at)?, at))) {
                let to = format!("{}{}", place.to, &rest[place.from.len()..]);
                *warning = warning.clone().at(to);
            }
        }
        ir.warnings.splice(..0, self.warnings.iter().cloned());
        Ok(Constraint::from_ir(ir, policy))
    }

    /// Parses the calls in a reply that satisfies the constraint.
    ///
    /// # Errors
    /// `InvalidReply` with the byte at which a call breaks off or is not written in the style.
    pub fn read(&self, style: ToolStyle, reply: &str) -> Result<Reply> {
        let (reply, end) = self.read_to_end(style, reply);
        end.map(|()| reply)
    }

    /// Parses a reply that a limit may have cut: its whole calls and the text before them. What there
    /// is of a call that was cut is left out.
    ///
    /// ```
    /// # fn main() -> ffwd_engine::Result<()> {
    /// use ffwd_engine::constraint::tools::{ToolStyle, Tools};
    ///
    /// let tools = Tools::parse(r#"[{"name": "add", "parameters": {"type": "object"}}]"#)?;
    /// let reply = tools.read_beginning(ToolStyle::MistralArgs, "Well. [TOOL_CALLS]add[ARGS]{}[TOOL_CALLS]ad");
    /// assert_eq!((reply.text.as_str(), reply.calls.len()), ("Well. ", 1));
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_beginning(&self, style: ToolStyle, reply: &str) -> Reply {
        self.read_to_end(style, reply).0
    }

    fn read_to_end(&self, style: ToolStyle, reply: &str) -> (Reply, Result<()>) {
        let spellings = style.spellings();
        let mut reader = parse_reply::Reader::new(&self.list, &spellings, reply);
        let end = match spellings[0].messages {
            true => harmony::read(&mut reader),
            false => parse_reply::read(&mut reader, &style.stray_spellings(self.list.len())),
        };
        (reader.out, end)
    }

    /// Returns true if a reply that begins like this may be a call in another spelling than that of the
    /// style ([`read_other`](Self::read_other)), or may become one. White space before it does not
    /// count.
    pub fn other_may_begin(&self, reply: &str) -> bool {
        let text = reply.trim_start();
        let begins =
            |style: &ToolStyle| text.starts_with(style.trigger()) || style.trigger().starts_with(text);
        fallback_calls::may_begin(self.names(), text) || ToolStyle::ALL.iter().any(begins)
    }

    /// Parses the calls that fit in a reply, whatever their spelling.
    pub(crate) fn read_fitting(&self, reply: &str, fits: &impl Fn(&ToolCall) -> bool) -> Option<Reply> {
        let styled = |style: &ToolStyle| {
            let reply = self.read(*style, reply).ok()?;
            (!reply.calls.is_empty() && reply.calls.iter().all(fits)).then_some(reply)
        };
        ToolStyle::ALL.iter().find_map(styled).or_else(|| fallback_calls::read(fits, reply))
    }

    pub(crate) fn schema(&self, name: &str) -> Option<&str> {
        self.list.iter().find(|tool| tool.name == name).map(|tool| &*tool.schema)
    }
}

/// Returns the structural-tag format of a reply.
fn format(style: ToolStyle, tools: &[&Tool], choice: &ToolChoice) -> Value {
    let spellings = style.spellings();
    let single = choice.single || matches!(choice.calls, Calls::Function(_));
    let usual = &spellings[0];
    let tags = |spelling: &CallSyntax| -> Vec<Value> {
        let fits = |tool: &&&Tool| spelling.arguments != Arguments::None || tool.needs_nothing();
        tools.iter().filter(fits).map(|tool| tag(spelling, tool)).collect()
    };
    let some = |tags: Vec<Value>, separator: &str, single: bool| {
        json!({"type": "tags_with_separator", "tags": tags, "separator": separator,
            "at_least_one": true, "stop_after_first": single})
    };
    if usual.messages {
        return harmony::format(spellings.iter().flat_map(tags).collect(), &choice.calls);
    }
    // Spellings with the same texts around all calls are mixed.
    let (mut whole, mut last, mut rest) = (Vec::new(), single, &spellings[..]);
    while let [first, ..] = rest {
        let same = rest.iter().take_while(|spelling| spelling.section == first.section).count();
        let calls: Vec<Value> = rest[..same].iter().flat_map(tags).collect();
        match first.section {
            None => whole.extend(calls),
            Some([begin, end]) => {
                whole
                    .push(json!({"begin": begin, "content": some(calls, first.between, single), "end": end}));
                // No call can follow a section, so the text ends there.
                last = true;
            }
        }
        rest = &rest[same..];
    }
    match choice.calls {
        Calls::Auto => {
            let [anywhere, at_start] = style.stray_spellings(tools.len());
            whole.extend(anywhere.iter().chain(&at_start).flat_map(tags));
            // Text with the name of no tool stays text.
            let begins = |spellings: &[CallSyntax]| -> Vec<String> {
                let begin = |spelling: &CallSyntax| tools.iter().map(|tool| begin(spelling, tool)).collect();
                spellings.iter().flat_map::<Vec<String>, _>(begin).collect()
            };
            let triggers = [vec![usual.trigger().to_owned()], begins(&anywhere)].concat();
            json!({"type": "triggered_tags", "triggers": triggers, "tags": whole,
                "start_triggers": begins(&at_start), "stop_after_first": last})
        }
        _ => some(whole, usual.between, last),
    }
}

fn tag(spelling: &CallSyntax, tool: &Tool) -> Value {
    let style = |style: &str| json!({"type": "json_schema", "json_schema": tool.schema, "style": style});
    let after = |pattern: &str, between: &str| {
        json!({"type": "sequence", "elements": [
            {"type": "regex", "pattern": pattern}, {"type": "const_string", "value": between}, style("json")]})
    };
    let content = match spelling.arguments {
        Arguments::Json => style("json"),
        Arguments::Parameters(name) => style(name),
        Arguments::Numbered(between) => after("0|[1-9][0-9]{0,3}", between),
        Arguments::Identified(between) => after("[0-9A-Za-z_-]{1,40}", between),
        Arguments::None => json!({"type": "const_string", "value": ""}),
    };
    json!({"begin": begin(spelling, tool), "content": content, "end": spelling.end})
}

/// Returns the text of a call before its arguments.
fn begin(spelling: &CallSyntax, tool: &Tool) -> String {
    format!("{}{}{}", spelling.name[0], tool.name, spelling.name[1])
}

/// The pointer of a schema in a format, and in the list of tools.
struct SchemaPlace<'a> {
    from: String,
    to: &'a str,
    name: &'a str,
}

/// Pairs the pointer of each schema in a format with its pointer in the list of tools.
fn places<'a>(format: &Value, tools: &[&'a Tool]) -> Vec<SchemaPlace<'a>> {
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
    // Each tool has one in each spelling with arguments, in their order.
    let pairs = found.into_iter().zip(tools.iter().cycle());
    pairs.map(|(from, tool)| SchemaPlace { from, to: &tool.pointer, name: &tool.name }).collect()
}

/// Returns the schema that a pointer into the format leads to. A longer number is another location.
fn found<'p, 'a>(places: &'p [SchemaPlace<'a>], pointer: &str) -> Option<&'p SchemaPlace<'a>> {
    let within = |rest: &str| rest.is_empty() || rest.starts_with('/');
    places.iter().find(|place| pointer.strip_prefix(place.from.as_str()).is_some_and(within))
}

/// Converts an error of the structural tag into one of the list of tools, which names the tool.
fn moved(mut error: Error, places: &[SchemaPlace<'_>]) -> Error {
    let tool = error.places().iter().find_map(|place| match place {
        Place::Pointer(inner) => found(places, inner),
        _ => None,
    });
    let Some(tool) = tool else { return error };
    for place in error.places_mut() {
        if let Place::Pointer(inner) = place
            && let Some(rest) = inner.strip_prefix(&tool.from)
        {
            *inner = format!("{}{rest}", tool.to);
        }
    }
    let message = format!("the tool `{}`: {}", tool.name, error.message());
    error.reworded(message)
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
        assert_eq!(schemas[1].0, r#"{"type":"object","properties":{"b":{"type":"string"}}}"#);
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
    fn an_unknown_choice_has_a_hint() {
        let tools = Tools::parse(LIST).unwrap();
        let choice = ToolChoice { calls: Calls::Function("sub".into()), single: false };
        let error = tools.constraint(ToolStyle::Llama, &choice, Policy::default()).unwrap_err();
        assert!(error.hint_text().unwrap().contains("add, get.it, now"), "{error}");
    }
}
