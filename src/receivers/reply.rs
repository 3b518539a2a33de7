//! Outcomes to codes: the one table of what senders are told.
//!
//! Sources: OTLP 1.11 "Failures" and "Throttling"; what SDKs retry is the reason for the choices.
//! UNAVAILABLE and 503 are retried by all of them, RESOURCE_EXHAUSTED without a delay and every other
//! 4xx by none; 500 and INTERNAL make them throw the data away and are kept for faults of our own.

use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, ALLOW, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
};
use prost::Message;
use tonic::metadata::MetadataValue;
use tonic::{Code, Status};

use super::body::Coding;
use crate::auth::Denied;

/// Seconds after which a sender should try again. SDKs give a batch about ten seconds in all and drop
/// it at once when told to wait longer than is left.
pub(super) const RETRY_SECONDS: u32 = 1;
/// Longest text in an answer; a response must stay far below 4 MiB.
const MESSAGE_BYTES: usize = 1024;

pub(super) const PROTOBUF: &str = "application/x-protobuf";
pub(super) const JSON: &str = "application/json";

/// Why a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reject {
    /// It cannot be read. Sending it again is of no use.
    BadData(String),
    Unauthenticated(Denied),
    TooLarge {
        limit: usize,
        what: &'static str,
    },
    /// A content type that is not spoken here.
    MediaType(String),
    /// A content coding that is not spoken here.
    Coding(String),
    Method,
    /// No such path or gRPC method; the text says which there is.
    Path(String),
    /// The client stopped sending its body.
    BodyTimeout(Duration),
    /// Nothing is wrong with the request; it may be sent again.
    Unavailable(String),
}

impl Reject {
    /// The codes of the two protocols.
    pub(super) fn codes(&self) -> (Code, StatusCode) {
        match self {
            Reject::BadData(_) => (Code::InvalidArgument, StatusCode::BAD_REQUEST),
            Reject::Unauthenticated(_) => (Code::Unauthenticated, StatusCode::UNAUTHORIZED),
            Reject::TooLarge { .. } => (Code::ResourceExhausted, StatusCode::PAYLOAD_TOO_LARGE),
            Reject::MediaType(_) | Reject::Coding(_) => {
                (Code::Unimplemented, StatusCode::UNSUPPORTED_MEDIA_TYPE)
            }
            Reject::Method => (Code::Unimplemented, StatusCode::METHOD_NOT_ALLOWED),
            Reject::Path(_) => (Code::Unimplemented, StatusCode::NOT_FOUND),
            Reject::BodyTimeout(_) => (Code::Cancelled, StatusCode::REQUEST_TIMEOUT),
            Reject::Unavailable(_) => (Code::Unavailable, StatusCode::SERVICE_UNAVAILABLE),
        }
    }

    /// The metric label.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Reject::BadData(_) => "bad_data",
            Reject::Unauthenticated(_) => "unauthenticated",
            Reject::TooLarge { .. } => "too_large",
            Reject::MediaType(_) => "media_type",
            Reject::Coding(_) => "coding",
            Reject::Method => "method",
            Reject::Path(_) => "path",
            Reject::BodyTimeout(_) => "body_timeout",
            Reject::Unavailable(_) => "unavailable",
        }
    }

    /// What happened and what to do about it.
    pub(super) fn message(&self) -> String {
        let text = match self {
            Reject::BadData(text) | Reject::Path(text) | Reject::Unavailable(text) => text.clone(),
            Reject::Unauthenticated(denied) => denied.message().to_owned(),
            Reject::TooLarge { limit, what } => {
                format!(
                    "{what} is larger than {limit} bytes; send smaller batches, or raise `limits.body`"
                )
            }
            Reject::MediaType(found) => format!(
                "content type `{found}` is not accepted here; send `{PROTOBUF}` or `{JSON}` \
                 (`application/grpc` for gRPC)"
            ),
            Reject::Coding(found) => {
                format!(
                    "content encoding `{found}` is not accepted; send one of: {}",
                    Coding::ACCEPTED
                )
            }
            Reject::Method => "only POST is accepted here".to_owned(),
            Reject::BodyTimeout(idle) => {
                format!(
                    "the body came too slowly, or nothing of it for {idle:?}; see `limits.body_timeout`"
                )
            }
        };
        bounded(text)
    }

    /// The answer over gRPC: a Trailers-Only response, with the delay in both places where clients
    /// look for it.
    pub(super) fn into_grpc(self) -> Response {
        let (code, _) = self.codes();
        let message = self.message();
        let mut status = if code == Code::Unavailable {
            let retry = RetryInfo::after_seconds(RETRY_SECONDS).encode_to_vec();
            let details = RpcStatus {
                code: code as i32,
                message: message.clone(),
                details: vec![Any {
                    type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                    value: retry.clone(),
                }],
            };
            let mut status = Status::with_details(code, message, details.encode_to_vec().into());
            let value = MetadataValue::from_bytes(&retry);
            status
                .metadata_mut()
                .insert_bin("google.rpc.retryinfo-bin", value);
            status
        } else {
            Status::new(code, message)
        };
        if matches!(self, Reject::Coding(_)) {
            let accepted = MetadataValue::from_static("identity,gzip,zstd,deflate");
            status
                .metadata_mut()
                .insert("grpc-accept-encoding", accepted);
        }
        status.into_http()
    }

    /// The answer over HTTP: a `google.rpc.Status` in the request's own encoding.
    pub(super) fn into_http(self, encoding: Encoding) -> Response {
        let (code, http) = self.codes();
        let message = self.message();
        let body = match encoding {
            Encoding::Protobuf => RpcStatus {
                code: code as i32,
                message,
                details: Vec::new(),
            }
            .encode_to_vec()
            .into(),
            Encoding::Json => Bytes::from(
                serde_json::json!({ "code": code as i32, "message": message }).to_string(),
            ),
        };
        let mut response = (http, [(CONTENT_TYPE, encoding.content_type())], body).into_response();
        let headers = response.headers_mut();
        match &self {
            Reject::Unavailable(_) => {
                headers.insert(RETRY_AFTER, HeaderValue::from(RETRY_SECONDS));
            }
            Reject::Method => {
                headers.insert(ALLOW, HeaderValue::from_static("POST"));
            }
            Reject::Coding(_) => {
                headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(Coding::ACCEPTED));
            }
            Reject::Unauthenticated(_) => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            Reject::TooLarge { .. } | Reject::BodyTimeout(_) => {
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            Reject::BadData(_) | Reject::MediaType(_) | Reject::Path(_) => {}
        }
        response
    }
}

