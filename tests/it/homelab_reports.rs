//! Faults that people met with other tools at home: in the live view, under systemd, with clocks that are
//! wrong. Named by their report.

use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::daemon::Daemon;
use crate::support::http;
use crate::support::records::now_ms;
use crate::support::sse::Stream;

const PROGRAM: &str = env!("CARGO_BIN_EXE_watchtower");
const SOON: Duration = Duration::from_secs(30);
const AWAY: &str = "store:\n  url: http://127.0.0.1:9\n";

fn post(daemon: &Daemon, record: &Value) {
    let body = record.to_string();
    let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
    assert_eq!(answer.unwrap().status, 202, "{record}");
}

/// Case: a small record now and then, with a client that would take the stream compressed.
/// Holds: each comes by itself, in clear text, and soon.
#[test]
fn r_054_each_event_of_the_stream_is_sent_at_once_and_in_clear() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_unready(dir.path(), AWAY);
    let headers = [("accept-encoding", "gzip, deflate, br, zstd")];
    let stream = Stream::open(daemon.web, "/api/logs/stream?backlog=0", &headers);
    stream.assert_nothing_holds_it_back();
    assert_eq!(stream.next(SOON).unwrap().kind, "hello");
    for number in 0..3 {
        post(&daemon, &json!({"message": format!("small {number}")}));
        // Nothing else is sent that could push it out of a buffer.
        let seen = stream.records(1, SOON);
        assert_eq!(seen[0]["message"], format!("small {number}"));
    }
}

/// Case: line ends, of every kind that a parser of event streams knows, in message, service and key.
/// Holds: one event with the text as it was sent, and the stream goes on.
#[test]
fn r_059_line_ends_in_a_record_forge_no_event() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_unready(dir.path(), AWAY);
    let stream = Stream::open(daemon.web, "/api/logs/stream?backlog=0", &[]);
    assert_eq!(stream.next(SOON).unwrap().kind, "hello");
    let text = "one\ntwo\r\nthree\revent: pwn\rdata: x\n\nretry: 1\u{2028}end";
    post(
        &daemon,
        &json!({"message": text, "service": text, text: "value"}),
    );
    post(&daemon, &json!({"message": "after it"}));
    let seen = stream.records(2, SOON);
    assert_eq!(
        (&seen[0]["message"], &seen[0]["service"]),
        (&text.into(), &text.into())
    );
    assert_eq!(seen[0]["attributes"][text], "value");
    assert_eq!(seen[1]["message"], "after it");
}

/// Case: what terminals obey, and NUL.
/// Holds: all is stored as it was sent, and what is behind a NUL is found.
#[test]
fn r_064_control_characters_are_stored_and_found() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let texts = [
        "\u{1b}[1;33mwarn\u{1b}[0m",
        "\u{1b}[?1h\u{1b}=",
        "\u{1b}]8;;http://x\u{7}link\u{1b}]8;;\u{7}",
        "10%\r50%\r100%",
        "safe\u{8}\u{8}\u{8}\u{8}evil",
        "nul\0after",
        "\u{202e}rtl",
        "\u{1b}[2J",
    ];
    for text in texts {
        post(&daemon, &json!({"message": text, "kept": "a\0b"}));
    }
    daemon.wait_stored();
    let found = http::get(daemon.web, "/api/logs?order=oldest")
        .unwrap()
        .json();
    let records = found["records"].as_array().unwrap();
    let messages: Vec<_> = records
        .iter()
        .map(|record| record["message"].as_str().unwrap())
        .collect();
    assert_eq!(messages, texts);
    assert!(
        records
            .iter()
            .all(|record| record["attributes"]["kept"] == "a\0b")
    );
    let found = http::get(daemon.web, "/api/logs?q=after").unwrap().json();
    assert_eq!(found["records"][0]["message"], "nul\0after");
}

/// What systemd hears within a time, or the daemon's end.
fn notified(dir: &Path, extra: &str) -> (Vec<String>, Option<i32>, String) {
    let socket = dir.join("notify");
    std::fs::remove_file(&socket).ok();
    let systemd = UnixDatagram::bind(&socket).unwrap();
    systemd
        .set_read_timeout(Some(Duration::from_millis(100)))
        .unwrap();
    let config = dir.join("unit.yaml");
    std::fs::write(
        &config,
        format!("state_dir: {}\n{extra}", dir.join("unit").display()),
    )
    .unwrap();
    let mut child = Command::new(PROGRAM)
        .arg("--config")
        .arg(&config)
        .env("NOTIFY_SOCKET", &socket)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut said, start) = (Vec::new(), Instant::now());
    let mut message = [0; 4096];
    let code = loop {
        if let Ok(length) = systemd.recv(&mut message) {
            let text = String::from_utf8_lossy(&message[..length]);
            said.extend(text.lines().map(str::to_owned));
        }
        if let Some(ended) = child.try_wait().unwrap() {
            break ended.code();
        }
        if said.iter().any(|line| line == "READY=1") || start.elapsed() > SOON {
            child.kill().unwrap();
            child.wait().unwrap();
            break None;
        }
    };
    let mut log = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut log)
        .unwrap();
    (said, code, log)
}

