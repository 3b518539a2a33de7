//! Records for the benches: what a web service logs, values that differ from record to record.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// When they were made, in nanoseconds since the epoch.
pub(crate) const NOW: i64 = 1_790_000_000_000_000_000;

fn text(value: &str) -> Option<AnyValue> {
    Some(AnyValue {
        value: Some(Value::StringValue(value.to_owned())),
    })
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        key_strindex: 0,
    }
}

fn string(key: &str, value: &str) -> KeyValue {
    pair(key, Value::StringValue(value.to_owned()))
}

/// A request of so many records, no two alike, each with up to 8 attributes.
pub(crate) fn request(num_records: usize, num_attributes: usize) -> ExportLogsServiceRequest {
    let record = |i: usize| LogRecord {
        time_unix_nano: NOW as u64 + i as u64,
        observed_time_unix_nano: NOW as u64 + i as u64,
        severity_number: 9,
        severity_text: "INFO".to_owned(),
        body: text(&format!(
            "GET /api/v1/orders/{} answered 200 to 203.0.113.{} after {} ms, {} bytes",
            8_412_093 + i * 7,
            i * 5 % 250,
            i % 90,
            2318 + i * 31 % 5000,
        )),
        attributes: [
            string(
                "http.request.method",
                ["GET", "POST", "DELETE"][i * 7 / 3 % 3],
            ),
            string("url.path", &format!("/api/v1/orders/{}", 8_412_093 + i * 7)),
            pair(
                "http.response.status_code",
                Value::IntValue(200 + (i as i64 % 4) * 100),
            ),
            pair(
                "http.response.body.size",
                Value::IntValue(2318 + i as i64 * 31 % 5000),
            ),
            string("client.address", &format!("203.0.113.{}", i * 5 % 250)),
            string("code.function.name", "orders::handlers::get_order"),
            string("thread.name", "tokio-runtime-worker"),
            pair("sampled", Value::BoolValue(true)),
        ]
        .into_iter()
        .take(num_attributes)
        .collect(),
        trace_id: (1..17).collect(),
        span_id: (1..9).collect(),
        flags: 1,
        ..LogRecord::default()
    };
    let resource = Resource {
        attributes: vec![
            string("service.name", "orders"),
            string("service.version", "1.14.2"),
            string("deployment.environment.name", "production"),
            string("host.name", "node-17.example.net"),
            string("telemetry.sdk.language", "rust"),
        ],
        ..Resource::default()
    };
    let scope = InstrumentationScope {
        name: "orders".to_owned(),
        ..InstrumentationScope::default()
    };
    let log_records = (0..num_records).map(record).collect();
    let scope_logs = vec![ScopeLogs {
        scope: Some(scope),
        log_records,
        schema_url: String::new(),
    }];
    let resource_logs = vec![ResourceLogs {
        resource: Some(resource),
        scope_logs,
        schema_url: String::new(),
    }];
    ExportLogsServiceRequest { resource_logs }
}

fn json_value(value: &Option<AnyValue>) -> String {
    match value.as_ref().and_then(|value| value.value.as_ref()) {
        Some(Value::StringValue(text)) => format!(r#"{{"stringValue":"{text}"}}"#),
        Some(Value::IntValue(number)) => format!(r#"{{"intValue":"{number}"}}"#),
        Some(Value::BoolValue(value)) => format!(r#"{{"boolValue":{value}}}"#),
        _ => "{}".to_owned(),
    }
}

fn json_pairs(pairs: &[KeyValue]) -> String {
    let pairs = pairs.iter().map(|pair| {
        format!(
            r#"{{"key":"{}","value":{}}}"#,
            pair.key,
            json_value(&pair.value)
        )
    });
    pairs.collect::<Vec<_>>().join(",")
}

/// The same as OTLP JSON.
pub(crate) fn json(request: &ExportLogsServiceRequest) -> String {
    let resource_logs = &request.resource_logs[0];
    let resource = resource_logs
        .resource
        .as_ref()
        .map_or(String::new(), |r| json_pairs(&r.attributes));
    let records = resource_logs.scope_logs[0].log_records.iter().map(|record| {
        format!(
            r#"{{"timeUnixNano":"{}","observedTimeUnixNano":"{}","severityNumber":9,"severityText":"INFO","body":{},"attributes":[{}],"traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","flags":1}}"#,
            record.time_unix_nano,
            record.observed_time_unix_nano,
            json_value(&record.body),
            json_pairs(&record.attributes),
        )
    });
    format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{resource}]}},"scopeLogs":[{{"scope":{{"name":"orders"}},"logRecords":[{}]}}]}}]}}"#,
        records.collect::<Vec<_>>().join(",")
    )
}

/// Records like them as native JSON, one a line.
pub(crate) fn native(request: &ExportLogsServiceRequest) -> String {
    let plain = |pair: &KeyValue| {
        let value = match pair.value.as_ref().and_then(|value| value.value.as_ref()) {
            Some(Value::StringValue(text)) => format!("\"{text}\""),
            Some(Value::IntValue(number)) => number.to_string(),
            Some(Value::BoolValue(value)) => value.to_string(),
            _ => "null".to_owned(),
        };
        format!(r#","{}":{value}"#, pair.key)
    };
    let lines = request.resource_logs[0].scope_logs[0].log_records.iter().map(|record| {
        let rest: String = record.attributes.iter().map(plain).collect();
        format!(
            r#"{{"timestamp":"2026-09-21T14:13:20.{:09}Z","level":"info","service":"orders","environment":"production","message":"GET /api/v1/orders/8412093 answered 200 to 203.0.113.24 after 14 ms, 2,318 bytes"{rest}}}"#,
            record.time_unix_nano % 1_000_000_000
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}
