//! Frames against the real ClickHouse: what it reads out of our blocks is what we read out of them.
//! That this is also what was put in is the concern of the codec's own tests.

use serde_json::{Map, Value, json};
use watchtower::frame::{Block, BlockBuilder, COLUMNS, Frame, Row, Seal};
use watchtower::record::{Group, Level, Receiver, Record, Sink};

use crate::support::{ClickHouse, clickhouse};

fn group() -> Group<'static> {
    Group {
        service: "web".into(),
        environment: "production".into(),
        scope_name: "checkout".into(),
        scope_version: "1.2.3".into(),
        resource: vec![
            ("host.name".into(), "web-1".into()),
            ("os.type".into(), "linux".into()),
        ],
        receiver: Receiver::OtlpGrpc,
        received_at: 1_753_900_000_123,
    }
}

fn record() -> Record<'static> {
    Record {
        timestamp: 1_753_900_000_000_000_001,
        level: Level::Info,
        severity_number: 9,
        severity_text: "INFO".into(),
        message: "paid".into(),
        trace_id: Some(*b"0123456789abcdef"),
        span_id: Some(*b"01234567"),
        trace_flags: 1,
        event_name: "payment".into(),
        attributes: vec![("user".into(), "42".into()), ("empty".into(), "".into())],
    }
}

fn seal(builder: &mut BlockBuilder, first_id: u64) -> Frame {
    builder.seal(&Seal {
        node: 1,
        first_id,
        sealed_at: 1_753_900_000_200,
        digests: vec![[7; 16]],
    })
}

fn frame_of(records: &[Record<'_>]) -> Frame {
    let mut builder = BlockBuilder::new();
    builder.group(&group());
    records.iter().for_each(|record| builder.push(record));
    seal(&mut builder, 1 << 40)
}

/// The table's columns under their names, as JSON.
fn row_as_json(row: &Row<'_>) -> Value {
    let map = |entries: Vec<(&str, &str)>| {
        let entries = entries.into_iter();
        let entries = entries.map(|(key, value)| (key.to_owned(), Value::from(value)));
        Value::Object(entries.collect::<Map<_, _>>())
    };
    json!({
        "timestamp": row.timestamp().to_string(),
        "id": row.id().to_string(),
        "level": row.level().as_str(),
        "severity_number": row.severity_number(),
        "severity_text": row.severity_text(),
        "service": row.service(),
        "environment": row.environment(),
        "message": row.message(),
        "trace_id": row.trace_id(),
        "span_id": row.span_id(),
        "trace_flags": row.trace_flags(),
        "event_name": row.event_name(),
        "scope_name": row.scope_name(),
        "scope_version": row.scope_version(),
        "attributes": map(row.attributes().collect()),
        "resource": map(row.resource().collect()),
        "receiver": row.receiver().as_str(),
        "received_at": row.received_at().to_string(),
    })
}

/// Inserts the frames' blocks with one INSERT, without any conversion of types, and reads them back.
#[track_caller]
fn assert_clickhouse_reads_what_we_read(frames: &[Frame]) {
    let server = clickhouse();
    let table = table_of_records(&server);
    let blocks: Vec<u8> = frames.iter().flat_map(Frame::payload).collect();
    server.insert(
        &format!("INSERT INTO {table} FORMAT Native"),
        "input_format_native_allow_types_conversion=0&async_insert=0",
        &blocks,
    );
    let stored = server.query(&format!(
        "SELECT * REPLACE (toUnixTimestamp64Nano(timestamp) AS timestamp,
                           toUnixTimestamp64Milli(received_at) AS received_at)
         FROM {table} ORDER BY id
         SETTINGS output_format_json_quote_64bit_integers = 1, output_format_json_map_as_array_of_tuples = 0
         FORMAT JSONEachRow"
    ));
    server.query(&format!("DROP TABLE {table} SYNC"));

    let mut stored = stored.lines();
    for frame in frames {
        for row in Block::decode(frame).unwrap().rows() {
            let line = stored.next().expect("as many rows as were inserted");
            let stored: Value = serde_json::from_str(line).unwrap();
            assert_eq!(stored, row_as_json(&row));
        }
    }
    assert_eq!(
        stored.next(),
        None,
        "no rows beyond those that were inserted"
    );
}

fn table_of_records(server: &ClickHouse) -> String {
    let table = server.table();
    let columns = COLUMNS.map(|column| format!("{} {}", column.name, column.kind));
    server.query(&format!(
        "CREATE TABLE {table} ({}) ENGINE = MergeTree ORDER BY id",
        columns.join(", ")
    ));
    table
}

