//! OTLP over gRPC: `LogsService/Export`.
//!
//! The call is unary and its message is walked as bytes, so it is read here rather than through a
//! generated service, whose codec would build message structs first; the frame around the message is
//! five bytes (gRPC over HTTP/2, "Length-Prefixed-Message"). Status, health service and client are tonic's.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, Version};
use axum::response::Response;
use bytes::Bytes;

use super::Door;
use super::body;
use super::caller::{self, Caller, Form};
use super::coding::Coding;
use super::decode::{self, Outcome};
use super::encoding::{Encoding, is_grpc, refuse_at_grpc};
use super::reply::Reject;
use super::response;
use crate::intake::Permit;
use crate::record::Receiver;

/// Path of the method.
pub(super) const EXPORT_PATH: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
/// Compressed flag and message length.
pub(super) const PREFIX_BYTES: usize = 5;

pub(super) async fn export(State(door): State<Arc<Door>>, request: Request) -> Response {
    let peer = caller::peer(request.extensions());
    answer(&door, request, peer).await
}

pub(super) async fn answer(door: &Door, request: Request, peer: Option<SocketAddr>) -> Response {
    let (parts, mut body) = request.into_parts();
    let refused = not_grpc(&parts, &door.config.otlp.path);
    let form = if refused.is_some() {
        Form::Http(Encoding::of_answer(&parts.headers))
    } else {
        Form::Grpc
    };
    let caller = Caller::new(Receiver::OtlpGrpc, form, &parts.headers, peer);
    let called = match refused {
        Some(reject) => Err(reject),
        None => call(door, &parts, &mut body).await,
    };
    match called {
        Ok(outcome) => {
            door.accepted(&caller, &outcome);
            response::grpc(&response::protobuf(&outcome))
        }
        Err(reject) => {
            door.refuse(&caller, reject, &parts.headers, &mut body)
                .await
        }
    }
}

/// Why a request cannot be answered in gRPC at all.
fn not_grpc(parts: &Parts, http_path: &str) -> Option<Reject> {
    if parts.method != Method::POST {
        return Some(Reject::Method("POST"));
    }
    if !is_grpc(&parts.headers) {
        return Some(refuse_at_grpc(&parts.headers, http_path));
    }
    (parts.version < Version::HTTP_2).then(|| {
        Reject::bad_data(format!(
            "gRPC needs HTTP/2, and this came over HTTP/1.1: let the proxy in between speak HTTP/2, \
             or send OTLP over HTTP to {http_path}"
        ))
    })
}

async fn call(door: &Door, parts: &Parts, body: &mut Body) -> Result<Outcome, Reject> {
    let given = timeout(&parts.headers).unwrap_or(Duration::MAX);
    let Some(deadline) = Instant::now().checked_add(given) else {
        let message = receive(door, parts, body).await?;
        return store(door, parts, message, Duration::MAX).await;
    };
    // A client that has given the call up would take its own resend for the first one.
    let received = tokio::time::timeout_at(deadline.into(), receive(door, parts, body)).await;
    let message = received.map_err(|_| Reject::Deadline)??;
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Reject::Deadline);
    }
    store(door, parts, message, left).await
}

/// Reads the call's message and undoes its coding.
async fn receive(door: &Door, parts: &Parts, body: &mut Body) -> Result<(Bytes, Permit), Reject> {
    door.check_token(&parts.headers)?;
    let encoding = parts
        .headers
        .get("grpc-encoding")
        .map_or(&b""[..], HeaderValue::as_bytes);
    let coding = Coding::named(encoding)
        .ok_or_else(|| Reject::Coding(String::from_utf8_lossy(encoding).into_owned()))?;
    let bounds = body::Bounds {
        limit: door.bounds.limit.saturating_add(PREFIX_BYTES),
        ..door.bounds
    };
    let budget = door.intake.budget();
    let read = body::read(&parts.headers, body, bounds, budget, announced).await;
    let (bytes, mut permit) = read.map_err(|reject| match reject {
        Reject::TooLarge { .. } => Reject::TooLarge {
            limit: door.bounds.limit,
            what: "the message is",
            setting: "limits.body",
        },
        other => other,
    })?;
    door.metrics.received(Receiver::OtlpGrpc, bytes.len());
    let message = match message(bytes, coding)? {
        (message, true) => door.unpacker.unpack(coding, message, &mut permit).await?,
        (message, false) => message,
    };
    Ok((message, permit))
}

async fn store(
    door: &Door,
    parts: &Parts,
    (message, permit): (Bytes, Permit),
    wait: Duration,
) -> Result<Outcome, Reject> {
    let identity = door.by_bytes(&parts.headers);
    let walk = decode::decode_protobuf;
    door.take(Receiver::OtlpGrpc, identity, message, permit, wait, walk)
        .await
}

/// The length of the whole call, from the frame around its message.
fn announced(start: &[u8]) -> Option<usize> {
    let [_, length @ ..] = *start.first_chunk::<PREFIX_BYTES>()?;
    Some(PREFIX_BYTES.saturating_add(u32::from_be_bytes(length) as usize))
}

/// Takes the one message out of its frame, and says whether it is compressed.
pub(super) fn message(mut bytes: Bytes, coding: Coding) -> Result<(Bytes, bool), Reject> {
    let Some((prefix, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(Reject::bad_data("the call carries no message".to_owned()));
    };
    let [compressed, length @ ..] = *prefix;
    let (have, length) = (rest.len(), u32::from_be_bytes(length) as usize);
    if have != length {
        return Err(Reject::bad_data(format!(
            "the message has {have} bytes and announces {length}"
        )));
    }
    let message = bytes.split_off(PREFIX_BYTES);
    match compressed {
        0 => Ok((message, false)),
        1 if coding == Coding::Identity => Err(Reject::Framing(
            "the message is flagged as compressed, but there is no grpc-encoding".to_owned(),
        )),
        1 => Ok((message, true)),
        flag => Err(Reject::Framing(format!(
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_22_timeouts_are_read_in_every_unit() {
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
