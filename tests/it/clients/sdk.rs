//! The OpenTelemetry SDKs: each language's example, over each protocol it has, with and without gzip.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::tap::Tap;
use super::{landed, repository, text};
use crate::support::daemon::Daemon;

/// One language's example.
pub(super) struct Sdk {
    /// As docs/clients.md calls it.
    pub(super) name: &'static str,
    folder: &'static str,
    command: &'static [&'static str],
    /// What `OTEL_EXPORTER_OTLP_PROTOCOL` may be.
    pub(super) protocols: &'static [&'static str],
    /// The scope of its records, which is the logger's name unless the bridge has one of its own.
    scope: &'static str,
}

/// What `OTEL_EXPORTER_OTLP_COMPRESSION` may be, in every language.
pub(super) const COMPRESSIONS: [&str; 2] = ["none", "gzip"];

const PYTHON: Sdk = Sdk {
    name: "Python",
    folder: "otel-examples/python",
    command: &["../../.venv/bin/python", "example.py"],
    protocols: &["grpc", "http/protobuf", "http/json"],
    scope: "shop.checkout",
};
const NODE: Sdk = Sdk {
    name: "Node.js",
    folder: "otel-examples/node",
    command: &["node", "example.js"],
    protocols: &["grpc", "http/protobuf", "http/json"],
    scope: "@opentelemetry/winston-transport",
};
const JAVA: Sdk = Sdk {
    name: "Java",
    folder: "otel-examples/java",
    command: &["mvn", "-q", "compile", "exec:java"],
    protocols: &["grpc", "http/protobuf"],
    scope: "shop.checkout",
};
const GO: Sdk = Sdk {
    name: "Go",
    folder: "otel-examples/go",
    command: &["go", "run", "."],
    protocols: &["grpc", "http/protobuf"],
    scope: "shop.checkout",
};
const RUST: Sdk = Sdk {
    name: "Rust",
    folder: "otel-examples/rust",
    command: &["cargo", "run", "--quiet"],
    protocols: &["grpc", "http/protobuf", "http/json"],
    scope: "shop.checkout",
};
pub(super) const ALL: [Sdk; 5] = [PYTHON, NODE, JAVA, GO, RUST];

impl Sdk {
    /// Runs the example over every protocol; `check` gets the failed order's record of each.
    fn arrives(&self, check: impl Fn(&Value)) {
        let dir = tempfile::tempdir().unwrap();
        let daemon = Daemon::start(dir.path(), "auth:\n  ingest_tokens: [s3cret]");
        let (grpc, http) = (Tap::before(daemon.grpc), Tap::before(daemon.http));
        for protocol in self.protocols {
            let tap = if *protocol == "grpc" { &grpc } else { &http };
            for compression in COMPRESSIONS {
                let service = format!("shop/{protocol}/{compression}");
                let trace = self.run(tap, &service, protocol, compression);
                tap.assert_compressed(compression);
                let records = landed(&daemon, &service, 3);
                let receiver = if *protocol == "grpc" {
                    "otlp_grpc"
                } else {
                    "otlp_http"
                };
                self.assert_orders(&records, receiver, &trace);
                check(&records[2]);
            }
        }
    }

