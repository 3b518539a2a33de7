//! The native JSON POST: one object, an array, or one object a line.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::Door;
use super::body::{self, Coding};
use super::decode::{self, Outcome};
use super::reply::{Encoding, Reject};
use crate::record::Receiver;

pub(super) async fn accept(State(door): State<Door>, request: Request) -> Response {
    match call(&door, request).await {
        Ok(outcome) => answer(&outcome),
        Err(reject) => {
            door.metrics.refused(Receiver::Json, reject.reason());
            reject.into_http(Encoding::Json)
        }
    }
}

async fn call(door: &Door, request: Request) -> Result<Outcome, Reject> {
    door.tokens
        .check(request.headers())
        .map_err(Reject::Unauthenticated)?;
    let (parts, body) = request.into_parts();
    let coding = Coding::of(&parts.headers)?;
    let limits = &door.config.limits;
    let (bytes, mut permit) =
        body::read(&parts.headers, body, limits, door.intake.budget()).await?;
    let bytes = body::decompress(coding, bytes, limits.body.as_usize(), &mut permit)?;
    let (outcome, _receipt) = door
        .take(
            Receiver::Json,
            door.by_key(&parts.headers),
            bytes,
            permit,
            Duration::MAX,
            decode::decode_native,
        )
        .await?;
    if outcome.accepted == 0 && outcome.rejected > 0 {
        // Nothing was taken, so an answer of 202 would be taken for a success.
        return Err(Reject::BadData(outcome.message.unwrap_or_default()));
    }
    Ok(outcome)
}

/// 202 with what was taken and, by index, what was not.
fn answer(outcome: &Outcome) -> Response {
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
