//! Requests and commands at the edges of what a running daemon answers: times, limits, sizes, doors.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use watchtower::queue::dead::{DeadLetters, Reason};

use crate::support::daemon::{Daemon, watchtower};
use crate::support::http;
use crate::support::records::numbered;

fn run(dir: &Path, args: &[&str]) -> Output {
    let config = dir.join("watchtower.yaml");
    watchtower(
        &[&["--config", config.to_str().unwrap()], args].concat(),
        "",
    )
}

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Case: times out of order and out of range, and limits beyond what is answered.
/// Holds: 400 with the parameter, its value and what to write; the engine is not asked.
#[test]
fn times_and_limits_out_of_range_are_refused_in_plain_words() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let refused = |path: &str, says: &[&str]| {
        let answer = http::get(daemon.web, path).unwrap();
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        let body = answer.json();
        let told = format!("{}; {}", body["text"].as_str().unwrap(), body["hint"]);
        for part in says {
            assert!(told.contains(part), "{path}: {told}");
        }
    };
    for path in [
        "/api/logs",
        "/api/logs/histogram",
        "/api/logs/export",
        "/api/fields",
        "/api/fields/service/values",
    ] {
        for name in ["from", "to"] {
            for text in [
                "0001-01-01T00:00:00Z",
                "9999-12-31T23:59:59Z",
                "99999999999999999999",
                "99999999999",
                "10000w",
            ] {
                let named = format!("`{name}` is out of range: `{text}`");
                refused(
                    &format!("{path}?{name}={text}"),
                    &[&named, "1970-01-01 to 2262-04-11"],
                );
            }
            refused(
                &format!("{path}?{name}=yesterday"),
                &["is not a time: `yesterday`"],
            );
        }
        refused(
            &format!("{path}?from=1m&to=1h"),
            &["`from` is after `to`: `1m`, `1h`"],
        );
    }
    for (path, most) in [
        ("/api/logs?limit=", 1_000),
        ("/api/logs/export?limit=", 10_000_000),
        ("/api/logs/histogram?buckets=", 120),
        ("/api/fields?limit=", 1_000),
        ("/api/logs/stream?rate=", 1_000_000),
    ] {
        for count in [0, most + 1] {
            let bounds = format!("write a number from 1 to {most}");
            refused(
                &format!("{path}{count}"),
                &[&format!("is {count}"), &bounds],
            );
        }
    }
    refused(
        "/api/logs/stream?probe=1&backlog=5001",
        &["`backlog` is 5001", "from 0 to 5000"],
    );
    refused(
        "/api/logs?before=-5.1",
        &["not a place `timestamp.id`: `-5.1`"],
    );
    // The widest range there is asks no engine beyond its times.
    for path in [
        "/api/logs",
        "/api/logs/histogram",
        "/api/logs/export",
        "/api/fields",
    ] {
        let path = format!("{path}?from=0&to=9223372036854775807");
        let answer = http::get(daemon.web, &path).unwrap();
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
}

/// Case: clients at the doors of a daemon, each at the right one and at a wrong one.
/// Holds: the right ones take the log; at a wrong one it is said what arrived where.
#[test]
fn whoever_comes_to_the_wrong_door_is_shown_the_right_one() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    for via in ["json", "http", "grpc"] {
        let sent = run(dir.path(), &["send", "hello", "--via", via]);
        assert!(sent.status.success(), "{via}: {}", texts(&sent).1);
    }
    daemon.wait_stored();
    assert_eq!(daemon.sql("SELECT count() FROM logs"), [["3"]]);

    let web = format!("http://{}", daemon.web);
    let (_, told) = texts(&run(
        dir.path(),
        &["send", "x", "--via", "grpc", "--url", &web],
    ));
    let right = format!("port for gRPC, {} (`listen.otlp_grpc`)", daemon.grpc.port());
    assert!(
        told.contains("a gRPC call arrived at the web port"),
        "{told}"
    );
    assert!(told.contains(&right), "{told}");

    // What the daemon made of a query is told on standard error, and only there.
    for command in [
        &["search", "(hello"][..],
        &["tail", "--limit", "1", "(hello"],
    ] {
        let mut command = command.to_vec();
        if command[0] == "tail" {
            // Nothing matches the text: the stream would go on for ever.
            let mut tail = spawn(dir.path(), &command);
            let told = line(&mut tail);
            tail.kill().unwrap();
            tail.wait().unwrap();
            assert!(
                told.starts_with("watchtower: the query was searched as plain text: "),
                "{told}"
            );
            continue;
        }
        command.push("--utc");
        let found = run(dir.path(), &command);
        let (out, told) = texts(&found);
        assert!(found.status.success(), "{told}");
        assert_eq!(out, "");
        assert!(
            told.starts_with("watchtower: the query was searched as plain text: "),
            "{told}"
        );
    }
}

