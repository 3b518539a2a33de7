//! Request bodies: read within bounds.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use bytes::Bytes;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, EXPECT};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::reply::Reject;
use crate::buffers;
use crate::intake::{self, Budget, Permit};

/// What is read and thrown away of a body that is refused, so that the answer is not lost in a
/// connection reset while the client still sends, and the connection can be used again.
const DRAIN_BYTES: usize = 8 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// What a sender is told whose body was in the way.
const GAVE_WAY: &str = "the request came slowly, or is large, and others needed the memory that it held; see \
                        `limits.in_flight`";
/// How often, and after what pause each time, it is looked whether others have given way.
const ROOM_TRIES: u32 = 50;
const ROOM_PAUSE: Duration = Duration::from_millis(10);
/// Bytes a second that a body comes at; a slower one holds memory for hours on end.
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
        what: "the request body is",
        setting: "limits.body",
    };
    let mut expected = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    if expected.is_some_and(|length: usize| length > limit) {
        return Err(too_large());
    }
    // Memory is taken from the budget as bytes come: what is merely announced would let a client that
    // sends nothing keep others out.
    let mut permit = budget.take(0)?;
    // Each byte earns time, but never more than the pause: what came fast at first may not trickle
    // later.
    let mut due = Instant::now() + pause;
    let mut bytes = Vec::new();
    let mut first: Option<Bytes> = None;
    loop {
        let held = bytes.len() + first.as_ref().map_or(0, Bytes::len);
        let next = tokio::select! {
            biased;
            next = timeout_at(due, body.frame()) => next,
            () = permit.must_give_way() => return Err(Reject::Unavailable(GAVE_WAY.to_owned())),
        };
        let frame = match next.map_err(|_| Reject::BodyTimeout(pause))? {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                let text = format!(
                    "the request body ended early, or is not what its headers say: {error}"
                );
                return Err(Reject::bad_data(text));
            }
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let total = held + data.len();
        let earned = Duration::from_micros(data.len() as u64 * 1_000_000 / SLOWEST);
        due = (due + earned).min(Instant::now() + pause);
        if held == 0 {
            expected = expected.or_else(|| announced(&data));
        }
        if total > limit || expected.is_some_and(|length| length > limit) {
            return Err(too_large());
        }
        // Most bodies come in one piece, which is then used where it lies.
        let in_one_piece = first.is_none() && bytes.is_empty();
        let room = if in_one_piece || total <= permit.bytes() {
            total
        } else {
            room(total, expected.unwrap_or(limit))
        };
        let more = room.saturating_sub(permit.bytes());
        if body.is_end_stream() || expected == Some(total) {
            permit.received();
            permit.grow(more)?;
        } else {
            receive(&mut permit, more).await?;
        }
        if in_one_piece {
            first = Some(data);
            continue;
        }
        buffers::grow(&mut bytes, room);
        if let Some(first) = first.take() {
            bytes.extend_from_slice(&first);
        }
        bytes.extend_from_slice(&data);
    }
    permit.received();
    Ok((first.unwrap_or_else(|| buffers::share(bytes)), permit))
}

/// Takes more bytes for a body under way. Where others hold them that are larger, or come slowly, those give way.
async fn receive(permit: &mut Permit, bytes: usize) -> Result<(), Reject> {
    for _ in 0..ROOM_TRIES {
        match permit.receive(bytes) {
            Err(intake::Error::Receiving { .. }) if permit.make_room(bytes) => {
                tokio::time::sleep(ROOM_PAUSE).await;
            }
            result => return Ok(result?),
        }
    }
    Ok(permit.receive(bytes)?)
}

