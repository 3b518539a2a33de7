//! The frame and its header. The layout is in the module's own documentation.

use std::fmt;

use bytes::Bytes;

use crate::buffers;

const MAGIC: &[u8; 4] = b"WTFR";
const VERSION: u16 = 2;
/// Bytes of the fixed part of the header.
pub(super) const HEADER_BYTES: usize = 64;
const DIGEST_BYTES: usize = 16;

/// Largest frame that is read back: no intake makes one nearly as large, so that a greater length is
/// a damaged header and not a reason to allocate.
pub const MAX_FRAME_BYTES: usize = 1 << 30;

/// Distance between the ids of neighbouring rows of a frame. An id is a counter (milliseconds since
/// the epoch in its upper 42 bits, a sequence in the next 12, which may carry) over ten bits of node
/// number, so ids of one node rise strictly and those of two nodes never meet.
pub const ID_STEP: u64 = 1 << 10;

/// Why bytes are not a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The bytes end before the frame does.
    #[error("frame is cut short: {have} bytes of {need}")]
    Truncated {
        /// Bytes there are.
        have: usize,
        /// Bytes the frame needs.
        need: usize,
    },
    /// The bytes do not begin as a frame does.
    #[error("not a frame: it begins with {0:02x?}")]
    Magic([u8; 4]),
    /// A newer daemon wrote it.
    #[error("frame has version {0}; this daemon reads versions up to {VERSION}")]
    Version(u16),
    /// The header does not match its checksum.
    #[error("frame header is damaged: checksum {found:08x}, expected {expected:08x}")]
    HeaderChecksum {
        /// Checksum of the bytes.
        found: u32,
        /// Checksum in the header.
        expected: u32,
    },
    /// Digests or payload do not match their checksum.
    #[error("frame body is damaged: checksum {found:08x}, expected {expected:08x}")]
    BodyChecksum {
        /// Checksum of the bytes.
        found: u32,
        /// Checksum in the header.
        expected: u32,
    },
    /// The header's numbers cannot be.
    #[error("frame header makes no sense: {0}")]
    Header(&'static str),
    /// The Native block is not one of ours.
    #[error("frame block cannot be read at byte {offset}: {what}")]
    Block {
        /// Where in the block.
        offset: usize,
        /// What was wrong there.
        what: &'static str,
    },
}

/// What a frame is sealed with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seal {
    /// The node that seals it.
    pub node: u16,
    /// Id of the first row.
    pub first_id: u64,
    /// Milliseconds since the epoch.
    pub sealed_at: i64,
    /// Digests of the requests inside.
    pub digests: Vec<[u8; DIGEST_BYTES]>,
}

/// The fixed part of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Of the layout.
    pub(super) version: u16,
    /// The node that sealed it.
    pub node: u16,
    /// Rows of the block.
    pub num_records: u32,
    /// Id of the first row.
    pub first_id: u64,
    /// Id of the last row.
    pub last_id: u64,
    /// When it was sealed, in milliseconds since the epoch.
    pub sealed_at: i64,
    /// Records by receiver, in the order of `Receiver::ALL`.
    pub accepted: [u32; 3],
    /// Checksum of digests and payload.
    pub body_checksum: u32,
    num_digests: u32,
    payload_bytes: u32,
}

impl Header {
    /// Reads a header and says how many bytes the whole frame takes.
    ///
    /// # Errors
    /// When the bytes are too few, not a frame's, of a newer version, or damaged.
    pub fn parse(bytes: &[u8]) -> Result<(Header, usize), Error> {
        let Some((fixed, _)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Error::Truncated {
                have: bytes.len(),
                need: HEADER_BYTES,
            });
        };
        let magic = array::<4>(fixed, 0);
        if &magic != MAGIC {
            return Err(Error::Magic(magic));
        }
        let (found, expected) = (crc32c::crc32c(&fixed[..60]), u32_at(fixed, 60));
        if found != expected {
            return Err(Error::HeaderChecksum { found, expected });
        }
        let version = u16::from_le_bytes(array(fixed, 4));
        if version == 0 || version > VERSION {
            return Err(Error::Version(version));
        }
        let header = Header {
            version,
            node: u16::from_le_bytes(array(fixed, 6)),
            payload_bytes: u32_at(fixed, 8),
            num_records: u32_at(fixed, 12),
            first_id: u64::from_le_bytes(array(fixed, 16)),
            last_id: u64::from_le_bytes(array(fixed, 24)),
            sealed_at: i64::from_le_bytes(array(fixed, 32)),
            accepted: [u32_at(fixed, 40), u32_at(fixed, 44), u32_at(fixed, 48)],
            num_digests: u32_at(fixed, 52),
            body_checksum: u32_at(fixed, 56),
        };
        header.check()?;
        let total = HEADER_BYTES as u64
            + u64::from(header.num_digests) * DIGEST_BYTES as u64
            + u64::from(header.payload_bytes);
        match usize::try_from(total) {
            Ok(total) if total <= MAX_FRAME_BYTES => Ok((header, total)),
            _ => Err(Error::Header("it is larger than any frame may be")),
        }
    }

    /// The digests that stand behind these bytes of a frame's beginning, as far as they are there.
    pub(crate) fn digests<'a>(
        &self,
        beginning: &'a [u8],
    ) -> impl Iterator<Item = [u8; DIGEST_BYTES]> + 'a {
        let end = HEADER_BYTES + self.digests_bytes();
        let bytes = beginning.get(HEADER_BYTES..end.min(beginning.len()));
        let chunks = bytes.unwrap_or_default().chunks_exact(DIGEST_BYTES);
        chunks.map(|chunk| array(chunk, 0))
    }

    /// Bytes of the digests.
    pub(crate) fn digests_bytes(&self) -> usize {
        self.num_digests as usize * DIGEST_BYTES
    }

    /// What every reader of the counts and ids relies on.
    fn check(&self) -> Result<(), Error> {
        let Some(steps) = self.num_records.checked_sub(1) else {
            return Err(Error::Header("it holds no record"));
        };
        let last_id = self.first_id.checked_add(u64::from(steps) * ID_STEP);
        if last_id != Some(self.last_id) {
            return Err(Error::Header("its ids do not fit its count of records"));
        }
        let accepted: u64 = self.accepted.iter().map(|count| u64::from(*count)).sum();
        if accepted != u64::from(self.num_records) {
            return Err(Error::Header("its counts by receiver do not add up"));
        }
        Ok(())
    }
}

