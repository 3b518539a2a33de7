//! What is wrong with a request whatever its body holds. The answer is in the protocol's own form, which
//! the HTTP library, that would refuse some of it too, does not know.

use std::net::SocketAddr;

use axum::extract::Request;
use axum::http::{HeaderMap, Version};
use axum::response::Response;
use http::header::{HOST, TRANSFER_ENCODING};

use super::Door;
use super::caller::{Caller, Form};
use super::encoding::{Encoding, is_grpc};
use super::reply::Reject;
use crate::record::Receiver;

/// Bytes of a request's headers over HTTP/2, where a connection may have those of all its streams under way.
/// gRPC's own limit is 8 KiB. HTTP/1.1 has one request at a time, and may have four times as much.
pub(super) const STREAM_HEADER_BYTES: usize = 16 << 10;
/// What HTTP/2 counts for a header beside its name and value (RFC 9113, section 6.5.2).
const HEADER_COST: usize = 32;

/// What is wrong with a request, if anything is.
pub(super) fn wrong(request: &Request) -> Option<Reject> {
    let headers = request.headers();
    if request.version() == Version::HTTP_2 {
        let bytes = size(headers);
        return (bytes > STREAM_HEADER_BYTES).then_some(Reject::Headers {
            bytes,
            limit: STREAM_HEADER_BYTES,
        });
    }
    if let Some(coding) = headers.get(TRANSFER_ENCODING)
        && !coding.as_bytes().eq_ignore_ascii_case(b"chunked")
    {
        let coding = String::from_utf8_lossy(coding.as_bytes());
        return Some(Reject::BadData {
            field: "transfer-encoding".to_owned(),
            text: format!(
                "transfer encoding `{coding}` is not taken; send `chunked`, and say with `content-encoding` how \
                 the body is compressed"
            ),
        });
    }
    let fault = host_fault(headers).filter(|_| request.version() == Version::HTTP_11)?;
    Some(Reject::BadData {
        field: "host".to_owned(),
        text: format!(
            "a request over HTTP/1.1 has one `Host` header, a name or an address, and {fault}"
        ),
    })
}

/// What is wrong with the `Host` of a request (RFC 9112, section 3.2).
fn host_fault(headers: &HeaderMap) -> Option<&'static str> {
    let mut hosts = headers.get_all(HOST).iter();
    let Some(host) = hosts.next() else {
        return Some("this one has none");
    };
    if hosts.next().is_some() {
        return Some("this one has several");
    }
    let is_odd = |byte: &u8| !byte.is_ascii_graphic() || b"/@?#\\".contains(byte);
    host.as_bytes()
        .iter()
        .any(is_odd)
        .then_some("that of this one is neither")
}

fn size(headers: &HeaderMap) -> usize {
    let headers = headers.iter();
    headers
        .map(|(name, value)| name.as_str().len() + value.len() + HEADER_COST)
        .sum()
}

/// Answers a request that is wrong.
pub(super) async fn refuse(
    door: &Door,
    request: Request,
    peer: Option<SocketAddr>,
    reject: Reject,
) -> Response {
    let (parts, mut body) = request.into_parts();
    let (receiver, form) = if is_grpc(&parts.headers) && parts.version == Version::HTTP_2 {
        (Receiver::OtlpGrpc, Form::Grpc)
    } else if parts.uri.path().starts_with("/api/") {
        (Receiver::Json, Form::Http(Encoding::Json))
    } else {
        let encoding = Encoding::of_answer(&parts.headers);
        (Receiver::OtlpHttp, Form::Http(encoding))
    };
    let caller = Caller::new(receiver, form, &parts.headers, peer);
    door.refuse(&caller, reject, &parts.headers, &mut body)
        .await
}
