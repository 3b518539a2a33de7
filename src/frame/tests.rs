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

#[test]
fn records_come_out_as_they_went_in() {
    let batches = [
        (group("web"), vec![record("first"), record("")]),
        (group("db"), vec![record("grüße 🦉\0")]),
    ];
    assert_holds(&encode(&batches, 5 << 22), &batches, 5 << 22);
}
