//! Requests as JSON, in the ways in which senders write it.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};

use super::expected::json_string;

/// How a sender writes JSON.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    pub(super) snake_case: bool,
    pub(super) numbers_in_quotes: bool,
    pub(super) backwards: bool,
}

impl Style {
    fn object(self, mut members: Vec<(&str, String)>) -> String {
        if self.backwards {
            members.reverse();
        }
        let members = members.into_iter().map(|(key, value)| {
            let mut name = String::new();
            for c in key.chars() {
                if c.is_uppercase() && self.snake_case {
                    name.push('_');
                    name.extend(c.to_lowercase());
                } else {
                    name.push(c);
                }
            }
            format!("\"{name}\":{value}")
        });
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    }

    fn array<T>(self, list: &[T], member: impl Fn(Self, &T) -> String) -> String {
        let list: Vec<_> = list.iter().map(|item| member(self, item)).collect();
        format!("[{}]", list.join(","))
    }

    fn number(self, number: impl std::fmt::Display) -> String {
        if self.numbers_in_quotes {
            format!("\"{number}\"")
        } else {
            number.to_string()
        }
    }

    fn value(self, value: &AnyValue) -> String {
        use base64::Engine;
        let member = match &value.value {
            None => return "{}".to_owned(),
            Some(Value::StringValue(text)) => ("stringValue", json_string(text)),
            Some(Value::BoolValue(value)) => ("boolValue", value.to_string()),
            Some(Value::IntValue(value)) => ("intValue", self.number(value)),
            Some(Value::DoubleValue(value)) if value.is_nan() => {
                ("doubleValue", "\"NaN\"".to_owned())
            }
            Some(Value::DoubleValue(value)) if value.is_infinite() => (
                "doubleValue",
                if *value > 0.0 {
                    "\"Infinity\""
                } else {
                    "\"-Infinity\""
                }
                .to_owned(),
            ),
            Some(Value::DoubleValue(value)) => ("doubleValue", self.number(format!("{value:?}"))),
            Some(Value::ArrayValue(array)) => (
                "arrayValue",
                self.object(vec![("values", self.array(&array.values, Self::value))]),
            ),
            Some(Value::KvlistValue(list)) => (
                "kvlistValue",
                self.object(vec![("values", self.array(&list.values, Self::key_value))]),
            ),
            Some(Value::BytesValue(bytes)) => {
                let text = base64::engine::general_purpose::STANDARD.encode(bytes);
                ("bytesValue", json_string(&text))
            }
            Some(Value::StringValueStrindex(index)) => ("stringValueStrindex", index.to_string()),
        };
        self.object(vec![member])
    }

    fn key_value(self, pair: &KeyValue) -> String {
        let mut members = vec![("key", json_string(&pair.key))];
        members.extend(
            pair.value
                .as_ref()
                .map(|value| ("value", self.value(value))),
        );
        self.object(members)
    }

    fn record(self, record: &LogRecord) -> String {
        let hex = |bytes: &[u8], length: usize| {
            let mut digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            // Of an id that is none the text is kept as it was sent, and that of bytes is in lower case.
            if bytes.len() != length {
                digits.make_ascii_lowercase();
            }
            format!("\"{digits}\"")
        };
        let mut members = vec![
            ("timeUnixNano", self.number(record.time_unix_nano)),
            (
                "observedTimeUnixNano",
                self.number(record.observed_time_unix_nano),
            ),
            ("severityNumber", record.severity_number.to_string()),
            ("severityText", json_string(&record.severity_text)),
            (
                "attributes",
                self.array(&record.attributes, Self::key_value),
            ),
            (
                "droppedAttributesCount",
                self.number(record.dropped_attributes_count),
            ),
            ("flags", self.number(record.flags)),
            ("traceId", hex(&record.trace_id, 16)),
            ("spanId", hex(&record.span_id, 8)),
            ("eventName", json_string(&record.event_name)),
        ];
        members.extend(record.body.as_ref().map(|body| ("body", self.value(body))));
        self.object(members)
    }

    fn scope_logs(self, scope_logs: &ScopeLogs) -> String {
        let mut members = vec![
            (
                "logRecords",
                self.array(&scope_logs.log_records, Self::record),
            ),
            ("schemaUrl", json_string(&scope_logs.schema_url)),
        ];
        members.extend(scope_logs.scope.as_ref().map(|scope| {
            let scope = self.object(vec![
                ("name", json_string(&scope.name)),
                ("version", json_string(&scope.version)),
                ("attributes", self.array(&scope.attributes, Self::key_value)),
                (
                    "droppedAttributesCount",
                    scope.dropped_attributes_count.to_string(),
                ),
            ]);
            ("scope", scope)
        }));
        self.object(members)
    }

    fn resource_logs(self, resource_logs: &ResourceLogs) -> String {
        let mut members = vec![
            (
                "scopeLogs",
                self.array(&resource_logs.scope_logs, Self::scope_logs),
            ),
            ("schemaUrl", json_string(&resource_logs.schema_url)),
        ];
        members.extend(resource_logs.resource.as_ref().map(|resource| {
            let resource = self.object(vec![
                (
                    "attributes",
                    self.array(&resource.attributes, Self::key_value),
                ),
                (
                    "droppedAttributesCount",
                    resource.dropped_attributes_count.to_string(),
                ),
            ]);
            ("resource", resource)
        }));
        self.object(members)
    }

    pub(super) fn request(self, request: &ExportLogsServiceRequest) -> String {
        self.object(vec![(
            "resourceLogs",
            self.array(&request.resource_logs, Self::resource_logs),
        )])
    }
}
