//! The page in a real browser, against the real daemon: runs `tests/web/*.test.mjs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use crate::support::daemon::Daemon;

const AT_ONCE: usize = 2;

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

/// Runs a file against a daemon of its own, which holds no logs yet; what it printed if a test failed.
fn failure(file: &Path) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let output = Command::new("node")
        // A test that fails may leave something behind that would keep its process from ending.
        .args(["--test", "--test-reporter=spec", "--test-timeout=240000"])
        .arg("--test-force-exit")
        .arg(file)
        .env("WATCHTOWER_URL", format!("http://{}", daemon.web))
        .env("WATCHTOWER_BINARY", env!("CARGO_BIN_EXE_watchtower"))
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("node: {error}; ./scripts/test installs it"));
    (!output.status.success()).then(|| {
        format!(
            "{}:\n{}{}\nthe daemon's log:\n{}",
            file.display(),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
            daemon.log_text()
        )
    })
}

/// Case: each file of browser tests, all of them, so that one look shows everything that is wrong. They
/// mostly wait, so that two run beside each other; those that measure the page's speed run alone.
/// Holds: all of their tests pass.
#[test]
fn the_page_does_what_its_tests_say() {
    let (alone, beside): (Vec<_>, Vec<_>) = test_files()
        .into_iter()
        .partition(|file| file.ends_with("check-load.test.mjs"));
    assert!(!alone.is_empty() && !beside.is_empty());
    let mut failed: Vec<_> = alone.iter().filter_map(|file| failure(file)).collect();
    let waiting = Mutex::new(beside);
    let run = || {
        let next = || waiting.lock().unwrap().pop();
        std::iter::from_fn(next)
            .filter_map(|file| failure(&file))
            .collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(run)).collect();
        failed.extend(runs.into_iter().flat_map(|run| run.join().unwrap()));
    });
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
