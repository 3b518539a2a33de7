//! The events of the stream, as the bytes that are sent.
//!
//! Data is always one line of JSON, in which every control character of a log's text is escaped, so
//! that no text can end an event or begin another. The `id` line comes last, because a block's
//! cursor is known when its last record is written; the order of the lines has no meaning.

use bytes::Bytes;
use serde_json::{Value, json};

use super::{Cursor, LevelCounts};
use crate::record::Level;

/// Most records of one `logs` event.
const BLOCK_RECORDS: usize = 500;
/// Size at which a `logs` event is full.
const BLOCK_BYTES: usize = 240 << 10;
const LOGS_START: &[u8] = b"event: logs\ndata: [";

/// An event, shared by all viewers with the same filter.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) bytes: Bytes,
    pub(super) kind: Kind,
}

/// What is lost with an event that a viewer cannot take.
#[derive(Debug, Clone)]
pub(super) enum Kind {
    /// Records, shown or already skipped.
    Records(Tally),
    /// A hole whose size may be unknown.
    Gap(Gap),
    /// Nothing that the next one does not say again.
    Tick,
}

/// How many records, between which event times, up to where.
#[derive(Debug, Clone, Default)]
pub(super) struct Tally {
    pub(super) counts: LevelCounts,
    span: Option<(i64, i64)>,
    pub(super) cursor: Cursor,
}

impl Tally {
    pub(super) fn add(&mut self, level: Level, timestamp: i64) {
        self.counts.add(level);
        self.widen(timestamp, timestamp);
    }

    pub(super) fn merge(&mut self, later: &Tally) {
        self.counts += later.counts;
        if let Some((from, to)) = later.span {
            self.widen(from, to);
        }
        self.cursor.clone_from(&later.cursor);
    }

    fn widen(&mut self, from: i64, to: i64) {
        let (a, b) = self.span.unwrap_or((from, to));
        self.span = Some((a.min(from), b.max(to)));
    }

    /// The `skipped` event that tells of these records.
    pub(super) fn skipped(&self, reason: &str) -> Bytes {
        let (from, to) = self.span.unwrap_or_default();
        let data = json!({
            "count": self.counts.total(),
            "by_level": self.counts.to_json(),
            "from": from.to_string(),
            "to": to.to_string(),
            "reason": reason,
        });
        format_event("skipped", &data, Some(&self.cursor))
    }
}

/// Why a stream has a hole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GapReason {
    /// Neither the ring nor the store has the records.
    Expired,
    /// The daemon was restarted, and there is no store to ask.
    Restart,
    /// The store is away.
    Store,
    /// More was missed than a stream catches up on.
    Limit,
}

/// A hole of a stream.
#[derive(Debug, Clone)]
pub(super) struct Gap {
    /// From and to when, in nanoseconds since the epoch by the daemon's clock.
    pub(super) span: (Option<i64>, Option<i64>),
    /// How many matching records; `None` when nobody counted.
    pub(super) count: Option<u64>,
    pub(super) reason: GapReason,
}

impl Gap {
    pub(super) fn merge(&mut self, later: &Gap) {
        self.span.1 = later.span.1;
        self.count = self.count.zip(later.count).map(|(a, b)| a + b);
    }

    pub(super) fn event(&self) -> Bytes {
        let reason = match self.reason {
            GapReason::Expired => "expired",
            GapReason::Restart => "restart",
            GapReason::Store => "store",
            GapReason::Limit => "limit",
        };
        let data = json!({
            "from": self.span.0.map(|at| at.to_string()),
            "to": self.span.1.map(|at| at.to_string()),
            "count": self.count,
            "reason": reason,
        });
        format_event("gap", &data, None)
    }
}

/// One event with data.
pub(super) fn format_event(name: &str, data: &Value, id: Option<&Cursor>) -> Bytes {
    let id = id
        .map(|cursor| format!("id: {cursor}\n"))
        .unwrap_or_default();
    Bytes::from(format!("event: {name}\ndata: {data}\n{id}\n"))
}

/// A lone id: moves `Last-Event-ID` on and makes no event.
pub(super) fn format_id(cursor: &Cursor) -> Bytes {
    Bytes::from(format!("id: {cursor}\n\n"))
}

/// Puts records into `logs` events of bounded size.
#[derive(Debug)]
pub(super) struct LogsWriter {
    buffer: Vec<u8>,
    num_records: usize,
    tally: Tally,
    events: Vec<Event>,
}

impl LogsWriter {
    /// `cursor` is where the stream stands before the first record.
    pub(super) fn new(cursor: Cursor) -> Self {
        Self {
            buffer: LOGS_START.to_vec(),
            num_records: 0,
            tally: Tally {
                cursor,
                ..Tally::default()
            },
            events: Vec::new(),
        }
    }

    /// Adds a record, whose JSON object `write` appends.
    pub(super) fn push(
        &mut self,
        id: u64,
        level: Level,
        timestamp: i64,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.num_records > 0 {
            self.buffer.push(b',');
        }
        write(&mut self.buffer);
        self.num_records += 1;
        self.tally.add(level, timestamp);
        self.tally.cursor.advance(id);
        if self.num_records >= BLOCK_RECORDS || self.buffer.len() >= BLOCK_BYTES {
            self.end_block();
        }
    }

    /// The events; none when there was no record.
    pub(super) fn finish(mut self) -> Vec<Event> {
        if self.num_records > 0 {
            self.end_block();
        }
        self.events
    }

    fn end_block(&mut self) {
        let cursor = self.tally.cursor.clone();
        self.buffer
            .extend_from_slice(format!("]\nid: {cursor}\n\n").as_bytes());
        let full = std::mem::replace(&mut self.buffer, LOGS_START.to_vec());
        let tally = std::mem::replace(
            &mut self.tally,
            Tally {
                cursor,
                ..Tally::default()
            },
        );
        self.num_records = 0;
        self.events.push(Event {
            bytes: full.into(),
            kind: Kind::Records(tally),
        });
    }
}
