//! Endpoints of the tab "Curve": forwards of the model by their rows, and small measurements of the
//! speedup by the share of forced tokens.
//!
//! # Cost
//! A measurement generates one record a few times with each of two modes, within a time limit. One
//! runs at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use axum::http::{Response, StatusCode};
use serde_json::{Value, json};

use crate::api_error::{ApiError, ApiResult, json_response};
use crate::app::{App, blocking};
use crate::fields::Fields;
use crate::model::LoadedModel;
use ffwd_runtime::decode::{CancelToken, Engine, Mode, Output, Request, forced_share};
use ffwd_runtime::extract::Extractor;
use ffwd_runtime::model::{ForwardRounds, forward_times};

/// The text of the records.
const TEXT: &str = "Ticket 4821: Mira Lang from Porto writes that the lamp arrived broken on 14 March. \
     She asks for a refund of 25 EUR and wants no replacement.";
/// Schemas of records of the text, with ever more forced text: free strings alone, short values under
/// short keys, under long keys, and constants between them.
const SCHEMAS: [&str; 5] = [
    r#"{"type": "object", "properties": {"t": {"type": "string", "minLength": 60, "maxLength": 90}}, "required": ["t"]}"#,
    r#"{"type": "object", "properties": {"who": {"type": "string", "maxLength": 24}, "city": {"type": "string", "maxLength": 24},
        "what": {"type": "string", "maxLength": 40}}, "required": ["who", "city", "what"]}"#,
    r#"{"type": "object", "properties": {"customer": {"type": "string", "maxLength": 16}, "ticket": {"type": "integer"},
        "amount": {"type": "number"}, "currency": {"enum": ["EUR", "USD"]}, "refund": {"type": "boolean"}},
        "required": ["customer", "ticket", "amount", "currency", "refund"]}"#,
    r#"{"type": "object", "properties": {"ticket_number": {"type": "integer"}, "refund_amount": {"type": "integer"},
        "refund_requested": {"type": "boolean"}, "replacement_requested": {"type": "boolean"},
        "damaged_on_arrival": {"type": "boolean"}},
        "required": ["ticket_number", "refund_amount", "refund_requested", "replacement_requested", "damaged_on_arrival"]}"#,
    r#"{"type": "object", "properties": {"document_type": {"const": "customer complaint about a delivery"},
        "department": {"const": "returns and refunds"}, "ticket_number": {"type": "integer"},
        "refund_requested": {"type": "boolean"}, "signature": {"const": "processed automatically, not yet verified"}},
        "required": ["document_type", "department", "ticket_number", "refund_requested", "signature"]}"#,
];
/// Numbers of rows of the forwards, the tokens before them, and the rounds.
const ROWS: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 24];
const CACHED: usize = 150;
const FORWARD_ROUNDS: usize = 15;
/// Largest number of tokens of a record.
const MAX_TOKENS: usize = 120;
/// Rounds of a measurement; fewer after the time limit.
const ROUNDS: usize = 5;
const LIMIT: Duration = Duration::from_secs(4);

pub(super) async fn costs(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let text = app.body(body).await?;
    let mut fields = Fields::body(&text)?;
    let name = fields.text("model")?;
    fields.finish()?;
    let model = app.model(name.as_deref()).await?;
    let value = alone(move || forward_costs(&model).map_err(|error| ApiError::general(&error))).await?;
    Ok(json_response(&value))
}

/// Returns the median milliseconds of forwards with the logits of the last row only: forced tokens
/// need none.
fn forward_costs(model: &LoadedModel) -> ffwd_runtime::Result<Value> {
    let rounds = ForwardRounds { cached: CACHED, rounds: FORWARD_ROUNDS, least: 1, limit: LIMIT };
    let times = forward_times(model.engine.target(), &ROWS, &rounds)?;
    // Other work on the machine can only add to a time.
    let mut medians: Vec<f64> = times.into_iter().map(median).collect();
    for at in (1..medians.len()).rev() {
        medians[at - 1] = medians[at - 1].min(medians[at]);
    }
    let one = medians[0].max(f64::MIN_POSITIVE);
    let points = ROWS.iter().zip(&medians);
    let points: Vec<Value> =
        points.map(|(rows, ms)| json!({"rows": rows, "ms": ms, "ratio": ms / one})).collect();
    Ok(json!({"model": model.name, "points": points, "schemas": SCHEMAS.len()}))
}

