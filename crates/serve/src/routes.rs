//! Routes, and the endpoints that only report: health, models, metrics.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderValue, Method, Response, StatusCode, header};
use axum::middleware::{self, Next};
use axum::routing::{get, post};
use serde_json::{Value, json};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::api_error::{ApiError, json_response};
use super::app::App;
use super::model::ServedModel;
use super::{anthropic, completions, extract, guard, playground, responses, tokenize};

/// The paths of all endpoints, for the labels of metrics.
const PATHS: [&str; 12] = [
    "/v1/chat/completions",
    "/v1/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/extract",
    "/v1/models",
    "/tokenize",
    "/detokenize",
    "/health",
    "/metrics",
    "/version",
];

/// Returns all routes.
pub(super) fn router(app: Arc<App>) -> Router {
    let router = Router::new()
        .route("/v1/chat/completions", post(completions::chat_completions))
        .route("/v1/completions", post(completions::completions))
        .route("/v1/responses", post(responses::responses))
        .route("/v1/messages", post(anthropic::messages))
        .route("/v1/messages/count_tokens", post(anthropic::count_tokens))
        .route("/v1/extract", post(extract::extract))
        .route("/tokenize", post(tokenize::tokenize))
        .route("/detokenize", post(tokenize::detokenize))
        .route("/v1/models", get(models))
        .route("/v1/models/{*name}", get(model))
        .route("/health", get(health))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .merge(playground::routes())
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(middleware::from_fn_with_state(app.clone(), guard::check))
        .layer(middleware::from_fn_with_state(app.clone(), observe));
    let router = match cors(&app.options.cors_origins) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router.with_state(app)
}

/// Returns the layer that lets pages of these origins use the server.
fn cors(origins: &[String]) -> Option<CorsLayer> {
    let parsed: Vec<HeaderValue> = origins.iter().filter_map(|origin| origin.parse().ok()).collect();
    let allowed = match origins.iter().any(|origin| origin == "*") {
        true => AllowOrigin::any(),
        false => AllowOrigin::list(parsed),
    };
    (!origins.is_empty()).then(|| {
        CorsLayer::new().allow_origin(allowed).allow_methods([Method::GET, Method::POST]).allow_headers(Any)
    })
}

/// Counts the answers.
async fn observe(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    /// Counts as in flight until it is dropped, also if the client hangs up.
    struct InFlight(Arc<App>);
    impl Drop for InFlight {
        fn drop(&mut self) {
            self.0.metrics.in_flight.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let start = Instant::now();
    let path = request.uri().path();
    let endpoint = PATHS.iter().find(|known| **known == path).copied().unwrap_or("other");
    app.metrics.in_flight.fetch_add(1, Ordering::Relaxed);
    let in_flight = InFlight(app);
    let response = next.run(request).await;
    let status = response.status().as_u16();
    tracing::debug!(endpoint, status, "answered");
    in_flight.0.metrics.request(endpoint, status, start.elapsed().as_secs_f64());
    response
}

async fn health(State(app): State<Arc<App>>) -> Response<Body> {
    let loaded: Vec<&str> = app
        .models
        .iter()
        .filter(|model| model.loaded().is_some())
        .map(|model| model.source.name.as_str())
        .collect();
    json_response(&json!({"status": "ok", "loaded": loaded}))
}

async fn version() -> Response<Body> {
    json_response(&json!({"version": env!("CARGO_PKG_VERSION")}))
}

async fn metrics(State(app): State<Arc<App>>) -> Response<Body> {
    let mut response = Response::new(Body::from(app.metrics.page(&app.models)));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn entry(model: &ServedModel, created: u64) -> Value {
    let mut entry = json!({"id": model.source.name, "object": "model", "created": created,
        "owned_by": "ffwd", "loaded": false});
    if let Some(loaded) = model.loaded() {
        entry["loaded"] = true.into();
        entry["max_model_len"] = loaded.context().into();
        entry["tool_style"] = loaded.style.name().into();
    }
    entry
}

async fn models(State(app): State<Arc<App>>) -> Response<Body> {
    let list: Vec<Value> = app.models.iter().map(|model| entry(model, app.created)).collect();
    json_response(&json!({"object": "list", "data": list}))
}

async fn model(State(app): State<Arc<App>>, Path(name): Path<String>) -> Response<Body> {
    match app.models.iter().find(|model| model.source.name == name) {
        Some(model) => json_response(&entry(model, app.created)),
        None => {
            let message = format!("there is no model `{name}`");
            ApiError::new(StatusCode::NOT_FOUND, "model_not_found", message).with_param("model").response()
        }
    }
}

async fn unknown(request: Request) -> Response<Body> {
    let message = format!("there is no endpoint {}", request.uri().path());
    let known = PATHS.join(", ");
    ApiError::new(StatusCode::NOT_FOUND, "not_found", message).hint(format!("there are: {known}")).response()
}

async fn wrong_method(request: Request) -> Response<Body> {
    let message = format!("{} does not take {}", request.uri().path(), request.method());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message).response()
}
