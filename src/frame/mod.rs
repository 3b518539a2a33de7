//! Frames: the only currency behind intake.
//!
//! A frame is a small checksummed header and one ClickHouse *Native* block. The queue stores it, the
//! writer streams its block into `INSERT … FORMAT Native` without looking inside, the live hub reads
//! it, a dead letter is one. [`BlockBuilder`] is the one encoder, [`Block`] the one decoder.
//!
//! # Layout, version 2, little endian
//!
//! ```text
//!  0  magic "WTFR"
//!  4  u16 version           = 2
//!  6  u16 node              which node sealed it
//!  8  u32 payload length    bytes of the Native block
//! 12  u32 records           rows of the block
//! 16  u64 first id          ids rise by ID_STEP from row to row
//! 24  u64 last id
//! 32  i64 sealed at         milliseconds since the epoch
//! 40  u32 × 3 accepted      records by receiver, in the order of `Receiver::ALL`
//! 52  u32 digests           number of 16-byte request digests that follow the header
//! 56  u32 body checksum     CRC-32C of digests and payload
//! 60  u32 header checksum   CRC-32C of bytes 0 to 59
//! 64  digests, then the payload
//! ```
//!
//! The digests name the requests whose records are inside, so that a request sent again after a
//! restart is still recognized. Readers accept every version up to their own. Magic, version, the two
//! lengths and the header checksum keep their places in every version, so that an older daemon tells
//! a newer frame from a damaged one. Version 1 had the resources' values in the block once per record, not
//! in a dictionary. Each version leaves a fixture, `tests/fixtures/frame-v<n>.bin`, which
//! a test reads from then on.

mod decode;
mod dictionary;
mod encode;
mod header;
mod keys;
mod native;
mod read;
mod seal;
#[cfg(test)]
mod tests;

pub use decode::{Block, Row};
pub use encode::{BlockBuilder, Mark};
pub use header::{Error, Frame, Header, ID_STEP, MAX_FRAME_BYTES, Seal};
pub use keys::{KeyCount, keys};
pub use native::COLUMNS;
pub use read::{LowCardinality, MapColumn};

/// A column of the records table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Its type, as ClickHouse writes it.
    pub kind: &'static str,
}

impl Column {
    const fn new(name: &'static str, kind: &'static str) -> Self {
        Self { name, kind }
    }
}
