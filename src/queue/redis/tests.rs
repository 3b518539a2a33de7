//! The queue on a real Redis: order, claims, crashes of either side, refusals.

mod assurance;
mod server;
mod spill;

use std::time::Duration;

use self::server::Server;
use super::*;
use crate::config::{Period, Secret};
use crate::queue::testing::frame;
use crate::queue::token;

const LIMITS: ClaimLimits = ClaimLimits {
    rows: 100,
    bytes: 1 << 20,
    delay: Duration::from_millis(20),
};

fn config(server: &Server) -> RedisQueueConfig {
    RedisQueueConfig {
        url: server.url(),
        lease: Period::millis(400),
        timeout: Period::secs(2),
        ..RedisQueueConfig::default()
    }
}

fn dead() -> DeadLetters {
    let dir = tempfile::tempdir().unwrap();
    DeadLetters::open(&dir.keep()).unwrap()
}

fn open(server: &Server, worker: &str) -> RedisQueue {
    RedisQueue::open(&config(server), worker, dead()).unwrap()
}

fn ids(claim: &Claim) -> Vec<u64> {
    claim.frames.iter().map(|f| f.header().first_id).collect()
}

/// Claims and acknowledges until nothing waits, through whatever errors there are; the first ids.
async fn drain(queue: &RedisQueue) -> Vec<u64> {
    let mut all = Vec::new();
    let mut failures = 0;
    loop {
        match queue.try_claim(&LIMITS).await {
            Ok(Some(claim)) => {
                assert_eq!(claim.token, token(&claim.frames));
                all.extend(ids(&claim));
                while queue.ack(&claim).await.is_err() {
                    failures += 1;
                    assert!(failures < 200, "redis does not come back");
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
            }
            Ok(None) => return all,
            Err(error) => {
                failures += 1;
                assert!(failures < 200, "{error}");
            }
        }
    }
}

/// Waits until something holds.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(15);
    while !holds().await {
        assert!(Instant::now() < deadline, "{what} did not come to be");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn frames_come_out_in_the_order_of_the_calls() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    let waiting: Vec<_> = (1..=1000)
        .map(|id| queue.append(frame(id, 1, 700)))
        .collect();
    for append in waiting {
        append.await.unwrap();
    }
    let depth = queue.depth().await;
    assert_eq!((depth.frames, depth.records), (1000, [0, 0, 1000]));
    assert_eq!(depth.oldest, Some(1_700_000_000_001));
    assert_eq!(drain(&queue).await, (1..=1000).collect::<Vec<_>>());
    assert_eq!(queue.depth().await, Depth::default());
}

#[tokio::test]
async fn claims_keep_to_the_limits_and_wait_no_longer_than_the_delay() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    for (id, rows, bytes) in [
        (1, 60, 10),
        (1000, 60, 10),
        (2000, 500, 10),
        (3000, 1, 2 << 20),
    ] {
        queue.append(frame(id, rows, bytes)).await.unwrap();
    }
    for id in [1, 1000, 2000, 3000] {
        assert_eq!(ids(&queue.claim(&LIMITS).await.unwrap()), [id]);
    }
    let limits = ClaimLimits {
        delay: Duration::from_millis(300),
        ..LIMITS
    };
    let start = Instant::now();
    let (claim, ()) = tokio::join!(queue.claim(&limits), async {
        queue.append(frame(5000, 1, 10)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        queue.append(frame(6000, 1, 10)).await.unwrap();
    });
    assert_eq!(ids(&claim.unwrap()), [5000, 6000]);
    let waited = start.elapsed();
    assert!(
        (Duration::from_millis(300)..Duration::from_millis(700)).contains(&waited),
        "{waited:?}"
    );
}

#[tokio::test]
async fn unacknowledged_claims_come_out_first_and_unchanged_after_a_restart() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    for id in 1..=300 {
        queue.append(frame(id, 1, 700)).await.unwrap();
    }
    let first = queue.claim(&LIMITS).await.unwrap();
    let second = queue.claim(&LIMITS).await.unwrap();
    queue.ack(&first).await.unwrap();
    queue.append(frame(301, 1, 700)).await.unwrap();
    drop(queue);

    let queue = open(&server, "a");
    let again = queue.claim(&LIMITS).await.unwrap();
    assert_eq!(
        (&again.token, &again.frames),
        (&second.token, &second.frames)
    );
    assert_eq!(again.sealed_at, second.sealed_at);
    assert!(again.redelivered);
    queue.ack(&again).await.unwrap();
    assert_eq!(drain(&queue).await, (201..=301).collect::<Vec<_>>());
}

#[tokio::test]
async fn frames_taken_and_not_sealed_are_claimed_by_the_next_start() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    queue.append(frame(1, 1, 10)).await.unwrap();
    queue.append(frame(2000, 1, 10)).await.unwrap();
    let patient = ClaimLimits {
        delay: Duration::from_secs(3600),
        ..LIMITS
    };
    let cut_off = tokio::time::timeout(Duration::from_millis(300), queue.claim(&patient)).await;
    assert!(cut_off.is_err());
    assert_eq!(
        server.command::<usize>("LLEN {watchtower}:claim:a").await,
        2
    );
    drop(queue);
    let queue = open(&server, "a");
    assert_eq!(ids(&queue.claim(&LIMITS).await.unwrap()), [1, 2000]);
}

