//! Request bodies: read and decompressed within bounds.

use std::io::Read;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, EXPECT};
use http_body_util::BodyExt;
use tokio::time::{Instant, timeout_at};

use super::reply::Reject;
use crate::config::Limits;
use crate::intake::{Budget, Permit};

/// What is read and thrown away of a body that is too large, so that the answer is not lost in a
/// connection reset while the client still sends.
const DRAIN_BYTES: usize = 1 << 20;
const DRAIN_TIME: Duration = Duration::from_millis(500);
/// Bytes a second that a body comes at on the whole; a slower one holds memory for hours on end.
const SLOWEST: u64 = 4 << 10;
/// Step in which decompressed bytes are taken from the budget.
const STEP: usize = 64 << 10;
/// zstd window, as a power of two: 64 MiB, the most a body may have by default.
const ZSTD_WINDOW_LOG_MAX: u32 = 26;
/// Bodies above this are decompressed off the runtime's own thread: they may unpack to a thousand
/// times their size.
const LONG_UNPACKING: usize = 32 << 10;

/// A content coding that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// zlib format (RFC 1950), which is what `deflate` means in HTTP.
    Deflate,
    Zstd,
}

impl Coding {
    /// What to list in `Accept-Encoding` when another is refused.
    pub(super) const ACCEPTED: &'static str = "gzip, zstd, deflate";

    /// The coding with this name; `None` for one that is not understood.
    pub(super) fn named(name: &[u8]) -> Option<Coding> {
        Some(match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Coding::Identity,
            b"gzip" | b"x-gzip" => Coding::Gzip,
            b"deflate" | b"zlib" => Coding::Deflate,
            b"zstd" => Coding::Zstd,
            _ => return None,
        })
    }

    /// The request's content coding.
    pub(super) fn of(headers: &HeaderMap) -> Result<Coding, Reject> {
        let mut values = headers.get_all(CONTENT_ENCODING).iter();
        let value = values.next().map_or(&b""[..], |value| value.as_bytes());
        match (Coding::named(value), values.next()) {
            (Some(coding), None) => Ok(coding),
            _ => Err(Reject::Coding(String::from_utf8_lossy(value).into_owned())),
        }
    }
}

/// Reads a body of at most `limits.body` bytes.
pub(super) async fn read(
    headers: &HeaderMap,
    mut body: Body,
    limits: &Limits,
    budget: &Budget,
) -> Result<(Bytes, Permit), Reject> {
    let limit = limits.body.as_usize();
    let too_large = Reject::TooLarge {
        limit,
        what: "request body",
    };
    let announced: Option<usize> = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.parse().ok());
    if announced.is_some_and(|length| length > limit) {
        // A client that waits for "100 Continue" has sent nothing yet and will not.
        if !headers.contains_key(EXPECT) {
            drain(body).await;
        }
        return Err(too_large);
    }
    // Whether there is room is asked at once, but room is taken as bytes come: a client that only
    // announces them holds nothing.
    drop(budget.take(announced.unwrap_or(0))?);
    let mut permit = budget.take(0)?;
    let idle = limits.body_timeout.duration();
    let started = Instant::now();
    let mut bytes = BytesMut::new();
    let mut first: Option<Bytes> = None;
    loop {
        let received = bytes.len() + first.as_ref().map_or(0, Bytes::len);
        let due = started + idle + Duration::from_secs(received as u64 / SLOWEST);
        let next = timeout_at(due.min(Instant::now() + idle), body.frame());
        let frame = match next.await.map_err(|_| Reject::BodyTimeout(idle))? {
            None => break,
            Some(Ok(frame)) => frame,
            Some(Err(error)) => {
                return Err(Reject::BadData(format!(
                    "the request body ended early: {error}"
                )));
            }
        };
        let Ok(data) = frame.into_data() else {
            continue;
        };
        let total = received + data.len();
        if total > limit {
            drain(body).await;
            return Err(too_large);
        }
        permit.grow(total.saturating_sub(permit.bytes()))?;
        // Most bodies come in one piece, which is then used where it lies.
        match first.take() {
            None if bytes.is_empty() => first = Some(data),
            earlier => {
                if let Some(earlier) = earlier {
                    bytes.reserve(announced.unwrap_or(total).max(total));
                    bytes.extend_from_slice(&earlier);
                }
                bytes.extend_from_slice(&data);
            }
        }
    }
    Ok((first.unwrap_or_else(|| bytes.freeze()), permit))
}

