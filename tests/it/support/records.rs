//! Frames for tests.

use watchtower::frame::{BlockBuilder, Frame, Seal};
use watchtower::record::{Group, Level, Receiver, Record, Sink};

/// The node of these frames.
pub(crate) const NODE: u16 = 7;

/// Now, in milliseconds since the epoch.
pub(crate) fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

/// What records of tests share.
pub(crate) fn group() -> Group<'static> {
    Group {
        service: "checkout".into(),
        environment: "production".into(),
        scope_name: "tests".into(),
        scope_version: "1".into(),
        resource: vec![("host.name".into(), "box-1".into())],
        receiver: Receiver::OtlpHttp,
        received_at: now_ms(),
    }
}

/// A record with this time and message.
pub(crate) fn record(timestamp: i64, message: String) -> Record<'static> {
    Record {
        timestamp,
        level: Level::Info,
        severity_number: 9,
        severity_text: "INFO".into(),
        message: message.into(),
        attributes: vec![("user".into(), "42".into())],
        ..Record::default()
    }
}

/// An id that was given out at this time.
pub(crate) fn id_at(ms: i64, sequence: u64) -> u64 {
    (u64::try_from(ms).unwrap() << 22) + (sequence << 10) + u64::from(NODE)
}

/// A frame of these records, sealed now.
pub(crate) fn frame(first_id: u64, records: &[Record<'_>]) -> Frame {
    let mut builder = BlockBuilder::new();
    builder.group(&group());
    for record in records {
        builder.push(record);
    }
    builder.seal(&Seal {
        node: NODE,
        first_id,
        sealed_at: now_ms(),
        digests: vec![],
    })
}

/// A frame of so many records of now, whose messages are numbered from `first`.
pub(crate) fn numbered(first: usize, count: usize) -> Frame {
    let now = now_ms();
    let records: Vec<Record<'_>> = (first..first + count)
        .map(|i| {
            let timestamp = now * 1_000_000 + i64::try_from(i).unwrap();
            record(timestamp, format!("message number {i}"))
        })
        .collect();
    frame(id_at(now, u64::try_from(first).unwrap()), &records)
}