pub(super) async fn measure(State(app): State<Arc<App>>, body: Body) -> ApiResult<Response<Body>> {
    let text = app.body(body).await?;
    let mut fields = Fields::body(&text)?;
    let name = fields.text("model")?;
    let number = fields.count("schema")?.ok_or_else(|| ApiError::missing("schema"))?;
    fields.finish()?;
    let Some(schema) = SCHEMAS.get(number) else {
        let message = format!("there is no schema {number}; there are {}", SCHEMAS.len());
        return Err(ApiError::field("schema", message));
    };
    let model = app.model(name.as_deref()).await?;
    let hang_up = CancelOnDrop(CancelToken::new());
    let cancel = hang_up.0.clone();
    let value = alone(move || point(&model, schema, &cancel)).await?;
    drop(hang_up);
    Ok(json_response(&value))
}

/// Cancels a measurement whose client is gone.
struct CancelOnDrop(CancelToken);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Runs a measurement, unless another one runs.
async fn alone(work: impl FnOnce() -> ApiResult<Value> + Send + 'static) -> ApiResult<Value> {
    static RUNS: AtomicBool = AtomicBool::new(false);
    struct Done;
    impl Drop for Done {
        fn drop(&mut self) {
            RUNS.store(false, Ordering::Release);
        }
    }
    if RUNS.swap(true, Ordering::Acquire) {
        let message = "another measurement runs";
        return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "busy", message));
    }
    let done = Done;
    blocking(move || {
        let _done = done;
        work()
    })
    .await
}

/// Measures one schema: seconds with and without drafts of forced runs, in turn.
fn point(model: &LoadedModel, schema: &str, cancel: &CancelToken) -> ApiResult<Value> {
    let failed = |error: ffwd_runtime::Error| ApiError::general(&error);
    let extractor = Extractor::new(&model.engine, schema).map_err(failed)?;
    let request = || {
        let request = extractor.request(TEXT).map_err(failed)?;
        Ok::<_, Box<ApiError>>(request.max_tokens(MAX_TOKENS).cancel(cancel))
    };
    // Engines that have learned nothing and keep no prompts.
    let twin = || {
        let vocab = model.engine.vocabulary().clone();
        Engine::from_parts(model.engine.target().clone(), None, vocab)
            .map(|engine| engine.with_prefix_bytes(0))
    };
    let forced = request()?.lookup(false).draft_model(false);
    let arms: [(Engine, Request); 2] =
        [(twin().map_err(failed)?, request()?.mode(Mode::Off)), (twin().map_err(failed)?, forced)];
    let mut seconds: [Vec<f64>; 2] = Default::default();
    let mut last: [Option<Output>; 2] = [None, None];
    let start = Instant::now();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (at, (engine, request)) in arms.iter().enumerate() {
            let output = engine.generate(request).map_err(failed)?;
            if cancel.is_cancelled() {
                let message = "the client has hung up";
                return Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "cancelled", message));
            }
            let prompt = output.stats.spent.map_or(0.0, |spent| spent.prompt);
            if round > 0 {
                seconds[at].push((output.stats.seconds - prompt).max(1e-9));
            }
            last[at] = Some(output);
        }
        if round > 0 && start.elapsed() > LIMIT {
            break;
        }
    }
    let [Some(off), Some(forced)] = last else { return Ok(Value::Null) };
    let grammar = extractor.constraint(Some(TEXT)).and_then(|c| model.engine.compiler().compile(&c));
    let fraction = forced_share(&grammar.map_err(failed)?, &off.tokens);
    let [off_seconds, forced_seconds] = seconds.map(median);
    Ok(json!({
        "fraction": fraction,
        "speedup": off_seconds / forced_seconds,
        "tokens": off.stats.tokens,
        "forwards": [off.stats.forwards, forced.stats.forwards],
        "milliseconds": [off_seconds * 1e3, forced_seconds * 1e3],
        "same_text": off.tokens == forced.tokens,
        "text": off.text,
        "schema": schema,
    }))
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
