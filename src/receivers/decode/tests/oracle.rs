//! The walkers against prost: any request that prost can make comes out of the protobuf walker and
//! of the JSON walker as a plain mapping of prost's structs says.

use std::collections::HashMap;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use super::*;
use crate::normalize::{level_of_number, level_of_text};

/// Pairs in order of their key's first appearance, with the last value of each.
fn last_wins<V>(pairs: impl IntoIterator<Item = (String, V)>) -> Vec<(String, V)> {
    let mut list: Vec<(String, V)> = Vec::new();
    let mut places = HashMap::new();
    for (key, value) in pairs {
        match places.get(&key) {
            Some(&place) => {
                let entry: &mut (String, V) = &mut list[place];
                entry.1 = value;
            }
            None => {
                places.insert(key.clone(), list.len());
                list.push((key, value));
            }
        }
    }
    list
}

fn json_string(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

fn json(value: &AnyValue) -> String {
    match &value.value {
        None | Some(Value::StringValueStrindex(_)) => "null".to_owned(),
        Some(Value::StringValue(text)) => json_string(text),
        Some(Value::DoubleValue(number)) if !number.is_finite() => {
            json_string(&text(value).unwrap())
        }
        Some(Value::BytesValue(_)) => json_string(&text(value).unwrap()),
        Some(Value::ArrayValue(array)) => {
            format!(
                "[{}]",
                array.values.iter().map(json).collect::<Vec<_>>().join(",")
            )
        }
        Some(Value::KvlistValue(list)) => {
            let pairs = list.values.iter().map(|pair| {
                (
                    pair.key.clone(),
                    pair.value.as_ref().map_or_else(|| "null".to_owned(), json),
                )
            });
            let members = last_wins(pairs).into_iter();
            let members = members.map(|(key, value)| format!("{}:{value}", json_string(&key)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        _ => text(value).unwrap(),
    }
}

fn text(value: &AnyValue) -> Option<String> {
    use base64::Engine;
    Some(match value.value.as_ref()? {
        Value::StringValue(text) => text.clone(),
        Value::BoolValue(value) => value.to_string(),
        Value::IntValue(value) => value.to_string(),
        Value::DoubleValue(number) if number.is_nan() => "NaN".to_owned(),
        Value::DoubleValue(number) if number.is_infinite() => {
            if *number > 0.0 {
                "Infinity".to_owned()
            } else {
                "-Infinity".to_owned()
            }
        }
        Value::DoubleValue(number) => ryu::Buffer::new().format(*number).to_owned(),
        Value::BytesValue(bytes) => base64::engine::general_purpose::STANDARD.encode(bytes),
        Value::ArrayValue(_) | Value::KvlistValue(_) => json(value),
        Value::StringValueStrindex(_) => return None,
    })
}

fn attributes(list: &[KeyValue]) -> Vec<(String, String)> {
    let pairs = list.iter().filter(|pair| !pair.key.is_empty());
    last_wins(pairs.map(|pair| {
        let value = pair.value.as_ref().and_then(text);
        (pair.key.clone(), value.unwrap_or_default())
    }))
}

fn get<'l>(list: &'l [(String, String)], key: &str) -> Option<&'l str> {
    let (_, value) = list.iter().find(|(known, _)| known == key)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

fn set(list: &mut Vec<(String, String)>, key: &str, value: impl Into<String>) {
    let value = value.into();
    *list = last_wins(list.drain(..).chain([(key.to_owned(), value)]));
}

fn cow_list(list: Vec<(String, String)>) -> Vec<crate::record::KeyValue<'static>> {
    list.into_iter()
        .map(|(key, value)| (key.into(), value.into()))
        .collect()
}

fn expected(request: &ExportLogsServiceRequest) -> Vec<Row> {
    let mut rows = Vec::new();
    for resource_logs in &request.resource_logs {
        for scope_logs in &resource_logs.scope_logs {
            let group = expected_group(resource_logs, scope_logs);
            let scope = expected_scope(scope_logs);
            let records = scope_logs.log_records.iter();
            rows.extend(records.map(|record| Row {
                group: group.clone(),
                record: expected_record(record, &scope),
            }));
        }
    }
    rows
}

fn expected_group(resource_logs: &ResourceLogs, scope_logs: &ScopeLogs) -> Group<'static> {
    let resource = resource_logs.resource.clone().unwrap_or_default();
    let mut list = attributes(&resource.attributes);
    let service = get(&list, "service.name")
        .unwrap_or("unknown_service")
        .to_owned();
    let keys = [
        "deployment.environment.name",
        "deployment.environment",
        "service.environment",
        "environment",
        "env",
    ];
    let environment = keys
        .iter()
        .find_map(|key| get(&list, key))
        .unwrap_or_default()
        .to_owned();
    if resource.dropped_attributes_count > 0 {
        set(
            &mut list,
            "otel.dropped_attributes_count",
            resource.dropped_attributes_count.to_string(),
        );
    }
    if !resource_logs.schema_url.is_empty() {
        set(
            &mut list,
            "otel.resource.schema_url",
            &resource_logs.schema_url,
        );
    }
    let scope = scope_logs.scope.clone().unwrap_or_default();
    Group {
        service: service.into(),
        environment: environment.into(),
        scope_name: scope.name.into(),
        scope_version: scope.version.into(),
        resource: cow_list(list),
        receiver: Receiver::OtlpHttp,
        received_at: NOW / 1_000_000,
    }
}

fn expected_scope(scope_logs: &ScopeLogs) -> Vec<(String, String)> {
    let scope = scope_logs.scope.clone().unwrap_or_default();
    let mut list = attributes(&scope.attributes);
    if scope.dropped_attributes_count > 0 {
        set(
            &mut list,
            "otel.scope.dropped_attributes_count",
            scope.dropped_attributes_count.to_string(),
        );
    }
    if !scope_logs.schema_url.is_empty() {
        set(&mut list, "otel.scope.schema_url", &scope_logs.schema_url);
    }
    list
}

fn expected_record(record: &LogRecord, scope: &[(String, String)]) -> Record<'static> {
    let mut list = attributes(&record.attributes);
    for (key, value) in scope {
        if !list.iter().any(|(known, _)| known == key) {
            list.push((key.clone(), value.clone()));
        }
    }
    let body = record
        .body
        .as_ref()
        .and_then(text)
        .filter(|body| !body.is_empty());
    let exception = match (
        get(&list, "exception.type"),
        get(&list, "exception.message"),
    ) {
        (Some(kind), Some(message)) => Some(format!("{kind}: {message}")),
        (kind, message) => kind.or(message).map(str::to_owned),
    };
    let event_name = Some(record.event_name.as_str()).filter(|name| !name.is_empty());
    let message = body
        .or(exception)
        .or_else(|| get(&list, "log.record.original").map(str::to_owned))
        .or_else(|| event_name.map(str::to_owned))
        .or_else(|| get(&list, "event.name").map(str::to_owned));
    if record.dropped_attributes_count > 0 {
        set(
            &mut list,
            "otel.dropped_attributes_count",
            record.dropped_attributes_count.to_string(),
        );
    }
    let known = (1..=24).contains(&record.severity_number);
    if !known && record.severity_number != 0 {
        set(
            &mut list,
            "watchtower.original_severity_number",
            record.severity_number.to_string(),
        );
    }
    let (timestamp, source, original) =
        expected_time(record.time_unix_nano, record.observed_time_unix_nano);
    if let Some(source) = source {
        set(&mut list, "watchtower.timestamp_source", source);
    }
    if let Some(original) = original {
        set(
            &mut list,
            "watchtower.original_timestamp",
            original.to_string(),
        );
    }
    Record {
        timestamp,
        level: level_of_number(record.severity_number.into())
            .unwrap_or_else(|| level_of_text(&record.severity_text)),
        severity_number: if known {
            record.severity_number as u8
        } else {
            0
        },
        severity_text: record.severity_text.clone().into(),
        message: message.unwrap_or_default().into(),
        trace_id: record
            .trace_id
            .as_slice()
            .try_into()
            .ok()
            .filter(|id| *id != [0; 16]),
        span_id: record
            .span_id
            .as_slice()
            .try_into()
            .ok()
            .filter(|id| *id != [0; 8]),
        trace_flags: (record.flags & 0xff) as u8,
        event_name: record.event_name.clone().into(),
        attributes: cow_list(list),
    }
}

