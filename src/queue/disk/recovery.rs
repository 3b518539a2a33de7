//! The start: what the directory holds, made into a state that can be worked with.
//!
//! The rules, all of which would rather replay than lose:
//!
//! - A segment with a footer is taken at its word; damage in it is found when it is read. One without
//!   (the last before a crash) is read whole, in bounded memory: a torn tail is cut, a damaged stretch
//!   in the middle is left for the reader to step over.
//! - Segments before the cursor's head of which no sealed claim has a frame are removed.
//! - No cursor log, or one that cannot be read: everything in the segments is unclaimed and comes out
//!   again. One that is older than the segments: everything behind its head comes out again.
//! - A sealed claim of which frames are missing comes out with those that are left. One with none
//!   left is forgotten.
//! - What the cursor log says that segments held, and they do not any more, is counted as lost.
//! - On a full disk the cursor log goes on in its old file, and what cannot be kept aside is not cut.
//! - A segment that cannot be opened is moved to `damaged/`, and its owner and mode are logged. The
//!   first start that can read it takes it back, behind everything else.
//!
//! Each is said once in the log.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use super::DAMAGED;
use super::cursor::{self, CursorLog, Ledger};
use super::io::Io;
use super::log::set_aside;
use super::segment::{self, Depth, HEADER_BYTES, Position, Reader, Step, Summary, Tally};
use super::state::{Out, Segment, State, overlaps};
use crate::queue::now_ms;
use crate::state_file::is_no_room;

/// Pieces of segments kept in `damaged/`.
const MOST_SET_ASIDE: usize = 100;

/// Looks at the directory and makes the state of it.
///
/// # Errors
/// When the directory cannot be listed or written.
pub(super) fn recover(io: &Arc<dyn Io>, sync: bool) -> io::Result<(State, CursorLog)> {
    let (ledger, trouble) = CursorLog::load(&**io);
    let set_aside = io.list(DAMAGED);
    forget_oldest(&**io, set_aside.unwrap_or_default());
    take_back(&**io)?;
    let mut numbers: Vec<u64> = io
        .list("")?
        .iter()
        .filter_map(|name| segment::number(name))
        .collect();
    numbers.sort_unstable();
    tell_of_cursor(&**io, &ledger, trouble.as_ref(), &numbers);
    let mut state = State::new(ledger);
    for key in state.ledger.sealed.keys() {
        state.out.insert(*key, Out::default());
    }
    let mut found = BTreeMap::new();
    for number in numbers {
        found.insert(number, look_at(&**io, &mut state, number)?);
    }
    tell_of_missing(&**io, &mut state, &found);
    forget_lost_claims(&mut state);
    state.redeliver = state.ledger.sealed.keys().copied().collect();
    let mut log = CursorLog::new(Arc::clone(io), sync);
    match log.rewrite(&state.ledger, "") {
        Err(error) if is_no_room(&error) => {
            tracing::error!(path = %io.describe(cursor::NAME), %error, "the disk is full; the queue is drained and takes nothing until there is room");
            if let Err(error) = log.resume() {
                tracing::error!(path = %io.describe(cursor::NAME), %error, "the queue's cursor log cannot be written, so nothing is drained until there is room");
            }
        }
        done => done?,
    }
    Ok((state, log))
}

/// Keeps what was set aside within bounds: each crash may leave a torn tail.
fn forget_oldest(io: &dyn Io, mut names: Vec<String>) {
    names.retain(|name| name.ends_with(".bin"));
    // Their names begin with the time at which the segment was begun.
    names.sort_unstable();
    let many = names.len().saturating_sub(MOST_SET_ASIDE);
    for name in names.iter().take(many) {
        let path = format!("{DAMAGED}/{name}");
        match io.remove(&path) {
            Ok(()) => {
                tracing::warn!(path = %io.describe(&path), "removed what was set aside long ago")
            }
            Err(error) => {
                tracing::warn!(path = %io.describe(&path), %error, "could not remove what was set aside long ago");
            }
        }
    }
}

