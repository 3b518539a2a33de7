//! Nothing that a logger sends over the native door is lost: whatever of the known names stand beside each
//! other, each value is in its field, or an attribute under its own key.

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::*;

/// What a name's values are.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Time,
    Level,
    Number,
    Trace,
    Span,
    Flags,
    Text,
}

const NAMES: [(Kind, &[&str]); 7] = [
    (
        Kind::Time,
        &["timestamp", "@timestamp", "time", "ts", "date"],
    ),
    (
        Kind::Level,
        &["level", "severity", "lvl", "loglevel", "severity_text"],
    ),
    (Kind::Number, &["severity_number", "severityNumber"]),
    (Kind::Trace, &["trace_id", "traceId", "trace.id"]),
    (Kind::Span, &["span_id", "spanId"]),
    (Kind::Flags, &["trace_flags", "traceFlags"]),
    (
        Kind::Text,
        &[
            "service",
            "service.name",
            "app",
            "name",
            "pid",
            "hostname",
            "v",
            "environment",
            "env",
            "message",
            "msg",
            "short_message",
            "log",
            "event",
            "event_name",
            "scope_name",
            "logger",
            "scope_version",
            "id",
            "receiver",
            "received_at",
            "other",
        ],
    ),
];

fn value(kind: Kind, number: u32) -> BoxedStrategy<String> {
    let good = match kind {
        Kind::Time => Just((NOW - i64::from(number) * 1_000_000_007).to_string()).boxed(),
        Kind::Level => select(vec![
            "info", "WARN", "error", "50", "3", "notice", "DEBUG2", "odd",
        ])
        .prop_map(str::to_owned)
        .boxed(),
        Kind::Number => (1u8..=24).prop_map(|number: u8| number.to_string()).boxed(),
        Kind::Trace => any::<u128>().prop_map(|id| format!("{id:032x}")).boxed(),
        Kind::Span => any::<u64>().prop_map(|id| format!("{id:016x}")).boxed(),
        Kind::Flags => select(vec!["00", "01", "03"])
            .prop_map(str::to_owned)
            .boxed(),
        Kind::Text => Just(format!("text {number}")).boxed(),
    };
    prop_oneof![8 => good, 1 => Just(format!("odd {number}"))].boxed()
}

fn fields() -> impl Strategy<Value = Vec<(Kind, &'static str, String)>> {
    let all = NAMES.iter();
    let all: Vec<_> = all
        .flat_map(|(kind, names)| names.iter().map(|name| (*kind, *name)))
        .collect();
    let some = subsequence(all.clone(), 1..all.len()).prop_shuffle();
    some.prop_flat_map(|names| {
        let fields = names.into_iter().zip(0..);
        let fields =
            fields.map(|((kind, name), number)| (Just(kind), Just(name), value(kind, number)));
        fields.collect::<Vec<_>>()
    })
}

