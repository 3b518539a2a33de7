//! Frames that were cut, changed or made up are an error and never a panic.

use super::*;

fn block_error(frame: &Frame) -> &'static str {
    match Block::decode(frame) {
        Err(Error::Block { what, .. }) => what,
        other => panic!("expected a block error, not {other:?}"),
    }
}

/// A frame that says of itself what `like` says, around another block. Both checksums fit.
pub(super) fn reframe(like: &Frame, block: &[u8]) -> Frame {
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
    assert_eq!(header_with(&frame, |b| b[4] = 3), Err(Error::Version(3)));
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
pub(super) fn read_everything(frame: &Frame) -> usize {
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
