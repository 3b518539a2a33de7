//! The hub's thread: reads the ring while somebody watches, and feeds the channels.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use super::Cursor;
use super::channel::{Channel, Evaluator, Fed, Pulse};
use super::hub::{Shared, now_ms};
use super::ring::{Entry, Ring};
use crate::frame::Block;

/// How often every viewer gets a tick.
pub(super) const TICK: Duration = Duration::from_secs(5);
/// Most frames that the thread takes out of the ring at a time.
const FRAMES_AT_A_TIME: usize = 32;

/// The hub's thread.
pub(super) struct Worker {
    shared: Arc<Shared>,
    /// Number of the next frame to read.
    next: u64,
    /// Where streams stand before that frame.
    cursor: Cursor,
    /// How far the channels have come. A frame that lies beyond it comes after a hole.
    fed: Fed,
    /// Longest time from a frame's sealing to its reading since the last tick.
    lag_ms: i64,
    /// When the last tick was, and the records published until then. `None`: nobody watched.
    ticked: Option<(Instant, u64)>,
    evaluators: HashMap<u64, Evaluator>,
}

/// What the thread does next.
enum Round {
    Frames {
        entries: Vec<Entry>,
        channels: Vec<Channel>,
    },
    Tick {
        channels: Vec<Channel>,
        total: u64,
    },
}

/// Lets the other threads go first where there are not cores enough for all: a viewer may be late, and
/// is told what it missed, but it must not slow intake.
fn yield_to_intake() {
    const NICE: i32 = 10;
    let this = rustix::thread::gettid();
    let lowered = rustix::process::getpriority_process(Some(this))
        .and_then(|own| rustix::process::setpriority_process(Some(this), own.max(NICE)));
    if let Err(error) = lowered {
        tracing::debug!(%error, "the live hub runs at the priority of all threads");
    }
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            next: 0,
            cursor: shared.config.start.clone(),
            fed: Fed::default(),
            lag_ms: 0,
            ticked: None,
            evaluators: HashMap::new(),
            shared,
        }
    }

    pub(super) fn run(mut self) {
        yield_to_intake();
        while let Some(round) = self.next_round() {
            let now = Instant::now();
            match round {
                Round::Frames { entries, channels } => {
                    for entry in entries {
                        self.frame(&entry, &channels, now);
                    }
                }
                Round::Tick { channels, total } => self.tick(&channels, total, now),
            }
        }
    }

    /// Waits for something to do; `None` once the hub is closed.
    fn next_round(&mut self) -> Option<Round> {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        loop {
            if state.closed {
                return None;
            }
            let members = state
                .channels
                .iter()
                .flat_map(|channel| channel.members.iter());
            let Some(first_wanted) = members.map(|member| member.from_seq).min() else {
                self.ticked = None;
                self.evaluators.clear();
                state = shared
                    .wake
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            self.skip_unwatched(&state.ring, first_wanted);
            let (ticked, _) = *self.ticked.get_or_insert(state.watched_since);
            let until_tick = TICK.saturating_sub(ticked.elapsed());
            if until_tick.is_zero() {
                return Some(Round::Tick {
                    channels: state.channels.clone(),
                    total: state.ring.total(),
                });
            }
            if state.ring.next_seq() > self.next {
                return Some(Round::Frames {
                    entries: state.ring.from(self.next, FRAMES_AT_A_TIME),
                    channels: state.channels.clone(),
                });
            }
            let waited = shared.wake.wait_timeout(state, until_tick);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Moves on to the first frame that anybody waits for.
    fn skip_unwatched(&mut self, ring: &Ring, first_wanted: u64) {
        if self.next >= first_wanted {
            return;
        }
        self.next = first_wanted;
        match ring.from(first_wanted, 1).first() {
            Some(entry) => {
                self.cursor.clone_from(&entry.before);
                self.fed = Fed {
                    seq: first_wanted,
                    total: entry.total_before,
                    sealed_at: entry.frame.header().sealed_at,
                };
            }
            None => {
                self.cursor.clone_from(ring.position());
                self.fed = Fed {
                    seq: first_wanted,
                    total: ring.total(),
                    sealed_at: now_ms(),
                };
            }
        }
    }

    fn frame(&mut self, entry: &Entry, channels: &[Channel], now: Instant) {
        self.next = entry.seq + 1;
        self.cursor = entry.after();
        let header = *entry.frame.header();
        self.lag_ms = self.lag_ms.max(now_ms() - header.sealed_at);
        let block = match Block::decode(&entry.frame) {
            Ok(block) => block,
            Err(error) => {
                tracing::error!(%error, "live view cannot read a frame");
                return;
            }
        };
        for channel in channels {
            let evaluator = self
                .evaluators
                .entry(channel.id)
                .or_insert_with(|| Evaluator::new(&channel.key, now));
            if entry.seq > self.fed.seq {
                evaluator.lost(channel, &self.fed, entry);
            }
            evaluator.frame(channel, entry, &block, now);
        }
        self.fed = Fed {
            seq: self.next,
            total: entry.total_before + u64::from(header.num_records),
            sealed_at: header.sealed_at,
        };
    }

    fn tick(&mut self, channels: &[Channel], total: u64, now: Instant) {
        let (ticked, total_then) = self.ticked.replace((now, total)).unwrap_or((now, total));
        let pulse = Pulse {
            next_seq: self.next,
            cursor: self.cursor.clone(),
            now_ms: now_ms(),
            seconds: now.duration_since(ticked).as_secs_f64().max(0.001),
            num_in: total - total_then,
            lag_ms: std::mem::take(&mut self.lag_ms),
            queue: self.shared.queue.load(Ordering::Relaxed),
            store_ok: self.shared.store_ok.load(Ordering::Relaxed),
        };
        for channel in channels {
            self.evaluators
                .entry(channel.id)
                .or_insert_with(|| Evaluator::new(&channel.key, now))
                .tick(channel, &pulse);
        }
        self.evaluators
            .retain(|id, _| channels.iter().any(|channel| channel.id == *id));
    }
}
