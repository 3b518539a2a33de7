//! The same for arbitrary records and arbitrary damage.

use proptest::collection::vec;
use proptest::prelude::*;

use super::damage::{read_everything, reframe};
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
