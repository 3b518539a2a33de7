//! What the queue knows in memory: its segments, its claims and the frames that came lately.
//!
//! Nothing here does I/O. The disk thread changes it after the disk has agreed; the async side reads
//! it under a short lock.

use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

use super::cursor::{Entry, Ledger, Sealed};
use super::segment::{HEADER_BYTES, Position, Tally};
use crate::frame::Frame;
use crate::queue::{Claim, ClaimLimits};

/// Memory for frames that came lately, so that a writer that keeps up never reads from the disk.
const CACHE_BYTES: u64 = 32 << 20;

/// One segment file.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// Where its frames end.
    pub(super) len: u64,
    /// Frames that no claim has.
    pub(super) unclaimed: Tally,
    /// Frames that are not acknowledged, those above included.
    pub(super) unacked: Tally,
}

/// A frame that is durable and still in memory.
#[derive(Debug)]
struct Cached {
    at: Position,
    came: Instant,
    frame: Frame,
}

/// A sealed claim: what the ledger says, and what it holds in which segment.
#[derive(Debug, Default)]
pub(super) struct Out {
    pub(super) parts: BTreeMap<u64, Tally>,
    /// When its oldest frame was sealed.
    pub(super) oldest: i64,
}

/// Frames chosen for a claim.
#[derive(Debug)]
pub(super) struct Selection {
    pub(super) from: Position,
    pub(super) to: Position,
    pub(super) frames: Vec<Frame>,
    pub(super) parts: BTreeMap<u64, Tally>,
    /// Where the bytes were no frames: from, and up to which offset.
    pub(super) damage: Vec<(Position, u64)>,
    /// Of the state it was chosen from; see [`State::moves`].
    pub(super) moves: u64,
}

/// Where the next claim's frames are.
pub(super) enum Choice {
    /// Nothing waits.
    Nothing,
    /// In memory.
    Chosen(Selection),
    /// On disk: to be read from these segments, given with the ends of their frames.
    Read {
        from: Position,
        segments: Vec<(u64, u64)>,
        moves: u64,
    },
}

/// Whether a claim is due.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    Now,
    At(Instant),
    /// Nothing waits.
    Never,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) segments: BTreeMap<u64, Segment>,
    pub(super) ledger: Ledger,
    pub(super) out: BTreeMap<u64, Out>,
    /// Keys of claims found at the start and not handed out yet, oldest first.
    pub(super) redeliver: VecDeque<u64>,
    /// Claims sealed and not handed out yet: their caller went away in between.
    pub(super) ready: VecDeque<Claim>,
    pub(super) unclaimed: Tally,
    pub(super) unacked: Tally,
    /// Frames that were given up as damaged or missing.
    pub(super) lost: Tally,
    /// Regions set aside as damaged since the start.
    pub(super) damaged: u64,
    /// Counts how often frames changed their place, after which a selection made before is stale.
    pub(super) moves: u64,
    /// When the frame at the head was sealed, as far as known.
    pub(super) head_oldest: Option<i64>,
    /// Bytes that the cache may hold.
    pub(super) cache_limit: u64,
    cache: VecDeque<Cached>,
    cache_bytes: u64,
}

impl State {
    pub(super) fn new(ledger: Ledger) -> State {
        State {
            ledger,
            cache_limit: CACHE_BYTES,
            ..State::default()
        }
    }

    /// Takes note of frames that now stand at `at` and the places behind it.
    pub(super) fn appended(&mut self, at: Position, frames: &[Frame], now: Instant) {
        let mut place = at;
        let segment = self.segments.entry(at.segment).or_default();
        for frame in frames {
            let bytes = frame.as_bytes().len() as u64;
            for tally in [
                &mut segment.unclaimed,
                &mut segment.unacked,
                &mut self.unclaimed,
                &mut self.unacked,
            ] {
                tally.count(frame.header(), bytes);
            }
            self.cache_bytes += bytes;
            self.cache.push_back(Cached {
                at: place,
                came: now,
                frame: frame.clone(),
            });
            place.offset += bytes;
        }
        // A writer that is behind by more than the cache reads from the disk, and what comes now is out
        // of memory again before it gets there.
        if self.unclaimed.bytes > self.cache_limit {
            self.cache.clear();
            self.cache_bytes = 0;
        }
        segment.len = place.offset;
        if self.head_oldest.is_none() {
            self.head_oldest = frames.first().map(|frame| frame.header().sealed_at);
        }
    }

