//! Inputs that broke other log pipelines, by the ids of the field reports.

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use prost::Message;

use super::*;

/// Length-delimited field.
pub(super) fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    prost::encoding::encode_varint(bytes.len() as u64, &mut out);
    out.extend_from_slice(bytes);
    out
}

/// A record dated now with this `AnyValue`.
fn record(any_value: &[u8]) -> Vec<u8> {
    let mut out = vec![9];
    out.extend_from_slice(&NOW.to_le_bytes());
    out.extend_from_slice(&[0x10, 9]);
    out.extend(field(5, any_value));
    out
}

pub(super) fn export(records: &[Vec<u8>]) -> Vec<u8> {
    let service = [field(1, b"service.name"), field(2, &field(1, b"demo"))].concat();
    let scope_logs: Vec<u8> = records.iter().flat_map(|record| field(2, record)).collect();
    field(
        1,
        &[field(1, &field(1, &service)), field(2, &scope_logs)].concat(),
    )
}

fn messages(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(Row::message).collect()
}

#[test]
fn r_001_time_zero_is_not_1970() {
    let observed = NOW - 7;
    let rows = beside_control(&format!(
        r#"{{"timeUnixNano":"0","observedTimeUnixNano":"{observed}"}},{{"observedTimeUnixNano":"{observed}"}}"#
    ));
    let mut bytes = vec![11 << 3 | 1];
    bytes.extend_from_slice(&observed.to_le_bytes());
    let protobuf = accepted(PROTOBUF, export(&[bytes]));
    for row in rows.iter().chain(&protobuf) {
        assert_eq!(row.record.timestamp, observed);
        assert_eq!(
            row.attribute("watchtower.timestamp_source"),
            Some("observed")
        );
    }
}

#[test]
fn r_003_integers_in_either_form_keep_every_digit() {
    for time in [format!("{NOW}"), format!("\"{NOW}\"")] {
        let rows = beside_control(&format!(
            r#"{{"timeUnixNano":{time},"body":{{"stringValue":"ints"}},"attributes":[{{"key":"a","value":{{"intValue":83729}}}},{{"key":"b","value":{{"intValue":"83729"}}}},{{"key":"c","value":{{"intValue":"-9223372036854775808"}}}}]}}"#
        ));
        assert_eq!(rows[0].record.timestamp, NOW);
        let values = ["a", "b", "c"].map(|key| rows[0].attribute(key).unwrap());
        assert_eq!(values, ["83729", "83729", "-9223372036854775808"]);
    }
}

#[test]
fn r_004_times_that_are_none_cost_only_themselves() {
    let rows = beside_control(
        r#"{"timeUnixNano":{"low":1948385984,"high":395403571},"body":{"stringValue":"split"}},{"timeUnixNano":"1700344572441000936000000"},{"timeUnixNano":"18446744073709551615"}"#,
    );
    let originals = [
        r#"{"low":1948385984,"high":395403571}"#,
        "1700344572441000936000000",
        "18446744073709551615",
    ];
    for (row, original) in rows.iter().zip(originals) {
        assert_eq!(row.record.timestamp, NOW);
        assert_eq!(
            row.attribute("watchtower.original_timestamp"),
            Some(original)
        );
        assert_eq!(
            row.attribute("watchtower.timestamp_source"),
            Some("received")
        );
    }
    let mut bytes = vec![9];
    bytes.extend_from_slice(&u64::MAX.to_le_bytes());
    let (outcome, rows) = run(PROTOBUF, export(&[bytes, record(&field(1, b"ctl"))])).unwrap();
    assert_eq!(messages(&rows), ["", "ctl"]);
    assert_eq!(
        rows[0].attribute("watchtower.original_timestamp"),
        Some("18446744073709551615")
    );
    assert_eq!(outcome.repairs.replaced_timestamps, 1);
}

