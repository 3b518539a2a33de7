//! Who may read: a bearer token for programs, a session cookie for the page.
//!
//! The cookie holds the token itself, out of reach of scripts, so that a session outlives a restart
//! of the daemon and ends when the token is changed. It carries no path: a browser then sends it for
//! `…/api/` only, under whatever prefix a proxy serves the page. A token in a URL is not taken: it
//! would end in histories and logs.

use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde::Deserialize;
use subtle::ConstantTimeEq;
use tokio::sync::Semaphore;

use super::{ApiError, ApiState, host};
use crate::config::Secret;

const COOKIE: &str = "watchtower_session";
/// A session lasts as long as the browser keeps the cookie: 30 days.
const SESSION_SECONDS: u32 = 30 * 86_400;
/// How long a wrong token waits for its answer, and how many may wait; others wait for them. Guessing a
/// token takes longer than the token lives.
const WRONG_WAITS: Duration = Duration::from_secs(1);
static WRONG: Semaphore = Semaphore::const_new(4);
/// Longest body of a sign-in.
const SIGN_IN_BYTES: usize = 8 << 10;

/// Lets a request through that has a read token, or all while there are no tokens.
pub(crate) async fn require(
    State(state): State<ApiState>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    if may_read(request.headers(), &state.read_tokens()) {
        return Ok(next.run(request).await);
    }
    Err(unauthorized()
        .hint("sign in on the page, or send `Authorization: Bearer` with a read token"))
}

#[derive(Deserialize)]
struct SignIn {
    token: String,
}

/// `POST /api/session` with `{"token": "…"}`.
pub(super) async fn sign_in(
    State(state): State<ApiState>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    require_same_origin(&uri, &headers)?;
    if body.len() > SIGN_IN_BYTES {
        return Err(ApiError::bad_request("the body is too long for a token"));
    }
    let SignIn { token } = serde_json::from_slice(&body)
        .map_err(|_| ApiError::bad_request("the body is not {\"token\": \"…\"}"))?;
    let tokens = state.read_tokens();
    if !tokens.is_empty() && !is_one_of(token.trim().as_bytes(), &tokens) {
        let _place = WRONG.acquire().await;
        tokio::time::sleep(WRONG_WAITS).await;
        return Err(unauthorized().hint("use a token of `auth.read_tokens`"));
    }
    let value = URL_SAFE_NO_PAD.encode(token.trim());
    Ok(with_cookie(&headers, &value, SESSION_SECONDS))
}

/// `DELETE /api/session`.
pub(super) async fn sign_out(uri: Uri, headers: HeaderMap) -> Result<Response, ApiError> {
    require_same_origin(&uri, &headers)?;
    Ok(with_cookie(&headers, "", 0))
}

fn with_cookie(headers: &HeaderMap, value: &str, seconds: u32) -> Response {
    let is_https = headers
        .get("x-forwarded-proto")
        .is_some_and(|proto| proto.as_bytes() == b"https");
    let secure = if is_https { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    let mut response = Json(serde_json::json!({})).into_response();
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

fn unauthorized() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "a read token is needed",
    )
}

/// Whether these headers let somebody read; all may while there are no tokens.
pub(super) fn may_read(headers: &HeaderMap, tokens: &[Secret]) -> bool {
    if tokens.is_empty() {
        return true;
    }
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .is_some_and(|(_, token)| is_one_of(token.trim().as_bytes(), tokens));
    bearer || cookie(headers).is_some_and(|token| is_one_of(&token, tokens))
}

fn cookie(headers: &HeaderMap) -> Option<Vec<u8>> {
    let cookies = headers.get_all(header::COOKIE).iter();
    cookies
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(name, _)| *name == COOKIE)
        .and_then(|(_, value)| URL_SAFE_NO_PAD.decode(value).ok())
}

/// Compares with every token, in a time that says nothing of how much of one was right.
fn is_one_of(given: &[u8], tokens: &[Secret]) -> bool {
    let mut found = subtle::Choice::from(0);
    for token in tokens.iter().filter(|token| !token.is_empty()) {
        found |= token.expose().as_bytes().ct_eq(given);
    }
    found.into()
}

/// Refuses a change that another site's page asks for.
fn require_same_origin(uri: &Uri, headers: &HeaderMap) -> Result<(), ApiError> {
    let Some(origin) = headers.get(header::ORIGIN) else {
        return Ok(());
    };
    let from = origin
        .to_str()
        .ok()
        .and_then(|origin| origin.split_once("://"))
        .map(|(_, host)| host);
    if from.is_some() && from == host::named(uri, headers) {
        return Ok(());
    }
    Err(ApiError::new(
        StatusCode::FORBIDDEN,
        "other_origin",
        "the request comes from another site's page",
    )
    .hint("a proxy in front must pass the Host header on"))
}
