//! The programs in `otel-examples/`, with the real SDKs, against the real daemon.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::support::daemon::{Daemon, watchtower};

fn repository(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), path].iter().collect()
}

/// Runs an example as its README says, and returns the records that came of it, oldest first.
fn run(program: &str, script: &str, protocol: &str) -> Vec<Value> {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "auth:\n  ingest_tokens: [s3cret]");
    let endpoint: SocketAddr = if protocol == "grpc" {
        daemon.grpc
    } else {
        daemon.http
    };
    let output = Command::new(program)
        .arg(repository(script))
        .args(["--protocol", protocol])
        .env("OTEL_SERVICE_NAME", "shop")
        .env(
            "OTEL_RESOURCE_ATTRIBUTES",
            "deployment.environment.name=prod",
        )
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://{endpoint}"))
        .env(
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20s3cret",
        )
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; ./scripts/test installs it"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");

    let url = format!("http://{}", daemon.web);
    let printed = |args: &[&str]| -> Vec<Value> {
        let output = watchtower(&[args, &["--url", &url, "--json", "-n", "10"]].concat(), "");
        let lines = String::from_utf8(output.stdout).unwrap();
        lines
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    };
    let live = printed(&["tail", "--limit", "3"]);
    daemon.wait_stored();
    let stored = printed(&["search", "--from", "5m"]);
    assert_eq!(live, stored, "what was seen live is what ClickHouse has");
    let columns = "level, service, environment, message, attributes['order.id']";
    let rows = daemon.sql(&format!(
        "SELECT {columns} FROM logs ORDER BY timestamp, id"
    ));
    let text = |record: &Value, name: &str| record[name].as_str().unwrap_or_default().to_owned();
    let expected = live.iter().map(|record| {
        let mut row = ["level", "service", "environment", "message"]
            .map(|name| text(record, name))
            .to_vec();
        row.push(text(&record["attributes"], "order.id"));
        row
    });
    assert_eq!(rows, expected.collect::<Vec<_>>());
    live
}

/// What all of them send, whatever the language and the protocol.
fn assert_orders(records: &[Value], receiver: &str) {
    let [placed, slow, failed] = records else {
        panic!("three records are sent: {records:?}")
    };
    for record in records {
        assert_eq!(record["service"], "shop");
        assert_eq!(record["environment"], "prod");
        assert_eq!(record["scope_name"], "shop.checkout");
        assert_eq!(record["receiver"], receiver);
    }
    assert_eq!(
        (&placed["level"], &placed["message"]),
        (&"info".into(), &"order 1001 placed".into())
    );
    assert_eq!(placed["attributes"]["order.id"], "1001");
    assert_eq!(placed["attributes"]["customer"], "ada");
    assert_eq!(
        (&slow["level"], &slow["message"]),
        (&"warn".into(), &"payment took 2.5 s".into())
    );
    assert_eq!(slow["attributes"]["duration_ms"], "2500");
    assert_eq!(
        (&failed["level"], &failed["message"]),
        (&"error".into(), &"order failed".into())
    );
    assert_eq!(
        failed["attributes"]["exception.message"],
        "payment gateway did not answer"
    );
}

/// Case: the Python example over both transports.
/// Holds: each of its records arrives with every field right, the traceback included.
#[test]
fn the_python_example_arrives() {
    let python = repository(".venv/bin/python");
    for (protocol, receiver) in [("grpc", "otlp_grpc"), ("http", "otlp_http")] {
        let records = run(
            python.to_str().unwrap(),
            "otel-examples/python/example.py",
            protocol,
        );
        assert_orders(&records, receiver);
        let failed = records.last().unwrap();
        assert_eq!(failed["attributes"]["exception.type"], "TimeoutError");
        let stack = failed["attributes"]["exception.stacktrace"]
            .as_str()
            .unwrap();
        assert!(
            stack.starts_with("Traceback (most recent call last):\n"),
            "{stack}"
        );
    }
}

/// Case: the Node example with each of its three exporters.
/// Holds: each of its records arrives with every field right, a list as JSON.
#[test]
fn the_node_example_arrives() {
    for (protocol, receiver) in [
        ("grpc", "otlp_grpc"),
        ("http/protobuf", "otlp_http"),
        ("http/json", "otlp_http"),
    ] {
        let records = run("node", "otel-examples/node/example.js", protocol);
        assert_orders(&records, receiver);
        assert_eq!(records.first().unwrap()["scope_version"], "1.0.0");
        assert_eq!(
            records.get(1).unwrap()["attributes"]["retries"],
            "[100,200]"
        );
    }
}