/// A sealed frame: immutable, and cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame {
    header: Header,
    bytes: Bytes,
}

impl Frame {
    /// Puts a Native block into a frame. `accepted` counts its records by receiver; `payload` writes
    /// the block's bytes into the buffer it is given.
    ///
    /// # Panics
    /// When there is no record, or the block is larger than a frame may be; intake sees to both.
    #[must_use]
    pub fn seal(
        seal: &Seal,
        accepted: [u32; 3],
        payload_bytes: usize,
        payload: impl FnOnce(&mut Vec<u8>),
    ) -> Frame {
        let num_records: u32 = accepted.iter().sum();
        assert!(num_records > 0, "a frame holds at least one record");
        let digests_bytes = seal.digests.len() * DIGEST_BYTES;
        let mut bytes = buffers::empty(HEADER_BYTES + digests_bytes + payload_bytes);
        bytes.resize(HEADER_BYTES, 0);
        for digest in &seal.digests {
            bytes.extend_from_slice(digest);
        }
        payload(&mut bytes);
        assert!(
            bytes.len() <= MAX_FRAME_BYTES,
            "intake bounds frames far below the limit"
        );
        let payload_bytes = u32::try_from(bytes.len() - HEADER_BYTES - digests_bytes)
            .expect("under MAX_FRAME_BYTES");
        let header = Header {
            version: VERSION,
            node: seal.node,
            num_records,
            first_id: seal.first_id,
            last_id: seal.first_id + u64::from(num_records - 1) * ID_STEP,
            sealed_at: seal.sealed_at,
            accepted,
            num_digests: u32::try_from(seal.digests.len()).expect("fewer digests than bytes"),
            payload_bytes,
            body_checksum: crc32c::crc32c(&bytes[HEADER_BYTES..]),
        };
        bytes[0..4].copy_from_slice(MAGIC);
        bytes[4..6].copy_from_slice(&VERSION.to_le_bytes());
        bytes[6..8].copy_from_slice(&header.node.to_le_bytes());
        bytes[8..12].copy_from_slice(&payload_bytes.to_le_bytes());
        bytes[12..16].copy_from_slice(&num_records.to_le_bytes());
        bytes[16..24].copy_from_slice(&header.first_id.to_le_bytes());
        bytes[24..32].copy_from_slice(&header.last_id.to_le_bytes());
        bytes[32..40].copy_from_slice(&header.sealed_at.to_le_bytes());
        for (i, count) in accepted.iter().enumerate() {
            bytes[40 + 4 * i..44 + 4 * i].copy_from_slice(&count.to_le_bytes());
        }
        bytes[52..56].copy_from_slice(&header.num_digests.to_le_bytes());
        bytes[56..60].copy_from_slice(&header.body_checksum.to_le_bytes());
        let checksum = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
        Frame {
            header,
            bytes: buffers::share(bytes),
        }
    }

    /// Reads exactly one frame and checks it whole.
    ///
    /// # Errors
    /// When the bytes are not exactly one undamaged frame of a known version.
    pub fn parse(bytes: Bytes) -> Result<Frame, Error> {
        let (header, total) = Header::parse(&bytes)?;
        if bytes.len() < total {
            return Err(Error::Truncated {
                have: bytes.len(),
                need: total,
            });
        }
        if bytes.len() > total {
            return Err(Error::Header("more bytes follow than it counts"));
        }
        let found = crc32c::crc32c(&bytes[HEADER_BYTES..]);
        if found != header.body_checksum {
            return Err(Error::BodyChecksum {
                found,
                expected: header.body_checksum,
            });
        }
        Ok(Frame { header, bytes })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The whole frame, as the queue stores it.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The Native block alone, as ClickHouse reads it.
    #[must_use]
    pub fn payload(&self) -> Bytes {
        self.bytes.slice(self.payload_start()..)
    }

    /// The Native block alone, borrowed.
    pub(super) fn block(&self) -> &[u8] {
        &self.bytes[self.payload_start()..]
    }

    /// Digests of the requests inside.
    pub fn digests(&self) -> impl Iterator<Item = [u8; DIGEST_BYTES]> + '_ {
        self.bytes[HEADER_BYTES..self.payload_start()]
            .chunks_exact(DIGEST_BYTES)
            .map(|chunk| array(chunk, 0))
    }

    fn payload_start(&self) -> usize {
        HEADER_BYTES + self.header.digests_bytes()
    }
}

/// Shows the header alone: a block is large, and what it says belongs to its senders.
impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame")
            .field("header", &self.header)
            .finish_non_exhaustive()
    }
}

/// The `N` bytes at `offset`, which the caller knows to be there.
fn array<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    bytes[offset..offset + N]
        .try_into()
        .expect("the slice has N bytes")
}

fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    u32::from_le_bytes(array(bytes, offset))
}