/// The room to make for a body of which `total` bytes are there: twice as much, so that it is seldom
/// copied, but never for more than `expected`. What is announced need not come, and room that is only
/// reserved may be memory all the same, where the system hands it out in huge pages.
fn room(total: usize, expected: usize) -> usize {
    total.saturating_mul(2).min(expected).max(total)
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
        read_pieces(vec![(20_000, piece); count], budget).await
    }

    /// Reads a body of pieces, each given by the milliseconds before it and its bytes. Its length is
    /// announced.
    async fn read_pieces(pieces: Vec<(u64, usize)>, budget: &Budget) -> Result<usize, Reject> {
        let length: usize = pieces.iter().map(|(_, bytes)| bytes).sum();
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, length.into())]);
        let pieces = futures_util::stream::iter(pieces).then(|(pause, bytes)| async move {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            Ok::<_, std::convert::Infallible>(Bytes::from(vec![7; bytes]))
        });
        let bounds = Bounds {
            limit: 1 << 20,
            pause: Duration::from_secs(30),
        };
        let mut body = Body::from_stream(pieces);
        let read = read(&headers, &mut body, bounds, budget, |_| None).await;
        read.map(|(bytes, _permit)| bytes.len())
    }

    /// Reads a body that announces so many bytes, or none, until its first pieces are there; then it
    /// stalls. Gives back what is taken from the budget by then.
    async fn stall(announced: Option<usize>, pieces: &[usize]) -> usize {
        let budget = Budget::new(1 << 30);
        let pieces: Vec<_> = pieces.iter().map(|bytes| vec![7; *bytes]).collect();
        let pieces = futures_util::stream::iter(pieces.into_iter().map(Bytes::from))
            .map(Ok::<_, std::convert::Infallible>)
            .chain(futures_util::stream::pending());
        let bounds = Bounds {
            limit: 64 << 20,
            pause: Duration::from_secs(30),
        };
        let mut body = Body::from_stream(pieces);
        let announced = |_: &[u8]| announced;
        let headers = HeaderMap::new();
        let reading = read(&headers, &mut body, bounds, &budget, announced);
        let stalled = tokio::time::timeout(Duration::from_secs(1), reading);
        let watch = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            budget.used()
        };
        let (stalled, used) = tokio::join!(stalled, watch);
        assert!(stalled.is_err(), "it ended");
        used
    }

    #[tokio::test(start_paused = true)]
    async fn a_stalled_body_holds_twice_what_came_at_most_and_the_budget_knows() {
        for announced in [None, Some(62_000_000)] {
            assert_eq!(stall(announced, &[100_000]).await, 100_000);
            assert_eq!(stall(announced, &[60_000, 40_000]).await, 200_000);
            // Room that is there already is not taken twice.
            assert_eq!(stall(announced, &[60_000, 40_000, 50_000]).await, 200_000);
            assert_eq!(stall(announced, &[60_000, 40_000, 100_001]).await, 400_002);
        }
        assert_eq!(stall(Some(110_000), &[60_000, 40_000]).await, 110_000);
    }

    #[test]
    fn room_is_made_by_doubling_within_what_is_expected() {
        assert_eq!(room(100, 62_000_000), 200);
        assert_eq!(room(100, 150), 150);
        assert_eq!(room(100, 20), 100);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_in_is_given_up() {
        let budget = Budget::new(1 << 20);
        assert_eq!(read_slowly(100 << 10, 5, &budget).await, Ok(500 << 10));
        let started = Instant::now();
        let trickling = read_slowly(1, 1000, &budget).await;
        assert!(matches!(trickling, Err(Reject::BodyTimeout(_))));
        assert_eq!(started.elapsed().as_secs(), 30);
        assert_eq!(budget.used(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_came_fast_at_first_may_not_trickle_later() {
        let budget = Budget::new(4 << 20);
        let mut pieces = vec![(0, 900 << 10)];
        pieces.extend([(10_000, 100); 1000]);
        let started = Instant::now();
        let trickling = read_pieces(pieces, &budget).await;
        assert!(matches!(trickling, Err(Reject::BodyTimeout(_))));
        assert!(started.elapsed() <= Duration::from_secs(31));
        // At the slowest speed there is, for hours.
        let slow = vec![(1000, SLOWEST as usize); 255];
        assert_eq!(read_pieces(slow, &budget).await, Ok(255 << 12));
    }

    /// Reads a body of which the first piece is there and nothing more comes.
    async fn read_half(bytes: usize, budget: &Budget) -> Result<usize, Reject> {
        let first =
            futures_util::stream::iter([Ok::<_, std::convert::Infallible>(Bytes::from(vec![
                7;
                bytes
            ]))]);
        let mut body = Body::from_stream(first.chain(futures_util::stream::pending()));
        let bounds = Bounds {
            limit: 1 << 20,
            pause: Duration::from_secs(30),
        };
        let read = read(&HeaderMap::new(), &mut body, bounds, budget, |_| None).await;
        read.map(|(bytes, _permit)| bytes.len())
    }

    /// Case: one body that fills the half and stalls, and many that fill it together; then others come in pieces.
    /// Holds: those in the way give way, and are told to come back; the others are taken.
    #[tokio::test(start_paused = true)]
    async fn large_and_slow_bodies_give_way_to_others() {
        for (count, bytes) in [(1, 500 << 10), (20, 25 << 10)] {
            let budget = Budget::new(1000 << 10);
            let stalled = (0..count).map(|_| read_half(bytes, &budget));
            let stalled = futures_util::future::join_all(stalled);
            let others = async {
                tokio::time::sleep(Duration::from_millis(1100)).await;
                let mut taken = 0;
                for _ in 0..10 {
                    let pieces = vec![(5, 30 << 10); 3];
                    taken += usize::from(read_pieces(pieces, &budget).await.is_ok());
                }
                taken
            };
            let (stalled, taken) = tokio::join!(stalled, others);
            assert_eq!(taken, 10, "{count} bodies of {bytes}");
            let given_way = stalled
                .iter()
                .filter(|read| matches!(read, Err(Reject::Unavailable(_))));
            assert!(given_way.count() > 0);
            assert_eq!(budget.used(), 0);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_leave_room_for_those_that_are_there() {
        let budget = Budget::new(100 << 10);
        let slow = || read_pieces(vec![(0, 20 << 10), (5000, 1)], &budget);
        let whole = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let bounds = Bounds {
                limit: 1 << 20,
                pause: Duration::from_secs(30),
            };
            let mut body = Body::from(vec![7; 50 << 10]);
            let read = read(&HeaderMap::new(), &mut body, bounds, &budget, |_| None).await;
            read.map(|(bytes, _permit)| bytes.len())
        };
        let (a, b, c, whole) = tokio::join!(slow(), slow(), slow(), whole);
        assert_eq!((a, b), (Ok((20 << 10) + 1), Ok((20 << 10) + 1)));
        assert!(matches!(c, Err(Reject::Unavailable(_))), "{c:?}");
        assert_eq!(whole, Ok(50 << 10));
        assert_eq!(budget.used(), 0);
    }
}
