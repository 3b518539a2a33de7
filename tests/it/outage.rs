//! Outages on the real daemon: Redis and ClickHouse away, stops in the middle of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::support::daemon::Daemon;
use crate::support::redis::Redis;
use crate::support::{http, pause};

fn post(daemon: &Daemon, message: &str) -> u16 {
    let body = format!(r#"{{"message":"{message}"}}"#);
    let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
    answer.unwrap().status
}

fn with_redis(redis: &Redis, more: &str) -> String {
    format!(
        "queue:\n  kind: redis\n  redis:\n    url: {}\n{more}",
        redis.url()
    )
}

/// Case: the daemon is killed while Redis is away and records go to the spill; and started again
/// before Redis is.
#[test]
fn what_was_spilled_is_stored_once_after_a_kill_of_the_daemon() {
    let dir = tempfile::tempdir().unwrap();
    let mut redis = Redis::start();
    let daemon = Daemon::start(dir.path(), &with_redis(&redis, ""));
    assert_eq!(post(&daemon, "0"), 202);
    daemon.wait_stored();
    redis.kill();
    for number in 1..=20 {
        assert_eq!(post(&daemon, &number.to_string()), 202);
    }
    let daemon = daemon.kill_and_restart();
    for number in 21..=40 {
        assert_eq!(post(&daemon, &number.to_string()), 202);
    }
    assert_eq!(daemon.status()["pipeline"]["queued"], 40);
    redis.run();
    daemon.wait_stored();
    let counts = daemon.sql("SELECT count(), uniqExact(message) FROM logs");
    assert_eq!(counts, [["41", "41"]]);
    assert!(daemon.stop().success());
}

/// Case: a stop while Redis is away. It must not take long, and nothing may be lost.
#[test]
fn a_stop_while_redis_is_away_keeps_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut redis = Redis::start();
    let daemon = Daemon::start(dir.path(), &with_redis(&redis, ""));
    redis.kill();
    assert_eq!(post(&daemon, "kept"), 202);
    let start = Instant::now();
    assert!(daemon.stop().success());
    assert!(
        start.elapsed() < Duration::from_secs(30),
        "{:?}",
        start.elapsed()
    );
    redis.run();
    let daemon = Daemon::start(dir.path(), &with_redis(&redis, ""));
    daemon.wait_stored();
    assert_eq!(daemon.sql("SELECT message FROM logs"), [["kept"]]);
}

/// Case: Redis and ClickHouse are away, the disk takes nothing, and senders do not let up. Memory stays
/// bounded, every answer comes in time, and all is well once they are back.
#[test]
fn with_everything_away_memory_is_bounded_and_senders_are_told_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut redis = Redis::start();
    let limits = "  disk:\n    min_free: 100TiB\nlimits:\n  in_flight: 16MiB\n  body: 4MiB\nintake:\n  frame_bytes: 4MiB\n";
    let daemon = Daemon::start(dir.path(), &with_redis(&redis, limits));
    redis.kill();
    let body = format!(r#"{{"message":"{}"}}"#, "x".repeat(1 << 20));
    let (refused, slowest) = (AtomicU64::new(0), AtomicU64::new(0));
    let before = daemon.memory_kib("VmRSS");
    std::thread::scope(|scope| {
        for _ in 0..32 {
            scope.spawn(|| {
                for _ in 0..6 {
                    let start = Instant::now();
                    let bytes = body.as_bytes();
                    let answer = http::post(daemon.web, "/api/logs", "application/json", bytes);
                    assert_eq!(answer.unwrap().status, 503);
                    let took = u64::try_from(start.elapsed().as_millis()).unwrap();
                    slowest.fetch_max(took, Ordering::Relaxed);
                    refused.fetch_add(1, Ordering::Relaxed);
                    pause(Duration::from_millis(20));
                }
            });
        }
    });
    let grown = daemon.memory_kib("VmRSS").saturating_sub(before) / 1024;
    assert_eq!(refused.load(Ordering::Relaxed), 192);
    let slowest = slowest.load(Ordering::Relaxed);
    assert!(slowest < 4500, "the slowest answer took {slowest} ms");
    assert!(grown < 150, "memory grew by {grown} MiB");
    redis.run();
    daemon.wait_until("it takes records again", || post(&daemon, "after") == 202);
    daemon.wait_stored();
    assert_eq!(
        daemon.sql("SELECT count() > 0 FROM logs WHERE message = 'after'"),
        [["1"]]
    );
}

/// Case: two SIGTERM while the store is away and the first stop waits for it. The second ends the
/// daemon at once, with a code that says so, and what was acknowledged is there at the next start.
#[test]
fn a_second_signal_ends_at_once_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    // Takes connections and never answers.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("store:\n  url: http://{}\n", silent.local_addr().unwrap());
    let daemon = Daemon::start_unready(dir.path(), &url);
    assert_eq!(post(&daemon, "kept"), 202);
    let start = Instant::now();
    let status = daemon.stop_twice(Duration::from_millis(500));
    assert_eq!(status.code(), Some(1));
    assert!(
        start.elapsed() < Duration::from_secs(4),
        "{:?}",
        start.elapsed()
    );
    let daemon = Daemon::start(dir.path(), "");
    daemon.wait_stored();
    assert_eq!(daemon.sql("SELECT message FROM logs"), [["kept"]]);
}

/// Case: `queue.kind` is changed while records wait. Those in the disk queue are stored all the same.
#[test]
fn what_waits_on_the_disk_is_stored_after_a_change_to_redis() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_unready(dir.path(), "store:\n  url: http://127.0.0.1:9\n");
    for number in 0..10 {
        assert_eq!(post(&daemon, &number.to_string()), 202);
    }
    assert!(daemon.stop().success());
    let redis = Redis::start();
    let daemon = Daemon::start(dir.path(), &with_redis(&redis, ""));
    assert_eq!(post(&daemon, "10"), 202);
    daemon.wait_stored();
    let counts = daemon.sql("SELECT count(), uniqExact(message) FROM logs");
    assert_eq!(counts, [["11", "11"]]);
}