    /// Runs the example once, and returns the trace id that it prints.
    fn run(&self, tap: &Tap, service: &str, protocol: &str, compression: &str) -> String {
        let (program, arguments) = self.command.split_first().unwrap();
        // A path is meant from the example's folder, as a shell would take it.
        let program = if program.contains('/') {
            repository(self.folder).join(program)
        } else {
            Path::new(program).to_owned()
        };
        let output = Command::new(&program)
            .args(arguments)
            .current_dir(repository(self.folder))
            .env("CARGO_TARGET_DIR", repository("target/otel-examples"))
            .env("OTEL_SERVICE_NAME", service)
            .env(
                "OTEL_RESOURCE_ATTRIBUTES",
                "deployment.environment.name=prod",
            )
            .env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
            // Python's gRPC exporter refuses the word "none", which is the default.
            .envs(
                (compression != "none").then_some(("OTEL_EXPORTER_OTLP_COMPRESSION", compression)),
            )
            .env(
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                format!("http://{}", tap.address),
            )
            .env(
                "OTEL_EXPORTER_OTLP_HEADERS",
                "authorization=Bearer%20s3cret",
            )
            .output()
            .unwrap_or_else(|error| {
                panic!("{}: {error}; ./scripts/test installs it", program.display())
            });
        // Maven resets a terminal's colours even where there is no terminal.
        let told = String::from_utf8_lossy(&output.stderr).replace("\u{1b}[0m", "");
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && told.is_empty(),
            "{service}: {}: {told}{printed}",
            output.status
        );
        let (_, trace) = printed.split_once("trace ").expect("it prints its trace");
        trace.chars().take(32).collect()
    }

    /// What all of them send, whatever the language and the protocol.
    fn assert_orders(&self, records: &[Value], receiver: &str, trace: &str) {
        let [placed, slow, failed] = records else {
            panic!("three records are sent: {records:?}")
        };
        for record in records {
            assert_eq!(record["environment"], "prod");
            assert_eq!(record["scope_name"], self.scope);
            assert_eq!(record["receiver"], receiver);
            assert_eq!(
                record["resource"]["deployment.environment.name"], "prod",
                "the resource stays whole"
            );
        }
        let said = records.iter().map(|record| {
            let attribute = |name| text(&record["attributes"], name);
            [
                text(record, "level"),
                text(record, "severity_text").to_lowercase(),
                text(record, "message"),
                attribute("order.id"),
            ]
        });
        assert_eq!(
            said.collect::<Vec<_>>(),
            [
                ["info", "info", "order 1001 placed", "1001"],
                ["warn", "warn", "payment took 2.5 s", "1001"],
                ["error", "error", "order failed", "1002"],
            ]
        );
        assert_eq!(placed["attributes"]["customer"], "ada");
        assert_eq!(slow["attributes"]["duration_ms"], "2500");
        assert_eq!(
            failed["attributes"]["exception.message"],
            "payment gateway did not answer"
        );
        assert_eq!(failed["trace_id"], trace);
        assert_eq!(text(failed, "span_id").len(), 16);
        assert_eq!(text(placed, "trace_id"), "", "it was in no span");
    }
}

/// Case: the Python example over each protocol, plain and with gzip.
/// Holds: each of its records arrives with every field right, the traceback included.
#[test]
fn the_python_example_arrives() {
    PYTHON.arrives(|failed| {
        let attributes = &failed["attributes"];
        assert_eq!(attributes["exception.type"], "TimeoutError");
        let stack = text(attributes, "exception.stacktrace");
        assert!(
            stack.starts_with("Traceback (most recent call last):\n"),
            "{stack}"
        );
    });
}

/// Case: the Node.js example with each of its exporters, plain and with gzip.
/// Holds: each of its records arrives with every field right.
#[test]
fn the_node_example_arrives() {
    NODE.arrives(|failed| assert_eq!(failed["attributes"]["attempts"], "[100,200]"));
}

/// Case: the Java example, without the agent, over each protocol, plain and with gzip.
/// Holds: each of its records arrives with every field right, the stack trace included.
#[test]
fn the_java_example_arrives() {
    JAVA.arrives(|failed| {
        let attributes = &failed["attributes"];
        assert_eq!(
            attributes["exception.type"],
            "java.util.concurrent.TimeoutException"
        );
        let stack = text(attributes, "exception.stacktrace");
        assert!(
            stack.contains("\n\tat Example.main(Example.java:"),
            "{stack}"
        );
    });
}

/// Case: the Go example over each protocol, plain and with gzip.
/// Holds: each of its records arrives with every field right.
#[test]
fn the_go_example_arrives() {
    GO.arrives(|failed| assert_eq!(failed["resource"]["telemetry.sdk.language"], "go"));
}

/// Case: the Rust example with each of its exporters, plain and with gzip.
/// Holds: each of its records arrives with every field right.
#[test]
fn the_rust_example_arrives() {
    RUST.arrives(|failed| assert_eq!(failed["resource"]["telemetry.sdk.language"], "rust"));
}
