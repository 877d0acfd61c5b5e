//! The package `async-openai`, unchanged, against `ffwd serve` with the embedded model.
//!
//! `tests/clients/check` starts the server and sets `FFWD_TEST_SERVER`.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::error::OpenAIError;
use async_openai::types::chat::{
    ChatCompletionMessageToolCalls, ChatCompletionRequestUserMessage, ChatCompletionTool,
    ChatCompletionToolChoiceOption, ChatCompletionTools, CreateChatCompletionRequest,
    CreateChatCompletionRequestArgs, FinishReason, FunctionObject, ResponseFormat, ResponseFormatJsonSchema,
    ToolChoiceOptions,
};
use async_openai::types::responses::{
    CreateResponseArgs, ResponseStreamEvent, ResponseTextParam, TextResponseFormatConfiguration,
};
use futures_util::StreamExt;
use serde_json::{Value, json};

const MODEL: &str = "extract-5m";
const TEXT: &str = "Invoice 4711 of Acme Ltd. Total: 12.50 EUR";

fn client() -> Client<OpenAIConfig> {
    let url = std::env::var("FFWD_TEST_SERVER").expect("run tests/clients/check");
    Client::with_config(OpenAIConfig::new().with_api_base(url).with_api_key("none"))
}

fn bill() -> ResponseFormatJsonSchema {
    ResponseFormatJsonSchema {
        description: None,
        name: "bill".into(),
        schema: json!({
            "type": "object",
            "properties": {"vendor": {"type": "string"}, "total": {"type": "number"}},
            "required": ["vendor", "total"],
            "additionalProperties": false
        }),
        strict: Some(true),
    }
}

fn is_the_bill(text: &str) {
    let found: Value = serde_json::from_str(text).unwrap();
    assert_eq!(found, json!({"vendor": "Acme Ltd", "total": 12.5}));
}

fn chat() -> CreateChatCompletionRequestArgs {
    let mut request = CreateChatCompletionRequestArgs::default();
    request.model(MODEL).messages([ChatCompletionRequestUserMessage::from(TEXT).into()]);
    request
}

fn chat_for_bill() -> CreateChatCompletionRequest {
    chat().response_format(ResponseFormat::JsonSchema { json_schema: bill() }).build().unwrap()
}

#[tokio::test]
async fn chat_completion() {
    let answer = client().chat().create(chat_for_bill()).await.unwrap();
    let choice = &answer.choices[0];
    assert_eq!(choice.finish_reason, Some(FinishReason::Stop));
    is_the_bill(choice.message.content.as_deref().unwrap());
    let usage = answer.usage.unwrap();
    assert_eq!(usage.total_tokens, usage.prompt_tokens + usage.completion_tokens);
}

#[tokio::test]
async fn chat_stream() {
    let mut stream = client().chat().create_stream(chat_for_bill()).await.unwrap();
    let (mut text, mut end) = (String::new(), None);
    while let Some(chunk) = stream.next().await {
        for choice in chunk.unwrap().choices {
            text += choice.delta.content.as_deref().unwrap_or_default();
            end = choice.finish_reason.or(end);
        }
    }
    assert_eq!(end, Some(FinishReason::Stop));
    is_the_bill(&text);
}

#[tokio::test]
async fn tool_call() {
    let function = FunctionObject {
        name: "pay".into(),
        description: None,
        parameters: Some(bill().schema),
        strict: Some(true),
    };
    let request = chat()
        .tools(vec![ChatCompletionTools::Function(ChatCompletionTool { function })])
        .tool_choice(ChatCompletionToolChoiceOption::Mode(ToolChoiceOptions::Required))
        .parallel_tool_calls(false)
        .build()
        .unwrap();
    let answer = client().chat().create(request).await.unwrap();
    assert_eq!(answer.choices[0].finish_reason, Some(FinishReason::ToolCalls));
    let calls = answer.choices[0].message.tool_calls.as_ref().unwrap();
    let [ChatCompletionMessageToolCalls::Function(call)] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(call.function.name, "pay");
    let arguments: Value = serde_json::from_str(&call.function.arguments).unwrap();
    assert!(arguments["vendor"].is_string() && arguments["total"].is_number(), "{arguments}");
}

fn response() -> CreateResponseArgs {
    let mut request = CreateResponseArgs::default();
    let format = TextResponseFormatConfiguration::JsonSchema(bill());
    request.model(MODEL).input(TEXT).text(ResponseTextParam { format, verbosity: None });
    request
}

#[tokio::test]
async fn responses() {
    let answer = client().responses().create(response().build().unwrap()).await.unwrap();
    is_the_bill(&answer.output_text().unwrap());
}

#[tokio::test]
async fn response_events() {
    let mut stream = client().responses().create_stream(response().build().unwrap()).await.unwrap();
    let (mut text, mut completed) = (String::new(), false);
    while let Some(event) = stream.next().await {
        match event.unwrap() {
            ResponseStreamEvent::ResponseOutputTextDelta(delta) => text += &delta.delta,
            ResponseStreamEvent::ResponseCompleted(end) => {
                completed = true;
                is_the_bill(&end.response.output_text().unwrap());
            }
            _ => {}
        }
    }
    assert!(completed);
    is_the_bill(&text);
}

#[tokio::test]
async fn a_fault_names_the_field() {
    let mut format = bill();
    format.schema["properties"]["total"]["type"] = "nummer".into();
    let request = chat().response_format(ResponseFormat::JsonSchema { json_schema: format }).build().unwrap();
    let Err(OpenAIError::ApiError(fault)) = client().chat().create(request).await else { panic!("no fault") };
    assert_eq!(fault.status_code.as_u16(), 400);
    assert_eq!(fault.api_error.param.as_deref(), Some("response_format.json_schema.schema"));
}
