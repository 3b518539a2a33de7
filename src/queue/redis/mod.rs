//! The queue in Redis: a list of frames (`keys.rs` has all keys), for Redis from 6.2 on and Valkey, alone, behind
//! Sentinel (`redis+sentinel://host:port,…/master`) or as one slot of a cluster.
//!
//! `push.rs` appends (to the spill while Redis takes nothing), `worker.rs` claims, `lease.rs` renews the leases and takes over from workers that
//! are gone; `scripts.rs` has the steps that Redis runs as one. Redis may be away at any time, also at
//! the start: appends wait or fail, claims fail, and both go on by themselves.
//!
//! Pipelining hides the network: through a proxy that adds 3 ms, one append at a time makes 190 frames
//! of 8 KiB a second and 64 at a time make 6,000 (Redis 7.0, append-only file synced always, in memory,
//! on the same busy 2-core machine).

mod assurance;
mod connect;
mod keys;
mod lease;
mod push;
mod scripts;
mod worker;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use redis::RedisError;
use redis::aio::MultiplexedConnection;
use tokio::sync::{Notify, watch};

use self::assurance::Assurance;
use self::connect::{Endpoint, failed};
use self::keys::Keys;
use self::lease::{Keeper, Node};
use self::push::{Producer, Who};
use self::worker::{Look, Shared, Worker};
use super::dead::DeadLetters;
use super::disk::DiskQueue;
use super::spill::Spill;
use super::{Claim, ClaimKey, ClaimLimits, Depth, Error};
use crate::config::RedisQueueConfig;
use crate::frame::{Frame, Header};

/// Frames of a list that are looked at for digests at the start, and how many at once.
const MOST_LOOKED_AT: isize = 20_000;
const LOOK_STEP: isize = 128;
/// How long all of that may take.
const LOOK_WITHIN: std::time::Duration = std::time::Duration::from_secs(3);

/// The queue in Redis. Cheap to clone; all clones are one queue.
#[derive(Clone)]
pub struct RedisQueue {
    inner: Arc<Inner>,
}

struct Inner {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    producer: Producer,
    spill: Option<Spill>,
    /// What an earlier start left in the disk queue, before `queue.kind` was changed.
    old: Option<DiskQueue>,
    worker: tokio::sync::Mutex<Worker>,
    /// Told when a claim may have become due: a push of ours, an adoption, the end.
    changed: Arc<Notify>,
    /// For acknowledgements and the depth, which must not wait for a claim.
    side: tokio::sync::Mutex<Option<MultiplexedConnection>>,
    depth: Mutex<Depth>,
    node: watch::Sender<Option<Node>>,
    stop: watch::Sender<bool>,
}

