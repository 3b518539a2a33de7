//! What is wrong with a request whatever is in its body, and calls whose time is over: each is answered in
//! the form of its protocol.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;

use crate::support::grpc::{Connection, EXPORT, block_on, call, framed};
use crate::support::http::{self as plain, Answer};
use crate::support::otlp::{Door, JSON, ONE_RECORD_JSON, one_record, records};
use crate::support::redis::Redis;

fn json(answer: &Answer) -> (u16, i64, String) {
    assert_eq!(answer.header("content-type"), Some(JSON), "{answer:?}");
    let body: Value = serde_json::from_slice(&answer.body).unwrap();
    let text = body["message"].as_str().unwrap().to_owned();
    (answer.status, body["code"].as_i64().unwrap(), text)
}

/// Case: a client whose headers come to 20 kB over HTTP/2, such as a token that grew.
/// Holds: it is told so in its own protocol; 15 kB are taken, and over HTTP/1.1 60 kB.
#[test]
fn g_10_g_20_h_11_b_08_headers_over_the_limit_are_refused_in_the_form_of_the_protocol() {
    let door = Door::open("cors:\n  origins: [http://app.lan]\n");
    let (long, short) = ("h".repeat(20_000), "h".repeat(15_000));
    let called = call(
        door.grpc,
        EXPORT,
        &[("x-long", &long)],
        framed(0, &one_record()),
    );
    let status = called.status();
    assert_eq!((called.http, status.code() as i32), (200, 8));
    assert!(status.message().contains("16384"), "{status:?}");
    assert!(status.details().is_empty(), "it is final: {status:?}");
    let called = call(
        door.grpc,
        EXPORT,
        &[("x-long", &short)],
        framed(0, &one_record()),
    );
    assert_eq!(called.code(), 0);
    let headers = [
        ("content-type", JSON),
        ("origin", "http://app.lan"),
        ("x-long", &long),
    ];
    let called = block_on(async {
        let mut connection = Connection::open(door.http).await;
        connection
            .call("/v1/logs", &headers, ONE_RECORD_JSON.to_vec())
            .await
    });
    assert_eq!(called.http, 431);
    assert_eq!(
        called.headers["access-control-allow-origin"],
        "http://app.lan"
    );
    let body: Value = serde_json::from_slice(&called.body).unwrap();
    assert_eq!(body["code"], 8, "{body}");
    let answer = plain::request(
        door.http,
        "POST",
        "/v1/logs",
        &[("content-type", JSON), ("x-long", &"h".repeat(60_000))],
        ONE_RECORD_JSON,
    );
    assert_eq!(answer.unwrap().status, 200);
}

/// Case: what the HTTP/1.1 parser refuses before any route sees it.
/// Holds: a body says what is wrong, on every port.
#[test]
fn h_11_what_is_no_http_is_explained() {
    let door = Door::shared();
    let long = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n",
        "h".repeat(80_000)
    );
    let post = |headers: &str| {
        format!("POST /v1/logs HTTP/1.1\r\n{headers}content-type: {JSON}\r\nconnection: close\r\n")
    };
    let length = format!("content-length: {}\r\n\r\n", ONE_RECORD_JSON.len());
    let one = String::from_utf8_lossy(ONE_RECORD_JSON);
    for address in [door.grpc, door.http, door.web] {
        for (sent, expected, part) in [
            (long.clone(), (431, 8), "64 KiB"),
            (
                post("host: x\r\ncontent-length: ten\r\n") + "\r\n",
                (400, 3),
                "content length",
            ),
            (
                post("host: x\r\nbad header\r\n") + "\r\n",
                (400, 3),
                "not as it must be",
            ),
            (
                post("host: x\r\ntransfer-encoding: chunked\r\n") + "\r\nzz\r\n{}\r\n0\r\n\r\n",
                (400, 3),
                "not what its headers say",
            ),
            // These the parser takes, and the receivers do not.
            (post("") + &length + &one, (400, 3), "has none"),
            (
                post("host: x\r\nhost: x\r\n") + &length + &one,
                (400, 3),
                "has several",
            ),
            (
                post("host: a/b@c\r\n") + &length + &one,
                (400, 3),
                "is neither",
            ),
            (
                post("host: x\r\ntransfer-encoding: gzip, chunked\r\n") + "\r\n0\r\n\r\n",
                (400, 3),
                "`gzip, chunked`",
            ),
        ] {
            let answer = plain::exchange(address, sent.as_bytes()).unwrap();
            let (status, code, text) = json(&answer);
            let shown: String = sent.chars().take(200).collect();
            assert_eq!((status, code), expected, "{shown}");
            assert!(text.contains(part), "{text}");
        }
        let good = post("host: x\r\n") + &length + &one;
        assert_eq!(
            plain::exchange(address, good.as_bytes()).unwrap().status,
            200
        );
    }
}

