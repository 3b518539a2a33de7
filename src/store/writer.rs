//! The writer: takes claims from the queue, inserts each with one INSERT, acknowledges it.
//!
//! Exactly once rests on three things. A claim's content never changes. Whatever was tried before
//! (this attempt is not the first, the claim comes out again after a restart, or it is taken apart) is
//! inserted without the rows whose ids are there already ([`insert::Insert::missing`]). And an
//! earlier attempt that still runs at the server keeps a later one out, as both have the same query id.
//!
//! ClickHouse's own deduplication by token is a second net and not the first: it notes a token before
//! it commits the part, so that a server killed between the two remembers rows that it does not have.
//! A repeat under the token alone lost whole claims that way.
//!
//! Nothing is given up on but data that ClickHouse cannot read: that claim is halved until the bad
//! frame is alone, and the frame is buried as a dead letter. Everything else is tried for ever, with
//! growing pauses; meanwhile the queue holds what comes. A damaged block makes ClickHouse fail with
//! almost any code (out of memory, syntax error, …), so where the code says nothing certain, our own
//! decoder is asked whether the frame is a block at all.

mod backoff;
mod insert;
mod replay;
mod status;

use std::pin::pin;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

pub use status::WriterStatus;

use self::backoff::Backoff;
use self::insert::Insert;
use super::{Client, Error, Kind, Schema};
use crate::config::Config;
use crate::frame::{Block, Frame};
use crate::queue::dead::{DeadLetters, Reason};
use crate::queue::{Claim, ClaimLimits, Queue};

/// Attempts that fail with a code that says nothing certain, before the frames are suspected.
const PATIENT_ATTEMPTS: u32 = 3;

/// Moves claims from the queue into ClickHouse.
pub struct Writer {
    queue: Queue,
    client: Client,
    schema: Schema,
    dead: DeadLetters,
    limits: ClaimLimits,
    insert: Insert,
    /// How much slower and larger than configured, because of too many parts; 1 to 16.
    stretch: u32,
    tables_ready: bool,
    status: watch::Sender<WriterStatus>,
}

