//! Outcomes to codes: the one table of what senders are told.
//!
//! Sources: OTLP 1.11 "Failures" and "Throttling"; what SDKs retry is the reason for the choices.
//! UNAVAILABLE and 503 are retried by all of them, RESOURCE_EXHAUSTED without a delay and every other
//! 4xx by none; 500 and INTERNAL make them throw the data away and are kept for faults of our own.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use super::coding::Coding;
use super::encoding::Encoding;
use super::rpc_status::{self, Detail};
use crate::auth::Denied;
use crate::normalize::text::head;

/// Seconds after which a sender should try again. SDKs give a batch about ten seconds in all and drop
/// it at once when told to wait longer than is left; 0 makes some of them come back at once.
const RETRY_SECONDS: u32 = 1;
/// Longest text in an answer; a response must stay far below 4 MiB.
const MESSAGE_BYTES: usize = 1024;

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reject {
    /// It cannot be read. Sending it again is of no use.
    BadData {
        field: String,
        text: String,
    },
    /// It breaks the rules of gRPC itself.
    Framing(String),
    Unauthenticated(Denied),
    /// The token is known, and may not send.
    Forbidden(Denied),
    /// A web page of an origin that may not send.
    Origin(String),
    TooLarge {
        limit: usize,
        what: &'static str,
        /// The setting that would help.
        setting: &'static str,
    },
    /// Too many bytes of headers.
    Headers {
        bytes: usize,
        limit: usize,
    },
    /// A content type that is not spoken here; the text says what arrived where.
    MediaType(String),
    /// A content coding that is not spoken here.
    Coding(String),
    /// The methods that there are.
    Method(&'static str),
    /// No such path or gRPC method; the text says which there is.
    Path(String),
    /// Traces, metrics or profiles.
    OtherSignal(&'static str),
    /// The client stopped sending its body.
    BodyTimeout(Duration),
    /// The address sends more than one may; it may be sent again.
    Rate(u32),
    /// The time that the client itself gave the call is over; it may be sent again.
    Deadline,
    /// Nothing is wrong with the request; it may be sent again.
    Unavailable(String),
    /// A fault of our own.
    Bug,
}

impl Reject {
    /// Every reason: the metric label's closed list.
    pub(crate) const REASONS: [&'static str; 17] = [
        "bad_data",
        "framing",
        "unauthenticated",
        "origin",
        "too_large",
        "media_type",
        "coding",
        "method",
        "path",
        "other_signal",
        "body_timeout",
        "unavailable",
        "bug",
        "headers",
        "deadline",
        "forbidden",
        "rate",
    ];

    /// The body as a whole cannot be read.
    pub(super) fn bad_data(text: String) -> Reject {
        Reject::BadData {
            field: "body".to_owned(),
            text,
        }
    }

    /// The codes of the two protocols.
    pub(super) fn codes(&self) -> (Code, StatusCode) {
        match self {
            Reject::BadData { .. } => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
            // What gRPC itself prescribes.
            Reject::Framing(_) => (Code::Internal, StatusCode::BAD_REQUEST),
            Reject::Unauthenticated(_) => (Code::Unauthenticated, StatusCode::UNAUTHORIZED),
            Reject::Forbidden(_) | Reject::Origin(_) => {
                (Code::PermissionDenied, StatusCode::FORBIDDEN)
            }
            Reject::Rate(_) => (Code::ResourceExhausted, StatusCode::TOO_MANY_REQUESTS),
            Reject::TooLarge { .. } => (Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE),
            Reject::Headers { .. } => (
                Code::ResourceExhausted,
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            ),
            Reject::Deadline => (Code::DeadlineExceeded, StatusCode::GATEWAY_TIMEOUT),
            Reject::MediaType(_) | Reject::Coding(_) => {
                (Code::Unimplemented, StatusCode::UNSUPPORTED_MEDIA_TYPE)
            }
            Reject::Method(_) => (Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED),
            Reject::Path(_) | Reject::OtherSignal(_) => {
                (Code::Unimplemented, StatusCode::NOT_FOUND)
            }
            // Not 408, which is final for senders: a network that is slow now may be quick later.
            Reject::BodyTimeout(_) | Reject::Unavailable(_) => {
                (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE)
            }
            Reject::Bug => (Code::Internal, StatusCode::INTERNAL_SERVER_ERROR),
        }
    }

    /// Index into [`Reject::REASONS`].
    pub(super) fn reason(&self) -> usize {
        match self {
            Reject::BadData { .. } => 0,
            Reject::Framing(_) => 1,
            Reject::Unauthenticated(_) => 2,
            Reject::Origin(_) => 3,
            Reject::TooLarge { .. } => 4,
            Reject::MediaType(_) => 5,
            Reject::Coding(_) => 6,
            Reject::Method(_) => 7,
            Reject::Path(_) => 8,
            Reject::OtherSignal(_) => 9,
            Reject::BodyTimeout(_) => 10,
            Reject::Unavailable(_) => 11,
            Reject::Bug => 12,
            Reject::Headers { .. } => 13,
            Reject::Deadline => 14,
            Reject::Forbidden(_) => 15,
            Reject::Rate(_) => 16,
        }
    }

    /// What happened and what to do about it.
    pub(super) fn message(&self) -> String {
        let text = match self {
            Reject::BadData { text, .. }
            | Reject::Framing(text)
            | Reject::MediaType(text)
            | Reject::Path(text)
            | Reject::Unavailable(text) => text.clone(),
            Reject::Unauthenticated(denied) | Reject::Forbidden(denied) => denied.message().to_owned(),
            Reject::Origin(origin) => format!(
                "pages of {origin} may not send logs here; add it to `cors.origins` if they should"
            ),
            Reject::TooLarge {
                limit,
                what,
                setting,
            } => format!(
                "{what} larger than {limit} bytes; send smaller batches, or raise `{setting}`"
            ),
            Reject::Headers { bytes, limit } => format!(
                "the request's headers come to {bytes} bytes, and {limit} are taken; send fewer or shorter ones"
            ),
            Reject::Rate(limit) => format!(
                "this address sends more than {limit} requests a second; send larger batches, or raise \
                 `limits.requests_per_address`"
            ),
            Reject::Deadline => {
                "the time that the call was given (`grpc-timeout`) was over before its records were safe"
                    .to_owned()
            }
            Reject::Coding(found) if found.contains(',') => format!(
                "content encodings upon one another (`{found}`) are not accepted; send one of: {}",
                Coding::ACCEPTED
            ),
            Reject::Coding(found) => format!(
                "content encoding `{found}` is not accepted; send one of: {}",
                Coding::ACCEPTED
            ),
            Reject::Method(allowed) => format!("the methods here are: {allowed}"),
            Reject::OtherSignal(signal) => format!(
                "Watchtower takes logs only, not {signal}: set OTEL_{}_EXPORTER=none, \
                 or set OTEL_EXPORTER_OTLP_LOGS_ENDPOINT instead of OTEL_EXPORTER_OTLP_ENDPOINT",
                signal.to_ascii_uppercase()
            ),
            Reject::BodyTimeout(pause) => {
                format!(
                    "the body came too slowly, or nothing of it for {pause:?}; see `limits.body_timeout`"
                )
            }
            Reject::Bug => "a fault in Watchtower itself; its log says more".to_owned(),
        };
        head(&text, MESSAGE_BYTES).to_owned()
    }

    fn detail(&self, message: &str) -> Option<Detail> {
        match self {
            Reject::BadData { field, .. } => Some(Detail::Field(field.clone(), message.to_owned())),
            Reject::BodyTimeout(_) | Reject::Rate(_) | Reject::Unavailable(_) => {
                Some(Detail::Retry(RETRY_SECONDS))
            }
            _ => None,
        }
    }

    /// The answer over gRPC: a Trailers-Only response, with the delay in both places where clients
    /// look for it.
    pub(super) fn into_grpc(self) -> Response {
        let (code, _) = self.codes();
        let message = self.message();
        let detail = self.detail(&message);
        let details = detail.as_ref().map_or_else(Vec::new, |detail| {
            rpc_status::protobuf(code as i32, &message, Some(detail))
        });
        let mut status = Status::with_details(code, message, details.into());
        let metadata = status.metadata_mut();
        if let Some(detail @ Detail::Retry(_)) = &detail {
            let value = MetadataValue::from_bytes(&detail.protobuf());
            metadata.insert_bin("google.rpc.retryinfo-bin", value);
        }
        if matches!(self, Reject::Coding(_)) {
            let accepted = MetadataValue::from_static("identity,gzip,zstd,deflate");
            metadata.insert("grpc-accept-encoding", accepted);
        }
        status.into_http()
    }

    /// The answer over HTTP: a `google.rpc.Status` in the request's own encoding.
    pub(super) fn into_http(self, encoding: Encoding) -> Response {
        let (code, http) = self.codes();
        let message = self.message();
        let detail = self.detail(&message);
        let body = match encoding {
            Encoding::Protobuf => {
                Bytes::from(rpc_status::protobuf(code as i32, &message, detail.as_ref()))
            }
            Encoding::Json => Bytes::from(rpc_status::json(code as i32, &message, detail.as_ref())),
        };
        let mut response = (http, [(CONTENT_TYPE, encoding.content_type())], body).into_response();
        if let Reject::TooLarge { .. } | Reject::BodyTimeout(_) = self {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(CONNECTION, close);
        }
        let (name, value) = match self {
            Reject::BodyTimeout(_) | Reject::Rate(_) | Reject::Unavailable(_) => {
                (RETRY_AFTER, HeaderValue::from(RETRY_SECONDS))
            }
            Reject::Method(allowed) => (ALLOW, HeaderValue::from_static(allowed)),
            Reject::Coding(_) => (ACCEPT_ENCODING, HeaderValue::from_static(Coding::ACCEPTED)),
            Reject::Unauthenticated(_) => (WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")),
            _ => return response,
        };
        response.headers_mut().insert(name, value);
        response
    }
}

#[cfg(test)]
mod tests;