fn hex(bytes: Option<&[u8]>) -> String {
    let bytes = bytes.unwrap_or_default().iter();
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn is_kept(row: &Row, kind: Kind, key: &str, value: &str) -> bool {
    let (record, group) = (&row.record, &row.group);
    let as_level = || {
        let level = level_of_text(value, Digits::default());
        level != Default::default() && level == record.level
    };
    row.attribute(key) == Some(value)
        || match kind {
            Kind::Time => record.timestamp.to_string() == value,
            Kind::Level => record.severity_text == value || as_level(),
            Kind::Number => record.severity_number.to_string() == value,
            Kind::Trace => hex(record.trace_id.as_ref().map(|id| &id[..])) == value,
            Kind::Span => hex(record.span_id.as_ref().map(|id| &id[..])) == value,
            Kind::Flags => format!("{:02x}", record.trace_flags) == value,
            Kind::Text => [
                &group.service,
                &group.environment,
                &group.scope_name,
                &group.scope_version,
                &record.message,
                &record.event_name,
            ]
            .iter()
            .any(|field| **field == value),
        }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn every_value_is_in_its_field_or_an_attribute(fields in fields()) {
        let members = fields.iter().map(|(_, name, value)| format!(r#""{name}":"{value}""#));
        let body = format!("{{{}}}", members.collect::<Vec<_>>().join(","));
        let rows = accepted(NATIVE, &body);
        for (kind, name, value) in &fields {
            prop_assert!(is_kept(&rows[0], *kind, name, value), "{} of {}: {:?}", name, body, rows[0]);
        }
    }
}

#[test]
fn bunyans_name_is_an_attribute_where_a_better_one_names_the_service() {
    let bunyan = r#""name":"worker","pid":1,"hostname":"h","v":0,"msg":"m""#;
    let row = &accepted(NATIVE, format!(r#"{{"service":"shop",{bunyan}}}"#))[0];
    assert_eq!(row.group.service, "shop");
    assert_eq!(row.attribute("name"), Some("worker"));
    let row = &accepted(NATIVE, format!("{{{bunyan}}}"))[0];
    assert_eq!(
        (row.group.service.as_ref(), row.attribute("name")),
        ("worker", None)
    );
}

#[test]
fn a_level_that_the_severity_text_does_not_say_is_an_attribute() {
    for (body, kept) in [
        (r#"{"level":"warn","severity_text":"W"}"#, None),
        (r#"{"level":"odd","severity_text":"W"}"#, Some("odd")),
        (
            r#"{"level":"info","severity_text":"W","severity_number":17}"#,
            Some("info"),
        ),
        (r#"{"level":"odd"}"#, None),
    ] {
        assert_eq!(accepted(NATIVE, body)[0].attribute("level"), kept, "{body}");
    }
}

#[test]
fn members_that_come_to_one_key_are_all_kept() {
    for (body, kept) in [
        (
            r#"{"k":"top","attributes":{"k":"inner"}}"#,
            [("k", "inner"), ("watchtower.sent.k", "top")],
        ),
        (
            r#"{"attributes":{"k":"inner"},"k":"top"}"#,
            [("k", "top"), ("watchtower.sent.k", "inner")],
        ),
        (
            r#"{"user.id":7,"user":{"id":8}}"#,
            [("user.id", "8"), ("watchtower.sent.user.id", "7")],
        ),
        (
            r#"{"trace_flags":300,"other":"o"}"#,
            [("trace_flags", "300"), ("other", "o")],
        ),
    ] {
        let row = &accepted(NATIVE, body)[0];
        for (key, value) in kept {
            assert_eq!(row.attribute(key), Some(value), "{key} of {body}");
        }
    }
    let row = &accepted(NATIVE, r#"{"a":{"b.c":1,"b":{"c":2}},"a.b":{"c":3}}"#)[0];
    let values = [
        "a.b.c",
        "watchtower.sent.a.b.c",
        "watchtower.sent.watchtower.sent.a.b.c",
    ];
    let values = values.map(|key| row.attribute(key));
    assert_eq!(values, [Some("3"), Some("1"), Some("2")]);
    // Equal values are one.
    let row = &accepted(NATIVE, r#"{"a.b":1,"a":{"b":1}}"#)[0];
    assert_eq!(row.attribute("a.b"), Some("1"));
    assert_eq!(row.attribute("watchtower.sent.a.b"), None);
}

#[test]
fn m_23_m_27_m_28_what_was_sent_under_a_key_of_ours_moves_aside() {
    let big = "b".repeat(70_000);
    let native = format!(r#"{{"watchtower.truncated":"mine","big":"{big}"}}"#);
    let row = &accepted(NATIVE, native)[0];
    assert_eq!(
        row.attribute("watchtower.truncated"),
        Some("big (70000 bytes)")
    );
    assert_eq!(
        row.attribute("watchtower.sent.watchtower.truncated"),
        Some("mine")
    );
    let pair = |key: &str| format!(r#"{{"key":"{key}","value":{{"stringValue":"sent"}}}}"#);
    let pairs = |keys: &[&str]| {
        keys.iter()
            .map(|key| pair(key))
            .collect::<Vec<_>>()
            .join(",")
    };
    let body = format!(
        r#"{{"resourceLogs":[{{"schemaUrl":"ru","resource":{{"droppedAttributesCount":1,"attributes":[{}]}},"scopeLogs":[{{"schemaUrl":"su","scope":{{"droppedAttributesCount":2,"attributes":[{}]}},"logRecords":[{{"droppedAttributesCount":3,"traceId":"odd","severityNumber":"loud","attributes":[{}]}}]}}]}}]}}"#,
        pairs(&["otel.resource.schema_url", "otel.dropped_attributes_count"]),
        pairs(&["schema_url", "dropped_attributes_count"]),
        pairs(&[
            "otel.dropped_attributes_count",
            "watchtower.timestamp_source",
            "watchtower.original_trace_id",
            "watchtower.original_severity_number",
            "watchtower.sent.watchtower.original_trace_id"
        ]),
    );
    let row = &accepted(JSON, body)[0];
    for (key, ours) in [
        ("otel.resource.schema_url", "ru"),
        ("otel.dropped_attributes_count", "1"),
    ] {
        assert_eq!(row.resource(key), Some(ours), "{key}");
        assert_eq!(
            row.resource(&format!("watchtower.sent.{key}")),
            Some("sent"),
            "{key}"
        );
    }
    for (key, ours) in [
        ("otel.dropped_attributes_count", "3"),
        ("watchtower.timestamp_source", "received"),
        ("watchtower.original_trace_id", "odd"),
        ("watchtower.original_severity_number", "loud"),
        ("watchtower.sent.watchtower.original_trace_id", "sent"),
    ] {
        assert_eq!(row.attribute(key), Some(ours), "{key}");
        assert_eq!(
            row.attribute(&format!("watchtower.sent.{key}")),
            Some("sent"),
            "{key}"
        );
    }
    for (key, ours) in [("schema_url", "su"), ("dropped_attributes_count", "2")] {
        assert_eq!(
            row.attribute(&format!("otel.scope.{key}")),
            Some(ours),
            "{key}"
        );
        let aside = format!("otel.scope.watchtower.sent.{key}");
        assert_eq!(row.attribute(&aside), Some("sent"), "{key}");
    }
}

#[test]
fn m_20_m_21_m_32_service_and_environment_are_found_behind_any_number_of_others() {
    let others = |quote: fn(usize) -> String| (0..600).map(quote).collect::<Vec<_>>().join(",");
    let native = others(|i| format!(r#""k{i}":1"#));
    let native = format!(r#"{{"resource":{{{native},"service.name":"shop","env":"prod"}}}}"#);
    let pairs = others(|i| format!(r#"{{"key":"k{i}","value":{{"intValue":"1"}}}}"#));
    let otlp = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{pairs},{{"key":"service.name","value":{{"stringValue":"shop"}}}},{{"key":"env","value":{{"stringValue":"prod"}}}}]}},"scopeLogs":[{{"logRecords":[{{}}]}}]}}]}}"#
    );
    for (decode, body) in [(NATIVE, native), (JSON, otlp)] {
        let row = &accepted(decode, body)[0];
        let names = (row.group.service.as_ref(), row.group.environment.as_ref());
        assert_eq!(names, ("shop", "prod"));
        assert_eq!(
            row.resource("watchtower.truncated"),
            Some("attributes (600)")
        );
    }
}

#[test]
fn m_33_the_mark_of_a_value_that_is_too_deep_is_the_records() {
    let deep = format!("{}1{}", "[".repeat(70), "]".repeat(70));
    let row = &accepted(NATIVE, format!(r#"{{"d":{deep}}}"#))[0];
    assert_eq!(row.resource("watchtower.truncated"), None);
    let note = row.attribute("watchtower.truncated").unwrap();
    assert!(note.contains("nested over 64 deep"), "{note}");
}
