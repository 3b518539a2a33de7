//! Request bodies: read within bounds.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::reply::Reject;
use crate::intake::{Budget, Permit};

/// What is read and thrown away of a body that is refused, so that the answer is not lost in a
/// connection reset while the client still sends, and the connection can be used again.
const DRAIN_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Bytes a second that a body comes at on the whole; a slower one holds memory for hours on end.
const SLOWEST: u64 = 4 << 10;

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
    let started = Instant::now();
    let mut bytes = BytesMut::new();
    let mut first: Option<Bytes> = None;
    loop {
        let held = bytes.len() + first.as_ref().map_or(0, Bytes::len);
        let due = started + pause + Duration::from_secs(held as u64 / SLOWEST);
        let next = timeout_at(due.min(Instant::now() + pause), body.frame());
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

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    /// Reads a body that comes in pieces of so many bytes, one every 20 seconds.
    async fn read_slowly(piece: usize, count: usize, budget: &Budget) -> Result<usize, Reject> {
        let pieces = futures_util::stream::iter(0..count).then(move |_| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok::<_, std::convert::Infallible>(Bytes::from(vec![7; piece]))
        });
        let bounds = Bounds {
            limit: 1 << 20,
            pause: Duration::from_secs(30),
        };
        let mut body = Body::from_stream(pieces);
        let read = read(&HeaderMap::new(), &mut body, bounds, budget, |_| None).await;
        read.map(|(bytes, _permit)| bytes.len())
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_in_is_given_up() {
        let budget = Budget::new(1 << 20);
        assert_eq!(read_slowly(100 << 10, 5, &budget).await, Ok(500 << 10));
        let started = Instant::now();
        let trickling = read_slowly(1, 1000, &budget).await;
        assert!(matches!(trickling, Err(Reject::BodyTimeout(_))));
        assert_eq!(started.elapsed(), Duration::from_secs(30));
        assert_eq!(budget.used(), 0);
    }
}
