//! Realistic records, encoded once and then patched in place.
//!
//! 6 to 8 attributes, 6 resource attributes, messages of 60 to 300 bytes, trace ids in 30 %. Each
//! record carries its number in its message, so that what landed can be counted exactly.

use anyhow::Result;
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, InstrumentationScope, KeyValue, any_value::Value,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use crate::{Args, Protocol};

/// Digits of a record's number, zero padded, in its message.
const NUMBER_DIGITS: usize = 16;
/// Stands where the number goes. It is not the first thing in a message, because the length before
/// the message may be the same byte.
const NUMBER: &[u8] = b"@@@@@@@@@@@@@@@@";
/// Stands where the time goes, as 19 digits and as eight bytes.
const TIME_DIGITS: &[u8] = b"1111111111111111111";
const TIME: u64 = 1_111_111_111_111_111_111;

const WORDS: [&str; 24] = [
    "request",
    "completed",
    "connection",
    "timeout",
    "user",
    "session",
    "cache",
    "miss",
    "retry",
    "upstream",
    "database",
    "query",
    "slow",
    "payment",
    "order",
    "shipped",
    "queue",
    "worker",
    "started",
    "failed",
    "token",
    "refreshed",
    "handler",
    "response",
];
const ROUTES: [&str; 8] = [
    "/api/orders",
    "/api/users",
    "/login",
    "/healthz",
    "/api/search",
    "/static/app.js",
    "/api/cart",
    "/checkout",
];
const SERVICES: [&str; 6] = ["checkout", "orders", "gateway", "auth", "search", "mailer"];

/// A small deterministic generator: the same seed makes the same records on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// One encoded request body and where to patch it.
pub(crate) struct Template {
    body: Vec<u8>,
    numbers: Vec<usize>,
    times: Vec<usize>,
    binary_times: bool,
}

impl Template {
    /// A body of `args.records` records in the protocol's encoding.
    pub(crate) fn new(args: &Args, random: &mut Random) -> Result<Template> {
        let request = request(args, random);
        let body = match args.protocol {
            Protocol::Grpc | Protocol::Http => request.encode_to_vec(),
            Protocol::HttpJson => json_otlp(&request),
            Protocol::Json => json_native(&request),
        };
        let binary_times = matches!(args.protocol, Protocol::Grpc | Protocol::Http);
        let time: &[u8] = if binary_times {
            &TIME.to_le_bytes()
        } else {
            TIME_DIGITS
        };
        let numbers = find_all(&body, NUMBER);
        let times = find_all(&body, time);
        anyhow::ensure!(
            numbers.len() == args.records,
            "{} numbers in {} records",
            numbers.len(),
            args.records
        );
        Ok(Template {
            body,
            numbers,
            times,
            binary_times,
        })
    }

    /// The body with these numbers and this time. The first record has number `first`.
    pub(crate) fn patched(&mut self, first: u64, now_nanos: u64) -> &[u8] {
        for (index, &at) in self.numbers.iter().enumerate() {
            let digits = format!("{:0NUMBER_DIGITS$}", first + index as u64);
            self.body[at..at + NUMBER_DIGITS].copy_from_slice(digits.as_bytes());
        }
        let digits = format!("{now_nanos:019}");
        for &at in &self.times {
            if self.binary_times {
                self.body[at..at + 8].copy_from_slice(&now_nanos.to_le_bytes());
            } else {
                self.body[at..at + 19].copy_from_slice(digits.as_bytes());
            }
        }
        &self.body
    }
}

fn find_all(haystack: &[u8], needle: &[u8]) -> Vec<usize> {
    memchr::memmem::find_iter(haystack, needle).collect()
}

fn text(value: &str) -> Option<AnyValue> {
    Some(AnyValue {
        value: Some(Value::StringValue(value.to_owned())),
    })
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn request(args: &Args, random: &mut Random) -> ExportLogsServiceRequest {
    let service = SERVICES[random.below(SERVICES.len())];
    let string = |value: &str| Value::StringValue(value.to_owned());
    let resource = Resource {
        attributes: vec![
            attribute("service.name", string(service)),
            attribute("service.version", string("1.42.0")),
            attribute(
                "service.instance.id",
                string(&format!("{service}-{}", random.below(4))),
            ),
            attribute("deployment.environment.name", string("prod")),
            attribute("host.name", string("node-1")),
            attribute("telemetry.sdk.language", string("rust")),
        ],
        ..Resource::default()
    };
    let log_records = (0..args.records).map(|_| record(args, random)).collect();
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource),
            scope_logs: vec![ScopeLogs {
                scope: Some(InstrumentationScope {
                    name: "bench".to_owned(),
                    ..InstrumentationScope::default()
                }),
                log_records,
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        }],
    }
}

