//! The walkers against prost.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use prost::Message;
use watchtower::receivers::decode::{decode_json, decode_protobuf};

use super::expected::{expected, num_records};
use super::otlp_writer::Style;
use super::*;

/// Longest body that is compared: it cannot reach any limit, none of which the oracle knows.
const MAX_BODY_BYTES: usize = 1000;

/// What prost can read so can we, and it comes to the same records, in protobuf and in JSON.
pub fn check_prost(body: &[u8]) {
    if body.len() > MAX_BODY_BYTES {
        return;
    }
    let Ok(request) = ExportLogsServiceRequest::decode(body) else {
        return;
    };
    let context = context(Receiver::OtlpHttp, USUAL);
    let mut sink = Collected::default();
    let outcome = decode_protobuf(body, &context, &mut sink).expect("prost can read it");
    assert_eq!(sink.rows.len(), num_records(&request));
    if outcome.repairs.too_deep > 0 {
        return;
    }
    let rows = expected(&request);
    let canonical = request.encode_to_vec();
    if canonical.len() == body.len() {
        // No field was there twice: prost merges messages that are, and here the last one stands.
        assert_eq!(sink.rows, rows);
    }
    let mut sink = Collected::default();
    decode_protobuf(&canonical, &context, &mut sink).expect("prost wrote it");
    assert_eq!(sink.rows, rows);

    let style = body.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    let style = Style {
        snake_case: style & 1 > 0,
        numbers_in_quotes: style & 2 > 0,
        backwards: style & 4 > 0,
    };
    let mut sink = Collected::default();
    decode_json(style.request(&request).as_bytes(), &context, &mut sink).expect("it is OTLP");
    assert_eq!(sink.rows, rows);
}
