//! The native JSON POST: one object, an array, or one object a line.

use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::body::{self, Coding};
use super::decode::{self, NativeOutcome};
use super::reply::{Encoding, Reject};
use super::Door;
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

async fn call(door: &Door, request: Request) -> Result<NativeOutcome, Reject> {
    door.tokens.check(request.headers()).map_err(Reject::Unauthenticated)?;
    let (parts, body) = request.into_parts();
    let coding = Coding::of(&parts.headers)?;
    let (bytes, mut permit) = body::read(&parts.headers, body, &door.limits, door.intake.budget()).await?;
    let bytes = body::decompress(coding, bytes, door.limits.body.as_usize(), &mut permit)?;
    let mut rejected = Vec::new();
    let taken = door
        .take(Receiver::Json, bytes, permit, Duration::MAX, |body, context, builder| {
            let native = decode::native(body, context, builder)?;
            rejected = native.rejected;
            Ok(native.outcome)
        })
        .await;
    taken.map(|(outcome, _receipt)| NativeOutcome { outcome, rejected })
}

/// 202 with what was taken and, by index, what was not.
fn answer(outcome: &NativeOutcome) -> Response {
    let rejected: Vec<_> = outcome
        .rejected
        .iter()
        .map(|rejected| json!({ "index": rejected.index, "error": rejected.error }))
        .collect();
    let body = json!({
        "accepted": outcome.outcome.accepted,
        "rejected": rejected,
        "rejected_count": outcome.outcome.rejected,
    });
    (StatusCode::ACCEPTED, Json(body)).into_response()
}
