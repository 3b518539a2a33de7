//! What waits in a queue's directory, for somebody who only looks: nothing is made, mended or locked, and
//! a daemon may be at work on it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use super::cursor::{self, Ledger};
use super::segment::{self, Depth, Position, Reader, Step};
use super::state::overlaps;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Frames that are not stored yet, those of sealed claims among them.
    pub frames: u64,
    /// Their records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segment files; the one that is written to is there even if nothing waits.
    pub segments: u64,
    /// Bytes of those files.
    pub file_bytes: u64,
    /// Segment files that cannot be read; what is in them is not counted.
    pub unreadable: u64,
}

/// Counts what waits in a queue's directory; `None` where there is none. Blocks.
///
/// # Errors
/// When the directory cannot be listed, or its cursor not be read.
pub fn waiting(dir: &Path) -> io::Result<Option<Waiting>> {
    let entries = match fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let ledger = match fs::read(dir.join(cursor::NAME)) {
        Ok(bytes) => Ledger::parse(&bytes),
        Err(error) if error.kind() == ErrorKind::NotFound => Ledger::default(),
        Err(error) => return Err(error),
    };
    let mut found = Waiting::default();
    for entry in entries {
        let entry = entry?;
        let Some(number) = entry.file_name().to_str().and_then(segment::number) else {
            continue;
        };
        match look_at(&entry.path(), number, &ledger, &mut found) {
            // It was stored meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => found.unreadable += 1,
            Ok(()) => {}
        }
    }
    Ok(Some(found))
}

fn look_at(path: &Path, number: u64, ledger: &Ledger, found: &mut Waiting) -> io::Result<()> {
    let file = fs::File::open(path)?;
    let mut reader = Reader::new(Box::new(file), Depth::Headers, u64::MAX)?;
    let len = reader.len();
    found.segments += 1;
    found.file_bytes += len;
    let mut sealed = ledger.sealed.values();
    if number < ledger.head.segment && !sealed.any(|sealed| overlaps(sealed, number, len)) {
        return Ok(());
    }
    let mut at = Position::start_of(number);
    while at.offset < len {
        match reader.step(at.offset)? {
            Step::Frame { header, bytes, .. } => {
                let mut sealed = ledger.sealed.values();
                if at >= ledger.head || sealed.any(|sealed| sealed.from <= at && at < sealed.to) {
                    let records = header.accepted.map(u64::from);
                    found.frames += 1;
                    found.records += records.iter().sum::<u64>();
                    found.bytes += bytes;
                }
                at.offset += bytes;
            }
            Step::Damaged { until } => at.offset = until,
            Step::End => break,
        }
    }
    Ok(())
}
