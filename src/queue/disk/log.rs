//! The log itself: appends, seals and acknowledges, one call at a time. The disk thread owns it.
//!
//! The rules of failure:
//!
//! - A group of frames whose write or sync failed is refused, and its segment is given up: it is cut
//!   back to its last synced byte, durably, before anything else is written. After a failed sync
//!   nothing is known of a file's unsynced pages, and a later sync that succeeds proves nothing.
//! - Until that cut has worked every append is refused. Only a crash in that time can bring a refused
//!   frame back.
//! - Frames that were acknowledged without a sync (`fsync: 100ms`) are written again to a new segment.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::DAMAGED;
use super::cursor::{CursorLog, Entry, Sealed};
use super::io::{File, Io};
use super::segment::{self, HEADER_BYTES, Position, Summary};
use super::state::{Selection, State};
use crate::config::{DiskQueueConfig, Fsync};
use crate::frame::Frame;
use crate::queue::{Error, now_ms, token};

/// A drained segment that is still written to is replaced from this size on, so that an idle queue
/// leaves little on the disk.
const WORTH_REMOVING: u64 = 4 << 20;
/// Frames written and not synced (`fsync: <period>`) that are held in memory; then a sync is due.
const MAX_UNSYNCED_BYTES: u64 = 32 << 20;

/// Free bytes, beside the floor, without which no frame is worth a try.
const LEAST_ROOM: u64 = 64 << 10;

/// The segment that is written to.
struct Active {
    number: u64,
    file: Box<dyn File>,
    len: u64,
    /// Up to here the file is durable, as far as the policy asks for it.
    synced: u64,
    summary: Summary,
}

/// See the module.
pub(super) struct Log {
    io: Arc<dyn Io>,
    config: DiskQueueConfig,
    state: Arc<Mutex<State>>,
    cursor: CursorLog,
    active: Option<Active>,
    /// Frames acknowledged and not synced.
    unsynced: Vec<Frame>,
    unsynced_since: Option<Instant>,
    /// A segment that must be cut to this length before anything is written.
    cut: Option<(u64, u64)>,
    /// Bytes of the last group. After a failure there must be room for as much, so that a disk with
    /// hardly any does not change its mind with each group.
    last_bytes: u64,
}