fn spawn(dir: &Path, args: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_watchtower"))
        .arg("--config")
        .arg(dir.join("watchtower.yaml"))
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn line(child: &mut Child) -> String {
    use std::io::BufRead;
    let mut line = String::new();
    let stderr = child.stderr.as_mut().unwrap();
    std::io::BufReader::new(stderr)
        .read_line(&mut line)
        .unwrap();
    line
}

/// Case: an answer of 200 MB, and one that fails after it has begun.
/// Holds: the first arrives whole while little of it is in memory; of the second the part before the
/// failure arrives, the failure is told on standard error, and the exit code says so.
#[test]
fn sql_prints_an_answer_of_any_size_as_it_comes() {
    const ROWS: usize = 2_000_000;
    let dir = tempfile::tempdir().unwrap();
    let _daemon = Daemon::start(dir.path(), "");
    let query = format!(
        "SELECT leftPad(toString(number), 99, '0') FROM numbers({ROWS}) SETTINGS max_block_size = 1000"
    );
    let mut sql = spawn(dir.path(), &["sql", "--format", "TSV", &query]);
    let mut out = sql.stdout.take().unwrap();
    let (mut piece, mut bytes, mut most) = (vec![0; 1 << 20], 0, 0);
    loop {
        match out.read(&mut piece).unwrap() {
            0 => break,
            read => bytes += read,
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", sql.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.map_or(0, |line| {
            line.trim().trim_end_matches(" kB").parse().unwrap()
        });
        most = most.max(kib);
    }
    assert!(sql.wait().unwrap().success());
    assert_eq!(bytes, ROWS * 100);
    assert!(most < 64 << 10, "{most} KiB in memory");

    let query = "SELECT number, throwIf(number = 900000, 'enough') FROM numbers(1000000) SETTINGS max_block_size = 1000";
    let failed = run(dir.path(), &["sql", "--format", "TSV", query]);
    let (out, told) = texts(&failed);
    assert_eq!(failed.status.code(), Some(1));
    assert!(out.starts_with("0\t0\n1\t0\n"), "{}", out.len());
    let last = out.lines().next_back().unwrap();
    assert!(
        !out.contains("exception") && !out.contains("enough"),
        "{last}"
    );
    assert!(told.contains("enough"), "{told}");

    let wrong = run(dir.path(), &["sql", "SELECT nonsense"]);
    let (out, told) = texts(&wrong);
    assert_eq!((wrong.status.code(), out.as_str()), (Some(1), ""));
    assert!(told.starts_with("clickhouse error 47: "), "{told}");
    let late = run(dir.path(), &["sql", "--timeout", "1", "SELECT sleep(3)"]);
    assert_eq!(late.status.code(), Some(1));
    assert!(texts(&late).1.contains("within 1s"), "{}", texts(&late).1);
}

