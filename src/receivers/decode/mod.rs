//! Bytes to records: the three bodies that senders post.
//!
//! [`decode_protobuf`] and [`decode_json`] read OTLP, [`decode_native`] everything else that is JSON.
//! They walk the body where it lies and hand each record to a [`Sink`](crate::record::Sink) as they
//! come to it; the rules by which fields become a record are in [`crate::normalize`]. One bad value
//! costs that value, never its batch.

mod damage;
#[cfg(fuzzing)]
pub mod fuzzing;
mod json;
mod native;
mod otlp_json;
mod outcome;
mod protobuf;

pub use native::decode_native;
pub use otlp_json::decode_json;
pub use outcome::{DecodeError, Outcome, Rejection};
pub use protobuf::decode_protobuf;

#[cfg(test)]
mod tests;
