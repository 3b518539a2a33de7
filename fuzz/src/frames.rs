//! Frames: sealed, read back, and compared with what went in.

use bytes::Bytes;
use watchtower::frame::{Block, BlockBuilder, Frame, ID_STEP, Seal};
use watchtower::receivers::decode::decode_native;

use super::*;

const FIRST_ID: u64 = 77 * ID_STEP + 5;

fn usual_seal() -> Seal {
    Seal {
        node: 5,
        first_id: FIRST_ID,
        sealed_at: NOW / 1_000_000,
        digests: vec![[7; 16]],
    }
}

/// Seals a builder; the frame is as long as the builder said, and comes back from its bytes.
pub fn seal(builder: &mut BlockBuilder) -> Frame {
    let announced = builder.bytes();
    let frame = builder.seal(&usual_seal());
    assert!(builder.is_empty());
    let bytes = frame.as_bytes().clone();
    // The digest is not announced; what is announced may be a few bytes too much.
    assert!((announced - 256..=announced).contains(&(bytes.len() - 16)));
    assert_eq!(Frame::parse(bytes).expect("a sealed frame is one"), frame);
    frame
}

/// Reads a frame back: its rows are these.
pub(crate) fn assert_rows(frame: &Frame, rows: &[Row]) {
    let block = Block::decode(frame).expect("a sealed block is one");
    assert_eq!(block.len(), rows.len());
    for (at, (read, row)) in block.rows().zip(rows).enumerate() {
        assert_eq!(read.id(), FIRST_ID + at as u64 * ID_STEP);
        assert_eq!(&read_back(&read), row);
    }
}

fn read_back(row: &watchtower::frame::Row<'_>) -> Row {
    let text = |text: &str| Cow::Owned(text.to_owned());
    Row {
        group: Group {
            service: text(row.service()),
            environment: text(row.environment()),
            scope_name: text(row.scope_name()),
            scope_version: text(row.scope_version()),
            resource: row.resource().map(|(k, v)| (text(k), text(v))).collect(),
            receiver: row.receiver(),
            received_at: row.received_at(),
        },
        record: Record {
            timestamp: row.timestamp(),
            level: row.level(),
            severity_number: row.severity_number(),
            severity_text: text(row.severity_text()),
            message: text(row.message()),
            trace_id: id(row.trace_id()),
            span_id: id(row.span_id()),
            trace_flags: row.trace_flags(),
            event_name: text(row.event_name()),
            attributes: row.attributes().map(|(k, v)| (text(k), text(v))).collect(),
        },
    }
}

fn id<const N: usize>(hex: &str) -> Option<[u8; N]> {
    (hex.len() == 2 * N && hex.is_ascii())
        .then(|| std::array::from_fn(|i| u8::from_str_radix(&hex[2 * i..][..2], 16).unwrap_or(0)))
}

/// Any bytes as a frame, as the queue reads them.
pub fn check_bytes(bytes: &[u8]) {
    if let Ok(frame) = Frame::parse(Bytes::copy_from_slice(bytes)) {
        assert_eq!(frame.as_bytes(), bytes);
        check_block(&frame);
    }
}

/// Any bytes as a block, in a frame whose header and checksums fit it. The first byte chooses the
/// receiver that the header tells of.
pub fn check_payload(data: &[u8]) {
    let Some((&choice, payload)) = data.split_first() else {
        return;
    };
    let rows = num_rows(payload).clamp(1, 1 << 16);
    let mut accepted = [0; 3];
    accepted[usize::from(choice) % 3] = rows;
    if choice & 0x80 != 0 && rows > 1 {
        accepted[usize::from(choice) % 3] -= 1;
        accepted[usize::from(choice >> 2) % 3] += 1;
    }
    let frame = Frame::seal(&usual_seal(), accepted, payload.len(), |out| {
        out.extend_from_slice(payload);
    });
    check_block(&frame);
}

/// A block that a builder made out of native JSON, with a few bytes changed: the first byte says how
/// many, each change is three bytes (where, in two of them, and what), and the body follows.
pub fn check_changed(data: &[u8]) {
    let Some((&count, rest)) = data.split_first() else {
        return;
    };
    let Some((changes, body)) = rest.split_at_checked(3 * usize::from(count % 8)) else {
        return;
    };
    let mut builder = BlockBuilder::new();
    let context = context(Receiver::Json, USUAL);
    if decode_native(body, &context, &mut builder).is_err() || builder.is_empty() {
        return;
    }
    let mut payload = vec![Receiver::Json as u8];
    payload.extend_from_slice(&builder.seal(&usual_seal()).payload());
    for change in changes.chunks_exact(3) {
        let place = usize::from(change[0]) << 8 | usize::from(change[1]);
        let place = place % payload.len();
        payload[place] = change[2];
    }
    check_payload(&payload);
}

/// The count of rows that a block itself tells: the second varint.
fn num_rows(payload: &[u8]) -> u32 {
    let mut rows = 0;
    for (shift, byte) in (0..).step_by(7).zip(payload.iter().skip(1).take(3)) {
        rows |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    rows
}

/// A block that can be decoded can be looked up everywhere, and comes back when it is built anew.
fn check_block(frame: &Frame) {
    let Ok(block) = Block::decode(frame) else {
        return;
    };
    let mut builder = BlockBuilder::new();
    let mut rows = Vec::new();
    for (at, row) in block.rows().enumerate() {
        let read = read_back(&row);
        let service = block.service().position(row.service());
        assert!(service.is_some_and(|place| place <= block.service().index(at)));
        for (key, _) in row.attributes() {
            let key = block.attributes().keys().position(key);
            // Of several entries of one string in a dictionary the first is found, and a row may
            // refer to another.
            assert!(key.is_some());
        }
        builder.group(&read.group);
        builder.push(&read.record);
        rows.push(read);
    }
    assert!(block.row(block.len()).is_none());
    let again = seal(&mut builder);
    assert_rows(&again, &rows);
    assert_eq!(again.header().num_records, frame.header().num_records);
    assert_eq!(again.header().accepted, frame.header().accepted);
}
