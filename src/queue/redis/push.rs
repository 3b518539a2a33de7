//! The producer: one task that owns the write connection and sends the frames in their order, many at
//! a time.
//!
//! Each push names the push that must have happened before it, so Redis itself keeps the order, also
//! when one in the middle of a pipeline is refused. After a fault the new connection first draws a
//! line (`FENCE`) behind which no late command of the old one can do anything, and learns what is in.
//! So the outcome of a frame is always certain before its future resolves:
//!
//! - `Ok`: Redis said so, or the fence did.
//! - `Err`: Redis refused it, or it was not sent within `queue.redis.timeout`, or the fence said that
//!   it is not in; it is not in the queue and never will be.
//!
//! A frame that was sent and not answered stays pending, for as long as it takes, until a fence says.
//! With `wait_replicas` or `wait_aof` a frame that is in the queue is answered only after a `WAIT` behind
//! it, one at a time, each for all frames before it (`assurance.rs`); if that comes to too little the
//! frame stays pending in the same way, and the fence waits likewise before it answers.
//!
//! With a spill (`queue/spill.rs`) a frame that does not get into Redis soon goes to the disk instead of
//! failing, one in doubt too: `drain.rs`.

mod drain;
mod task;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot, watch};

use self::task::Task;
use super::assurance::Assurance;
use super::connect::Endpoint;
use super::keys::Keys;
use crate::frame::Frame;
use crate::queue::Error;
use crate::queue::spill::Spill;

/// Bytes that may wait for Redis. Intake has 16 commits of 8 MiB under way at most.
const MAX_WAITING_BYTES: u64 = 256 << 20;

type Answer = oneshot::Sender<Result<(), Error>>;

#[derive(Default)]
struct Inbox {
    frames: VecDeque<Pending>,
    /// Bytes of frames that are not answered yet.
    bytes: u64,
    closing: bool,
    last_error: Option<String>,
    /// Frames in doubt that the spill did not take.
    in_doubt: VecDeque<Pending>,
}

struct Pending {
    frame: Frame,
    answer: Answer,
    since: Instant,
    /// Its place among this producer's frames, once it was sent.
    sequence: u64,
    sent: Instant,
    /// Whether it was sent, and may be in the queue or get there yet.
    in_doubt: bool,
    /// Why the spill did not take it while it was in doubt.
    refused: Option<Error>,
}

struct Shared {
    inbox: Mutex<Inbox>,
    wake: Notify,
    /// Told when a frame is in the queue.
    pushed: Arc<Notify>,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, pending: Pending, result: Result<(), Error>) {
        self.inbox().bytes -= pending.frame.as_bytes().len() as u64;
        // Whoever does not wait any more does not want to know.
        pending.answer.send(result).ok();
    }
}

/// Whose frames these are, how long one may wait for Redis, and for what.
pub(super) struct Who {
    pub(super) assurance: Assurance,
    pub(super) worker: String,
    pub(super) timeout: Duration,
}

/// The others' side of the producer.
pub(super) struct Producer {
    shared: Arc<Shared>,
    done: watch::Receiver<bool>,
}

impl Producer {
    /// Starts the task. `pushed` is told whenever a frame has reached the queue.
    pub(super) fn start(
        endpoint: Endpoint,
        keys: Keys,
        who: Who,
        pushed: Arc<Notify>,
        spill: Option<Spill>,
    ) -> Producer {
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Inbox::default()),
            wake: Notify::new(),
            pushed,
        });
        let (sender, done) = watch::channel(false);
        let mut task = Task::new(Arc::clone(&shared), endpoint, keys, who, spill);
        tokio::spawn(async move {
            task.run().await;
            sender.send_replace(true);
        });
        Producer { shared, done }
    }

    /// Puts a frame into line.
    pub(super) fn append(
        &self,
        frame: Frame,
    ) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
        let bytes = frame.as_bytes().len() as u64;
        let mut inbox = self.shared.inbox();
        if inbox.closing {
            return Err(Error::Closed);
        }
        if inbox.bytes > 0 && inbox.bytes + bytes > MAX_WAITING_BYTES {
            return Err(Error::Busy {
                waiting: inbox.bytes,
                cap: MAX_WAITING_BYTES,
            });
        }
        let (answer, receiver) = oneshot::channel();
        inbox.bytes += bytes;
        inbox.frames.push_back(Pending {
            frame,
            answer,
            since: Instant::now(),
            sequence: 0,
            sent: Instant::now(),
            in_doubt: false,
            refused: None,
        });
        drop(inbox);
        self.shared.wake.notify_one();
        Ok(receiver)
    }

    /// Why frames cannot be appended at the moment.
    pub(super) fn last_error(&self) -> Option<String> {
        self.shared.inbox().last_error.clone()
    }

    /// Takes no more, and returns once everything taken has an outcome.
    pub(super) async fn close(&self) {
        self.stop();
        // An error means that the task is gone already.
        self.done.clone().wait_for(|done| *done).await.ok();
    }

    fn stop(&self) {
        self.shared.inbox().closing = true;
        self.shared.wake.notify_one();
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.stop();
    }
}
