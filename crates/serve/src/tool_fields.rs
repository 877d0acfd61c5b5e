//! Fields about tools: `tools`, `tool_choice` and `parallel_tool_calls`, in the forms of both APIs.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api_error::{ApiError, ApiResult};
use super::fields::Fields;
use super::request::{CustomInput, CustomTool, ToolRequest};
use ffwd_runtime::constraint::tools::{Calls, Tools};

/// Reads the fields.
pub(super) fn read_tools(fields: &mut Fields, warnings: &mut Vec<String>) -> ApiResult<Option<ToolRequest>> {
    let parallel = fields.flag("parallel_tool_calls")?;
    fields.refuse("functions", &["[]"], "use `tools`")?;
    fields.refuse("function_call", &["\"none\"", "\"auto\""], "use `tool_choice`")?;
    let mut list = fields.list("tools")?.unwrap_or_default();
    list.retain(|(tool, path)| match foreign_kind(tool) {
        None => true,
        Some(kind) => {
            warnings.push(format!("`{path}` is left out: tools of the type `{kind}` do not run here"));
            false
        }
    });
    let choice_path = fields.path_of("tool_choice");
    let choice = fields.raw("tool_choice");
    if list.is_empty() {
        let asks = choice.is_some_and(|choice| !["\"none\"", "\"auto\""].contains(&choice.get()));
        return match asks {
            true => {
                let message = "`tool_choice` needs `tools`";
                Err(ApiError::field(choice_path, message))
            }
            false => Ok(None),
        };
    }
    let texts = list.iter().map(|(tool, _)| tool.get()).collect::<Vec<_>>().join(",");
    let mut tools = ToolRequest {
        functions: None,
        custom: Vec::new(),
        shown: Vec::new(),
        calls: Some(Calls::Auto),
        single: parallel == Some(false),
        key: format!("{parallel:?} {:?}\n{texts}", choice.map(RawValue::get)),
    };
    let mut functions = Vec::new();
    for (tool, path) in list {
        match custom_tool(tool, &path)? {
            Some((custom, shown)) => {
                tools.custom.push(custom);
                tools.shown.push(shown);
            }
            None => functions.push((tool, path)),
        }
    }
    let allowed = match choice {
        Some(choice) => read_choice(choice, &choice_path, &mut tools)?,
        None => None,
    };
    add_functions(&mut tools, &functions)?;
    if let Some(allowed) = allowed {
        keep_allowed(&mut tools, &functions, &allowed, &choice_path)?;
    }
    check_named(&tools, &choice_path)?;
    Ok(Some(tools))
}

/// Parses the functions together.
fn add_functions(tools: &mut ToolRequest, functions: &[(&RawValue, String)]) -> ApiResult<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let parsed = parse(functions.iter().map(|(tool, _)| tool.get()))?;
    tools.shown.splice(..0, parsed.for_prompt());
    tools.functions = Some(parsed);
    Ok(())
}

fn parse<'t>(tools: impl Iterator<Item = &'t str>) -> ApiResult<Tools> {
    let text = format!("[{}]", tools.collect::<Vec<_>>().join(","));
    Tools::parse(&text).map_err(|error| ApiError::of(&error, "tools"))
}

/// Leaves out the tools that must not be called; the model still sees them.
fn keep_allowed(
    tools: &mut ToolRequest,
    functions: &[(&RawValue, String)],
    allowed: &[String],
    param: &str,
) -> ApiResult<()> {
    let names: Vec<String> = tools.functions.iter().flat_map(Tools::names).map(str::to_owned).collect();
    let known = |name: &String| names.contains(name) || tools.custom.iter().any(|tool| tool.name == *name);
    if let Some(unknown) = allowed.iter().find(|name| !known(name)) {
        return Err(no_tool(unknown, param));
    }
    let kept: Vec<&str> = functions
        .iter()
        .zip(&names)
        .filter(|(_, name)| allowed.contains(name))
        .map(|((tool, _), _)| tool.get())
        .collect();
    tools.functions = if kept.is_empty() { None } else { Some(parse(kept.into_iter())?) };
    tools.custom.retain(|tool| allowed.contains(&tool.name));
    Ok(())
}

/// Checks that a named tool exists, and leaves out the custom tools that are not named.
fn check_named(tools: &ToolRequest, param: &str) -> ApiResult<()> {
    let Some(Calls::Function(name)) = &tools.calls else { return Ok(()) };
    let mut names = tools.functions.iter().flat_map(Tools::names);
    match names.any(|known| known == name) || tools.custom.iter().any(|tool| tool.name == *name) {
        true => Ok(()),
        false => Err(no_tool(name, param)),
    }
}

fn no_tool(name: &str, param: &str) -> Box<ApiError> {
    let message = format!("`{param}` names the tool {name:?}, which is not in `tools`");
    ApiError::field(param, message)
}

/// Returns the type of a tool that is neither a function nor a custom tool: it runs at the service that
/// has it.
fn foreign_kind(tool: &RawValue) -> Option<String> {
    let tool: Value = serde_json::from_str(tool.get()).ok()?;
    let kind = tool.get("type")?.as_str()?;
    (!["function", "custom"].contains(&kind)).then(|| kind.to_owned())
}