fn record(args: &Args, random: &mut Random) -> LogRecord {
    let string = |value: &str| Value::StringValue(value.to_owned());
    let mut message = format!("n={}", String::from_utf8_lossy(NUMBER));
    let length = 60 + random.below(240);
    while message.len() < length {
        message.push(' ');
        message.push_str(WORDS[random.below(WORDS.len())]);
        if random.below(4) == 0 {
            message.push_str(&format!(" id={}", random.next() % 1_000_000));
        }
    }
    let mut attributes = vec![
        attribute("bench.run", string(&args.run)),
        attribute("http.route", string(ROUTES[random.below(ROUTES.len())])),
        attribute(
            "http.response.status_code",
            Value::IntValue([200, 200, 200, 404, 500][random.below(5)]),
        ),
        attribute(
            "http.request.method",
            string(["GET", "GET", "POST"][random.below(3)]),
        ),
        attribute("user.id", string(&format!("u{}", random.below(10_000)))),
        attribute(
            "duration_ms",
            Value::DoubleValue((random.below(100_000) as f64) / 100.0),
        ),
    ];
    if random.below(2) == 0 {
        attributes.push(attribute("thread.name", string("worker-3")));
        attributes.push(attribute(
            "code.line.number",
            Value::IntValue(random.below(2000) as i64),
        ));
    }
    let (severity_number, severity_text) = [
        (9, "INFO"),
        (9, "INFO"),
        (9, "INFO"),
        (5, "DEBUG"),
        (13, "WARN"),
        (17, "ERROR"),
    ][random.below(6)];
    let traced = random.below(10) < 3;
    let ids = |random: &mut Random, count: usize| {
        if traced {
            (0..count).map(|_| random.next() as u8).collect()
        } else {
            Vec::new()
        }
    };
    LogRecord {
        time_unix_nano: TIME,
        observed_time_unix_nano: TIME,
        severity_number,
        severity_text: severity_text.to_owned(),
        body: text(&message),
        attributes,
        trace_id: ids(random, 16),
        span_id: ids(random, 8),
        flags: u32::from(traced),
        ..LogRecord::default()
    }
}

fn any_json(value: &Option<AnyValue>) -> serde_json::Value {
    match value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => serde_json::json!({ "stringValue": text }),
        Some(Value::IntValue(int)) => serde_json::json!({ "intValue": int.to_string() }),
        Some(Value::DoubleValue(double)) => serde_json::json!({ "doubleValue": double }),
        _ => serde_json::json!({}),
    }
}

fn pairs_json(attributes: &[KeyValue]) -> serde_json::Value {
    attributes
        .iter()
        .map(|pair| serde_json::json!({ "key": pair.key, "value": any_json(&pair.value) }))
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json_otlp(request: &ExportLogsServiceRequest) -> Vec<u8> {
    let logs = &request.resource_logs[0];
    let scope = &logs.scope_logs[0];
    let records: Vec<_> = scope
        .log_records
        .iter()
        .map(|record| {
            serde_json::json!({
                "timeUnixNano": record.time_unix_nano.to_string(),
                "observedTimeUnixNano": record.observed_time_unix_nano.to_string(),
                "severityNumber": record.severity_number,
                "severityText": record.severity_text,
                "body": any_json(&record.body),
                "attributes": pairs_json(&record.attributes),
                "traceId": hex(&record.trace_id),
                "spanId": hex(&record.span_id),
                "flags": record.flags,
            })
        })
        .collect();
    serde_json::json!({ "resourceLogs": [{
        "resource": { "attributes": pairs_json(&logs.resource.clone().unwrap_or_default().attributes) },
        "scopeLogs": [{ "scope": { "name": "bench" }, "logRecords": records }],
    }]})
    .to_string()
    .into_bytes()
}

/// One object for one record, else one object a line.
fn json_native(request: &ExportLogsServiceRequest) -> Vec<u8> {
    let mut body = String::new();
    for record in &request.resource_logs[0].scope_logs[0].log_records {
        let message = match record.body.as_ref().and_then(|any| any.value.as_ref()) {
            Some(Value::StringValue(text)) => text.as_str(),
            _ => "",
        };
        let mut object = serde_json::json!({
            "timestamp": record.time_unix_nano.to_string(),
            "level": record.severity_text.to_ascii_lowercase(),
            "service": "bench",
            "environment": "prod",
            "message": message,
        });
        for pair in &record.attributes {
            let value = match pair.value.as_ref().and_then(|any| any.value.as_ref()) {
                Some(Value::StringValue(text)) => text.as_str().into(),
                Some(Value::IntValue(int)) => (*int).into(),
                Some(Value::DoubleValue(double)) => (*double).into(),
                _ => serde_json::Value::Null,
            };
            object[pair.key.as_str()] = value;
        }
        body.push_str(&object.to_string());
        body.push('\n');
    }
    body.into_bytes()
}
