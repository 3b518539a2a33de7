//! How the writer is doing, for the metrics, the page and the live view.

use std::time::Duration;

use super::super::Error;
use crate::frame::Frame;
use crate::live::Cursor;

/// What the writer did since its start, and how it is now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WriterStatus {
    /// Whether the tables are there.
    pub ready: bool,
    /// What went wrong last; none once something went well again.
    pub error: Option<String>,
    /// Records stored, by receiver, in the order of `Receiver::ALL`. Counted once ClickHouse said
    /// yes, before the queue forgets them.
    pub stored_records: [u64; 3],
    /// Records buried, by receiver.
    pub buried_records: [u64; 3],
    /// Inserts that succeeded.
    pub inserts: u64,
    /// When the last insert succeeded, in milliseconds since the epoch.
    pub last_insert: Option<i64>,
    /// Records of the last insert.
    pub last_records: u64,
    /// Time that the last insert took.
    pub last_took: Duration,
    /// From the sealing of the last insert's oldest frame to its being stored.
    pub lag: Duration,
    /// The last id of each node up to which everything is stored.
    pub stored: Cursor,
}

impl WriterStatus {
    pub(super) fn add_stored(&mut self, frames: &[Frame], took: Duration) {
        let now = jiff::Timestamp::now().as_millisecond();
        let oldest = frames.iter().map(|frame| frame.header().sealed_at).min();
        add(&mut self.stored_records, frames);
        self.error = None;
        self.inserts += 1;
        self.last_insert = Some(now);
        self.last_records = frames
            .iter()
            .map(|frame| u64::from(frame.header().num_records))
            .sum();
        self.last_took = took;
        let lag = oldest.map_or(0, |oldest| now.saturating_sub(oldest));
        self.lag = Duration::from_millis(u64::try_from(lag).unwrap_or(0));
    }

    pub(super) fn add_buried(&mut self, frame: &Frame) {
        add(&mut self.buried_records, std::slice::from_ref(frame));
        self.error = None;
    }

    /// Notes an error, and says whether it is another than before.
    pub(super) fn set_error(&mut self, error: &Error) -> bool {
        let text = Some(error.to_string());
        let is_new = self.error != text;
        self.error = text;
        is_new
    }

    pub(super) fn set_ready(&mut self) {
        self.ready = true;
        self.error = None;
    }

    /// All of these are stored or buried, and all of their nodes before them.
    pub(super) fn pass(&mut self, last_ids: &[u64]) {
        for id in last_ids {
            self.stored.advance(*id);
        }
    }
}

fn add(counts: &mut [u64; 3], frames: &[Frame]) {
    for frame in frames {
        for (count, more) in counts.iter_mut().zip(frame.header().accepted) {
            *count += u64::from(more);
        }
    }
}