impl Log {
    pub(super) fn new(
        io: Arc<dyn Io>,
        config: DiskQueueConfig,
        state: Arc<Mutex<State>>,
        cursor: CursorLog,
    ) -> Log {
        Log {
            io,
            config,
            state,
            cursor,
            active: None,
            unsynced: Vec::new(),
            unsynced_since: None,
            cut: None,
            last_bytes: 0,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes that still fit into the segment that is written to.
    pub(super) fn room(&self) -> u64 {
        let used = self.active.as_ref().map_or(HEADER_BYTES, |a| a.len);
        self.config.segment_bytes.as_u64().saturating_sub(used)
    }

    /// Writes frames behind all others, with one write and, if the policy says so, one sync.
    ///
    /// # Errors
    /// When they are not in the queue, none of them.
    pub(super) fn append(&mut self, frames: &[Frame]) -> Result<(), Error> {
        let bytes: u64 = frames.iter().map(|f| f.as_bytes().len() as u64).sum();
        self.last_bytes = bytes;
        self.check_free(bytes)?;
        self.restore()?;
        let durable = !matches!(self.config.fsync, Fsync::Interval(_));
        self.write(frames, durable)?;
        if !durable {
            self.unsynced.extend_from_slice(frames);
            self.unsynced_since.get_or_insert_with(Instant::now);
            let waiting = self.active.as_ref().map_or(0, |a| a.len - a.synced);
            if waiting >= MAX_UNSYNCED_BYTES {
                // The frames are in the queue either way; a failure shows at the next append.
                self.flush().ok();
            }
        }
        Ok(())
    }

    /// Says whether appends would be taken. With `failing`, when they were not, it mends what can be
    /// mended and makes a new segment as a proof.
    ///
    /// # Errors
    /// Why they would not.
    pub(super) fn look(&mut self, failing: bool) -> Result<(), Error> {
        if let Some(active) = &self.active
            && let Err(error) = self.check_named(active)
        {
            let error = self.failed("write", &segment::name(active.number), error);
            if let Some(active) = self.active.take() {
                self.give_up(&active);
            }
            return Err(error);
        }
        self.note_active();
        let room = self.last_bytes.max(LEAST_ROOM);
        self.check_free(if failing { room } else { 0 })?;
        if failing {
            self.restore()?;
            if self.active.is_none() {
                self.active = Some(self.begin()?);
            }
        }
        Ok(())
    }

    /// An error when the segment's name does not lead to it any more.
    fn check_named(&self, active: &Active) -> io::Result<()> {
        if self
            .io
            .leads_to(&segment::name(active.number), &*active.file)?
        {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the file was removed while the daemon writes to it",
        ))
    }

    /// Lets another process have the directory.
    pub(super) fn release(&self) {
        self.io.release();
    }

    fn check_free(&self, bytes: u64) -> Result<(), Error> {
        let floor = self.config.min_free.as_u64();
        match self.io.free_bytes() {
            Ok(free) if free < floor.saturating_add(bytes) => Err(Error::DiskLow { free, floor }),
            Ok(_) => Ok(()),
            Err(error) => Err(self.failed("free-space check", "", error)),
        }
    }

    /// Makes good what an earlier failure left: the pending cut, and frames that lost their place.
    fn restore(&mut self) -> Result<(), Error> {
        if let Some((number, len)) = self.cut {
            self.cut_back(number, len)
                .map_err(|error| self.failed("cut", &segment::name(number), error))?;
            self.cut = None;
        }
        if self.active.is_none() && !self.unsynced.is_empty() {
            let frames = std::mem::take(&mut self.unsynced);
            if let Err(error) = self.write(&frames, true) {
                self.unsynced = frames;
                return Err(error);
            }
            self.unsynced_since = None;
        }
        Ok(())
    }

    fn cut_back(&self, number: u64, len: u64) -> io::Result<()> {
        let name = segment::name(number);
        if len <= HEADER_BYTES {
            match self.io.remove(&name) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => return self.io.sync_dir(),
            }
        }
        let file = match self.io.open(&name) {
            Ok(file) => file,
            // Somebody has removed it, and the refused frames with it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        file.truncate(len)?;
        file.sync()
    }

    /// Writes frames to the active segment, or a new one when it is full.
    fn write(&mut self, frames: &[Frame], durable: bool) -> Result<(), Error> {
        if self.room() == 0 {
            self.finish()?;
        }
        let mut active = match self.active.take() {
            Some(active) => active,
            None => self.begin()?,
        };
        let buffers: Vec<&[u8]> = frames.iter().map(|f| &f.as_bytes()[..]).collect();
        let sync = durable && self.config.fsync != Fsync::Never;
        let written = active.file.write_at(active.len, &buffers);
        let result = match written {
            Ok(()) if sync => active.file.sync(),
            other => other,
        };
        let result = result.and_then(|()| self.check_named(&active));
        if let Err(error) = result {
            let error = self.failed("write", &segment::name(active.number), error);
            self.give_up(&active);
            return Err(error);
        }
        let at = Position {
            segment: active.number,
            offset: active.len,
        };
        for frame in frames {
            let bytes = frame.as_bytes().len() as u64;
            active.summary.tally.count(frame.header(), bytes);
            active.len += bytes;
        }
        if active.summary.oldest == 0 {
            active.summary.oldest = frames.first().map_or(0, |f| f.header().sealed_at);
        }
        if durable {
            active.synced = active.len;
        }
        self.active = Some(active);
        self.state().appended(at, frames, Instant::now());
        Ok(())
    }

    /// Makes a new segment. Its name is durable before it holds a frame.
    fn begin(&mut self) -> Result<Active, Error> {
        let number = {
            let state = self.state();
            let last = state.segments.keys().next_back().copied().unwrap_or(0);
            let used = state.ledger.head.segment.max(last);
            now_ms().cast_unsigned().max(used + 1)
        };
        let name = segment::name(number);
        let make = || {
            let file = self.io.create(&name)?;
            file.write_at(0, &[&segment::header()])?;
            if self.config.fsync != Fsync::Never {
                self.io.sync_dir()?;
            }
            Ok(file)
        };
        match make() {
            Ok(file) => {
                self.state().segments.entry(number).or_default().len = HEADER_BYTES;
                Ok(Active {
                    number,
                    file,
                    len: HEADER_BYTES,
                    synced: HEADER_BYTES,
                    summary: Summary::default(),
                })
            }
            Err(error) => {
                self.io.remove(&name).ok();
                Err(self.failed("creation", &name, error))
            }
        }
    }

    /// Notes what the active segment holds, for the next start. Without the note nobody would know what
    /// is missing should the segment be; the segment itself does not need it.
    fn note_active(&mut self) {
        let Some(active) = &self.active else { return };
        let (number, len, mut tally) = (active.number, active.synced, active.summary.tally);
        let ledger = self.state().ledger.clone();
        let noted = ledger
            .holds
            .get(&number)
            .map_or(HEADER_BYTES, |held| held.0);
        if active.synced != active.len || noted == len {
            return;
        }
        tally.bytes = 0;
        let entry = Entry::Holds(number, len, tally);
        if self.note(&ledger, std::slice::from_ref(&entry)).is_ok() {
            self.state().ledger.apply(entry);
        }
    }

    /// Ends the active segment with its footer. Without a footer the segment is as good, only slower
    /// to look at when the daemon starts; so a failure here is of no consequence to its frames.
    fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.note_active();
        let Some(active) = self.active.take() else {
            return Ok(());
        };
        if active.len == HEADER_BYTES {
            self.give_up(&active);
            return Ok(());
        }
        let footer = segment::footer(&active.summary);
        let mut result = active.file.write_at(active.len, &[&footer]);
        if result.is_ok() && self.config.fsync != Fsync::Never {
            result = active.file.sync();
        }
        if let Err(error) = result {
            let name = segment::name(active.number);
            tracing::warn!(%error, name, "the queue could not end a segment, its frames are safe");
            self.give_up(&active);
        }
        Ok(())
    }

