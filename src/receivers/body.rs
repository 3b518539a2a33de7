//! Request bodies: read within bounds.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body_util::BodyExt;

use super::reply::Reject;
use crate::intake::{Budget, Permit};

/// What is read and thrown away of a body that is refused, so that the answer is not lost in a
/// connection reset while the client still sends, and the connection can be used again.
const DRAIN_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// The bounds of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// Most bytes.
    pub(super) limit: usize,
    /// Longest pause.
    pub(super) pause: Duration,
}

/// Reads a body. `announced` tells from its first bytes how long it says it is, beside what its
/// headers say: one that is too long is refused before it is read.
///
/// The body stays with the caller, who [`drain`]s it when it is refused.
pub(super) async fn read(
    headers: &HeaderMap,
    body: &mut Body,
    bounds: Bounds,
    budget: &Budget,
    announced: impl Fn(&[u8]) -> Option<usize>,
) -> Result<(Bytes, Permit), Reject> {
    let Bounds { limit, pause } = bounds;
    let too_large = || Reject::TooLarge {
        limit,
        what: "request body",
    };
    let mut expected = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    if expected.is_some_and(|length: usize| length > limit) {
        return Err(too_large());
    }
    // Bytes are taken from the budget as they come: what is merely announced would let a client that
    // sends nothing keep others out.
    let mut permit = budget.take(0)?;
    let mut bytes = BytesMut::new();
    let mut first: Option<Bytes> = None;
    loop {
        let next = tokio::time::timeout(pause, body.frame());
        let frame = match next.await.map_err(|_| Reject::BodyTimeout(pause))? {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let text = format!("the request body ended early: {error}");
                return Err(Reject::bad_data(text));
            }
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let held = bytes.len() + first.as_ref().map_or(0, Bytes::len);
        let total = held + data.len();
        if held == 0 {
            expected = expected.or_else(|| announced(&data));
        }
        if total > limit || expected.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        permit.grow(total.saturating_sub(permit.bytes()))?;
        // Most bodies come in one piece, which is then used where it lies.
        match first.take() {
            None if bytes.is_empty() => first = Some(data),
            earlier => {
                if let Some(earlier) = earlier {
                    bytes.reserve(expected.unwrap_or(total).max(total));
                    bytes.extend_from_slice(&earlier);
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
    Ok((first.unwrap_or_else(|| bytes.freeze()), permit))
}

/// Throws away a bounded part of a body that is refused.
pub(super) async fn drain(headers: &HeaderMap, body: &mut Body) {
    // A client that waits for "100 Continue" has sent nothing yet; reading would ask it to.
    if headers.contains_key(EXPECT) {
        return;
    }
    let mut left = DRAIN_BYTES;
    let work = async {
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, Bytes::len));
            if left == 0 {
                break;
            }
        }
    };
    // Running out of time is as good an end as any.
    tokio::time::timeout(DRAIN_TIME, work)
        .await
        .unwrap_or_default();
}
