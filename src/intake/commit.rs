//! The open frame, and the task that seals frames and commits them in order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures_util::StreamExt;
use futures_util::stream::FuturesOrdered;
use tokio::sync::{Notify, watch};
use tracing::warn;

use super::resends::{Resends, Ticket};
use super::{AddError, Error, Filling, Ids, Permit};
use crate::config;
use crate::frame::{BlockBuilder, Frame, Seal};
use crate::queue::{self, Queue};

/// Takes each committed frame, in the order of sealing. It must return at once.
pub type Publish = Arc<dyn Fn(Frame) + Send + Sync>;

/// A frame of at least this size is sealed although a commit is under way: it gains nothing by growing.
const LARGE_FRAME_BYTES: usize = 1 << 20;
/// Empty builders kept for reuse, so that their buffers are not made anew for each frame.
const SPARE_BUILDERS: usize = 4;
/// Frames sealed while others are being committed are at least this far apart; closer ones would be
/// tiny, and tiny blocks cost ClickHouse ten times as much a row.
const MIN_SPREAD: Duration = Duration::from_millis(1);

/// How often what keeps ids from being given is tried again while no request comes.
const MEND_EVERY: Duration = Duration::from_secs(1);

/// Whether small frames are sealed while a commit is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overlap {
    /// Only frames that are large already: for a queue whose commits do not overlap.
    WhenLarge,
    /// Also small ones, spread over the time that a commit takes: for a queue behind a network.
    Spread,
}

type Outcome = Option<Result<(), queue::Error>>;

/// Waits for one frame's commit.
#[derive(Debug)]
pub(super) struct Waiter(watch::Receiver<Outcome>);

impl Waiter {
    pub(super) async fn done(mut self) -> Result<(), Error> {
        match self.0.wait_for(Option::is_some).await {
            Ok(outcome) => match &*outcome {
                Some(Ok(())) => Ok(()),
                Some(Err(error)) => Err(error.clone().into()),
                None => Err(Error::Closed),
            },
            // The committer is gone without an outcome: it did not commit.
            Err(_) => Err(Error::Closed),
        }
    }
}

/// What came of a request's walk.
pub(super) struct Added<T> {
    /// What the walk returned.
    pub(super) value: T,
    pub(super) num_records: usize,
    /// `None` when it brought no records.
    pub(super) waiter: Option<Waiter>,
}

/// A frame being filled.
#[derive(Debug)]
struct Open {
    builder: BlockBuilder,
    permit: Permit,
    tickets: Vec<Ticket>,
    outcome: watch::Sender<Outcome>,
}

impl Open {
    fn new(builder: BlockBuilder, permit: Permit) -> Self {
        Self {
            builder,
            permit,
            tickets: Vec::new(),
            outcome: watch::Sender::new(None),
        }
    }

    fn waiter(&self) -> Waiter {
        Waiter(self.outcome.subscribe())
    }
}

/// What receivers and committer share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Told when there is something to seal, or intake was closed.
    work: Notify,
    frame_rows: usize,
    frame_bytes: usize,
    commits_in_flight: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The frame that small requests share.
    open: Option<Open>,
    /// Full frames and those of large requests, oldest first; all older than `open`. Bounded by the
    /// budget, since each holds its requests' permits, which cover the bytes of the frame: records
    /// take far more room than the requests that bring them, if these are made so.
    ready: VecDeque<Open>,
    spare: Vec<BlockBuilder>,
    closed: bool,
    /// Whether no ids can be given.
    without_ids: bool,
}

impl Shared {
    pub(super) fn new(config: &config::Intake) -> Self {
        Self {
            state: Mutex::default(),
            work: Notify::new(),
            frame_rows: config.frame_rows,
            frame_bytes: config.frame_bytes.as_usize(),
            commits_in_flight: config.commits_in_flight.max(1),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic under the lock can only be a bug in a decoder; the builder was rolled back or holds
        // whole records, so the others need not suffer.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_without_ids(&self) -> bool {
        self.lock().without_ids
    }

    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_one();
    }

