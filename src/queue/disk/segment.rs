//! Segment files: frames back to back, with a small header before and a summary behind them.
//!
//! ```text
//! <number, 20 digits>.seg
//!  0  magic "WTSG", u32 version = 1, u32 CRC-32C of these 8 bytes, u32 0
//! 16  frames, as `frame` defines them, without gaps
//!  …  footer, once the segment is finished (64 bytes):
//!     magic "WTSF", u32 0, u64 frames, u64 × 3 records by receiver, u64 bytes,
//!     i64 sealed time of the first frame, u32 0, u32 CRC-32C of the 60 bytes before
//! ```
//!
//! Segments and frames have versions of their own, and every version is read for ever. Who makes a new one
//! adds a directory written by the last code of the old (`tests/fixtures/disk-queue-v<n>`, and a frame,
//! `frame-v<n>.bin`) with a test that reads it (`versions.rs`).
//!
//! A number is never used twice: it is the time in milliseconds at which the segment was begun, or
//! one more than the last. So a position (segment, offset) names the same frame for ever, and an old
//! cursor log beside new segments can never make them look acknowledged. A start always begins a
//! new segment and appends to none that it found.
//!
//! The footer only saves the scan at the next start. What a crash can lose is what was not synced:
//! frames whose `append` had not returned.

use std::io;

use bytes::Bytes;

use super::io::File;
use crate::buffers;
use crate::frame::{Frame, Header};

pub(super) const HEADER_BYTES: u64 = 16;
pub(super) const FOOTER_BYTES: usize = 64;
const MAGIC: &[u8; 4] = b"WTSG";
const FOOTER_MAGIC: &[u8; 4] = b"WTSF";
const FRAME_MAGIC: &[u8; 4] = b"WTFR";
const VERSION: u32 = 1;
/// Bytes of a frame's header, which is all that is needed to step over the frame.
pub(super) const FRAME_HEADER_BYTES: usize = 64;

/// A place in the log. Positions are ordered as the frames are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Position {
    /// Number of the segment.
    pub(super) segment: u64,
    /// Byte in its file.
    pub(super) offset: u64,
}

impl Position {
    /// The start of the first frame of a segment.
    pub(super) fn start_of(segment: u64) -> Position {
        Position {
            segment,
            offset: HEADER_BYTES,
        }
    }
}

/// Frames counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    pub(super) frames: u64,
    pub(super) records: [u64; 3],
    pub(super) bytes: u64,
}

impl Tally {
    /// Counts one frame.
    pub(super) fn count(&mut self, header: &Header, bytes: u64) {
        self.frames += 1;
        self.bytes += bytes;
        for (sum, count) in self.records.iter_mut().zip(header.accepted) {
            *sum += u64::from(count);
        }
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        for (sum, count) in self.records.iter_mut().zip(other.records) {
            *sum += count;
        }
    }

    /// Takes away what is no longer there. Saturates: damaged frames are counted before they are
    /// found to be damaged.
    pub(super) fn subtract(&mut self, other: &Tally) {
        self.frames = self.frames.saturating_sub(other.frames);
        self.bytes = self.bytes.saturating_sub(other.bytes);
        for (sum, count) in self.records.iter_mut().zip(other.records) {
            *sum = sum.saturating_sub(count);
        }
    }

    /// Records of all receivers.
    pub(super) fn rows(&self) -> u64 {
        self.records.iter().sum()
    }
}

/// What the footer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Summary {
    pub(super) tally: Tally,
    /// Sealed time of the first frame, in milliseconds since the epoch.
    pub(super) oldest: i64,
}

/// The file name of a segment.
pub(super) fn name(number: u64) -> String {
    format!("{number:020}.seg")
}

/// The number in a segment's file name.
pub(super) fn number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".seg")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}

/// The bytes before the first frame.
pub(super) fn header() -> [u8; HEADER_BYTES as usize] {
    let mut bytes = [0; HEADER_BYTES as usize];
    bytes[0..4].copy_from_slice(MAGIC);
    bytes[4..8].copy_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[0..8]);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The bytes behind the last frame.
pub(super) fn footer(summary: &Summary) -> [u8; FOOTER_BYTES] {
    let mut bytes = [0; FOOTER_BYTES];
    bytes[0..4].copy_from_slice(FOOTER_MAGIC);
    let [a, b, c] = summary.tally.records;
    let numbers = [summary.tally.frames, a, b, c, summary.tally.bytes];
    for (i, number) in numbers.iter().enumerate() {
        bytes[8 + 8 * i..16 + 8 * i].copy_from_slice(&number.to_le_bytes());
    }
    bytes[48..56].copy_from_slice(&summary.oldest.to_le_bytes());
    let checksum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Reads a footer, if these bytes are one.
fn parse_footer(bytes: &[u8]) -> Option<Summary> {
    let (fixed, _) = bytes.split_first_chunk::<FOOTER_BYTES>()?;
    let checksum = u32::from_le_bytes([fixed[60], fixed[61], fixed[62], fixed[63]]);
    if !fixed.starts_with(FOOTER_MAGIC) || crc32c::crc32c(&fixed[..60]) != checksum {
        return None;
    }
    let number = |i: usize| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&fixed[8 + 8 * i..16 + 8 * i]);
        u64::from_le_bytes(bytes)
    };
    Some(Summary {
        tally: Tally {
            frames: number(0),
            records: [number(1), number(2), number(3)],
            bytes: number(4),
        },
        oldest: number(5).cast_signed(),
    })
}

