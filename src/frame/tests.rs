//! Tests of the frame codec: what goes in comes out, and damage is an error.

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

fn block_error(frame: &Frame) -> &'static str {
    match Block::decode(frame) {
        Err(Error::Block { what, .. }) => what,
        other => panic!("expected a block error, not {other:?}"),
    }
}

/// A frame that says of itself what `like` says, around another block. Both checksums fit.
fn reframe(like: &Frame, block: &[u8]) -> Frame {
    let header = like.header();
    let seal = Seal {
        node: header.node,
        first_id: header.first_id,
        sealed_at: header.sealed_at,
        digests: like.digests().collect(),
    };
    Frame::seal(&seal, header.accepted, block.len(), |out| {
        out.extend_from_slice(block);
    })
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
fn header_says_what_the_frame_was_sealed_with() {
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

#[test]
fn frames_cut_short_are_recognized_at_every_length() {
    let frame = encode(&[(group("web"), vec![record("one")])], 1);
    let bytes = frame.as_bytes();
    for have in 0..bytes.len() {
        let need = if have < 64 { 64 } else { bytes.len() };
        assert_eq!(
            Frame::parse(bytes.slice(..have)),
            Err(Error::Truncated { have, need })
        );
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(matches!(Frame::parse(longer.into()), Err(Error::Header(_))));
}

#[test]
fn frames_with_any_byte_changed_are_refused() {
    let frame = encode(&[(group("web"), vec![record("one")])], 1);
    for at in 0..frame.as_bytes().len() {
        let mut bytes = frame.as_bytes().to_vec();
        bytes[at] ^= 0x20;
        let error = Frame::parse(bytes.into()).unwrap_err();
        match at {
            0..4 => assert!(matches!(error, Error::Magic(_)), "{at}: {error}"),
            4..64 => assert!(
                matches!(error, Error::HeaderChecksum { .. }),
                "{at}: {error}"
            ),
            _ => assert!(matches!(error, Error::BodyChecksum { .. }), "{at}: {error}"),
        }
    }
}

/// Changes a header and makes its checksum fit again.
fn header_with(frame: &Frame, change: impl FnOnce(&mut [u8])) -> Result<Frame, Error> {
    let mut bytes = frame.as_bytes().to_vec();
    change(&mut bytes);
    let checksum = crc32c::crc32c(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_le_bytes());
    Frame::parse(bytes.into())
}

#[test]
fn headers_that_make_no_sense_are_refused() {
    let frame = encode(&[(group("web"), vec![record("one")])], 1);
    assert_eq!(header_with(&frame, |_| {}), Ok(frame.clone()));
    assert_eq!(header_with(&frame, |b| b[4] = 2), Err(Error::Version(2)));
    assert_eq!(header_with(&frame, |b| b[4] = 0), Err(Error::Version(0)));
    let what = |change: fn(&mut [u8])| match header_with(&frame, change) {
        Err(Error::Header(what)) => what,
        other => panic!("expected a header error, not {other:?}"),
    };
    assert_eq!(what(|b| b[12] = 0), "it holds no record");
    assert_eq!(
        what(|b| b[24] = 9),
        "its ids do not fit its count of records"
    );
    assert_eq!(
        what(|b| b[16..24].fill(0xff)),
        "its ids do not fit its count of records"
    );
    assert_eq!(what(|b| b[40] = 9), "its counts by receiver do not add up");
    assert_eq!(
        what(|b| b[40..52].fill(0xff)),
        "its counts by receiver do not add up"
    );
    assert_eq!(
        what(|b| b[8..12].fill(0xff)),
        "it is larger than any frame may be"
    );
    assert_eq!(
        what(|b| b[52..56].fill(0xff)),
        "it is larger than any frame may be"
    );
}

#[test]
fn debug_output_of_a_frame_shows_nothing_of_its_records() {
    let frame = encode(&[(group("web"), vec![record("a secret")])], 1);
    assert!(!format!("{frame:?}").contains("a secret"));
}

#[test]
fn blocks_cut_short_are_an_error_at_every_length() {
    let batches = [(group("web"), vec![record("one"), record("two")])];
    let frame = encode(&batches, 1);
    let block = frame.payload();
    for length in 0..block.len() {
        assert!(Block::decode(&reframe(&frame, &block[..length])).is_err());
    }
    let mut longer = block.to_vec();
    longer.push(0);
    assert_eq!(
        block_error(&reframe(&frame, &longer)),
        "more bytes follow the last column"
    );
}

#[test]
fn blocks_with_any_byte_changed_never_panic() {
    let batches = [
        (group("web"), vec![record("one"), record("zwölf")]),
        (group("db"), vec![record("three")]),
    ];
    let frame = encode(&batches, 1);
    let block = frame.payload();
    for at in 0..block.len() {
        for change in [0x01, 0x20, 0x7f, 0x80, 0xff] {
            let mut changed = block.to_vec();
            changed[at] ^= change;
            read_everything(&reframe(&frame, &changed));
        }
    }
}

/// Reads all that can be read of a frame. Whether it is an error does not matter here.
fn read_everything(frame: &Frame) -> usize {
    let Ok(block) = Block::decode(frame) else {
        return 0;
    };
    let mut seen = 0;
    for row in block.rows() {
        seen += row.severity_text().len() + row.service().len() + row.environment().len();
        seen += row.message().len() + row.trace_id().len() + row.span_id().len();
        seen += row.event_name().len() + row.scope_name().len() + row.scope_version().len();
        seen += row.level().as_str().len() + row.receiver().as_str().len();
        for (key, value) in row.attributes().chain(row.resource()) {
            seen += key.len() + value.len();
        }
    }
    seen
}

/// The frame's block with one stretch of bytes replaced by another.
fn replaced(frame: &Frame, from: &[u8], to: &[u8]) -> Frame {
    let block = frame.payload();
    let at = memchr::memmem::find(&block, from).expect("the block has these bytes");
    let mut changed = block.to_vec();
    changed.splice(at..at + from.len(), to.iter().copied());
    reframe(frame, &changed)
}

#[test]
fn blocks_of_another_kind_are_told_apart() {
    let frame = encode(&[(group("web"), vec![record("a message")])], 1);
    let changed = |from: &[u8], to: &[u8]| block_error(&replaced(&frame, from, to));
    assert_eq!(
        changed(b"\x07message", b"\x07massage"),
        "not the column that comes here in the records table"
    );
    assert_eq!(
        changed(b"\x06UInt64", b"\x05Int64"),
        "not the column that comes here in the records table"
    );
    assert_eq!(changed(b"a message", b"a mess\xffge"), "text is not UTF-8");
    assert_eq!(
        changed(b"\x05fatal", b"\x05fetal"),
        "not the names that this column can have"
    );
    // The end of the attributes of the only row, which has two.
    let ends = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
    let mut many = ends;
    many[8..].fill(0xff);
    assert_eq!(
        changed(&ends, &many),
        "it counts more map entries than bytes"
    );
    // The dictionary of the attributes' keys, and the indexes 0 and 1.
    let keys = b"\x04user\x01k\x02\0\0\0\0\0\0\0\0\x01";
    let wrong = b"\x04user\x01k\x02\0\0\0\0\0\0\0\0\x02";
    assert_eq!(
        changed(keys, wrong),
        "an index points outside its dictionary"
    );
    let short = b"\x04user\x01k\x01\0\0\0\0\0\0\0\0\x01";
    assert_eq!(
        changed(keys, short),
        "another number of indexes than of rows"
    );
    let broken = encode(&[(group("web"), vec![record("a message")])], 2);
    assert_eq!(
        block_error(&reframe(&frame, &broken.payload())),
        "its ids are not those of the header"
    );
}

#[test]
fn characters_split_between_two_strings_are_not_text() {
    let mut record = record("m");
    record.attributes = vec![("a".into(), "xé".into()), ("b".into(), "y".into())];
    let frame = encode(&[(group("web"), vec![record])], 1);
    // The second byte of é becomes the first byte of the next string.
    let split = replaced(&frame, b"\x03x\xc3\xa9\x01y", b"\x02x\xc3\x02\xa9y");
    assert_eq!(block_error(&split), "text is not UTF-8");
}

mod properties {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Text of a few kinds: often the same, often empty, of every script, around 128 bytes long.
    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[ab]",
            "[a-z.]{1,20}",
            "\\PC{0,40}",
            "[a\u{0}é🦉]{100,140}",
            any::<String>(),
        ]
    }

    /// Keys are unique within a map: the record's maker sees to it.
    fn map() -> impl Strategy<Value = Vec<KeyValue<'static>>> {
        vec((text(), text()), 0..6).prop_map(|pairs| {
            let map: std::collections::BTreeMap<_, _> = pairs.into_iter().collect();
            let pairs = map.into_iter();
            pairs
                .map(|(key, value)| (key.into(), value.into()))
                .collect()
        })
    }

    fn any_record() -> impl Strategy<Value = Record<'static>> {
        let ids = (
            any::<Option<[u8; 16]>>(),
            any::<Option<[u8; 8]>>(),
            any::<u8>(),
        );
        let texts = (text(), text(), text());
        let level = (0..Level::ALL.len(), any::<u8>());
        (any::<i64>(), level, texts, ids, map()).prop_map(
            |(timestamp, level, texts, ids, attributes)| Record {
                timestamp,
                level: Level::ALL[level.0],
                severity_number: level.1,
                severity_text: texts.0.into(),
                message: texts.1.into(),
                event_name: texts.2.into(),
                trace_id: ids.0,
                span_id: ids.1,
                trace_flags: ids.2,
                attributes,
            },
        )
    }

    fn any_group() -> impl Strategy<Value = Group<'static>> {
        let texts = (text(), text(), text(), text());
        (texts, map(), 0..Receiver::ALL.len(), any::<i64>()).prop_map(
            |(texts, resource, receiver, received_at)| Group {
                service: texts.0.into(),
                environment: texts.1.into(),
                scope_name: texts.2.into(),
                scope_version: texts.3.into(),
                resource,
                receiver: Receiver::ALL[receiver],
                received_at,
            },
        )
    }

    fn batches() -> impl Strategy<Value = Vec<Batch>> {
        vec((any_group(), vec(any_record(), 0..6)), 0..6)
    }

    proptest! {
        #[test]
        fn decoding_undoes_encoding(
            before in batches(),
            undone in batches(),
            after in batches(),
            last in (any_group(), vec(any_record(), 1..3)),
            first_id in 0..u64::MAX >> 1,
        ) {
            let mut builder = BlockBuilder::new();
            push_all(&mut builder, &before);
            let mark = builder.mark();
            let bytes = builder.bytes();
            push_all(&mut builder, &undone);
            builder.rollback(&mark);
            prop_assert!(builder.bytes() <= bytes, "what a rollback leaves takes no more room");
            push_all(&mut builder, &after);
            push_all(&mut builder, std::slice::from_ref(&last));
            let all = [before, after, vec![last]].concat();
            let frame = builder.seal(&seal_with(first_id));
            assert_holds(&frame, &all, first_id);
            assert_holds(&Frame::parse(frame.as_bytes().clone()).unwrap(), &all, first_id);
        }

        #[test]
        fn damaged_blocks_never_panic(
            batch in (any_group(), vec(any_record(), 1..4)),
            changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
            cut in any::<Option<prop::sample::Index>>(),
        ) {
            let frame = encode(&[batch], 1);
            let mut block = frame.payload().to_vec();
            for (at, byte) in changes {
                let at = at.index(block.len());
                block[at] = byte;
            }
            if let Some(cut) = cut {
                block.truncate(cut.index(block.len()));
            }
            read_everything(&reframe(&frame, &block));
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
            prop_assert!(Header::parse(&bytes).is_err());
            prop_assert!(Frame::parse(bytes.into()).is_err());
        }
    }
}
