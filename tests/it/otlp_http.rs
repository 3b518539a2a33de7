//! OTLP over HTTP on the real daemon: section H of docs/conformance.md. Names carry the ids.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use prost::Message;

use crate::support::grpc::{Connection, block_on};
use crate::support::http::{self, Answer};
use crate::support::otlp::{
    Door, JSON, ONE_RECORD_JSON, PROTOBUF, gzip, one_record, records, zlib,
};

/// `google.rpc.Status`, as far as every answer has it.
#[derive(Clone, PartialEq, Message)]
struct Status {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
}

/// Code and message of an error, read in the encoding that the answer says it has.
fn error(answer: &Answer) -> (i64, String) {
    match answer.header("content-type") {
        Some(PROTOBUF) => {
            let status = Status::decode(&answer.body[..]).unwrap();
            (status.code.into(), status.message)
        }
        Some(JSON) => {
            let status = answer.json();
            let message = status["message"].as_str().unwrap().to_owned();
            (status["code"].as_i64().unwrap(), message)
        }
        other => panic!("{other:?}: {answer:?}"),
    }
}

fn post(door: &Door, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    http::request(door.http, "POST", "/v1/logs", headers, body).unwrap()
}

fn posted(door: &Door, path: &str, body: &[u8]) -> Answer {
    http::post(door.http, path, PROTOBUF, body).unwrap()
}

#[test]
fn h_01_both_encodings_over_http1_and_http2_on_every_port() {
    let door = Door::shared();
    for address in [door.http, door.grpc, door.web] {
        for (content_type, body) in [(PROTOBUF, one_record()), (JSON, ONE_RECORD_JSON.to_vec())] {
            let answer = http::post(address, "/v1/logs", content_type, &body).unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            let headers = [("content-type", content_type)];
            let called = block_on(async {
                let mut connection = Connection::open(address).await;
                connection.call("/v1/logs", &headers, body).await
            });
            assert_eq!(
                (called.http, &called.headers["content-type"]),
                (200, &content_type.parse().unwrap())
            );
        }
    }
}

#[test]
fn h_01_the_path_is_configurable() {
    let door = Door::open("otlp:\n  path: /in/otlp\n");
    assert_eq!(posted(&door, "/in/otlp", &one_record()).status, 200);
    assert_eq!(posted(&door, "/in/otlp/", &one_record()).status, 200);
    assert_eq!(posted(&door, "/v1/logs", &one_record()).status, 404);
}

#[test]
fn h_02_b_07_paths_a_little_wrong_are_served_or_explained_and_never_redirected() {
    let door = Door::shared();
    assert_eq!(posted(&door, "/v1/logs/", &one_record()).status, 200);
    for (path, part) in [
        ("/v1/logs/v1/logs", "twice"),
        ("/v1/v1/logs", "twice"),
        ("/v1/traces/v1/logs", "twice"),
        ("/v1/logs//", "a slash too many"),
        ("/v1/log", "POST /v1/logs"),
    ] {
        let answer = posted(&door, path, &one_record());
        assert_eq!(answer.status, 404, "{path}");
        let (code, message) = error(&answer);
        assert!(code == 12 && message.contains(part), "{path}: {message}");
    }
}

#[test]
fn h_03_the_root_takes_nothing_and_says_what_to_add() {
    let door = Door::shared();
    let answer = posted(&door, "/", &one_record());
    let (_, message) = error(&answer);
    assert!(
        answer.status == 404 && message.contains("write /v1/logs at its end"),
        "{message}"
    );
}

#[test]
fn h_04_h_29_other_methods_are_405_with_those_there_are() {
    let door = Door::shared();
    for address in [door.http, door.web] {
        for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "GET"] {
            let answer = http::request(address, method, "/v1/logs", &[], b"").unwrap();
            assert_eq!(
                (answer.status, answer.header("allow")),
                (405, Some("POST")),
                "{method}"
            );
        }
    }
    let head = b"HEAD /v1/logs HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut stream = TcpStream::connect(door.http).unwrap();
    stream.write_all(head).unwrap();
    assert_eq!(http::read_head(&mut BufReader::new(stream)).unwrap().0, 405);
}

#[test]
fn h_05_h_06_h_07_r_024_content_types() {
    let door = Door::shared();
    let protobuf = one_record();
    for (content_type, body, status, answered) in [
        ("application/json", ONE_RECORD_JSON, 200, JSON),
        (
            "application/json; charset=utf-8",
            ONE_RECORD_JSON,
            200,
            JSON,
        ),
        ("Application/JSON", ONE_RECORD_JSON, 200, JSON),
        ("text/plain", ONE_RECORD_JSON, 415, JSON),
        (
            "application/json; charset=iso-8859-1",
            ONE_RECORD_JSON,
            415,
            JSON,
        ),
        ("application/x-protobuf", &protobuf, 200, PROTOBUF),
        ("application/protobuf", &protobuf, 200, PROTOBUF),
        ("application/vnd.google.protobuf", &protobuf, 200, PROTOBUF),
        ("application/grpc", &protobuf, 415, JSON),
        ("application/json", &protobuf, 400, JSON),
        ("application/x-protobuf", ONE_RECORD_JSON, 400, PROTOBUF),
    ] {
        let answer = post(&door, &[("content-type", content_type)], body);
        assert_eq!(
            (answer.status, answer.header("content-type")),
            (status, Some(answered)),
            "{content_type}: {answer:?}"
        );
    }
    let answer = post(&door, &[], ONE_RECORD_JSON);
    let (code, message) = error(&answer);
    assert_eq!((answer.status, code), (415, 12));
    assert!(message.contains("without content type"), "{message}");
}

