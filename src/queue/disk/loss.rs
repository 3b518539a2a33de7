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
