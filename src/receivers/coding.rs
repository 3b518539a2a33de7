//! Content codings: bodies decompressed within bounds.
//!
//! A body grows to its first [`FREE_BYTES`] at once. One that goes on waits for a place among the few
//! large ones, so that ten bombs at once hold little more than one, and others are served meanwhile.

use std::io::{ErrorKind, Read};
use std::sync::Arc;

use axum::http::HeaderMap;
use bytes::Bytes;
use flate2::bufread::GzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use http::header::CONTENT_ENCODING;
use tokio::sync::Semaphore;

use super::reply::Reject;
use crate::config::Limits;
use crate::intake::Permit;

/// Step in which decompressed bytes are taken from the budget.
const STEP: usize = 64 << 10;
/// What every body may grow to without waiting for a place.
const FREE_BYTES: usize = 4 << 20;
/// zstd window, as a power of two: 64 MiB, the most a body may have by default.
const ZSTD_WINDOW_LOG_MAX: u32 = 26;
/// Bodies above this are decompressed off the runtime's own thread: they may unpack to a thousand
/// times their size.
const LONG_WORK: usize = 32 << 10;

/// A content coding that is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Identity,
    Gzip,
    /// zlib format (RFC 1950), which is what `deflate` means in HTTP; raw deflate is taken too.
    Deflate,
    Zstd,
}

impl Coding {
    /// What to list in `Accept-Encoding` when another is refused.
    pub(super) const ACCEPTED: &'static str = "gzip, zstd, deflate";

    /// The coding with this name; `None` for one that is not understood.
    pub(super) fn named(name: &[u8]) -> Option<Coding> {
        Some(match name.trim_ascii().to_ascii_lowercase().as_slice() {
            b"" | b"identity" => Coding::Identity,
            b"gzip" | b"x-gzip" => Coding::Gzip,
            b"deflate" | b"zlib" => Coding::Deflate,
            b"zstd" => Coding::Zstd,
            _ => return None,
        })
    }

    /// The request's content coding.
    pub(super) fn of(headers: &HeaderMap) -> Result<Coding, Reject> {
        let values = headers.get_all(CONTENT_ENCODING).iter();
        let values: Vec<_> = values.map(http::HeaderValue::as_bytes).collect();
        // Several headers of one name are one list.
        let value = values.join(&b", "[..]);
        Coding::named(&value)
            .ok_or_else(|| Reject::Coding(String::from_utf8_lossy(&value).into_owned()))
    }

    fn name(self) -> &'static str {
        match self {
            Coding::Identity => "identity",
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
            Coding::Zstd => "zstd",
        }
    }

    fn decoder(self, bytes: &[u8]) -> std::io::Result<Box<dyn Read + Send + '_>> {
        Ok(match self {
            Coding::Identity => Box::new(bytes),
            Coding::Gzip => Box::new(Gunzip::new(bytes)),
            Coding::Deflate => Box::new(Inflate::new(bytes)),
            Coding::Zstd => {
                let mut decoder = zstd::stream::read::Decoder::with_buffer(bytes)?;
                decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
                Box::new(decoder)
            }
        })
    }
}

/// Decompresses bodies within `limits.body`; shared by all requests.
#[derive(Debug, Clone)]
pub(super) struct Unpacker {
    limit: usize,
    large: Arc<Semaphore>,
}

impl Unpacker {
    pub(super) fn new(limits: &Limits) -> Self {
        // Large bodies together may take half of the memory for requests, so that there is always
        // some for the small ones.
        let half = limits.in_flight.as_usize() / 2;
        let places = half / limits.body.as_usize().max(1);
        Self {
            limit: limits.body.as_usize(),
            large: Arc::new(Semaphore::new(places.clamp(1, Semaphore::MAX_PERMITS))),
        }
    }

    /// Undoes the content coding; `permit` then holds the decompressed size.
    pub(super) async fn unpack(
        &self,
        coding: Coding,
        bytes: Bytes,
        permit: &mut Permit,
    ) -> Result<Bytes, Reject> {
        // Nothing is nothing, however it is said to be packed.
        if coding == Coding::Identity || bytes.is_empty() {
            return Ok(bytes);
        }
        let decoder = coding
            .decoder(&bytes)
            .map_err(|error| damaged(coding, &bytes, &error))?;
        let capacity = bytes.len().saturating_mul(4).clamp(STEP, 1 << 20);
        let mut unpacking = Unpacking {
            coding,
            packed: &bytes,
            decoder,
            out: Vec::with_capacity(capacity.min(self.limit.max(STEP))),
            filled: 0,
            limit: self.limit,
        };
        let mut grow = |unpacking: &mut Unpacking<'_>, until| {
            if bytes.len() > LONG_WORK || until > FREE_BYTES {
                tokio::task::block_in_place(|| unpacking.grow(until, permit))
            } else {
                unpacking.grow(until, permit)
            }
        };
        if !grow(&mut unpacking, FREE_BYTES)? {
            let place = self.large.acquire().await;
            // All the room at once: pages that are not written to cost nothing, while growing by
            // doubling would hold the old room beside the new.
            let room = self.limit.saturating_add(STEP);
            let more = room.saturating_sub(unpacking.out.len());
            unpacking.out.reserve_exact(more);
            grow(&mut unpacking, usize::MAX)?;
            drop(place);
        }
        unpacking.out.truncate(unpacking.filled);
        Ok(unpacking.out.into())
    }
}

