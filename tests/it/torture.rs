//! Three minutes of `scripts/torture` with a fixed seed, half of them on each queue. Case: kills,
//! pauses, broken networks and full disks, with honest senders; must hold: what was acknowledged is
//! stored, and everything is stored at most once.

use std::process::Command;

use crate::support::engine::library;

fn torture(queue: &str) {
    let root = env!("CARGO_MANIFEST_DIR");
    let output = Command::new("python3")
        .arg(format!("{root}/scripts/torture"))
        .args(["--minutes", "1.5", "--seed", "7", "--queue", queue])
        .args(["--binary", env!("CARGO_BIN_EXE_watchtower")])
        .arg("--library")
        .arg(library())
        .output()
        .expect("python3 is installed; scripts/test installs it");
    let text = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{error}");
    let kills = text.lines().find(|line| line.trim().starts_with("kills"));
    assert!(kills.is_some_and(|line| line.contains("daemon")), "{text}");
}

#[test]
fn nothing_is_lost_or_doubled_under_torture_with_the_disk_queue() {
    torture("disk");
}

#[test]
fn nothing_is_lost_or_doubled_under_torture_with_redis() {
    torture("redis");
}
