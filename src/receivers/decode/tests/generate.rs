//! Requests of every shape, for the property tests.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::collection::vec;
use proptest::prelude::*;

use super::{DAY, NOW};

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
        (NOW + 365 * DAY) as u64,
        1 << 63,
        u64::MAX,
        i64::MAX as u64,
    ];
    prop_oneof![
        prop::sample::select(edges.to_vec()),
        (NOW - 31 * DAY..NOW + 366 * DAY).prop_map(|time| time as u64),
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

pub(super) fn any_request() -> impl Strategy<Value = ExportLogsServiceRequest> {
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
