//! Fluent Bit and Vector, which are not run here: what each sends under its example's configuration is
//! sent in its place, to the address and with the compression that the configuration names.

use std::io::Write;

use flate2::write::GzEncoder;
use serde_json::json;
use serde_yaml::Value;

use super::{landed, repository, text};
use crate::support::daemon::Daemon;
use crate::support::http;

fn config(path: &str) -> Value {
    let text = std::fs::read_to_string(repository(path)).unwrap();
    serde_yaml::from_str(&text).unwrap()
}

fn compressed(how: &Value, body: &str) -> Vec<u8> {
    match how.as_str() {
        Some("gzip") => {
            let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(body.as_bytes()).unwrap();
            encoder.finish().unwrap()
        }
        Some("zstd") => zstd::encode_all(body.as_bytes(), 3).unwrap(),
        other => panic!("no such compression: {other:?}"),
    }
}

/// Posts a body as the configuration says; the one record that came of it.
fn post(path: &str, compression: &Value, body: &str) -> serde_json::Value {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "retention: 3650d");
    let headers = [
        ("content-type", "application/x-ndjson"),
        ("content-encoding", compression.as_str().unwrap()),
    ];
    let answer = http::request(
        daemon.web,
        "POST",
        path,
        &headers,
        &compressed(compression, body),
    )
    .unwrap();
    assert_eq!(answer.status, 202, "{}", answer.text());
    let mut records = landed(&daemon, "shop", 1);
    let record = records.pop().unwrap();
    assert_eq!(text(&record, "timestamp"), "1751364000123456000");
    assert_eq!(record["level"], "info");
    assert_eq!(record["environment"], "prod");
    assert_eq!(record["message"], "order 1001 placed");
    record
}

/// Case: a line as Fluent Bit sends it under its example's configuration.
/// Holds: it arrives with every field right.
#[test]
fn what_fluent_bit_sends_arrives() {
    let config = config("otel-examples/fluent-bit/fluent-bit.yaml");
    let output = &config["pipeline"]["outputs"][0];
    assert_eq!(output["format"], "json_lines");
    assert_eq!(output["json_date_key"], "@timestamp");
    let body = "{\"@timestamp\":\"2025-07-01T10:00:00.123456Z\",\"level\":\"info\",\"message\":\"order 1001 placed\",\"order.id\":1001,\"service\":\"shop\",\"environment\":\"prod\"}\n";
    let record = post(output["uri"].as_str().unwrap(), &output["compress"], body);
    assert_eq!(record["attributes"], json!({ "order.id": "1001" }));
}

/// Case: a line as Vector sends it under its example's configuration.
/// Holds: it arrives with every field right, and what Vector adds is beside them.
#[test]
fn what_vector_sends_arrives() {
    let config = config("otel-examples/vector/vector.yaml");
    let sink = &config["sinks"]["watchtower"];
    assert_eq!(sink["framing"]["method"], "newline_delimited");
    let (_, path) = sink["uri"].as_str().unwrap().split_once(":4319").unwrap();
    let body = "{\"environment\":\"prod\",\"file\":\"/var/log/shop/shop.log\",\"host\":\"box\",\"level\":\"info\",\"message\":\"order 1001 placed\",\"order.id\":1001,\"service\":\"shop\",\"source_type\":\"file\",\"time\":\"2025-07-01T10:00:00.123456Z\"}\n";
    let record = post(path, &sink["compression"], body);
    assert_eq!(
        record["attributes"],
        json!({ "file": "/var/log/shop/shop.log", "host": "box", "order.id": "1001", "source_type": "file" })
    );
}
