//! The whole path of a log, from each door to the store, the search and the live stream, on the real
//! daemon with both queues.

use std::path::Path;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;

use crate::support::daemon::Daemon;
use crate::support::engine::TestEngine;
use crate::support::redis::Redis;
use crate::support::{http, sse};

const SOON: Duration = Duration::from_secs(20);

fn now_nanos() -> u64 {
    let since = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    u64::try_from(since.as_nanos()).unwrap()
}

fn pair(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.into(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}

fn text(value: &str) -> Value {
    Value::StringValue(value.into())
}

/// One record with every field set.
fn otlp(message: &str, time: u64) -> ExportLogsServiceRequest {
    let record = LogRecord {
        time_unix_nano: time,
        observed_time_unix_nano: time + 5,
        severity_number: 17,
        severity_text: "ERROR".into(),
        body: Some(AnyValue {
            value: Some(text(message)),
        }),
        attributes: vec![
            pair("http.status_code", Value::IntValue(503)),
            pair("peer", text("db")),
        ],
        trace_id: (1..=16).collect(),
        span_id: (1..=8).collect(),
        flags: 1,
        event_name: "checkout.failed".into(),
        ..LogRecord::default()
    };
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(Resource {
                attributes: vec![
                    pair("service.name", text("checkout")),
                    pair("deployment.environment.name", text("prod")),
                    pair("host.name", text("node-1")),
                ],
                ..Resource::default()
            }),
            scope_logs: vec![ScopeLogs {
                scope: Some(InstrumentationScope {
                    name: "shop.orders".into(),
                    version: "2.1".into(),
                    ..InstrumentationScope::default()
                }),
                log_records: vec![record],
                ..ScopeLogs::default()
            }],
            ..ResourceLogs::default()
        }],
    }
}

fn otlp_json(message: &str, time: u64) -> String {
    let attributes = r#"{"key":"service.name","value":{"stringValue":"checkout"}},
        {"key":"deployment.environment.name","value":{"stringValue":"prod"}},
        {"key":"host.name","value":{"stringValue":"node-1"}}"#;
    format!(
        r#"{{"resourceLogs":[{{"resource":{{"attributes":[{attributes}]}},"scopeLogs":[{{
        "scope":{{"name":"shop.orders","version":"2.1"}},"logRecords":[{{"timeUnixNano":"{time}",
        "severityNumber":17,"severityText":"ERROR","body":{{"stringValue":"{message}"}},
        "attributes":[{{"key":"http.status_code","value":{{"intValue":"503"}}}},{{"key":"peer","value":{{"stringValue":"db"}}}}],
        "traceId":"0102030405060708090a0b0c0d0e0f10","spanId":"0102030405060708","flags":1,
        "eventName":"checkout.failed"}}]}}]}}]}}"#
    )
}

fn send_grpc(daemon: &Daemon, request: ExportLogsServiceRequest, gzip: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let answer = runtime.block_on(async {
        let mut client = LogsServiceClient::connect(format!("http://{}", daemon.grpc))
            .await
            .unwrap();
        if gzip {
            client = client.send_compressed(tonic::codec::CompressionEncoding::Gzip);
        }
        client.export(request).await.unwrap().into_inner()
    });
    assert_eq!(answer.partial_success, None);
}

/// Sends one record through every door; returns each message with its receiver and its time.
fn send_through_every_door(daemon: &Daemon) -> Vec<(String, &'static str, u64)> {
    let time = now_nanos();
    let mut sent = Vec::new();
    let mut next = |door: &str, receiver| {
        let (message, at) = (format!("hello through {door}"), time + sent.len() as u64);
        sent.push((message.clone(), receiver, at));
        (message, at)
    };

    let (message, at) = next("grpc", "otlp_grpc");
    send_grpc(daemon, otlp(&message, at), false);
    let (message, at) = next("grpc gzip", "otlp_grpc");
    send_grpc(daemon, otlp(&message, at), true);

    let (message, at) = next("http protobuf", "otlp_http");
    let body = otlp(&message, at).encode_to_vec();
    let answer = http::post(daemon.http, "/v1/logs", "application/x-protobuf", &body).unwrap();
    assert_eq!((answer.status, answer.body.as_slice()), (200, &b""[..]));
    assert_eq!(
        answer.header("content-type"),
        Some("application/x-protobuf")
    );

    let (message, at) = next("http json", "otlp_http");
    let body = otlp_json(&message, at);
    let answer = http::post(daemon.http, "/v1/logs", "application/json", body.as_bytes()).unwrap();
    assert_eq!((answer.status, answer.text().as_str()), (200, "{}"));

    let (message, at) = next("json", "json");
    let body = format!(
        r#"{{"timestamp":"{at}","level":"error","service":"checkout","environment":"prod","message":"{message}",
        "trace_id":"0102030405060708090a0b0c0d0e0f10","span_id":"0102030405060708","http":{{"status_code":503}},"peer":"db"}}"#
    );
    let answer = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes()).unwrap();
    assert_eq!(
        (answer.status, answer.json()["accepted"].as_u64()),
        (202, Some(1)),
        "{}",
        answer.text()
    );
    sent
}

