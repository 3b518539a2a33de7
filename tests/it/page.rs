//! The page in a real browser, against the real daemon: runs `tests/web/*.test.mjs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::daemon::Daemon;

fn test_files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/web");
    let paths = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths
        .filter(|path| path.to_string_lossy().ends_with(".test.mjs"))
        .collect();
    files.sort();
    files
}

/// Case: each file of browser tests against a daemon of its own, which holds no logs yet.
/// Holds: all of its tests pass.
#[test]
fn the_page_does_what_its_tests_say() {
    let files = test_files();
    assert!(!files.is_empty());
    // All of them run, so that one look shows everything that is wrong.
    let mut failed = Vec::new();
    for file in files {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(dir.path(), "");
        let output = Command::new("node")
            .args(["--test", "--test-reporter=spec"])
            .arg(&file)
            .env("WATCHTOWER_URL", format!("http://{}", daemon.web))
            .env("WATCHTOWER_BINARY", env!("CARGO_BIN_EXE_watchtower"))
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("node: {error}; ./scripts/test installs it"));
        if !output.status.success() {
            failed.push(format!(
                "{}:\n{}{}\nthe daemon's log:\n{}",
                file.display(),
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr),
                daemon.log_text()
            ));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
