//! Doors for the fuzz targets to what is private here. Not part of any build but theirs.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};

use super::body::{self, Coding};
use super::grpc;
use crate::intake::Budget;

/// Takes the message out of a gRPC frame; `None` where it is refused.
#[must_use]
pub fn grpc_message(frame: &[u8], encoding: &[u8], limit: usize) -> Option<Bytes> {
    let coding = Coding::named(encoding)?;
    let budget = Budget::new(limit + frame.len());
    let mut permit = budget.take(frame.len()).ok()?;
    let message = grpc::message(Bytes::copy_from_slice(frame), coding, limit, &mut permit).ok()?;
    assert!(permit.bytes() >= message.len().min(limit));
    Some(message)
}

/// Undoes a content coding; `None` where the body is refused.
#[must_use]
pub fn decompress(packed: &[u8], encoding: &[u8], limit: usize) -> Option<Bytes> {
    let budget = Budget::new(limit.max(packed.len()));
    let mut permit = budget.take(packed.len()).ok()?;
    let packed = Bytes::copy_from_slice(packed);
    body::decompress(Coding::named(encoding)?, packed, limit, &mut permit).ok()
}

/// Reads a `grpc-timeout`, in nanoseconds.
#[must_use]
pub fn grpc_timeout(value: &[u8]) -> Option<u128> {
    let value = HeaderValue::from_bytes(value).ok()?;
    let headers = HeaderMap::from_iter([(HeaderName::from_static("grpc-timeout"), value)]);
    Some(grpc::timeout(&headers)?.as_nanos())
}