/// The row's time, where it is from, and the time that could not be used.
fn expected_time(time: u64, observed: u64) -> (i64, Option<&'static str>, Option<u64>) {
    let admitted = |time: u64| {
        let time = i128::from(time);
        time >= i128::from(NOW - 30 * DAY) && time <= i128::from(NOW + DAY)
    };
    let beyond = |time: u64| time > i64::MAX as u64;
    if time != 0 && !beyond(time) {
        return match admitted(time) {
            true => (time as i64, None, None),
            false => (NOW, Some("received"), Some(time)),
        };
    }
    let original = (time != 0).then_some(time);
    if observed != 0 && admitted(observed) {
        return (observed as i64, Some("observed"), original);
    }
    (
        NOW,
        Some("received"),
        original.or((observed != 0).then_some(observed)),
    )
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        "\\PC{0,8}",
        Just(String::new()),
        Just("a\"b\\c\n\u{1}\u{7f}\u{2028}é😀\0".to_owned()),
        Just("long ".repeat(40)),
    ]
}

fn any_key() -> impl Strategy<Value = String> {
    let known = [
        "",
        "a",
        "b",
        "a.b",
        "service.name",
        "env",
        "deployment.environment",
        "exception.type",
        "exception.message",
        "log.record.original",
        "event.name",
        "otel.scope.schema_url",
        "watchtower.timestamp_source",
    ];
    prop_oneof![3 => prop::sample::select(known.to_vec()).prop_map(str::to_owned), 1 => any_text()]
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        Just(None),
        any_text().prop_map(|text| Some(Value::StringValue(text))),
        any::<bool>().prop_map(|value| Some(Value::BoolValue(value))),
        any::<i64>().prop_map(|value| Some(Value::IntValue(value))),
        any::<f64>().prop_map(|value| Some(Value::DoubleValue(value))),
        prop::sample::select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e21, 0.1][..])
            .prop_map(|value| Some(Value::DoubleValue(value))),
        vec(any::<u8>(), 0..8).prop_map(|bytes| Some(Value::BytesValue(bytes))),
    ];
    let leaf = leaf.prop_map(|value| AnyValue { value });
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(|values| Value::ArrayValue(ArrayValue { values })),
            vec(key_value_of(inner), 0..4)
                .prop_map(|values| Value::KvlistValue(KeyValueList { values })),
        ]
        .prop_map(|value| AnyValue { value: Some(value) })
    })
}

