//! OTLP over gRPC: `LogsService/Export`.
//!
//! The call is unary and its message is walked as bytes, so it is read here rather than through a
//! generated service, whose codec would build message structs first; the frame around the message is
//! five bytes (gRPC over HTTP/2, "Length-Prefixed-Message"). Status, health service and client are tonic's.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};

use super::Door;
use super::body::{self, Coding};
use super::decode::{self, Outcome};
use super::reply::{self, Reject};
use super::response;
use crate::intake::Permit;
use crate::record::Receiver;

/// Path of the method.
pub(super) const EXPORT_PATH: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
/// Compressed flag and message length.
const PREFIX_BYTES: usize = 5;

pub(super) async fn export(State(door): State<Door>, request: Request) -> Response {
    if request.method() != Method::POST || !reply::is_grpc(request.headers()) {
        let text = "this path speaks gRPC: send `content-type: application/grpc`, or POST /v1/logs for OTLP over HTTP";
        return (StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into_response();
    }
    match call(&door, request).await {
        Ok(outcome) => success(&outcome),
        Err(reject) => {
            door.metrics.refused(Receiver::OtlpGrpc, reject.reason());
            reject.into_grpc()
        }
    }
}

async fn call(door: &Door, request: Request) -> Result<Outcome, Reject> {
    door.tokens
        .check(request.headers())
        .map_err(Reject::Unauthenticated)?;
    let (parts, body) = request.into_parts();
    let encoding = parts
        .headers
        .get("grpc-encoding")
        .map_or(&b""[..], HeaderValue::as_bytes);
    let coding = Coding::named(encoding)
        .ok_or_else(|| Reject::Coding(String::from_utf8_lossy(encoding).into_owned()))?;
    let mut limits = door.config.limits.clone();
    limits.body =
        crate::config::ByteSize::bytes(limits.body.as_u64().saturating_add(PREFIX_BYTES as u64));
    let (bytes, mut permit) =
        body::read(&parts.headers, body, &limits, door.intake.budget()).await?;
    let message = message(
        bytes,
        coding,
        door.config.limits.body.as_usize(),
        &mut permit,
    )?;
    let wait = timeout(&parts.headers).unwrap_or(Duration::MAX);
    let (outcome, _receipt) = door
        .take(
            Receiver::OtlpGrpc,
            message,
            permit,
            wait,
            decode::decode_protobuf,
        )
        .await?;
    Ok(outcome)
}

/// Takes the one message out of its frame.
pub(super) fn message(
    mut bytes: Bytes,
    coding: Coding,
    limit: usize,
    permit: &mut Permit,
) -> Result<Bytes, Reject> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Reject::BadData("the call carries no message".to_owned()));
    };
    let [compressed, length @ ..] = *prefix;
    let length = u32::from_be_bytes(length) as usize;
    if rest.len() != length {
        let have = rest.len();
        return Err(Reject::BadData(format!(
            "the message has {have} bytes and announces {length}"
        )));
    }
    if length > limit {
        return Err(Reject::TooLarge {
            limit,
            what: "message",
        });
    }
    let message = bytes.split_off(PREFIX_BYTES);
    match compressed {
        0 => Ok(message),
        1 if coding == Coding::Identity => Err(Reject::BadData(
            "the message is flagged as compressed, but there is no grpc-encoding".to_owned(),
        )),
        1 => body::decompress(coding, message, limit, permit),
        flag => Err(Reject::BadData(format!(
            "the message's compressed flag is {flag}; it may be 0 or 1"
        ))),
    }
}

/// The time the client gives the call: digits and a unit (gRPC over HTTP/2, "Timeout").
pub(super) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    let value = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = value.split_at_checked(value.len().checked_sub(1)?)?;
    // Parsing alone would also take a sign.
    if digits.len() > 8 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let count: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(count * 3600),
        "M" => Duration::from_secs(count * 60),
        "S" => Duration::from_secs(count),
        "m" => Duration::from_millis(count),
        "u" => Duration::from_micros(count),
        "n" => Duration::from_nanos(count),
        _ => return None,
    })
}

/// Status 0 and the response message. An empty one is sent too: some clients take OK without a
/// message for a failure.
fn success(outcome: &Outcome) -> Response {
    let message = response::protobuf(outcome);
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("the error message is at most 1 KiB"));
    framed.put_slice(&message);
    let trailers = HeaderMap::from_iter([(
        http::HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let body = Full::new(framed.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    ([(CONTENT_TYPE, "application/grpc")], Body::new(body)).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_in_every_unit() {
        let read = |text: &str| {
            timeout(&HeaderMap::from_iter([(
                http::HeaderName::from_static("grpc-timeout"),
                text.parse().unwrap(),
            )]))
        };
        assert_eq!(read("3S"), Some(Duration::from_secs(3)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("2H"), Some(Duration::from_secs(7200)));
        assert_eq!(read("99999999u"), Some(Duration::from_micros(99_999_999)));
        for bad in ["", "S", "3", "-1S", "+1S", "123456789S", "é"] {
            let value = HeaderValue::from_bytes(bad.as_bytes()).unwrap();
            let headers =
                HeaderMap::from_iter([(http::HeaderName::from_static("grpc-timeout"), value)]);
            assert_eq!(timeout(&headers), None, "{bad}");
        }
    }
}
