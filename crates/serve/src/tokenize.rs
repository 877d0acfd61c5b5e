//! `/tokenize` and `/detokenize`, in the forms of vLLM and llama.cpp.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};

use super::api_error::{ApiError, ApiResult, json_response};
use super::app::{App, blocking};
use super::completion_fields::{read_chat, read_raw};
use super::fields::Fields;
use super::model::LoadedModel;
use super::prepare::{check_tokens, prompt, thinking};
use super::request::GenerationRequest;
use ffwd_runtime::decode::Prompt;
use ffwd_runtime::sample::SamplingParams;
use ffwd_runtime::vocab::TokenId;

pub(super) async fn tokenize(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    answer(app, body, read_text).await
}

pub(super) async fn detokenize(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    answer(app, body, read_tokens).await
}

async fn answer(
    app: Arc<App>,
    body: Body,
    read: fn(&LoadedModel, &str) -> ApiResult<Value>,
) -> ApiResult<Response<Body>> {
    let text = app.body(body).await?;
    let name = Fields::body(&text)?.text("model")?;
    let model = app.model(name.as_deref()).await?;
    let value = blocking(move || read(&model, &text)).await?;
    Ok(json_response(&value))
}

fn read_text(model: &LoadedModel, text: &str) -> ApiResult<Value> {
    let mut fields = Fields::body(text)?;
    let pieces = fields.flag("return_token_strs")?.or(fields.flag("with_pieces")?).unwrap_or(false);
    let vocab = model.engine.vocabulary();
    let prompt = if fields.has("messages") {
        let mut request = read_chat(&mut fields, &SamplingParams::default())?.generation;
        chat_prompt(model, &mut request)?
    } else {
        fields.raw("model");
        let name = if fields.has("content") { "content" } else { "prompt" };
        read_raw(&mut fields, name)?.prompt(vocab)?
    };
    fields.finish()?;
    let tokens = prompt.encode(vocab).map_err(|error| ApiError::general(&error))?;
    let texts = |token: &TokenId| match vocab.is_special(*token) {
        true => vocab.token_text(*token).unwrap_or_default(),
        false => String::from_utf8_lossy(vocab.token_bytes(*token)).into_owned(),
    };
    let texts: Option<Vec<String>> = pieces.then(|| tokens.iter().map(texts).collect());
    Ok(
        json!({"count": tokens.len(), "max_model_len": model.context(), "tokens": tokens, "token_strs": texts}),
    )
}

/// Returns the tokens of the prompt of a chat.
pub(super) fn chat_tokens(model: &LoadedModel, request: &mut GenerationRequest) -> ApiResult<Vec<TokenId>> {
    let prompt = chat_prompt(model, request)?;
    prompt.encode(model.engine.vocabulary()).map_err(|error| ApiError::general(&error))
}

fn chat_prompt(model: &LoadedModel, request: &mut GenerationRequest) -> ApiResult<Prompt> {
    thinking(model, request, &mut Vec::new());
    prompt(model, request, &mut Vec::new())
}

fn read_tokens(model: &LoadedModel, text: &str) -> ApiResult<Value> {
    let mut fields = Fields::body(text)?;
    fields.raw("model");
    let tokens = fields.tokens("tokens")?.ok_or_else(|| ApiError::missing("tokens"))?;
    fields.finish()?;
    let vocab = model.engine.vocabulary();
    check_tokens("tokens", &tokens, vocab)?;
    let text = String::from_utf8_lossy(&vocab.decode(&tokens)).into_owned();
    Ok(json!({"prompt": text, "content": text}))
}