async fn drain(mut body: Body) {
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

/// Undoes the content coding, up to `limit` bytes; `permit` then holds the decompressed size.
pub(super) fn decompress(
    coding: Coding,
    bytes: Bytes,
    limit: usize,
    permit: &mut Permit,
) -> Result<Bytes, Reject> {
    if coding == Coding::Identity {
        return Ok(bytes);
    }
    let mut work = || match coding {
        Coding::Identity => Ok(bytes.clone()),
        Coding::Gzip => inflate(
            flate2::bufread::MultiGzDecoder::new(&bytes[..]),
            "gzip",
            bytes.len(),
            limit,
            permit,
        ),
        Coding::Deflate => inflate(
            flate2::bufread::ZlibDecoder::new(&bytes[..]),
            "zlib",
            bytes.len(),
            limit,
            permit,
        ),
        Coding::Zstd => {
            let bad = |error| Reject::BadData(format!("the body is not zstd: {error}"));
            let mut decoder = zstd::stream::read::Decoder::with_buffer(&bytes[..]).map_err(bad)?;
            decoder.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(bad)?;
            inflate(decoder, "zstd", bytes.len(), limit, permit)
        }
    };
    if bytes.len() > LONG_UNPACKING {
        tokio::task::block_in_place(work)
    } else {
        work()
    }
}

/// Reads a decoder to its end, never holding more than the limit and a step.
fn inflate(
    mut decoder: impl Read,
    name: &str,
    packed: usize,
    limit: usize,
    permit: &mut Permit,
) -> Result<Bytes, Reject> {
    let mut out = Vec::with_capacity((packed * 4).clamp(STEP, limit.max(STEP)).min(1 << 20));
    let mut filled = 0;
    loop {
        // A read may bring a single byte, as from a gzip of many tiny members: room is made, and
        // zeroed, for what is filled and not for every read.
        if out.len() < filled + STEP / 2 {
            out.resize(filled + STEP, 0);
        }
        let read = match decoder.read(&mut out[filled..]) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return Err(Reject::BadData(format!(
                    "the body is not {name}, or is cut short: {error}"
                )));
            }
        };
        filled += read;
        if filled > limit {
            return Err(Reject::TooLarge {
                limit,
                what: "decompressed request body",
            });
        }
        if filled > permit.bytes() {
            permit.grow(filled - permit.bytes())?;
        }
        if read == 0 {
            out.truncate(filled);
            return Ok(out.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::StreamExt;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpack(coding: Coding, bytes: Vec<u8>, limit: usize) -> Result<Bytes, Reject> {
        let budget = Budget::new(1 << 20);
        decompress(coding, bytes.into(), limit, &mut budget.take(0).unwrap())
    }

    /// Reads a body that announces 100 KiB and sends pieces of so many bytes, one every 20 seconds.
    async fn read_slowly(piece: usize, count: usize, budget: &Budget) -> Result<Bytes, Reject> {
        let pieces = futures_util::stream::iter(0..count).then(move |_| async move {
            tokio::time::sleep(Duration::from_secs(20)).await;
            Ok::<_, std::convert::Infallible>(Bytes::from(vec![7; piece]))
        });
        let headers = HeaderMap::from_iter([(CONTENT_LENGTH, (100 << 10).into())]);
        let body = Body::from_stream(pieces);
        let read = read(&headers, body, &Limits::default(), budget).await;
        read.map(|(bytes, _permit)| bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_only_announced_holds_no_memory() {
        let budget = Budget::new(1 << 20);
        let slow = read_slowly(1 << 10, 9, &budget);
        let after = |seconds| tokio::time::sleep(Duration::from_secs(seconds));
        tokio::pin!(slow);
        for (seconds, used) in [(10, 0), (15, 1 << 10)] {
            tokio::select! {
                read = &mut slow => panic!("{read:?}"),
                () = after(seconds) => assert_eq!(budget.used(), used),
            }
        }
        let full = budget.take((1 << 20) - budget.used()).unwrap();
        assert!(matches!(
            read_slowly(1, 1, &budget).await,
            Err(Reject::Unavailable(_))
        ));
        drop(full);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_trickles_in_is_given_up() {
        let budget = Budget::new(1 << 20);
        let steady = read_slowly(80 << 10, 1, &budget).await;
        assert_eq!(steady.map(|bytes| bytes.len()), Ok(80 << 10));
        let steady = read_slowly(100 << 10, 5, &budget).await;
        assert_eq!(steady.map(|bytes| bytes.len()), Ok(500 << 10));
        let started = Instant::now();
        let trickling = read_slowly(1, 1000, &budget).await;
        assert!(matches!(trickling, Err(Reject::BodyTimeout(_))));
        assert_eq!(started.elapsed(), Duration::from_secs(30));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn gzip_of_several_members_is_read_whole() {
        let mut packed = gzip(b"one ");
        packed.extend(gzip(b"two"));
        assert_eq!(unpack(Coding::Gzip, packed, 100).unwrap(), "one two");
    }

    #[test]
    fn tiny_gzip_members_cost_what_they_hold() {
        let (member, count) = (gzip(b"x"), 200_000);
        let started = std::time::Instant::now();
        let unpacked = unpack(Coding::Gzip, member.repeat(count), 1 << 20).unwrap();
        assert_eq!(unpacked.len(), count);
        // With a step's room zeroed for each of them it would be 13 GB.
        assert!(started.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn truncated_or_mislabelled_bodies_are_bad_data() {
        let mut packed = gzip(&[7; 1000]);
        packed.truncate(packed.len() - 5);
        for (coding, bytes) in [
            (Coding::Gzip, packed),
            (Coding::Gzip, b"plain".to_vec()),
            (Coding::Deflate, b"plain".to_vec()),
            (Coding::Zstd, b"plain".to_vec()),
        ] {
            let result = unpack(coding, bytes, 10_000);
            assert!(
                matches!(result, Err(Reject::BadData(_))),
                "{coding:?}: {result:?}"
            );
        }
    }

    #[test]
    fn bombs_stop_at_the_limit() {
        let zeros = vec![0; 4 << 20];
        let zstd = zstd::encode_all(&zeros[..], 3).unwrap();
        let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        zlib.write_all(&zeros).unwrap();
        for (coding, bytes) in [
            (Coding::Gzip, gzip(&zeros)),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Zstd, zstd),
        ] {
            let result = unpack(coding, bytes, 100_000);
            assert!(
                matches!(result, Err(Reject::TooLarge { limit: 100_000, .. })),
                "{coding:?}"
            );
        }
    }

    #[test]
    fn decompressed_bytes_count_against_the_budget() {
        let budget = Budget::new(200_000);
        let mut permit = budget.take(10).unwrap();
        let result = decompress(
            Coding::Gzip,
            gzip(&vec![0; 300_000]).into(),
            1 << 20,
            &mut permit,
        );
        assert!(matches!(result, Err(Reject::Unavailable(_))));
    }

    #[test]
    fn content_codings_are_told_by_name() {
        for (name, coding) in [
            ("", Some(Coding::Identity)),
            ("GZip", Some(Coding::Gzip)),
            (" zstd ", Some(Coding::Zstd)),
            ("deflate", Some(Coding::Deflate)),
            ("br", None),
            ("gzip, gzip", None),
        ] {
            assert_eq!(Coding::named(name.as_bytes()), coding, "{name}");
        }
    }
}