#[test]
fn h_17_codings_upon_one_another_are_named_as_such() {
    let door = Door::shared();
    for codings in [
        &[("content-encoding", "gzip"), ("content-encoding", "gzip")][..],
        &[("content-encoding", "gzip, gzip")],
    ] {
        let headers = [&[("content-type", JSON)][..], codings].concat();
        let answer = plain::request(door.http, "POST", "/v1/logs", &headers, b"x").unwrap();
        let (status, _, text) = json(&answer);
        assert_eq!(status, 415);
        assert!(text.contains("upon one another (`gzip, gzip`)"), "{text}");
    }
}

/// A call of which a part comes, and then nothing.
fn half_sent(address: SocketAddr, timeout: &'static str) -> HeaderMap {
    let whole = framed(0, &one_record());
    let half = Bytes::copy_from_slice(&whole[..whole.len() / 2]);
    block_on(async move {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        let pieces = futures_util::stream::iter([Ok::<_, Infallible>(Frame::data(half))]);
        let body = StreamBody::new(pieces.chain(futures_util::stream::pending())).boxed_unsync();
        let request = Request::post(format!("http://watchtower{EXPORT}"))
            .header("te", "trailers")
            .header("content-type", "application/grpc")
            .header("grpc-timeout", timeout)
            .body(body)
            .unwrap();
        let answer = sender.send_request(request).await.unwrap();
        answer.into_parts().0.headers
    })
}

#[test]
fn g_22_a_call_ends_with_the_time_that_its_client_gave_it() {
    let redis = Redis::start();
    let url = redis.url();
    let door = Door::open(&format!(
        "queue:\n  kind: redis\n  redis:\n    url: {url}\n"
    ));
    let accepted = || door.status()["pipeline"]["accepted"]["otlp_grpc"].clone();
    // No time at all: nothing is stored, since the client will send it again.
    for nothing in ["0S", "1n"] {
        let called = call(
            door.grpc,
            EXPORT,
            &[("grpc-timeout", nothing)],
            framed(0, &one_record()),
        );
        assert_eq!(called.status().code() as i32, 4, "{called:?}");
    }
    assert_eq!(accepted(), 0);
    let start = Instant::now();
    let headers = half_sent(door.grpc, "300m");
    assert_eq!(headers["grpc-status"], "4");
    assert!(start.elapsed() < Duration::from_secs(10));
    // The queue does not answer.
    redis.freeze(true);
    let start = Instant::now();
    let called = call(
        door.grpc,
        EXPORT,
        &[("grpc-timeout", "300m")],
        framed(0, &one_record()),
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    redis.freeze(false);
    assert_eq!(called.code(), 4, "{called:?}");
    let called = call(
        door.grpc,
        EXPORT,
        &[("grpc-timeout", "20S")],
        framed(0, &one_record()),
    );
    assert_eq!(called.code(), 0);
}

/// Case: 8,192 records of a process whose command line of 16.5 kB is in their resource: 135 MB if each record
/// repeated it, more than requests under way may hold.
/// Holds: all of them are taken, over every way in.
#[test]
fn h_19_g_07_b_09_a_long_resource_shared_by_many_records_is_taken() {
    use prost::Message as _;
    let door = Door::open("");
    let mut request = records(8192, 1);
    let line = opentelemetry_proto::tonic::common::v1::AnyValue {
        value: Some(
            opentelemetry_proto::tonic::common::v1::any_value::Value::StringValue(
                "c".repeat(16_500),
            ),
        ),
    };
    request.resource_logs[0].resource = Some(opentelemetry_proto::tonic::resource::v1::Resource {
        attributes: vec![opentelemetry_proto::tonic::common::v1::KeyValue {
            key: "process.command_line".to_owned(),
            value: Some(line),
            ..Default::default()
        }],
        ..Default::default()
    });
    let bytes = request.encode_to_vec();
    let called = call(door.grpc, EXPORT, &[], framed(0, &bytes));
    assert_eq!(called.code(), 0, "{called:?}");
    let headers = [("content-type", "application/x-protobuf")];
    let answer = plain::request(door.http, "POST", "/v1/logs", &headers, &bytes).unwrap();
    assert_eq!((answer.status, answer.body.len()), (200, 0));
    let accepted = &door.status()["pipeline"]["accepted"];
    let accepted = [&accepted["otlp_grpc"], &accepted["otlp_http"]];
    assert_eq!(accepted, [8192, 8192]);
    let queued = door.status()["pipeline"]["queue_bytes"].as_u64().unwrap();
    assert!(queued < 10_000_000, "{queued}");
}

#[test]
fn g_21_h_26_a_token_that_may_only_read_is_known_and_refused() {
    let door =
        Door::open("auth:\n  ingest_tokens: [s3nder-token]\n  read_tokens: [r3ader-token]\n");
    for (token, code, status) in [
        ("Bearer r3ader-token", 7, 403),
        ("Bearer nobody-token", 16, 401),
        ("Bearer s3nder-token", 0, 200),
    ] {
        let header = ("authorization", token);
        let called = call(door.grpc, EXPORT, &[header], framed(0, &one_record()));
        assert_eq!(called.code(), code, "{token}");
        let headers = [("content-type", JSON), header];
        for (address, path, body) in [
            (door.http, "/v1/logs", ONE_RECORD_JSON),
            (door.web, "/v1/logs", ONE_RECORD_JSON),
            (door.web, "/api/logs", br#"{"message":"m"}"#),
        ] {
            let answer = plain::request(address, "POST", path, &headers, body).unwrap();
            if status == 200 {
                assert!([200, 202].contains(&answer.status), "{answer:?}");
            } else {
                assert_eq!(json(&answer).0, status, "{token} at {path}");
            }
        }
    }
}

#[test]
fn h_13_an_empty_body_is_an_empty_request_however_it_is_said_to_be_packed() {
    let door = Door::shared();
    for coding in ["gzip", "zstd", "deflate", "identity"] {
        let headers = [
            ("content-type", "application/x-protobuf"),
            ("content-encoding", coding),
        ];
        let answer = plain::request(door.http, "POST", "/v1/logs", &headers, b"").unwrap();
        assert_eq!((answer.status, answer.body.len()), (200, 0), "{coding}");
    }
}

/// Case: 400 kB of a scope under 30,000 records, which each of them repeats.
/// Holds: the refusal names the setting that would help.
#[test]
fn h_19_g_07_what_records_come_to_together_is_refused_with_its_own_setting() {
    let door = Door::shared();
    let attribute = format!(
        r#"{{"key":"k","value":{{"stringValue":"{}"}}}}"#,
        "s".repeat(60_000)
    );
    let body = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"scope":{{"attributes":[{attribute}]}},"logRecords":[{}]}}]}}]}}"#,
        vec!["{}"; 30_000].join(",")
    );
    let answer = plain::request(
        door.http,
        "POST",
        "/v1/logs",
        &[("content-type", JSON)],
        body.as_bytes(),
    );
    let (status, code, text) = json(&answer.unwrap());
    assert_eq!((status, code), (413, 8));
    assert!(text.contains("raise `limits.in_flight`"), "{text}");
}

