//! The answer to an accepted OTLP request: `ExportLogsServiceResponse`, in both encodings.
//!
//! Full success leaves `partial_success` unset: some clients log a warning for every one that is set
//! (OTLP "Full Success", "Partial Success").

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::{BufMut, Bytes, BytesMut};
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use opentelemetry_proto::tonic::collector::logs::v1::{
    ExportLogsPartialSuccess, ExportLogsServiceResponse,
};
use prost::Message;
use serde_json::json;

use super::decode::Outcome;
use super::encoding::Encoding;

/// Status 0 and the response message. An empty one is sent too: some clients take OK without a
/// message for a failure.
pub(super) fn grpc(message: &[u8]) -> Response {
    let mut framed = BytesMut::with_capacity(super::grpc::PREFIX_BYTES + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("the error message is at most 1 KiB"));
    framed.put_slice(message);
    let trailers = HeaderMap::from_iter([(
        HeaderName::from_static("grpc-status"),
        HeaderValue::from_static("0"),
    )]);
    let body = Full::new(framed.freeze()).with_trailers(std::future::ready(Some(Ok(trailers))));
    ([(CONTENT_TYPE, "application/grpc")], Body::new(body)).into_response()
}

/// 200, in the request's encoding: an empty protobuf message or `{}` on full success.
pub(super) fn http(encoding: Encoding, outcome: &Outcome) -> Response {
    let body = match encoding {
        Encoding::Protobuf => Bytes::from(protobuf(outcome)),
        Encoding::Json => Bytes::from(json(outcome)),
    };
    let content_type = HeaderValue::from_static(encoding.content_type());
    ([(CONTENT_TYPE, content_type)], body).into_response()
}

/// As protobuf; empty on full success.
pub(super) fn protobuf(outcome: &Outcome) -> Vec<u8> {
    let partial_success = partial(outcome).map(|error_message| ExportLogsPartialSuccess {
        rejected_log_records: outcome.rejected.into(),
        error_message: error_message.to_owned(),
    });
    ExportLogsServiceResponse { partial_success }.encode_to_vec()
}

/// As JSON; `{}` on full success. The count is a string, as ProtoJSON writes int64.
pub(super) fn json(outcome: &Outcome) -> String {
    let Some(error_message) = partial(outcome) else {
        return "{}".to_owned();
    };
    let mut partial = json!({ "errorMessage": error_message });
    if outcome.rejected > 0 {
        partial["rejectedLogRecords"] = outcome.rejected.to_string().into();
    }
    json!({ "partialSuccess": partial }).to_string()
}

/// The message of a partial success, if it is one. Rejections always come with a message.
fn partial(outcome: &Outcome) -> Option<&str> {
    match &outcome.message {
        Some(message) => Some(message),
        None if outcome.rejected > 0 => Some("some records were rejected"),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(rejected: u32, message: Option<&str>) -> Outcome {
        Outcome {
            accepted: 1,
            rejected,
            message: message.map(str::to_owned),
            ..Outcome::default()
        }
    }

    #[test]
    fn g_11_h_08_j_20_full_success_leaves_partial_success_unset() {
        assert_eq!(protobuf(&outcome(0, None)), b"");
        assert_eq!(json(&outcome(0, None)), "{}");
    }

    #[test]
    fn g_13_h_10_j_20_rejections_are_counted_and_explained() {
        let partial = outcome(3, Some("why"));
        assert_eq!(
            json(&partial),
            r#"{"partialSuccess":{"errorMessage":"why","rejectedLogRecords":"3"}}"#
        );
        let read = ExportLogsServiceResponse::decode(&protobuf(&partial)[..])
            .unwrap()
            .partial_success
            .unwrap();
        assert_eq!(
            (read.rejected_log_records, read.error_message.as_str()),
            (3, "why")
        );
    }

    #[test]
    fn g_14_a_warning_on_full_acceptance_counts_nothing() {
        assert_eq!(
            json(&outcome(0, Some("note"))),
            r#"{"partialSuccess":{"errorMessage":"note"}}"#
        );
        let read =
            ExportLogsServiceResponse::decode(&protobuf(&outcome(0, Some("note")))[..]).unwrap();
        assert_eq!(read.partial_success.unwrap().rejected_log_records, 0);
    }
}
