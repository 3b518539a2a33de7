//! The one shape of an answer that is not a success.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::query::Fault;

/// What went wrong, for programs and for people: `{code, text, hint, position}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ApiError {
    #[serde(skip)]
    status: StatusCode,
    #[serde(skip)]
    retry_after: Option<u32>,
    code: &'static str,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<usize>,
}

impl ApiError {
    /// An error with a status and a code of its own.
    #[must_use]
    pub fn new(status: StatusCode, code: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            retry_after: None,
            code,
            text: text.into(),
            hint: None,
            position: None,
        }
    }

    /// 400: the request makes no sense.
    #[must_use]
    pub fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "bad_request", text)
    }

    /// 503: the same request may succeed in a moment.
    #[must_use]
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", text).retry_after(2)
    }

    /// What went wrong, in words.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Says what would help.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Says where in the query it is wrong, in bytes.
    #[must_use]
    pub fn position(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// Asks to come back after so many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after = Some(seconds);
        self
    }
}

impl From<Fault> for ApiError {
    fn from(fault: Fault) -> Self {
        let mut error = ApiError::bad_request(fault.text).position(fault.position);
        error.hint = fault.hint;
        error
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(&self)).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
