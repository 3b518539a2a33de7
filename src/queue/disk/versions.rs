//! A directory of each version of the disk format, as the daemon of its time left it when it was killed.
//! A new version adds a directory and a test here; the old ones stay.

use std::fs;
use std::path::Path;

use super::*;
use crate::config::ByteSize;
use crate::frame::{Block, BlockBuilder, Seal};
use crate::record::{Group, Receiver, Record, Sink};

/// Frames of the queue, of which the first three are acknowledged and the next two are sealed. The last
/// is torn.
const FRAMES: u64 = 9;
const SEALED_AT: i64 = 1_764_000_000_000;

fn limits(rows: usize) -> ClaimLimits {
    ClaimLimits {
        rows,
        bytes: 1 << 20,
        delay: std::time::Duration::ZERO,
    }
}

fn open(dir: &Path) -> DiskQueue {
    let config = DiskQueueConfig {
        min_free: ByteSize::bytes(0),
        segment_bytes: ByteSize::bytes(2 << 10),
        ..DiskQueueConfig::default()
    };
    DiskQueue::open(dir, &config).unwrap()
}

/// A frame of two records.
fn numbered(number: u64) -> Frame {
    let mut builder = BlockBuilder::new();
    builder.group(&Group {
        service: "checkout".into(),
        environment: "production".into(),
        scope_name: "".into(),
        scope_version: "".into(),
        resource: vec![("host.name".into(), "box-1".into())],
        receiver: Receiver::OtlpHttp,
        received_at: SEALED_AT,
    });
    for part in ["a", "b"] {
        builder.push(&Record {
            timestamp: SEALED_AT * 1_000_000,
            message: format!("message {number}{part}").into(),
            ..Record::default()
        });
    }
    builder.seal(&Seal {
        node: 3,
        first_id: (number << 22) + 3,
        sealed_at: SEALED_AT + number.cast_signed(),
        digests: vec![[u8::try_from(number).unwrap(); 16]],
    })
}

fn messages(claim: &Claim) -> Vec<String> {
    let frames = claim.frames.iter().flat_map(|frame| {
        let block = Block::decode(frame).unwrap();
        let messages = block.rows().map(|row| row.message().to_owned());
        messages.collect::<Vec<_>>()
    });
    frames.collect()
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|kind| kind == "seg"))
        .collect();
    found.sort();
    found
}

#[tokio::test]
async fn a_directory_of_version_1_is_read() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/disk-queue-v1");
    let found = segments(&fixture);
    assert!(found.len() > 1, "{found:?}");
    for path in &found {
        let bytes = fs::read(path).unwrap();
        assert_eq!((&bytes[..4], bytes[4]), (&b"WTSG"[..], 1), "{path:?}");
    }
    let dir = tempfile::tempdir().unwrap();
    copy(&fixture, dir.path());
    let queue = open(dir.path());
    let depth = queue.depth();
    assert_eq!((depth.frames, depth.records), (5, [0, 10, 0]));
    assert_eq!(depth.oldest, Some(SEALED_AT + 4));
    let digests = queue.digests(SEALED_AT + 6).unwrap();
    let mut known: Vec<u8> = digests.iter().map(|(digest, _)| digest[0]).collect();
    known.sort_unstable();
    assert_eq!(known, [6, 7, 8]);
    let sealed = queue.try_claim(&limits(100)).await.unwrap().unwrap();
    assert!(sealed.redelivered);
    assert_eq!(sealed.token, "0000000001000003-0000000001400403-4-3d1bb752");
    assert_eq!(
        messages(&sealed),
        ["message 4a", "message 4b", "message 5a", "message 5b"]
    );
    queue.ack(&sealed).await.unwrap();
    let rest = queue.try_claim(&limits(100)).await.unwrap().unwrap();
    assert_eq!(
        messages(&rest),
        [6, 7, 8]
            .map(|n| [format!("message {n}a"), format!("message {n}b")])
            .concat()
    );
    queue.ack(&rest).await.unwrap();
    assert_eq!(
        queue.try_claim(&limits(100)).await.unwrap().map(|_| ()),
        None
    );
    assert_eq!(queue.depth(), Depth::default());
    assert_eq!(queue.damaged(), (0, [0; 3]));
}

/// For a new version, before anything writes it: name the directory after the version.
#[tokio::test]
#[ignore = "writes the fixture of the version that this code writes"]
async fn write_the_fixture() {
    let target = std::env::var_os("WATCHTOWER_FIXTURE").expect("the directory to write");
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    for number in 1..=FRAMES {
        queue.append(numbered(number)).await.unwrap();
    }
    let first = queue.try_claim(&limits(6)).await.unwrap().unwrap();
    queue.ack(&first).await.unwrap();
    let _sealed = queue.try_claim(&limits(4)).await.unwrap().unwrap();
    fs::create_dir_all(&target).unwrap();
    copy(dir.path(), target.as_ref());
    fs::remove_file(Path::new(&target).join("lock")).ok();
    let last = segments(target.as_ref()).pop().unwrap();
    let file = fs::File::options().write(true).open(last).unwrap();
    file.set_len(file.metadata().unwrap().len() - 100).unwrap();
}