fn tell_of_cursor(io: &dyn Io, ledger: &Ledger, trouble: Option<&io::Error>, numbers: &[u64]) {
    let path = io.describe(cursor::NAME);
    match trouble {
        Some(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::error!(path, %error, "the queue's cursor log cannot be read, so everything in the queue is delivered again");
        }
        Some(_) if !numbers.is_empty() => {
            tracing::warn!(
                path,
                segments = numbers.len(),
                "the queue's cursor log is missing, so everything in the queue is delivered again"
            );
        }
        _ => {}
    }
    if ledger.damaged > 0 {
        tracing::warn!(
            path,
            lines = ledger.damaged,
            "lines of the queue's cursor log are damaged, what they acknowledged is delivered again"
        );
    }
}

/// Compares what segments held with what was found of them (`None`: it cannot be read), and tells of
/// what is missing. Then the ledger has what was found, so that each loss is told once.
fn tell_of_missing(io: &dyn Io, state: &mut State, found: &BTreeMap<u64, Option<Tally>>) {
    let held = std::mem::take(&mut state.ledger.holds);
    let head = state.ledger.head;
    for (number, (len, held)) in held {
        let end = Position {
            segment: number,
            offset: len,
        };
        let sealed = &mut state.ledger.sealed.values();
        let is_needed = end > head || sealed.any(|sealed| overlaps(sealed, number, len));
        let Some(there) = found
            .get(&number)
            .copied()
            .unwrap_or(Some(Tally::default()))
        else {
            continue;
        };
        let mut missing = held;
        missing.subtract(&there);
        if is_needed && missing.frames > 0 {
            tracing::error!(
                path = %io.describe(&segment::name(number)), is_there = found.contains_key(&number),
                frames = missing.frames, records = missing.rows(), of_frames = held.frames,
                "a segment of the queue has lost frames while the daemon was down: it was removed, emptied or cut; what of them was not stored before is lost"
            );
            state.lost.add(&missing);
        }
    }
    for (number, segment) in &state.segments {
        if let Some(Some(there)) = found.get(number) {
            let there = Tally { bytes: 0, ..*there };
            state.ledger.holds.insert(*number, (segment.len, there));
        }
    }
}

/// Takes segments back that could not be read at an earlier start. They go behind everything else,
/// under a new number, because the cursor may have passed their old one.
fn take_back(io: &dyn Io) -> io::Result<()> {
    let mut last = io
        .list("")?
        .iter()
        .filter_map(|name| segment::number(name))
        .max()
        .unwrap_or(0);
    let mut names = io.list(DAMAGED)?;
    names.retain(|name| segment::number(name).is_some());
    names.sort_unstable();
    for name in names {
        let old = format!("{DAMAGED}/{name}");
        if io.open(&old).is_err() {
            continue;
        }
        last = now_ms().cast_unsigned().max(last + 1);
        if let Err(error) = io.rename(&old, &segment::name(last)) {
            tracing::error!(path = %io.describe(&old), %error, "a segment of the queue cannot be taken back");
            continue;
        }
        tracing::warn!(path = %io.describe(&segment::name(last)), "a segment of the queue can be read again and is taken back");
    }
    Ok(())
}

/// Counts one segment into the state, mends its tail, or removes it if nothing of it is needed. Returns
/// what is in it; `None` where it cannot be read.
fn look_at(io: &dyn Io, state: &mut State, number: u64) -> io::Result<Option<Tally>> {
    let name = segment::name(number);
    let opened = io
        .open(&name)
        .and_then(|file| Reader::new(file, Depth::Headers, u64::MAX))
        .and_then(|mut reader| Ok((reader.footer()?, reader)));
    let (footer, mut reader) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            state.damaged += 1;
            tracing::error!(path = %io.describe(&name), %error, "a segment of the queue cannot be read and is moved to `{DAMAGED}`; make it readable for the daemon's user and start again to have it delivered");
            io.rename(&name, &format!("{DAMAGED}/{name}"))?;
            return Ok(None);
        }
    };
    let whole = reader.len();
    let head = state.ledger.head;
    let end = match footer {
        Some(_) => whole - segment::FOOTER_BYTES as u64,
        None => whole,
    };
    let claimed = state
        .ledger
        .sealed
        .values()
        .any(|sealed| overlaps(sealed, number, end));
    let start = Position::start_of(number);
    if !claimed && (number < head.segment || end <= HEADER_BYTES) {
        io.remove(&name)?;
        return Ok(Some(footer.map_or(Tally::default(), |f| f.tally)));
    }
    let mut scan = Scan {
        state,
        number,
        whole: footer.map_or(Tally::default(), |footer| footer.tally),
        unclaimed: Tally::default(),
        first: None,
    };
    let len = match footer {
        Some(summary) if !claimed && start >= head => {
            scan.trust(&summary);
            end
        }
        Some(_) => {
            scan.whole = Tally::default();
            scan.walk(&mut reader, end)?;
            end
        }
        None => {
            let mut reader = Reader::new(io.open(&name)?, Depth::Frames, u64::MAX)?;
            let len = scan.walk(&mut reader, whole)?;
            if len < whole {
                mend(io, number, len, whole)?;
            }
            len
        }
    };
    let there = scan.whole;
    scan.done(len);
    Ok(Some(there))
}

