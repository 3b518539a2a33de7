//! The disk thread: takes what waits, does it in one go, answers.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, futures::OwnedNotified, oneshot, watch};

use super::log::Log;
use super::state::Selection;
use crate::frame::Frame;
use crate::queue::Error;

/// Bytes that may wait for the disk. Intake has 16 commits of 8 MiB under way at most.
const MAX_WAITING_BYTES: u64 = 256 << 20;
/// Bytes of one group, so that a group's latency stays near that of its sync.
const MAX_GROUP_BYTES: u64 = 16 << 20;
/// How often the thread looks whether it can write, also when nothing comes.
const LOOK_EVERY: Duration = Duration::from_secs(1);

type Answer = oneshot::Sender<Result<(), Error>>;

/// What is asked of the thread beside appends.
pub(super) enum Request {
    /// Seal a claim. Answered with `Ok` also when the selection was stale and is to be made anew.
    Seal(Selection),
    /// Forget a claim.
    Ack(u64),
}

#[derive(Default)]
struct Inbox {
    frames: VecDeque<(Frame, Answer)>,
    /// Bytes of frames that are not answered yet.
    bytes: u64,
    requests: Vec<(Request, Answer)>,
    closing: bool,
    /// The last failures, of appends and of claims.
    errors: [Option<Error>; 2],
}

/// Places in [`Inbox::errors`].
const APPEND: usize = 0;
const CLAIM: usize = 1;

struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
    /// Told when there may be more to claim.
    changed: Arc<Notify>,
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The other threads' side. Dropping it lets the thread finish what waits and end.
pub(super) struct Handle {
    shared: Arc<Shared>,
    done: watch::Receiver<bool>,
}

/// Starts the thread; it holds the directory's lock until it ends.
pub(super) fn start(log: Log) -> std::io::Result<Handle> {
    let shared = Arc::new(Shared {
        inbox: Mutex::new(Inbox::default()),
        wake: Condvar::new(),
        changed: Arc::new(Notify::new()),
    });
    let (done_sender, done) = watch::channel(false);
    let mut worker = Worker {
        log,
        shared: Arc::clone(&shared),
        look_at: Instant::now() + LOOK_EVERY,
    };
    // Known before the first question for readiness.
    worker.look();
    std::thread::Builder::new()
        .name("queue-disk".to_owned())
        .spawn(move || {
            worker.run();
            done_sender.send_replace(true);
        })?;
    Ok(Handle { shared, done })
}

impl Handle {
    /// Puts a frame into line. `held` bytes of `max` are in the queue already.
    pub(super) fn append(
        &self,
        frame: Frame,
        held: u64,
        max: u64,
    ) -> Result<oneshot::Receiver<Result<(), Error>>, Error> {
        let bytes = frame.as_bytes().len() as u64;
        let mut inbox = self.shared.inbox();
        if inbox.closing {
            return Err(Error::Closed);
        }
        let used = held + inbox.bytes;
        if used + bytes > max {
            return Err(Error::Full { used, cap: max });
        }
        if inbox.bytes > 0 && inbox.bytes + bytes > MAX_WAITING_BYTES {
            return Err(Error::Busy {
                waiting: inbox.bytes,
                cap: MAX_WAITING_BYTES,
            });
        }
        let (answer, receiver) = oneshot::channel();
        inbox.bytes += bytes;
        inbox.frames.push_back((frame, answer));
        drop(inbox);
        self.shared.wake.notify_one();
        Ok(receiver)
    }

    /// Asks and waits for the answer.
    pub(super) async fn ask(&self, request: Request) -> Result<(), Error> {
        let (answer, receiver) = oneshot::channel();
        {
            let mut inbox = self.shared.inbox();
            if inbox.closing {
                return Err(Error::Closed);
            }
            inbox.requests.push((request, answer));
        }
        self.shared.wake.notify_one();
        receiver.await.unwrap_or(Err(Error::Closed))
    }

    /// Resolves when there may be more to claim, or the queue is being closed. Changes count from the
    /// call on.
    pub(super) fn changed(&self) -> OwnedNotified {
        Arc::clone(&self.shared.changed).notified_owned()
    }

    pub(super) fn is_closed(&self) -> bool {
        self.shared.inbox().closing
    }

    pub(super) fn last_error(&self) -> Option<Error> {
        self.shared.inbox().errors.iter().flatten().next().cloned()
    }