/// What a record must look like in the API, whichever door it came through.
fn check_record(record: &serde_json::Value, receiver: &str, time: u64) {
    let expected = [
        ("timestamp", time.to_string()),
        ("level", "error".into()),
        ("service", "checkout".into()),
        ("environment", "prod".into()),
        ("trace_id", "0102030405060708090a0b0c0d0e0f10".into()),
        ("span_id", "0102030405060708".into()),
        ("receiver", receiver.into()),
    ];
    for (field, value) in expected {
        assert_eq!(record[field], value.as_str(), "{field} of {record}");
    }
    assert_eq!(record["attributes"]["http.status_code"], "503", "{record}");
    assert_eq!(record["attributes"]["peer"], "db", "{record}");
    if receiver != "json" {
        assert_eq!(record["event_name"], "checkout.failed", "{record}");
        assert_eq!(
            (&record["scope_name"], &record["scope_version"]),
            (&"shop.orders".into(), &"2.1".into())
        );
        assert_eq!(record["resource"]["host.name"], "node-1", "{record}");
        assert_eq!(
            (&record["severity_number"], &record["severity_text"]),
            (&17.into(), &"ERROR".into())
        );
        assert_eq!(record["trace_flags"], 1, "{record}");
    }
}

fn every_door_reaches_everything(dir: &Path, extra: &str) {
    let daemon = Daemon::start(dir, extra);
    let stream = sse::Stream::open(daemon.web, "/api/logs/stream?backlog=0", &[]);
    stream.assert_nothing_holds_it_back();
    let hello = stream.next(SOON).unwrap();
    assert_eq!(hello.kind, "hello");
    let sent = send_through_every_door(&daemon);

    let live = stream.records(sent.len(), SOON);
    daemon.wait_stored();
    let found = http::get(daemon.web, "/api/logs?order=oldest&service=checkout")
        .unwrap()
        .json();
    let found = found["records"].as_array().unwrap();
    assert_eq!(found.len(), sent.len());
    for ((message, receiver, time), (live, found)) in sent.iter().zip(live.iter().zip(found)) {
        for record in [live, found] {
            assert_eq!(record["message"], message.as_str());
            check_record(record, receiver, *time);
        }
        // The stream and the search tell the same of a record, to the letter.
        assert_eq!(live, found);
    }
    check_rows(&daemon, &sent);
    check_one_filter(&daemon);
    assert_eq!(daemon.status()["pipeline"]["stored"], 5);
    assert!(daemon.stop().success());
}

