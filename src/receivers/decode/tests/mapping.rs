//! Section M of the conformance list, where a whole request is needed to see it.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, EntityRef, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use super::*;
use crate::record::Level;

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

fn body(text: &str) -> Option<AnyValue> {
    Some(AnyValue {
        value: Some(Value::StringValue(text.to_owned())),
    })
}

fn request(logs: ResourceLogs) -> Vec<u8> {
    ExportLogsServiceRequest {
        resource_logs: vec![logs],
    }
    .encode_to_vec()
}

fn export(records: Vec<LogRecord>) -> Vec<u8> {
    let scope_logs = vec![ScopeLogs {
        log_records: records,
        ..ScopeLogs::default()
    }];
    request(ResourceLogs {
        scope_logs,
        ..ResourceLogs::default()
    })
}

/// The row of one record, dated now.
fn row(record: LogRecord) -> Row {
    let record = LogRecord {
        time_unix_nano: NOW as u64,
        ..record
    };
    accepted(PROTOBUF, export(vec![record])).remove(0)
}

#[test]
fn m_01_m_02_number_wins_and_both_are_kept() {
    let record = row(LogRecord {
        severity_number: 17,
        severity_text: "30".to_owned(),
        ..LogRecord::default()
    })
    .record;
    assert_eq!(
        (record.level, record.severity_number, &*record.severity_text),
        (Level::Error, 17, "30")
    );
}

#[test]
fn m_03_unusable_severity_is_unspecified_and_noted() {
    for number in [-1, 25, i32::MAX, i32::MIN] {
        let row = row(LogRecord {
            severity_number: number,
            ..LogRecord::default()
        });
        assert_eq!(
            (row.record.level, row.record.severity_number),
            (Level::Unspecified, 0)
        );
        assert_eq!(
            row.attribute("watchtower.original_severity_number"),
            Some(&*number.to_string())
        );
    }
    let row = row(LogRecord {
        severity_number: 99,
        severity_text: "warn".to_owned(),
        ..LogRecord::default()
    });
    assert_eq!(row.record.level, Level::Warn);
}

#[test]
fn m_04_syslog_words() {
    for (text, level) in [
        ("notice", Level::Info),
        ("crit", Level::Error),
        ("alert", Level::Error),
        ("emerg", Level::Fatal),
    ] {
        let row = row(LogRecord {
            severity_text: text.to_owned(),
            ..LogRecord::default()
        });
        assert_eq!(row.record.level, level, "{text}");
    }
}

#[test]
fn m_07_strings_are_kept_to_the_byte() {
    for text in [
        "  padded \t",
        "line\r\nbreak\n",
        "\"quoted\"",
        "nul\0",
        "\u{1b}[31mred\u{202e}",
    ] {
        let row = row(LogRecord {
            body: body(text),
            attributes: vec![string("k", text)],
            ..LogRecord::default()
        });
        assert_eq!((row.message(), row.attribute("k")), (text, Some(text)));
    }
}

#[test]
fn m_08_what_stands_in_for_an_empty_body() {
    let mut attributes = vec![string("event.name", "5")];
    let record = |attributes: &Vec<KeyValue>, event_name: &str| LogRecord {
        event_name: event_name.to_owned(),
        attributes: attributes.clone(),
        ..LogRecord::default()
    };
    assert_eq!(row(record(&vec![], "")).message(), "");
    assert_eq!(row(record(&attributes, "")).message(), "5");
    assert_eq!(row(record(&attributes, "4")).message(), "4");
    attributes.push(string("log.record.original", "3"));
    assert_eq!(row(record(&attributes, "4")).message(), "3");
    attributes.push(string("exception.message", "boom"));
    assert_eq!(row(record(&attributes, "4")).message(), "boom");
    attributes.push(string("exception.type", "E"));
    assert_eq!(row(record(&attributes, "4")).message(), "E: boom");
}

#[test]
fn m_09_m_10_event_name_and_stack_trace_keep_their_places() {
    let row = row(LogRecord {
        body: body("text"),
        event_name: "event src/main.rs:3".to_owned(),
        attributes: vec![string("exception.stacktrace", "at a\nat b")],
        ..LogRecord::default()
    });
    assert_eq!(
        (row.message(), row.record.event_name.as_ref()),
        ("text", "event src/main.rs:3")
    );
    assert_eq!(row.attribute("exception.stacktrace"), Some("at a\nat b"));
}

