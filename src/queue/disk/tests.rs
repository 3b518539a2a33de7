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

/// What a killed process leaves: the files as they are, taken from under a running queue.
fn as_after_a_kill(dir: &Path) -> tempfile::TempDir {
    let copy = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
    }
    copy
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x40;
    fs::write(path, bytes).unwrap();
}

/// A queue of 300 frames of 764 bytes in segments of 64 KiB, of which the first 100 are acknowledged and the
/// next 50 sealed.
async fn filled(dir: &Path) -> (DiskQueue, Claim) {
    let queue = open(dir);
    for id in 1..=300 {
        queue.append(frame(id, 1, 700)).await.unwrap();
    }
    let first = queue.claim(&LIMITS).await.unwrap();
    queue.ack(&first).await.unwrap();
    let limits = ClaimLimits { rows: 50, ..LIMITS };
    let second = queue.claim(&limits).await.unwrap();
    (queue, second)
}

#[tokio::test]
async fn a_killed_daemon_finds_everything_again() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, sealed) = filled(dir.path()).await;
    let copy = as_after_a_kill(dir.path());
    let queue = open(copy.path());
    assert_eq!(queue.depth().frames, 200);
    assert_eq!(queue.depth().oldest, Some(1_700_000_000_101));
    let again = queue.claim(&LIMITS).await.unwrap();
    assert_eq!(
        (&again.token, &again.frames),
        (&sealed.token, &sealed.frames)
    );
    queue.ack(&again).await.unwrap();
    assert_eq!(drain(&queue).await, (151..=300).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_torn_tail_is_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, _sealed) = filled(dir.path()).await;
    for cut in [1, 60, 64, 700, 763] {
        let copy = as_after_a_kill(dir.path());
        let last = segments(copy.path()).pop().unwrap();
        let len = fs::metadata(&last).unwrap().len();
        fs::OpenOptions::new()
            .write(true)
            .open(&last)
            .unwrap()
            .set_len(len - cut)
            .unwrap();
        let queue = open(copy.path());
        assert_eq!(drain(&queue).await, (101..=299).collect::<Vec<_>>());
        assert_eq!(queue.damaged().0, 0);
    }
}

#[tokio::test]
async fn what_a_sealed_claim_lost_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, sealed) = filled(dir.path()).await;
    let copy = as_after_a_kill(dir.path());
    let first = segments(copy.path()).remove(0);
    // The body of the claim's first frame in that file.
    let bytes = fs::read(&first).unwrap();
    let start = bytes.windows(4).position(|four| four == b"WTFR").unwrap();
    let frames = (bytes.len() - start) / 764;
    let claimed = (0..frames).find(|n| {
        let at = start + 764 * n;
        sealed.frames[3].as_bytes()[..] == bytes[at..at + 764]
    });
    flip(&first, start + 764 * claimed.unwrap() + 300);
    let queue = open(copy.path());
    assert_eq!(queue.depth().frames, 200);
    let again = queue.claim(&LIMITS).await.unwrap();
    assert_eq!(again.frames.len(), 49);
    assert_eq!(queue.damaged(), (1, [0, 0, 1]));
    assert_eq!(queue.depth().frames, 199);
    queue.ack(&again).await.unwrap();
    assert_eq!(drain(&queue).await, (151..=300).collect::<Vec<_>>());
    assert_eq!(queue.depth(), Depth::default());
    assert_eq!(queue.damaged(), (1, [0, 0, 1]));
}

#[tokio::test]
async fn damage_costs_the_frame_it_is_in_and_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, _sealed) = filled(dir.path()).await;
    // In a finished segment and in the last one, which has no footer; in a header, in a body and in a length.
    for which in [1, 2] {
        for at in [16 + 764 * 5 + 2, 16 + 764 * 5 + 300, 16 + 764 * 5 + 9] {
            let copy = as_after_a_kill(dir.path());
            flip(&segments(copy.path())[which], at);
            let queue = open(copy.path());
            let out = drain(&queue).await;
            assert_eq!(out.len(), 199, "segment {which}, byte {at}");
            assert!(out.is_sorted());
            assert_eq!(queue.damaged().0, 1);
            let kept: Vec<_> = fs::read_dir(copy.path().join(DAMAGED)).unwrap().collect();
            assert_eq!(kept.len(), 1);
            assert_eq!(kept[0].as_ref().unwrap().metadata().unwrap().len(), 764);
            assert_eq!(queue.depth(), Depth::default());
        }
    }
}

