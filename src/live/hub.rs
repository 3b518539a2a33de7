//! The hub: takes committed frames from intake and gives them to whoever watches.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::channel::{Channel, Key, Member};
use super::outbox::Outbox;
use super::ring::{Entry, Ring};
use super::worker::Worker;
use super::{Backfill, Cursor, Viewer};
use crate::frame::Frame;
use crate::query::Query;

/// The hub's bounds, and where its node starts.
#[derive(Debug, Clone)]
pub struct HubConfig {
    /// Bytes of recent frames to keep.
    pub ring_bytes: usize,
    /// Unsent bytes that a viewer may have.
    pub buffer_bytes: usize,
    /// Where the node stands: an id below all that it will give out, and not below any that it gave
    /// out before. What is older can only be in the store.
    pub start: Cursor,
}

/// What a viewer asks for.
#[derive(Debug, Clone)]
pub struct Subscribe {
    /// Which records.
    pub query: Query,
    /// Most records a second; what is over it is skipped and counted.
    pub rate: u32,
    /// How many of the newest matching records to begin with, unless the stream is resumed.
    pub backlog: usize,
    /// Continue strictly after this cursor. The text is as the client sent it: one that cannot be
    /// read makes a gap, not an error, because a browser can do nothing about it.
    pub after: Option<String>,
}

/// Figures for the status page and the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HubStats {
    /// Viewers connected.
    pub viewers: usize,
    /// Distinct filters among them.
    pub filters: usize,
    /// Records published since the start.
    pub published: u64,
    /// Records that viewers were too slow to take, since the start, over all viewers.
    pub skipped: u64,
}

/// A handle on the hub; cheap to clone. The hub's thread ends with the last handle and viewer.
#[derive(Clone)]
pub struct Hub {
    pub(super) shared: Arc<Shared>,
    _last: Arc<CloseOnDrop>,
}

pub(super) struct Shared {
    state: Mutex<State>,
    pub(super) wake: Condvar,
    pub(super) config: HubConfig,
    pub(super) backfill: Option<Arc<dyn Backfill>>,
    pub(super) queue: AtomicU64,
    pub(super) store_ok: AtomicBool,
    skipped: AtomicU64,
}

pub(super) struct State {
    pub(super) ring: Ring,
    pub(super) channels: Vec<Channel>,
    next_id: u64,
    pub(super) closed: bool,
    /// When the first viewer came after none, and the records published until then.
    pub(super) watched_since: (Instant, u64),
}

struct CloseOnDrop(Arc<Shared>);

/// A viewer's place in its channel. Dropping it takes the viewer out.
pub(super) struct Membership {
    hub: Hub,
    id: u64,
    pub(super) outbox: Arc<Outbox>,
    /// Number of the first frame that comes through the outbox.
    pub(super) from_seq: u64,
    /// Where the stream stands before that frame.
    pub(super) position: Cursor,
}

