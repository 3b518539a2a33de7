//! A frame of each version of the format, as the daemon of its time wrote it. A new version adds a file
//! and a test here; the old ones stay.

use std::path::Path;

use bytes::Bytes;

use super::*;

const FIRST_ID: u64 = 411_000_000_000 << 22;

/// What is in every one of them.
fn batches() -> Vec<Batch> {
    let mut json = group("worker");
    json.receiver = Receiver::Json;
    json.environment = "".into();
    json.resource = vec![];
    let mut bare = record("grüße 🦉\n\tat second line");
    bare.level = Level::Fatal;
    bare.trace_id = None;
    bare.span_id = None;
    bare.attributes = vec![];
    bare.event_name = "device.app.crash".into();
    vec![
        (group("web"), vec![record("first"), record("")]),
        (json, vec![bare]),
    ]
}

/// The catalogue's way through a block reads every version too.
fn assert_hosts(frame: &Frame) {
    let found = keys(frame).unwrap();
    let mut hosts = found.iter().filter(|found| found.key == "host.name");
    let host = hosts.next().unwrap();
    assert_eq!((host.column, host.records), ("resource", 2));
}

#[test]
fn a_frame_of_version_1_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frame-v1.bin");
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    assert_eq!((&bytes[..4], bytes[4]), (&b"WTFR"[..], 1));
    let frame = Frame::parse(bytes).unwrap();
    let header = frame.header();
    assert_eq!(header.accepted, [2, 0, 1]);
    assert_eq!((header.node, header.first_id), (7, FIRST_ID));
    assert_eq!(header.sealed_at, 1_700_000_000_123);
    let digests: Vec<_> = frame.digests().collect();
    assert_eq!(digests, [[9; 16], [3; 16]]);
    assert_holds(&frame, &batches(), FIRST_ID);
    assert_hosts(&frame);
}

#[test]
fn a_frame_of_version_2_is_read() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/frame-v2.bin");
    let bytes = Bytes::from(std::fs::read(path).unwrap());
    assert_eq!((&bytes[..4], bytes[4]), (&b"WTFR"[..], 2));
    let frame = Frame::parse(bytes).unwrap();
    assert_eq!(frame.header().accepted, [2, 0, 1]);
    assert_holds(&frame, &batches(), FIRST_ID);
    assert_hosts(&frame);
}

/// For a new version, before anything writes it: name the file after the version.
#[test]
#[ignore = "writes the fixture of the version that this code writes"]
fn write_the_fixture() {
    let path = std::env::var_os("WATCHTOWER_FIXTURE").expect("the file to write");
    std::fs::write(path, encode(&batches(), FIRST_ID).as_bytes()).unwrap();
}
