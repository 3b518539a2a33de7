//! The ledger. Case: senders give up before their records are queued, and the records are queued all
//! the same; must hold: what was accepted is what was stored, waits, or was buried, to the record.

use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::redis::Redis;
use crate::support::{http, pause};

/// An OTLP request of `count` records at times of their own, so that it is known when it comes again.
fn request(name: &str, count: u64) -> String {
    let now = jiff::Timestamp::now().as_nanosecond();
    let records: Vec<String> = (0..i128::from(count))
        .map(|i| {
            format!(
                r#"{{"timeUnixNano":"{}","body":{{"stringValue":"{name} {i}"}}}}"#,
                now + i
            )
        })
        .collect();
    format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{}]}}]}}]}}"#,
        records.join(",")
    )
}

fn send(daemon: &Daemon, body: &str) -> u16 {
    let answer = http::post(daemon.http, "/v1/logs", "application/json", body.as_bytes());
    answer.unwrap().status
}

fn counts(daemon: &Daemon) -> Vec<String> {
    let counts = daemon.sql("SELECT count(), uniqExact(message) FROM logs");
    counts.concat()
}

#[test]
fn records_whose_sender_gave_up_are_accepted_once_with_the_disk_queue() {
    let dir = tempfile::tempdir().unwrap();
    // The commit of so many records mostly takes longer than that, and then their sender is sent away.
    let daemon = Daemon::start(dir.path(), "limits:\n  commit_timeout: 1ms\n");
    let mut bodies = Vec::new();
    let mut num_sent_away = 0;
    while num_sent_away < 3 {
        assert!(bodies.len() < 60, "{num_sent_away} of 60 were sent away");
        let body = request(&format!("r{}", bodies.len()), 10_000);
        match send(&daemon, &body) {
            503 => num_sent_away += 1,
            status => assert_eq!(status, 200),
        }
        bodies.push(body);
    }
    let count = bodies.len() as u64 * 10_000;
    daemon.wait_until("all is stored", || daemon.ledger()[1] == count);
    assert_eq!(daemon.ledger(), [count, count, 0, 0]);
    for body in &bodies {
        assert_eq!(send(&daemon, body), 200, "it is known");
    }
    assert_eq!(daemon.ledger(), [count, count, 0, 0]);
    let resent = "watchtower_receiver_resent_requests_total{receiver=\"otlp_http\"}";
    assert_eq!(daemon.metric(resent), bodies.len() as u64);
    let count = count.to_string();
    assert_eq!(counts(&daemon), [count.clone(), count]);
}

/// Redis stops answering with frames on their way, and the spill takes nothing: nobody can say where
/// those frames are until Redis is back.
#[test]
fn records_in_doubt_are_accepted_once_it_is_known_that_redis_has_them() {
    let dir = tempfile::tempdir().unwrap();
    let redis = Redis::start();
    let extra = format!(
        "queue:\n  kind: redis\n  redis:\n    url: {}\n    timeout: 2s\n  disk:\n    min_free: 100TiB\nlimits:\n  commit_timeout: 900ms\n",
        redis.url()
    );
    let daemon = Daemon::start(dir.path(), &extra);
    assert_eq!(send(&daemon, &request("first", 7)), 200);
    daemon.wait_until("it is stored", || daemon.ledger() == [7, 7, 0, 0]);
    redis.freeze(true);
    let bodies: Vec<String> = (0..6).map(|i| request(&format!("r{i}"), 10)).collect();
    std::thread::scope(|scope| {
        for body in &bodies {
            scope.spawn(|| assert_eq!(send(&daemon, body), 503));
            // So that each is in a frame of its own.
            pause(Duration::from_millis(20));
        }
    });
    assert_eq!(daemon.ledger()[0], 7, "nothing is known yet");
    redis.freeze(false);
    daemon.wait_until("the frames in doubt are settled", || {
        daemon.ledger()[0] > 7 && http::get(daemon.web, "/readyz").unwrap().status == 200
    });
    for body in &bodies {
        daemon.wait_until("it is taken", || send(&daemon, body) == 200);
    }
    daemon.wait_stored();
    daemon.wait_until("the ledger is settled", || daemon.ledger()[1] == 67);
    assert_eq!(daemon.ledger(), [67, 67, 0, 0]);
    assert_eq!(counts(&daemon), ["67", "67"]);
    let resent = "watchtower_receiver_resent_requests_total{receiver=\"otlp_http\"}";
    assert!(daemon.metric(resent) > 0);
}
