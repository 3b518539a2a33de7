//! What one viewer has not yet been sent, bounded in bytes.
//!
//! An event that does not fit is counted, not kept. The count goes out as one `skipped` event in the
//! place of what it stands for: before the next event that fits, or when the viewer has caught up.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use serde_json::json;
use tokio::sync::Notify;

use super::event::{Event, Gap, Kind, Tally, format_event};

/// What an event takes beside its bytes, which viewers share.
const EVENT_BYTES: usize = 128;

#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    wake: Notify,
    max_bytes: usize,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<Bytes>,
    bytes: usize,
    skipped: Option<Tally>,
    gap: Option<Gap>,
    skipped_total: u64,
    closed: Option<&'static str>,
}

impl Outbox {
    pub(super) fn new(max_bytes: usize) -> Self {
        Self {
            state: Mutex::default(),
            wake: Notify::new(),
            max_bytes,
        }
    }

    /// Adds an event, or counts it. Never waits.
    pub(super) fn push(&self, event: &Arc<Event>) {
        let mut state = self.lock();
        if state.closed.is_some() {
            return;
        }
        if state.bytes + event.bytes.len() + EVENT_BYTES > self.max_bytes {
            state.leave_out(&event.kind);
            return;
        }
        state.tell_what_is_left_out();
        state.add(event.bytes.clone());
        drop(state);
        self.wake.notify_one();
    }

    /// Ends the stream behind what waits, with the reason in a last event.
    pub(super) fn close(&self, reason: &'static str) {
        self.lock().closed.get_or_insert(reason);
        self.wake.notify_one();
    }

    /// The next bytes to send; `None` after the last. One reader only. Cancel safe.
    pub(super) async fn next(&self) -> Option<Bytes> {
        loop {
            let woken = self.wake.notified();
            match self.try_next() {
                Next::Bytes(bytes) => return Some(bytes),
                Next::End => return None,
                Next::Empty => woken.await,
            }
        }
    }

    /// Records left out so far.
    pub(super) fn num_skipped(&self) -> u64 {
        self.lock().skipped_total
    }

    fn try_next(&self) -> Next {
        let mut state = self.lock();
        if state.events.is_empty() {
            state.tell_what_is_left_out();
        }
        if let Some(bytes) = state.events.pop_front() {
            state.bytes -= bytes.len() + EVENT_BYTES;
            return Next::Bytes(bytes);
        }
        match state.closed {
            None => Next::Empty,
            Some("") => Next::End,
            Some(reason) => {
                state.closed = Some("");
                Next::Bytes(bye(reason))
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

enum Next {
    Bytes(Bytes),
    Empty,
    End,
}

impl State {
    fn add(&mut self, bytes: Bytes) {
        self.bytes += bytes.len() + EVENT_BYTES;
        self.events.push_back(bytes);
    }

    fn leave_out(&mut self, kind: &Kind) {
        match kind {
            Kind::Records(tally) => {
                self.skipped_total += tally.counts.total();
                match &mut self.skipped {
                    Some(skipped) => skipped.merge(tally),
                    None => self.skipped = Some(tally.clone()),
                }
            }
            Kind::Gap(later) => match &mut self.gap {
                Some(gap) => gap.merge(later),
                None => self.gap = Some(later.clone()),
            },
            Kind::Tick => {}
        }
    }

    fn tell_what_is_left_out(&mut self) {
        if let Some(skipped) = self.skipped.take() {
            self.add(skipped.skipped("slow"));
        }
        if let Some(gap) = self.gap.take() {
            self.add(gap.event());
        }
    }
}

/// The event that ends a stream on purpose.
pub(crate) fn bye(reason: &str) -> Bytes {
    format_event("bye", &json!({"reason": reason, "retry_ms": 1000}), None)
}
