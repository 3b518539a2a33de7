//! One viewer's stream, from `hello` to `bye`.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};

use super::channel::write_rows;
use super::event::{LogsWriter, format_event, format_id};
use super::hub::{Membership, Shared, Subscribe, now_ms};
use super::replay::{self, End, Pick, Replay};
use super::worker::TICK;
use super::{Cursor, Seat, StoredRecord};
use crate::frame::Block;

/// How often a comment keeps proxies from taking a quiet stream for a dead one.
const COMMENT: Duration = Duration::from_secs(15);

/// A stream of events, as bytes to be sent as they are. Dropping it ends the subscription.
pub struct Viewer {
    membership: Membership,
    shared: Arc<Shared>,
    request: Arc<Subscribe>,
    seat: Option<Seat>,
    phase: Phase,
    ready: VecDeque<Bytes>,
    comment_at: Instant,
}

/// Records of a replay that are written at a time.
const REPLAY_ROWS: usize = 2_000;

enum Phase {
    Hello,
    Gather,
    Replay(Replay),
    Live,
}

impl Viewer {
    pub(super) fn new(membership: Membership, shared: Arc<Shared>, request: Subscribe) -> Self {
        Self {
            membership,
            shared,
            request: Arc::new(request),
            seat: None,
            phase: Phase::Hello,
            ready: VecDeque::new(),
            comment_at: Instant::now() + COMMENT,
        }
    }

    /// Keeps the seat taken for as long as the stream lives.
    #[must_use]
    pub fn seated(mut self, seat: Seat) -> Self {
        self.seat = Some(seat);
        self
    }

    /// What the stream begins with; also the answer to a probe.
    #[must_use]
    pub fn hello(&self) -> Value {
        let request = &self.request;
        json!({
            "v": 1,
            "cursor": self.membership.position.to_string(),
            "q": request.query.to_json(),
            "backlog": request.backlog,
            "resumed": request.after.as_ref().is_some_and(|after| after.parse::<Cursor>().is_ok()),
            "now": now_ms(),
            "tick_ms": TICK.as_millis() as u64,
            "limits": {"rate": request.rate, "buffer_bytes": self.shared.config.buffer_bytes},
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// The stream itself.
    pub fn into_stream(self) -> impl Stream<Item = Bytes> + Send + 'static {
        futures_util::stream::unfold(self, |mut viewer| async move {
            let bytes = viewer.next().await?;
            Some((bytes, viewer))
        })
    }

    /// The next bytes to send; `None` after the last.
    pub async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(bytes) = self.ready.pop_front() {
                return Some(bytes);
            }
            match &mut self.phase {
                Phase::Hello => {
                    self.phase = Phase::Gather;
                    self.ready.push_back(Bytes::from_static(b"retry: 1000\n\n"));
                    self.ready
                        .push_back(format_event("hello", &self.hello(), None));
                }
                Phase::Gather => {
                    let end = End {
                        seq: self.membership.from_seq,
                        position: self.membership.position.clone(),
                    };
                    let shared = Arc::clone(&self.shared);
                    let request = Arc::clone(&self.request);
                    self.phase = Phase::Replay(replay::gather(shared, end, request).await);
                }
                Phase::Replay(replay) => {
                    let replay = std::mem::take(replay);
                    self.send_replay(replay).await;
                }
                Phase::Live => return self.next_live().await,
            }
        }
    }

    /// Makes the next part of a replay ready to send, or goes over to what is new.
    async fn send_replay(&mut self, mut replay: Replay) {
        if let Some(gap) = replay.gap.take() {
            self.ready.push_back(gap.event());
        }
        if !replay.stored.is_empty() {
            let stored = std::mem::take(&mut replay.stored);
            let start = self.resumed_from();
            self.ready.extend(write_stored(&stored, start));
            self.phase = Phase::Replay(replay);
            return;
        }
        if replay.picks.is_empty() {
            self.ready.push_back(format_id(&self.membership.position));
            self.phase = Phase::Live;
            return;
        }
        let mut picks = Vec::new();
        let mut num_rows = 0;
        while num_rows < REPLAY_ROWS
            && let Some(pick) = replay.picks.pop_front()
        {
            num_rows += pick.rows.len();
            picks.push(pick);
        }
        self.phase = Phase::Replay(replay);
        match tokio::task::spawn_blocking(move || write_picks(&picks)).await {
            Ok(events) => self.ready.extend(events),
            Err(error) => tracing::error!(%error, "live view cannot write recent records"),
        }
    }

    fn resumed_from(&self) -> Cursor {
        let after = self.request.after.as_ref();
        after.and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    async fn next_live(&mut self) -> Option<Bytes> {
        match timeout_at(self.comment_at, self.membership.outbox.next()).await {
            Ok(bytes) => bytes,
            Err(_) => {
                self.comment_at = Instant::now() + COMMENT;
                Some(Bytes::from_static(b":\n\n"))
            }
        }
    }
}

fn write_stored(records: &[StoredRecord], start: Cursor) -> Vec<Bytes> {
    let mut writer = LogsWriter::new(start);
    for record in records {
        writer.push(record.id, record.level, record.timestamp, |out| {
            record.write_json(out)
        });
    }
    writer
        .finish()
        .into_iter()
        .map(|event| event.bytes)
        .collect()
}

fn write_picks(picks: &[Pick]) -> Vec<Bytes> {
    let start = picks.first().map(|pick| pick.before.clone());
    let mut writer = LogsWriter::new(start.unwrap_or_default());
    for pick in picks {
        // It was read before, when its rows were picked.
        if let Ok(block) = Block::decode(&pick.frame) {
            write_rows(&mut writer, &block, &pick.rows);
        }
    }
    writer
        .finish()
        .into_iter()
        .map(|event| event.bytes)
        .collect()
}
