//! `/v1/responses`: the input, a list of items, becomes the same conversation as that of a chat.
//!
//! Nothing is kept between requests: a client sends the whole conversation each time.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::api_error::{ApiError, ApiResult, json_response};
use super::app::App;
use super::completion_fields::read_stream_options;
use super::fields::Fields;
use super::format::{read_format, read_response_format};
use super::messages::{add_message, add_text, content_text};
use super::options::{read_nested_reasoning, read_options};
use super::request::{ChatInput, GenerationRequest, PromptInput};
use super::response_events::ItemWriter;
use super::response_object::ResponseObject;
use super::running::Running;
use super::stream;
use super::tool_fields::read_tools;
use ffwd_runtime::sample::SamplingParams;

/// Members of the answer that repeat those of the request.
const REPEATED: [&str; 9] = [
    "instructions",
    "max_output_tokens",
    "metadata",
    "parallel_tool_calls",
    "temperature",
    "text",
    "tool_choice",
    "tools",
    "top_p",
];

/// A request with what only this protocol has.
struct ResponsesRequest {
    generation: GenerationRequest,
    stream: bool,
    /// The members that the answer repeats.
    repeated: Value,
}

pub(super) async fn responses(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let ResponsesRequest { generation, stream, repeated } = app.read(body, read).await?;
    let (model, mut prepared) = app.prepare(generation, stream, deadline).await?;
    let running = Running::start(&model, &mut prepared, deadline)?;
    let format = prepared.reply.clone();
    let object = ResponseObject::new(model, prepared, repeated);
    if stream {
        return stream::respond(app, running, &format, 1, ItemWriter::new(object)).await;
    }
    let outputs = running.outputs(&app.metrics).await?;
    let Some(output) = outputs.first() else {
        return Err(ApiError::field("", "there is no answer"));
    };
    let items = object.items(&format, output);
    Ok(json_response(&object.finished(&items, output)))
}

/// Reads the body.
fn read(fields: &mut Fields, defaults: &SamplingParams) -> ApiResult<ResponsesRequest> {
    let repeated = repeated(fields);
    let mut warnings = Vec::new();
    let chat = read_input(fields)?;
    fields.refuse("n", &["1"], "an answer of this endpoint is one")?;
    let mut request = read_options(fields, PromptInput::Chat(chat), defaults)?;
    let mut first = None;
    if let Some(mut text) = fields.object("text")? {
        let format = text.object("format")?;
        first = format.map(|format| read_response_format(format, "schema")).transpose()?.flatten();
        if text.text("verbosity")?.is_some_and(|verbosity| verbosity != "medium") {
            warnings.push("`text.verbosity` has no effect: write it in the input".to_owned());
        }
        text.finish()?;
    }
    request.format = read_format(fields, first)?;
    request.tools = read_tools(fields, &mut warnings)?;
    request.reasoning = read_nested_reasoning(fields, &mut warnings)?;
    request.max_tokens = fields.limit(&["max_output_tokens", "max_tokens"])?;
    let stream = fields.flag("stream")?.unwrap_or(false);
    read_stream_options(fields, &mut warnings)?;
    read_state(fields)?;
    request.warnings.extend(warnings);
    Ok(ResponsesRequest { generation: request, stream, repeated })
}

/// Refuses what needs state or other services.
fn read_state(fields: &mut Fields) -> ApiResult<()> {
    let stateless = "nothing is kept between requests; send the whole conversation in `input`";
    fields.refuse("previous_response_id", &[], stateless)?;
    fields.refuse("conversation", &[], stateless)?;
    fields.refuse("background", &["false"], "wait for the answer, or use `stream`")?;
    fields.refuse("prompt", &[], "there are no stored prompts; send `input`")?;
    Ok(())
}

/// Returns the members that the answer repeats.
fn repeated(fields: &Fields) -> Value {
    let value = |name: &str| serde_json::from_str::<Value>(fields.text_of(name)?).ok();
    let of = |name: &&str| Some(((*name).to_owned(), value(name)?));
    Value::Object(REPEATED.iter().filter_map(of).collect())
}

fn read_input(fields: &mut Fields) -> ApiResult<ChatInput> {
    let mut chat = ChatInput::default();
    if let Some(instructions) = fields.text("instructions")? {
        add_text(&mut chat, "system", instructions, "instructions")?;
    }
    let input = fields.needed("input")?;
    if let Ok(text) = serde_json::from_str::<String>(input.get()) {
        add_text(&mut chat, "user", text, "input")?;
        return Ok(chat);
    }
    let items: Vec<&RawValue> = serde_json::from_str(input.get())
        .map_err(|_| ApiError::field("input", "`input` must be a string or a list of items"))?;
    for (i, item) in items.into_iter().enumerate() {
        add_item(&mut chat, item, format!("input[{i}]"))?;
    }
    if chat.messages.is_empty() {
        return Err(ApiError::field("input", "`input` is empty"));
    }
    Ok(chat)
}

fn add_item(chat: &mut ChatInput, item: &RawValue, path: String) -> ApiResult<()> {
    let mut fields = Fields::item(item, path.clone())?;
    let kind = fields.text("type")?.unwrap_or_else(|| "message".to_owned());
    match kind.as_str() {
        "message" => {
            let role = fields.needed_text("role")?;
            let content_path = fields.path_of("content");
            let content = fields.needed("content")?;
            let content = content_text(content, &content_path)?;
            let role = if role == "developer" { "system" } else { role.as_str() };
            add_text(chat, role, content, &path)
        }
        "function_call" | "custom_tool_call" => {
            let is_function = kind == "function_call";
            let name = fields.needed_text("name")?;
            let id = fields.text("call_id")?;
            let arguments = match is_function {
                true => fields.value::<Value>("arguments", "JSON")?.unwrap_or_default(),
                false => json!({"input": fields.text("input")?.unwrap_or_default()}),
            };
            let call =
                json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
            let message = json!({"role": "assistant", "content": "", "tool_calls": [call]});
            add_message(chat, message, &path)
        }
        "function_call_output" | "custom_tool_call_output" => {
            let id = fields.text("call_id")?;
            let output_path = fields.path_of("output");
            let output = fields.needed("output")?;
            let content = content_text(output, &output_path)?;
            add_message(chat, json!({"role": "tool", "content": content, "tool_call_id": id}), &path)
        }
        _ if is_foreign(&kind) => {
            let note = format!("`input`: items `{kind}` are left out: the model does not see them");
            if !chat.warnings.contains(&note) {
                chat.warnings.push(note);
            }
            Ok(())
        }
        _ => {
            let why = format!("items of the type {kind:?} are not known here");
            Err(ApiError::unsupported(format!("{path}.type"), &why))
        }
    }
}

/// Returns true for items that are no texts and no calls of functions: earlier thinking, and the traces
/// of tools that run elsewhere.
fn is_foreign(kind: &str) -> bool {
    let ends = ["_call", "_call_output", "_list_tools", "_approval_request", "_approval_response"];
    kind == "reasoning" || kind.starts_with("compaction") || ends.iter().any(|end| kind.ends_with(end))
}