/// What stands at a place in a segment.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// A frame that is all there; `None` for the frame where only headers are read.
    Frame {
        header: Header,
        frame: Option<Frame>,
        bytes: u64,
    },
    /// Nothing that is a frame; the next sound thing, or the end, is at `until`.
    Damaged { until: u64 },
    /// The end: of the file, or of the frames.
    End,
}

/// How much a [`Reader`] looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Headers only.
    Headers,
    /// Whole frames, their checksums too.
    Frames,
}

/// Walks the frames of one segment through a bounded window. Frames that it hands out share the
/// window's memory.
pub(super) struct Reader {
    file: Box<dyn File>,
    len: u64,
    depth: Depth,
    window: Bytes,
    window_start: u64,
}

impl Reader {
    /// Bytes read at once.
    const FRAMES_WINDOW: u64 = 2 << 20;
    const HEADERS_WINDOW: u64 = 4 << 10;

    /// A reader of the file's first `len` bytes, or as many as there are.
    pub(super) fn new(file: Box<dyn File>, depth: Depth, len: u64) -> io::Result<Reader> {
        let len = file.len()?.min(len);
        Ok(Reader {
            file,
            len,
            depth,
            window: Bytes::new(),
            window_start: 0,
        })
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    /// The footer, if the segment is finished.
    pub(super) fn footer(&mut self) -> io::Result<Option<Summary>> {
        let Some(at) = self.len.checked_sub(FOOTER_BYTES as u64) else {
            return Ok(None);
        };
        let bytes = self.bytes(at, FOOTER_BYTES as u64)?;
        Ok(parse_footer(&bytes))
    }

    /// What stands at `offset`.
    pub(super) fn step(&mut self, offset: u64) -> io::Result<Step> {
        if offset >= self.len {
            return Ok(Step::End);
        }
        if let Some(step) = self.sound(offset)? {
            return Ok(step);
        }
        // A sound header before a damaged body says where the next frame is; looking for it byte by
        // byte could find one that somebody logged.
        let start = self.bytes(offset, FRAME_HEADER_BYTES as u64)?;
        if let Ok((_, total)) = Header::parse(&start) {
            let next = offset + total as u64;
            if next == self.len || (next < self.len && self.sound(next)?.is_some()) {
                return Ok(Step::Damaged { until: next });
            }
        }
        let until = self.resync(offset + 1)?;
        Ok(Step::Damaged { until })
    }

    /// The frame or the footer at `offset`, if there is one and it is undamaged.
    fn sound(&mut self, offset: u64) -> io::Result<Option<Step>> {
        let start = self.bytes(offset, FRAME_HEADER_BYTES as u64)?;
        if parse_footer(&start).is_some() {
            return Ok(Some(Step::End));
        }
        let Ok((header, total)) = Header::parse(&start) else {
            return Ok(None);
        };
        let bytes = total as u64;
        if bytes > self.len - offset {
            return Ok(None);
        }
        let frame = match self.depth {
            Depth::Headers => None,
            Depth::Frames => match Frame::parse(self.bytes(offset, bytes)?) {
                Ok(frame) => Some(frame),
                Err(_) => return Ok(None),
            },
        };
        Ok(Some(Step::Frame {
            header,
            frame,
            bytes,
        }))
    }

    /// The next offset from `offset` on at which something sound stands, or the file's end.
    fn resync(&mut self, mut offset: u64) -> io::Result<u64> {
        while offset < self.len {
            let window = self.bytes(offset, Self::HEADERS_WINDOW)?;
            let found = window
                .windows(4)
                .position(|four| four == FRAME_MAGIC || four == FOOTER_MAGIC);
            match found {
                Some(at) => {
                    let candidate = offset + at as u64;
                    if self.sound(candidate)?.is_some() {
                        return Ok(candidate);
                    }
                    offset = candidate + 1;
                }
                // A magic may lie across the window's end.
                None => offset += (window.len() as u64).saturating_sub(3).max(1),
            }
        }
        Ok(self.len)
    }

    /// Up to `want` bytes at `offset`; fewer only where the file ends.
    pub(super) fn bytes(&mut self, offset: u64, want: u64) -> io::Result<Bytes> {
        let want = want.min(self.len.saturating_sub(offset));
        let inside = |reader: &Reader| {
            let from = usize::try_from(offset.checked_sub(reader.window_start)?).ok()?;
            let to = from.checked_add(usize::try_from(want).ok()?)?;
            (to <= reader.window.len()).then(|| reader.window.slice(from..to))
        };
        if let Some(bytes) = inside(self) {
            return Ok(bytes);
        }
        let window = match self.depth {
            Depth::Headers => Self::HEADERS_WINDOW,
            Depth::Frames => Self::FRAMES_WINDOW,
        };
        let size = want.max(window).min(self.len - offset);
        let mut buffer = buffers::filled(usize::try_from(size).map_err(io::Error::other)?);
        let read = self.file.read_at(offset, &mut buffer)?;
        buffer.truncate(read);
        self.window = buffers::share(buffer);
        self.window_start = offset;
        inside(self).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