#[test]
fn h_08_h_09_h_13_h_30_h_32_success_is_200_with_an_empty_message() {
    let door = Door::shared();
    for (content_type, body, text) in [
        (PROTOBUF, &one_record()[..], ""),
        (PROTOBUF, b"", ""),
        (PROTOBUF, &[0x0a, 0], ""),
        (JSON, ONE_RECORD_JSON, "{}"),
    ] {
        let headers = [
            ("content-type", content_type),
            ("accept-encoding", "gzip, identity"),
        ];
        let answer = post(&door, &headers, body);
        assert_eq!((answer.status, answer.text().as_str()), (200, text));
        assert_eq!(
            answer.header("content-length"),
            Some(text.len().to_string().as_str())
        );
        assert_eq!(answer.header("content-type"), Some(content_type));
        assert_eq!(answer.header("content-encoding"), None);
    }
    let answer = post(&door, &[("content-type", JSON)], b"");
    assert_eq!((answer.status, error(&answer).0), (400, 3));
    assert_eq!(post(&door, &[("content-type", JSON)], b"{}").status, 200);
}

#[test]
fn h_10_partial_success_is_200_with_a_count_and_a_reason() {
    let door = Door::shared();
    let body = br#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{"body":{"stringValue":"a"}},7,"x"]}]}]}"#;
    let answer = post(&door, &[("content-type", JSON)], body);
    assert_eq!(answer.status, 200);
    let partial = &answer.json()["partialSuccess"];
    assert_eq!(partial["rejectedLogRecords"], "2", "{answer:?}");
    assert!(!partial["errorMessage"].as_str().unwrap().is_empty());
    // A warning, in the other encoding.
    let answer = post(
        &door,
        &[("content-type", PROTOBUF)],
        &[0x0a, 3, 0xc2, 0x3e, 0],
    );
    let answer = ExportLogsServiceResponse::decode(&answer.body[..]).unwrap();
    assert_eq!(answer.partial_success.unwrap().rejected_log_records, 0);
}

#[test]
fn h_11_h_12_errors_are_a_status_in_the_encoding_of_the_request() {
    let door = Door::shared();
    for (content_type, bad) in [
        (PROTOBUF, &b"\xff\xff"[..]),
        (JSON, b"{\"resourceLogs\": ["),
    ] {
        for (headers, status, code) in [
            (&[("content-type", content_type)][..], 400, 3),
            (
                &[("content-type", content_type), ("content-encoding", "gzip")],
                400,
                3,
            ),
            (
                &[("content-type", content_type), ("content-encoding", "br")],
                415,
                12,
            ),
        ] {
            let answer = post(&door, headers, bad);
            assert_eq!(answer.header("content-type"), Some(content_type));
            let (found, message) = error(&answer);
            assert_eq!((answer.status, found), (status, code), "{message}");
            assert!(!message.is_empty());
            let detail = answer.text().contains("google.rpc.BadRequest");
            assert_eq!(detail, status == 400, "{answer:?}");
        }
    }
}

#[test]
fn h_14_h_15_codings() {
    let door = Door::shared();
    let plain = one_record();
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    for (coding, body) in [
        ("gzip", gzip(&plain)),
        ("GZIP", gzip(&plain)),
        ("identity", plain.clone()),
        ("", plain.clone()),
        ("zstd", zstd),
        ("deflate", zlib(&plain)),
        ("zlib", zlib(&plain)),
    ] {
        let headers = [("content-type", PROTOBUF), ("content-encoding", coding)];
        assert_eq!(post(&door, &headers, &body).status, 200, "{coding}");
    }
}

#[test]
fn h_17_r_023_other_and_stacked_codings_are_told_what_works() {
    let door = Door::shared();
    let twice = gzip(&gzip(&one_record()));
    for coding in ["br", "gzip, gzip", "snappy"] {
        let headers = [("content-type", PROTOBUF), ("content-encoding", coding)];
        let answer = post(&door, &headers, &twice);
        assert_eq!(answer.status, 415, "{coding}");
        assert_eq!(
            answer.header("accept-encoding"),
            Some("gzip, zstd, deflate")
        );
    }
}

#[test]
fn h_18_what_is_no_gzip_is_400_and_members_are_read_to_the_last() {
    let door = Door::open("");
    let (one, two) = (one_record(), records(2, 3).encode_to_vec());
    let headers = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    let members = [gzip(&one), gzip(&two)].concat();
    assert_eq!(post(&door, &headers, &members).status, 200);
    let mut cut = gzip(&two);
    cut.truncate(cut.len() - 1);
    for damaged in [&cut[..], &one, &[members, b"rest".to_vec()].concat()] {
        assert_eq!(post(&door, &headers, damaged).status, 400);
    }
    assert_eq!(
        door.status()["pipeline"]["queued"],
        3,
        "nothing of the damaged ones"
    );
}