#[test]
fn m_11_m_12_maps_stay_whole_and_templates_as_sent() {
    assert_eq!(
        message_of(r#"{"kvlistValue":{"values":[{"key":"msg","value":{"stringValue":"m"}}]}}"#),
        r#"{"msg":"m"}"#
    );
    assert_eq!(
        row(LogRecord {
            body: body("Hello {Name}"),
            ..LogRecord::default()
        })
        .message(),
        "Hello {Name}"
    );
}

#[test]
fn m_13_references_into_the_profiles_table_are_absent() {
    let reference = AnyValue {
        value: Some(Value::StringValueStrindex(3)),
    };
    let record = LogRecord {
        time_unix_nano: NOW as u64,
        body: Some(reference.clone()),
        attributes: vec![
            KeyValue {
                key: String::new(),
                value: Some(reference.clone()),
                key_strindex: 4,
            },
            KeyValue {
                key: "k".to_owned(),
                value: Some(reference),
                key_strindex: 0,
            },
        ],
        ..LogRecord::default()
    };
    let (outcome, rows) = run(PROTOBUF, export(vec![record])).unwrap();
    assert_eq!(
        (rows[0].message(), outcome.repairs.string_table_refs),
        ("", 4)
    );
    assert_eq!(rows[0].record.attributes, [("k".into(), "".into())]);
    let json = r#"{"body":{"stringValueStrindex":3},"attributes":[{"keyStrindex":4,"value":{"intValue":1}}]}"#;
    assert_eq!(beside_control(json)[0].message(), "");
}

#[test]
fn m_19_equal_records_are_all_kept() {
    let record = LogRecord {
        body: body("again"),
        ..LogRecord::default()
    };
    assert_eq!(
        accepted(PROTOBUF, export(vec![record.clone(), record])).len(),
        2
    );
}

#[test]
fn m_23_log_attributes_never_name_the_service() {
    let attributes = vec![
        string("service.name", "x"),
        string("deployment.environment.name", "y"),
    ];
    let row = row(LogRecord {
        attributes,
        ..LogRecord::default()
    });
    assert_eq!(
        (row.group.service.as_ref(), row.group.environment.as_ref()),
        ("unknown_service", "")
    );
    assert_eq!(row.attribute("service.name"), Some("x"));
}

#[test]
fn m_24_ids_are_judged_apart_and_cost_nobody_anything() {
    let records = [(16, 7), (15, 8), (0, 0), (16, 8)].map(|(trace, span)| LogRecord {
        trace_id: vec![200; trace],
        span_id: vec![200; span],
        ..LogRecord::default()
    });
    let (outcome, rows) = run(PROTOBUF, export(records.to_vec())).unwrap();
    let found: Vec<_> = rows
        .iter()
        .map(|row| (row.record.trace_id.is_some(), row.record.span_id.is_some()))
        .collect();
    assert_eq!(
        found,
        [(true, false), (false, true), (false, false), (true, true)]
    );
    assert_eq!(outcome.repairs.invalid_ids, 2);
    let kept = rows.iter().map(|row| {
        let kept = |id| row.attribute(id).map(str::to_owned);
        [
            kept("watchtower.original_trace_id"),
            kept("watchtower.original_span_id"),
        ]
    });
    assert_eq!(
        kept.collect::<Vec<_>>(),
        [
            [None, Some("c8".repeat(7))],
            [Some("c8".repeat(15)), None],
            [None, None],
            [None, None]
        ]
    );
}

#[test]
fn m_26_only_the_low_eight_flags_count() {
    let row = row(LogRecord {
        flags: 0xffff_ff01,
        ..LogRecord::default()
    });
    assert_eq!(row.record.trace_flags, 1);
}

#[test]
fn m_27_m_28_m_29_counts_scope_and_schemas() {
    let logs = |dropped, schema_url: &str| ResourceLogs {
        resource: Some(Resource {
            dropped_attributes_count: dropped,
            ..Resource::default()
        }),
        schema_url: schema_url.to_owned(),
        scope_logs: vec![ScopeLogs {
            scope: Some(InstrumentationScope {
                name: "logger".to_owned(),
                version: "2".to_owned(),
                attributes: vec![string("shared", "scope"), string("own", "scope")],
                dropped_attributes_count: dropped * 2,
            }),
            log_records: vec![LogRecord {
                time_unix_nano: NOW as u64,
                attributes: vec![string("own", "record")],
                dropped_attributes_count: dropped * 3,
                ..LogRecord::default()
            }],
            schema_url: schema_url.to_owned(),
        }],
    };
    let row = accepted(PROTOBUF, request(logs(1, "url"))).remove(0);
    assert_eq!(
        (
            row.group.scope_name.as_ref(),
            row.group.scope_version.as_ref()
        ),
        ("logger", "2")
    );
    assert_eq!(row.resource("otel.dropped_attributes_count"), Some("1"));
    assert_eq!(
        row.attribute("otel.scope.dropped_attributes_count"),
        Some("2")
    );
    assert_eq!(row.attribute("otel.dropped_attributes_count"), Some("3"));
    assert_eq!(row.attribute("otel.scope.schema_url"), Some("url"));
    assert_eq!(row.resource("otel.resource.schema_url"), Some("url"));
    assert_eq!(
        (row.attribute("own"), row.attribute("otel.scope.own")),
        (Some("record"), Some("scope"))
    );
    let row = accepted(PROTOBUF, request(logs(0, ""))).remove(0);
    assert_eq!(
        row.record.attributes,
        [
            ("own".into(), "record".into()),
            ("otel.scope.shared".into(), "scope".into()),
            ("otel.scope.own".into(), "scope".into())
        ]
    );
    assert_eq!(row.group.resource, []);
}

#[test]
fn m_30_last_of_equal_keys_wins_at_every_level() {
    let pairs = r#"[{"key":"k","value":{"intValue":1}},{"key":"x","value":{"intValue":3}},{"key":"k","value":{"intValue":2}}]"#;
    let nested = format!(r#"{{"kvlistValue":{{"values":{pairs}}}}}"#);
    assert_eq!(message_of(&nested), r#"{"k":2,"x":3}"#);
    let nested = format!(r#"{{"arrayValue":{{"values":[{nested}]}}}}"#);
    assert_eq!(message_of(&nested), r#"[{"k":2,"x":3}]"#);
    let many: Vec<_> = (0..60)
        .map(|i| format!(r#"{{"key":"k{}","value":{{"intValue":{i}}}}}"#, i % 20))
        .collect();
    let many = message_of(&format!(
        r#"{{"kvlistValue":{{"values":[{}]}}}}"#,
        many.join(",")
    ));
    assert!(
        many.starts_with(r#"{"k0":40,"k1":41"#) && many.ends_with(r#""k19":59}"#),
        "{many}"
    );
}

#[test]
fn m_32_a_structured_value_is_cut_too() {
    let item = r#"{"stringValue":"0123456789"}"#;
    let list = vec![item; 20_000].join(",");
    let rows = accepted(
        JSON,
        one(&format!(
            r#"{{"attributes":[{{"key":"k","value":{{"arrayValue":{{"values":[{list}]}}}}}}]}}"#
        )),
    );
    assert_eq!(rows[0].attribute("k").unwrap().len(), 64 << 10);
    assert!(
        rows[0]
            .attribute("watchtower.truncated")
            .unwrap()
            .starts_with("k (")
    );
}

#[test]
fn m_35_entity_refs_take_nothing_away() {
    let resource = Resource {
        attributes: vec![string("service.name", "shop")],
        entity_refs: vec![EntityRef {
            r#type: "service".to_owned(),
            id_keys: vec!["service.name".to_owned()],
            ..EntityRef::default()
        }],
        ..Resource::default()
    };
    let scope_logs = vec![ScopeLogs {
        log_records: vec![LogRecord::default()],
        ..ScopeLogs::default()
    }];
    let logs = ResourceLogs {
        resource: Some(resource),
        scope_logs,
        ..ResourceLogs::default()
    };
    assert_eq!(
        accepted(PROTOBUF, request(logs))[0].resource("service.name"),
        Some("shop")
    );
}

#[test]
fn m_36_empty_envelopes_and_a_record_of_defaults() {
    assert_eq!(accepted(PROTOBUF, []), []);
    assert_eq!(accepted(PROTOBUF, request(ResourceLogs::default())), []);
    assert_eq!(accepted(PROTOBUF, export(vec![])), []);
    let rows = accepted(PROTOBUF, export(vec![LogRecord::default()]));
    assert_eq!((rows[0].record.timestamp, rows[0].message()), (NOW, ""));
    assert_eq!(accepted(JSON, r#"{"resourceLogs":[]}"#), []);
    assert_eq!(accepted(JSON, one("{}")).len(), 1);
}

#[test]
fn small_bodies_cannot_ask_for_all_memory() {
    let scope_logs = vec![ScopeLogs {
        scope: Some(InstrumentationScope {
            attributes: (0..500)
                .map(|i| string(&format!("k{i}"), &"v".repeat(1000)))
                .collect(),
            ..InstrumentationScope::default()
        }),
        log_records: vec![LogRecord::default(); 10_000],
        ..ScopeLogs::default()
    }];
    let body = request(ResourceLogs {
        scope_logs,
        ..ResourceLogs::default()
    });
    let limits = Limits {
        expanded: 8 << 20,
        ..context().limits
    };
    let mut sink = Collected::default();
    let error = decode_protobuf(
        &body,
        &Context {
            limits,
            ..context()
        },
        &mut sink,
    )
    .unwrap_err();
    assert_eq!(error, DecodeError::Expands { limit: 8 << 20 });
    assert!(
        sink.rows.len() < 20,
        "{} of 10,000 records came through",
        sink.rows.len()
    );
}
