//! A shell script with curl and jq.

use std::process::Command;

use super::{landed, repository, text};
use crate::support::daemon::Daemon;

/// Case: the shell example, whose messages hold quotes, backslashes and equals signs.
/// Holds: each of its records arrives with every field right, and nothing is printed.
#[test]
fn the_shell_example_arrives() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "auth:\n  ingest_tokens: [s3cret]");
    let output = Command::new(repository("otel-examples/shell/example.sh"))
        .env("WATCHTOWER_URL", format!("http://{}", daemon.web))
        .env("WATCHTOWER_TOKEN", "s3cret")
        .env("OTEL_SERVICE_NAME", "shop")
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "team=web,deployment.environment.name=prod",
        )
        .output()
        .unwrap();
    let told = [output.stdout, output.stderr].concat();
    assert!(
        output.status.success() && told.is_empty(),
        "{}",
        String::from_utf8_lossy(&told)
    );
    let records = landed(&daemon, "shop", 5);
    for record in &records {
        assert_eq!(record["environment"], "prod");
        assert_eq!(record["receiver"], "json");
    }
    let said = records.iter().map(|record| {
        let attribute = |name| text(&record["attributes"], name);
        [
            text(record, "level"),
            text(record, "message"),
            attribute("order.id"),
            attribute("exception.message"),
        ]
    });
    assert_eq!(
        said.collect::<Vec<_>>(),
        [
            ["info", "order 1001 placed", "1001", ""],
            ["warn", "payment took 2.5 s", "1001", ""],
            [
                "error",
                "order failed",
                "1002",
                "payment gateway said \"no = no\""
            ],
            ["debug", "first line of a program", "", ""],
            ["debug", "a \"quoted\" one, with a \\ in it", "", ""],
        ]
    );
    assert_eq!(records[0]["attributes"]["customer"], "ada");
    assert_eq!(records[1]["attributes"]["duration_ms"], "2500");
}
