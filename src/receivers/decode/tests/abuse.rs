//! Bodies made to cost far more than their size. What is told by the clock would take minutes if the
//! cost were the square of the body.

use std::time::{Duration, Instant};

use super::*;
use crate::receivers::decode::tests::reports::{export, field};

const PATIENCE: Duration = Duration::from_secs(10);

fn in_time<T>(work: impl FnOnce() -> T) -> T {
    let started = Instant::now();
    let value = work();
    let took = started.elapsed();
    assert!(took < PATIENCE, "took {took:?}");
    value
}

#[test]
fn a_long_key_before_many_short_ones_is_not_copied_for_each() {
    let (long, cut) = ("k".repeat(2 << 20), "k".repeat(1024));
    let members = vec![r#""a":1"#; 200_000].join(",");
    for body in [
        format!(r#"{{"{long}":{{{members}}}}}"#),
        format!(r#"{{"resource":{{"{long}":{{{members}}}}}}}"#),
        format!(r#"{{"attributes":{{"{long}":{{{members}}}}},"message":""}}"#),
    ] {
        let (outcome, rows) = in_time(|| run(NATIVE, &body).unwrap());
        assert_eq!(outcome.repairs.duplicate_keys, 199_999);
        let row = &rows[0];
        let list = [&row.record.attributes[..], &row.group.resource[..]].concat();
        let note = find(&list, "watchtower.truncated").unwrap();
        assert_eq!(find(&list, &cut), Some("1"));
        assert!(note.starts_with(&cut) && note.ends_with(" (2097154 bytes)"));
    }
}

#[test]
fn scopes_without_records_do_not_copy_their_resource() {
    let attributes =
        (0..500).map(|i| format!(r#"{{"key":"\u006b{i}","value":{{"stringValue":"\u0076{i}"}}}}"#));
    let attributes = attributes.collect::<Vec<_>>().join(",");
    let scopes = vec!["{}"; 500_000].join(",");
    let body = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{attributes}]}},"scopeLogs":[{{"scope":{{"name":"one"}},"logRecords":[{{}}]}},{scopes},null,{{"logRecords":[{{}}]}}]}}]}}"#
    );
    let rows = in_time(|| accepted(JSON, &body));
    assert_eq!(rows.len(), 2);
    let names = rows.iter().map(|row| row.group.scope_name.as_ref());
    assert_eq!(names.collect::<Vec<_>>(), ["one", ""]);
    for row in &rows {
        assert_eq!(row.group.resource.len(), 500);
        assert_eq!(row.resource("k499"), Some("v499"));
    }

    let attribute = |i: usize| {
        let key = field(1, format!("k{i}").as_bytes());
        field(1, &[key, field(2, &field(1, b"v"))].concat())
    };
    let resource: Vec<u8> = (0..500).flat_map(attribute).collect();
    let mut logs = field(1, &resource);
    logs.extend([0x12, 0].repeat(500_000));
    logs.extend(field(2, &field(2, &[])));
    let rows = in_time(|| accepted(PROTOBUF, field(1, &logs)));
    assert_eq!((rows.len(), rows[0].resource("k499")), (1, Some("v")));
}

#[test]
fn many_attributes_of_few_keys_and_of_many_are_read_in_time() {
    for distinct in [1, 17, 512, 100_000] {
        let attributes = (0..100_000).flat_map(|i| {
            let key = field(1, format!("key-{}", i % distinct).as_bytes());
            field(6, &[key, field(2, &field(1, b"v"))].concat())
        });
        let body = export(&[attributes.collect()]);
        let rows = in_time(|| accepted(PROTOBUF, body));
        let kept = distinct.min(512);
        assert_eq!(rows[0].attribute(&format!("key-{}", kept - 1)), Some("v"));
        let cut = rows[0].attribute("watchtower.truncated");
        assert_eq!(cut.is_some(), distinct > 512);
    }
}

#[test]
fn times_and_schemas_cannot_be_longer_than_a_name() {
    let zeros = "0".repeat(3000);
    let native = format!(r#"{{"ts":"{zeros}1","message":"m"}}"#);
    let otlp = one(&format!(
        r#"{{"timeUnixNano":"1970-01-01T00:00:00.{zeros}Z"}}"#
    ));
    for row in [accepted(NATIVE, native), accepted(JSON, otlp)].concat() {
        let original = row.attribute("watchtower.original_timestamp").unwrap();
        assert_eq!(original.len(), 1024);
        let note = row.attribute("watchtower.truncated").unwrap();
        assert!(
            note.starts_with("watchtower.original_timestamp (30"),
            "{note}"
        );
    }
    let (url, cut) = ("u".repeat(3000), "u".repeat(1024));
    let body = format!(
        r#"{{"resourceLogs":[{{"schemaUrl":"{url}","scopeLogs":[{{"schemaUrl":"{url}","logRecords":[{{}}]}}]}}]}}"#
    );
    let row = &accepted(JSON, body)[0];
    assert_eq!(row.resource("otel.resource.schema_url"), Some(&*cut));
    assert_eq!(
        row.resource("watchtower.truncated"),
        Some("otel.resource.schema_url (3000 bytes)")
    );
    assert_eq!(row.attribute("otel.scope.schema_url"), Some(&*cut));
}

/// Case: a Java process whose command line of 16.5 kB stands in the resource of 8,192 records (135 MB if each
/// record repeated it).
/// Holds: it costs its text once.
#[test]
fn b_09_a_long_resource_is_in_a_frame_once_however_many_records_share_it() {
    let line = "c".repeat(16_500);
    let records = vec!["{}"; 8192].join(",");
    let body = format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{{"key":"process.command_line","value":{{"stringValue":"{line}"}}}}]}},"scopeLogs":[{{"logRecords":[{records}]}}]}}]}}"#
    );
    let limits = Limits {
        expanded: 1 << 20,
        ..context().limits
    };
    let context = Context {
        limits,
        ..context()
    };
    let mut builder = crate::frame::BlockBuilder::new();
    let outcome = decode_json(body.as_bytes(), &context, &mut builder).unwrap();
    assert_eq!((outcome.accepted, outcome.rejected), (8192, 0));
    assert!(builder.bytes() < 1 << 20, "{}", builder.bytes());
}

#[test]
fn empty_attributes_count_towards_what_a_request_may_grow_to() {
    // 250 attributes of two bytes each, repeated for 10,000 records: 250 × 2 bytes a row in a frame.
    let attribute = |i: u8| {
        let key = field(1, &[b'a' + i / 25, b'a' + i % 25]);
        field(1, &key)
    };
    let resource: Vec<u8> = (0..=249).flat_map(attribute).collect();
    let mut logs = field(1, &resource);
    logs.extend(field(2, &[0x12, 0].repeat(10_000)));
    let limits = Limits {
        expanded: 10 << 20,
        ..context().limits
    };
    let context = Context {
        limits,
        ..context()
    };
    let error = decode_protobuf(&field(1, &logs), &context, &mut Collected::default());
    assert_eq!(error, Err(DecodeError::Expands { limit: 10 << 20 }));
}