impl Hub {
    /// Starts the hub's thread. Without a `backfill` streams resume from the ring alone.
    ///
    /// # Errors
    /// When the system has no thread to give.
    pub fn start(config: HubConfig, backfill: Option<Arc<dyn Backfill>>) -> std::io::Result<Hub> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                ring: Ring::new(config.ring_bytes, config.start.clone()),
                channels: Vec::new(),
                next_id: 0,
                closed: false,
                watched_since: (Instant::now(), 0),
            }),
            wake: Condvar::new(),
            config,
            backfill,
            queue: AtomicU64::new(0),
            store_ok: AtomicBool::new(true),
            skipped: AtomicU64::new(0),
        });
        let worker = Worker::new(Arc::clone(&shared));
        std::thread::Builder::new()
            .name("live".to_owned())
            .spawn(move || worker.run())?;
        Ok(Hub {
            _last: Arc::new(CloseOnDrop(Arc::clone(&shared))),
            shared,
        })
    }

    /// Takes a committed frame. Frames must come in the order in which they were sealed. Returns at
    /// once, whatever the viewers do.
    pub fn publish(&self, frame: Frame) {
        let mut state = self.shared.lock();
        state.ring.push(frame);
        let is_watched = !state.channels.is_empty();
        drop(state);
        if is_watched {
            self.shared.wake.notify_one();
        }
    }

    /// Starts a stream: a snapshot of the past and a subscription to what follows, with no hole
    /// between them.
    #[must_use]
    pub fn subscribe(&self, request: Subscribe) -> Viewer {
        let membership = self.join(&request);
        Viewer::new(membership, Arc::clone(&self.shared), request)
    }

    /// Tells viewers, with the next tick, how many records wait in the queue and whether the store
    /// is reachable.
    pub fn report(&self, queue: u64, store_ok: bool) {
        self.shared.queue.store(queue, Ordering::Relaxed);
        self.shared.store_ok.store(store_ok, Ordering::Relaxed);
    }

    /// The hub's figures.
    #[must_use]
    pub fn stats(&self) -> HubStats {
        let state = self.shared.lock();
        let members = || {
            state
                .channels
                .iter()
                .flat_map(|channel| channel.members.iter())
        };
        HubStats {
            viewers: members().count(),
            filters: state.channels.len(),
            published: state.ring.total(),
            skipped: self.shared.skipped.load(Ordering::Relaxed)
                + members()
                    .map(|member| member.outbox.num_skipped())
                    .sum::<u64>(),
        }
    }

    /// Ends every stream with a `bye`, and the hub's thread. Streams begun later end at once.
    pub fn close(&self) {
        self.shared.close();
    }

    fn join(&self, request: &Subscribe) -> Membership {
        let outbox = Arc::new(Outbox::new(self.shared.config.buffer_bytes));
        let mut state = self.shared.lock();
        let id = state.next_id;
        state.next_id += 1;
        let member = Member {
            id,
            outbox: Arc::clone(&outbox),
            from_seq: state.ring.next_seq(),
            from_total: state.ring.total(),
        };
        let membership = Membership {
            hub: self.clone(),
            id,
            outbox,
            from_seq: member.from_seq,
            position: state.ring.position().clone(),
        };
        if state.closed {
            membership.outbox.close("shutdown");
        } else {
            state.add(member, request);
        }
        drop(state);
        self.shared.wake.notify_one();
        membership
    }
}

impl State {
    fn add(&mut self, member: Member, request: &Subscribe) {
        if self.channels.is_empty() {
            self.watched_since = (Instant::now(), self.ring.total());
        }
        let key = Key {
            query: request.query.clone(),
            rate: request.rate,
        };
        match self.channels.iter_mut().find(|channel| *channel.key == key) {
            Some(channel) => Arc::make_mut(&mut channel.members).push(member),
            None => self.channels.push(Channel {
                id: member.id,
                key: Arc::new(key),
                members: Arc::new(vec![member]),
            }),
        }
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = self.hub.shared.lock();
        for channel in &mut state.channels {
            if channel.members.iter().any(|member| member.id == self.id) {
                Arc::make_mut(&mut channel.members).retain(|member| member.id != self.id);
            }
        }
        state.channels.retain(|channel| !channel.members.is_empty());
        let skipped = self.outbox.num_skipped();
        self.hub
            .shared
            .skipped
            .fetch_add(skipped, Ordering::Relaxed);
    }
}

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Shared {
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Up to `most` frames right before number `seq`, oldest first.
    pub(super) fn frames_before(&self, seq: u64, most: usize) -> Vec<Entry> {
        self.lock().ring.before(seq, most)
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for channel in &state.channels {
            for member in channel.members.iter() {
                member.outbox.close("shutdown");
            }
        }
        drop(state);
        self.wake.notify_one();
    }
}

/// Milliseconds since the epoch.
pub(super) fn now_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| i64::try_from(since.as_millis()).ok())
        .unwrap_or_default()
}
