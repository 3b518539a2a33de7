//! The queue on a real directory: order, limits, restarts.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::config::ByteSize;
use crate::queue::testing::frame;

const LIMITS: ClaimLimits = ClaimLimits {
    rows: 100,
    bytes: 1 << 20,
    delay: Duration::from_millis(20),
};

fn config() -> DiskQueueConfig {
    DiskQueueConfig {
        min_free: ByteSize::bytes(0),
        segment_bytes: ByteSize::bytes(64 << 10),
        ..DiskQueueConfig::default()
    }
}

fn open(dir: &Path) -> DiskQueue {
    DiskQueue::open(dir, &config()).unwrap()
}

fn ids(claim: &Claim) -> Vec<u64> {
    claim.frames.iter().map(|f| f.header().first_id).collect()
}

/// Claims and acknowledges until nothing waits; the first ids of what came.
async fn drain(queue: &DiskQueue) -> Vec<u64> {
    let mut all = Vec::new();
    while let Some(claim) = queue.try_claim(&LIMITS).await.unwrap() {
        all.extend(ids(&claim));
        queue.ack(&claim).await.unwrap();
    }
    all
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "seg"))
        .collect();
    paths.sort();
    paths
}

#[tokio::test]
async fn frames_come_out_in_the_order_of_the_calls() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    let waiting: Vec<_> = (1..=500)
        .map(|id| queue.append(frame(id, 1, 700)))
        .collect();
    for append in waiting {
        append.await.unwrap();
    }
    assert_eq!(queue.depth().frames, 500);
    assert_eq!(drain(&queue).await, (1..=500).collect::<Vec<_>>());
    assert_eq!(queue.depth(), Depth::default());
    assert!(segments(dir.path()).len() <= 1);
}

#[tokio::test]
async fn unacknowledged_claims_come_out_first_and_unchanged_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    for id in 1..=300 {
        queue.append(frame(id, 1, 700)).await.unwrap();
    }
    let first = queue.claim(&LIMITS).await.unwrap();
    let second = queue.claim(&LIMITS).await.unwrap();
    let third = queue.claim(&LIMITS).await.unwrap();
    assert!(!first.redelivered);
    queue.ack(&second).await.unwrap();
    queue.append(frame(301, 1, 700)).await.unwrap();
    queue.close().await;

    let queue = open(dir.path());
    assert_eq!(queue.depth().frames, 201);
    for before in [&first, &third] {
        let again = queue.claim(&LIMITS).await.unwrap();
        assert_eq!(again.token, before.token);
        assert_eq!(again.frames, before.frames);
        assert_eq!(again.sealed_at, before.sealed_at);
        assert!(again.redelivered);
        queue.ack(&again).await.unwrap();
    }
    assert_eq!(drain(&queue).await, [301]);
}

#[tokio::test]
async fn a_claim_waits_for_company_no_longer_than_the_delay() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    let limits = ClaimLimits {
        delay: Duration::from_millis(200),
        ..LIMITS
    };
    let start = Instant::now();
    queue.append(frame(1, 1, 10)).await.unwrap();
    let claim = queue.claim(&limits).await.unwrap();
    assert!(start.elapsed() >= Duration::from_millis(200));
    assert_eq!(ids(&claim), [1]);

    let long = ClaimLimits {
        delay: Duration::from_secs(3600),
        ..LIMITS
    };
    let other = queue.clone();
    let waiting = tokio::spawn(async move { other.claim(&long).await });
    for id in 2..=102 {
        queue.append(frame(id, 1, 10)).await.unwrap();
    }
    let claim = waiting.await.unwrap().unwrap();
    assert_eq!(ids(&claim), (2..=101).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_frame_over_the_limits_is_a_claim_by_itself() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    queue.append(frame(1, 1, 10)).await.unwrap();
    queue.append(frame(2, 1000, 3 << 20)).await.unwrap();
    queue.append(frame(2000, 1, 10)).await.unwrap();
    for expected in [1, 2, 2000] {
        let claim = queue.claim(&LIMITS).await.unwrap();
        assert_eq!(ids(&claim), [expected]);
    }
}

#[tokio::test]
async fn a_second_daemon_is_told_who_has_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    let error = DiskQueue::open(dir.path(), &config()).err().unwrap();
    assert!(
        error.to_string().contains("another watchtower runs"),
        "{error}"
    );
    queue.close().await;
    open(dir.path());
}
