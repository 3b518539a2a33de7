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