/// Cuts what is behind the last whole frame, and keeps it aside: it may be damage and no torn write.
/// Where that fails it stays where it is, since nothing is ever written behind it.
fn mend(io: &dyn Io, number: u64, len: u64, whole: u64) -> io::Result<()> {
    let name = segment::name(number);
    let at = Position {
        segment: number,
        offset: len,
    };
    let copy = match set_aside(io, at, whole) {
        Ok(copy) => copy,
        Err(error) => {
            tracing::warn!(path = %io.describe(&name), offset = len, bytes = whole - len, %error, "a queue segment has a torn tail, which could not be kept aside and stays");
            return Ok(());
        }
    };
    tracing::warn!(
        path = %io.describe(&name),
        offset = len,
        bytes = whole - len,
        set_aside = copy,
        "cut the torn tail of a queue segment"
    );
    let file = io.open(&name)?;
    file.truncate(len)?;
    file.sync()
}

/// Walks a segment's frames and counts each to the claim that has it, or as unclaimed.
struct Scan<'a> {
    state: &'a mut State,
    number: u64,
    /// All that is in it.
    whole: Tally,
    unclaimed: Tally,
    first: Option<i64>,
}

impl Scan<'_> {
    fn trust(&mut self, summary: &Summary) {
        self.unclaimed = summary.tally;
        self.first = Some(summary.oldest);
    }

    /// Returns the end of the last whole frame.
    fn walk(&mut self, reader: &mut Reader, end: u64) -> io::Result<u64> {
        let mut at = Position::start_of(self.number);
        let mut sound = at.offset;
        while at.offset < end {
            match reader.step(at.offset)? {
                Step::Frame { header, bytes, .. } => {
                    self.count(at, &header, bytes);
                    at.offset += bytes;
                    sound = at.offset;
                }
                Step::Damaged { until } => at.offset = until,
                Step::End => break,
            }
        }
        Ok(sound)
    }

    fn count(&mut self, at: Position, header: &crate::frame::Header, bytes: u64) {
        self.whole.count(header, bytes);
        let ledger = &self.state.ledger;
        let claim = ledger
            .sealed
            .values()
            .find(|sealed| sealed.from <= at && at < sealed.to);
        if let Some(sealed) = claim {
            let out = self.state.out.entry(sealed.key).or_default();
            if out.parts.is_empty() {
                out.oldest = header.sealed_at;
            }
            let part = out.parts.entry(self.number).or_default();
            part.count(header, bytes);
        } else if at >= ledger.head {
            self.unclaimed.count(header, bytes);
            self.first.get_or_insert(header.sealed_at);
        }
    }

    fn done(self, len: u64) {
        let mut unacked = self.unclaimed;
        for out in self.state.out.values() {
            if let Some(part) = out.parts.get(&self.number) {
                unacked.add(part);
            }
        }
        self.state.unclaimed.add(&self.unclaimed);
        self.state.unacked.add(&unacked);
        self.state.head_oldest = self.state.head_oldest.or(self.first);
        self.state.segments.insert(
            self.number,
            Segment {
                len,
                unclaimed: self.unclaimed,
                unacked,
            },
        );
    }
}

/// Forgets sealed claims of which no frame is left.
fn forget_lost_claims(state: &mut State) {
    let lost: Vec<u64> = state
        .out
        .iter()
        .filter(|(_, out)| out.parts.is_empty())
        .map(|(key, _)| *key)
        .collect();
    for key in lost {
        state.out.remove(&key);
        if let Some(sealed) = state.ledger.sealed.remove(&key) {
            tracing::warn!(key, token = %sealed.token, "the segments of a sealed claim are gone, it is taken for stored");
        }
    }
}