#[test]
fn m_17_m_22_every_field_arrives() {
    let mut builder = BlockBuilder::new();
    for receiver in Receiver::ALL {
        let mut group = group();
        group.receiver = receiver;
        group.service = format!("service of {}", receiver.as_str()).into();
        builder.group(&group);
        for level in Level::ALL {
            builder.push(&Record {
                level,
                severity_number: level as u8,
                timestamp: 1_753_900_000_000_000_000 + level as i64,
                ..record()
            });
        }
    }
    assert_clickhouse_reads_what_we_read(&[seal(&mut builder, 77)]);
}

#[test]
fn absent_and_empty_fields_arrive_empty() {
    let mut builder = BlockBuilder::new();
    builder.group(&Group {
        service: "".into(),
        environment: "".into(),
        scope_name: "".into(),
        scope_version: "".into(),
        resource: Vec::new(),
        receiver: Receiver::Json,
        received_at: 0,
    });
    builder.push(&Record::default());
    builder.push(&Record::default());
    assert_clickhouse_reads_what_we_read(&[seal(&mut builder, 0)]);
}

#[test]
fn empty_maps_arrive_among_others() {
    let without = Record {
        attributes: Vec::new(),
        ..record()
    };
    let records = [without.clone(), record(), without.clone(), without];
    assert_clickhouse_reads_what_we_read(&[frame_of(&records)]);
}

#[test]
fn any_text_arrives() {
    let texts = [
        "\0",
        "a\0b",
        "grüße 🦉",
        "\u{10ffff}",
        "'\"\\\t\n\r",
        "\u{7f}",
        " ",
    ];
    let records = texts.map(|text| Record {
        message: text.into(),
        severity_text: text.into(),
        event_name: text.into(),
        attributes: vec![
            (text.into(), text.into()),
            ("k".into(), text.repeat(99).into()),
        ],
        ..record()
    });
    assert_clickhouse_reads_what_we_read(&[frame_of(&records)]);
}

#[test]
fn messages_of_a_mebibyte_arrive() {
    let lengths = [1 << 20, 0, 127, 128, 16_384, 1 << 20];
    let records = lengths.map(|length| Record {
        message: "x".repeat(length).into(),
        ..record()
    });
    assert_clickhouse_reads_what_we_read(&[frame_of(&records)]);
}

#[test]
fn dictionaries_of_every_index_width_arrive() {
    for entries in [256, 257, 65_536, 65_537] {
        let records = (0..entries).map(|i| Record {
            event_name: format!("event {i}").into(),
            attributes: vec![(format!("key {i}").into(), "v".into())],
            ..record()
        });
        assert_clickhouse_reads_what_we_read(&[frame_of(&records.collect::<Vec<_>>())]);
    }
}

#[test]
fn every_record_may_have_a_group_of_its_own() {
    let mut builder = BlockBuilder::new();
    for i in 0..600 {
        let mut group = group();
        group.service = format!("service {i}").into();
        group.resource.truncate(i % 3);
        group.received_at += i as i64;
        builder.group(&group);
        builder.push(&record());
    }
    assert_clickhouse_reads_what_we_read(&[seal(&mut builder, 5)]);
}

#[test]
fn blocks_one_behind_the_other_make_one_insert() {
    let mut builder = BlockBuilder::new();
    let frames: Vec<Frame> = (0..20)
        .map(|i| {
            builder.group(&group());
            for k in 0..=i {
                let mut record = record();
                record.event_name = format!("event {i} {k}").into();
                if i % 3 == 0 {
                    record.attributes.clear();
                }
                builder.push(&record);
            }
            seal(&mut builder, 1 << (20 + i))
        })
        .collect();
    assert_clickhouse_reads_what_we_read(&frames);
}

#[test]
fn what_a_rollback_leaves_is_harmless() {
    let mut builder = BlockBuilder::new();
    builder.group(&group());
    builder.push(&record());
    let mark = builder.mark();
    for i in 0..300 {
        let mut group = group();
        group.service = format!("gone {i}").into();
        builder.group(&group);
        let event_name = format!("gone {i}").into();
        builder.push(&Record {
            event_name,
            ..record()
        });
    }
    builder.rollback(&mark);
    builder.group(&group());
    builder.push(&record());
    assert_clickhouse_reads_what_we_read(&[seal(&mut builder, 5)]);
}
