//! Reading frames back from the segments: for a claim that is not in memory, and for one that was
//! sealed before the start.

use std::io;

use super::io::Io;
use super::segment::{self, Depth, Position, Reader, Step};
use super::state::Selection;
use crate::queue::ClaimLimits;

/// No limits: a sealed claim comes out whole.
pub(super) const WHOLE: ClaimLimits = ClaimLimits {
    rows: usize::MAX,
    bytes: usize::MAX,
    delay: std::time::Duration::ZERO,
};

/// Reads on from the selection's end through these segments (number, and where its frames end) until
/// the limits are reached or `until`. Damaged stretches are noted and stepped over. A missing segment
/// is stepped over too: it cannot come back, and what follows it can still be delivered.
pub(super) fn fill(
    io: &dyn Io,
    selection: &mut Selection,
    segments: &[(u64, u64)],
    until: Position,
    limits: &ClaimLimits,
) -> io::Result<()> {
    for (number, len) in segments {
        let start = Position::start_of(*number).max(selection.to);
        if start.segment != *number || start >= until {
            continue;
        }
        let file = match io.open(&segment::name(*number)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                tracing::error!(path = %io.describe(&segment::name(*number)), "segment of the queue is missing, its records are skipped");
                selection.to = Position {
                    segment: *number,
                    offset: *len,
                };
                continue;
            }
            Err(error) => return Err(error),
        };
        let mut reader = Reader::new(file, Depth::Frames, *len)?;
        let mut at = start;
        while at < until {
            match reader.step(at.offset)? {
                Step::Frame { frame, bytes, .. } => {
                    let Some(frame) = frame else { break };
                    if !selection.take(at, &frame, limits) {
                        return Ok(());
                    }
                    at.offset += bytes;
                }
                Step::Damaged { until } => {
                    selection.damage.push((at, until));
                    at.offset = until;
                    selection.to = at;
                }
                Step::End => break,
            }
        }
        if at < until && at.offset < *len {
            tracing::error!(path = %io.describe(&segment::name(*number)), missing_bytes = len - at.offset, "segment of the queue has become shorter, the records at its end are skipped");
            selection.to = Position {
                segment: *number,
                offset: *len,
            };
        }
    }
    Ok(())
}

/// Digests of the requests in these segments whose frames were sealed since then, with those times, in
/// milliseconds since the epoch. Frames that are acknowledged already may be among them.
pub(super) fn digests(
    io: &dyn Io,
    segments: &[(u64, u64)],
    since: i64,
) -> io::Result<Vec<([u8; 16], i64)>> {
    let mut found = Vec::new();
    for (number, len) in segments.iter().rev() {
        let file = io.open(&segment::name(*number))?;
        let mut reader = Reader::new(file, Depth::Headers, *len)?;
        let mut at = segment::HEADER_BYTES;
        loop {
            match reader.step(at)? {
                Step::Frame { header, bytes, .. } => {
                    if header.sealed_at >= since {
                        // Not held against the checksum: a damaged digest matches nothing.
                        let size = segment::FRAME_HEADER_BYTES + header.digests_bytes();
                        let beginning = reader.bytes(at, size as u64)?;
                        let digests = header.digests(&beginning);
                        found.extend(digests.map(|digest| (digest, header.sealed_at)));
                    }
                    at += bytes;
                }
                Step::Damaged { until } => at = until,
                Step::End => break,
            }
        }
        // A segment's number is the time at which it was begun, so what is before it is older.
        if i64::try_from(*number).is_ok_and(|begun| begun < since) {
            break;
        }
    }
    Ok(found)
}
