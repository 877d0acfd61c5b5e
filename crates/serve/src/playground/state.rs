//! `POST /playground/api/state`: what may come at a position of an output, and how probable it is.
//!
//! # Cost
//! A forward over the tokens of prompt and prefix that the position shown before does not share, in
//! pieces, and a pass over the vocabulary. One position is looked at at a time.

use std::sync::{Arc, PoisonError};

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::distribution::{Distribution, ranked};
use super::generate::read_generation;
use super::{token_json, token_text, tokens_json};
use crate::api_error::{ApiError, ApiResult, json_response};
use crate::app::App;
use crate::fields::Fields;
use crate::model::LoadedModel;
use crate::prepare::ReadyRequest;
use crate::running::timed_out;
use ffwd_runtime::matcher::{Matcher, Verdict};
use ffwd_runtime::sample::SamplingParams;
use ffwd_runtime::vocab::{TokenId, Vocabulary};

/// Number of tokens in each list of probable tokens.
const SHOWN_TOKENS: usize = 12;
/// Longest text that is explained, in bytes.
const MAX_WHY: usize = 4096;
/// Number of tokens of one piece of a forward; between two the deadline is checked.
const PIECE: usize = 256;
/// Longest shortest completion that is shown, in bytes.
const MAX_COMPLETION: usize = 400;

/// A position, and what is to be explained there.
struct ShownPosition {
    tokens: Vec<TokenId>,
    why: Option<Question>,
}

/// A text or a token that may follow, or not.
enum Question {
    Text(String),
    Token(TokenId),
}

pub(super) async fn state(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let read = |fields: &mut Fields, defaults: &SamplingParams| {
        Ok((read_generation(fields, defaults)?, read_position(fields)?))
    };
    let (request, position) = app.read(body, read).await?;
    let (model, prepared) = app.prepare(request, false, deadline).await?;
    let value =
        app.work_of(&app.page, deadline, move || look(&model, &prepared, &position, deadline)).await?;
    Ok(json_response(&value))
}

fn read_position(fields: &mut Fields) -> ApiResult<ShownPosition> {
    let tokens = fields.tokens("tokens")?.unwrap_or_default();
    let text = fields.text("why")?;
    if text.as_ref().is_some_and(|text| text.len() > MAX_WHY) {
        return Err(ApiError::field("why", format!("`why` has more than {MAX_WHY} bytes")));
    }
    // A larger number is no token either.
    let number = |token| TokenId::try_from(token).unwrap_or(TokenId::MAX);
    let token = fields.count("why_token")?.map(|token| Question::Token(number(token)));
    let why = token.or(text.map(Question::Text));
    Ok(ShownPosition { tokens, why })
}

fn look(
    model: &LoadedModel,
    prepared: &ReadyRequest,
    position: &ShownPosition,
    deadline: Instant,
) -> ApiResult<Value> {
    let vocab = model.engine.vocabulary();
    let asked = match position.why {
        Some(Question::Token(token)) => Some(token),
        _ => None,
    };
    let mut named = position.tokens.iter().copied().chain(asked);
    if let Some(unknown) = named.find(|&token| token as usize >= vocab.len()) {
        return Err(ApiError::field("tokens", format!("there is no token {unknown}")));
    }
    let mut matcher = prepared.grammar.as_ref().map(|grammar| grammar.matcher());
    if let Some(matcher) = &mut matcher {
        for (i, &token) in position.tokens.iter().enumerate() {
            let refused =
                |error: ffwd_runtime::Error| ApiError::field(format!("tokens[{i}]"), error.to_string());
            matcher.accept_token(token).map_err(refused)?;
        }
    }
    let mut tokens = prepared.prompt.encode(vocab).map_err(|error| ApiError::general(&error))?;
    tokens.extend(&position.tokens);
    let logits = next_logits(model, tokens, deadline)?;
    let mut value = probabilities(vocab, matcher.as_mut(), &logits);
    value["position"] = position.tokens.len().into();
    value["prefix"] = String::from_utf8_lossy(&vocab.decode(&position.tokens)).into();
    value["vocabulary"] = vocab.len().into();
    if let Some(matcher) = &mut matcher {
        value["state"] = state_json(vocab, matcher);
        if let Some(question) = &position.why {
            value["why"] = why_json(vocab, matcher, question);
        }
    }
    Ok(value)
}

