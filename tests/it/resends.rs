//! Requests that are sent again. Case: the same bytes, or the same key, come twice, at once, and after
//! a kill; must hold: each is acknowledged and stored once, and nothing else is taken for the same.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::daemon::Daemon;
use crate::support::http::{self, Answer};
use crate::support::redis::Redis;

/// An OTLP request of one record; without a time when that is 0.
fn body(message: &str, time: u64) -> String {
    format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"timeUnixNano":"{time}","body":{{"stringValue":"{message}"}}}}]}}]}}]}}"#
    )
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

fn send(daemon: &Daemon, body: &str) {
    let answer = http::post(daemon.http, "/v1/logs", "application/json", body.as_bytes());
    let answer = answer.unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));
}

fn send_native(daemon: &Daemon, body: &str, key: &str) -> Answer {
    let headers = [
        ("content-type", "application/json"),
        ("idempotency-key", key),
    ];
    let headers = if key.is_empty() {
        &headers[..1]
    } else {
        &headers
    };
    http::request(daemon.web, "POST", "/api/logs", headers, body.as_bytes()).unwrap()
}

fn messages(daemon: &Daemon) -> Vec<String> {
    daemon.wait_stored();
    let rows = daemon.sql("SELECT message FROM logs ORDER BY message");
    rows.concat()
}

#[test]
fn the_same_bytes_are_stored_once_and_acknowledged_each_time() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let (one, two) = (body("one", now()), body("two", now()));
    for body in [&one, &two, &one, &two, &one] {
        send(&daemon, body);
    }
    // All at once, so that most meet the first on its way.
    let burst = body("burst", now());
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| send(&daemon, &burst));
        }
    });
    // Without a time they are two events that look alike.
    let anonymous = body("without time", 0);
    send(&daemon, &anonymous);
    send(&daemon, &anonymous);
    assert_eq!(
        messages(&daemon),
        ["burst", "one", "two", "without time", "without time"]
    );
    let status = daemon.status();
    assert_eq!(status["pipeline"]["stored"], 5, "{status}");
    let metrics = http::get(daemon.web, "/metrics").unwrap().text();
    let line = "watchtower_receiver_resent_requests_total{receiver=\"otlp_http\"} 22";
    assert!(metrics.lines().any(|found| found == line), "{metrics}");
}

#[test]
fn native_json_is_stored_once_for_each_key() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    // Under the last key another request came before.
    for (message, key) in [
        ("a", ""),
        ("a", ""),
        ("b", "k1"),
        ("b", "k1"),
        ("c", "k2"),
        ("d", "k2"),
    ] {
        let answer = send_native(&daemon, &format!(r#"{{"message":"{message}"}}"#), key);
        assert_eq!(answer.status, 202);
        assert_eq!(answer.json()["accepted"], 1);
    }
    assert_eq!(messages(&daemon), ["a", "a", "b", "c", "d"]);
}

#[test]
fn turned_off_everything_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "intake:\n  dedup_resends: false\n");
    let body = body("again", now());
    send(&daemon, &body);
    send(&daemon, &body);
    assert_eq!(messages(&daemon), ["again", "again"]);
}

/// Kills the daemon when a record is stored, and when it only waits; sends both again.
fn survives_kills(extra: &str) {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), extra);
    let (stored, waiting) = (body("stored", now()), body("waiting", now()));
    send(&daemon, &stored);
    daemon.wait_stored();
    send(&daemon, &waiting);
    let daemon = daemon.kill_and_restart();
    send(&daemon, &stored);
    send(&daemon, &waiting);
    // What the journal has not is found in the queue itself.
    let slow = body("only in the queue", now());
    send(&daemon, &slow);
    assert!(std::fs::remove_file(dir.path().join("state/resends.log")).is_ok());
    let daemon = daemon.kill_and_restart();
    send(&daemon, &slow);
    assert_eq!(
        messages(&daemon),
        ["only in the queue", "stored", "waiting"]
    );
}

#[test]
fn requests_are_recognized_after_a_kill_with_the_disk_queue() {
    survives_kills("store:\n  batch_delay: 2s\n");
}

#[test]
fn requests_are_recognized_after_a_kill_with_redis() {
    let redis = Redis::start();
    survives_kills(&format!(
        "queue:\n  kind: redis\n  redis:\n    url: {}\nstore:\n  batch_delay: 2s\n",
        redis.url()
    ));
}

#[test]
fn a_request_whose_commit_failed_is_taken_when_it_comes_again() {
    let dir = tempfile::tempdir().unwrap();
    // A spill that takes hardly anything, before a Redis that is away.
    let mut redis = Redis::start();
    redis.kill();
    let extra = format!(
        "queue:\n  kind: redis\n  redis:\n    url: {}\n  disk:\n    min_free: 100TiB\n",
        redis.url()
    );
    let daemon = Daemon::start_unready(dir.path(), &extra);
    let body = body("late", now());
    let answer = http::post(daemon.http, "/v1/logs", "application/json", body.as_bytes());
    assert_eq!(answer.unwrap().status, 503);
    redis.run();
    daemon.wait_until("redis is back", || {
        http::get(daemon.web, "/readyz").is_ok_and(|answer| answer.status == 200)
    });
    daemon.wait_until("it is taken", || {
        let answer = http::post(daemon.http, "/v1/logs", "application/json", body.as_bytes());
        answer.is_ok_and(|answer| answer.status == 200)
    });
    send(&daemon, &body);
    assert_eq!(messages(&daemon), ["late"]);
}
