//! The consumer: takes frames into this worker's claim list, seals them, and finds again what was
//! sealed before.
//!
//! What is in memory here is a copy of what is in Redis. After any fault, a caller that went away in the
//! middle, or the loss of the lease it is thrown away and read anew.

mod lists;

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{RedisError, Value};

use self::lists::parse;
use super::connect::{Backoff, Endpoint, failed, random};
use super::keys::Keys;
use super::scripts;
use crate::frame::Frame;
use crate::queue::dead::DeadLetters;
use crate::queue::{Claim, ClaimKey, ClaimLimits, Error, now_ms, token};

/// Bytes moved by one command, so that no command keeps Redis busy for long.
const STEP_BYTES: usize = 4 << 20;
/// Frames read by one command when a list is read anew.
const STEP_FRAMES: isize = 64;
/// Names of lists that were adopted before they were sealed.
const UNSEALED: &str = "unsealed-";

/// What the worker and the task that renews its lease both know.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) worker: String,
    pub(super) keys: Keys,
    pub(super) lease_ms: u64,
    /// The epoch in the lease; changes with every connection.
    pub(super) epoch: Mutex<String>,
    /// Told to look for sealed claims: others were adopted.
    pub(super) adopted: AtomicBool,
    /// Names of claims handed out and not acknowledged.
    pub(super) out: Mutex<HashSet<String>>,
    /// Frames that vanished from Redis.
    pub(super) vanished: Mutex<Vanished>,
}

/// What Redis no longer has although nobody took it: it was evicted, deleted or not restored.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Vanished {
    /// Frames that are missing at the moment, by the depth.
    pub(super) missing: i64,
    /// How often such a loss was written off.
    pub(super) times: u64,
    /// Records written off, by receiver.
    pub(super) records: [u64; 3],
}

