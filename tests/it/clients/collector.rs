//! The OpenTelemetry Collector, which reads a file: over each transport, in each encoding, with each
//! compression. `scripts/build-collector` builds it, so this runs under `./scripts/test --all` only.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::tap::Tap;
use super::{landed, repository, text};
use crate::support::daemon::Daemon;
use crate::support::pause;

/// How long the Collector may take to end.
const PATIENCE: Duration = Duration::from_secs(20);

/// One way in which the Collector can send.
pub(super) struct Way {
    config: &'static str,
    exporter: &'static str,
    /// `grpc`, `http/protobuf` or `http/json`.
    pub(super) protocol: &'static str,
    pub(super) compressions: &'static [&'static str],
}

pub(super) const WAYS: [Way; 3] = [
    Way {
        config: "grpc.yaml",
        exporter: "otlp",
        protocol: "grpc",
        compressions: &["none", "gzip", "zstd"],
    },
    Way {
        config: "http.yaml",
        exporter: "otlphttp",
        protocol: "http/protobuf",
        compressions: &["none", "gzip", "zstd", "deflate"],
    },
    Way {
        config: "http.yaml",
        exporter: "otlphttp",
        protocol: "http/json",
        compressions: &["none", "gzip", "zstd", "deflate"],
    },
];

/// What the file holds, and what of each line is to be found again: nanoseconds since 1970, level,
/// message, trace, span, and the attributes beside the file's name.
const LINES: &str = r#"{"time":"2025-07-01T10:00:00.123456789Z","level":"info","message":"order 1001 placed","order.id":1001,"customer":"ada"}
{"time":"2025-07-01T12:00:01+02:00","level":"warn","message":"payment took 2.5 s","order.id":1001,"seconds":2.5,"tries":[1,2]}
{"time":"2025-07-01T10:00:02Z","level":"error","message":"größer als \"null\"\n\tat 日本 🦀","order.id":1002,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","span_id":"00f067aa0ba902b7"}
"#;
const LANDED: [[&str; 6]; 3] = [
    [
        "1751364000123456789",
        "info",
        "order 1001 placed",
        "",
        "",
        r#"{"customer":"ada","log.file.name":"shop.log","order.id":"1001"}"#,
    ],
    [
        "1751364001000000000",
        "warn",
        "payment took 2.5 s",
        "",
        "",
        r#"{"log.file.name":"shop.log","order.id":"1001","seconds":"2.5","tries":"[1,2]"}"#,
    ],
    [
        "1751364002000000000",
        "error",
        "größer als \"null\"\n\tat 日本 🦀",
        "4bf92f3577b34da6a3ce929d0e0e4736",
        "00f067aa0ba902b7",
        r#"{"log.file.name":"shop.log","order.id":"1002"}"#,
    ],
];

/// A running Collector, killed when dropped.
struct Collector(Child);

impl Collector {
    fn start(dir: &Path, tap: &Tap, way: &Way, compression: &str, service: &str) -> Self {
        let exporter = format!("exporters::{}", way.exporter);
        let mut settings = vec![
            format!(
                "receivers::filelog::include=[{}]",
                dir.join("shop.log").display()
            ),
            format!(
                "receivers::filelog::resource={{service.name: {service}, deployment.environment.name: prod}}"
            ),
            format!("{exporter}::compression={compression}"),
            "service::telemetry::metrics::level=none".to_owned(),
        ];
        if way.protocol == "grpc" {
            settings.push(format!("{exporter}::endpoint={}", tap.address));
        } else {
            settings.push(format!("{exporter}::endpoint=http://{}", tap.address));
            let encoding = way.protocol.trim_start_matches("http/");
            let encoding = encoding.replace("protobuf", "proto");
            settings.push(format!("{exporter}::encoding={encoding}"));
        }
        let log = std::fs::File::create(dir.join("collector.log")).unwrap();
        let config = Path::new("otel-examples/collector").join(way.config);
        let child = Command::new(repository(".collector/otelcol"))
            .arg("--config")
            .arg(repository(config.to_str().unwrap()))
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{error}; ./scripts/build-collector builds it"));
        Collector(child)
    }

    /// Stops it in good order: it reports what it could not send with its exit.
    fn stop(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::TERM).unwrap();
        let end = Instant::now() + PATIENCE;
        while self.0.try_wait().unwrap().is_none() {
            assert!(Instant::now() < end, "the Collector does not stop");
            pause(Duration::from_millis(20));
        }
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn stored(record: &Value) -> [String; 6] {
    let field = |name| text(record, name);
    [
        field("timestamp"),
        field("level"),
        field("message"),
        field("trace_id"),
        field("span_id"),
        record["attributes"].to_string(),
    ]
}

/// Case: the Collector sends the same file in each of its ways.
/// Holds: every record arrives once, and equal: to what the file says, so to those of every other way.
#[test]
#[ignore = "needs the Collector, a few minutes to build: ./scripts/test --all"]
fn the_collector_arrives_in_each_of_its_ways() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "retention: 3650d");
    std::fs::write(dir.path().join("shop.log"), LINES).unwrap();
    let (grpc, http) = (Tap::before(daemon.grpc), Tap::before(daemon.http));
    for way in WAYS {
        let tap = if way.protocol == "grpc" { &grpc } else { &http };
        for compression in way.compressions {
            let service = format!("{}/{compression}", way.protocol);
            let collector = Collector::start(dir.path(), tap, &way, compression, &service);
            let records = landed(&daemon, &service, 3);
            collector.stop();
            tap.assert_compressed(compression);
            let log = std::fs::read_to_string(dir.path().join("collector.log")).unwrap();
            assert!(!log.contains("\terror\t"), "{service}: {log}");
            let records: Vec<_> = records.iter().map(stored).collect();
            assert_eq!(records, LANDED, "{service}");
        }
    }
    let count = WAYS.iter().map(|way| way.compressions.len() * 3);
    let rows = daemon.sql("SELECT count() FROM logs");
    assert_eq!(rows, [[count.sum::<usize>().to_string()]], "nothing twice");
}
