//! `google.rpc.Status` and its details: the body of every answer that is not a success.

use prost::Message;
use serde_json::{Value, json};

/// What goes into a status beside its code and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Detail {
    /// The request may be sent again after so many seconds.
    Retry(u32),
    /// This field of the request cannot be read, and why.
    Field(String, String),
}

impl Detail {
    fn type_url(&self) -> &'static str {
        match self {
            Detail::Retry(_) => "type.googleapis.com/google.rpc.RetryInfo",
            Detail::Field(..) => "type.googleapis.com/google.rpc.BadRequest",
        }
    }

    /// The detail's own message.
    pub(super) fn protobuf(&self) -> Vec<u8> {
        match self {
            Detail::Retry(seconds) => RetryInfo {
                retry_delay: Some(ProtoDuration {
                    seconds: i64::from(*seconds),
                }),
            }
            .encode_to_vec(),
            Detail::Field(field, description) => BadRequest {
                field_violations: vec![FieldViolation {
                    field: field.clone(),
                    description: description.clone(),
                }],
            }
            .encode_to_vec(),
        }
    }

    fn json(&self) -> Value {
        match self {
            Detail::Retry(seconds) => {
                json!({ "@type": self.type_url(), "retryDelay": format!("{seconds}s") })
            }
            Detail::Field(field, description) => json!({
                "@type": self.type_url(),
                "fieldViolations": [{ "field": field, "description": description }],
            }),
        }
    }
}

/// The status as protobuf.
pub(super) fn protobuf(code: i32, message: &str, detail: Option<&Detail>) -> Vec<u8> {
    let any = |detail: &Detail| Any {
        type_url: detail.type_url().to_owned(),
        value: detail.protobuf(),
    };
    RpcStatus {
        code,
        message: message.to_owned(),
        details: detail.map(any).into_iter().collect(),
    }
    .encode_to_vec()
}

/// The status as JSON.
pub(super) fn json(code: i32, message: &str, detail: Option<&Detail>) -> String {
    let mut status = json!({ "code": code, "message": message });
    if let Some(detail) = detail {
        status["details"] = json!([detail.json()]);
    }
    status.to_string()
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

/// `google.rpc.BadRequest`.
#[derive(Clone, PartialEq, Message)]
struct BadRequest {
    #[prost(message, repeated, tag = "1")]
    field_violations: Vec<FieldViolation>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldViolation {
    #[prost(string, tag = "1")]
    field: String,
    #[prost(string, tag = "2")]
    description: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j_21_errors_have_code_message_and_typed_details() {
        assert_eq!(json(3, "why", None), r#"{"code":3,"message":"why"}"#);
        let field = Detail::Field("body".into(), "why".into());
        let status: Value = serde_json::from_str(&json(3, "why", Some(&field))).unwrap();
        assert_eq!(
            status["details"][0],
            json!({
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{ "field": "body", "description": "why" }],
            })
        );
        let status: Value = serde_json::from_str(&json(14, "", Some(&Detail::Retry(2)))).unwrap();
        assert_eq!(status["details"][0]["retryDelay"], "2s");
    }

    #[test]
    fn protobuf_and_json_hold_the_same() {
        let status =
            RpcStatus::decode(&protobuf(14, "later", Some(&Detail::Retry(2)))[..]).unwrap();
        assert_eq!((status.code, status.message.as_str()), (14, "later"));
        let [any] = &status.details[..] else {
            panic!("one detail")
        };
        assert_eq!(any.type_url, "type.googleapis.com/google.rpc.RetryInfo");
        let retry = RetryInfo::decode(&any.value[..]).unwrap();
        assert_eq!(retry.retry_delay.unwrap().seconds, 2);
    }
}
