//! One insert under way, and what all of them share.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{debug, error, info, warn};

use super::backoff::Backoff;
use super::insert::Insert;
use super::status::WriterStatus;
use crate::config::Config;
use crate::frame::{Block, Frame};
use crate::queue::dead::{DeadLetters, Reason};
use crate::queue::{Claim, Queue};
use crate::store::catalogue::Catalogue;
use crate::store::{Client, Error, Kind, Schema};

/// Attempts that fail with a code that says nothing certain, before the frames are suspected.
const PATIENT_ATTEMPTS: u32 = 3;
/// How much slower and larger than configured inserts get at most, because of too many parts.
const MAX_STRETCH: u32 = 16;

/// Stores claims. All clones share their state.
#[derive(Clone)]
pub(super) struct Lane {
    queue: Queue,
    client: Client,
    schema: Schema,
    pub(super) dead: DeadLetters,
    pub(super) insert: Insert,
    pub(super) catalogue: Catalogue,
    /// Held by whoever replays dead letters.
    pub(super) replaying: Arc<tokio::sync::Mutex<()>>,
    shared: Arc<Shared>,
}

struct Shared {
    /// How much slower and larger than configured; 1 to [`MAX_STRETCH`].
    stretch: AtomicU32,
    /// Whether the tables are there; held while they are being made.
    tables_ready: tokio::sync::Mutex<bool>,
    places: Mutex<Places>,
    status: watch::Sender<WriterStatus>,
}

/// Claims handed out and not passed yet, oldest first: of a later one that is stored before an
/// earlier one nobody may think that all before it is there.
#[derive(Default)]
struct Places {
    first: u64,
    /// The last ids of each claim that is stored.
    waiting: VecDeque<Option<Vec<u64>>>,
}

/// A claim's place among all.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place(u64);

impl Places {
    fn take(&mut self) -> Place {
        self.waiting.push_back(None);
        Place(self.first + self.waiting.len() as u64 - 1)
    }

    /// The ids that are passed now that this claim is stored.
    fn pass(&mut self, place: Place, last_ids: Vec<u64>) -> Vec<u64> {
        let index = usize::try_from(place.0 - self.first).unwrap_or(usize::MAX);
        if let Some(slot) = self.waiting.get_mut(index) {
            *slot = Some(last_ids);
        }
        let mut passed = Vec::new();
        while let Some(Some(ids)) = self.waiting.front_mut().map(Option::take) {
            self.waiting.pop_front();
            self.first += 1;
            passed.extend(ids);
        }
        passed
    }
}

impl Lane {
    pub(super) fn new(queue: Queue, client: Client, dead: DeadLetters, config: &Config) -> Lane {
        let schema = Schema::new(config);
        Lane {
            insert: Insert::new(client.clone(), &schema.table(), &config.store),
            catalogue: Catalogue::new(client.clone(), schema.clone(), &config.store.database),
            queue,
            client,
            schema,
            dead,
            replaying: Arc::default(),
            shared: Arc::new(Shared {
                stretch: AtomicU32::new(1),
                tables_ready: tokio::sync::Mutex::new(false),
                places: Mutex::default(),
                status: watch::Sender::default(),
            }),
        }
    }

    pub(super) fn status(&self) -> watch::Receiver<WriterStatus> {
        self.shared.status.subscribe()
    }

    pub(super) fn schema(&self) -> Schema {
        self.schema.clone()
    }

    pub(super) fn stretch(&self) -> u32 {
        self.shared.stretch.load(Ordering::Relaxed)
    }

    fn restretch(&self, change: impl Fn(u32) -> u32) {
        let set = |stretch| Some(change(stretch).clamp(1, MAX_STRETCH));
        let order = Ordering::Relaxed;
        self.shared.stretch.fetch_update(order, order, set).ok();
    }

    /// The place of the claim that was handed out last. Called in the order of claims.
    pub(super) fn take_place(&self) -> Place {
        self.places().take()
    }