    /// Takes back what [`State::appended`] noted from `from` on: these frames, which no claim has.
    pub(super) fn retract(&mut self, from: Position, frames: &[Frame]) {
        while self.cache.back().is_some_and(|last| last.at >= from) {
            let Some(last) = self.cache.pop_back() else {
                break;
            };
            self.cache_bytes -= last.frame.as_bytes().len() as u64;
        }
        let mut tally = Tally::default();
        for frame in frames {
            tally.count(frame.header(), frame.as_bytes().len() as u64);
        }
        if let Some(segment) = self.segments.get_mut(&from.segment) {
            segment.len = from.offset;
            segment.unclaimed.subtract(&tally);
            segment.unacked.subtract(&tally);
        }
        self.unclaimed.subtract(&tally);
        self.unacked.subtract(&tally);
        self.moves += 1;
    }

    fn pop_cached(&mut self) -> Option<Cached> {
        let cached = self.cache.pop_front()?;
        self.cache_bytes -= cached.frame.as_bytes().len() as u64;
        Some(cached)
    }

    /// The place of the first unclaimed frame, if any bytes wait there.
    fn head(&self) -> Option<Position> {
        let head = self.ledger.head;
        self.segments
            .range(head.segment..)
            .map(|(number, segment)| {
                let at = Position::start_of(*number).max(head);
                (at.offset < segment.len).then_some(at)
            })
            .find_map(|at| at)
    }

    /// Whether a claim is due. What is not in memory has waited long enough.
    pub(super) fn due(&self, limits: &ClaimLimits) -> Due {
        let Some(head) = self.head() else {
            return Due::Never;
        };
        let full = self.unclaimed.rows() >= limits.rows as u64
            || self.unclaimed.bytes >= limits.bytes as u64;
        match self.cache.front() {
            Some(first) if !full && first.at == head => Due::At(first.came + limits.delay),
            _ => Due::Now,
        }
    }

    /// Chooses the frames of the next claim.
    pub(super) fn choose(&self, limits: &ClaimLimits) -> Choice {
        let Some(head) = self.head() else {
            return Choice::Nothing;
        };
        if self.cache.front().is_none_or(|first| first.at != head) {
            return Choice::Read {
                from: self.ledger.head,
                segments: self
                    .segments
                    .range(head.segment..)
                    .map(|(number, segment)| (*number, segment.len))
                    .collect(),
                moves: self.moves,
            };
        }
        let mut selection = Selection::new(self.ledger.head, self.moves);
        for cached in &self.cache {
            if !selection.take(cached.at, &cached.frame, limits) {
                break;
            }
        }
        Choice::Chosen(selection)
    }

    /// Whether a selection is still what the next claim would begin with.
    pub(super) fn is_current(&self, selection: &Selection) -> bool {
        selection.from == self.ledger.head && selection.moves == self.moves
    }

    /// Takes note of a claim that is sealed on disk.
    pub(super) fn sealed(&mut self, sealed: Sealed, selection: Selection) {
        let oldest = selection.frames.first().map(|f| f.header().sealed_at);
        self.advanced(&selection);
        let key = sealed.key;
        self.ready.push_back(Claim {
            token: sealed.token.clone(),
            frames: selection.frames,
            sealed_at: sealed.sealed_at,
            redelivered: false,
            key: crate::queue::ClaimKey::Disk(key),
        });
        self.out.insert(
            key,
            Out {
                parts: selection.parts,
                oldest: oldest.unwrap_or(sealed.sealed_at),
            },
        );
        self.ledger.apply(Entry::Sealed(sealed));
    }

