//! Content types: which encoding a request is in, and so its answer.

use axum::http::{HeaderMap, HeaderValue};
use http::header::CONTENT_TYPE;

use super::reply::Reject;

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

/// The encoding of an OTLP/HTTP request, and so of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
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
        let found = MediaType::of(headers);
        match found.name.as_str() {
            _ if found.foreign_charset => Err(Reject::MediaType(found.whole)),
            PROTOBUF | "application/protobuf" | "application/vnd.google.protobuf" => {
                Ok(Encoding::Protobuf)
            }
            JSON => Ok(Encoding::Json),
            _ => Err(Reject::MediaType(found.whole)),
        }
    }

    /// As [`Encoding::of`]; an answer to a type that is not understood is JSON.
    pub(super) fn of_answer(headers: &HeaderMap) -> Encoding {
        Encoding::of(headers).unwrap_or(Encoding::Json)
    }
}

/// Whether the request speaks gRPC with protobuf messages. gRPC-Web has other types.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    let name = MediaType::of(headers).name;
    matches!(name.as_str(), "application/grpc" | "application/grpc+proto")
}

/// Whether a body may be plain JSON. Tools that send it often name no type, or `text/plain`, or that
/// of a form; what can only be something else is refused.
pub(super) fn check_plain_json(headers: &HeaderMap) -> Result<(), Reject> {
    let found = MediaType::of(headers);
    let is_binary = ["protobuf", "grpc", "msgpack", "octet-stream", "multipart/"]
        .iter()
        .any(|other| found.name.contains(other));
    if is_binary || found.foreign_charset {
        return Err(Reject::MediaType(found.whole));
    }
    Ok(())
}

/// A content type, in lower case.
struct MediaType {
    whole: String,
    name: String,
    /// It names a charset that is not UTF-8.
    foreign_charset: bool,
}

impl MediaType {
    fn of(headers: &HeaderMap) -> MediaType {
        let value = headers
            .get(CONTENT_TYPE)
            .map_or(&b""[..], HeaderValue::as_bytes);
        let whole = String::from_utf8_lossy(value).to_ascii_lowercase();
        let mut parts = whole.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default().to_owned();
        let foreign_charset = parts.any(|parameter| {
            let charset = parameter.strip_prefix("charset=");
            charset.is_some_and(|charset| !matches!(charset.trim_matches('"'), "utf-8" | "utf8"))
        });
        MediaType {
            whole,
            name,
            foreign_charset,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(CONTENT_TYPE, value.parse().unwrap())])
    }

    #[test]
    fn h_05_h_06_r_024_content_types() {
        for (value, encoding) in [
            ("application/json", Some(Encoding::Json)),
            ("Application/JSON", Some(Encoding::Json)),
            ("application/json; charset=utf-8", Some(Encoding::Json)),
            ("application/json;charset=\"UTF-8\"", Some(Encoding::Json)),
            ("application/json; charset=latin1", None),
            ("application/x-protobuf", Some(Encoding::Protobuf)),
            ("application/x-protobuf; v=1", Some(Encoding::Protobuf)),
            ("application/protobuf", Some(Encoding::Protobuf)),
            ("application/vnd.google.protobuf", Some(Encoding::Protobuf)),
            ("text/plain", None),
            ("application/grpc", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of(&with(value)).ok(), encoding, "{value}");
        }
        assert!(Encoding::of(&HeaderMap::new()).is_err());
    }

    #[test]
    fn g_02_types_of_grpc() {
        for (value, good) in [
            ("application/grpc", true),
            ("Application/gRPC", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("application/grpc-web+proto", false),
            ("application/grpc+json", false),
            ("application/grpc+protobuf", false),
            ("application/json", false),
        ] {
            assert_eq!(is_grpc(&with(value)), good, "{value}");
        }
    }

    #[test]
    fn plain_json_may_come_as_text_and_not_as_something_binary() {
        for (value, good) in [
            ("application/json", true),
            ("application/x-ndjson", true),
            ("text/plain;charset=UTF-8", true),
            ("application/x-www-form-urlencoded", true),
            ("application/json; charset=utf-16", false),
            ("application/x-protobuf", false),
            ("application/grpc", false),
            ("multipart/form-data; boundary=x", false),
        ] {
            assert_eq!(check_plain_json(&with(value)).is_ok(), good, "{value}");
        }
        assert!(check_plain_json(&HeaderMap::new()).is_ok());
    }
}
