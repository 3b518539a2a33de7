//! The producer's task: connections, fences, the pipeline.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use redis::aio::MultiplexedConnection;
use redis::{RedisError, RedisResult};

use super::{Pending, Shared, Who};
use crate::frame::Frame;
use crate::queue::redis::assurance::Assuring;
use crate::queue::redis::connect::{Backoff, Endpoint, is_refusal, random, words};
use crate::queue::redis::keys::Keys;
use crate::queue::redis::scripts;
use crate::queue::spill::Spill;
use crate::queue::{Claim, Error};

/// Frames and bytes sent and not answered.
const MAX_IN_FLIGHT: usize = 256;
const MAX_IN_FLIGHT_BYTES: usize = 16 << 20;
/// How often frames that wait for a connection are looked through.
const LOOK: Duration = Duration::from_millis(50);
/// How often an idle connection is asked whether it still takes writes, so that readiness knows.
const PROBE: Duration = Duration::from_secs(1);
/// How long Redis remembers a producer that is silent.
const REMEMBER_MS: u64 = 7 * 24 * 3600 * 1000;
/// How long Redis remembers which was the last frame of a daemon. It must outlast a daemon that was
/// stopped while it drained its spill.
pub(super) const REMEMBER_LAST_MS: u64 = 90 * 24 * 3600 * 1000;

/// Why a session with a connection ended.
pub(super) enum End {
    /// Everything is done and no more will come.
    Closed,
    /// All outcomes are known, but not all frames went in.
    Refused(String),
    /// The connection is of no more use.
    Broken(RedisError),
}

type Reply = BoxFuture<'static, RedisResult<i64>>;

/// See the module.
pub(super) struct Task {
    pub(super) shared: Arc<Shared>,
    endpoint: Endpoint,
    pub(super) keys: Keys,
    who: Who,
    /// Names this process's frames; a new one has nothing to ask about the old one's.
    producer: String,
    epoch: String,
    /// Sequence of the last frame that was sent.
    sequence: u64,
    /// Sequence of the last frame known to be in the queue.
    known: u64,
    /// Not sent, or certainly not in the queue.
    pub(super) waiting: VecDeque<Pending>,
    /// Sent, and the connection broke before the answer. Older than all that wait.
    pub(super) unknown: VecDeque<Pending>,
    /// Redis's words, while it refuses.
    pub(super) refusal: Option<String>,
    pub(super) spill: Option<Spill>,
    /// The spill's claim that is on its way into Redis.
    pub(super) draining: Option<Claim>,
    /// Whether so little is left in the spill that new frames wait for its end.
    pub(super) nearly_dry: bool,
}

impl Task {
    pub(super) fn new(
        shared: Arc<Shared>,
        endpoint: Endpoint,
        keys: Keys,
        who: Who,
        spill: Option<Spill>,
    ) -> Task {
        Task {
            shared,
            endpoint,
            keys,
            who,
            producer: format!("{:016x}", random()),
            epoch: String::new(),
            sequence: 0,
            known: 0,
            waiting: VecDeque::new(),
            unknown: VecDeque::new(),
            refusal: None,
            spill,
            draining: None,
            nearly_dry: false,
        }
    }

