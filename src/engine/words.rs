//! The engine's words, passed on to the daemon's log.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use tracing::warn;

/// Longest line of the engine that is passed on.
const LINE_LIMIT: u64 = 2 << 10;
/// Lines of the engine passed on in one minute; a broken disk repeats itself without end.
const LINES_A_MINUTE: u32 = 30;

pub(super) fn log_lines(stderr: impl Read) {
    let mut reader = BufReader::new(stderr);
    let mut line = Vec::new();
    let mut minute = Instant::now();
    let mut passed = 0;
    let mut held_back = 0u64;
    loop {
        line.clear();
        match (&mut reader).take(LINE_LIMIT).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        }
        if minute.elapsed() >= Duration::from_secs(60) {
            if held_back > 0 {
                warn!(lines = held_back, "engine said more");
            }
            (minute, passed, held_back) = (Instant::now(), 0, 0);
        }
        let text = String::from_utf8_lossy(&line);
        let text = text.trim();
        if !is_news(text) {
            continue;
        }
        if passed == LINES_A_MINUTE {
            held_back += 1;
            continue;
        }
        passed += 1;
        warn!(text, "engine says");
    }
}

/// Whether a line says something that nobody else does: an error of a query comes back with its
/// answer too, and the addresses of a stack help nobody without symbols.
fn is_news(text: &str) -> bool {
    let is_stack = text.contains(" @ 0x") || text.starts_with("(version");
    let is_answered = ["> executeQuery: ", "> DynamicQueryHandler: "]
        .iter()
        .any(|logger| text.contains(logger));
    !(text.is_empty() || is_stack || is_answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_and_answered_errors_are_no_news() {
        let head = "2026.12.01 00:39:01.724564 [ 3938 ] {} ";
        for text in [
            "",
            "0. ? @ 0x000000001c8fa4b3",
            "31. start_thread @ 0x00000000000891f5",
            "(version 26.7.2.1)",
            &format!("{head}<Error> executeQuery: Code: 497. DB::Exception: x"),
        ] {
            assert!(!is_news(text), "{text}");
        }
        assert!(is_news(&format!(
            "{head}<Error> MergeTreeBackgroundExecutor: no space left"
        )));
        assert!(is_news("Code: 76. DB::Exception: Cannot lock file"));
    }
}