#[tokio::test]
async fn any_damage_anywhere_leaves_a_queue_that_works() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, _sealed) = filled(dir.path()).await;
    let mut random: u64 = 7;
    for _ in 0..60 {
        let copy = as_after_a_kill(dir.path());
        let mut files = segments(copy.path());
        files.push(copy.path().join(cursor::NAME));
        for _ in 0..3 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let file = &files[(random >> 33) as usize % files.len()];
            let len = fs::metadata(file).unwrap().len() as usize;
            let near = len.min(if file.extension().unwrap() == "log" {
                300
            } else {
                len
            });
            flip(file, (random >> 17) as usize % near);
        }
        let queue = open(copy.path());
        let mut out = drain(&queue).await;
        out.dedup();
        assert!(out.len() >= 196, "{} of 200", out.len());
        queue.append(frame(1000, 1, 10)).await.unwrap();
        assert_eq!(drain(&queue).await, [1000]);
        assert_eq!(queue.depth(), Depth::default());
    }
}

#[tokio::test]
async fn without_its_cursor_log_everything_comes_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, _sealed) = filled(dir.path()).await;
    let copy = as_after_a_kill(dir.path());
    fs::remove_file(copy.path().join(cursor::NAME)).unwrap();
    let queue = open(copy.path());
    let out = drain(&queue).await;
    // The first segment was drained and is gone.
    let first = out[0];
    assert!(first <= 101);
    assert_eq!(out, (first..=300).collect::<Vec<_>>());
}

#[tokio::test]
async fn an_old_cursor_log_beside_new_segments_acknowledges_none_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    queue.append(frame(1, 1, 10)).await.unwrap();
    assert_eq!(drain(&queue).await, [1]);
    let old = fs::read(dir.path().join(cursor::NAME)).unwrap();
    for id in 2..=300 {
        queue.append(frame(id, 1, 700)).await.unwrap();
    }
    let claim = queue.claim(&LIMITS).await.unwrap();
    let copy = as_after_a_kill(dir.path());
    fs::write(copy.path().join(cursor::NAME), old).unwrap();
    let queue = open(copy.path());
    let out = drain(&queue).await;
    assert_eq!(out, (2..=300).collect::<Vec<_>>(), "{claim:?}");
}

#[tokio::test]
async fn a_missing_segment_costs_what_was_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let (_queue, _sealed) = filled(dir.path()).await;
    for which in [0, 1, 2] {
        let copy = as_after_a_kill(dir.path());
        fs::remove_file(&segments(copy.path())[which]).unwrap();
        let queue = open(copy.path());
        let out = drain(&queue).await;
        assert!(
            out.is_sorted() && (100..200).contains(&out.len()),
            "{which}: {}",
            out.len()
        );
        assert_eq!(queue.depth(), Depth::default());
    }
}

#[tokio::test]
async fn a_segment_that_vanishes_while_the_queue_runs_does_not_stop_it() {
    let dir = tempfile::tempdir().unwrap();
    let (queue, _sealed) = filled(dir.path()).await;
    queue.close().await;
    let queue = open(dir.path());
    fs::remove_file(&segments(dir.path())[1]).unwrap();
    let out = drain(&queue).await;
    assert!(
        out.is_sorted() && (100..200).contains(&out.len()),
        "{}",
        out.len()
    );
    assert!(queue.damaged().1[2] > 50);
    assert_eq!(queue.depth(), Depth::default());
}

