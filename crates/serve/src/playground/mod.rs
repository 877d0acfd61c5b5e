//! The playground: a page that shows the engine at work, and the endpoints that it asks.
//!
//! The page is part of the program: no file is read and nothing is fetched from elsewhere. Each tab
//! is a module of JavaScript in `page/`, and has its endpoints in a file here. The page itself needs
//! no key, because it has no data; its endpoints are guarded like all others.
//!
//! # Cost
//! The page is text inside the program. Work of an endpoint runs on a thread that may block, within
//! the limits of the server.
//!
//! # Alternatives considered
//! A framework with a build of its own was rejected: the page is a few small modules, which a
//! browser reads as they are. A folder of files next to the program was rejected: one file is easier
//! to move.

mod automaton;
mod curve;
mod distribution;
mod explorer;
mod generate;
mod labels;
mod state;
mod toy_machine;

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use axum::routing::{get, post};
use serde_json::{Value, json};

use super::api_error::ApiError;
use super::app::App;
use ffwd_runtime::vocab::{TokenId, Vocabulary};

/// What the page may do: use its own scripts, styles and endpoints. No script can turn a text into
/// elements.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Lists files of the page with their types, and their texts if they are elsewhere.
macro_rules! assets {
    (text $name:literal) => { include_str!(concat!("page/", $name)) };
    (text $name:literal $text:expr) => { $text };
    ($($kind:ident $name:literal $(= $text:expr)?),+ $(,)?) => {
        [$(Asset { name: $name, kind: $kind, text: assets!(text $name $($text)?) }),+]
    };
}

/// The files of the page.
const ASSETS: &[Asset] = &assets![
    HTML "index.html",
    STYLE "style.css",
    STYLE "tabs.css",
    STYLE "explain.css",
    SCRIPT "main.js",
    SCRIPT "api.js",
    SCRIPT "dom.js",
    SCRIPT "theme.js",
    SCRIPT "generate.js",
    SCRIPT "examples.js",
    SCRIPT "origins.js",
    SCRIPT "settings.js",
    SCRIPT "run_view.js",
    SCRIPT "state_view.js",
    SCRIPT "explorer.js",
    SCRIPT "explorer_position.js",
    SCRIPT "layered.js",
    SCRIPT "automaton.js",
    SCRIPT "automaton_graph.js",
    SCRIPT "labels.js",
    SCRIPT "curve.js",
    SCRIPT "plot.js" = ffwd_runtime::speedup::PLOT_SCRIPT,
];

/// A file of the page.
struct Asset {
    name: &'static str,
    kind: &'static str,
    text: &'static str,
}

/// Returns the routes of the page and of its endpoints.
pub(super) fn routes() -> Router<Arc<App>> {
    let api = Router::new()
        .route("/generate", post(generate::generate))
        .route("/state", post(state::state))
        .route("/explorer", post(explorer::explorer))
        .route("/automaton", post(automaton::automaton))
        .route("/labels", post(labels::labels))
        .route("/curve", post(curve::costs))
        .route("/curve/measure", post(curve::measure));
    Router::new()
        .route("/", get(|| async { asset("index.html") }))
        .route("/playground/{file}", get(|Path(file): Path<String>| async move { asset(&file) }))
        .nest("/playground/api", api)
}

/// Returns true for the path of the page or of one of its files.
pub(super) fn is_page(path: &str) -> bool {
    let file = path.strip_prefix("/playground/");
    path == "/" || file.is_some_and(|file| ASSETS.iter().any(|asset| asset.name == file))
}

fn asset(name: &str) -> Response<Body> {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        let message = format!("the playground has no file {name:?}");
        return ApiError::new(StatusCode::NOT_FOUND, "not_found", message).response();
    };
    let mut response = Response::new(Body::from(asset.text));
    let headers: [(HeaderName, &'static str); 6] = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-cache"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ];
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// Returns the text of a token: that of its bytes, or the name of a special token.
pub(super) fn token_text(vocab: &Vocabulary, id: TokenId) -> String {
    match vocab.token_bytes(id) {
        [] => vocab.token_text(id).unwrap_or_default(),
        bytes => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Returns a token with its text.
pub(super) fn token_json(vocab: &Vocabulary, id: TokenId) -> Value {
    json!({"id": id, "text": token_text(vocab, id)})
}

/// Returns tokens with their texts.
pub(super) fn tokens_json(vocab: &Vocabulary, ids: &[TokenId]) -> Vec<Value> {
    ids.iter().map(|&id| token_json(vocab, id)).collect()
}
