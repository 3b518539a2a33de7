//! What comes in headers and parameters, and streams that are read: the first byte chooses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use watchtower::api::{Position, fuzzing::search_query};
use watchtower::cli::fuzzing::read_events;
use watchtower::live::{Cursor, node_of};
use watchtower::receivers::fuzzing::{decompress, grpc_message, grpc_timeout};

const NOW: i64 = 1_790_000_000_000_000_000;
const LIMIT: usize = 256 << 10;

fuzz_target!(|data: &[u8]| {
    let Some((choice, data)) = data.split_first() else {
        return;
    };
    let codings: [&[u8]; 4] = [b"", b"gzip", b"deflate", b"zstd"];
    match choice % 8 {
        0 => cursor(data),
        1 => position(data),
        2 => query(data),
        3 => events(data, usize::from(choice / 8) + 1),
        4 => timeout(data),
        5 | 6 => {
            let coding = codings[usize::from(choice / 8) % 4];
            let unpacked = decompress(data, coding, LIMIT);
            assert!(unpacked.is_none_or(|bytes| bytes.len() <= LIMIT.max(data.len())));
        }
        _ => {
            let coding = codings[usize::from(choice / 8) % 4];
            let message = grpc_message(data, coding, LIMIT);
            assert!(message.is_none_or(|bytes| bytes.len() <= LIMIT));
        }
    }
});

fn cursor(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(cursor) = text.parse::<Cursor>() else {
        return;
    };
    assert_eq!(cursor.to_string().parse().as_ref(), Ok(&cursor));
    assert!(cursor.covers(&cursor));
    for (node, id) in cursor.iter() {
        assert_eq!((node, Some(id)), (node_of(id), cursor.get(node)));
        assert!(cursor.has_passed(id) && cursor.advanced(id) == cursor);
    }
}

fn position(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(position) = text.parse::<Position>() {
        assert_eq!(
            position.to_string().parse::<Position>().ok(),
            Some(position)
        );
    }
}

fn query(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Some(query) = search_query(text, NOW) {
        assert!((1..=1000).contains(&query.limit));
    }
}

fn events(data: &[u8], piece: usize) {
    assert_eq!(read_events(data, piece), read_events(data, data.len()));
}

fn timeout(data: &[u8]) {
    let longest = 99_999_999 * 3600 * 1_000_000_000;
    if let Some(nanos) = grpc_timeout(data) {
        assert!(nanos <= longest);
        assert!(data.first().is_some_and(u8::is_ascii_digit));
    }
}