fn key_value_of(value: impl Strategy<Value = AnyValue>) -> impl Strategy<Value = KeyValue> {
    (any_key(), prop::option::of(value)).prop_map(|(key, value)| KeyValue {
        key,
        value,
        key_strindex: 0,
    })
}

fn any_attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    prop_oneof![
        4 => vec(key_value_of(any_value()), 0..6),
        1 => vec(("[a-d]{1,3}", any_value()), 10..60).prop_map(|pairs| {
            let pair = |(key, value)| KeyValue { key, value: Some(value), key_strindex: 0 };
            pairs.into_iter().map(pair).collect()
        }),
    ]
}

fn any_time() -> impl Strategy<Value = u64> {
    let edges = [
        0,
        1,
        NOW as u64,
        (NOW - 30 * DAY) as u64,
        (NOW + DAY) as u64,
        1 << 63,
        u64::MAX,
        i64::MAX as u64,
    ];
    prop_oneof![
        prop::sample::select(edges.to_vec()),
        (NOW - 31 * DAY..NOW + 2 * DAY).prop_map(|time| time as u64),
        any::<u64>(),
    ]
}

fn any_id(length: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => vec(any::<u8>(), length),
        1 => vec(128u8.., 0..20),
        1 => Just(vec![0; length]),
    ]
}

