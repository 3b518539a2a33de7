//! One distinct query: evaluated once a frame, written once, shared by all its viewers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;

use super::event::{Event, Gap, GapReason, Kind, LogsWriter, Tally, format_event};
use super::outbox::Outbox;
use super::rate::Rate;
use super::ring::Entry;
use super::{Cursor, LevelCounts};
use crate::frame::Block;
use crate::query::Query;

/// Longest time for which records over the rate are gathered into one `skipped` event.
const SKIPPED_GATHER: Duration = Duration::from_millis(500);

/// What viewers must have in common to share a channel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) query: Query,
    pub(super) rate: u32,
}

/// A viewer of a channel.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) id: u64,
    pub(super) outbox: Arc<Outbox>,
    /// Number of the first frame that is not in its replay.
    pub(super) from_seq: u64,
    /// Records published before that frame.
    pub(super) from_total: u64,
}

/// A channel as the hub's thread sees it for one round.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    pub(super) id: u64,
    pub(super) key: Arc<Key>,
    pub(super) members: Arc<Vec<Member>>,
}

/// How far channels have been fed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fed {
    /// Number of the next frame to feed.
    pub(super) seq: u64,
    /// Records published before that frame.
    pub(super) total: u64,
    /// When the last frame had been sealed, milliseconds since the epoch.
    pub(super) sealed_at: i64,
}

/// What the hub's thread keeps of a channel between rounds.
#[derive(Debug)]
pub(super) struct Evaluator {
    rate: Rate,
    /// Over the rate and not yet told.
    over: Option<Over>,
    /// Matching records since the last tick.
    matched: LevelCounts,
    rows: Vec<u32>,
}

/// Records over the rate, since when, and since which frame.
#[derive(Debug)]
struct Over {
    tally: Tally,
    since: Instant,
    from_seq: u64,
}

/// What a tick says beside the channel's own counts.
#[derive(Debug, Clone)]
pub(super) struct Pulse {
    /// Number of the frame after the cursor; a viewer that begins later needs no such tick.
    pub(super) next_seq: u64,
    pub(super) cursor: Cursor,
    pub(super) now_ms: i64,
    pub(super) seconds: f64,
    pub(super) num_in: u64,
    pub(super) lag_ms: i64,
    pub(super) queue: u64,
    pub(super) store_ok: bool,
}

impl Evaluator {
    pub(super) fn new(key: &Key, now: Instant) -> Self {
        Self {
            rate: Rate::new(key.rate, now),
            over: None,
            matched: LevelCounts::default(),
            rows: Vec::new(),
        }
    }

    /// Sends a frame's matching records to the channel's viewers.
    pub(super) fn frame(
        &mut self,
        channel: &Channel,
        entry: &Entry,
        block: &Block<'_>,
        now: Instant,
    ) {
        self.rows.clear();
        channel.key.query.rows(block, &mut self.rows);
        for row in &self.rows {
            self.matched.add(block.level(*row as usize));
        }
        let mut dropped = Tally::default();
        self.rate.limit(
            now,
            &mut self.rows,
            |row| block.level(row as usize),
            |row, level| dropped.add(level, block.timestamp(row as usize)),
        );
        let is_over = dropped.counts.total() > 0;
        if !is_over
            || self
                .over
                .as_ref()
                .is_some_and(|over| channel.has_joined(over.from_seq, entry.seq))
        {
            self.tell_over(channel);
        }
        let mut writer = LogsWriter::new(entry.before.clone());
        write_rows(&mut writer, block, &self.rows);
        for event in writer.finish() {
            channel.send(&Arc::new(event), entry.seq);
        }
        if is_over {
            dropped.cursor = entry.after();
            self.gather_over(channel, &dropped, entry.seq, now);
        }
    }

    fn gather_over(&mut self, channel: &Channel, dropped: &Tally, seq: u64, now: Instant) {
        let over = self.over.get_or_insert_with(|| Over {
            tally: Tally::default(),
            since: now,
            from_seq: seq,
        });
        over.tally.merge(dropped);
        if now.duration_since(over.since) >= SKIPPED_GATHER {
            self.tell_over(channel);
        }
    }

    /// Tells the channel's viewers that `entry` is the first frame after a hole of frames that the
    /// ring lost before they were read.
    pub(super) fn lost(&mut self, channel: &Channel, fed: &Fed, entry: &Entry) {
        for member in channel
            .members
            .iter()
            .filter(|member| member.from_seq < entry.seq)
        {
            let count = entry.total_before - fed.total.max(member.from_total);
            let gap = Gap {
                span: (
                    Some(fed.sealed_at * 1_000_000),
                    Some(entry.frame.header().sealed_at * 1_000_000),
                ),
                count: channel.key.query.is_everything().then_some(count),
                reason: GapReason::Limit,
            };
            member.outbox.push(&Arc::new(Event {
                bytes: gap.event(),
                kind: Kind::Gap(gap),
            }));
        }
    }

    /// Sends a tick, and what is over the rate before it.
    pub(super) fn tick(&mut self, channel: &Channel, pulse: &Pulse) {
        self.tell_over(channel);
        let matched = std::mem::take(&mut self.matched);
        let rate = |count: u64| (count as f64 / pulse.seconds * 10.0).round() / 10.0;
        let data = json!({
            "cursor": pulse.cursor.to_string(),
            "now": pulse.now_ms,
            "in_rate": rate(pulse.num_in),
            "match_rate": rate(matched.total()),
            "by_level": matched.to_json(),
            "lag_ms": pulse.lag_ms,
            "queue": pulse.queue,
            "store_ok": pulse.store_ok,
        });
        let event = Event {
            bytes: format_event("tick", &data, Some(&pulse.cursor)),
            kind: Kind::Tick,
        };
        channel.send(&Arc::new(event), pulse.next_seq);
    }

    /// Tells of the records over the rate. Viewers that came after them are not told.
    fn tell_over(&mut self, channel: &Channel) {
        if let Some(over) = self.over.take() {
            let event = Event {
                bytes: over.tally.skipped("rate"),
                kind: Kind::Records(over.tally),
            };
            channel.send(&Arc::new(event), over.from_seq);
        }
    }
}

impl Channel {
    /// Gives an event of frame number `seq` to every viewer whose replay ends before that frame.
    fn send(&self, event: &Arc<Event>, seq: u64) {
        for member in self.members.iter().filter(|member| member.from_seq <= seq) {
            member.outbox.push(event);
        }
    }

    /// Whether a viewer begins after frame number `seq`, at `now` or before.
    fn has_joined(&self, seq: u64, now: u64) -> bool {
        let mut members = self.members.iter();
        members.any(|member| member.from_seq > seq && member.from_seq <= now)
    }
}

/// Writes rows of a block.
pub(super) fn write_rows(writer: &mut LogsWriter, block: &Block<'_>, rows: &[u32]) {
    for row in rows.iter().filter_map(|row| block.row(*row as usize)) {
        writer.push(row.id(), row.level(), row.timestamp(), |out| {
            super::record::write_row(out, &row);
        });
    }
}
