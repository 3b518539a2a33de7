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
        match sent(headers) {
            b"application/x-protobuf" => return Ok(Encoding::Protobuf),
            b"application/json" => return Ok(Encoding::Json),
            _ => {}
        }
        let found = MediaType::of(headers);
        match found.name.as_str() {
            _ if found.foreign_charset => Err(found.refuse(Place::Otlp)),
            PROTOBUF | "application/protobuf" | "application/vnd.google.protobuf" => {
                Ok(Encoding::Protobuf)
            }
            JSON => Ok(Encoding::Json),
            _ => Err(found.refuse(Place::Otlp)),
        }
    }

    /// As [`Encoding::of`]; an answer to a type that is not understood is JSON.
    pub(super) fn of_answer(headers: &HeaderMap) -> Encoding {
        Encoding::of(headers).unwrap_or(Encoding::Json)
    }
}

/// The content type as it was sent. What nearly all senders write needs no closer look.
fn sent(headers: &HeaderMap) -> &[u8] {
    headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes)
}

/// Whether the request speaks gRPC with protobuf messages. gRPC-Web has other types.
pub(super) fn is_grpc(headers: &HeaderMap) -> bool {
    match sent(headers) {
        b"application/grpc" => return true,
        b"application/x-protobuf" | b"application/json" => return false,
        _ => {}
    }
    let name = MediaType::of(headers).name;
    matches!(name.as_str(), "application/grpc" | "application/grpc+proto")
}

/// Whether a body may be plain JSON. Tools that send it often name no type, or `text/plain`, or that
/// of a form; what can only be something else is refused.
pub(super) fn check_plain_json(headers: &HeaderMap) -> Result<(), Reject> {
    if sent(headers) == b"application/json" {
        return Ok(());
    }
    let found = MediaType::of(headers);
    let is_binary = ["protobuf", "grpc", "msgpack", "octet-stream", "multipart/"]
        .iter()
        .any(|other| found.name.contains(other));
    if is_binary || found.foreign_charset {
        return Err(found.refuse(Place::PlainJson));
    }
    Ok(())
}

/// What a request to the gRPC method is told that does not speak gRPC; `http_path` takes OTLP over
/// HTTP.
pub(super) fn refuse_at_grpc(headers: &HeaderMap, http_path: &str) -> Reject {
    MediaType::of(headers).refuse(Place::Grpc { http_path })
}

/// Where a content type is not spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place<'p> {
    /// The path of OTLP over HTTP.
    Otlp,
    /// The method of gRPC.
    Grpc {
        /// Where OTLP over HTTP is taken.
        http_path: &'p str,
    },
    /// `POST /api/logs`.
    PlainJson,
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
        let whole = String::from_utf8_lossy(sent(headers)).to_ascii_lowercase();
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

impl MediaType {
    /// Says what arrived where, and what to do about it.
    fn refuse(&self, at: Place<'_>) -> Reject {
        let found = match self.whole.as_str() {
            "" => "a request without content type".to_owned(),
            whole => format!("content type `{whole}`"),
        };
        let is_grpc = self.name.starts_with("application/grpc");
        let is_otlp = is_grpc || self.name.contains("protobuf");
        let text = match at {
            Place::Otlp | Place::PlainJson if self.foreign_charset => {
                format!("{found} names a charset that is not read; send UTF-8")
            }
            Place::Otlp if is_grpc => format!(
                "a gRPC call ({found}) arrived at the path of OTLP over HTTP; for gRPC set \
                 OTEL_EXPORTER_OTLP_PROTOCOL=grpc and an endpoint without a path, else \
                 OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"
            ),
            Place::Otlp => format!(
                "{found} arrived at the path of OTLP over HTTP, which takes `{PROTOBUF}` and `{JSON}`; \
                 logs that are not OTLP are taken by POST /api/logs of the web port"
            ),
            Place::Grpc { http_path } => format!(
                "{found} arrived at a gRPC method, which takes `application/grpc`; OTLP over HTTP is \
                 taken by POST {http_path}"
            ),
            Place::PlainJson if is_otlp => format!(
                "OTLP ({found}) arrived at /api/logs, which takes plain JSON; OTLP is taken by POST /v1/logs"
            ),
            Place::PlainJson => format!(
                "{found} arrived at /api/logs, which takes JSON: one object, an array, or one object a line, \
                 as `{JSON}`"
            ),
        };
        Reject::MediaType(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_type_is_told_what_arrived_where_and_what_to_do() {
        let of = |value: &str, at: Place<'_>| MediaType::of(&with(value)).refuse(at).message();
        for (value, at, parts) in [
            (
                "application/json",
                Place::Grpc {
                    http_path: "/v1/logs",
                },
                [
                    "`application/json` arrived at a gRPC method",
                    "POST /v1/logs",
                ],
            ),
            (
                "application/grpc",
                Place::Otlp,
                [
                    "a gRPC call (content type `application/grpc`) arrived",
                    "PROTOCOL=grpc",
                ],
            ),
            (
                "text/plain",
                Place::Otlp,
                [
                    "`text/plain` arrived at the path of OTLP over HTTP",
                    "POST /api/logs",
                ],
            ),
            (
                "application/json; charset=latin1",
                Place::Otlp,
                ["`application/json; charset=latin1` names", "UTF-8"],
            ),
            (
                "application/x-protobuf",
                Place::PlainJson,
                [
                    "OTLP (content type `application/x-protobuf`)",
                    "POST /v1/logs",
                ],
            ),
            (
                "multipart/form-data",
                Place::PlainJson,
                ["arrived at /api/logs", "`application/json`"],
            ),
        ] {
            let text = of(value, at);
            for part in parts {
                assert!(text.contains(part), "{value}: {text}");
            }
            // Nobody is told to send what was sent.
            assert_eq!(text.matches(&format!("`{value}`")).count(), 1, "{text}");
        }
        let none = MediaType::of(&HeaderMap::new())
            .refuse(Place::Otlp)
            .message();
        assert!(
            none.starts_with("a request without content type arrived"),
            "{none}"
        );
    }

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
