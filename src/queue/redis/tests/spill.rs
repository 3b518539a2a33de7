//! The spill before a real Redis. Case: Redis is killed, paused, full, read-only while frames come;
//! must hold: no append fails, and every frame comes out of Redis once and in order.

use std::sync::{Arc, Mutex};

use super::*;
use crate::config::{ByteSize, DiskQueueConfig};
use crate::queue::spill::Spill;

const PATIENCE: Duration = Duration::from_millis(100);

fn disk() -> DiskQueueConfig {
    DiskQueueConfig {
        min_free: ByteSize::bytes(0),
        ..DiskQueueConfig::default()
    }
}

fn open_in(server: &Server, dir: &std::path::Path, disk: &DiskQueueConfig) -> RedisQueue {
    let spill = Spill::open_in(dir, disk, PATIENCE, 0).unwrap();
    RedisQueue::open_with(&config(server), "a", dead(), Some(spill), None).unwrap()
}

/// The first ids of what was claimed so far.
type Claimed = Arc<Mutex<Vec<u64>>>;

/// Claims until the queue is closed.
fn claim_all(queue: &RedisQueue) -> (tokio::task::JoinHandle<()>, Claimed) {
    let queue = queue.clone();
    let all = Claimed::default();
    let claimed = Arc::clone(&all);
    let claims = tokio::spawn(async move {
        loop {
            match queue.claim(&LIMITS).await {
                Ok(claim) => {
                    all.lock().unwrap().extend(ids(&claim));
                    while queue.ack(&claim).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                Err(Error::Closed) => return,
                Err(_) => {}
            }
        }
    });
    (claims, claimed)
}

/// Appends a stream of frames while trouble comes again and again.
async fn troubled(server: &mut Server, mut trouble: impl AsyncFnMut(&mut Server)) {
    let dir = tempfile::tempdir().unwrap();
    let queue = open_in(server, dir.path(), &disk());
    let (claims, claimed) = claim_all(&queue);
    let appender = queue.clone();
    let appends = tokio::spawn(async move {
        let mut longest = Duration::ZERO;
        for burst in 0..200u64 {
            let start = Instant::now();
            let waiting: Vec<_> = (1..=10)
                .map(|i| appender.append(frame(burst * 10 + i, 1, 2000)))
                .collect();
            for append in waiting {
                append.await.unwrap();
            }
            longest = longest.max(start.elapsed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        longest
    });
    while !appends.is_finished() {
        tokio::time::sleep(Duration::from_millis(150)).await;
        trouble(server).await;
    }
    let longest = appends.await.unwrap();
    // Far below what a sender waits for, on a machine that has other things to do.
    assert!(longest < Duration::from_secs(8), "{longest:?}");
    // While Redis is away the depth is the last that was known, so that it says nothing by itself.
    until("the last frame", async || {
        claimed.lock().unwrap().len() >= 2000
    })
    .await;
    until("an empty queue", async || {
        queue.depth().await == Depth::default()
    })
    .await;
    until("the end of the spill", async || {
        queue.spills_because().is_none()
    })
    .await;
    queue.close().await;
    claims.await.unwrap();
    assert_eq!(*claimed.lock().unwrap(), (1..=2000).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_redis_that_is_killed_and_restarted_is_not_noticed_by_senders() {
    let mut server = Server::start().await;
    troubled(&mut server, async |server| {
        server.kill();
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.run().await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_hangs_leaves_no_frame_in_both_and_none_in_neither() {
    let mut server = Server::start().await;
    troubled(&mut server, async |server| {
        server.pause(true);
        tokio::time::sleep(Duration::from_millis(400)).await;
        server.pause(false);
        tokio::time::sleep(Duration::from_millis(200)).await;
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_sleeps_or_cuts_connections_is_not_noticed_by_senders() {
    let mut server = Server::start().await;
    troubled(&mut server, async |server| {
        let _killed: i64 = server.command("CLIENT KILL TYPE normal").await;
        let _: String = server.command("DEBUG SLEEP 0.3").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_turns_read_only_is_not_noticed_by_senders() {
    let mut server = Server::start().await;
    troubled(&mut server, async |server| {
        let _: String = server.command("REPLICAOF 127.0.0.1 1").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let _: String = server.command("REPLICAOF NO ONE").await;
        tokio::time::sleep(Duration::from_millis(300)).await;
    })
    .await;
}

#[tokio::test]
async fn r_041_a_full_redis_is_not_noticed_by_senders() {
    let server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let queue = open_in(&server, dir.path(), &disk());
    let _: String = server.command("CONFIG SET maxmemory 4mb").await;
    for id in 1..=100 {
        queue.append(frame(id, 1, 100_000)).await.unwrap();
    }
    assert!(queue.spills_because().unwrap().contains("OOM"));
    assert_eq!(queue.last_error().map(|error| error.to_string()), None);
    assert_eq!(queue.depth().await.frames, 100);
    let (claims, claimed) = claim_all(&queue);
    until("the last frame", async || {
        claimed.lock().unwrap().len() >= 100
    })
    .await;
    until("an empty queue", async || {
        queue.depth().await == Depth::default()
    })
    .await;
    queue.close().await;
    claims.await.unwrap();
    assert_eq!(*claimed.lock().unwrap(), (1..=100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_frame_in_doubt_comes_once_after_a_crash_of_the_daemon() {
    let server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5u64 {
        let id = |i: u64| round * 10 + i;
        let queue = open_in(&server, dir.path(), &disk());
        queue.append(frame(id(1), 1, 100)).await.unwrap();
        until("a connection", async || queue.spills_because().is_none()).await;
        server.pause(true);
        // Sent to a Redis that hangs, where it stays in the socket; then written to the spill.
        for i in 2..=4 {
            queue.append(frame(id(i), 1, 100)).await.unwrap();
        }
        drop(queue);
        let queue = if round % 2 == 0 {
            // The next start is there before Redis goes on, or after.
            let queue = open_in_when_free(&server, dir.path()).await;
            server.pause(false);
            queue
        } else {
            server.pause(false);
            tokio::time::sleep(Duration::from_millis(50)).await;
            open_in_when_free(&server, dir.path()).await
        };
        queue.append(frame(id(5), 1, 100)).await.unwrap();
        until("the end of the spill", async || {
            queue.spills_because().is_none()
        })
        .await;
        assert_eq!(drain(&queue).await, (id(1)..=id(5)).collect::<Vec<_>>());
        queue.close().await;
    }
}

/// Opens the queue as soon as the one before has let go of the directory.
async fn open_in_when_free(server: &Server, dir: &std::path::Path) -> RedisQueue {
    loop {
        match Spill::open_in(dir, &disk(), PATIENCE, 0) {
            Ok(spill) => {
                return RedisQueue::open_with(&config(server), "a", dead(), Some(spill), None)
                    .unwrap();
            }
            Err(Error::Locked { .. }) => tokio::time::sleep(Duration::from_millis(10)).await,
            Err(error) => panic!("{error}"),
        }
    }
}

#[tokio::test]
async fn a_full_spill_refuses_and_what_is_in_doubt_waits_for_redis() {
    let server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let small = DiskQueueConfig {
        max_bytes: ByteSize::bytes(50_000),
        ..disk()
    };
    let queue = open_in(&server, dir.path(), &small);
    queue.append(frame(1, 1, 100)).await.unwrap();
    server.pause(true);
    // Sent, and too large for the spill.
    let doubtful = queue.append(frame(2, 1, 60_000));
    tokio::time::sleep(PATIENCE * 3).await;
    queue.append(frame(3, 1, 40_000)).await.unwrap();
    let error = queue.append(frame(4, 1, 40_000)).await.unwrap_err();
    assert!(matches!(error, Error::Full { .. }), "{error}");
    // Both reasons: Redis's, and that of the spill.
    let error = queue.last_error().unwrap().to_string();
    assert!(error.contains("; and the spill: queue is full"), "{error}");
    let mut doubtful = Box::pin(doubtful);
    let unanswered = tokio::time::timeout(Duration::from_millis(300), doubtful.as_mut()).await;
    assert!(unanswered.is_err(), "{unanswered:?}");
    server.pause(false);
    doubtful.await.unwrap();
    until("the end of the spill", async || {
        queue.spills_because().is_none()
    })
    .await;
    assert_eq!(drain(&queue).await, [1, 2, 3]);
}

#[tokio::test]
async fn closing_while_redis_is_away_keeps_everything_in_the_spill() {
    let mut server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let queue = open_in(&server, dir.path(), &disk());
    queue.append(frame(1, 1, 100)).await.unwrap();
    server.kill();
    let appends: Vec<_> = (2..=50).map(|id| queue.append(frame(id, 1, 100))).collect();
    tokio::time::timeout(Duration::from_secs(5), queue.close())
        .await
        .unwrap();
    for append in appends {
        append.await.unwrap();
    }
    server.run().await;
    let queue = open_in_when_free(&server, dir.path()).await;
    until("the end of the spill", async || {
        queue.spills_because().is_none()
    })
    .await;
    assert_eq!(drain(&queue).await, (1..=50).collect::<Vec<_>>());
}

/// Case: a spill with requests in it is in Redis, stored and acknowledged before anybody asks which
/// requests are known. Must hold: they are known.
#[tokio::test]
async fn requests_of_the_spill_are_known_although_it_was_drained_first() {
    let mut server = Server::start().await;
    let dir = tempfile::tempdir().unwrap();
    let queue = open_in(&server, dir.path(), &disk());
    server.kill();
    let digest = [7; 16];
    let seal = crate::frame::Seal {
        node: 1,
        first_id: 1024,
        sealed_at: 1_700_000_000_000,
        digests: vec![digest],
    };
    let spilled = Frame::seal(&seal, [0, 0, 1], 10, |out| out.extend_from_slice(&[1; 10]));
    queue.append(spilled).await.unwrap();
    assert_eq!(queue.spill_depth().frames, 1);
    queue.close().await;
    drop(queue);
    server.run().await;

    let queue = loop {
        match Spill::open_in(dir.path(), &disk(), PATIENCE, 0) {
            Ok(spill) => {
                let spill = Some(spill);
                break RedisQueue::open_with(&config(&server), "a", dead(), spill, None).unwrap();
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    };
    let claim = queue.claim(&LIMITS).await.unwrap();
    queue.ack(&claim).await.unwrap();
    until("an empty queue", async || {
        queue.depth().await == Depth::default()
    })
    .await;
    assert_eq!(
        queue.digests(0).await.unwrap(),
        [(digest, 1_700_000_000_000)]
    );
    queue.close().await;
}