fn any_record() -> impl Strategy<Value = LogRecord> {
    let texts = [
        "",
        "INFO",
        "warning",
        "[ERR]",
        "30",
        "Information",
        "nonsense",
    ];
    let severity_text = prop_oneof![
        prop::sample::select(texts.to_vec()).prop_map(str::to_owned),
        any_text()
    ];
    let scalars = (
        any_time(),
        any_time(),
        -2..27i32,
        severity_text,
        any::<u32>(),
        0..3u32,
        any_text(),
    );
    let rest = (
        prop::option::of(any_value()),
        any_attributes(),
        any_id(16),
        any_id(8),
    );
    (scalars, rest).prop_map(|(scalars, rest)| {
        let (
            time_unix_nano,
            observed_time_unix_nano,
            severity_number,
            severity_text,
            flags,
            dropped,
            event_name,
        ) = scalars;
        let (body, attributes, trace_id, span_id) = rest;
        LogRecord {
            time_unix_nano,
            observed_time_unix_nano,
            severity_number,
            severity_text,
            body,
            attributes,
            dropped_attributes_count: dropped,
            flags,
            trace_id,
            span_id,
            event_name,
        }
    })
}

fn any_scope() -> impl Strategy<Value = InstrumentationScope> {
    (any_text(), any_text(), any_attributes(), 0..2u32).prop_map(
        |(name, version, attributes, dropped)| InstrumentationScope {
            name,
            version,
            attributes,
            dropped_attributes_count: dropped,
        },
    )
}

fn any_request() -> impl Strategy<Value = ExportLogsServiceRequest> {
    let scope_logs = (
        prop::option::of(any_scope()),
        vec(any_record(), 0..4),
        any_text(),
    )
        .prop_map(|(scope, log_records, schema_url)| ScopeLogs {
            scope,
            log_records,
            schema_url,
        });
    let resource = (any_attributes(), 0..2u32).prop_map(|(attributes, dropped)| Resource {
        attributes,
        dropped_attributes_count: dropped,
        entity_refs: Vec::new(),
    });
    let resource_logs = (
        prop::option::of(resource),
        vec(scope_logs, 0..3),
        any_text(),
    )
        .prop_map(|(resource, scope_logs, schema_url)| ResourceLogs {
            resource,
            scope_logs,
            schema_url,
        });
    vec(resource_logs, 0..3).prop_map(|resource_logs| ExportLogsServiceRequest { resource_logs })
}

/// How a sender writes JSON.
#[derive(Debug, Clone, Copy)]
struct Style {
    snake_case: bool,
    numbers_in_quotes: bool,
    backwards: bool,
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
        let hex = |bytes: &[u8]| {
            let digits: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
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
            ("traceId", hex(&record.trace_id)),
            ("spanId", hex(&record.span_id)),
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

    fn request(self, request: &ExportLogsServiceRequest) -> String {
        self.object(vec![(
            "resourceLogs",
            self.array(&request.resource_logs, Self::resource_logs),
        )])
    }
}

fn num_records(request: &ExportLogsServiceRequest) -> usize {
    let scopes = request
        .resource_logs
        .iter()
        .flat_map(|logs| &logs.scope_logs);
    scopes.map(|logs| logs.log_records.len()).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn protobuf_comes_out_as_prost_reads_it(request in any_request()) {
        let (outcome, rows) = run(PROTOBUF, request.encode_to_vec()).unwrap();
        prop_assert_eq!(rows, expected(&request));
        prop_assert_eq!((outcome.rejected, outcome.message), (0, None));
    }

    #[test]
    fn json_comes_out_as_protobuf_does(
        request in any_request(),
        (snake_case, numbers_in_quotes, backwards) in any::<(bool, bool, bool)>(),
    ) {
        let style = Style { snake_case, numbers_in_quotes, backwards };
        let (outcome, rows) = run(JSON, style.request(&request)).unwrap();
        prop_assert_eq!(rows, expected(&request));
        prop_assert_eq!((outcome.rejected, outcome.message), (0, None));
    }

    #[test]
    fn what_prost_can_read_so_can_we(
        request in any_request(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
    ) {
        let mut body = request.encode_to_vec();
        for (place, byte) in changes.iter().filter(|_| !request.resource_logs.is_empty()) {
            let place = place.index(body.len());
            body[place] = *byte;
        }
        let ours = run(PROTOBUF, &body);
        if let Ok(request) = ExportLogsServiceRequest::decode(&*body) {
            let (_, rows) = ours.unwrap();
            prop_assert_eq!(rows.len(), num_records(&request));
        }
    }
}
