//! OTLP over HTTP: `POST /v1/logs`, protobuf and JSON.

use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::CONTENT_TYPE;

use super::Door;
use super::body::{self, Coding};
use super::decode::{self, Outcome};
use super::reply::{Encoding, Reject};
use super::response;
use crate::record::Receiver;

pub(super) async fn export(State(door): State<Door>, request: Request) -> Response {
    let encoding = Encoding::of(request.headers());
    match call(&door, request, &encoding).await {
        Ok((encoding, outcome)) => success(encoding, &outcome),
        Err(reject) => {
            door.metrics.refused(Receiver::OtlpHttp, reject.reason());
            reject.into_http(encoding.unwrap_or(Encoding::Json))
        }
    }
}

async fn call(
    door: &Door,
    request: Request,
    encoding: &Result<Encoding, Reject>,
) -> Result<(Encoding, Outcome), Reject> {
    if request.method() != Method::POST {
        return Err(Reject::Method);
    }
    door.tokens
        .check(request.headers())
        .map_err(Reject::Unauthenticated)?;
    let encoding = encoding.clone()?;
    let (parts, body) = request.into_parts();
    let coding = Coding::of(&parts.headers)?;
    let (bytes, mut permit) = body::read(
        &parts.headers,
        body,
        &door.config.limits,
        door.intake.budget(),
    )
    .await?;
    let bytes = body::decompress(
        coding,
        bytes,
        door.config.limits.body.as_usize(),
        &mut permit,
    )?;
    let taken = door
        .take(
            Receiver::OtlpHttp,
            door.by_bytes(&parts.headers),
            bytes,
            permit,
            Duration::MAX,
            |body, context, builder| match encoding {
                Encoding::Protobuf => decode::decode_protobuf(body, context, builder),
                Encoding::Json => decode::decode_json(body, context, builder),
            },
        )
        .await;
    taken.map(|(outcome, _receipt)| (encoding, outcome))
}

/// 200, in the request's encoding: an empty protobuf message or `{}` on full success.
fn success(encoding: Encoding, outcome: &Outcome) -> Response {
    let body = match encoding {
        Encoding::Protobuf => Bytes::from(response::protobuf(outcome)),
        Encoding::Json => Bytes::from(response::json(outcome)),
    };
    (
        [(
            CONTENT_TYPE,
            HeaderValue::from_static(encoding.content_type()),
        )],
        body,
    )
        .into_response()
}