    /// Leaves a segment whose tail cannot be trusted.
    fn give_up(&mut self, active: &Active) {
        let (number, len) = (active.number, active.synced);
        let from = Position {
            segment: number,
            offset: len,
        };
        self.cut = self.cut_back(number, len).err().map(|_| (number, len));
        let mut state = self.state();
        state.retract(from, &self.unsynced);
        state.ledger.holds.remove(&number);
        if len <= HEADER_BYTES {
            state.segments.remove(&number);
        }
    }

    /// Syncs what `fsync: <period>` has left unsynced. When that fails the frames move to a new
    /// segment, or wait in memory until one can be made.
    ///
    /// # Errors
    /// When frames are still not durable.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        self.restore()?;
        if self.unsynced.is_empty() {
            return Ok(());
        }
        if let Some(mut active) = self.active.take() {
            match active.file.sync() {
                Ok(()) => {
                    active.synced = active.len;
                    self.active = Some(active);
                    self.unsynced.clear();
                    self.unsynced_since = None;
                    return Ok(());
                }
                Err(error) => {
                    let name = segment::name(active.number);
                    tracing::warn!(%error, name, "fsync failed, the frames are written again");
                    self.give_up(&active);
                }
            }
        }
        self.restore()
    }

    /// Ids of the frames that a crash may take.
    #[cfg(test)]
    pub(super) fn unsynced(&self) -> Vec<u64> {
        let ids = self.unsynced.iter().map(|f| f.header().first_id);
        ids.collect()
    }

    /// Whether frames that were refused may still be in a file.
    #[cfg(test)]
    pub(super) fn has_to_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// When [`Log::flush`] is due.
    pub(super) fn flush_at(&self) -> Option<Instant> {
        let Fsync::Interval(period) = self.config.fsync else {
            return None;
        };
        self.unsynced_since
            .map(|since| since + period.duration().max(Duration::from_millis(1)))
    }

    /// Whether frames wait in memory because the disk refused them a second place.
    pub(super) fn is_homeless(&self) -> bool {
        self.active.is_none() && !self.unsynced.is_empty()
    }

    /// Seals a selection, unless the log has moved on since it was made (`false`).
    ///
    /// # Errors
    /// When the seal is not durable; then nothing was sealed.
    pub(super) fn seal(&mut self, selection: Selection) -> Result<bool, Error> {
        if !self.unsynced.is_empty() {
            self.flush()?;
        }
        let ledger = {
            let state = self.state();
            if !state.is_current(&selection) {
                return Ok(false);
            }
            state.ledger.clone()
        };
        self.set_aside(&selection.damage);
        if selection.frames.is_empty() {
            let entry = Entry::Head {
                next_key: ledger.next_key,
                head: selection.to,
            };
            self.note(&ledger, std::slice::from_ref(&entry))?;
            let mut state = self.state();
            state.advanced(&selection);
            state.ledger.apply(entry);
            drop(state);
            self.prune();
            return Ok(true);
        }
        let sealed = Sealed {
            key: ledger.next_key,
            from: selection.from,
            to: selection.to,
            token: token(&selection.frames),
            sealed_at: now_ms(),
        };
        self.note(&ledger, &[Entry::Sealed(sealed.clone())])?;
        self.state().sealed(sealed, selection);
        Ok(true)
    }

    /// Forgets claims, and the segments that only they needed. Unknown ones were forgotten before.
    ///
    /// # Errors
    /// When that is not durable; then they stay.
    pub(super) fn ack(&mut self, keys: &[u64]) -> Result<(), Error> {
        let ledger = self.state().ledger.clone();
        let entries: Vec<_> = keys
            .iter()
            .filter(|key| ledger.sealed.contains_key(key))
            .map(|key| Entry::Acked(*key))
            .collect();
        if entries.is_empty() {
            return Ok(());
        }
        self.note(&ledger, &entries)?;
        for key in keys {
            self.state().acked(*key);
        }
        self.prune();
        Ok(())
    }

    fn note(&mut self, before: &super::cursor::Ledger, entries: &[Entry]) -> Result<(), Error> {
        self.cursor
            .append(before, entries)
            .map_err(|error| self.failed("write", super::cursor::NAME, error))
    }

    /// Removes the segments of which nothing is needed any more. A removal that fails or is undone by
    /// a crash is made up for at the next start.
    pub(super) fn prune(&mut self) {
        let spent = self.state().spent();
        for number in spent {
            // Its tail may hold refused frames. A crash could undo the removal, but not the cut.
            if self.cut.is_some_and(|(cut, _)| cut == number) {
                continue;
            }
            if let Some(active) = &self.active
                && active.number == number
            {
                if active.len < WORTH_REMOVING {
                    continue;
                }
                self.active = None;
            }
            let name = segment::name(number);
            if let Err(error) = self.io.remove(&name) {
                tracing::warn!(%error, name, "a drained segment of the queue could not be removed");
            }
            let mut state = self.state();
            state.ledger.holds.remove(&number);
            if let Some(segment) = state.segments.remove(&number) {
                let rest = segment.unacked;
                state.unacked.subtract(&rest);
                state.lost.add(&rest);
            }
        }
    }

    /// Copies damaged stretches to files of their own, for whoever wants to look at them.
    fn set_aside(&self, damage: &[(Position, u64)]) {
        for (at, until) in damage {
            self.state().damaged += 1;
            let kept = set_aside(&*self.io, *at, *until);
            let bytes = until - at.offset;
            let name = segment::name(at.segment);
            match kept {
                Ok(copy) => {
                    tracing::error!(name, offset = at.offset, bytes, %copy, "queue segment is damaged, the stretch is set aside");
                }
                Err(error) => {
                    tracing::error!(name, offset = at.offset, bytes, %error, "queue segment is damaged, the stretch is skipped and could not be set aside");
                }
            }
        }
    }

    /// Makes everything durable and ends the active segment.
    ///
    /// # Errors
    /// When frames are not durable.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        self.finish()
    }

    fn failed(&self, what: &'static str, name: &str, source: io::Error) -> Error {
        Error::Io {
            what,
            path: self.io.describe(name),
            source: Arc::new(source),
        }
    }
}

/// Copies `at` up to `until` into `damaged/`, and returns where to.
pub(super) fn set_aside(io: &dyn Io, at: Position, until: u64) -> io::Result<String> {
    /// A stretch is copied in pieces of this size.
    const PIECE: u64 = 1 << 20;
    let from = io.open(&segment::name(at.segment))?;
    let name = format!("{DAMAGED}/{:020}-{}.bin", at.segment, at.offset);
    let to = io.create(&name)?;
    let mut offset = at.offset;
    while offset < until {
        let size = usize::try_from((until - offset).min(PIECE)).map_err(io::Error::other)?;
        let mut piece = vec![0; size];
        let read = from.read_at(offset, &mut piece)?;
        if read == 0 {
            break;
        }
        piece.truncate(read);
        to.write_at(offset - at.offset, &[&piece])?;
        offset += read as u64;
    }
    to.sync()?;
    Ok(io.describe(&name))
}