impl Shared {
    pub(super) fn epoch(&self) -> String {
        let epoch = self.epoch.lock();
        epoch.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn out(&self) -> MutexGuard<'_, HashSet<String>> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What went wrong on the way to a claim.
enum Trouble {
    Redis(RedisError),
    /// The lease is another's, or the lists are not as they were left.
    Stale(&'static str),
}

impl From<RedisError> for Trouble {
    fn from(error: RedisError) -> Trouble {
        Trouble::Redis(error)
    }
}

/// Frames taken and not sealed.
#[derive(Debug, Default)]
struct Open {
    frames: Vec<Frame>,
    rows: usize,
    bytes: usize,
    since: Option<Instant>,
    /// The next frame in the queue does not fit.
    full: bool,
}

impl Open {
    fn add(&mut self, frame: Frame) {
        self.rows += frame.header().num_records as usize;
        self.bytes += frame.as_bytes().len();
        self.since.get_or_insert_with(Instant::now);
        self.frames.push(frame);
    }
}

/// A claim being sealed: kept until it is known that it was.
#[derive(Debug)]
struct Sealing {
    token: String,
    sealed_at: i64,
}

/// What a look at the queue came to.
pub(super) enum Look {
    Claim(Claim),
    /// Nothing is due before then.
    Later(Option<Instant>),
}

/// See the module.
pub(super) struct Worker {
    endpoint: Endpoint,
    shared: Arc<Shared>,
    dead: DeadLetters,
    connection: Option<MultiplexedConnection>,
    open: Open,
    sealing: Option<Sealing>,
    /// Whether memory and Redis may differ.
    dirty: bool,
    /// Sealed claims that were not handed out by this process, oldest first, with their time of sealing.
    redeliver: VecDeque<(String, i64)>,
    ready: VecDeque<Claim>,
    /// Whether `redeliver` is to be read anew.
    unlisted: bool,
    backoff: Backoff,
    retry_at: Option<Instant>,
}

impl Worker {
    pub(super) fn new(endpoint: Endpoint, shared: Arc<Shared>, dead: DeadLetters) -> Worker {
        Worker {
            endpoint,
            shared,
            dead,
            connection: None,
            open: Open::default(),
            sealing: None,
            dirty: false,
            redeliver: VecDeque::new(),
            ready: VecDeque::new(),
            unlisted: false,
            backoff: Backoff::default(),
            retry_at: None,
        }
    }

    /// Hands out a claim if one is due; with `at_once` also one that is not.
    pub(super) async fn look(
        &mut self,
        limits: &ClaimLimits,
        at_once: bool,
    ) -> Result<Look, Error> {
        if let Some(at) = self.retry_at {
            tokio::time::sleep_until(at.into()).await;
        }
        let result = self.try_look(limits, at_once).await;
        let trouble = match result {
            Ok(look) => {
                self.backoff.reset();
                self.retry_at = None;
                return Ok(look);
            }
            Err(trouble) => trouble,
        };
        self.connection = None;
        self.retry_at = Some(Instant::now() + self.backoff.next());
        match trouble {
            Trouble::Redis(error) => Err(failed(&error)),
            Trouble::Stale(what) => {
                tracing::warn!(what, "the claims of this worker are read anew");
                Ok(Look::Later(self.retry_at))
            }
        }
    }

    async fn try_look(&mut self, limits: &ClaimLimits, at_once: bool) -> Result<Look, Trouble> {
        if self.connection.is_none() {
            self.begin().await?;
        } else if self.dirty {
            self.reload().await?;
        }
        self.unlisted |= self.shared.adopted.swap(false, Ordering::AcqRel);
        if self.unlisted {
            self.find_sealed().await?;
        }
        if let Some(claim) = self.ready.pop_front() {
            return Ok(self.hand_out(claim));
        }
        while let Some((name, sealed_at)) = self.redeliver.front().cloned() {
            let claim = self.read_sealed(&name, sealed_at).await?;
            self.redeliver.pop_front();
            if let Some(claim) = claim {
                return Ok(self.hand_out(claim));
            }
        }
        self.fill(limits).await?;
        let Some(since) = self.open.since else {
            return Ok(Look::Later(None));
        };
        let due = since + limits.delay;
        if !(self.open.full || at_once || due <= Instant::now()) {
            return Ok(Look::Later(Some(due)));
        }
        self.seal().await?;
        match self.ready.pop_front() {
            Some(claim) => Ok(self.hand_out(claim)),
            None => Ok(Look::Later(None)),
        }
    }

    fn hand_out(&mut self, claim: Claim) -> Look {
        if let ClaimKey::Redis(name) = &claim.key {
            self.shared.out().insert(name.clone());
        }
        Look::Claim(claim)
    }

    /// Connects, takes the lease under a new epoch, and reads what this worker has.
    async fn begin(&mut self) -> Result<(), Trouble> {
        let mut connection = self.endpoint.connect().await?;
        let epoch = format!("{:016x}", random());
        let keys = &self.shared.keys;
        scripts::REGISTER
            .key(keys.lease(&self.shared.worker))
            .key(keys.workers())
            .arg(&epoch)
            .arg(self.shared.lease_ms)
            .arg(&self.shared.worker)
            .invoke_async::<i64>(&mut connection)
            .await?;
        *self
            .shared
            .epoch
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = epoch;
        self.connection = Some(connection);
        self.unlisted = true;
        self.reload().await
    }

    fn connection(&self) -> Result<MultiplexedConnection, Trouble> {
        self.connection
            .clone()
            .ok_or(Trouble::Stale("the connection is gone"))
    }

    /// Finishes a seal whose answer did not come, and reads the claim list anew.
    async fn reload(&mut self) -> Result<(), Trouble> {
        self.dirty = true;
        if self.sealing.is_some() && self.finish_seal().await? {
            self.dirty = false;
            return Ok(());
        }
        self.sealing = None;
        self.open = Open::default();
        let key = self.shared.keys.claim(&self.shared.worker);
        for frame in self.read_list(&key, true).await? {
            self.open.add(frame);
        }
        self.dirty = false;
        Ok(())
    }

    /// Reads the names of the sealed claims that nobody has in hand.
    async fn find_sealed(&mut self) -> Result<(), Trouble> {
        let key = self.shared.keys.claims(&self.shared.worker);
        let mut connection = self.connection()?;
        let sealed: Vec<(String, i64)> = redis::cmd("ZRANGE")
            .arg(key)
            .arg(0)
            .arg(-1)
            .arg("WITHSCORES")
            .query_async(&mut connection)
            .await?;
        let ready: HashSet<&str> = self
            .ready
            .iter()
            .map(|claim| claim.token.as_str())
            .collect();
        let out = self.shared.out();
        let redeliver = sealed
            .into_iter()
            .filter(|(name, _)| !out.contains(name) && !ready.contains(name.as_str()))
            .collect();
        drop(out);
        self.redeliver = redeliver;
        self.unlisted = false;
        Ok(())
    }

    /// Takes frames until the claim is full or the queue is empty.
    async fn fill(&mut self, limits: &ClaimLimits) -> Result<(), Trouble> {
        let keys = &self.shared.keys;
        let (queue, claim, lease) = (
            keys.queue(),
            keys.claim(&self.shared.worker),
            keys.lease(&self.shared.worker),
        );
        while !self.open.full {
            let mut connection = self.connection()?;
            let some = !self.open.frames.is_empty();
            self.dirty = true;
            let (code, values): (i64, Vec<Value>) = scripts::TAKE
                .key(&queue)
                .key(&claim)
                .key(&lease)
                .arg(self.shared.epoch())
                .arg(self.shared.lease_ms)
                .arg(limits.rows.saturating_sub(self.open.rows))
                .arg(limits.bytes.saturating_sub(self.open.bytes))
                .arg(u8::from(some))
                .arg(STEP_BYTES)
                .invoke_async(&mut connection)
                .await?;
            if code == -1 {
                return Err(Trouble::Stale("another has the lease"));
            }
            let nothing = values.is_empty();
            let mut damaged = Vec::new();
            for value in values {
                match parse(value) {
                    Ok(frame) => self.open.add(frame),
                    Err(bytes) => damaged.push(bytes),
                }
            }
            for bytes in damaged {
                self.set_aside(&claim, &bytes, true).await?;
            }
            self.dirty = false;
            self.open.full = code == 1 && !self.open.frames.is_empty();
            if nothing {
                break;
            }
        }
        Ok(())
    }

    /// Seals the open claim and puts it among those that are ready.
    async fn seal(&mut self) -> Result<(), Trouble> {
        self.sealing = Some(Sealing {
            token: token(&self.open.frames),
            sealed_at: now_ms(),
        });
        self.dirty = true;
        if !self.finish_seal().await? {
            return Err(Trouble::Stale("the claim list has changed"));
        }
        self.dirty = false;
        Ok(())
    }

    /// Seals, or learns that it was sealed; `false` when the list is not what it was thought to be.
    async fn finish_seal(&mut self) -> Result<bool, Trouble> {
        let Some(Sealing { token, sealed_at }) = &self.sealing else {
            return Ok(false);
        };
        let (token, sealed_at) = (token.clone(), *sealed_at);
        let from = self.shared.keys.claim(&self.shared.worker);
        if !self
            .rename(&from, &token, sealed_at, self.open.frames.len(), "")
            .await?
        {
            return Ok(false);
        }
        self.sealing = None;
        let open = std::mem::take(&mut self.open);
        self.ready.push_back(Claim {
            frames: open.frames,
            sealed_at,
            redelivered: false,
            key: ClaimKey::Redis(token.clone()),
            token,
        });
        Ok(true)
    }

    /// How long it may take to notice frames that others append.
    pub(super) const POLL: Duration = Duration::from_millis(100);
}

/// The name under which another worker's unsealed list is adopted.
pub(super) fn unsealed_name(worker: &str) -> String {
    format!("{UNSEALED}{worker}-{:016x}", random())
}
