//! `watchtower queue` on a running daemon's directory, and on one whose daemon is stopped.

use std::path::Path;
use std::process::Output;

use watchtower::frame::{Frame, Seal};
use watchtower::queue::dead::{DeadLetters, Reason};

use crate::support::daemon::{Daemon, watchtower};
use crate::support::records::{id_at, now_ms, numbered};

fn queue(dir: &Path, args: &[&str]) -> Output {
    let config = dir.join("watchtower.yaml");
    let base = ["--config", config.to_str().unwrap(), "queue"];
    watchtower(&[&base[..], args].concat(), "")
}

fn text(output: &Output) -> String {
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// A frame whose block is none.
fn broken() -> Frame {
    let seal = Seal {
        node: 7,
        first_id: id_at(now_ms(), 5000),
        sealed_at: now_ms(),
        digests: vec![],
    };
    Frame::seal(&seal, [0, 1, 0], 5, |out| {
        out.extend_from_slice(b"nonsense")
    })
}

#[test]
fn dead_letters_are_listed_shown_replayed_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let dead = DeadLetters::open(&dir.path().join("state/dead-letters")).unwrap();
    let reason = Reason {
        code: Some(117),
        message: "INCORRECT_DATA, said the server".into(),
    };
    dead.bury(&numbered(1, 3), &reason).unwrap();
    dead.bury(&broken(), &reason).unwrap();
    dead.bury_damaged(b"no frame at all", "frame is cut short")
        .unwrap();
    let letters = dead.list().unwrap();
    let of = |records: [u64; 3]| letters.iter().find(|letter| letter.records == records);
    let good = of([0, 3, 0]).unwrap().name.as_str();
    let bad = of([0, 1, 0]).unwrap().name.as_str();
    let none = of([0, 0, 0]).unwrap().name.as_str();

    let listed = text(&queue(dir.path(), &["ls"]));
    assert!(listed.contains("dead letters: 3"), "{listed}");
    assert!(listed.contains("3 records") && listed.contains("code 117: INCORRECT_DATA"));
    let shown = text(&queue(dir.path(), &["show", good]));
    let messages: Vec<_> = shown
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["message"].clone())
        .collect();
    assert_eq!(
        messages,
        ["message number 1", "message number 2", "message number 3"]
    );
    assert!(!queue(dir.path(), &["show", bad]).status.success());
    assert!(!queue(dir.path(), &["show", "../worker"]).status.success());
    assert!(!queue(dir.path(), &["replay", "none"]).status.success());

    let replayed = queue(dir.path(), &["replay", "--all"]);
    let (out, error) = (
        String::from_utf8(replayed.stdout).unwrap(),
        String::from_utf8(replayed.stderr).unwrap(),
    );
    assert_eq!(replayed.status.code(), Some(1), "{out}{error}");
    assert!(out.contains(&format!("{good}  stored")), "{out}");
    assert!(out.contains(&format!("{bad}  refused again")), "{out}");
    assert!(error.contains(&format!("{none} holds no frame")), "{error}");
    assert_eq!(daemon.sql("SELECT count() FROM logs"), [["3"]]);

    let dropped = text(&queue(dir.path(), &["drop", bad, none]));
    assert!(
        dropped.starts_with("gone: 2 dead letters with 1 record\n"),
        "{dropped}"
    );
    assert!(daemon.stop().success());
}

#[test]
fn a_replay_asked_for_while_no_daemon_runs_is_done_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    assert!(daemon.stop().success());
    let dead = DeadLetters::open(&dir.path().join("state/dead-letters")).unwrap();
    let frame = numbered(1, 3);
    dead.bury(&frame, &Reason::default()).unwrap();
    let name = dead.list().unwrap()[0].name.clone();
    dead.ask_for_replay(&name).unwrap();
    let daemon = Daemon::start(dir.path(), "");
    daemon.wait_until("it is replayed", || dead.list().unwrap().is_empty());
    assert_eq!(daemon.sql("SELECT count() FROM logs"), [["3"]]);
    // Again: its rows are there, and are left out.
    dead.bury(&frame, &Reason::default()).unwrap();
    assert!(text(&queue(dir.path(), &["replay", &name])).contains("stored"));
    assert_eq!(daemon.sql("SELECT count() FROM logs"), [["3"]]);
}