/// A body while it is decompressed.
struct Unpacking<'a> {
    coding: Coding,
    packed: &'a [u8],
    decoder: Box<dyn Read + Send + 'a>,
    out: Vec<u8>,
    /// Bytes of `out` that are there; the rest is room for more.
    filled: usize,
    limit: usize,
}

impl Unpacking<'_> {
    /// Reads on until `until` bytes are there, or to the end; says whether that is reached.
    fn grow(&mut self, until: usize, permit: &mut Permit) -> Result<bool, Reject> {
        while self.filled <= until {
            // A read may bring a single byte, as from a gzip of many tiny members: room is made, and
            // zeroed, for what comes and not for every read.
            if self.out.len() < self.filled + STEP / 2 {
                self.out.resize(self.filled + STEP, 0);
            }
            match self.decoder.read(&mut self.out[self.filled..]) {
                Ok(0) => return Ok(true),
                Ok(read) => self.filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(damaged(self.coding, self.packed, &error)),
            }
            if self.filled > self.limit {
                return Err(Reject::TooLarge {
                    limit: self.limit,
                    what: "the decompressed request body is",
                    setting: "limits.body",
                });
            }
            permit.grow(self.filled.saturating_sub(permit.bytes()))?;
        }
        Ok(false)
    }
}

fn damaged(coding: Coding, packed: &[u8], error: &std::io::Error) -> Reject {
    let window = zstd_window(packed).filter(|window| *window > 1 << ZSTD_WINDOW_LOG_MAX);
    if let (Coding::Zstd, Some(window)) = (coding, window) {
        return Reject::bad_data(format!(
            "the body's zstd frame needs a window of {window} bytes, and here it may be {} at most; compress \
             with a window log up to {ZSTD_WINDOW_LOG_MAX}, which is without `--long` or `--ultra`",
            1 << ZSTD_WINDOW_LOG_MAX
        ));
    }
    let name = coding.name();
    Reject::bad_data(format!("the body is not {name}, or is cut short: {error}"))
}

/// The window that a zstd frame asks for, in bytes (RFC 8878, 3.1.1.1); `None` where its content is the
/// window, or it is no such frame.
fn zstd_window(packed: &[u8]) -> Option<u64> {
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, window] = *packed.first_chunk()? else {
        return None;
    };
    let is_single_segment = descriptor & 0x20 != 0;
    let base = 1u64 << (10 + (window >> 3));
    (!is_single_segment).then(|| base + base / 8 * u64::from(window & 7))
}

/// Reads gzip: one member after the other (RFC 1952, section 2.2), and zeros behind the last, by which
/// some writers fill up a block.
struct Gunzip<'a> {
    member: GzDecoder<&'a [u8]>,
}

impl<'a> Gunzip<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self {
            member: GzDecoder::new(bytes),
        }
    }
}

impl Read for Gunzip<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.member.read(out)?;
            if read > 0 || out.is_empty() {
                return Ok(read);
            }
            let rest = *self.member.get_ref();
            if rest.iter().all(|byte| *byte == 0) {
                return Ok(0);
            }
            self.member = GzDecoder::new(rest);
        }
    }
}

/// Reads zlib or, where there is no zlib header, raw deflate. The decoders of flate2 take the end of
/// the input for the end of the data, so that a body cut short would pass for a whole one.
struct Inflate<'a> {
    input: &'a [u8],
    state: Decompress,
    ended: bool,
}

impl<'a> Inflate<'a> {
    fn new(input: &'a [u8]) -> Self {
        // RFC 1950: method 8, and the two bytes together are a multiple of 31.
        let is_zlib = input.first_chunk().is_some_and(|[method, flags]| {
            method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31)
        });
        Self {
            input,
            state: Decompress::new(is_zlib),
            ended: false,
        }
    }
}

impl Read for Inflate<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.ended || out.is_empty() {
            return Ok(0);
        }
        let (read_before, written_before) = (self.state.total_in(), self.state.total_out());
        let status = self
            .state
            .decompress(self.input, out, FlushDecompress::None)?;
        let read = usize::try_from(self.state.total_in() - read_before).unwrap_or(usize::MAX);
        let written = usize::try_from(self.state.total_out() - written_before).unwrap_or(0);
        self.input = self.input.get(read..).unwrap_or_default();
        self.ended = status == Status::StreamEnd;
        if self.ended && !self.input.is_empty() {
            return Err(std::io::Error::other("bytes follow its end"));
        }
        if written == 0 && !self.ended && (self.input.is_empty() || read == 0) {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if written == 0 && !self.ended {
            return Err(ErrorKind::Interrupted.into());
        }
        Ok(written)
    }
}

#[cfg(test)]
mod tests;