    pub(super) async fn run(&mut self) {
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
            if self.shared.inbox().closing && self.is_done() {
                return;
            }
        }
    }

    pub(super) fn worker(&self) -> &str {
        &self.who.worker
    }

    /// Whether every frame has an outcome.
    pub(super) fn is_done(&self) -> bool {
        let inbox = self.shared.inbox();
        // Also the frames that the spill is writing have bytes here.
        inbox.bytes == 0 && self.waiting.is_empty() && self.unknown.is_empty()
    }

    /// Waits for something else, and answers the frames that must not wait as long.
    pub(super) async fn meanwhile<T>(&mut self, work: impl Future<Output = T>) -> T {
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
        let mut inbox = self.shared.inbox();
        self.waiting.append(&mut inbox.frames);
        while let Some(pending) = inbox.in_doubt.pop_back() {
            self.unknown.push_front(pending);
        }
    }

    /// Answers frames that are certainly not in: at once while Redis refuses, else when they have
    /// waited for the configured time.
    fn expire(&mut self) {
        if self.spill.is_some() {
            self.spill_late();
            return;
        }
        while let Some(first) = self.waiting.front() {
            if self.refusal.is_none() && first.since.elapsed() < self.who.timeout {
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
            if let Err(end) = self.drain(&mut connection).await {
                return end;
            }
            if !self.unknown.is_empty() {
                continue;
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
        self.assure(connection).await?;
        self.known = last;
        self.sequence = last;
        for mut pending in std::mem::take(&mut self.unknown).into_iter().rev() {
            if pending.sequence <= last {
                self.shared.answer(pending, Ok(()));
            } else if let Some(error) = pending.refused.take() {
                // Later ones may be in the spill by now; it has lost its place.
                self.shared.answer(pending, Err(error));
            } else {
                pending.in_doubt = false;
                self.waiting.push_front(pending);
            }
        }
        self.shared.pushed.notify_waiters();
        Ok(())
    }

    /// Waits until what this connection has written is as safe as it is to be.
    pub(super) async fn assure(
        &mut self,
        connection: &mut MultiplexedConnection,
    ) -> Result<(), RedisError> {
        if !self.who.assurance.is_on() {
            return Ok(());
        }
        let assured = self.who.assurance.wait(connection);
        self.meanwhile(assured).await
    }

    /// Asks whether Redis takes writes, without leaving anything in it. `false` when it no longer knows
    /// this connection.
    async fn probe(&mut self, connection: &mut MultiplexedConnection) -> Result<bool, RedisError> {
        let mut probe = scripts::PROBE.key(self.keys.pushed(&self.producer));
        probe
            .arg(format!("{}:{}", self.epoch, self.sequence))
            .arg(REMEMBER_MS);
        let known = self.meanwhile(probe.invoke_async(connection)).await?;
        self.assure(connection).await?;
        Ok(known)
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
        // In the queue, and not yet safe there; older than all that are `sent`.
        let mut unassured: VecDeque<Pending> = VecDeque::new();
        let mut assuring: Option<(u64, Assuring)> = None;
        let mut replies: FuturesOrdered<Reply> = FuturesOrdered::new();
        let mut in_flight_bytes = 0;
        let mut returned = VecDeque::new();
        let mut refusal = None;
        let shared = Arc::clone(&self.shared);
        loop {
            self.collect();
            let stopped = refusal.is_some() || !returned.is_empty();
            while !stopped
                && replies.len() + unassured.len() < MAX_IN_FLIGHT
                && in_flight_bytes < MAX_IN_FLIGHT_BYTES
            {
                let Some(mut pending) = self.waiting.pop_front() else {
                    break;
                };
                in_flight_bytes += pending.frame.as_bytes().len();
                replies.push_back(self.push(connection, &mut pending));
                sent.push_back(pending);
            }
            if assuring.is_none()
                && let Some(last) = unassured.back()
            {
                assuring = Some((last.sequence, self.who.assurance.wait(connection)));
            }
            if replies.is_empty() && unassured.is_empty() {
                if stopped {
                    returned.append(&mut self.waiting);
                    self.waiting = returned;
                    return refusal.map(End::Refused);
                }
                if self.shared.inbox().closing && self.shared.inbox().frames.is_empty() {
                    return Some(End::Closed);
                }
            }
            let oldest = unassured.front().or(sent.front());
            let (late, idle) = (self.late(oldest), oldest.is_none());
            let reply = tokio::select! {
                Some(reply) = replies.next(), if !replies.is_empty() => reply,
                (up_to, assured) = settled(&mut assuring) => {
                    assuring = None;
                    if let Err(error) = assured {
                        self.unknown.extend(unassured);
                        self.broken(returned, sent, stopped);
                        return Some(End::Broken(error));
                    }
                    let safe = unassured.partition_point(|pending| pending.sequence <= up_to);
                    for pending in unassured.drain(..safe) {
                        in_flight_bytes -= pending.frame.as_bytes().len();
                        self.shared.answer(pending, Ok(()));
                    }
                    continue;
                }
                () = tokio::time::sleep_until(late.into()), if !idle => {
                    self.unknown.extend(unassured);
                    self.broken(returned, sent, stopped);
                    let error = std::io::Error::from(std::io::ErrorKind::TimedOut);
                    return Some(End::Broken(error.into()));
                }
                () = shared.wake.notified() => continue,
                () = tokio::time::sleep(PROBE), if idle => {
                    match self.probe(&mut connection.clone()).await {
                        Ok(true) => continue,
                        Ok(false) => return None,
                        Err(error) => return Some(End::Broken(error)),
                    }
                }
            };
            let Some(mut pending) = sent.pop_front() else {
                continue;
            };
            if matches!(reply, Ok(1)) {
                self.known = pending.sequence;
                backoff.reset();
                self.shared.pushed.notify_waiters();
                if self.who.assurance.is_on() {
                    unassured.push_back(pending);
                } else {
                    in_flight_bytes -= pending.frame.as_bytes().len();
                    self.shared.answer(pending, Ok(()));
                }
                continue;
            }
            in_flight_bytes -= pending.frame.as_bytes().len();
            match reply {
                Ok(2) => {
                    tracing::error!(
                        first_id = pending.frame.header().first_id,
                        "redis has records of this daemon with later ids; was its id-floor removed, or its state_dir copied?"
                    );
                    let text = "ids of records went back".to_owned();
                    self.shared.answer(pending, Err(Error::Redis(text)));
                }
                // Not its turn: something before it did not go in.
                Ok(_) => {
                    pending.in_doubt = false;
                    returned.push_back(pending);
                }
                Err(error) if error.kind() == redis::ServerErrorKind::NoScript.into() => {
                    pending.in_doubt = false;
                    returned.push_back(pending);
                }
                Err(error) if is_refusal(&error) => {
                    let text = words(&error);
                    if self.spill.is_some() {
                        pending.in_doubt = false;
                        returned.push_back(pending);
                    } else {
                        self.shared.answer(pending, Err(Error::Redis(text.clone())));
                    }
                    refusal = Some(text);
                }
                Err(error) => {
                    sent.push_front(pending);
                    self.unknown.extend(unassured);
                    self.broken(returned, sent, stopped);
                    return Some(End::Broken(error));
                }
            }
        }
    }

    /// Keeps what was on its way over a connection that broke. After a frame that did not go in
    /// (`stopped`), nothing that was sent behind it can go in either.
    fn broken(&mut self, returned: VecDeque<Pending>, sent: VecDeque<Pending>, stopped: bool) {
        if !stopped {
            self.unknown.extend(sent);
            return;
        }
        for mut pending in returned.into_iter().chain(sent).rev() {
            pending.in_doubt = false;
            self.waiting.push_front(pending);
        }
    }

    /// When the oldest frame under way is no more waited for.
    fn late(&self, oldest: Option<&Pending>) -> Instant {
        let patience = self
            .spill
            .as_ref()
            .map_or(self.who.timeout * 2, |spill| spill.patience());
        oldest.map_or_else(Instant::now, |oldest| oldest.sent) + patience
    }

    fn push(&mut self, connection: &MultiplexedConnection, pending: &mut Pending) -> Reply {
        let before = format!("{}:{}", self.epoch, self.sequence);
        self.sequence += 1;
        pending.sequence = self.sequence;
        pending.sent = Instant::now();
        pending.in_doubt = true;
        let after = format!("{}:{}", self.epoch, self.sequence);
        let frame = &pending.frame;
        let [a, b, c] = frame.header().accepted;
        let mut command = redis::cmd("EVALSHA");
        command
            .arg(scripts::PUSH.get_hash())
            .arg(4)
            .arg(self.keys.queue())
            .arg(self.keys.pushed(&self.producer))
            .arg(self.keys.depth())
            .arg(self.keys.last(&self.who.worker, frame.header().node))
            .arg(before)
            .arg(after)
            .arg(REMEMBER_MS)
            .arg(&frame.as_bytes()[..])
            .arg(position(frame))
            .arg(REMEMBER_LAST_MS)
            .arg(frame.as_bytes().len())
            .arg(a)
            .arg(b)
            .arg(c);
        let mut connection = connection.clone();
        Box::pin(async move { command.query_async(&mut connection).await })
    }
}

/// What became of a `WAIT`, and up to which frame it tells; never, when none is under way.
async fn settled(assuring: &mut Option<(u64, Assuring)>) -> (u64, RedisResult<()>) {
    match assuring {
        Some((up_to, wait)) => (*up_to, wait.await),
        None => std::future::pending().await,
    }
}

/// A frame's place among its node's, as text that sorts as the ids do: Lua's numbers end at 2^53.
pub(super) fn position(frame: &Frame) -> String {
    format!("{:016x}", frame.header().first_id)
}
