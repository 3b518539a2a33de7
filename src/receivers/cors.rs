//! CORS: web pages of other origins that may send logs.
//!
//! Allowed pages get the headers on every answer, errors too: an answer without them looks to a page
//! like a network failure. The origin is always named, never `*`, because credentials are allowed.

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use http::header::{
    ACCESS_CONTROL_ALLOW_CREDENTIALS, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS,
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE,
    ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};

use crate::config::Config;

/// Headers that OTLP exporters in browsers send.
const USUAL_HEADERS: &str =
    "content-type, content-encoding, authorization, user-agent, x-requested-with";

/// Answers preflights, without asking for a token, and puts the headers on all other answers.
pub(super) async fn allow<A: Future<Output = Response>>(
    config: &Config,
    request: Request,
    next: impl FnOnce(Request) -> A,
) -> Response {
    let origin = request.headers().get(ORIGIN).cloned();
    let Some(origin) = origin.filter(|origin| is_allowed(config, origin)) else {
        return next(request).await;
    };
    let asks = request
        .headers()
        .contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if request.method() == Method::OPTIONS && asks {
        let mut response = StatusCode::NO_CONTENT.into_response();
        preflight(config, response.headers_mut());
        allow_origin(origin, response.headers_mut());
        return response;
    }
    let mut response = next(request).await;
    allow_origin(origin, response.headers_mut());
    response
}

/// Whether pages of this origin may send.
pub(super) fn is_allowed(config: &Config, origin: &HeaderValue) -> bool {
    origin
        .to_str()
        .is_ok_and(|origin| config.cors.allows(origin))
}

fn preflight(config: &Config, headers: &mut HeaderMap) {
    headers.insert(
        ACCESS_CONTROL_ALLOW_METHODS,
        HeaderValue::from_static("POST"),
    );
    let mut names = USUAL_HEADERS.to_owned();
    for name in &config.cors.headers {
        names.push_str(", ");
        names.push_str(name);
    }
    // Loading the configuration made sure that these are names.
    if let Ok(names) = HeaderValue::from_str(&names) {
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, names);
    }
    let seconds = config.cors.max_age.duration().as_secs();
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(seconds));
}

fn allow_origin(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let yes = HeaderValue::from_static("true");
    headers.insert(ACCESS_CONTROL_ALLOW_CREDENTIALS, yes);
    let exposed = HeaderValue::from_static("Retry-After");
    headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(VARY, HeaderValue::from_static("Origin"));
}
