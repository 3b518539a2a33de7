//! The queue: what holds frames between acknowledgement and ClickHouse.
//!
//! The contract, for both implementations:
//!
//! - [`Queue::append`] fixes a frame's place when it is *called*, in call order, and is durable when
//!   its future returns. Dropping the future does not take the frame back.
//! - [`Queue::claim`] takes the oldest frames, *seals* them (from then on this claim's content never
//!   changes, whatever crashes) and hands them out with a token that names their content.
//! - [`Queue::ack`] forgets a claim once the store has it. Until then every restart hands the same
//!   claim out again, whole and with the same token, before anything newer.
//! - Frames come out in the order in which they went in.

pub mod dead;
pub mod disk;
pub mod redis;
pub mod spill;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::Either;

use crate::config::{Config, QueueKind};
use crate::frame::Frame;

/// Directory of the disk queue, inside the state directory.
const QUEUE: &str = "queue";

/// Why the queue did not do what was asked.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The cap is reached. Nothing was written.
    #[error("queue is full: {used} of {cap} bytes used; see `queue.disk.max_bytes`")]
    Full {
        /// Bytes the queue holds.
        used: u64,
        /// Bytes it may hold.
        cap: u64,
    },
    /// The disk is nearly full. Nothing was written.
    #[error(
        "disk is nearly full: {free} bytes free, {floor} to be left; see `queue.disk.min_free`"
    )]
    DiskLow {
        /// Bytes free.
        free: u64,
        /// Bytes that must stay free.
        floor: u64,
    },
    /// The disk refused a write or an fsync.
    #[error("queue {what} failed on {path}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The file.
        path: String,
        /// What the system said.
        source: Arc<std::io::Error>,
    },
    /// Too much waits for the disk or for Redis already. Nothing was written.
    #[error("queue is busy: {waiting} bytes wait to be written, {cap} may")]
    Busy {
        /// Bytes that wait.
        waiting: u64,
        /// Bytes that may wait.
        cap: u64,
    },
    /// Another process has the queue's directory.
    #[error("{path} is in use: another watchtower runs with this `state_dir`")]
    Locked {
        /// The directory.
        path: String,
    },
    /// Redis is away or refuses writes; the text has Redis's own words.
    #[error("redis does not take writes: {0}")]
    Redis(String),
    /// The queue is being closed.
    #[error("queue is closed")]
    Closed,
}

/// When a claim is due. The first that is reached decides.
#[derive(Debug, Clone, Copy)]
pub struct ClaimLimits {
    /// Most records of a claim (a single larger frame is a claim by itself).
    pub rows: usize,
    /// Most bytes of a claim (likewise).
    pub bytes: usize,
    /// Longest time that the oldest frame waits for company.
    pub delay: Duration,
}

/// Frames on loan to the store, sealed. Dropping it leaves it sealed: the next start hands it out
/// again under the same token.
#[derive(Debug, Clone)]
#[must_use = "a claim that is not acknowledged is handed out again at the next start"]
pub struct Claim {
    /// Names the content: first and last id, count, checksum. The store's deduplication token.
    pub token: String,
    /// The frames, oldest first.
    pub frames: Vec<Frame>,
    /// When it was sealed, in milliseconds since the epoch; not renewed by a redelivery.
    pub sealed_at: i64,
    /// Whether it was handed out before, so that the store may already have it.
    pub redelivered: bool,
    /// Which claim of its queue this is.
    pub(crate) key: ClaimKey,
}

/// How each implementation finds its claim again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ClaimKey {
    Disk(u64),
    Redis(String),
}

/// What waits in the queue, sealed claims included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Depth {
    /// Frames.
    pub frames: u64,
    /// Records by receiver, in the order of `Receiver::ALL`.
    pub records: [u64; 3],
    /// Bytes.
    pub bytes: u64,
    /// When the oldest frame was sealed, in milliseconds since the epoch.
    pub oldest: Option<i64>,
}