#[tokio::test]
async fn lists_of_a_silent_worker_are_adopted_with_their_tokens() {
    let server = Server::start().await;
    let gone = open(&server, "gone");
    for id in 1..=150 {
        gone.append(frame(id, 1, 10)).await.unwrap();
    }
    let claim = gone.claim(&LIMITS).await.unwrap();
    let patient = ClaimLimits {
        delay: Duration::from_secs(3600),
        ..LIMITS
    };
    let cut_off = tokio::time::timeout(Duration::from_millis(200), gone.claim(&patient)).await;
    assert!(cut_off.is_err());
    drop(gone);

    let other = open(&server, "other");
    let adopted = other.claim(&LIMITS).await.unwrap();
    assert_eq!(
        (&adopted.token, &adopted.frames),
        (&claim.token, &claim.frames)
    );
    assert!(adopted.redelivered);
    other.ack(&adopted).await.unwrap();
    let rest = other.claim(&LIMITS).await.unwrap();
    assert_eq!(ids(&rest), (101..=150).collect::<Vec<_>>());
    other.ack(&rest).await.unwrap();
    let workers: Vec<String> = server.command("SMEMBERS {watchtower}:workers").await;
    assert_eq!(workers, ["other"]);
    assert_eq!(other.depth().await, Depth::default());
}

#[tokio::test]
async fn a_redis_that_is_away_at_the_start_is_waited_for() {
    let mut server = Server::start().await;
    server.kill();
    let queue = open(&server, "a");
    let append = queue.append(frame(1, 1, 10));
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(queue.last_error().is_some());
    assert!(queue.claim(&LIMITS).await.is_err());
    server.run().await;
    let was_refused = append.await.is_err();
    until("recovery", async || queue.last_error().is_none()).await;
    // On a machine that takes long to start a Redis, the frame has waited too long.
    if was_refused {
        queue.append(frame(1, 1, 10)).await.unwrap();
    }
    assert_eq!(drain(&queue).await, [1]);
}

#[tokio::test]
async fn a_frame_that_was_never_sent_is_refused_after_the_timeout() {
    let mut server = Server::start().await;
    server.kill();
    let queue = open(&server, "a");
    let start = Instant::now();
    let error = queue.append(frame(1, 1, 10)).await.unwrap_err();
    assert!(matches!(error, Error::Redis(_)), "{error}");
    assert!(start.elapsed() >= Duration::from_secs(2));
    server.run().await;
    until("recovery", async || queue.last_error().is_none()).await;
    assert!(drain(&queue).await.is_empty());
}