    /// Walks a small request into the open frame.
    pub(super) fn add_to_open<T, E>(
        &self,
        permit: Permit,
        walk: impl FnOnce(&mut Filling) -> Result<(T, Option<Ticket>), E>,
    ) -> Result<Added<T>, AddError<E>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed.into());
        }
        let open = match state.open.take() {
            Some(open) => open,
            None => Open::new(state.spare.pop().unwrap_or_default(), permit.empty()),
        };
        let (mark, before) = (open.builder.mark(), open.builder.len());
        let bytes_before = open.builder.bytes();
        let mut filling = Filling::of(open.builder, permit);
        let walked = walk(&mut filling).map_err(AddError::Walk);
        let Filling {
            builder,
            mut permit,
            ..
        } = filling;
        let mut open = Open { builder, ..open };
        let walked = walked.and_then(|value| {
            permit.cover(open.builder.bytes().saturating_sub(bytes_before))?;
            Ok(value)
        });
        let added = match walked {
            Ok((value, ticket)) => {
                let num_records = open.builder.len() - before;
                open.permit.absorb(permit);
                // Of a request without records there is nothing to be remembered.
                open.tickets.extend(ticket.filter(|_| num_records > 0));
                Ok(Added {
                    value,
                    num_records,
                    waiter: (num_records > 0).then(|| open.waiter()),
                })
            }
            Err(error) => {
                open.builder.rollback(&mark);
                Err(error)
            }
        };
        if open.builder.is_empty() {
            state.spare.push(open.builder);
            return added;
        }
        if open.builder.len() >= self.frame_rows || open.builder.bytes() >= self.frame_bytes {
            state.ready.push_back(open);
        } else {
            state.open = Some(open);
        }
        drop(state);
        self.work.notify_one();
        added
    }

    /// Walks a large request into a frame of its own, outside the lock.
    pub(super) fn add_own<T, E>(
        &self,
        permit: Permit,
        walk: impl FnOnce(&mut Filling) -> Result<(T, Option<Ticket>), E>,
    ) -> Result<Added<T>, AddError<E>> {
        let builder = {
            let mut state = self.lock();
            if state.closed {
                return Err(Error::Closed.into());
            }
            state.spare.pop().unwrap_or_default()
        };
        let mut filling = Filling::of(builder, permit);
        let walked = walk(&mut filling).map_err(AddError::Walk);
        let mut own = Open::new(filling.builder, filling.permit);
        let walked = walked.and_then(|value| {
            own.permit.cover(own.builder.bytes())?;
            Ok(value)
        });
        let num_records = own.builder.len();
        let mut state = self.lock();
        match walked {
            Ok((value, _)) if num_records == 0 => Ok(Added {
                value,
                num_records,
                waiter: None,
            }),
            Ok((value, ticket)) if !state.closed => {
                own.tickets.extend(ticket);
                let waiter = Some(own.waiter());
                // What came earlier in the open frame keeps its place before this one.
                let open = state.open.take();
                state.ready.extend(open);
                state.ready.push_back(own);
                drop(state);
                self.work.notify_one();
                Ok(Added {
                    value,
                    num_records,
                    waiter,
                })
            }
            // The builder is not kept for reuse: only sealing gives back what it grew to.
            Ok(_) => Err(Error::Closed.into()),
            Err(error) => Err(error),
        }
    }
}

/// A sealed frame on its way into the queue.
struct Commit {
    frame: Frame,
    outcome: watch::Sender<Outcome>,
    permit: Permit,
    started: Instant,
    result: Result<(), queue::Error>,
}

type InFlight = FuturesOrdered<Pin<Box<dyn Future<Output = Commit> + Send>>>;

/// The task that seals and commits. It ends when intake is closed and all is committed.
pub struct Committer {
    shared: Arc<Shared>,
    queue: Queue,
    ids: Ids,
    publish: Publish,
    overlap: Overlap,
    in_flight: InFlight,
    last_seal: Instant,
    /// How long a commit takes, smoothed.
    commit_time: Duration,
}

impl Committer {
    pub(super) fn new(
        shared: Arc<Shared>,
        queue: Queue,
        ids: Ids,
        publish: Publish,
        overlap: Overlap,
    ) -> Self {
        shared.lock().without_ids = ids.has_failed();
        Self {
            shared,
            queue,
            ids,
            publish,
            overlap,
            in_flight: FuturesOrdered::new(),
            last_seal: Instant::now(),
            commit_time: Duration::ZERO,
        }
    }