#[test]
fn r_006_absent_values() {
    let rows = beside_control(
        r#"{"body":{"kvlistValue":{"values":[{"key":"k1"}]}},"attributes":[{"key":"e","value":{}},{"key":"z","value":null},{"key":"arr","value":{"arrayValue":{"values":[{},{"stringValue":"x"},null]}}}]}"#,
    );
    assert_eq!(rows[0].message(), r#"{"k1":null}"#);
    let values = ["e", "z", "arr"].map(|key| rows[0].attribute(key).unwrap());
    assert_eq!(values, ["", "", r#"[null,"x",null]"#]);
    let bytes = field(6, &field(1, b"alone"));
    assert_eq!(
        accepted(PROTOBUF, export(&[bytes]))[0].attribute("alone"),
        Some("")
    );
}

#[test]
fn r_009_json_that_is_no_otlp_is_told_so() {
    for body in ["[]", "hello"] {
        assert!(run(JSON, body).is_err(), "{body}");
    }
    for (body, word) in [
        (r#"{"logs":[{"msg":"hi"}]}"#, "logs"),
        (r#"{"resourceSpans":[]}"#, "resourceSpans"),
        (
            r#"{"resourceLogs":[{"scopeLogs":[{"logs":[{"body":{"stringValue":"x"}}]}]}]}"#,
            "logs",
        ),
        (
            r#"{"resourceLogs":[{"instrumentationLibraryLogs":[{"logRecords":[{"body":{"stringValue":"old name"}}]}]}]}"#,
            "instrumentationLibraryLogs",
        ),
    ] {
        let (outcome, rows) = run(JSON, body).unwrap();
        assert_eq!((rows.len(), outcome.rejected), (0, 0));
        assert!(outcome.message.unwrap().contains(word), "{body}");
    }
}

#[test]
fn r_011_m_34_stray_bytes_cost_only_themselves() {
    let body = export(&[
        record(&field(1, b"before-\xff\xfe-after")),
        record(&field(1, b"ctl")),
    ]);
    assert!(
        ExportLogsServiceRequest::decode(&*body).is_err(),
        "prost refuses it whole"
    );
    let (outcome, rows) = run(PROTOBUF, body).unwrap();
    assert_eq!(messages(&rows), ["before-\u{fffd}\u{fffd}-after", "ctl"]);
    assert_eq!(outcome.repairs.invalid_utf8, 1);
}

#[test]
fn r_013_structured_bodies_are_compact_json() {
    let rows = beside_control(
        r#"{"body":{"kvlistValue":{"values":[{"key":"message","value":{"stringValue":"disk low"}},{"key":"pct","value":{"intValue":"91"}},{"key":"n","value":{"kvlistValue":{"values":[{"key":"a","value":{"boolValue":true}}]}}}]}}},{"body":{"intValue":"42"}},{"body":{"bytesValue":"AAH/"}},{"body":{"arrayValue":{"values":[{"stringValue":"a"},{"doubleValue":1.5}]}}},{}"#,
    );
    let expected = [
        r#"{"message":"disk low","pct":91,"n":{"a":true}}"#,
        "42",
        "AAH/",
        r#"["a",1.5]"#,
        "",
    ];
    assert_eq!(messages(&rows), expected);
    assert!(rows.iter().all(|row| row.group.scope_name == "t"));
}

#[test]
fn r_015_keys_that_differ_by_dots_stay_apart() {
    let rows = beside_control(
        r#"{"attributes":[{"key":"file","value":{"stringValue":"1"}},{"key":"file.path","value":{"stringValue":"2"}},{"key":"a.b","value":{"stringValue":"3"}},{"key":"a_b","value":{"stringValue":"4"}},{"key":"a","value":{"kvlistValue":{"values":[{"key":"b","value":{"stringValue":"5"}}]}}}]}"#,
    );
    let values =
        ["file", "file.path", "a.b", "a_b", "a"].map(|key| rows[0].attribute(key).unwrap());
    assert_eq!(values, ["1", "2", "3", "4", r#"{"b":"5"}"#]);
}

#[test]
fn r_019_duplicate_and_empty_keys() {
    let (outcome, rows) = run(
        JSON,
        one(&format!(
            r#"{{"timeUnixNano":"{NOW}","attributes":[{{"key":"k","value":{{"stringValue":"1"}}}},{{"key":"k","value":{{"stringValue":"2"}}}},{{"key":"","value":{{"stringValue":"e"}}}}]}},{}"#,
            control()
        )),
    )
    .unwrap();
    assert_eq!(rows[0].record.attributes, [("k".into(), "2".into())]);
    assert_eq!(
        (outcome.repairs.duplicate_keys, outcome.repairs.empty_keys),
        (1, 1)
    );
    assert_eq!(rows[1].message(), "ctl");
}

#[test]
fn r_021_old_and_future_records_are_kept_and_marked() {
    let (old, soon, far) = (NOW - 400 * DAY, NOW + 2 * DAY, NOW + 366 * DAY);
    let times = [old, soon, far];
    let otlp = times
        .map(|time| format!(r#"{{"timeUnixNano":"{time}"}}"#))
        .join(",");
    let native = times
        .map(|time| format!(r#"{{"timestamp":"{time}"}}"#))
        .join("\n");
    for rows in [beside_control(&otlp), accepted(NATIVE, native)] {
        let stored: Vec<_> = rows.iter().map(|row| row.record.timestamp).collect();
        assert_eq!(stored, [NOW, soon, NOW]);
        for (row, time) in [(&rows[0], old), (&rows[2], far)] {
            assert_eq!(
                row.attribute("watchtower.original_timestamp"),
                Some(&*time.to_string())
            );
        }
        assert_eq!(rows[1].record.attributes, []);
    }
}

#[test]
fn r_030_ndjson_joined_objects_bad_lines_and_blank_lines() {
    let body = "{\"message\":\"a\"}{\"message\":\"b\"}\n\n{\"message\":\"c\"}\r\n{\"mess\n{\"message\":\"d\"}\n";
    let (outcome, rows) = run(NATIVE, body).unwrap();
    assert_eq!(messages(&rows), ["a", "b", "c", "d"]);
    assert_eq!((outcome.rejected, outcome.rejections[0].index), (1, 3));
    assert!(
        outcome
            .message
            .unwrap()
            .starts_with("1 of 5 records rejected; record 3: ")
    );
    let (outcome, rows) = run(NATIVE, r#"[{"message":"e"},7,{"message":"f"}]"#).unwrap();
    assert_eq!(messages(&rows), ["e", "f"]);
    assert_eq!(
        outcome.rejections,
        [Rejection {
            index: 1,
            error: "a record must be a JSON object, not a number".to_owned()
        }]
    );
    let rows = accepted(NATIVE, "\u{feff}{\"message\":\"g\"}");
    assert_eq!(messages(&rows), ["g"]);
}

#[test]
fn r_049_one_huge_message_is_cut_and_its_neighbour_stays() {
    let body = export(&[
        record(&field(1, &[b'A'; 3_000_000])),
        record(&field(1, b"ctl")),
    ]);
    let rows = accepted(PROTOBUF, body);
    assert_eq!(rows[0].message().len(), 1 << 20);
    assert_eq!(
        rows[0].attribute("watchtower.truncated"),
        Some("message (3000000 bytes)")
    );
    assert_eq!(rows[1].message(), "ctl");
}

#[test]
fn r_067_64_bit_integers_and_emoji() {
    let family = "👨‍👩‍👧".repeat(300);
    let rows = beside_control(&format!(
        r#"{{"body":{{"kvlistValue":{{"values":[{{"key":"id","value":{{"intValue":"1875924584784080993"}}}}]}}}},"attributes":[{{"key":"max","value":{{"intValue":"9223372036854775807"}}}},{{"key":"neg","value":{{"intValue":"-9007199254740993"}}}}]}},{{"body":{{"stringValue":"{family}"}}}}"#
    ));
    assert_eq!(rows[0].message(), r#"{"id":1875924584784080993}"#);
    assert_eq!(rows[0].attribute("max"), Some("9223372036854775807"));
    assert_eq!(rows[0].attribute("neg"), Some("-9007199254740993"));
    assert_eq!(rows[1].message(), family);
    let limits = Limits {
        message: 1000,
        ..context().limits
    };
    let mut sink = Collected::default();
    let body = one(&format!(r#"{{"body":{{"stringValue":"{family}"}}}}"#));
    decode_json(
        body.as_bytes(),
        &Context {
            limits,
            ..context()
        },
        &mut sink,
    )
    .unwrap();
    let message = &sink.rows[0].record.message;
    assert!(message.len() <= 1000 && family.starts_with(&**message));
}

#[test]
fn m_33_protobuf_values_nested_64_deep_are_kept() {
    let nested = |depth: usize| {
        let mut value = field(1, b"x");
        for _ in 0..depth {
            value = field(5, &field(1, &value));
        }
        let rows = accepted(
            PROTOBUF,
            export(&[record(&value), record(&field(1, b"ctl"))]),
        );
        assert_eq!(rows[1].message(), "ctl");
        rows[0].message().to_owned()
    };
    let json = |inside: &str| format!("{}{inside}{}", "[".repeat(64), "]".repeat(64));
    assert_eq!(nested(64), json(r#""x""#));
    assert_eq!(nested(65), json("null"));
    assert_eq!(nested(5_000), json("null"));
}
