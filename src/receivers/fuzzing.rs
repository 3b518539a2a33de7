//! Doors for the fuzz targets to what is private here. Not part of any build but theirs.

use bytes::Bytes;
use futures_util::FutureExt;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::coding::{Coding, Unpacker};
use super::grpc;
use crate::config::{ByteSize, Limits};
use crate::intake::Budget;

/// Takes the message out of a gRPC frame; `None` where it is refused.
#[must_use]
pub fn grpc_message(frame: &[u8], encoding: &[u8], limit: usize) -> Option<Bytes> {
    let coding = Coding::named(encoding)?;
    match grpc::message(Bytes::copy_from_slice(frame), coding).ok()? {
        (message, true) => decompress(&message, encoding, limit),
        (message, false) => Some(message),
    }
}

/// Undoes a content coding; `None` where the body is refused.
#[must_use]
pub fn decompress(packed: &[u8], encoding: &[u8], limit: usize) -> Option<Bytes> {
    let limits = Limits {
        body: ByteSize::bytes(limit as u64),
        ..Limits::default()
    };
    let budget = Budget::new(limit.max(packed.len()));
    let mut permit = budget.take(packed.len()).ok()?;
    let packed = Bytes::copy_from_slice(packed);
    let unpacker = Unpacker::new(&limits);
    let unpacked = unpacker.unpack(Coding::named(encoding)?, packed, &mut permit);
    // There is nobody else to wait for.
    let unpacked = unpacked.now_or_never().expect("it is ready at once").ok()?;
    assert!(permit.bytes() >= unpacked.len());
    Some(unpacked)
}

/// Reads a `grpc-timeout`, in nanoseconds.
#[must_use]
pub fn grpc_timeout(value: &[u8]) -> Option<u128> {
    let value = HeaderValue::from_bytes(value).ok()?;
    let headers = HeaderMap::from_iter([(HeaderName::from_static("grpc-timeout"), value)]);
    Some(grpc::timeout(&headers)?.as_nanos())
}