impl Depth {
    /// Both together.
    fn with(self, other: Depth) -> Depth {
        let [a, b, c] = self.records;
        let [d, e, f] = other.records;
        Depth {
            frames: self.frames + other.frames,
            records: [a + d, b + e, c + f],
            bytes: self.bytes + other.bytes,
            oldest: match (self.oldest, other.oldest) {
                (Some(one), Some(two)) => Some(one.min(two)),
                (one, two) => one.or(two),
            },
        }
    }
}

/// The token that names these frames: a claim of the same content always has the same token, and
/// another content never the same, because ClickHouse silently drops what comes under a used token.
#[must_use]
pub fn token(frames: &[Frame]) -> String {
    let mut checksum = 0;
    let mut num_records = 0u64;
    for frame in frames {
        checksum = crc32c::crc32c_append(checksum, &frame.header().body_checksum.to_le_bytes());
        num_records += u64::from(frame.header().num_records);
    }
    let first = frames.first().map_or(0, |frame| frame.header().first_id);
    let last = frames.last().map_or(0, |frame| frame.header().last_id);
    format!("{first:016x}-{last:016x}-{num_records}-{checksum:08x}")
}

/// The name in a file, which is made with a random one if it is missing.
fn worker_name(path: &Path) -> Result<String, Error> {
    let known = std::fs::read_to_string(path).unwrap_or_default();
    let known = known.trim();
    if (1..=64).contains(&known.len())
        && known
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-')
    {
        return Ok(known.to_owned());
    }
    let random = getrandom::u64().map_err(std::io::Error::other);
    random
        .and_then(|random| {
            let name = format!("{random:016x}");
            match crate::state_file::replace(path, name.as_bytes()) {
                // Claims made under the name are taken over once its lease has run out.
                Err(error) if crate::state_file::is_no_room(&error) => {
                    tracing::error!(%error, path = %path.display(), "no room to keep the name of this daemon's worker; the next start takes another");
                }
                written => written?,
            }
            Ok(name)
        })
        .map_err(|source| Error::Io {
            what: "naming the worker",
            path: path.display().to_string(),
            source: Arc::new(source),
        })
}

/// Whether a disk queue's directory holds anything.
fn has_segments(dir: &Path) -> bool {
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    files
        .map(|file| file.path())
        .any(|path| path.extension().is_some_and(|kind| kind == "seg"))
}

/// Milliseconds since the epoch.
fn now_ms() -> i64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| {
            i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
        })
}

/// One of the two queues.
#[derive(Clone)]
pub enum Queue {
    /// Segment files under the state directory.
    Disk(disk::DiskQueue),
    /// A list in Redis.
    Redis(redis::RedisQueue),
}

impl Queue {
    /// Opens the queue that the configuration names: the disk queue in `<state_dir>/queue`, or the one
    /// in Redis as a worker whose name is kept in `<state_dir>/worker`, with its spill and whatever a disk queue before it has left. Blocks while the disk is
    /// looked through.
    ///
    /// # Errors
    /// When the state directory cannot be used, or Redis's URL. Redis itself may be away.
    ///
    /// # Panics
    /// With Redis, outside of a tokio runtime.
    pub fn open(config: &Config) -> Result<Queue, Error> {
        let state = &config.state_dir;
        match config.queue.kind {
            QueueKind::Disk => {
                let queue = disk::DiskQueue::open(&state.join(QUEUE), &config.queue.disk)?;
                let spill = state.join(spill::DIR);
                if has_segments(&spill) {
                    tracing::warn!(path = %spill.display(), "records that wait for redis are not delivered while `queue.kind` is not redis");
                }
                Ok(Queue::Disk(queue))
            }
            QueueKind::Redis => {
                let dead = dead::DeadLetters::open(&state.join(dead::DIR))?;
                let worker = worker_name(&state.join("worker"))?;
                let spill = Some(spill::Spill::open(config)?);
                let old = state.join(QUEUE);
                let old = if has_segments(&old) {
                    Some(disk::DiskQueue::open(&old, &config.queue.disk)?)
                } else {
                    None
                };
                let queue =
                    redis::RedisQueue::open_with(&config.queue.redis, &worker, dead, spill, old)?;
                Ok(Queue::Redis(queue))
            }
        }
    }