#[test]
fn a_segment_that_may_not_be_read_is_moved_away_and_taken_back_later() {
    let disk = sim::Disk::new(1);
    let io: Arc<dyn Io> = Arc::new(disk.clone());
    let start = || {
        let (state, cursor) = recovery::recover(&io, true).unwrap();
        let state = Arc::new(Mutex::new(state));
        let log = Log::new(Arc::clone(&io), config(), Arc::clone(&state), cursor);
        (log, state)
    };
    let (mut log, _) = start();
    log.append(&[frame(1, 1, 10)]).unwrap();
    log.close().unwrap();
    let name = disk
        .names()
        .into_iter()
        .find(|n| n.ends_with(".seg"))
        .unwrap();
    disk.forbid(&name, true);
    for _ in 0..2 {
        let (_, state) = start();
        assert_eq!(state.lock().unwrap().unacked.frames, 0);
        assert!(disk.names().contains(&format!("{DAMAGED}/{name}")));
    }
    disk.forbid(&name, false);
    let (_, state) = start();
    assert_eq!(state.lock().unwrap().unacked.frames, 1);
}

#[tokio::test]
async fn a_full_queue_refuses_until_it_is_drained() {
    let dir = tempfile::tempdir().unwrap();
    let config = DiskQueueConfig {
        max_bytes: ByteSize::bytes(10_000),
        ..config()
    };
    let queue = DiskQueue::open(dir.path(), &config).unwrap();
    let waiting: Vec<_> = (1..=20)
        .map(|id| queue.append(frame(id, 1, 1000)))
        .collect();
    let mut outcomes = Vec::new();
    for append in waiting {
        outcomes.push(append.await);
    }
    let accepted = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
    assert_eq!(accepted, 9);
    assert!(matches!(outcomes[19], Err(Error::Full { cap: 10_000, .. })));
    assert_eq!(drain(&queue).await, (1..=9).collect::<Vec<_>>());
    queue.append(frame(21, 1, 1000)).await.unwrap();
}

#[tokio::test]
async fn a_nearly_full_disk_is_not_filled_further() {
    let dir = tempfile::tempdir().unwrap();
    let config = DiskQueueConfig {
        min_free: ByteSize::bytes(1 << 60),
        ..config()
    };
    let queue = DiskQueue::open(dir.path(), &config).unwrap();
    let error = queue.append(frame(1, 1, 10)).await.unwrap_err();
    assert!(matches!(error, Error::DiskLow { .. }), "{error}");
    assert!(queue.last_error().is_some());
    assert!(segments(dir.path()).is_empty());
}

#[tokio::test]
async fn frames_that_are_not_in_memory_any_more_are_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    queue.state().cache_limit = 20_000;
    for id in 1..=400 {
        queue.append(frame(id, 1, 700)).await.unwrap();
    }
    assert_eq!(drain(&queue).await, (1..=400).collect::<Vec<_>>());
    assert_eq!(queue.depth(), Depth::default());
}

#[tokio::test]
async fn a_claim_whose_caller_went_away_comes_out_of_the_next_call() {
    let dir = tempfile::tempdir().unwrap();
    let queue = open(dir.path());
    for round in 0..200u64 {
        queue.append(frame(1 + round, 1, 10)).await.unwrap();
        let cut_off = Duration::from_micros(round);
        let result = tokio::time::timeout(cut_off, queue.try_claim(&LIMITS)).await;
        let claim = match result {
            Ok(claim) => claim.unwrap().unwrap(),
            Err(_) => queue.try_claim(&LIMITS).await.unwrap().unwrap(),
        };
        assert_eq!(ids(&claim), [1 + round]);
        queue.ack(&claim).await.unwrap();
    }
}

#[tokio::test]
async fn unsynced_frames_are_synced_within_the_period_and_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let config = DiskQueueConfig {
        fsync: Fsync::Interval(crate::config::Period::millis(20)),
        ..config()
    };
    let queue = DiskQueue::open(dir.path(), &config).unwrap();
    for id in 1..=50 {
        queue.append(frame(id, 1, 700)).await.unwrap();
    }
    queue.close().await;
    assert!(matches!(
        queue.append(frame(51, 1, 10)).await,
        Err(Error::Closed)
    ));
    let queue = open(dir.path());
    assert_eq!(drain(&queue).await, (1..=50).collect::<Vec<_>>());
}

#[tokio::test]
async fn files_are_the_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue");
    let (_queue, _sealed) = filled(&path).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o700);
    for entry in fs::read_dir(&path).unwrap() {
        let path = entry.unwrap().path();
        let expected = if path.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(mode(&path), expected, "{}", path.display());
    }
}
