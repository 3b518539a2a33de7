//! The native JSON POST: one object, an array, or one object a line.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use http::HeaderValue;
use http::header::{CONTENT_TYPE, ORIGIN};
use serde_json::json;

use super::Door;
use super::caller::{self, Caller, Form};
use super::coding::Coding;
use super::cors;
use super::decode::{self, Outcome};
use super::encoding::{Encoding, check_plain_json};
use super::reply::Reject;
use crate::record::Receiver;

pub(super) async fn accept(State(door): State<Arc<Door>>, request: Request) -> Response {
    let peer = caller::peer(request.extensions());
    answer(&door, request, peer).await
}

pub(super) async fn answer(door: &Door, request: Request, peer: Option<SocketAddr>) -> Response {
    let (parts, mut body) = request.into_parts();
    let caller = caller(&parts, peer);
    match call(door, &parts, &mut body).await {
        Ok(outcome) => {
            door.accepted(&caller, &outcome);
            taken(&outcome)
        }
        Err(reject) => {
            door.refuse(&caller, reject, &parts.headers, &mut body)
                .await
        }
    }
}

/// Answers `OPTIONS` where it is not a preflight of a page that may send.
pub(super) async fn options(State(door): State<Arc<Door>>, request: Request) -> Response {
    let (parts, mut body) = request.into_parts();
    let reject = Reject::Method("GET, HEAD, POST, OPTIONS");
    let caller = caller(&parts, caller::peer(&parts.extensions));
    door.refuse(&caller, reject, &parts.headers, &mut body)
        .await
}

fn caller(parts: &Parts, peer: Option<SocketAddr>) -> Caller {
    let form = Form::Http(Encoding::Json);
    Caller::new(Receiver::Json, form, &parts.headers, peer)
}

async fn call(door: &Door, parts: &Parts, body: &mut Body) -> Result<Outcome, Reject> {
    check_origin(door, parts)?;
    door.check_token(&parts.headers)?;
    check_plain_json(&parts.headers)?;
    let coding = Coding::of(&parts.headers)?;
    let receiver = Receiver::Json;
    let (bytes, permit) = door.read(receiver, &parts.headers, body, coding).await?;
    let walk = decode::decode_native;
    let outcome = door
        .take(
            receiver,
            door.by_key(&parts.headers),
            bytes,
            permit,
            Duration::MAX,
            walk,
        )
        .await?;
    if outcome.accepted == 0 && outcome.rejected > 0 {
        // Nothing was taken, so an answer of 202 would be taken for a success.
        return Err(Reject::bad_data(outcome.message.unwrap_or_default()));
    }
    Ok(outcome)
}

/// A body of plain JSON may come without a content type, and so from any page a visitor of this
/// machine has open, without the browser asking first. Pages say where they come from.
fn check_origin(door: &Door, parts: &Parts) -> Result<(), Reject> {
    let Some(origin) = parts.headers.get(ORIGIN) else {
        return Ok(());
    };
    let text = String::from_utf8_lossy(origin.as_bytes());
    let host = text.split_once("://").map(|(_, host)| host);
    let own = crate::api::named_host(&parts.uri, &parts.headers);
    if (host.is_some() && host == own) || cors::is_allowed(&door.config, origin) {
        return Ok(());
    }
    Err(Reject::Origin(text.into_owned()))
}

/// 202 with what was taken and, by index, what was not.
fn taken(outcome: &Outcome) -> Response {
    if outcome.rejected == 0 && outcome.message.is_none() {
        let body = format!(r#"{{"accepted":{},"rejected":[]}}"#, outcome.accepted);
        let json = HeaderValue::from_static(Encoding::Json.content_type());
        return (StatusCode::ACCEPTED, [(CONTENT_TYPE, json)], body).into_response();
    }
    let rejected: Vec<_> = outcome
        .rejections
        .iter()
        .map(|rejection| json!({ "index": rejection.index, "error": rejection.error }))
        .collect();
    let mut body = json!({ "accepted": outcome.accepted, "rejected": rejected });
    if outcome.rejections.len() < outcome.rejected as usize {
        body["rejected_count"] = outcome.rejected.into();
    }
    if let Some(message) = &outcome.message {
        body["message"] = message.as_str().into();
    }
    (StatusCode::ACCEPTED, Json(body)).into_response()
}