/// The same in ClickHouse itself, column by column.
fn check_rows(daemon: &Daemon, sent: &[(String, &'static str, u64)]) {
    let rows = daemon.sql(
        "SELECT message, receiver, toUnixTimestamp64Nano(timestamp), level, service, environment, trace_id, span_id, \
         attributes['http.status_code'], severity_number FROM logs ORDER BY timestamp, id",
    );
    let expected: Vec<Vec<String>> = sent
        .iter()
        .map(|(message, receiver, time)| {
            let rest = [
                "error",
                "checkout",
                "prod",
                "0102030405060708090a0b0c0d0e0f10",
                "0102030405060708",
                "503",
                "17",
            ];
            let first = [message.clone(), (*receiver).to_owned(), time.to_string()];
            first.into_iter().chain(rest.map(str::to_owned)).collect()
        })
        .collect();
    assert_eq!(rows, expected);
    let viewed = daemon.sql("SELECT count(), any(ServiceName), any(SeverityText) FROM otel_logs WHERE SeverityText = 'ERROR'");
    assert_eq!(viewed, [["4", "checkout", "ERROR"]]);
}

fn check_one_filter(daemon: &Daemon) {
    let count = |query: &str| {
        http::get(daemon.web, &format!("/api/logs?{query}"))
            .unwrap()
            .json()["records"]
            .as_array()
            .unwrap()
            .len()
    };
    assert_eq!(count("text=THROUGH%20grpc"), 2);
    assert_eq!(count("level=error&environment=prod"), 5);
    assert_eq!(count("level=warn"), 0);
    assert_eq!(count("service=other"), 0);
    assert_eq!(count("limit=2"), 2);
}

#[test]
fn every_door_reaches_store_search_and_stream_with_the_disk_queue() {
    let dir = tempfile::tempdir().unwrap();
    every_door_reaches_everything(dir.path(), "");
}

#[test]
fn every_door_reaches_store_search_and_stream_with_redis_and_a_remote_store() {
    let dir = tempfile::tempdir().unwrap();
    let redis = Redis::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let engine = runtime.block_on(TestEngine::start());
    let (url, store) = (redis.url(), runtime.block_on(engine.as_store()));
    let extra = format!("queue:\n  kind: redis\n  redis:\n    url: {url}\n{store}");
    every_door_reaches_everything(dir.path(), &extra);
}

#[test]
fn bad_input_is_refused_with_a_reason_and_costs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "");
    let bad = http::post(
        daemon.http,
        "/v1/logs",
        "application/x-protobuf",
        b"\x0a\xff\xff\xff\xff\x0f",
    )
    .unwrap();
    assert_eq!(
        (bad.status, bad.header("content-type")),
        (400, Some("application/x-protobuf"))
    );
    let bad = http::post(
        daemon.http,
        "/v1/logs",
        "application/json",
        b"{\"resourceLogs\": [",
    )
    .unwrap();
    assert_eq!((bad.status, bad.json()["code"].as_u64()), (400, Some(3)));
    let bad = http::post(daemon.http, "/v1/logs", "text/plain", b"hello").unwrap();
    assert_eq!(bad.status, 415);
    let bad = http::post(
        daemon.web,
        "/api/logs",
        "application/json",
        b"not json at all",
    )
    .unwrap();
    assert_eq!(bad.status, 400, "{}", bad.text());
    let mixed = b"{\"message\":\"a\"}\n{\"mess\n7\n{\"message\":\"b\"}\n";
    let answer = http::post(daemon.web, "/api/logs", "application/x-ndjson", mixed)
        .unwrap()
        .json();
    assert_eq!(answer["accepted"], 2, "{answer}");
    let indexes: Vec<_> = answer["rejected"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["index"].as_u64())
        .collect();
    assert_eq!(indexes, [Some(1), Some(2)]);
    daemon.wait_stored();
    assert_eq!(
        daemon.sql("SELECT message FROM logs ORDER BY id"),
        [["a"], ["b"]]
    );
}

#[test]
fn a_store_that_is_away_costs_no_record_and_holds_up_no_stop() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start_unready(dir.path(), "store:\n  url: http://127.0.0.1:9\n");
    let answer = http::post(
        daemon.web,
        "/api/logs",
        "application/json",
        b"{\"message\":\"kept\"}",
    )
    .unwrap();
    assert_eq!(answer.status, 202);
    let status = daemon.status();
    assert_eq!(
        (
            &status["pipeline"]["queued"],
            &status["pipeline"]["store"]["ok"]
        ),
        (&1.into(), &false.into())
    );
    let search = http::get(daemon.web, "/api/logs").unwrap();
    assert_eq!(
        (search.status, search.json()["code"].as_str()),
        (503, Some("unavailable"))
    );
    assert!(daemon.stop().success());

    // With the store back, here the embedded one, it is stored.
    let daemon = Daemon::start(dir.path(), "");
    daemon.wait_stored();
    assert_eq!(daemon.sql("SELECT message FROM logs"), [["kept"]]);
}
