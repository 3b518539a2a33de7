//! A ClickHouse that hangs: its sockets take connections, and nothing is ever answered.

use crate::support::daemon::Daemon;
use crate::support::engine::{processes, signal};
use crate::support::http;
use rustix::process::Signal;

fn readyz(daemon: &Daemon) -> String {
    let answer = http::get(daemon.web, "/readyz").unwrap();
    assert_eq!(answer.status, 200, "records are taken all the while");
    answer.text()
}

fn send(daemon: &Daemon, message: &str) {
    let body = format!(r#"{{"message":"{message}"}}"#);
    let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
    assert_eq!(answer.unwrap().status, 202);
}

/// Case: the engine is stopped in its tracks while nothing is written, and goes on later.
/// Holds: status, metrics, readiness and live tail say so although no insert has failed; records are
/// taken and are stored once it goes on.
#[test]
fn a_store_that_hangs_is_noticed_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    send(&daemon, "before");
    daemon.wait_stored();
    let store = |field: &str| daemon.status()["pipeline"]["store"][field].clone();
    daemon.wait_until("it has answered", || store("latency_ms").is_f64());
    assert!(store("insert_ms").is_u64() && store("lag_ms").is_u64());
    assert!(daemon.metric("watchtower_disk_free_bytes") > 0);
    assert!(daemon.status()["pipeline"]["disk"]["free_bytes"].is_u64());
    assert!(readyz(&daemon).starts_with("ready\n"));
    let engine = processes(&dir.path().join("state"));
    assert_eq!(engine.len(), 1, "{engine:?}");
    signal(engine[0], Signal::STOP);
    daemon.wait_until("the hang is noticed", || store("ok") == false);
    let error = store("error").to_string();
    assert!(error.contains("no answer within 3s"), "{error}");
    assert_eq!(daemon.metric("watchtower_store_up"), 0);
    assert!(readyz(&daemon).contains("records wait in the queue: "));
    send(&daemon, "while it hangs");
    signal(engine[0], Signal::CONT);
    daemon.wait_until("it is well again", || store("ok") == true);
    daemon.wait_stored();
    assert_eq!(daemon.metric("watchtower_store_up"), 1);
    assert_eq!(
        daemon.sql("SELECT message FROM logs ORDER BY id"),
        [["before"], ["while it hangs"]]
    );
}