    /// Why the queue does not take frames at the moment, for readiness.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        match self {
            Queue::Disk(queue) => queue.last_error(),
            Queue::Redis(queue) => queue.last_error(),
        }
    }

    /// Appends a frame behind all that were appended before. The place is fixed by the call; the
    /// future resolves once the frame is durable, or was not written at all.
    ///
    /// # Errors
    /// When nothing was written: the queue is full, the disk or Redis refuses, or it is closed.
    pub fn append(&self, frame: Frame) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        let appended = match self {
            Queue::Disk(queue) => Either::Left(queue.append(frame)),
            Queue::Redis(queue) => Either::Right(queue.append(frame)),
        };
        async move {
            match appended {
                Either::Left(disk) => disk.await,
                Either::Right(redis) => redis.await,
            }
        }
    }

    /// Waits until a claim is due and hands it out, sealed. Cancel safe: a claim that was sealed but
    /// not handed out comes out of the next call.
    ///
    /// # Errors
    /// When the disk or Redis fails; the same call may succeed later.
    pub async fn claim(&self, limits: &ClaimLimits) -> Result<Claim, Error> {
        match self {
            Queue::Disk(queue) => queue.claim(limits).await,
            Queue::Redis(queue) => queue.claim(limits).await,
        }
    }

    /// Hands out what there is up to the limits, at once; `None` when nothing waits.
    ///
    /// # Errors
    /// As [`Queue::claim`].
    pub async fn try_claim(&self, limits: &ClaimLimits) -> Result<Option<Claim>, Error> {
        match self {
            Queue::Disk(queue) => queue.try_claim(limits).await,
            Queue::Redis(queue) => queue.try_claim(limits).await,
        }
    }

    /// Forgets a claim that the store has. May be repeated.
    ///
    /// # Errors
    /// When the disk or Redis fails; the claim then stays, and a redelivery is harmless.
    pub async fn ack(&self, claim: &Claim) -> Result<(), Error> {
        match self {
            Queue::Disk(queue) => queue.ack(claim).await,
            Queue::Redis(queue) => queue.ack(claim).await,
        }
    }

    /// Digests of requests in frames that wait and were sealed since this time, in milliseconds since
    /// the epoch, with those times.
    ///
    /// # Errors
    /// When the disk or Redis fails.
    pub async fn digests(&self, since: i64) -> Result<Vec<([u8; 16], i64)>, Error> {
        match self {
            Queue::Disk(queue) => {
                let queue = queue.clone();
                let read = tokio::task::spawn_blocking(move || queue.digests(since)).await;
                read.unwrap_or(Err(Error::Closed))
            }
            Queue::Redis(queue) => queue.digests(since).await,
        }
    }

    /// Stretches of files found damaged and set aside since the start, and the records that were
    /// counted as queued and were lost with them, by receiver.
    #[must_use]
    pub fn damaged(&self) -> (u64, [u64; 3]) {
        match self {
            Queue::Disk(queue) => queue.damaged(),
            Queue::Redis(queue) => queue.damaged(),
        }
    }

    /// What waits, sealed claims included.
    pub async fn depth(&self) -> Depth {
        match self {
            Queue::Disk(queue) => queue.depth(),
            Queue::Redis(queue) => queue.depth().await,
        }
    }

    /// Stops taking frames and makes what was taken durable. Sealed claims stay for the next start.
    pub async fn close(&self) {
        match self {
            Queue::Disk(queue) => queue.close().await,
            Queue::Redis(queue) => queue.close().await,
        }
    }
}

/// Frames for tests.
#[cfg(test)]
pub(crate) mod testing {
    use crate::frame::{Frame, Seal};

    /// A frame of so many records and about so many bytes, whose content depends on its id.
    pub(crate) fn frame(id: u64, records: u32, bytes: usize) -> Frame {
        let seal = Seal {
            node: 1,
            first_id: id,
            sealed_at: 1_700_000_000_000 + id.cast_signed(),
            digests: vec![],
        };
        Frame::seal(&seal, [0, 0, records], bytes, |out| {
            let mut x = id | 1;
            for _ in 0..bytes {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                out.push((x >> 56) as u8);
            }
        })
    }
}
