//! Errors of the protocol: a status, and a JSON body that names the field, the location and a hint.
//!
//! A fault of a request is never a 500. The body is that of OpenAI's API, with the members `pointer`
//! and `hint` in addition.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use serde_json::{Value, json};

use ffwd_runtime::error::{Error, ErrorKind};

/// Result of the functions that read and answer requests.
pub(super) type ApiResult<T> = Result<T, Box<ApiError>>;

/// An error that a client gets.
#[derive(Debug, Clone)]
pub(super) struct ApiError {
    pub status: StatusCode,
    message: String,
    /// The field of the request, such as `response_format.json_schema.schema`.
    param: Option<String>,
    code: &'static str,
    /// The JSON pointer within the field.
    pointer: Option<String>,
    hint: Option<String>,
}

impl ApiError {
    pub(crate) fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Box<Self> {
        let message = message.into();
        Box::new(ApiError { status, message, param: None, code, pointer: None, hint: None })
    }

    /// Returns the error for a field with a wrong value.
    pub(crate) fn field(param: impl Into<String>, message: impl Into<String>) -> Box<Self> {
        Self::new(StatusCode::BAD_REQUEST, "invalid_value", message).with_param(param)
    }

    /// Returns the error for a field that must be there.
    pub(crate) fn missing(param: &str) -> Box<Self> {
        ApiError::field(param, format!("`{param}` is missing"))
    }

    /// Returns the error for a word that is none of those that the field may have.
    pub(crate) fn unknown(param: &str, word: &str, known: &str) -> Box<Self> {
        Self::field(param, format!("`{param}` is {word:?}")).hint(format!("known are {known}"))
    }

    /// Returns the error for a field that this server knows and does not support.
    pub(crate) fn unsupported(param: impl Into<String>, why: &str) -> Box<Self> {
        let param = param.into();
        let message = format!("`{param}` is not supported: {why}");
        Self::new(StatusCode::BAD_REQUEST, "unsupported_parameter", message).with_param(param)
    }

    /// Names the field.
    pub(crate) fn with_param(mut self: Box<Self>, param: impl Into<String>) -> Box<Self> {
        self.param = Some(param.into());
        self
    }

    pub(crate) fn hint(mut self: Box<Self>, hint: impl Into<String>) -> Box<Self> {
        self.hint = Some(hint.into());
        self
    }

    /// Converts an error of the engine that the field `param` caused.
    pub(crate) fn of(error: &Error, param: impl Into<String>) -> Box<Self> {
        let found = Self::general(error);
        if found.status == StatusCode::BAD_REQUEST { found.with_param(param) } else { found }
    }

    /// Converts an error of the engine.
    pub(crate) fn general(error: &Error) -> Box<Self> {
        let (status, code) = match error.kind() {
            ErrorKind::Busy => (StatusCode::SERVICE_UNAVAILABLE, "busy"),
            ErrorKind::Cancelled => (StatusCode::SERVICE_UNAVAILABLE, "cancelled"),
            ErrorKind::PromptTooLong => (StatusCode::BAD_REQUEST, "context_length_exceeded"),
            ErrorKind::Model | ErrorKind::Io | ErrorKind::IllegalToken | ErrorKind::Tokenizer => {
                (StatusCode::INTERNAL_SERVER_ERROR, error.kind().code())
            }
            kind => (StatusCode::BAD_REQUEST, kind.code()),
        };
        let mut found = Self::new(status, code, error.to_string());
        found.pointer = error.pointer().map(str::to_owned);
        found.hint = error.hint_text().map(str::to_owned);
        found
    }

    pub(crate) fn text(&self) -> &str {
        &self.message
    }

    /// Returns the object under `error`.
    pub(crate) fn object(&self) -> Value {
        let kind = match self.status {
            StatusCode::UNAUTHORIZED => "authentication_error",
            StatusCode::FORBIDDEN => "permission_error",
            status if status.is_server_error() => "server_error",
            _ => "invalid_request_error",
        };
        let mut object =
            json!({"message": self.message, "type": kind, "param": self.param, "code": self.code});
        if let Some(pointer) = &self.pointer {
            object["pointer"] = pointer.as_str().into();
        }
        if let Some(hint) = &self.hint {
            object["hint"] = hint.as_str().into();
        }
        object
    }

    pub(crate) fn response(&self) -> Response<Body> {
        let mut response = json_response(&json!({"type": "error", "error": self.object()}));
        *response.status_mut() = self.status;
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// Handlers return errors, which are answers, too.
impl IntoResponse for Box<ApiError> {
    fn into_response(self) -> Response<Body> {
        self.response()
    }
}

/// Returns a response with a JSON body.
pub(super) fn json_response(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
