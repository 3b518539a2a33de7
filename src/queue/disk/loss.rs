//! Files that somebody removes, empties or cuts, while the queue runs and while it does not.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::*;
use crate::config::ByteSize;
use crate::queue::testing::frame;

const LIMITS: ClaimLimits = ClaimLimits {
    rows: 1000,
    bytes: 1 << 20,
    delay: Duration::ZERO,
};

fn open(dir: &Path) -> DiskQueue {
    let config = DiskQueueConfig {
        min_free: ByteSize::bytes(0),
        segment_bytes: ByteSize::bytes(16 << 10),
        ..DiskQueueConfig::default()
    };
    DiskQueue::open(dir, &config).unwrap()
}

async fn append(queue: &DiskQueue, ids: std::ops::Range<u64>) {
    for id in ids {
        queue.append(frame(id, 1, 1000)).await.unwrap();
    }
}

async fn drain(queue: &DiskQueue) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(claim) = queue.try_claim(&LIMITS).await.unwrap() {
        all.extend(claim.frames.iter().map(|frame| frame.header().first_id));
        queue.ack(&claim).await.unwrap();
    }
    all
}

async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: not in time");
}

/// Case: the directory is removed under a running queue. Must hold: no append is acknowledged into a
/// file without a name; the queue goes on in a new directory, whose frames survive a restart.
#[tokio::test]
async fn a_directory_that_is_removed_is_noticed_and_made_anew() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("queue");
    let queue = open(&dir);
    append(&queue, 1..4).await;
    fs::remove_dir_all(&dir).unwrap();
    let refused = queue.append(frame(4, 1, 1000)).await.unwrap_err();
    assert!(refused.to_string().contains("was removed"), "{refused}");
    assert!(queue.last_error().is_some());
    // What is in memory is delivered all the same.
    assert_eq!(drain(&queue).await, [1, 2, 3]);
    append(&queue, 5..8).await;
    assert!(queue.last_error().is_none());
    queue.close().await;
    assert_eq!(drain(&open(&dir)).await, [5, 6, 7]);
}

/// As above, with nobody sending: readiness tells, and heals.
#[tokio::test]
async fn a_directory_that_is_removed_is_made_anew_without_an_append() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("queue");
    let queue = open(&dir);
    append(&queue, 1..2).await;
    assert_eq!(drain(&queue).await, [1]);
    fs::remove_dir_all(&dir).unwrap();
    until("notice", || queue.last_error().is_some()).await;
    until("a new directory", || {
        queue.last_error().is_none() && dir.exists()
    })
    .await;
    append(&queue, 2..3).await;
    // The lock moved along.
    assert!(matches!(
        DiskQueue::open(&dir, &DiskQueueConfig::default()),
        Err(Error::Locked { .. })
    ));
    queue.close().await;
    assert_eq!(drain(&open(&dir)).await, [2]);
}

/// Case: only the cursor log is removed, then a claim is sealed and stored. Must hold: the restart does
/// not hand the claim out again.
#[tokio::test]
async fn a_cursor_log_that_is_removed_is_written_anew() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    append(&queue, 1..4).await;
    fs::remove_file(dir.path().join(cursor::NAME)).unwrap();
    let limits = ClaimLimits { rows: 2, ..LIMITS };
    let claim = queue.try_claim(&limits).await.unwrap().unwrap();
    queue.ack(&claim).await.unwrap();
    queue.close().await;
    assert_eq!(drain(&open(dir.path())).await, [3]);
}

/// Case: a machine that crashes every day. Must hold: what was set aside does not fill its disk.
#[tokio::test]
async fn only_the_latest_of_what_was_set_aside_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let damaged = dir.path().join(DAMAGED);
    fs::create_dir_all(&damaged).unwrap();
    for number in 0..130 {
        fs::write(damaged.join(format!("{number:020}-16.bin")), "x").unwrap();
    }
    drop(open(dir.path()));
    assert_eq!(fs::read_dir(&damaged).unwrap().count(), 100);
    assert!(damaged.join(format!("{:020}-16.bin", 129)).exists());
}

fn segments(dir: &Path) -> Vec<std::path::PathBuf> {
    let files = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = files
        .filter(|path| path.extension().is_some_and(|kind| kind == "seg"))
        .collect();
    segments.sort();
    segments
}

/// Case: while the daemon is down a segment is removed, another is emptied, and the last is cut within
/// a frame. Must hold: what is missing is counted, once; the rest is delivered; the torn tail is kept.
#[tokio::test]
async fn what_was_lost_while_the_daemon_was_down_is_counted_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    // 15 of these frames fill a segment.
    append(&queue, 1..51).await;
    queue.close().await;
    drop(queue);
    let files = segments(dir.path());
    let [first, second, _, last] = files.as_slice() else {
        panic!("{files:?}");
    };
    fs::remove_file(first).unwrap();
    fs::File::create(second).unwrap();
    let file = fs::OpenOptions::new().write(true).open(last).unwrap();
    file.set_len(3500).unwrap();

    let queue = open(dir.path());
    let left = drain(&queue).await;
    let (stretches, lost) = queue.damaged();
    assert_eq!(left.len() as u64 + lost.iter().sum::<u64>(), 50);
    // All of the third segment, and what is whole of the last.
    assert!(left.windows(2).all(|two| two[0] + 1 == two[1]), "{left:?}");
    assert!(left.len() > 15 && left.len() < 20, "{left:?}");
    // A torn tail is no damage: each crash may leave one.
    assert_eq!(stretches, 0);
    let kept = fs::read_dir(dir.path().join(DAMAGED)).unwrap().count();
    assert_eq!(kept, 1);
    queue.close().await;
    drop(queue);
    assert_eq!(open(dir.path()).damaged(), (0, [0; 3]));
}

/// Case: a killed daemon's only segment is gone. What it held was noted within a second.
#[tokio::test]
async fn a_lost_segment_that_was_not_finished_is_counted_too() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    append(&queue, 1..8).await;
    let log = dir.path().join(cursor::NAME);
    until("a note", || {
        fs::read_to_string(&log).unwrap().contains(" holds ")
    })
    .await;
    fs::copy(&log, copy.path().join(cursor::NAME)).unwrap();
    let killed = open(copy.path());
    assert_eq!(killed.damaged().1, [0, 0, 7]);
    assert_eq!(drain(&killed).await, [0; 0]);
    queue.close().await;
}

/// Case: a drained queue's files go away. Nothing is missing then.
#[tokio::test]
async fn what_was_stored_is_not_missed() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    append(&queue, 1..40).await;
    assert_eq!(drain(&queue).await.len(), 39);
    queue.close().await;
    drop(queue);
    for segment in segments(dir.path()) {
        fs::remove_file(segment).unwrap();
    }
    assert_eq!(open(dir.path()).damaged(), (0, [0; 3]));
}