    /// Moves the tallies and the cache over what a selection covers.
    pub(super) fn advanced(&mut self, selection: &Selection) {
        for (number, tally) in &selection.parts {
            if let Some(segment) = self.segments.get_mut(number) {
                segment.unclaimed.subtract(tally);
            }
            self.unclaimed.subtract(tally);
        }
        while self.cache.front().is_some_and(|c| c.at < selection.to) {
            self.pop_cached();
        }
        // What is left behind the head was counted once and was then found to be no frame.
        for (number, segment) in self.segments.range_mut(..=selection.to.segment) {
            if *number < selection.to.segment || segment.len <= selection.to.offset {
                let lost = std::mem::take(&mut segment.unclaimed);
                segment.unacked.subtract(&lost);
                self.unclaimed.subtract(&lost);
                self.unacked.subtract(&lost);
                self.lost.add(&lost);
            }
        }
        let last = selection.frames.last().map(|f| f.header().sealed_at);
        self.head_oldest = match self.cache.front() {
            Some(first) => Some(first.frame.header().sealed_at),
            None if self.unclaimed.frames > 0 => last.or(self.head_oldest),
            None => None,
        };
    }

    /// Takes note of an acknowledgement that is on disk.
    pub(super) fn acked(&mut self, key: u64) {
        self.ledger.apply(Entry::Acked(key));
        let Some(out) = self.out.remove(&key) else {
            return;
        };
        for (number, tally) in &out.parts {
            if let Some(segment) = self.segments.get_mut(number) {
                segment.unacked.subtract(tally);
            }
            self.unacked.subtract(tally);
        }
    }

    /// Gives up what a sealed claim had and what could not be read again; `found` is what could.
    pub(super) fn lose(&mut self, key: u64, found: &BTreeMap<u64, Tally>, stretches: usize) {
        let Some(out) = self.out.get_mut(&key) else {
            return;
        };
        self.damaged += stretches as u64;
        for (number, part) in &mut out.parts {
            let mut lost = *part;
            *part = found.get(number).copied().unwrap_or_default();
            lost.subtract(part);
            if let Some(segment) = self.segments.get_mut(number) {
                segment.unacked.subtract(&lost);
            }
            self.unacked.subtract(&lost);
            self.lost.add(&lost);
        }
    }

    /// Segments of which nothing is needed any more.
    pub(super) fn spent(&self) -> Vec<u64> {
        let needed = |number: u64, len: u64| {
            self.ledger
                .sealed
                .values()
                .any(|sealed| overlaps(sealed, number, len))
        };
        let head = self.ledger.head;
        self.segments
            .range(..=head.segment)
            .filter(|(number, segment)| {
                let behind = **number < head.segment || segment.len <= head.offset;
                behind && !needed(**number, segment.len)
            })
            .map(|(number, _)| *number)
            .collect()
    }

    /// Sealed time of the oldest frame, in milliseconds since the epoch.
    pub(super) fn oldest(&self) -> Option<i64> {
        let sealed = self.out.values().map(|out| out.oldest);
        sealed.chain(self.head_oldest).min()
    }
}

/// Whether a claim has frames between the header and `len` of a segment.
pub(super) fn overlaps(sealed: &Sealed, number: u64, len: u64) -> bool {
    let start = Position::start_of(number);
    let end = Position {
        segment: number,
        offset: len.max(HEADER_BYTES),
    };
    sealed.from < end && sealed.to > start
}

impl Selection {
    pub(super) fn new(from: Position, moves: u64) -> Selection {
        Selection {
            from,
            to: from,
            frames: Vec::new(),
            parts: BTreeMap::new(),
            damage: Vec::new(),
            moves,
        }
    }

    /// Takes the frame at `at` unless that would pass the limits. The first is always taken.
    pub(super) fn take(&mut self, at: Position, frame: &Frame, limits: &ClaimLimits) -> bool {
        let bytes = frame.as_bytes().len() as u64;
        let mut sum = Tally::default();
        for part in self.parts.values() {
            sum.add(part);
        }
        sum.count(frame.header(), bytes);
        let over = sum.rows() > limits.rows as u64 || sum.bytes > limits.bytes as u64;
        if over && !self.frames.is_empty() {
            return false;
        }
        let part = self.parts.entry(at.segment).or_default();
        part.count(frame.header(), bytes);
        self.frames.push(frame.clone());
        self.to = Position {
            segment: at.segment,
            offset: at.offset + bytes,
        };
        true
    }
}