    /// Takes no more, and returns once the thread has ended.
    pub(super) async fn close(&self) {
        self.stop();
        // An error means that the thread is gone already.
        self.done.clone().wait_for(|done| *done).await.ok();
    }

    fn stop(&self) {
        self.shared.inbox().closing = true;
        self.shared.wake.notify_one();
        self.shared.changed.notify_waiters();
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What the thread does in one go.
struct Work {
    group: Vec<(Frame, Answer)>,
    requests: Vec<(Request, Answer)>,
    closing: bool,
}

struct Worker {
    log: Log,
    shared: Arc<Shared>,
    /// When the disk is looked at next.
    look_at: Instant,
}

impl Worker {
    fn run(mut self) {
        loop {
            let work = self.wait();
            let idle = work.group.is_empty() && work.requests.is_empty();
            self.append(work.group);
            self.serve(work.requests);
            if self.log.flush_at().is_some_and(|at| at <= Instant::now()) {
                let result = self.log.flush();
                self.remember(APPEND, result.err());
            }
            if work.closing && idle {
                break;
            }
            if self.look_at <= Instant::now() {
                self.look();
            }
        }
        if let Err(error) = self.log.close() {
            tracing::error!(%error, frames_lost = self.log.is_homeless(), "the disk queue could not be closed cleanly");
        }
        self.log.release();
    }

    /// Looks whether the disk would take frames. After a failure it tries, so that the queue is in
    /// order again although nobody sends to a daemon that is not ready.
    fn look(&mut self) {
        let failing = self.shared.inbox().errors[APPEND].is_some();
        let result = self.log.look(failing);
        self.remember(APPEND, result.err());
        self.look_at = Instant::now() + LOOK_EVERY;
    }

    /// Takes a group of frames and all requests, as soon as there are any.
    fn wait(&self) -> Work {
        let flush_at = self.log.flush_at();
        let until = flush_at.map_or(self.look_at, |at| at.min(self.look_at));
        let mut inbox = self.shared.inbox();
        while inbox.frames.is_empty() && inbox.requests.is_empty() && !inbox.closing {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.shared.wake.wait_timeout(inbox, left);
            inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let limit = self.log.room().clamp(1, MAX_GROUP_BYTES);
        let mut bytes = 0;
        let mut group = Vec::new();
        while bytes < limit {
            let Some((frame, answer)) = inbox.frames.pop_front() else {
                break;
            };
            bytes += frame.as_bytes().len() as u64;
            group.push((frame, answer));
        }
        Work {
            group,
            requests: std::mem::take(&mut inbox.requests),
            closing: inbox.closing,
        }
    }

    fn append(&mut self, group: Vec<(Frame, Answer)>) {
        if group.is_empty() {
            return;
        }
        let (frames, answers): (Vec<_>, Vec<_>) = group.into_iter().unzip();
        let result = self.log.append(&frames);
        let bytes: u64 = frames.iter().map(|f| f.as_bytes().len() as u64).sum();
        self.shared.inbox().bytes -= bytes;
        self.remember(APPEND, result.clone().err());
        for answer in answers {
            // Whoever does not wait any more does not want to know.
            answer.send(result.clone()).ok();
        }
        self.shared.changed.notify_waiters();
    }

    fn serve(&mut self, requests: Vec<(Request, Answer)>) {
        let mut keys = Vec::new();
        let mut ackers = Vec::new();
        for (request, answer) in requests {
            match request {
                Request::Seal(selection) => {
                    let result = self.log.seal(selection).map(|_| ());
                    self.remember(CLAIM, result.clone().err());
                    answer.send(result).ok();
                }
                Request::Ack(key) => {
                    keys.push(key);
                    ackers.push(answer);
                }
            }
        }
        if keys.is_empty() {
            return;
        }
        let result = self.log.ack(&keys);
        self.remember(CLAIM, result.clone().err());
        for answer in ackers {
            answer.send(result.clone()).ok();
        }
    }

    /// Keeps the last failure for whoever asks how the queue is, and logs a failure's beginning and
    /// end, not each of its repetitions.
    fn remember(&self, of: usize, error: Option<Error>) {
        let what = if of == APPEND { "appends" } else { "claims" };
        let mut inbox = self.shared.inbox();
        let Some(last) = inbox.errors.get_mut(of) else {
            return;
        };
        match (&error, &*last) {
            (Some(error), None) => tracing::error!(%error, "the disk queue refuses {what}"),
            (None, Some(_)) => tracing::info!("the disk queue takes {what} again"),
            _ => {}
        }
        *last = error;
    }
}
