//! `wait_replicas` and `wait_aof`, on real servers.

use super::*;

fn asking(server: &Server, wait_replicas: u16, wait_aof: bool) -> RedisQueueConfig {
    RedisQueueConfig {
        wait_replicas,
        wait_aof,
        timeout: Period::millis(600),
        lease: Period::secs(5),
        ..config(server)
    }
}

/// A server and a replica of it that is in step.
async fn pair() -> (Server, Server) {
    let (server, replica) = (Server::start().await, Server::start().await);
    let order = format!("REPLICAOF 127.0.0.1 {}", server.port);
    let _: () = replica.command(&order).await;
    until("the replica is in step", async || {
        let info: String = server.command("INFO replication").await;
        info.contains("state=online")
    })
    .await;
    (server, replica)
}

async fn queued(server: &Server) -> i64 {
    server.command("LLEN {watchtower}:queue").await
}

#[tokio::test]
async fn a_frame_is_acknowledged_once_the_replica_has_it() {
    let (server, replica) = pair().await;
    let patient = RedisQueueConfig {
        timeout: Period::secs(30),
        ..asking(&server, 1, false)
    };
    let queue = RedisQueue::open(&patient, "a", dead()).unwrap();
    for id in 1..=50 {
        queue.append(frame(id, 1, 700)).await.unwrap();
        assert_eq!(queued(&replica).await, i64::try_from(id).unwrap());
    }
    let together: Vec<_> = (51..=500)
        .map(|id| queue.append(frame(id, 1, 700)))
        .collect();
    for append in together {
        append.await.unwrap();
    }
    assert_eq!(queued(&replica).await, 500);
    let stats: String = server.command("INFO commandstats").await;
    let waits = stats
        .lines()
        .find_map(|line| line.strip_prefix("cmdstat_wait:calls=")?.split(',').next());
    let waits: u64 = waits.unwrap().parse().unwrap();
    assert!((50..300).contains(&waits), "{waits} waits");
    assert_eq!(drain(&queue).await, (1..=500).collect::<Vec<_>>());
}

#[tokio::test]
async fn without_its_replica_nothing_is_acknowledged_and_nothing_is_lost() {
    let (server, replica) = pair().await;
    let asking = RedisQueueConfig {
        timeout: Period::secs(4),
        ..asking(&server, 1, false)
    };
    let queue = RedisQueue::open(&asking, "a", dead()).unwrap();
    queue.append(frame(1, 1, 700)).await.unwrap();
    replica.pause(true);
    let mut in_doubt = std::pin::pin!(queue.append(frame(2000, 1, 700)));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut in_doubt).await;
    assert!(early.is_err(), "acknowledged although no replica has it");
    until("the trouble is told", async || {
        let told = queue.last_error();
        told.is_some_and(|error| error.to_string().contains("0 of 1 replicas"))
    })
    .await;
    let refused = queue.append(frame(3000, 1, 700)).await.unwrap_err();
    assert!(refused.to_string().contains("wait_replicas"), "{refused}");
    replica.pause(false);
    in_doubt.await.unwrap();
    until("recovery", async || queue.last_error().is_none()).await;
    queue.append(frame(4000, 1, 700)).await.unwrap();
    assert_eq!(drain(&queue).await, [1, 2000, 4000]);
}

#[tokio::test]
async fn without_its_replica_frames_go_to_the_spill_and_come_once() {
    let (server, replica) = pair().await;
    let dir = tempfile::tempdir().unwrap();
    let disk = crate::config::DiskQueueConfig {
        min_free: crate::config::ByteSize::bytes(0),
        ..crate::config::DiskQueueConfig::default()
    };
    let spill = Spill::open_in(dir.path(), &disk, Duration::from_millis(300), 0).unwrap();
    let asking = asking(&server, 1, false);
    let queue = RedisQueue::open_with(&asking, "a", dead(), Some(spill), None).unwrap();
    queue.append(frame(1, 1, 700)).await.unwrap();
    replica.pause(true);
    for id in [2000, 3000, 4000] {
        let taken = tokio::time::timeout(Duration::from_secs(2), queue.append(frame(id, 1, 700)));
        taken.await.unwrap().unwrap();
    }
    let why = queue.spills_because().unwrap();
    assert!(why.contains("0 of 1 replicas"), "{why}");
    replica.pause(false);
    until("the spill is empty", async || {
        queue.spills_because().is_none()
    })
    .await;
    queue.append(frame(5000, 1, 700)).await.unwrap();
    assert_eq!(queued(&replica).await, 5);
    assert_eq!(drain(&queue).await, [1, 2000, 3000, 4000, 5000]);
    assert_eq!(queue.depth().await.frames, 0);
}

#[tokio::test]
async fn a_server_without_waitaof_is_told_of_in_so_many_words() {
    let server = Server::start().await;
    let queue = RedisQueue::open(&asking(&server, 0, true), "a", dead()).unwrap();
    let info: String = server.command("INFO server").await;
    let version = info
        .lines()
        .find_map(|line| line.trim().strip_prefix("redis_version:"));
    let mut parts = version
        .unwrap()
        .split('.')
        .map(|part| part.parse().unwrap());
    let version: (u32, u32) = (parts.next().unwrap(), parts.next().unwrap());
    let appended = queue.append(frame(1, 1, 700)).await;
    if version >= (7, 2) {
        appended.unwrap();
        return;
    }
    let error = appended.unwrap_err().to_string();
    assert!(
        error.contains("`queue.redis.wait_aof` needs redis 7.2 or later"),
        "{error}"
    );
    assert!(error.contains("unknown command"), "{error}");
    assert_eq!(queued(&server).await, 0);
}

#[tokio::test]
async fn by_default_nothing_is_waited_for() {
    let server = Server::start().await;
    let queue = open(&server, "a");
    queue.append(frame(1, 1, 700)).await.unwrap();
    let stats: String = server.command("INFO commandstats").await;
    assert!(!stats.contains("cmdstat_wait"), "{stats}");
}
