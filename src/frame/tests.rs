//! Tests of the frame codec: what goes in comes out, and damage is an error.

mod damage;
mod keys;
mod properties;
mod versions;

use super::*;
use crate::record::{Group, KeyValue, Level, Receiver, Record, Sink};

/// A group and the records in it.
type Batch = (Group<'static>, Vec<Record<'static>>);

fn seal_with(first_id: u64) -> Seal {
    Seal {
        node: 7,
        first_id,
        sealed_at: 1_700_000_000_123,
        digests: vec![[9; 16], [3; 16]],
    }
}

fn group(service: &'static str) -> Group<'static> {
    Group {
        service: service.into(),
        environment: "production".into(),
        scope_name: "checkout".into(),
        scope_version: "1.2.3".into(),
        resource: vec![("host.name".into(), "web-1".into())],
        receiver: Receiver::OtlpGrpc,
        received_at: 1_700_000_000_001,
    }
}

fn record(message: &'static str) -> Record<'static> {
    Record {
        timestamp: 1_700_000_000_000_000_001,
        level: Level::Info,
        severity_number: 9,
        severity_text: "INFO".into(),
        message: message.into(),
        trace_id: Some([0xab; 16]),
        span_id: Some([0x01; 8]),
        trace_flags: 1,
        event_name: "".into(),
        attributes: vec![("user".into(), "42".into()), ("k".into(), "".into())],
    }
}

fn push_all(builder: &mut BlockBuilder, batches: &[Batch]) {
    for (group, records) in batches {
        builder.group(group);
        for record in records {
            builder.push(record);
        }
    }
}

fn encode(batches: &[Batch], first_id: u64) -> Frame {
    let mut builder = BlockBuilder::new();
    push_all(&mut builder, batches);
    builder.seal(&seal_with(first_id))
}

fn hex(id: Option<&[u8]>) -> String {
    let digits = id.unwrap_or_default().iter();
    digits.map(|byte| format!("{byte:02x}")).collect()
}

fn pairs(map: &[KeyValue<'static>]) -> Vec<(String, String)> {
    let pairs = map.iter();
    pairs
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

fn owned<'a>(map: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, String)> {
    map.map(|(key, value)| (key.into(), value.into())).collect()
}

/// Asserts that the frame holds these records and nothing else.
#[track_caller]
fn assert_holds(frame: &Frame, batches: &[Batch], first_id: u64) {
    let block = Block::decode(frame).unwrap();
    let expected: Vec<_> = batches
        .iter()
        .flat_map(|(group, records)| records.iter().map(move |record| (group, record)))
        .collect();
    assert_eq!(block.len(), expected.len());
    assert_eq!(frame.header().num_records as usize, expected.len());
    for (row, (group, record)) in block.rows().zip(expected) {
        assert_eq!(row.id(), first_id + row.index() as u64 * ID_STEP);
        assert_eq!(row.timestamp(), record.timestamp);
        assert_eq!(row.level(), record.level);
        assert_eq!(row.severity_number(), record.severity_number);
        assert_eq!(row.severity_text(), record.severity_text);
        assert_eq!(row.message(), record.message);
        assert_eq!(
            row.trace_id(),
            hex(record.trace_id.as_ref().map(|id| &id[..]))
        );
        assert_eq!(
            row.span_id(),
            hex(record.span_id.as_ref().map(|id| &id[..]))
        );
        assert_eq!(row.trace_flags(), record.trace_flags);
        assert_eq!(row.event_name(), record.event_name);
        assert_eq!(owned(row.attributes()), pairs(&record.attributes));
        assert_eq!(row.service(), group.service);
        assert_eq!(row.environment(), group.environment);
        assert_eq!(row.scope_name(), group.scope_name);
        assert_eq!(row.scope_version(), group.scope_version);
        assert_eq!(owned(row.resource()), pairs(&group.resource));
        assert_eq!(row.receiver(), group.receiver);
        assert_eq!(row.received_at(), group.received_at);
    }
}

#[test]
fn records_come_out_as_they_went_in() {
    let batches = [
        (group("web"), vec![record("first"), record("")]),
        (group("db"), vec![record("grüße 🦉\0")]),
    ];
    assert_holds(&encode(&batches, 5 << 22), &batches, 5 << 22);
}

#[test]
fn every_level_and_receiver_comes_back() {
    let batches: Vec<Batch> = Receiver::ALL
        .into_iter()
        .map(|receiver| {
            let mut group = group("web");
            group.receiver = receiver;
            let records = Level::ALL.into_iter().map(|level| {
                let mut record = record("one");
                record.level = level;
                record
            });
            (group, records.collect())
        })
        .collect();
    let frame = encode(&batches, 0);
    assert_holds(&frame, &batches, 0);
    assert_eq!(frame.header().accepted, [7, 7, 7]);
}

#[test]
fn maps_that_are_all_empty_come_back_empty() {
    let mut empty_group = group("web");
    empty_group.resource.clear();
    let mut empty_record = record("no attributes");
    empty_record.attributes.clear();
    let batches = [(empty_group, vec![empty_record; 3])];
    assert_holds(&encode(&batches, 1), &batches, 1);
}

#[test]
fn dictionaries_of_every_index_width_come_back() {
    for entries in [255, 256, 257, 65_535, 65_536, 65_537] {
        let records = (0..entries).map(|i| {
            let mut record = record("m");
            record.event_name = format!("event {i}").into();
            record.attributes = vec![(format!("key {}", entries - i).into(), "v".into())];
            record
        });
        let batches = [(group("web"), records.collect())];
        assert_holds(&encode(&batches, 1), &batches, 1);
    }
}

#[test]
fn more_than_256_groups_come_back() {
    let batches: Vec<Batch> = (0..300)
        .map(|i| {
            let mut group = group("web");
            group.service = format!("service {i}").into();
            group.resource = (0..i % 4)
                .map(|k| (format!("key {i} {k}").into(), format!("value {k}").into()))
                .collect();
            (group, vec![record("one"); i % 3])
        })
        .collect();
    assert_holds(&encode(&batches, 1), &batches, 1);
}

#[test]
fn messages_around_the_length_of_a_longer_prefix_come_back() {
    let lengths = [0, 1, 127, 128, 129, 16_383, 16_384, 1 << 20];
    let records = lengths.map(|length| {
        let mut record = record("");
        record.message = "ä".repeat(length / 2).into();
        if length % 2 == 1 {
            record.message.to_mut().push('x');
        }
        record
    });
    let batches = [(group("web"), records.to_vec())];
    assert_holds(&encode(&batches, 1), &batches, 1);
}

#[test]
fn bytes_is_the_size_of_the_frame() {
    let mut builder = BlockBuilder::new();
    for batches in [
        vec![(group("web"), vec![record("one")])],
        vec![
            (group("web"), vec![record("x"); 300]),
            (group("db"), vec![]),
        ],
    ] {
        push_all(&mut builder, &batches);
        let expected = builder.bytes();
        let mut seal = seal_with(1);
        seal.digests.clear();
        let actual = builder.seal(&seal).as_bytes().len();
        // The row count is taken at its longest.
        assert!(
            (actual..actual + 5).contains(&expected),
            "{expected} {actual}"
        );
    }
}

#[test]
fn a_builder_begins_anew_after_seal() {
    let first = [(group("web"), vec![record("first")])];
    let second = [(group("db"), vec![record("second"), record("third")])];
    let mut builder = BlockBuilder::new();
    push_all(&mut builder, &first);
    builder.seal(&seal_with(1));
    assert!(builder.is_empty());
    push_all(&mut builder, &second);
    let reused = builder.seal(&seal_with(9));
    assert_eq!(reused, encode(&second, 9));
}

#[test]
fn a_frame_like_the_last_one_needs_no_new_buffers() {
    let batches: Vec<Batch> = (0..100)
        .map(|_| (group("web"), vec![record("a message"); 50]))
        .collect();
    let mut builder = BlockBuilder::new();
    let buffers = |builder: &BlockBuilder| {
        [
            (builder.messages.as_ptr(), builder.messages.capacity()),
            (builder.trace_ids.as_ptr(), builder.trace_ids.capacity()),
            (
                builder.attribute_values.as_ptr(),
                builder.attribute_values.capacity(),
            ),
        ]
    };
    push_all(&mut builder, &batches);
    let before = buffers(&builder);
    builder.seal(&seal_with(1));
    push_all(&mut builder, &batches);
    assert_eq!(buffers(&builder), before);
}

#[test]
fn large_buffers_are_given_back_after_an_exceptional_frame() {
    let mut builder = BlockBuilder::new();
    let mut large = record("");
    large.message = "x".repeat(40 << 20).into();
    push_all(&mut builder, &[(group("web"), vec![large])]);
    builder.seal(&seal_with(1));
    assert!(builder.messages.capacity() < 1 << 20);
}

#[test]
fn rollback_leaves_no_trace_of_what_came_after_the_mark() {
    let kept = [(group("web"), vec![record("kept")])];
    let mut other_group = group("gone");
    other_group.resource = vec![("gone".into(), "gone".into()); 3];
    let mut other_record = record("gone");
    other_record.event_name = "gone".into();
    other_record.attributes = vec![("gone".into(), "gone".into())];
    let later = [(group("later"), vec![record("later")])];

    let mut builder = BlockBuilder::new();
    push_all(&mut builder, &kept);
    // A group without records lies across the mark, and is replaced behind it.
    builder.group(&group("also gone"));
    let mark = builder.mark();
    push_all(&mut builder, &[(other_group, vec![other_record; 5])]);
    builder.rollback(&mark);
    push_all(&mut builder, &later);

    let expected = [kept[0].clone(), later[0].clone()];
    let frame = builder.seal(&seal_with(1));
    assert_holds(&frame, &expected, 1);
    let block = Block::decode(&frame).unwrap();
    assert_eq!(block.attributes().keys().position("gone"), None);
    assert_eq!(block.event_name().dictionary(), [""]);
}

#[test]
fn rollback_inside_a_group_keeps_its_earlier_records() {
    let mut builder = BlockBuilder::new();
    builder.group(&group("web"));
    builder.push(&record("kept"));
    let mark = builder.mark();
    builder.push(&record("gone"));
    builder.rollback(&mark);
    let expected = [(group("web"), vec![record("kept")])];
    assert_eq!(builder.seal(&seal_with(1)), encode(&expected, 1));
}

#[test]
fn rollback_to_the_beginning_leaves_an_empty_builder() {
    let mut builder = BlockBuilder::new();
    let (mark, bytes) = (builder.mark(), builder.bytes());
    push_all(&mut builder, &[(group("web"), vec![record("gone")])]);
    builder.rollback(&mark);
    assert_eq!((builder.len(), builder.bytes()), (0, bytes));
}

#[test]
#[should_panic(expected = "a group comes before its records")]
fn a_record_after_a_rollback_needs_its_own_group() {
    let mut builder = BlockBuilder::new();
    builder.group(&group("web"));
    builder.push(&record("kept"));
    let mark = builder.mark();
    builder.rollback(&mark);
    builder.push(&record("whose is this"));
}

#[test]
fn columns_can_be_searched_by_dictionary() {
    let mut second = record("second");
    second.attributes = vec![("status".into(), "500".into())];
    let batches = [
        (group("web"), vec![record("first")]),
        (group("db"), vec![second]),
    ];
    let frame = encode(&batches, 1);
    let block = Block::decode(&frame).unwrap();
    assert_eq!(block.service().dictionary(), ["web", "db"]);
    assert_eq!(block.service().position("db"), Some(1));
    assert_eq!(block.service().index(1), 1);
    assert_eq!(block.messages(), ["first", "second"]);
    let status = block.attributes().keys().position("status").unwrap();
    assert_eq!(block.attributes().value(0, status), None);
    assert_eq!(block.attributes().value(1, status), Some("500"));
    assert_eq!(block.row(1).map(|row| row.service()), Some("db"));
    assert!(block.row(2).is_none());
}

#[test]
fn m_37_header_says_what_the_frame_was_sealed_with() {
    let frame = encode(&[(group("web"), vec![record("one"), record("two")])], 99);
    let parsed = Frame::parse(frame.as_bytes().clone()).unwrap();
    assert_eq!(parsed, frame);
    let (header, total) = Header::parse(frame.as_bytes()).unwrap();
    assert_eq!(total, frame.as_bytes().len());
    assert_eq!(header, *frame.header());
    assert_eq!((header.node, header.num_records), (7, 2));
    assert_eq!((header.first_id, header.last_id), (99, 99 + ID_STEP));
    assert_eq!(header.sealed_at, 1_700_000_000_123);
    assert_eq!(header.accepted, [2, 0, 0]);
    assert_eq!(parsed.digests().collect::<Vec<_>>(), [[9; 16], [3; 16]]);
    assert_eq!(parsed.payload(), frame.payload());
}
