//! OTLP requests, and a daemon that takes them and needs no ClickHouse.

use std::io::Write;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, Weak};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use prost::Message;

use super::daemon::Daemon;
use super::http;
use super::redis::Redis;

pub(crate) const PROTOBUF: &str = "application/x-protobuf";
pub(crate) const JSON: &str = "application/json";

/// `count` records, each with a message of `length` bytes.
pub(crate) fn records(count: usize, length: usize) -> ExportLogsServiceRequest {
    let record = |index: usize| LogRecord {
        severity_number: 9,
        body: Some(AnyValue {
            value: Some(Value::StringValue(format!(
                "{index} {}",
                "a".repeat(length)
            ))),
        }),
        ..LogRecord::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            scope_logs: vec![ScopeLogs {
                log_records: (0..count).map(record).collect(),
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        }],
    }
}

/// One record with this message.
pub(crate) fn export_of(message: &str) -> Vec<u8> {
    let mut request = records(1, 0);
    let value = Some(Value::StringValue(message.to_owned()));
    request.resource_logs[0].scope_logs[0].log_records[0].body = Some(AnyValue { value });
    request.encode_to_vec()
}

pub(crate) fn one_record() -> Vec<u8> {
    records(1, 5).encode_to_vec()
}

pub(crate) const ONE_RECORD_JSON: &[u8] =
    br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"one"}}]}]}]}"#;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A daemon whose store is away: what it takes stays in its queue.
pub(crate) struct Door {
    pub(crate) daemon: Daemon,
    pub(crate) dir: tempfile::TempDir,
}

impl Door {
    pub(crate) fn open(extra: &str) -> Door {
        Door::open_when(extra, |daemon| {
            http::get(daemon.web, "/healthz").is_ok_and(|answer| answer.status == 200)
        })
    }

    /// Waits until `up` says that it is there.
    pub(crate) fn open_when(extra: &str, up: impl Fn(&Daemon) -> bool) -> Door {
        let dir = tempfile::tempdir().unwrap();
        let extra = format!("store:\n  url: http://127.0.0.1:9\n{extra}");
        let daemon = Daemon::spawned(dir.path(), &extra);
        daemon.wait_until("it is up", || up(&daemon));
        Door { daemon, dir }
    }

    /// One with 1 MiB for requests under way, most of which a request has that waits for a Redis that does not
    /// answer.
    pub(crate) fn open_and_fill() -> (Door, TcpStream, Redis) {
        let redis = Redis::start();
        let url = redis.url();
        let door = Door::open(&format!(
            "limits:\n  body: 1MiB\n  in_flight: 1MiB\n  commit_timeout: 60s\nintake:\n  frame_bytes: 64KiB\n\
             queue:\n  kind: redis\n  redis:\n    url: {url}\n  disk:\n    min_free: 100TiB\n"
        ));
        redis.freeze(true);
        let mut waits = TcpStream::connect(door.http).unwrap();
        let body = records(1, 900_000).encode_to_vec();
        let head = format!(
            "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: {PROTOBUF}\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        waits.write_all(&[head.as_bytes(), &body].concat()).unwrap();
        door.wait_until("the memory is full", || {
            door.metric("watchtower_intake_in_flight_bytes") > 800_000
        });
        (door, waits, redis)
    }

    /// The one with default settings that tests share while they run.
    pub(crate) fn shared() -> Arc<Door> {
        static SHARED: Mutex<Weak<Door>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap();
        shared.upgrade().unwrap_or_else(|| {
            let door = Arc::new(Door::open(""));
            *shared = Arc::downgrade(&door);
            door
        })
    }
}

impl std::ops::Deref for Door {
    type Target = Daemon;

    fn deref(&self) -> &Daemon {
        &self.daemon
    }
}