/// Returns the logits after `tokens`.
///
/// # Errors
/// 400 if they exceed the context, 504 at the deadline.
pub(super) fn next_logits(
    model: &LoadedModel,
    tokens: Vec<TokenId>,
    deadline: Instant,
) -> ApiResult<Vec<f32>> {
    let target = model.engine.target();
    let context = target.config().context;
    if tokens.len() > context {
        let message = format!("prompt and output have {} tokens; the context is {context}", tokens.len());
        return Err(ApiError::field("tokens", message));
    }
    let failed = |error| ApiError::general(&error);
    let mut shown = model.shown.lock().unwrap_or_else(PoisonError::into_inner);
    let (known, mut cache) = match shown.take() {
        Some(shown) => shown,
        None => (Vec::new(), target.new_cache().map_err(failed)?),
    };
    let same = known.iter().zip(&tokens).take_while(|(a, b)| a == b).count();
    cache.truncate(same.min(tokens.len().saturating_sub(1)));
    let mut rows = Vec::new();
    while cache.len() < tokens.len() {
        if Instant::now() > deadline {
            return Err(timed_out());
        }
        let piece = &tokens[cache.len()..tokens.len().min(cache.len() + PIECE)];
        let last = piece.len() - 1;
        rows = target.forward(piece, &mut cache, last..piece.len()).map_err(failed)?;
    }
    *shown = Some((tokens, cache));
    rows.pop().ok_or_else(|| ApiError::field("prompt", "the prompt is empty"))
}

/// Returns the most probable tokens, all and legal ones, and the probability of the others.
fn probabilities(vocab: &Vocabulary, matcher: Option<&mut Matcher>, logits: &[f32]) -> Value {
    let mut row = vec![u32::MAX; vocab.bitmask_words()];
    if let Some(matcher) = matcher {
        matcher.fill_bitmask(&mut row);
    }
    let found = Distribution::of(logits, &row, 1.0);
    let entry = |&id: &TokenId| {
        let at = id as usize;
        json!({"id": id, "text": token_text(vocab, id), "raw": found.raw[at], "masked": found.masked[at],
            "legal": found.legal[at], "end": vocab.eos().contains(&id)})
    };
    let top = |probabilities: &[f64]| {
        ranked(probabilities).iter().take(SHOWN_TOKENS).map(entry).collect::<Vec<_>>()
    };
    json!({
        "legal": found.legal_count(),
        "rejected_mass": found.rejected(),
        "top": top(&found.raw),
        "top_legal": top(&found.masked),
    })
}

fn state_json(vocab: &Vocabulary, matcher: &mut Matcher) -> Value {
    let forced = matcher.forced_bytes();
    let tokens = matcher.drafted_forced_tokens(None);
    let completion = match matcher.is_token_level() {
        true => matcher.token_completion().map(|tokens| vocab.decode(&tokens)),
        false => matcher.shortest_completion(MAX_COMPLETION),
    };
    json!({
        "forced": {"text": String::from_utf8_lossy(&forced), "bytes": forced.len(),
            "tokens": tokens_json(vocab, &tokens)},
        "may_end": matcher.is_accepting(),
        "must_end": matcher.is_terminated(),
        "in_string": matcher.in_string(),
        "path": matcher.path(),
        "completion": completion.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()),
    })
}

/// Explains why a text or a token may or may not follow.
fn why_json(vocab: &Vocabulary, matcher: &Matcher, question: &Question) -> Value {
    let (found, text, bytes) = match question {
        Question::Text(text) => (matcher.explain_bytes(text.as_bytes()), text.clone(), text.as_bytes()),
        Question::Token(id) => (matcher.explain(*id), token_text(vocab, *id), vocab.token_bytes(*id)),
    };
    let fits = found.fits.min(bytes.len());
    json!({
        "text": text,
        "legal": found.verdict == Verdict::Legal,
        "reason": found.reason(),
        "bytes": bytes.len(),
        "fits": fits,
        "fitting": String::from_utf8_lossy(&bytes[..fits]),
        "expected_bytes": found.expected,
        "expected": found.examples.iter().map(|&id| token_json(vocab, id)).collect::<Vec<_>>(),
        "may_end": found.may_end,
        "path": found.path,
    })
}
