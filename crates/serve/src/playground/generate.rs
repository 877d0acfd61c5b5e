//! `POST /playground/api/generate`: a generation as a stream of its forwards.
//!
//! The events are `start`, one `forward` for each step of the trace, and `end` with the output.
//!
//! # Cost
//! That of the generation. A client that hangs up cancels it before its next forward.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::Response;
use serde_json::{Value, json};
use tokio::sync::mpsc::Sender;

use super::{token_json, tokens_json};
use crate::api_error::{ApiError, ApiResult};
use crate::app::App;
use crate::fields::Fields;
use crate::messages::add_text;
use crate::options::read_options;
use crate::prepare::ReadyRequest;
use crate::request::{ChatInput, FormatKind, FormatRequest, GenerationRequest, PromptInput, RawPrompt};
use crate::running::{RunMessage, Running};
use crate::stream::{Events, event_response};
use ffwd_runtime::decode::{ForwardTrace, Output, TracedToken};
use ffwd_runtime::sample::SamplingParams;
use ffwd_runtime::vocab::Vocabulary;

/// Default limit of output tokens.
const DEFAULT_MAX_TOKENS: usize = 200;

/// Kinds of constraints, as the page names them.
const KINDS: &str = "none, json_schema, regex, grammar, labels, pattern and structural_tag";

pub(super) async fn generate(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let deadline = app.deadline();
    let request = app.read(body, read_generation).await?;
    let (model, mut prepared) = app.prepare(request, true, deadline).await?;
    prepared.requests = prepared.requests.into_iter().map(|request| request.trace(true)).collect();
    let mut running = Running::start(&model, &mut prepared, deadline)?;
    // An error before the first event is an answer of its own.
    let first = running.next().await?;
    let vocab = model.engine.vocabulary().clone();
    let answer = TracedAnswer { app: app.clone(), vocab, prepared, running };
    Ok(event_response(app, |sender| answer.run(first, sender)))
}

struct TracedAnswer {
    app: Arc<App>,
    vocab: Vocabulary,
    prepared: ReadyRequest,
    running: Running,
}

impl TracedAnswer {
    async fn run(mut self, first: Option<(usize, RunMessage)>, sender: Sender<Bytes>) -> bool {
        let mut events = Events::default();
        let ReadyRequest { prompt, warnings, compile_seconds, .. } = &self.prepared;
        events.data(&json!({"event": "start", "prompt": prompt.to_text(), "warnings": warnings,
            "compile_seconds": compile_seconds}));
        let mut next: ApiResult<Option<(usize, RunMessage)>> = Ok(first);
        loop {
            match next {
                Ok(Some((_, RunMessage::Traced(step)))) => events.data(&step_json(&self.vocab, &step)),
                Ok(Some((_, RunMessage::Done(output)))) => {
                    self.app.metrics.output(&output);
                    events.data(&end_json(&self.vocab, &output));
                }
                Ok(Some((_, RunMessage::Text(_) | RunMessage::Forward))) => {}
                Ok(None) => {
                    events.end();
                    break;
                }
                Err(error) => {
                    events.data(&json!({"error": error.object()}));
                    break;
                }
            }
            if !events.send(&sender).await {
                return false;
            }
            next = self.running.next().await;
        }
        events.send(&sender).await
    }
}

fn step_json(vocab: &Vocabulary, step: &ForwardTrace) -> Value {
    let token = |traced: &TracedToken| {
        let mut value = token_json(vocab, traced.token);
        value["source"] = traced.source.name().into();
        value
    };
    let tokens = |list: &[TracedToken]| list.iter().map(token).collect::<Vec<_>>();
    let rejected: Vec<Value> = step
        .rejected
        .iter()
        .map(|draft| json!({"after": draft.after, "tokens": tokens(&draft.tokens)}))
        .collect();
    json!({
        "event": "forward",
        "forward": step.forward,
        "positions": step.positions,
        "draft_forwards": step.draft_forwards,
        "begin": step.begin,
        "tokens": tokens(&step.tokens),
        "rejected": rejected,
        "taken_back": step.taken_back,
    })
}

fn end_json(vocab: &Vocabulary, output: &Output) -> Value {
    json!({
        "event": "end",
        "text": output.text,
        "tokens": tokens_json(vocab, &output.tokens),
        "complete": output.complete,
        "finish": output.finish,
        "stats": output.stats,
    })
}

/// Reads prompt, constraint and options; the caller reads further fields and finishes.
pub(super) fn read_generation(
    fields: &mut Fields,
    defaults: &SamplingParams,
) -> ApiResult<GenerationRequest> {
    let text = fields.needed_text("prompt")?;
    let prompt = match fields.text("as")?.as_deref() {
        None | Some("text") => {
            PromptInput::Text(RawPrompt { text, tokens: None, splits_special: false, begins: true })
        }
        Some("chat") => {
            let mut chat = ChatInput::default();
            add_text(&mut chat, "user", text, "prompt")?;
            PromptInput::Chat(chat)
        }
        Some(other) => return Err(ApiError::unknown("as", other, "text and chat")),
    };
    let mut request = read_options(fields, prompt, defaults)?;
    if request.choices != 1 {
        return Err(ApiError::unsupported("n", "the playground shows one output"));
    }
    if let Some(constraint) = fields.object("constraint")? {
        request.format = read_constraint(constraint)?;
    }
    let most = fields.limit(&["max_tokens"])?;
    request.max_tokens = Some(most.unwrap_or(DEFAULT_MAX_TOKENS));
    Ok(request)
}

/// Reads the object `constraint`: its kind and its text.
fn read_constraint(mut constraint: Fields) -> ApiResult<Option<FormatRequest>> {
    let (kind_path, param) = (constraint.path_of("kind"), constraint.path_of("text"));
    let kind = constraint.needed_text("kind")?;
    let text = constraint.text("text")?.unwrap_or_default();
    constraint.finish()?;
    let kind = match kind.as_str() {
        "none" => return Ok(None),
        "json_schema" => FormatKind::JsonSchema(text),
        "regex" => FormatKind::Regex(text),
        "grammar" => FormatKind::Grammar(text),
        "labels" => {
            let lines = text.lines().filter(|line| !line.is_empty());
            FormatKind::Choice(lines.map(str::to_owned).collect())
        }
        "pattern" => FormatKind::Pattern(text),
        "structural_tag" => FormatKind::StructuralTag(text),
        other => {
            let error = ApiError::field(kind_path, format!("there is no constraint {other:?}"));
            return Err(error.hint(format!("known are {KINDS}")));
        }
    };
    Ok(Some(FormatRequest { kind, param, whitespace: None, closed: false }))
}
