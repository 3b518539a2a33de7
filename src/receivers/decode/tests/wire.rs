//! The protobuf wire format: what may vary, and what is damage.

use super::*;

fn varint(mut value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while value > 0x7f {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
    out
}

fn key(number: u64, kind: u64) -> Vec<u8> {
    varint(number << 3 | kind)
}

fn bytes(number: u64, inside: &[u8]) -> Vec<u8> {
    [key(number, 2), varint(inside.len() as u64), inside.to_vec()].concat()
}

fn time() -> Vec<u8> {
    [key(1, 1), NOW.to_le_bytes().to_vec()].concat()
}

/// A request of one record with these fields.
fn one_record(fields: &[u8]) -> Vec<u8> {
    bytes(1, &bytes(2, &bytes(2, &[time(), fields.to_vec()].concat())))
}

fn body(text: &[u8]) -> Vec<u8> {
    bytes(5, &bytes(1, text))
}

fn error(body: &[u8]) -> String {
    run(PROTOBUF, body).unwrap_err().to_string()
}

#[test]
fn g_28_unknown_fields_are_skipped_at_every_level() {
    let junk = [
        [key(900, 0), varint(u64::MAX)].concat(),
        [key(901, 1), vec![0xff; 8]].concat(),
        bytes(902, b"\xff\xff\xff"),
        [key(903, 5), vec![0xff; 4]].concat(),
        [
            key(904, 3),
            key(1, 3),
            bytes(2, b"x"),
            key(1, 4),
            key(3, 0),
            varint(7),
            key(904, 4),
        ]
        .concat(),
    ]
    .concat();
    let around = |inside: Vec<u8>| [junk.clone(), inside, junk.clone()].concat();
    let attribute = bytes(
        6,
        &around([bytes(1, b"k"), bytes(2, &around(bytes(1, b"v")))].concat()),
    );
    let record = around([time(), body(b"m"), attribute].concat());
    let scope = bytes(1, &around(bytes(1, b"scope")));
    let scope_logs = around([scope, bytes(2, &record)].concat());
    let service = [bytes(1, b"service.name"), bytes(2, &bytes(1, b"shop"))].concat();
    let resource = bytes(1, &around(bytes(1, &service)));
    let resource_logs = around([resource, bytes(2, &scope_logs)].concat());
    let rows = accepted(PROTOBUF, around(bytes(1, &resource_logs)));
    assert_eq!(
        (rows[0].message(), rows[0].attribute("k")),
        ("m", Some("v"))
    );
    assert_eq!(
        (&*rows[0].group.service, &*rows[0].group.scope_name),
        ("shop", "scope")
    );
}

#[test]
fn g_28_logs_of_before_2022_are_counted_and_told() {
    let old = bytes(
        1,
        &[bytes(1000, b"old logs"), bytes(1000, b"more")].concat(),
    );
    let (outcome, rows) = run(PROTOBUF, old).unwrap();
    assert_eq!((rows.len(), outcome.repairs.legacy_logs), (0, 2));
    assert!(outcome.message.unwrap().contains("2022"));
}

#[test]
fn g_29_numbers_need_not_be_minimal_nor_fields_in_order() {
    // .NET reserves four bytes for each length.
    let padded = |number: u64, inside: &[u8]| {
        let length = inside.len() as u64;
        let length = [
            length | 0x80,
            length >> 7 | 0x80,
            length >> 14 | 0x80,
            length >> 21,
        ];
        [
            key(number, 2),
            length.map(|byte| byte as u8).to_vec(),
            inside.to_vec(),
        ]
        .concat()
    };
    let service = [padded(2, &padded(1, b"shop")), padded(1, b"service.name")].concat();
    let record = [
        padded(5, &padded(1, b"m")),
        key(2, 0),
        vec![0x89, 0x80, 0],
        time(),
    ]
    .concat();
    let scope_logs = [
        padded(3, b"url"),
        padded(2, &record),
        padded(1, &padded(1, b"scope")),
    ]
    .concat();
    let resource_logs = [padded(2, &scope_logs), padded(1, &padded(1, &service))].concat();
    let rows = accepted(PROTOBUF, padded(1, &resource_logs));
    assert_eq!(
        (rows[0].message(), rows[0].record.severity_number),
        ("m", 9)
    );
    assert_eq!(
        (&*rows[0].group.service, &*rows[0].group.scope_name),
        ("shop", "scope")
    );
    assert_eq!(rows[0].attribute("otel.scope.schema_url"), Some("url"));
}

#[test]
fn parts_of_a_resource_sent_apart_are_merged() {
    let pair =
        |key: &[u8], value: &[u8]| bytes(1, &[bytes(1, key), bytes(2, &bytes(1, value))].concat());
    let first = bytes(1, &pair(b"service.name", b"shop"));
    let second = bytes(1, &pair(b"host.name", b"h"));
    let logs = bytes(2, &bytes(2, &time()));
    let rows = accepted(PROTOBUF, bytes(1, &[first, logs, second].concat()));
    assert_eq!(
        (&*rows[0].group.service, rows[0].resource("host.name")),
        ("shop", Some("h"))
    );
}

#[test]
fn negative_severity_numbers_are_ten_bytes_long() {
    let rows = accepted(
        PROTOBUF,
        one_record(&[key(2, 0), varint(u64::MAX)].concat()),
    );
    assert_eq!(
        rows[0].attribute("watchtower.original_severity_number"),
        Some("-1")
    );
}

#[test]
fn damage_is_named_with_its_field_and_place() {
    let record = "resource_logs[0].scope_logs[0].log_records[0]";
    let text = error(&one_record(&[key(3, 2), varint(200)].concat()));
    assert_eq!(
        text,
        format!("cannot read {record} at byte 18: its length goes beyond the end of its message")
    );
    let text = error(&one_record(&bytes(5, &[key(1, 2), varint(9)].concat())));
    assert!(
        text.starts_with(&format!("cannot read {record}.body at byte ")),
        "{text}"
    );
    let text = error(&one_record(&bytes(6, &bytes(2, &bytes(2, b"flag")))));
    assert!(
        text.starts_with(&format!(
            "cannot read {record}.attributes.bool_value at byte "
        )),
        "{text}"
    );
    let text = error(&bytes(1, &bytes(1, &[0x0a, 0x80])));
    assert!(
        text.starts_with("cannot read resource_logs[0].resource.attributes at byte "),
        "{text}"
    );
    assert_eq!(
        error(&[0x0a]),
        "cannot read the request at byte 1: it ends within a number"
    );
}

#[test]
fn b_06_traces_and_metrics_are_refused_with_a_hint() {
    // A span begins with its trace id, a metric with its name; both where a record has its time.
    let span = bytes(1, &bytes(2, &bytes(2, &bytes(1, &[7; 16]))));
    let text = error(&span);
    assert!(
        text.contains("time_unix_nano") && text.contains("only logs are taken"),
        "{text}"
    );
}

#[test]
fn bytes_that_are_no_protobuf_are_refused() {
    let group = [key(9, 3), key(8, 4)].concat();
    let deep = [key(9, 3).repeat(500), key(9, 4).repeat(500)].concat();
    for body in [
        b"{\"resourceLogs\":[]}".to_vec(),
        b"hello".to_vec(),
        vec![0x00, 0x01],
        vec![0x0f],
        vec![0x0c],
        varint(u64::from(u32::MAX) + 9),
        vec![0xff; 11],
        [key(9, 0), vec![0xff; 9], vec![0x02]].concat(),
        key(9, 3),
        group,
        deep,
    ] {
        assert!(run(PROTOBUF, &body).is_err(), "{body:02x?}");
    }
    let (outcome, rows) = run(PROTOBUF, bytes(7, b"something else")).unwrap();
    assert!(rows.is_empty() && outcome.message.unwrap().contains("resource_logs"));
}

#[test]
fn every_cut_of_a_request_is_damage_or_a_shorter_request() {
    let whole = [one_record(&body(b"first")), one_record(&body(b"second"))].concat();
    let first = one_record(&body(b"first")).len();
    for end in 0..whole.len() {
        match run(PROTOBUF, &whole[..end]) {
            Ok((_, rows)) => assert_eq!((rows.len(), end % first), (end / first, 0)),
            Err(error) => {
                assert!(matches!(error, DecodeError::Damaged { offset, .. } if offset <= end))
            }
        }
    }
}
