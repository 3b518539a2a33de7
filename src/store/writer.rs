//! The writer: takes claims from the queue, inserts each with one INSERT, acknowledges it. Several
//! inserts may be under way (`store.inserts`): ClickHouse makes a part with one thread, and waits for
//! the disk in between.
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
mod lane;
mod replay;
mod status;

use std::pin::pin;

use futures_util::future::OptionFuture;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::warn;

pub use status::WriterStatus;

use self::backoff::Backoff;
use self::lane::Lane;
use super::{Client, Schema};
use crate::config::Config;
use crate::queue::dead::DeadLetters;
use crate::queue::{Claim, ClaimLimits, Error, Queue};

/// Moves claims from the queue into ClickHouse.
pub struct Writer {
    queue: Queue,
    lane: Lane,
    /// The bytes are those of all inserts under way, since they are memory of ours.
    limits: ClaimLimits,
    /// Inserts that may be under way.
    lanes: usize,
}

impl Writer {
    /// A writer from `queue` to `client`'s server.
    #[must_use]
    pub fn new(queue: Queue, client: Client, dead: DeadLetters, config: &Config) -> Writer {
        Writer {
            lane: Lane::new(queue.clone(), client, dead, config),
            queue,
            limits: ClaimLimits {
                rows: config.store.batch_rows,
                bytes: config.store.batch_bytes.as_usize(),
                delay: config.store.batch_delay.duration(),
            },
            lanes: config.store.inserts,
        }
    }

    /// The tables that it writes to.
    #[must_use]
    pub fn schema(&self) -> Schema {
        self.lane.schema()
    }

    /// How it is doing.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<WriterStatus> {
        self.lane.status()
    }

    /// Writes until `shutdown` resolves, then until the queue is empty. The caller bounds that time;
    /// dropping the future at any moment loses nothing, as what is not acknowledged stays sealed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let mut shutdown = pin!(shutdown);
        let mut draining = tokio::select! {
            () = self.lane.ensure_tables() => false,
            () = &mut shutdown => true,
        };
        // Ends with this call.
        let mut reading = JoinSet::new();
        if !draining {
            let catalogue = self.lane.catalogue.clone();
            let days = catalogue.unread().await;
            reading.spawn(catalogue.fill(days));
        }
        let mut backoff = Backoff::default();
        let mut replays = replay::interval();
        let mut under_way = JoinSet::new();
        let mut held = 0;
        // Kept while other things happen: asked anew, a queue might take its oldest frame for new.
        let mut claiming = None;
        loop {
            if claiming.is_none()
                && under_way.len() < self.lanes
                && let Some(limits) = self.limits(held)
            {
                claiming = Some(Box::pin(claim(self.queue.clone(), limits, draining)));
            }
            let claim = tokio::select! {
                biased;
                Some(ended) = under_way.join_next() => {
                    match ended.map_err(tokio::task::JoinError::into_panic) {
                        Ok(bytes) => held -= bytes,
                        Err(panic) => std::panic::resume_unwind(panic),
                    }
                    continue;
                }
                claim = OptionFuture::from(claiming.as_mut()), if claiming.is_some() => claim,
                _ = replays.tick(), if !draining => {
                    let lane = self.lane.clone();
                    under_way.spawn(async move {
                        lane.replay().await;
                        lane.catalogue.tick().await;
                        0
                    });
                    continue;
                }
                () = &mut shutdown, if !draining => {
                    draining = true;
                    claiming = None;
                    continue;
                }
            };
            claiming = None;
            match claim {
                Some(Ok(Some(claim))) => {
                    backoff = Backoff::default();
                    let (lane, place) = (self.lane.clone(), self.lane.take_place());
                    let frames = claim.frames.iter();
                    let bytes: usize = frames.map(|frame| frame.as_bytes().len()).sum();
                    held += bytes;
                    under_way.spawn(async move {
                        lane.store(claim, place).await;
                        bytes
                    });
                }
                None | Some(Ok(None) | Err(Error::Closed)) => break,
                Some(Err(error)) => {
                    warn!(%error, "queue gives no frames, will ask again");
                    backoff.pause(None).await;
                }
            }
        }
        under_way.join_all().await;
        self.lane.catalogue.finish().await;
    }

    /// Limits of the next claim while others hold so many bytes; none while they leave too little room
    /// for one that is worth an insert.
    fn limits(&self, held: usize) -> Option<ClaimLimits> {
        let left = self.limits.bytes.saturating_sub(held);
        let stretch = self.lane.stretch();
        (left >= self.limits.bytes / 4).then(|| ClaimLimits {
            rows: self.limits.rows * stretch as usize,
            bytes: left,
            delay: self.limits.delay * stretch,
        })
    }
}

/// The next claim; `None` when there is none left to be drained.
async fn claim(queue: Queue, limits: ClaimLimits, draining: bool) -> Result<Option<Claim>, Error> {
    if draining {
        queue.try_claim(&limits).await
    } else {
        queue.claim(&limits).await.map(Some)
    }
}