/// The encoding of an OTLP/HTTP request, and so of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Protobuf,
    Json,
}

impl Encoding {
    /// Exactly this, without parameters: clients compare the whole string.
    pub(super) const fn content_type(self) -> &'static str {
        match self {
            Encoding::Protobuf => PROTOBUF,
            Encoding::Json => JSON,
        }
    }

    /// The encoding that the request's content type names; parameters other than a foreign charset
    /// do not matter.
    pub(super) fn of(headers: &HeaderMap) -> Result<Encoding, Reject> {
        let value = headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let text = String::from_utf8_lossy(value).to_ascii_lowercase();
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let foreign_charset = parts.any(|parameter| {
            parameter
                .strip_prefix("charset=")
                .is_some_and(|charset| !matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
        });
        match media_type {
            _ if foreign_charset => Err(Reject::MediaType(text.clone())),
            PROTOBUF | "application/protobuf" | "application/vnd.google.protobuf" => {
                Ok(Encoding::Protobuf)
            }
            JSON => Ok(Encoding::Json),
            _ => Err(Reject::MediaType(text.clone())),
        }
    }
}

/// Whether the request speaks gRPC.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| {
        let value = value.as_bytes();
        value == b"application/grpc"
            || value.starts_with(b"application/grpc+proto")
            || value.starts_with(b"application/grpc;")
    })
}

/// Answers paths that no receiver has, in the sender's protocol and with a hint. It never redirects:
/// clients do not repeat a POST then.
pub(super) async fn unknown_path(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path: String = uri.path().chars().take(200).collect();
    let hint = if path.contains("TraceService") || path.ends_with("/v1/traces") {
        other_signal("traces")
    } else if path.contains("MetricsService") || path.ends_with("/v1/metrics") {
        other_signal("metrics")
    } else if path.contains("ProfilesService") || path.ends_with("/v1development/profiles") {
        other_signal("profiles")
    } else if is_grpc(&headers) {
        format!(
            "no gRPC method {path}; logs are taken by {}",
            super::grpc::EXPORT_PATH
        )
    } else {
        format!("nothing at {path}; OTLP logs are taken by POST /v1/logs")
    };
    if is_grpc(&headers) {
        return Reject::Path(hint).into_grpc();
    }
    let encoding = Encoding::of(&headers).unwrap_or(Encoding::Json);
    if method == Method::OPTIONS {
        return Reject::Method.into_http(encoding);
    }
    Reject::Path(hint).into_http(encoding)
}

fn other_signal(signal: &str) -> String {
    let variable = signal.to_ascii_uppercase();
    format!(
        "Watchtower takes logs only, not {signal}: set OTEL_{variable}_EXPORTER=none, \
         or set OTEL_EXPORTER_OTLP_LOGS_ENDPOINT instead of OTEL_EXPORTER_OTLP_ENDPOINT"
    )
}

/// Cuts a text to what an answer may hold, between characters.
fn bounded(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES {
        text.truncate(text.floor_char_boundary(MESSAGE_BYTES));
    }
    text
}

/// `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<ProtoDuration>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, Message)]
struct ProtoDuration {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

impl RetryInfo {
    fn after_seconds(seconds: u32) -> Self {
        Self {
            retry_delay: Some(ProtoDuration {
                seconds: seconds.into(),
            }),
        }
    }
}
