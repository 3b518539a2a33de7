//! Intake: group commit between the receivers and the queue.
//!
//! Requests add their records to the open frame and wait for its commit. While one commit (an fsync,
//! or a round trip to Redis) is under way the next frame fills; when it returns, everything that
//! waits goes together. There is no timer: an idle daemon commits at once, a busy one in groups as
//! large as the queue is slow. A large request is encoded outside the lock, in a frame of its own.
//!
//! What holds:
//! - A frame's ids are given when it is sealed, by one task, in the order of its place in the queue.
//! - Commits are taken in that order too, so the live hub sees ids that only rise.
//! - A [`Receipt`] exists only for records that the queue holds as durably as it is set to.
//! - The bytes of requests that are not yet committed are bounded ([`Budget`]).

mod budget;
mod commit;
mod filling;
mod ids;
mod incoming;
pub mod resends;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use budget::{Budget, Permit};
use commit::Shared;
pub(crate) use commit::unix_millis;
pub use commit::{Committer, Publish};
pub use filling::Filling;
pub use ids::{Ids, MAX_NODE};
use resends::Ticket;

use crate::config;
use crate::queue;

/// Requests up to this size are encoded into the shared open frame; larger ones, which would hold its
/// lock for long, into a frame of their own.
const SHARED_FRAME_BYTES: usize = 64 << 10;

/// Why records were not taken. In every case the sender still has them and may send them again.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// Too many bytes are waiting to be committed.
    #[error("too much is waiting to be queued: {used} of {cap} bytes; see `limits.in_flight`")]
    Busy {
        /// Bytes waiting.
        used: usize,
        /// Bytes that may wait.
        cap: usize,
    },
    /// Bodies that are still being received hold what such may hold.
    #[error(
        "requests that are still being received hold {used} of {cap} bytes, half of `limits.in_flight`"
    )]
    Receiving {
        /// Bytes of such bodies.
        used: usize,
        /// Bytes that they may hold.
        cap: usize,
    },
    /// The queue did not take the frame.
    #[error(transparent)]
    Queue(#[from] queue::Error),
    /// The queue did not answer in time; it may still take the frame.
    #[error("the queue did not confirm within {0:?}; see `limits.commit_timeout`")]
    Timeout(Duration),
    /// The daemon is shutting down.
    #[error("shutting down")]
    Closed,
}

/// Why a request's records are not in a frame.
#[derive(Debug)]
pub enum AddError<E> {
    /// Intake does not take any.
    Intake(Error),
    /// They could not be read: what the walk returned.
    Walk(E),
}

impl<E> From<Error> for AddError<E> {
    fn from(error: Error) -> Self {
        AddError::Intake(error)
    }
}

/// Proof that the queue holds a request's records. A receiver cannot answer "accepted" without it.
#[derive(Debug)]
#[must_use = "an answer to the sender takes a receipt"]
pub struct Receipt {
    num_records: usize,
}

impl Receipt {
    /// How many records it stands for.
    #[must_use]
    pub fn num_records(&self) -> usize {
        self.num_records
    }
}

/// A request's records on their way to the queue.
#[derive(Debug)]
#[must_use = "records are accepted only once their receipt is there"]
pub struct Pending {
    num_records: usize,
    /// `None` when there is nothing to wait for: no records, or `ack: received`.
    commit: Option<commit::Waiter>,
}

impl Pending {
    /// Waits until the queue has the records.
    ///
    /// # Errors
    /// When it refused them, or did not answer within `timeout`.
    pub async fn receipt(self, timeout: Duration) -> Result<Receipt, Error> {
        if let Some(commit) = self.commit {
            tokio::time::timeout(timeout, commit.done())
                .await
                .map_err(|_| Error::Timeout(timeout))??;
        }
        Ok(Receipt {
            num_records: self.num_records,
        })
    }
}

/// The receivers' handle.
#[derive(Debug, Clone)]
pub struct Intake {
    shared: Arc<Shared>,
    budget: Budget,
    ack: config::Ack,
}

impl Intake {
    /// An intake and the committer that must run beside it.
    #[must_use]
    pub fn new(
        config: &config::Config,
        queue: queue::Queue,
        ids: Ids,
        publish: Publish,
    ) -> (Intake, Committer) {
        let budget = Budget::new(config.limits.in_flight.as_usize());
        let shared = Arc::new(Shared::new(&config.intake));
        let overlap = match config.queue.kind {
            // Frames of one group share an fsync: sealing more of them early only makes them small.
            config::QueueKind::Disk => commit::Overlap::WhenLarge,
            config::QueueKind::Redis => commit::Overlap::Spread,
        };
        let committer = Committer::new(Arc::clone(&shared), queue, ids, publish, overlap);
        (
            Intake {
                shared,
                budget,
                ack: config.intake.ack,
            },
            committer,
        )
    }

    /// The bound on bytes that wait. Receivers take from it before they read a body.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Adds what `walk` fills in to a frame. When `walk` fails, nothing of it stays.
    /// `permit` holds the request's bytes, is raised to those of its records, and is kept until the
    /// commit.
    ///
    /// # Errors
    /// When intake is closed, `walk` failed, or the records take more memory than there is.
    pub fn add<T, E>(
        &self,
        permit: Permit,
        walk: impl FnOnce(&mut Filling) -> Result<T, E>,
    ) -> Result<(T, Pending), AddError<E>> {
        self.add_once(permit, |filling| Ok((walk(filling)?, None)))
    }

    /// As [`Intake::add`]; the ticket that `walk` returns is settled by the commit.
    ///
    /// # Errors
    /// As [`Intake::add`]; the ticket is dropped then.
    pub fn add_once<T, E>(
        &self,
        permit: Permit,
        walk: impl FnOnce(&mut Filling) -> Result<(T, Option<Ticket>), E>,
    ) -> Result<(T, Pending), AddError<E>> {
        let added = if permit.bytes() <= SHARED_FRAME_BYTES {
            self.shared.add_to_open(permit, walk)?
        } else {
            self.shared.add_own(permit, walk)?
        };
        let commit = added.waiter.filter(|_| self.ack == config::Ack::Queued);
        Ok((
            added.value,
            Pending {
                num_records: added.num_records,
                commit,
            },
        ))
    }

    /// Whether records are refused because their ids cannot be kept unique: the disk takes no writes.
    #[must_use]
    pub fn is_without_ids(&self) -> bool {
        self.shared.is_without_ids()
    }

    /// Refuses new records from now on; the committer ends once what it has is committed.
    pub fn close(&self) {
        self.shared.close();
    }
}