impl RedisQueue {
    /// Makes the queue and its tasks; Redis need not be there. `worker` names this daemon among those
    /// that share the queue and stays the same over restarts, so that it finds its claims again. Frames
    /// that turn out damaged go to `dead`.
    ///
    /// # Errors
    /// When the URL cannot be one.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub fn open(
        config: &RedisQueueConfig,
        worker: &str,
        dead: DeadLetters,
    ) -> Result<RedisQueue, Error> {
        Self::open_with(config, worker, dead, None, None)
    }

    /// As [`RedisQueue::open`], with a spill for what Redis does not take. What an old disk queue holds
    /// is handed out before anything else.
    pub(super) fn open_with(
        config: &RedisQueueConfig,
        worker: &str,
        dead: DeadLetters,
        spill: Option<Spill>,
        old: Option<DiskQueue>,
    ) -> Result<RedisQueue, Error> {
        let endpoint = Endpoint::new(config)?;
        let keys = Keys::new(&config.prefix);
        let changed = Arc::new(Notify::new());
        let shared = Arc::new(Shared {
            worker: worker.to_owned(),
            keys: keys.clone(),
            lease_ms: u64::try_from(config.lease.duration().as_millis()).unwrap_or(u64::MAX / 1000),
            epoch: Mutex::default(),
            adopted: false.into(),
            out: Mutex::default(),
            vanished: Mutex::default(),
        });
        let (node, node_receiver) = watch::channel(None);
        let (stop, stop_receiver) = watch::channel(false);
        let keeper = Keeper {
            endpoint: endpoint.clone(),
            shared: Arc::clone(&shared),
            node: node_receiver,
            adopted: Arc::clone(&changed),
            stop: stop_receiver,
        };
        tokio::spawn(keeper.run());
        let producer = Producer::start(
            endpoint.clone(),
            keys,
            Who {
                assurance: Assurance::new(config, spill.as_ref().map(Spill::patience)),
                worker: worker.to_owned(),
                timeout: config.timeout.duration(),
            },
            Arc::clone(&changed),
            spill.clone(),
        );
        tokio::spawn(warn_of_settings(endpoint.clone()));
        Ok(RedisQueue {
            inner: Arc::new(Inner {
                worker: tokio::sync::Mutex::new(Worker::new(
                    endpoint.clone(),
                    Arc::clone(&shared),
                    dead,
                )),
                endpoint,
                shared,
                producer,
                spill,
                old,
                changed,
                side: tokio::sync::Mutex::new(None),
                depth: Mutex::default(),
                node,
                stop,
            }),
        })
    }

    /// See [`super::Queue::append`].
    ///
    /// # Errors
    /// When nothing was written.
    pub fn append(
        &self,
        frame: Frame,
    ) -> impl Future<Output = Result<(), Error>> + Send + 'static + use<> {
        let taken = self.inner.producer.append(frame);
        async move { taken?.await.unwrap_or(Err(Error::Closed)) }
    }

    /// See [`super::Queue::claim`].
    ///
    /// # Errors
    /// When Redis fails.
    pub async fn claim(&self, limits: &ClaimLimits) -> Result<Claim, Error> {
        loop {
            // Made before the look, so that no change in between is missed.
            let changed = Arc::clone(&self.inner.changed).notified_owned();
            if *self.inner.stop.borrow() {
                return Err(Error::Closed);
            }
            if let Some(claim) = self.claim_old(limits).await? {
                return Ok(claim);
            }
            let due = match self.look(limits, false).await? {
                Look::Claim(claim) => return Ok(claim),
                Look::Later(due) => due,
            };
            let poll = Instant::now() + Worker::POLL;
            let at = due.map_or(poll, |due| due.min(poll));
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(at.into()) => {}
            }
        }
    }

    /// See [`super::Queue::try_claim`].
    ///
    /// # Errors
    /// When Redis fails.
    pub async fn try_claim(&self, limits: &ClaimLimits) -> Result<Option<Claim>, Error> {
        if let Some(claim) = self.claim_old(limits).await? {
            return Ok(Some(claim));
        }
        match self.look(limits, true).await? {
            Look::Claim(claim) => Ok(Some(claim)),
            Look::Later(_) => Ok(None),
        }
    }

    async fn claim_old(&self, limits: &ClaimLimits) -> Result<Option<Claim>, Error> {
        match &self.inner.old {
            Some(old) => old.try_claim(limits).await,
            None => Ok(None),
        }
    }

    async fn look(&self, limits: &ClaimLimits, at_once: bool) -> Result<Look, Error> {
        // On the heap: the state machine of all the round trips is large.
        let mut worker = self.inner.worker.lock().await;
        Box::pin(worker.look(limits, at_once)).await
    }

    /// See [`super::Queue::ack`].
    ///
    /// # Errors
    /// When Redis fails; the claim then stays, or is gone and may be acknowledged again.
    pub async fn ack(&self, claim: &Claim) -> Result<(), Error> {
        let ClaimKey::Redis(name) = &claim.key else {
            return match &self.inner.old {
                Some(old) => old.ack(claim).await,
                None => Ok(()),
            };
        };
        let mut records = [0u64; 3];
        let mut bytes = 0;
        for frame in &claim.frames {
            bytes += frame.as_bytes().len();
            for (sum, count) in records.iter_mut().zip(frame.header().accepted) {
                *sum += u64::from(count);
            }
        }
        let (keys, worker) = (&self.inner.shared.keys, &self.inner.shared.worker);
        let mut call = scripts::ACK.key(keys.sealed(worker, name));
        call.key(keys.claims(worker))
            .key(keys.depth())
            .arg(name)
            .arg(claim.frames.len())
            .arg(bytes);
        for count in records {
            call.arg(count);
        }
        let acked: Result<i64, _> = match self.side().await {
            Ok(mut connection) => call.invoke_async(&mut connection).await,
            Err(error) => Err(error),
        };
        match acked {
            Ok(_) => {
                self.inner.shared.out().remove(name);
                Ok(())
            }
            Err(error) => {
                *self.inner.side.lock().await = None;
                Err(failed(&error))
            }
        }
    }

    async fn side(&self) -> Result<MultiplexedConnection, RedisError> {
        let mut side = self.inner.side.lock().await;
        match &*side {
            Some(connection) => Ok(connection.clone()),
            None => Ok(side.insert(self.inner.endpoint.connect().await?).clone()),
        }
    }

    /// Asks Redis whether it is there. It may never answer.
    ///
    /// # Errors
    /// What Redis or the connection says.
    pub async fn ping(&self) -> Result<(), Error> {
        let answer: Result<String, RedisError> = match self.side().await {
            Ok(mut connection) => redis::cmd("PING").query_async(&mut connection).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok(_) => Ok(()),
            Err(error) => {
                *self.inner.side.lock().await = None;
                Err(failed(&error))
            }
        }
    }

    /// See [`super::Queue::depth`]. What all daemons on this Redis have in the queue, the last known while
    /// Redis is away, and what this daemon has in its spill.
    pub async fn depth(&self) -> Depth {
        let mut depth = self.redis_depth().await;
        let disks = self.inner.old.iter().chain(self.spill_disk());
        for disk in disks {
            depth = depth.with(disk.depth());
        }
        depth
    }

    fn spill_disk(&self) -> Option<&DiskQueue> {
        self.inner.spill.as_ref().map(Spill::disk)
    }

    async fn redis_depth(&self) -> Depth {
        let known = |depth: &Mutex<Depth>| {
            *depth
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner)
        };
        match self.ask_depth().await {
            Ok(depth) => {
                *self
                    .inner
                    .depth
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner) = depth;
                depth
            }
            Err(_) => {
                *self.inner.side.lock().await = None;
                known(&self.inner.depth)
            }
        }
    }

    async fn ask_depth(&self) -> Result<Depth, RedisError> {
        let mut connection = self.side().await?;
        let (keys, worker) = (&self.inner.shared.keys, &self.inner.shared.worker);
        let mut pipe = redis::pipe();
        pipe.cmd("HMGET").arg(keys.depth());
        for field in ["frames", "bytes", "records0", "records1", "records2"] {
            pipe.arg(field);
        }
        pipe.cmd("ZRANGE").arg(keys.claims(worker)).arg(0).arg(0);
        let (counts, sealed): ([Option<i64>; 5], Vec<String>) =
            pipe.query_async(&mut connection).await?;
        let [frames, bytes, a, b, c] =
            counts.map(|count| count.unwrap_or(0).max(0).cast_unsigned());
        let mut oldest = None;
        let lists = sealed
            .first()
            .map(|name| keys.sealed(worker, name))
            .into_iter()
            .chain([keys.claim(worker), keys.queue()]);
        for list in lists {
            let header: Option<Vec<u8>> = scripts::PEEK
                .key(list)
                .invoke_async(&mut connection)
                .await?;
            oldest = header
                .and_then(|bytes| Header::parse(&bytes).ok())
                .map(|(header, _)| header.sealed_at);
            if oldest.is_some() {
                break;
            }
        }
        Ok(Depth {
            frames,
            records: [a, b, c],
            bytes,
            oldest,
        })
    }

    /// Digests of requests in frames that were sealed since this time, in milliseconds since the epoch,
    /// with those times: of what waits in Redis, this worker's claims and the spill. Looks at the
    /// newest [`MOST_LOOKED_AT`] frames of each list at most, and not at all in a Redis that is away.
    ///
    /// # Errors
    /// When the spill cannot be read.
    pub async fn digests(&self, since: i64) -> Result<Vec<([u8; 16], i64)>, Error> {
        // Read before its draining began: a request that moves on meanwhile would be in neither.
        let spilled = self.inner.spill.as_ref().map(Spill::take_digests);
        let mut found = spilled.unwrap_or_default();
        if let Some(old) = &self.inner.old {
            found.extend(old.digests(since)?);
        }
        let asked = tokio::time::timeout(LOOK_WITHIN, self.ask_digests(since, &mut found)).await;
        let error = match asked {
            Ok(Ok(())) => return Ok(found),
            Ok(Err(error)) => connect::words(&error),
            Err(_) => format!("no answer within {LOOK_WITHIN:?}"),
        };
        tracing::warn!(error, "redis does not say which requests are in it");
        Ok(found)
    }

    async fn ask_digests(
        &self,
        since: i64,
        found: &mut Vec<([u8; 16], i64)>,
    ) -> Result<(), RedisError> {
        let mut connection = self.side().await?;
        let (keys, worker) = (&self.inner.shared.keys, &self.inner.shared.worker);
        let mut command = redis::cmd("ZRANGE");
        command.arg(keys.claims(worker)).arg(0).arg(-1);
        let sealed: Vec<String> = command.query_async(&mut connection).await?;
        let sealed = sealed.iter().map(|name| keys.sealed(worker, name));
        for list in [keys.queue(), keys.claim(worker)].into_iter().chain(sealed) {
            // From the newest on.
            let mut last = -1;
            while last > -MOST_LOOKED_AT {
                let beginnings: Vec<Vec<u8>> = scripts::BEGINNINGS
                    .key(&list)
                    .arg(last - LOOK_STEP + 1)
                    .arg(last)
                    .invoke_async(&mut connection)
                    .await?;
                let count = beginnings.len();
                let mut is_old = false;
                for bytes in beginnings {
                    let Ok((header, _)) = Header::parse(&bytes) else {
                        continue;
                    };
                    is_old |= header.sealed_at < since;
                    if header.sealed_at >= since {
                        let digests = header.digests(&bytes);
                        found.extend(digests.map(|digest| (digest, header.sealed_at)));
                    }
                }
                if is_old || count == 0 {
                    break;
                }
                last -= LOOK_STEP;
            }
        }
        Ok(())
    }

    /// A number that no other daemon on this Redis has, kept until the queue is closed.
    ///
    /// # Errors
    /// When Redis is away or all numbers are taken.
    pub async fn lease_node(&self) -> Result<u16, Error> {
        let held = self.inner.node.borrow().as_ref().map(Node::number);
        if let Some(number) = held {
            return Ok(number);
        }
        let node = lease::lease_node(&self.inner.endpoint, &self.inner.shared).await?;
        let number = node.number();
        self.inner.node.send_replace(Some(node));
        Ok(number)
    }

    /// Why appends fail at the moment: in Redis's own words, and why the spill takes none either.
    #[must_use]
    pub fn last_error(&self) -> Option<Error> {
        let redis = self.inner.producer.last_error()?;
        match &self.inner.spill {
            Some(spill) => {
                let disk = spill.last_error()?;
                Some(Error::Redis(format!("{redis}; and the spill: {disk}")))
            }
            None => Some(Error::Redis(redis)),
        }
    }

    /// Why frames go through the spill, when they do.
    #[must_use]
    pub fn spills_because(&self) -> Option<String> {
        let spills = self.inner.spill.as_ref().is_some_and(Spill::is_active);
        let words = || {
            let error = self.inner.producer.last_error();
            error.unwrap_or_else(|| "what was spilled goes before what is new".to_owned())
        };
        spills.then(words)
    }

    /// What waits in the spill; it is in the depth too.
    #[must_use]
    pub fn spill_depth(&self) -> Depth {
        let spill = self.inner.spill.as_ref();
        spill.map(Spill::depth).unwrap_or_default()
    }

    /// See [`super::Queue::damaged`].
    #[must_use]
    pub fn damaged(&self) -> (u64, [u64; 3]) {
        let vanished = self.inner.shared.vanished.lock();
        let vanished = *vanished.unwrap_or_else(std::sync::PoisonError::into_inner);
        let disks = self.inner.old.iter().chain(self.spill_disk());
        let start = (vanished.times, vanished.records);
        disks.fold(start, |(stretches, records), disk| {
            let (more, lost) = disk.damaged();
            let records = std::array::from_fn(|i| records[i] + lost[i]);
            (stretches + more, records)
        })
    }

    /// See [`super::Queue::close`].
    pub async fn close(&self) {
        self.inner.producer.close().await;
        for disk in self.inner.old.iter().chain(self.spill_disk()) {
            disk.close().await;
        }
        self.inner.stop.send_replace(true);
        self.inner.changed.notify_waiters();
        let node = self.inner.node.send_replace(None);
        if let Some(node) = node {
            node.give_back(&self.inner.endpoint, &self.inner.shared)
                .await;
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

/// Says once what about Redis's settings can lose acknowledged records.
async fn warn_of_settings(endpoint: Endpoint) {
    let mut backoff = connect::Backoff::default();
    let mut connection = loop {
        match endpoint.connect().await {
            Ok(connection) => break connection,
            Err(_) => tokio::time::sleep(backoff.next()).await,
        }
    };
    let info: Result<String, _> = redis::cmd("INFO").query_async(&mut connection).await;
    let Ok(info) = info else { return };
    let has = |line: &str| info.lines().any(|other| other.trim_end() == line);
    if has("aof_enabled:0") {
        tracing::warn!(
            "redis keeps no append-only file: a crash of redis loses acknowledged records; set `appendonly yes` and `appendfsync always`"
        );
    }
    let policy = info
        .lines()
        .find_map(|line| line.strip_prefix("maxmemory_policy:"));
    if let Some(policy) = policy
        .map(str::trim)
        .filter(|policy| *policy != "noeviction")
    {
        tracing::warn!(
            policy,
            "redis may evict the queue; set `maxmemory-policy noeviction`"
        );
    }
}

#[cfg(test)]
mod tests;