    fn places(&self) -> std::sync::MutexGuard<'_, Places> {
        let places = self.shared.places.lock();
        places.unwrap_or_else(PoisonError::into_inner)
    }

    /// Inserts a claim, however long it takes, and acknowledges it.
    pub(super) async fn store(&self, claim: Claim, place: Place) {
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
                    self.stored(&claim.frames, started.elapsed()).await;
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
        self.pass(&claim, place);
        self.acknowledge(&claim).await;
    }

    /// Tells how far all is stored. Nobody waits any more for what was buried either.
    fn pass(&self, claim: &Claim, place: Place) {
        let last_ids = claim.frames.iter().map(|frame| frame.header().last_id);
        let passed = self.places().pass(place, last_ids.collect());
        self.shared
            .status
            .send_modify(|status| status.pass(&passed));
    }

    /// Inserts a claim's frames in halves, buries those that ClickHouse cannot read.
    async fn store_apart(&self, frames: &[Frame]) {
        let mut backoff = Backoff::default();
        let mut waiting = vec![frames];
        while let Some(part) = waiting.pop() {
            let started = Instant::now();
            let error = match self.insert.missing(part).await {
                Ok(()) => {
                    backoff = Backoff::default();
                    self.stored(part, started.elapsed()).await;
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
    async fn bury(&self, frame: &Frame, refused: &Error) {
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
        self.shared
            .status
            .send_modify(|status| status.add_buried(frame));
    }

    async fn acknowledge(&self, claim: &Claim) {
        let mut backoff = Backoff::default();
        while let Err(error) = self.queue.ack(claim).await {
            warn!(%error, "claim cannot be acknowledged, will try again");
            backoff.pause(None).await;
        }
    }

    /// Takes note of an insert. They are counted last: stored and still in the queue is for a moment only.
    pub(super) async fn stored(&self, frames: &[Frame], took: Duration) {
        self.catalogue.note(frames).await;
        self.restretch(|stretch| stretch.saturating_sub(1));
        self.shared.status.send_modify(|status| {
            if status.error.is_some() {
                info!("inserts work again");
            }
            status.add_stored(frames, took);
        });
        debug!(frames = frames.len(), ?took, "inserted");
    }

    /// Notes a failure that may pass, and waits before the next attempt.
    async fn failed(&self, error: &Error, backoff: &mut Backoff) {
        self.note(error, "insert failed, will retry");
        match error.kind() {
            Kind::TooManyParts => self.restretch(|stretch| stretch * 2),
            Kind::Schema => *self.shared.tables_ready.lock().await = false,
            _ => {}
        }
        backoff.pause(Some(self.client.endpoint())).await;
        self.ensure_tables().await;
    }

    /// Puts an error into the status, and into the log unless it stands there already.
    pub(super) fn note(&self, error: &Error, what: &str) {
        let is_new = self
            .shared
            .status
            .send_if_modified(|status| status.set_error(error));
        if is_new && matches!(error, Error::Starting) {
            debug!(%error, "{what}");
        } else if is_new {
            warn!(%error, kind = ?error.kind(), "{what}");
        }
    }

    /// Makes the tables if they are not there, however long it takes.
    pub(super) async fn ensure_tables(&self) {
        let mut ready = self.shared.tables_ready.lock().await;
        let mut backoff = Backoff::default();
        while !*ready {
            match self.make_tables().await {
                Ok(()) => *ready = true,
                Err(error) => {
                    self.note(&error, "tables cannot be made, will retry");
                    backoff.pause(Some(self.client.endpoint())).await;
                }
            }
        }
    }

    async fn make_tables(&self) -> Result<(), Error> {
        self.schema.ensure(&self.client).await?;
        self.insert.suit(&self.client.version().await?);
        self.shared.status.send_modify(WriterStatus::set_ready);
        Ok(())
    }
}

/// Whether a frame is the reason for an error that came with it alone.
pub(super) fn is_bad(error: &Error, frame: &Frame) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_passed_once_all_before_it_are_stored() {
        let mut places = Places::default();
        let [a, b, c] = [places.take(), places.take(), places.take()];
        assert!(places.pass(b, vec![20, 21]).is_empty());
        assert_eq!(places.pass(a, vec![10]), [10, 20, 21]);
        let d = places.take();
        assert!(places.pass(d, vec![40]).is_empty());
        assert_eq!(places.pass(c, vec![30]), [30, 40]);
    }
}