impl Writer {
    /// A writer from `queue` to `client`'s server.
    #[must_use]
    pub fn new(queue: Queue, client: Client, dead: DeadLetters, config: &Config) -> Writer {
        let schema = Schema::new(config);
        Writer {
            insert: Insert::new(client.clone(), &schema.table(), &config.store),
            queue,
            client,
            schema,
            dead,
            limits: ClaimLimits {
                rows: config.store.batch_rows,
                bytes: config.store.batch_bytes.as_usize(),
                delay: config.store.batch_delay.duration(),
            },
            stretch: 1,
            tables_ready: false,
            status: watch::Sender::default(),
        }
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<WriterStatus> {
        self.status.subscribe()
    }

    /// Writes until `shutdown` resolves, then until the queue is empty. The caller bounds that time;
    /// dropping the future at any moment loses nothing, as what is not acknowledged stays sealed.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut draining = tokio::select! {
            () = self.make_tables() => false,
            () = &mut shutdown => true,
        };
        let mut backoff = Backoff::default();
        let mut replays = replay::interval();
        loop {
            let limits = self.stretched();
            let claim = if draining {
                self.queue.try_claim(&limits).await
            } else {
                tokio::select! {
                    claim = self.queue.claim(&limits) => claim.map(Some),
                    _ = replays.tick() => {
                        self.replay().await;
                        continue;
                    }
                    () = &mut shutdown => {
                        draining = true;
                        continue;
                    }
                }
            };
            match claim {
                Ok(Some(claim)) => {
                    backoff = Backoff::default();
                    self.store(claim).await;
                }
                Ok(None) | Err(crate::queue::Error::Closed) => return,
                Err(error) => {
                    warn!(%error, "queue gives no frames, will ask again");
                    backoff.pause(None).await;
                }
            }
        }
    }

    /// Inserts a claim, however long it takes, and acknowledges it.
    async fn store(&mut self, claim: Claim) {
        let mut backoff = Backoff::default();
        loop {
            let started = Instant::now();
            // A claim that nobody tried before cannot be there.
            let was_tried = claim.redelivered || backoff.attempts() > 0;
            let result = if was_tried {
                self.insert.missing(&claim.frames).await
            } else {
                self.insert.whole(&claim.token, &claim.frames).await
            };
            let error = match result {
                Ok(()) => {
                    self.stored(&claim.frames, started.elapsed());
                    break;
                }
                Err(error) => error,
            };
            if is_suspect(&error, &claim.frames, backoff.attempts()) {
                warn!(%error, frames = claim.frames.len(), "insert failed, claim is taken apart");
                self.store_apart(&claim.frames).await;
                break;
            }
            self.failed(&error, &mut backoff).await;
        }
        self.acknowledge(&claim).await;
    }

    /// Inserts a claim's frames in halves, buries those that ClickHouse cannot read.
    async fn store_apart(&mut self, frames: &[Frame]) {
        let mut backoff = Backoff::default();
        let mut waiting = vec![frames];
        while let Some(part) = waiting.pop() {
            let started = Instant::now();
            let error = match self.insert.missing(part).await {
                Ok(()) => {
                    backoff = Backoff::default();
                    self.stored(part, started.elapsed());
                    continue;
                }
                Err(error) => error,
            };
            match part {
                [frame] if is_bad(&error, frame) => self.bury(frame, &error).await,
                [_, _, ..] if is_suspect(&error, part, PATIENT_ATTEMPTS) => {
                    let (older, newer) = part.split_at(part.len() / 2);
                    waiting.extend([newer, older]);
                }
                _ => {
                    waiting.push(part);
                    self.failed(&error, &mut backoff).await;
                }
            }
        }
    }

    /// Buries a frame; tries until the disk takes it, for the claim is forgotten afterwards.
    async fn bury(&mut self, frame: &Frame, refused: &Error) {
        let header = frame.header();
        let reason = Reason {
            code: refused.code(),
            message: refused.to_string(),
        };
        let mut backoff = Backoff::default();
        loop {
            let (dead, frame, reason) = (self.dead.clone(), frame.clone(), reason.clone());
            let buried = tokio::task::spawn_blocking(move || dead.bury(&frame, &reason)).await;
            match buried.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic())) {
                Ok(()) => break,
                Err(error) => {
                    warn!(%error, "frame cannot be buried, will try again");
                    backoff.pause(None).await;
                }
            }
        }
        error!(
            error = %refused,
            first_id = header.first_id,
            num_records = header.num_records,
            "clickhouse cannot read a frame; it is among the dead letters"
        );
        self.status.send_modify(|status| status.add_buried(frame));
    }

    async fn acknowledge(&self, claim: &Claim) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.queue.ack(claim).await {
            warn!(%error, "claim cannot be acknowledged, will try again");
            backoff.pause(None).await;
        }
    }

    fn stored(&mut self, frames: &[Frame], took: Duration) {
        self.stretch = self.stretch.saturating_sub(1).max(1);
        self.status.send_modify(|status| {
            if status.error.is_some() {
                info!("inserts work again");
            }
            status.add_stored(frames, took);
        });
        debug!(frames = frames.len(), ?took, "inserted");
    }

    /// Notes a failure that may pass, and waits before the next attempt.
    async fn failed(&mut self, error: &Error, backoff: &mut Backoff) {
        self.note(error, "insert failed, will retry");
        match error.kind() {
            Kind::TooManyParts => self.stretch = (self.stretch * 2).min(16),
            Kind::Schema => self.tables_ready = false,
            _ => {}
        }
        backoff.pause(Some(self.client.endpoint())).await;
        if !self.tables_ready {
            self.make_tables().await;
        }
    }

    /// Puts an error into the status, and into the log unless it stands there already.
    fn note(&self, error: &Error, what: &str) {
        let is_new = self
            .status
            .send_if_modified(|status| status.set_error(error));
        if is_new && matches!(error, Error::Starting) {
            debug!(%error, "{what}");
        } else if is_new {
            warn!(%error, kind = ?error.kind(), "{what}");
        }
    }

    /// Makes the tables, however long it takes.
    async fn make_tables(&mut self) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.schema.ensure(&self.client).await {
            self.note(&error, "tables cannot be made, will retry");
            backoff.pause(Some(self.client.endpoint())).await;
        }
        self.tables_ready = true;
        self.status.send_modify(WriterStatus::set_ready);
    }

    fn stretched(&self) -> ClaimLimits {
        ClaimLimits {
            rows: self.limits.rows * self.stretch as usize,
            // Bytes are memory of ours, rows and time are not.
            bytes: self.limits.bytes,
            delay: self.limits.delay * self.stretch,
        }
    }
}

/// Whether a frame is the reason for an error that came with it alone.
fn is_bad(error: &Error, frame: &Frame) -> bool {
    let is_refused = matches!(error, Error::Exception { .. });
    error.kind() == Kind::Data || is_refused && Block::decode(frame).is_err()
}

/// Whether it is worth finding out which of the frames is the reason for an error.
fn is_suspect(error: &Error, frames: &[Frame], attempts: u32) -> bool {
    match error.kind() {
        Kind::Data => true,
        _ if attempts < PATIENT_ATTEMPTS => false,
        Kind::Memory if frames.len() > 1 => true,
        _ => frames.iter().any(|frame| is_bad(error, frame)),
    }
}