/// Reads a tool that takes text; returns it with its form in the prompt.
fn custom_tool(tool: &RawValue, path: &str) -> ApiResult<Option<(CustomTool, Value)>> {
    let mut fields = Fields::item(tool, path.to_owned())?;
    if fields.text("type")?.as_deref() != Some("custom") {
        return Ok(None);
    }
    // Chat completions have an object, the Responses API has the members in the tool itself.
    let mut own = fields.inner("custom")?;
    let name_path = own.path_of("name");
    let name = own.needed_text("name")?;
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c)) {
        let message = format!("`{name_path}` must be letters, digits, `_`, `-` and `.`, not {name:?}");
        return Err(ApiError::field(name_path, message));
    }
    let description = own.text("description")?.unwrap_or_default();
    let param = own.path_of("format");
    let input = match own.object("format")? {
        Some(format) => custom_input(format)?,
        None => CustomInput::Text,
    };
    for other in ["strict", "defer_loading", "allowed_callers", "cache_control"] {
        own.raw(other);
    }
    own.finish()?;
    let [open, close] = custom_tags(&name);
    let description = format!("{description}\nTo call it, write {open}INPUT{close}").trim().to_owned();
    let shown = json!({"type": "function", "function": {
        "name": name, "description": description, "parameters": {"type": "object", "properties": {}}}});
    Ok(Some((CustomTool { name, input, param }, shown)))
}

fn custom_input(mut format: Fields) -> ApiResult<CustomInput> {
    let kind_path = format.path_of("type");
    match format.needed_text("type")?.as_str() {
        "text" => {
            format.finish()?;
            return Ok(CustomInput::Text);
        }
        "grammar" => {}
        other => return Err(ApiError::unknown(&kind_path, other, "text and grammar")),
    }
    let mut grammar = format.inner("grammar")?;
    let syntax_path = grammar.path_of("syntax");
    let syntax = grammar.needed_text("syntax")?;
    let definition = grammar.needed_text("definition")?;
    grammar.finish()?;
    match syntax.as_str() {
        "lark" => Ok(CustomInput::Lark(definition)),
        "regex" => Ok(CustomInput::Regex(definition)),
        _ => Err(ApiError::unknown(&syntax_path, &syntax, "lark and regex")),
    }
}

/// Returns the texts around the input of a custom tool.
pub(super) fn custom_tags(name: &str) -> [String; 2] {
    [format!("<custom_tool_call name=\"{name}\">\n"), "\n</custom_tool_call>".to_owned()]
}

/// Reads `tool_choice`; returns the names of the tools that it allows, if it names several.
fn read_choice(choice: &RawValue, path: &str, tools: &mut ToolRequest) -> ApiResult<Option<Vec<String>>> {
    if let Ok(word) = serde_json::from_str::<String>(choice.get()) {
        tools.calls = mode(&word, path)?;
        return Ok(None);
    }
    let mut fields = Fields::item(choice, path.to_owned())?;
    let kind_path = fields.path_of("type");
    let kind = fields.needed_text("type")?;
    match kind.as_str() {
        // The last one is the form of Anthropic's API, as are the words below.
        "function" | "custom" | "tool" => {
            tools.calls = Some(Calls::Function(named(fields, &kind)?));
            Ok(None)
        }
        "allowed_tools" => {
            let mut own = fields.inner("allowed_tools")?;
            let mode_path = own.path_of("mode");
            tools.calls = mode(&own.text("mode")?.unwrap_or_else(|| "auto".to_owned()), &mode_path)?;
            let list_path = own.path_of("tools");
            let list = own.list("tools")?.ok_or_else(|| ApiError::missing(&list_path))?;
            own.finish()?;
            let name = |(tool, path)| {
                let mut tool = Fields::item(tool, path)?;
                let kind = tool.text("type")?.unwrap_or_default();
                named(tool, &kind)
            };
            let own = list.into_iter().filter(|(tool, _)| foreign_kind(tool).is_none());
            own.map(name).collect::<ApiResult<Vec<String>>>().map(Some)
        }
        "auto" | "any" | "none" | "required" => {
            tools.calls = mode(&kind, path)?;
            fields.finish().map(|()| None)
        }
        _ => Err(ApiError::unknown(&kind_path, &kind, "function, custom and allowed_tools")),
    }
}

/// Returns the name of a tool of this kind.
fn named(fields: Fields, kind: &str) -> ApiResult<String> {
    let mut own = fields.inner(if kind == "custom" { "custom" } else { "function" })?;
    let name = own.needed_text("name")?;
    own.finish().map(|()| name)
}

fn mode(word: &str, path: &str) -> ApiResult<Option<Calls>> {
    match word {
        "none" => Ok(None),
        "auto" => Ok(Some(Calls::Auto)),
        "required" | "any" => Ok(Some(Calls::Required)),
        _ => Err(ApiError::unknown(path, word, "none, auto, required, or a tool")),
    }
}
