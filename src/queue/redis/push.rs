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

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};
use tokio::sync::{Notify, oneshot, watch};

use super::connect::{Backoff, Endpoint, is_refusal, random, words};
use super::keys::Keys;
use super::scripts;
use crate::frame::Frame;
use crate::queue::Error;

/// Bytes that may wait for Redis. Intake has 16 commits of 8 MiB under way at most.
const MAX_WAITING_BYTES: u64 = 256 << 20;
/// Frames and bytes sent and not answered.
const MAX_IN_FLIGHT: usize = 256;
const MAX_IN_FLIGHT_BYTES: usize = 16 << 20;
/// How often frames that wait for a connection are looked through.
const LOOK: Duration = Duration::from_millis(50);
/// How often an idle connection is asked whether it still takes writes, so that readiness knows.
const PROBE: Duration = Duration::from_secs(1);
/// How long Redis remembers a producer that is silent.
const REMEMBER_MS: u64 = 7 * 24 * 3600 * 1000;

type Answer = oneshot::Sender<Result<(), Error>>;

#[derive(Default)]
struct Inbox {
    frames: VecDeque<Pending>,
    /// Bytes of frames that are not answered yet.
    bytes: u64,
    closing: bool,
    last_error: Option<String>,
}

struct Pending {
    frame: Frame,
    answer: Answer,
    since: Instant,
    /// Its place among this producer's frames, once it was sent.
    sequence: u64,
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
        timeout: Duration,
        pushed: Arc<Notify>,
    ) -> Producer {
        let shared = Arc::new(Shared {
            inbox: Mutex::new(Inbox::default()),
            wake: Notify::new(),
            pushed,
        });
        let (sender, done) = watch::channel(false);
        let mut task = Task {
            shared: Arc::clone(&shared),
            endpoint,
            keys,
            timeout,
            producer: format!("{:016x}", random()),
            epoch: String::new(),
            sequence: 0,
            known: 0,
            waiting: VecDeque::new(),
            unknown: VecDeque::new(),
            refusal: None,
        };
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

/// Why a session with a connection ended.
enum End {
    /// Everything is done and no more will come.
    Closed,
    /// All outcomes are known, but not all frames went in.
    Refused(String),
    /// The connection is of no more use.
    Broken(RedisError),
}

type Reply = BoxFuture<'static, RedisResult<i64>>;

struct Task {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    keys: Keys,
    timeout: Duration,
    /// Names this process's frames; a new one has nothing to ask about the old one's.
    producer: String,
    epoch: String,
    /// Sequence of the last frame that was sent.
    sequence: u64,
    /// Sequence of the last frame known to be in the queue.
    known: u64,
    /// Not sent.
    waiting: VecDeque<Pending>,
    /// Sent, and the connection broke before the answer.
    unknown: VecDeque<Pending>,
    /// Redis's words, while it refuses.
    refusal: Option<String>,
}

impl Task {
    async fn run(&mut self) {
        let mut backoff = Backoff::default();
        loop {
            let endpoint = self.endpoint.clone();
            let end = match self.meanwhile(endpoint.connect()).await {
                Ok(connection) => self.session(connection, &mut backoff).await,
                Err(error) => End::Broken(error),
            };
            let text = match end {
                End::Closed => return,
                End::Refused(text) => {
                    self.refusal = Some(text.clone());
                    text
                }
                End::Broken(error) => {
                    let text = words(&error);
                    self.refusal = is_refusal(&error).then(|| text.clone());
                    text
                }
            };
            self.tell(Some(text));
            self.meanwhile(tokio::time::sleep(backoff.next())).await;
            let inbox = self.shared.inbox();
            let nothing = self.waiting.is_empty() && self.unknown.is_empty();
            if inbox.closing && nothing && inbox.frames.is_empty() {
                return;
            }
        }
    }

    /// Waits for something else, and answers the frames that must not wait as long.
    async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            self.collect();
            self.expire();
            let shared = Arc::clone(&self.shared);
            tokio::select! {
                result = &mut work => return result,
                () = shared.wake.notified() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }

    fn collect(&mut self) {
        self.waiting.append(&mut self.shared.inbox().frames);
    }

    /// Answers frames that are certainly not in: at once while Redis refuses, else when they have
    /// waited for the configured time.
    fn expire(&mut self) {
        while let Some(first) = self.waiting.front() {
            if self.refusal.is_none() && first.since.elapsed() < self.timeout {
                break;
            }
            let text = self
                .refusal
                .clone()
                .or_else(|| self.shared.inbox().last_error.clone());
            let text = text.unwrap_or_else(|| "no answer".to_owned());
            if let Some(pending) = self.waiting.pop_front() {
                self.shared.answer(pending, Err(Error::Redis(text)));
            }
        }
    }

    /// Keeps the reason for readiness, and logs the beginning and the end of trouble.
    fn tell(&self, error: Option<String>) {
        let mut inbox = self.shared.inbox();
        match (&error, &inbox.last_error) {
            (Some(error), None) => tracing::warn!(%error, "redis does not take frames"),
            (Some(error), Some(last)) if error != last => {
                tracing::warn!(%error, "redis does not take frames");
            }
            (None, Some(_)) => tracing::info!("redis takes frames again"),
            _ => {}
        }
        inbox.last_error = error;
    }

    /// Sends frames over this connection for as long as that goes well.
    async fn session(
        &mut self,
        mut connection: MultiplexedConnection,
        backoff: &mut Backoff,
    ) -> End {
        loop {
            if let Err(error) = self.fence(&mut connection).await {
                return End::Broken(error);
            }
            if self.shared.inbox().last_error.is_some() {
                match self.probe(&mut connection).await {
                    Ok(true) => self.recovered(),
                    Ok(false) => continue,
                    Err(error) => return End::Broken(error),
                }
            }
            // Without an end something came between, and a new line makes it certain what.
            if let Some(end) = self.stream(&connection, backoff).await {
                return end;
            }
        }
    }

    /// Draws the line, and settles what was sent before.
    async fn fence(&mut self, connection: &mut MultiplexedConnection) -> Result<(), RedisError> {
        self.epoch = format!("{:016x}", random());
        let keys = self.keys.clone();
        let (producer, epoch) = (self.producer.clone(), self.epoch.clone());
        let work = async {
            scripts::PUSH
                .prepare_invoke()
                .load_async(connection)
                .await?;
            scripts::FENCE
                .key(keys.pushed(&producer))
                .arg(epoch)
                .arg(REMEMBER_MS)
                .invoke_async::<(bool, u64)>(connection)
                .await
        };
        let (was_there, last) = self.meanwhile(work).await?;
        if !was_there && self.known > 0 {
            tracing::error!(
                "redis has forgotten this daemon: it was flushed, restored, failed over or has evicted keys; frames it had acknowledged may be lost"
            );
        }
        self.known = last;
        self.sequence = last;
        while let Some(pending) = self.unknown.pop_back() {
            if pending.sequence > last {
                self.waiting.push_front(pending);
            } else {
                self.unknown.push_back(pending);
                break;
            }
        }
        for pending in std::mem::take(&mut self.unknown) {
            self.shared.answer(pending, Ok(()));
        }
        self.shared.pushed.notify_waiters();
        Ok(())
    }

    /// Asks whether Redis takes writes, without leaving anything in it. `false` when it no longer knows
    /// this connection.
    async fn probe(&mut self, connection: &mut MultiplexedConnection) -> Result<bool, RedisError> {
        let mut probe = scripts::PROBE.key(self.keys.pushed(&self.producer));
        probe
            .arg(format!("{}:{}", self.epoch, self.sequence))
            .arg(REMEMBER_MS);
        self.meanwhile(probe.invoke_async(connection)).await
    }

    fn recovered(&mut self) {
        self.refusal = None;
        self.tell(None);
    }

    /// Pipelines frames; returns `None` when a new fence is needed.
    async fn stream(
        &mut self,
        connection: &MultiplexedConnection,
        backoff: &mut Backoff,
    ) -> Option<End> {
        let mut sent: VecDeque<Pending> = VecDeque::new();
        let mut replies: FuturesOrdered<Reply> = FuturesOrdered::new();
        let mut in_flight_bytes = 0;
        let mut returned = VecDeque::new();
        let mut refusal = None;
        let shared = Arc::clone(&self.shared);
        loop {
            self.collect();
            let stopped = refusal.is_some() || !returned.is_empty();
            while !stopped && replies.len() < MAX_IN_FLIGHT && in_flight_bytes < MAX_IN_FLIGHT_BYTES
            {
                let Some(mut pending) = self.waiting.pop_front() else {
                    break;
                };
                in_flight_bytes += pending.frame.as_bytes().len();
                replies.push_back(self.push(connection, &mut pending));
                sent.push_back(pending);
            }
            if replies.is_empty() {
                if stopped {
                    returned.append(&mut self.waiting);
                    self.waiting = returned;
                    return refusal.map(End::Refused);
                }
                if self.shared.inbox().closing && self.shared.inbox().frames.is_empty() {
                    return Some(End::Closed);
                }
            }
            let reply = tokio::select! {
                Some(reply) = replies.next(), if !replies.is_empty() => reply,
                () = shared.wake.notified() => continue,
                () = tokio::time::sleep(PROBE), if replies.is_empty() => {
                    match self.probe(&mut connection.clone()).await {
                        Ok(true) => continue,
                        Ok(false) => return None,
                        Err(error) => return Some(End::Broken(error)),
                    }
                }
            };
            let Some(pending) = sent.pop_front() else {
                continue;
            };
            in_flight_bytes -= pending.frame.as_bytes().len();
            match reply {
                Ok(1) => {
                    self.known = pending.sequence;
                    backoff.reset();
                    self.shared.answer(pending, Ok(()));
                    self.shared.pushed.notify_waiters();
                }
                // Not its turn: something before it did not go in.
                Ok(_) => returned.push_back(pending),
                Err(error) if error.kind() == redis::ServerErrorKind::NoScript.into() => {
                    returned.push_back(pending);
                }
                Err(error) if is_refusal(&error) => {
                    let text = words(&error);
                    self.shared.answer(pending, Err(Error::Redis(text.clone())));
                    refusal = Some(text);
                }
                Err(error) => {
                    self.unknown = returned;
                    self.unknown.push_back(pending);
                    self.unknown.append(&mut sent);
                    return Some(End::Broken(error));
                }
            }
        }
    }

    fn push(&mut self, connection: &MultiplexedConnection, pending: &mut Pending) -> Reply {
        let before = format!("{}:{}", self.epoch, self.sequence);
        self.sequence += 1;
        pending.sequence = self.sequence;
        let after = format!("{}:{}", self.epoch, self.sequence);
        let frame = &pending.frame;
        let [a, b, c] = frame.header().accepted;
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(scripts::PUSH.get_hash())
            .arg(3)
            .arg(self.keys.queue())
            .arg(self.keys.pushed(&self.producer))
            .arg(self.keys.depth())
            .arg(before)
            .arg(after)
            .arg(REMEMBER_MS)
            .arg(&frame.as_bytes()[..])
            .arg(frame.as_bytes().len())
            .arg(a)
            .arg(b)
            .arg(c);
        let mut connection = connection.clone();
        Box::pin(async move { command.query_async(&mut connection).await })
    }
}
