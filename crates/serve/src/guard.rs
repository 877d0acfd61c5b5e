//! Checks before any endpoint: who calls, and from which page.
//!
//! A page elsewhere can send requests to a server on this machine, and a name that it controls can
//! lead here. So a name in `Host` must be known, and a request with an `Origin` must come from a page
//! of this server or from an allowed one.

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Response, StatusCode, header};
use axum::middleware::Next;

use super::ServeOptions;
use super::api_error::{ApiError, ApiResult};
use super::app::App;
use super::playground;

/// Endpoints that need no key: they tell nothing. The page of the playground needs none either.
const OPEN: [&str; 1] = ["/health"];

/// Refuses requests that must not reach an endpoint.
pub(super) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response<Body> {
    match admit(
        &app.options,
        request.uri().path(),
        request.uri().authority().map(|a| a.as_str()),
        request.headers(),
    ) {
        Ok(()) => next.run(request).await,
        Err(error) => error.response(),
    }
}

fn admit(options: &ServeOptions, path: &str, authority: Option<&str>, headers: &HeaderMap) -> ApiResult<()> {
    let text = |name| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = authority.or(text(header::HOST)).unwrap_or_default();
    if !is_known(options, host) {
        let message = format!("this server is not called {host:?}");
        let error = ApiError::new(StatusCode::FORBIDDEN, "unknown_host", message);
        return Err(error.hint("start it with --allow-host NAME"));
    }
    if let Some(origin) = text(header::ORIGIN)
        && !is_allowed(options, origin, host)
    {
        let message = format!("pages of {origin} must not use this server");
        let error = ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", message);
        return Err(error.hint("start it with --cors-origin ORIGIN"));
    }
    match &options.api_key {
        Some(key) if !OPEN.contains(&path) && !playground::is_page(path) => {
            let sent = text(header::AUTHORIZATION).unwrap_or_default();
            let sent = sent.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
            // The second is the header of Anthropic's clients.
            let sent = sent.map(|(_, sent)| sent).or(text(HeaderName::from_static("x-api-key")));
            match sent.is_some_and(|sent| same(sent.trim(), key)) {
                true => Ok(()),
                false => {
                    let message = "the API key is missing or wrong";
                    Err(ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", message))
                }
            }
        }
        _ => Ok(()),
    }
}

/// Returns true for an address, for `localhost` and for allowed names.
fn is_known(options: &ServeOptions, host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || options.allowed_hosts.iter().any(|known| known == "*" || known.eq_ignore_ascii_case(name))
}

fn is_allowed(options: &ServeOptions, origin: &str, host: &str) -> bool {
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    own.is_some_and(|own| own.eq_ignore_ascii_case(host))
        || options.cors_origins.iter().any(|known| known == "*" || known == origin)
}

/// Compares two texts in a time that depends on their lengths only.
fn same(a: &str, b: &str) -> bool {
    let differs = a.bytes().zip(b.bytes()).fold(0, |differs, (a, b)| differs | (a ^ b));
    a.len() == b.len() && differs == 0
}