    /// Runs until intake is closed and everything in it is committed or refused.
    pub async fn run(mut self) {
        loop {
            while let Some(open) = self.next_to_seal() {
                self.seal(open);
                // The frame's place in the queue is fixed; now let other requests run, so that what
                // they bring is in the next frame and not in ten small ones.
                tokio::task::yield_now().await;
            }
            if self.in_flight.is_empty() {
                if self.shared.lock().closed && self.nothing_waits() {
                    break;
                }
                self.wait_for_work().await;
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                biased;
                Some(commit) = self.in_flight.next() => self.finish(commit),
                () = self.shared.work.notified() => {}
            }
        }
        if let Err(error) = self.ids.close() {
            // The old floor is as safe; ids merely leap a minute.
            warn!(%error, "could not write the id floor");
        }
    }

    /// A daemon without ids is not ready, so that perhaps nothing comes: it mends that by itself.
    async fn wait_for_work(&mut self) {
        if !self.ids.has_failed() {
            return self.shared.work.notified().await;
        }
        let work = tokio::time::timeout(MEND_EVERY, self.shared.work.notified());
        if work.await.is_err() {
            self.ids.mend();
            self.shared.lock().without_ids = self.ids.has_failed();
        }
    }

    fn nothing_waits(&self) -> bool {
        let state = self.shared.lock();
        state.open.is_none() && state.ready.is_empty()
    }

    /// The frame to seal now, if it is time to seal one.
    fn next_to_seal(&self) -> Option<Open> {
        if self.in_flight.len() >= self.shared.commits_in_flight {
            return None;
        }
        let mut state = self.shared.lock();
        if let Some(ready) = state.ready.pop_front() {
            return Some(ready);
        }
        let open = state.open.as_ref()?;
        let now = self.in_flight.is_empty()
            || open.builder.bytes() >= LARGE_FRAME_BYTES
            || (self.overlap == Overlap::Spread
                && self.last_seal.elapsed() >= MIN_SPREAD.max(self.commit_time / 8));
        if now { state.open.take() } else { None }
    }

    fn seal(&mut self, mut open: Open) {
        let now = unix_millis();
        let count =
            u32::try_from(open.builder.len()).expect("a frame is bounded by `intake.frame_rows`");
        let given = self.ids.give(count, now);
        self.shared.lock().without_ids = given.is_err();
        let first_id = match given {
            Ok(first_id) => first_id,
            Err(source) => {
                let refused = queue::Error::Io {
                    what: "numbering of records",
                    path: "id-floor in `state_dir`".to_owned(),
                    source: Arc::new(source),
                };
                open.outcome.send_replace(Some(Err(refused)));
                return;
            }
        };
        let seal = Seal {
            node: self.ids.node(),
            first_id,
            sealed_at: i64::try_from(now).unwrap_or(i64::MAX),
            digests: open.tickets.iter().map(Ticket::digest).collect(),
        };
        let frame = open.builder.seal(&seal);
        let Open {
            builder,
            permit,
            tickets,
            outcome,
        } = open;
        {
            let mut state = self.shared.lock();
            if state.spare.len() < SPARE_BUILDERS {
                state.spare.push(builder);
            }
        }
        self.last_seal = Instant::now();
        let started = self.last_seal;
        let append = self.queue.append(frame.clone());
        self.in_flight.push_back(Box::pin(async move {
            let result = append.await;
            if result.is_ok() {
                Resends::accept(tickets);
            }
            Commit {
                frame,
                outcome,
                permit,
                started,
                result,
            }
        }));
    }

    fn finish(&mut self, commit: Commit) {
        let Commit {
            frame,
            outcome,
            permit,
            started,
            result,
        } = commit;
        self.commit_time = (self.commit_time * 7 + started.elapsed()) / 8;
        // A refusal is not logged here: the receivers answer each sender, and the queue logs its state.
        if result.is_ok() {
            (self.publish)(frame);
        }
        outcome.send_replace(Some(result));
        drop(permit);
    }
}

/// Now, in milliseconds since the epoch.
pub(crate) fn unix_millis() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}