#[test]
fn h_19_h_21_one_limit_and_the_answer_is_read_whoever_still_sends() {
    let door = Door::open("limits:\n  body: 4MiB\n");
    let zeros = vec![0; 5 << 20];
    let plain = [("content-type", PROTOBUF)];
    let packed = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    for (headers, body) in [(&plain[..], zeros.clone()), (&packed[..], gzip(&zeros))] {
        let answer = post(&door, headers, &body);
        let (code, message) = error(&answer);
        assert_eq!((answer.status, code), (413, 8));
        assert!(
            message.contains("4194304") && message.contains("limits.body"),
            "{message}"
        );
        assert_eq!(answer.header("connection"), Some("close"));
    }
    // Without a length it is found while it is read; `Expect` hears it before it sends.
    let head = format!("POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: {PROTOBUF}\r\n");
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n500000\r\n");
    let body = [chunked.as_bytes(), &zeros, b"\r\n0\r\n\r\n"].concat();
    assert_eq!(http::exchange(door.http, &body).unwrap().status, 413);
    let expect = format!("{head}expect: 100-continue\r\ncontent-length: 5000000\r\n\r\n");
    let answer = http::exchange(door.http, expect.as_bytes()).unwrap();
    assert_eq!(answer.status, 413);
    let name =
        "watchtower_receiver_refused_requests_total{receiver=\"otlp_http\",reason=\"too_large\"}";
    assert_eq!(door.metric(name), 4);
}

#[test]
fn h_22_chunked_bodies_and_expect_work() {
    let door = Door::shared();
    let head = format!("POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: {JSON}\r\n");
    let mut chunked = format!("{head}transfer-encoding: chunked\r\n\r\n").into_bytes();
    for part in ONE_RECORD_JSON.chunks(7) {
        chunked.extend(format!("{:x}\r\n", part.len()).into_bytes());
        chunked.extend(part);
        chunked.extend(b"\r\n");
    }
    chunked.extend(b"0\r\n\r\n");
    assert_eq!(http::exchange(door.http, &chunked).unwrap().status, 200);

    let stream = TcpStream::connect(door.http).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let length = ONE_RECORD_JSON.len();
    let head = format!("{head}expect: 100-continue\r\ncontent-length: {length}\r\n\r\n");
    (&stream).write_all(head.as_bytes()).unwrap();
    let mut reader = BufReader::new(&stream);
    assert_eq!(http::read_answer(&mut reader).unwrap().status, 100);
    (&stream).write_all(ONE_RECORD_JSON).unwrap();
    assert_eq!(http::read_answer(&mut reader).unwrap().status, 200);
}

#[test]
fn h_23_no_room_is_503_with_whole_seconds_on_every_door() {
    let (door, _waits, _redis) = Door::open_and_fill();
    let body = records(1, 300_000).encode_to_vec();
    let text = format!("{{\"message\":\"{}\"}}", "a".repeat(300_000));
    let answers = [
        http::post(door.http, "/v1/logs", PROTOBUF, &body).unwrap(),
        http::post(door.web, "/api/logs", JSON, text.as_bytes()).unwrap(),
    ];
    for answer in answers {
        assert_eq!((answer.status, error(&answer).0), (503, 14));
        assert_eq!(answer.header("retry-after"), Some("1"));
    }
}

#[test]
fn h_26_r_074_tokens_are_asked_for_before_the_body() {
    let door = Door::open("auth:\n  ingest_tokens: [s3cret]\n");
    for (name, value, status) in [
        ("Authorization", "Bearer s3cret", 200),
        ("authorization", "bearer s3cret", 200),
        ("AUTHORIZATION", "BEARER s3cret", 200),
        ("Authorization", "Bearer  s3cret", 200),
        ("Authorization", "Bearer wrong", 401),
        ("Authorization", "Bearer ", 401),
        ("X-Other", "Bearer s3cret", 401),
    ] {
        let headers = [("content-type", PROTOBUF), (name, value)];
        for (address, path) in [(door.http, "/v1/logs"), (door.web, "/v1/logs")] {
            let answer = http::request(address, "POST", path, &headers, &one_record()).unwrap();
            assert_eq!(answer.status, status, "{name}: {value}");
            if status == 401 {
                assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
                assert_eq!(error(&answer).0, 16);
            }
        }
    }
    // Not even the content type is looked at, nor is a body waited for that is never sent.
    let head =
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\ncontent-length: 9000\r\n\r\n";
    let answer = http::exchange(door.http, head.as_bytes()).unwrap();
    assert_eq!(answer.status, 401);
    let answer = http::post(door.web, "/api/logs", JSON, b"{\"message\":\"x\"}").unwrap();
    assert_eq!(answer.status, 401);
    for path in ["/healthz", "/readyz"] {
        assert_eq!(http::get(door.web, path).unwrap().status, 200, "{path}");
    }
    assert!(!door.log_text().contains("s3cret"));
}
