//! More clients than there is room for.

use std::net::TcpStream;
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::{http, pause};

/// Case: idle connections to the ports for senders take all that there may be. Must hold: the web port
/// still answers, the log and a metric tell, and senders get in again once the flood is over.
#[test]
fn a_flood_of_connections_does_not_lock_the_operator_out() {
    let dir = tempfile::tempdir().unwrap();
    let extra = "store:\n  url: http://127.0.0.1:9\nlimits:\n  connections: 16\n";
    let daemon = Daemon::start_unready(dir.path(), extra);
    let reached = "watchtower_server_connection_limit_reached_total";
    assert_eq!(daemon.metric(reached), 0);
    let flood: Vec<_> = (0..40)
        .map(|n| TcpStream::connect(if n % 2 == 0 { daemon.http } else { daemon.grpc }).unwrap())
        .collect();
    daemon.wait_until("the limit is reached", || daemon.metric(reached) > 0);
    for path in ["/healthz", "/readyz", "/", "/api/status"] {
        assert_eq!(http::get(daemon.web, path).unwrap().status, 200, "{path}");
    }
    let log = daemon.log_text();
    assert!(log.contains("limits.connections"), "{log}");
    drop(flood);
    pause(Duration::from_millis(200));
    let body = br#"{"resourceLogs":[]}"#;
    let answer = http::post(daemon.http, "/v1/logs", "application/json", body).unwrap();
    assert_eq!(answer.status, 200);
}

/// Holds: where there are not cores enough, the thread that serves viewers is the one that waits.
#[test]
fn the_live_hub_lets_intake_go_first() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let tasks = std::fs::read_dir(format!("/proc/{}/task", daemon.pid())).unwrap();
    let nice = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let (name, rest) = stat.rsplit_once(')')?;
        let nice = rest.split_whitespace().nth(16)?.parse::<i32>().ok()?;
        name.ends_with("(live").then_some(nice)
    };
    let found: Vec<i32> = tasks.filter_map(|task| nice(task.unwrap())).collect();
    let own = rustix::process::getpriority_process(None).unwrap();
    assert_eq!(found, [own.max(10)]);
}