/// Frames are appended while something goes wrong again and again. Each acknowledged frame must come
/// out, once and in order; each refused one must not.
async fn torture(server: &mut Server, mut trouble: impl AsyncFnMut(&mut Server)) {
    let queue = open(server, "a");
    let appender = queue.clone();
    let appends = tokio::spawn(async move {
        let mut outcomes = Vec::new();
        for burst in 0..60u64 {
            let waiting: Vec<_> = (0..20)
                .map(|i| {
                    let id = 1 + burst * 20 + i;
                    (id, appender.append(frame(id, 1, 2000)))
                })
                .collect();
            for (id, append) in waiting {
                outcomes.push((id, append.await));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        outcomes
    });
    let reader = queue.clone();
    let claims = tokio::spawn(async move {
        let mut all = Vec::new();
        loop {
            match reader.claim(&LIMITS).await {
                Ok(claim) => {
                    all.extend(ids(&claim));
                    while reader.ack(&claim).await.is_err() {
                        tokio::time::sleep(Duration::from_millis(20)).await;
                    }
                }
                Err(Error::Closed) => return all,
                Err(_) => {}
            }
        }
    });
    while !appends.is_finished() {
        trouble(server).await;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    let outcomes = appends.await.unwrap();
    until("an empty queue", async || {
        queue.depth().await.frames == 0 && queue.depth().await == Depth::default()
    })
    .await;
    queue.close().await;
    let delivered = claims.await.unwrap();
    let accepted: Vec<u64> = outcomes
        .iter()
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(id, _)| *id)
        .collect();
    assert!(
        accepted.len() > 100,
        "only {} were accepted",
        accepted.len()
    );
    assert_eq!(delivered, accepted);
}

#[tokio::test]
async fn killed_connections_lose_double_and_reorder_nothing() {
    let mut server = Server::start().await;
    torture(&mut server, async |server| {
        let _killed: i64 = server.command("CLIENT KILL TYPE normal").await;
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_crashes_and_restarts_loses_doubles_and_reorders_nothing() {
    let mut server = Server::start().await;
    torture(&mut server, async |server| {
        server.kill();
        tokio::time::sleep(Duration::from_millis(50)).await;
        server.run().await;
        tokio::time::sleep(Duration::from_millis(250)).await;
    })
    .await;
}

#[tokio::test]
async fn a_redis_that_turns_read_only_refuses_with_its_own_words_and_loses_nothing() {
    let mut server = Server::start().await;
    torture(&mut server, async |server| {
        let _: String = server.command("REPLICAOF 127.0.0.1 1").await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        let _: String = server.command("REPLICAOF NO ONE").await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    })
    .await;
    let queue = open(&server, "b");
    until("a connection", async || {
        queue.append(frame(1, 1, 10)).await.is_ok()
    })
    .await;
    let _: String = server.command("REPLICAOF 127.0.0.1 1").await;
    let error = queue
        .append(frame(2000, 1, 10))
        .await
        .unwrap_err()
        .to_string();
    assert!(error.contains("READONLY"), "{error}");
    assert!(queue.last_error().unwrap().to_string().contains("READONLY"));
    let _: String = server.command("REPLICAOF NO ONE").await;
    until("recovery without traffic", async || {
        queue.last_error().is_none()
    })
    .await;
}

#[tokio::test]
async fn r_041_a_full_redis_refuses_frames_and_can_still_be_drained() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    queue.append(frame(1, 1, 10)).await.unwrap();
    let _: String = server.command("CONFIG SET maxmemory 4mb").await;
    let mut accepted = vec![1];
    let mut refused = 0;
    for id in (0..100).map(|i| 1000 + i * 1000) {
        match queue.append(frame(id, 1, 100_000)).await {
            Ok(()) => accepted.push(id),
            Err(error) => {
                assert!(error.to_string().contains("OOM"), "{error}");
                refused += 1;
            }
        }
    }
    assert!(
        refused > 50 && accepted.len() > 5,
        "{refused} refused, {} not",
        accepted.len()
    );
    assert!(queue.last_error().unwrap().to_string().contains("OOM"));
    let clients: String = server.command("CLIENT LIST").await;
    assert!(clients.lines().count() < 8, "{clients}");
    assert_eq!(drain(&queue).await, accepted);
    until("recovery without traffic", async || {
        queue.last_error().is_none()
    })
    .await;
    queue.append(frame(200_000, 1, 10)).await.unwrap();
}

#[tokio::test]
async fn a_damaged_frame_goes_to_the_dead_letters_and_the_others_go_on() {
    let server = Server::start().await;
    let dead = dead();
    let queue = RedisQueue::open(&config(&server), "a", dead.clone()).unwrap();
    queue.append(frame(1, 1, 10)).await.unwrap();
    let _: i64 = server
        .command("RPUSH {watchtower}:queue garbage-that-is-no-frame")
        .await;
    queue.append(frame(2000, 1, 10)).await.unwrap();
    assert_eq!(drain(&queue).await, [1, 2000]);
    assert_eq!(dead.counts().unwrap().letters, 1);
}

#[tokio::test]
async fn passwords_may_have_any_character() {
    let server = Server::with_password("p@ss:/?#[]%20w\u{f6}rd").await;
    let config = RedisQueueConfig {
        password: Secret::new("p@ss:/?#[]%20w\u{f6}rd".to_owned()),
        ..config(&server)
    };
    let queue = RedisQueue::open(&config, "a", dead()).unwrap();
    queue.append(frame(1, 1, 10)).await.unwrap();
    let wrong = RedisQueueConfig {
        password: Secret::new("other".to_owned()),
        ..config
    };
    let queue = RedisQueue::open(&wrong, "b", dead()).unwrap();
    let error = queue
        .append(frame(2000, 1, 10))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("WRONGPASS") || error.contains("uthentication"),
        "{error}"
    );
}

#[tokio::test]
async fn node_numbers_are_not_shared() {
    let server = Server::start().await;
    let (a, b) = (open(&server, "a"), open(&server, "b"));
    assert_eq!(a.lease_node().await.unwrap(), 0);
    assert_eq!(a.lease_node().await.unwrap(), 0);
    assert_eq!(b.lease_node().await.unwrap(), 1);
    a.close().await;
    let c = open(&server, "c");
    assert_eq!(c.lease_node().await.unwrap(), 0);
}

/// The list itself is evicted, or deleted by somebody.
#[tokio::test]
async fn r_041_a_list_that_vanished_is_noticed_and_written_off() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    for id in [1, 2000, 3000] {
        queue.append(frame(id, 5, 10)).await.unwrap();
    }
    let one = ClaimLimits { rows: 5, ..LIMITS };
    let claim = queue.claim(&one).await.unwrap();
    let _: i64 = server.command("DEL {watchtower}:queue").await;
    // What is left could be among the missing, so nothing is written off before it is gone.
    until("the loss is noticed", async || {
        queue.inner.shared.vanished.lock().unwrap().missing == 2
    })
    .await;
    assert_eq!(queue.damaged(), (0, [0; 3]));
    queue.ack(&claim).await.unwrap();
    until("the loss is written off", async || {
        queue.depth().await.frames == 0 && queue.damaged().0 == 1
    })
    .await;
    assert_eq!(queue.damaged(), (1, [0, 0, 10]));
    queue.append(frame(4000, 1, 10)).await.unwrap();
    assert_eq!(drain(&queue).await, [4000]);
    assert_eq!(queue.damaged(), (1, [0, 0, 10]));
}