/// Case: a client sends 60 of 64 MiB, and then a little now and then, as `limits.body_timeout` allows.
/// Holds: requests of others, which come in pieces too, are taken; it is the one in the way that is told to come
/// back.
#[test]
fn g_23_h_31_a_large_body_that_stalls_is_in_nobodys_way() {
    use std::io::{BufReader, Write as _};
    let door = Door::open("");
    let mut slow = std::net::TcpStream::connect(door.http).unwrap();
    let head = "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/x-protobuf\r\ncontent-length: 67108864\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    slow.write_all(&vec![0; 60 << 20]).unwrap();
    door.wait_until("it is received as far as it comes", || {
        door.metric("watchtower_intake_in_flight_bytes") > 60 << 20
    });
    let message = "m".repeat(500_000);
    let body = format!(
        r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{{"body":{{"stringValue":"{message}"}}}}]}}]}}]}}"#
    );
    for number in 0..20 {
        slow.write_all(&[0; 5 << 10]).ok();
        let headers = [("content-type", JSON)];
        let answer = plain::request(door.http, "POST", "/v1/logs", &headers, body.as_bytes());
        let answer = answer.unwrap();
        assert_eq!(answer.status, 200, "{number}: {}", answer.text());
    }
    let told = plain::read_answer(&mut BufReader::new(slow)).unwrap();
    assert_eq!((told.status, told.header("retry-after")), (503, Some("1")));
}

#[test]
fn g_27_a_call_to_the_path_of_http_is_told_in_grpc_which_method_there_is() {
    let door = Door::shared();
    for address in [door.grpc, door.http, door.web] {
        let called = call(address, "/v1/logs", &[], framed(0, &one_record()));
        let status = called.status();
        assert_eq!((called.http, status.code() as i32), (200, 12));
        assert!(status.message().contains(EXPORT), "{status:?}");
    }
}

/// Case: curl sends 5 MB over HTTP/2 to where it is refused.
/// Holds: it sees the answer, which older ones lose where the stream ends while they send.
#[test]
fn h_11_h_21_curl_over_http2_sees_why_a_large_body_is_refused() {
    let door = Door::open("auth:\n  ingest_tokens: [s3nder-token]\n");
    let dir = tempfile::tempdir().unwrap();
    let body = dir.path().join("body");
    std::fs::write(&body, vec![b' '; 5_000_000]).unwrap();
    for (path, status) in [("/v1/logs", "401"), ("/nowhere", "404")] {
        let asked = std::process::Command::new("curl")
            .args(["-sS", "--http2-prior-knowledge", "-o", "/dev/null"])
            .args(["-w", "%{http_code}", "-H", "content-type: application/json"])
            .arg("--data-binary")
            .arg(format!("@{}", body.display()))
            .arg(format!("http://{}{path}", door.http))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&asked.stdout), status, "{asked:?}");
    }
}
