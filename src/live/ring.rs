//! The most recent frames, bounded in bytes.

use std::collections::VecDeque;

use super::Cursor;
use crate::frame::Frame;

/// What an entry takes beside its frame's bytes.
const ENTRY_BYTES: usize = 256;

/// A frame in its place.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) frame: Frame,
    /// Its number since the start; they have no holes.
    pub(super) seq: u64,
    /// Records published before it.
    pub(super) total_before: u64,
    /// Where a stream stands that has everything before it.
    pub(super) before: Cursor,
}

impl Entry {
    /// Where a stream stands that has this frame too.
    pub(super) fn after(&self) -> Cursor {
        self.before.advanced(self.frame.header().last_id)
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    bytes: usize,
    max_bytes: usize,
    next_seq: u64,
    total: u64,
    position: Cursor,
}

impl Ring {
    /// An empty ring for what follows `position`.
    pub(super) fn new(max_bytes: usize, position: Cursor) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            max_bytes,
            next_seq: 0,
            total: 0,
            position,
        }
    }

    /// Takes a frame and forgets the oldest ones that no longer fit. The newest always stays.
    pub(super) fn push(&mut self, frame: Frame) {
        let header = *frame.header();
        self.bytes += frame.as_bytes().len() + ENTRY_BYTES;
        self.entries.push_back(Entry {
            frame,
            seq: self.next_seq,
            total_before: self.total,
            before: self.position.clone(),
        });
        self.next_seq += 1;
        self.total += u64::from(header.num_records);
        self.position.advance(header.last_id);
        while self.bytes > self.max_bytes && self.entries.len() > 1 {
            if let Some(oldest) = self.entries.pop_front() {
                self.bytes -= oldest.frame.as_bytes().len() + ENTRY_BYTES;
            }
        }
    }

    /// The number that the next frame will have.
    pub(super) fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Records published since the start.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Where a stream stands that has every frame so far.
    pub(super) fn position(&self) -> &Cursor {
        &self.position
    }

    /// Up to `most` frames from number `seq` on, or from the oldest that is left.
    pub(super) fn from(&self, seq: u64, most: usize) -> Vec<Entry> {
        let start = self.index(seq);
        self.entries.range(start..).take(most).cloned().collect()
    }

    /// Up to `most` frames right before number `seq`, oldest first.
    pub(super) fn before(&self, seq: u64, most: usize) -> Vec<Entry> {
        let end = self.index(seq);
        let start = end.saturating_sub(most);
        self.entries.range(start..end).cloned().collect()
    }

    /// Where frame number `seq` is, or the nearest that is left.
    fn index(&self, seq: u64) -> usize {
        let first = self
            .entries
            .front()
            .map_or(self.next_seq, |entry| entry.seq);
        usize::try_from(seq.saturating_sub(first))
            .map_or(self.entries.len(), |index| index.min(self.entries.len()))
    }
}
