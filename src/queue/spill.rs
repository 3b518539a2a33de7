//! The spill: a disk queue (`<state_dir>/spill`) before the one in Redis, for as long as Redis is away,
//! full, or takes no writes.
//!
//! Frames change over to it in their order: as soon as Redis refuses one in words, or one has waited
//! for a third of `limits.commit_timeout` ([`Spill::patience`]), so that its sender still gets its
//! answer in time. From then on every frame goes through the spill, until all of it is in Redis.
//!
//! What makes the switch lose and double nothing:
//!
//! - A frame leaves the spill only when Redis has said that it is in.
//! - Redis keeps the id of the last frame that came from this daemon, and changes it in the same step
//!   in which it takes a frame (`last` in `redis/keys.rs`). Ids of a daemon only rise, so a frame
//!   whose id is not above that one is in already and is passed over. A frame that was sent to a
//!   silent Redis and may yet arrive there is therefore written to the spill as any other: whichever
//!   of the two comes first counts, and the second does nothing. That holds over a restart of the
//!   daemon in the middle of it, and for commands that wait in a socket of a paused Redis.
//! - A group of frames goes into Redis by one script, which takes all of them or none.
//!
//! It does not go to ClickHouse directly: a frame in doubt may be in a claim of another daemon, and
//! two claims under two tokens would store it twice. So while Redis is away records wait, on the disk
//! and up to `queue.disk.max_bytes`; a Redis that is merely full is drained by the writer meanwhile.
//! If Redis comes back without what it had (no append-only file, a failover to a replica that lagged),
//! it has an older `last` too, and takes from the spill what it can get.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::disk::DiskQueue;
use super::{Depth, Error};
use crate::config::Config;
use crate::frame::Frame;

/// Directory inside the state directory.
pub const DIR: &str = "spill";

/// The spill, as the producer for Redis uses it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Spill {
    disk: DiskQueue,
    patience: Duration,
    state: Arc<Mutex<State>>,
}

/// Digests of requests, and when their frames were sealed.
type Digests = Vec<([u8; 16], i64)>;

#[derive(Default)]
struct State {
    /// What was in it when it was opened. It may be in Redis, and in ClickHouse, before anybody asks.
    known: Digests,
    /// Whether frames go through it.
    active: bool,
    /// Why it did not take the last frame.
    refused: Option<Error>,
}

impl Spill {
    /// Opens the spill in the state directory. What waits in it goes before anything new.
    ///
    /// # Errors
    /// As [`DiskQueue::open`].
    pub(super) fn open(config: &Config) -> Result<Spill, Error> {
        let patience = config.limits.commit_timeout.duration() / 3;
        let window = i64::try_from(config.intake.dedup_window.duration().as_millis());
        let since = super::now_ms().saturating_sub(window.unwrap_or(i64::MAX));
        let dir = config.state_dir.join(DIR);
        Spill::open_in(&dir, &config.queue.disk, patience, since)
    }

    /// Opens the spill in a directory, and reads the digests of requests in it since a time, in
    /// milliseconds since the epoch: before it is drained, which begins by itself.
    ///
    /// # Errors
    /// As [`DiskQueue::open`].
    pub(super) fn open_in(
        dir: &Path,
        config: &crate::config::DiskQueueConfig,
        patience: Duration,
        since: i64,
    ) -> Result<Spill, Error> {
        let disk = DiskQueue::open(dir, config)?;
        let known = disk.digests(since).unwrap_or_else(|error| {
            tracing::warn!(%error, "the spill does not say which requests are in it");
            Vec::new()
        });
        let state = State {
            known,
            active: disk.depth().frames > 0,
            refused: None,
        };
        Ok(Spill {
            disk,
            patience,
            state: Arc::new(Mutex::new(state)),
        })
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk queue that it is.
    pub(super) fn disk(&self) -> &DiskQueue {
        &self.disk
    }

    /// How long a frame may wait for Redis before it is spilled.
    pub(super) fn patience(&self) -> Duration {
        self.patience
    }

    /// Whether all frames go through it.
    pub(super) fn is_active(&self) -> bool {
        self.state().active
    }

    /// Begins to lead all frames through it.
    pub(super) fn begin(&self) {
        let was = std::mem::replace(&mut self.state().active, true);
        if !was {
            tracing::warn!("frames go to the disk until redis takes them again");
        }
    }

    /// Ends that: Redis has everything.
    pub(super) fn end(&self) {
        let mut state = self.state();
        if std::mem::take(&mut state.active) {
            tracing::info!("everything that was spilled to the disk is in redis");
        }
        state.refused = None;
    }

    /// Writes a frame; its place is fixed by the call.
    ///
    /// # Errors
    /// When nothing was written.
    pub(super) fn put(
        &self,
        frame: Frame,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let written = self.disk.append(frame);
        let spill = self.clone();
        async move {
            let result = written.await;
            spill.state().refused = result.clone().err();
            result
        }
    }

    /// Why it takes no frames, when it does not.
    pub(super) fn last_error(&self) -> Option<Error> {
        let refused = self.state().refused.clone();
        // The disk queue knows of its own troubles, and that they are over, although nobody sends.
        let by_limit = |error: &Error| matches!(error, Error::Full { .. } | Error::Busy { .. });
        self.disk.last_error().or(refused.filter(by_limit))
    }

    /// Digests of the requests that were in it when it was opened; once.
    pub(super) fn take_digests(&self) -> Digests {
        std::mem::take(&mut self.state().known)
    }

    /// What waits in it.
    pub(super) fn depth(&self) -> Depth {
        self.disk.depth()
    }
}