/// Case: dead letters whose descriptions, and one whose frame, are damaged.
/// Holds: each is listed and counted with the reason; show, replay and drop do what can be done.
#[test]
fn damaged_dead_letters_are_listed_and_handled() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let folder = dir.path().join("state/dead-letters");
    let dead = DeadLetters::open(&folder).unwrap();
    let (undescribed, unreadable) = (numbered(1, 3), numbered(101, 2));
    for frame in [&undescribed, &unreadable] {
        dead.bury(frame, &Reason::default()).unwrap();
    }
    let name = |frame: &watchtower::frame::Frame| format!("{:016x}", frame.header().first_id);
    let (undescribed, unreadable) = (name(&undescribed), name(&unreadable));
    std::fs::write(folder.join(format!("{undescribed}.json")), "{").unwrap();
    std::fs::write(folder.join(format!("{unreadable}.frame")), "WT").unwrap();
    std::fs::write(folder.join("stray.json"), "[]").unwrap();

    let queue = |args: &[&str]| run(dir.path(), &[&["queue"], args].concat());
    let (listed, _) = texts(&queue(&["ls"]));
    assert!(listed.contains("dead letters: 3\n"), "{listed}");
    let line = |name: &str| {
        listed
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap()
            .to_owned()
    };
    assert!(line(&undescribed).contains("3 records"), "{listed}");
    assert!(
        line(&undescribed).contains(".json cannot be read: EOF"),
        "{listed}"
    );
    assert!(line("stray").contains("0 records"), "{listed}");
    let figures = daemon.ledger();
    assert_eq!(figures[3], 5, "{figures:?}");

    let (shown, _) = texts(&queue(&["show", &undescribed]));
    assert_eq!(shown.lines().count(), 3, "{shown}");
    let (_, told) = texts(&queue(&["show", &unreadable]));
    assert!(
        told.starts_with(&format!("dead letter {unreadable} cannot be shown: ")),
        "{told}"
    );
    let (_, told) = texts(&queue(&["show", "stray"]));
    assert_eq!(told, "stray holds no frame, and so no records to show\n");

    let replayed = queue(&["replay", "--all"]);
    let (out, told) = texts(&replayed);
    assert_eq!(replayed.status.code(), Some(1), "{out}{told}");
    assert_eq!(out, format!("{undescribed}  stored\n"));
    assert!(
        told.contains(&format!("{unreadable} cannot be replayed: ")),
        "{told}"
    );
    assert!(told.contains("stray holds no frame"), "{told}");
    assert_eq!(daemon.sql("SELECT count() FROM logs"), [["3"]]);
    let (out, _) = texts(&queue(&["drop", "--all"]));
    assert_eq!(out, "gone: 2 dead letters with 2 records\n");
    assert!(texts(&queue(&["ls"])).0.contains("dead letters: 0\n"));
}

/// Case: a disk queue in front of a store that is away, with the daemon running and stopped.
/// Holds: `queue ls` counts the records that wait, and not those that are stored.
#[test]
fn queue_ls_counts_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let away = "store: {url: 'http://127.0.0.1:1'}";
    let daemon = Daemon::start_unready(dir.path(), away);
    let ls = || texts(&run(dir.path(), &["queue", "ls"])).0;
    assert!(
        ls().starts_with("queue: 0 records in 0 frames to be stored, 0; "),
        "{}",
        ls()
    );
    for body in [
        "[{\"message\":\"a\"},{\"message\":\"b\"}]",
        "{\"message\":\"c\"}",
    ] {
        let sent =
            http::post(daemon.web, "/api/logs", "application/json", body.as_bytes()).unwrap();
        assert_eq!(sent.status, 202);
    }
    assert!(
        ls().starts_with("queue: 3 records in 2 frames to be stored, "),
        "{}",
        ls()
    );
    assert!(ls().ends_with("dead letters: 0\n"), "{}", ls());
    daemon.stop();
    assert!(
        ls().starts_with("queue: 3 records in 2 frames to be stored, "),
        "{}",
        ls()
    );
    let daemon = Daemon::start(dir.path(), "");
    daemon.wait_stored();
    assert!(
        ls().starts_with("queue: 0 records in 0 frames to be stored, 0; "),
        "{}",
        ls()
    );
}
