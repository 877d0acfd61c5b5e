//! `/tokenize` and `/detokenize`, in the forms of vLLM and llama.cpp.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};

use super::api_error::{ApiError, ApiResult, json_response};
use super::app::{App, blocking};
use super::fields::Fields;
use super::messages::read_messages;
use super::model::LoadedModel;
use ffwd_runtime::ChatOptions;
use ffwd_runtime::decode::Prompt;
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
    fields.raw("model");
    let special = fields.flag("add_special_tokens")?.or(fields.flag("add_special")?);
    let pieces = fields.flag("return_token_strs")?.or(fields.flag("with_pieces")?).unwrap_or(false);
    let vocab = model.engine.vocabulary();
    let prompt = if fields.has("messages") {
        let chat = read_messages(&mut fields)?;
        let generates = fields.flag("add_generation_prompt")?.unwrap_or(true);
        let options = ChatOptions { add_generation_prompt: generates, ..ChatOptions::default() };
        let prompt = model.engine.chat_prompt(&chat.messages, &options);
        prompt.map_err(|error| ApiError::of(&error, "messages"))?
    } else {
        let text = match fields.text("prompt")? {
            Some(text) => Some(text),
            None => fields.text("content")?,
        };
        let prompt = Prompt::text(text.ok_or_else(|| ApiError::missing("prompt"))?);
        if special == Some(false) { prompt.without_bos() } else { prompt }
    };
    fields.finish()?;
    let tokens = prompt.encode(vocab).map_err(|error| ApiError::general(&error))?;
    let texts = |token: &TokenId| String::from_utf8_lossy(vocab.token_bytes(*token)).into_owned();
    let texts: Option<Vec<String>> = pieces.then(|| tokens.iter().map(texts).collect());
    Ok(
        json!({"count": tokens.len(), "max_model_len": model.context(), "tokens": tokens, "token_strs": texts}),
    )
}

fn read_tokens(model: &LoadedModel, text: &str) -> ApiResult<Value> {
    let mut fields = Fields::body(text)?;
    fields.raw("model");
    let tokens = fields.tokens("tokens")?.ok_or_else(|| ApiError::missing("tokens"))?;
    fields.finish()?;
    let vocab = model.engine.vocabulary();
    if let Some(unknown) = tokens.iter().find(|&&token| token as usize >= vocab.len()) {
        let message = format!("there is no token {unknown}; the vocabulary has {}", vocab.len());
        return Err(ApiError::field("tokens", message));
    }
    let text = String::from_utf8_lossy(&vocab.decode(&tokens)).into_owned();
    Ok(json!({"prompt": text, "content": text}))
}