/// Case: a unit with Type=notify: as it should be with ClickHouse and Redis away, with a bad port, and with a port
/// that somebody has.
/// Holds: it is ready once it listens, and else ends at once, with a line that names the key.
#[test]
fn r_068_systemd_is_told_the_truth() {
    let dir = tempfile::tempdir().unwrap();
    let free = "listen: {otlp_grpc: '127.0.0.1:0', otlp_http: '127.0.0.1:0', web: '127.0.0.1:0'}\n";
    let both_away =
        format!("{free}{AWAY}queue: {{kind: redis, redis: {{url: 'redis://127.0.0.1:9'}}}}\n");
    for extra in [format!("{free}{AWAY}"), both_away] {
        let (said, code, log) = notified(dir.path(), &extra);
        assert!(said.iter().any(|line| line == "READY=1"), "{said:?} {log}");
        assert_eq!(code, None, "{log}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    for (extra, key) in [
        (
            format!("listen: {{web: '127.0.0.1:99999'}}\n{AWAY}"),
            "listen.web",
        ),
        (
            format!(
                "listen: {{otlp_grpc: '127.0.0.1:0', otlp_http: '127.0.0.1:0', web: '{address}'}}\n{AWAY}"
            ),
            "`listen.web`",
        ),
    ] {
        let (said, code, log) = notified(dir.path(), &extra);
        assert!(!said.iter().any(|line| line == "READY=1"), "{said:?}");
        assert!(code.is_some_and(|code| code != 0), "{code:?} {log}");
        assert!(log.contains(key), "{log}");
    }
}

/// Case: a first run by hand as root leaves the state directory to root; then the service's user runs.
/// Holds: it ends with a line that names the directory, its owner and what to do; and nothing that root's run
/// left is readable for others.
#[test]
fn r_070_files_that_root_left_are_named_with_their_owner() {
    let dir = tempfile::tempdir().unwrap();
    // The other user must be able to come here.
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start_unready(dir.path(), AWAY);
    post(&daemon, &json!({"message": "of root"}));
    let state = dir.path().join("state");
    assert!(daemon.stop().success());
    assert_eq!(
        std::fs::metadata(&state).unwrap().mode() & 0o077,
        0,
        "the state directory is its user's alone"
    );
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // The other user may not be able to go where the program was built.
    let program = dir.path().join("program");
    std::fs::copy(PROGRAM, &program).unwrap();
    let ended = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .args(["--set", &format!("state_dir={}", state.display()), "serve"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(78), "{told}");
    let line = told.lines().find(|line| line.contains("state_dir"));
    let line = line.unwrap_or_else(|| panic!("{told}"));
    assert!(line.contains(&*state.to_string_lossy()), "{line}");
    assert!(line.contains("belongs to user 0"), "{line}");
}

/// Case: senders whose clocks are 27 hours behind and five minutes ahead.
/// Holds: their records are stored under the time they say, come in the live view as they arrive, and are found by
/// their arrival too.
#[test]
fn r_078_senders_with_wrong_clocks_are_found_by_event_time_and_by_arrival() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let stream = Stream::open(daemon.web, "/api/logs/stream?backlog=0", &[]);
    assert_eq!(stream.next(SOON).unwrap().kind, "hello");
    let now = now_ms();
    let (behind, ahead) = (now - 27 * 3_600_000, now + 5 * 60_000);
    for (message, time) in [("behind", behind), ("ahead", ahead), ("right", now)] {
        post(&daemon, &json!({"message": message, "timestamp": time}));
    }
    let live: Vec<_> = stream.records(3, SOON);
    let live: Vec<_> = live
        .iter()
        .map(|record| record["message"].as_str().unwrap())
        .collect();
    assert_eq!(
        live,
        ["behind", "ahead", "right"],
        "in the order of arrival"
    );
    daemon.wait_stored();
    let by = |order: &str| {
        daemon
            .sql(&format!("SELECT message, toUnixTimestamp64Milli(toDateTime64(timestamp, 3)) FROM logs ORDER BY {order}"))
    };
    let row = |message: &str, time: i64| vec![message.to_owned(), time.to_string()];
    let (behind, ahead, right) = (
        row("behind", behind),
        row("ahead", ahead),
        row("right", now),
    );
    assert_eq!(
        by("timestamp"),
        [behind.clone(), right.clone(), ahead.clone()]
    );
    assert_eq!(by("id"), [behind, ahead, right]);
    let late = "SELECT count() FROM logs WHERE abs(dateDiff('second', received_at, now())) < 120";
    assert_eq!(daemon.sql(late), [["3"]]);
}
