//! What clients do beside sending logs: sections B and the browser's part of H of
//! docs/conformance.md, and the reports on transport. Names carry the ids.

use std::io::Write;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use prost::Message;

use crate::support::grpc::{Connection, EXPORT, block_on, call, framed};
use crate::support::http::{self, Answer};
use crate::support::otlp::{
    Door, JSON, ONE_RECORD_JSON, PROTOBUF, gzip, one_record, records, zlib,
};

const APP: &str = "http://app.lan";
const OTHER_METHODS: [&str; 3] = [
    "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
    "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export",
];
const OTHER_PATHS: [&str; 3] = ["/v1/traces", "/v1/metrics", "/v1development/profiles"];

fn cors_headers(answer: &Answer) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    names
        .filter(|name| name.starts_with("access-control") || *name == "vary")
        .collect()
}

fn preflight(address: std::net::SocketAddr, path: &str, origin: &str) -> Answer {
    let headers = [
        ("origin", origin),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "content-type,x-tenant"),
    ];
    http::request(address, "OPTIONS", path, &headers, b"").unwrap()
}

#[test]
fn h_27_h_28_h_29_r_028_pages_that_may_send_read_every_answer() {
    let door = Door::open(
        "cors:\n  origins: [http://app.lan]\n  headers: [x-tenant]\nauth:\n  ingest_tokens: [s3cret]\n",
    );
    for (address, path) in [
        (door.http, "/v1/logs"),
        (door.web, "/v1/logs"),
        (door.web, "/api/logs"),
    ] {
        let answer = preflight(address, path, APP);
        assert_eq!(answer.status, 204);
        for (name, value) in [
            ("access-control-allow-origin", APP),
            ("access-control-allow-methods", "POST"),
            ("access-control-allow-credentials", "true"),
            ("access-control-max-age", "7200"),
            ("vary", "Origin"),
        ] {
            assert_eq!(answer.header(name), Some(value), "{name} of {path}");
        }
        let allowed = answer.header("access-control-allow-headers").unwrap();
        assert!(
            allowed.contains("content-type") && allowed.contains("x-tenant"),
            "{allowed}"
        );
        let good = match path {
            "/api/logs" => br#"{"message":"m"}"#,
            _ => ONE_RECORD_JSON,
        };
        for (body, token, status) in [
            (good, "Bearer s3cret", 2),
            (b"{\"", "Bearer s3cret", 4),
            (good, "Bearer wrong", 4),
        ] {
            let headers = [
                ("content-type", JSON),
                ("origin", APP),
                ("authorization", token),
            ];
            let answer = http::request(address, "POST", path, &headers, body).unwrap();
            assert_eq!(answer.status / 100, status, "{answer:?}");
            assert_eq!(answer.header("access-control-allow-origin"), Some(APP));
            assert_eq!(
                answer.header("access-control-expose-headers"),
                Some("Retry-After")
            );
            assert_eq!(answer.header("vary"), Some("Origin"));
        }
        let answer = preflight(address, path, "http://evil.example");
        assert_eq!((answer.status, cors_headers(&answer)), (405, vec![]));
    }
    let answer = http::request(door.http, "PUT", "/v1/logs", &[], b"").unwrap();
    assert_eq!(answer.header("allow"), Some("POST, OPTIONS"));
    // Sending is all they may.
    let answer = http::request(door.web, "GET", "/api/logs", &[("origin", APP)], b"").unwrap();
    assert_eq!(answer.header("access-control-allow-origin"), None);
}

#[test]
fn h_27_h_29_without_cors_no_page_is_told_anything() {
    let door = Door::shared();
    for (address, path) in [
        (door.http, "/v1/logs"),
        (door.web, "/v1/logs"),
        (door.web, "/api/logs"),
    ] {
        let answer = preflight(address, path, APP);
        assert_eq!(
            (answer.status, cors_headers(&answer)),
            (405, vec![]),
            "{path}"
        );
        let headers = [("content-type", JSON), ("origin", APP)];
        let answer = http::request(address, "POST", path, &headers, ONE_RECORD_JSON).unwrap();
        assert_eq!(cors_headers(&answer), Vec::<&str>::new());
    }
}

/// Plain JSON needs no preflight, so that any page could write into the logs of a visitor's machine.
#[test]
fn pages_of_other_origins_cannot_post_plain_json() {
    let door = Door::shared();
    let send = |origin: &str| {
        let headers = [("content-type", "text/plain"), ("origin", origin)];
        http::request(
            door.web,
            "POST",
            "/api/logs",
            &headers,
            b"{\"message\":\"x\"}",
        )
        .unwrap()
    };
    assert_eq!(send(&format!("http://{}", door.web)).status, 202);
    for origin in ["http://evil.example", "null", "http://127.0.0.1:1"] {
        let answer = send(origin);
        assert_eq!(
            (answer.status, answer.json()["code"].as_i64()),
            (403, Some(7)),
            "{origin}"
        );
    }
}

#[test]
fn b_04_other_signals_are_refused_for_good_with_what_to_set() {
    let door = Door::shared();
    for address in [door.http, door.grpc, door.web] {
        for (path, variable) in OTHER_PATHS.iter().zip(["TRACES", "METRICS", "PROFILES"]) {
            for content_type in [PROTOBUF, JSON] {
                let answer = http::post(address, path, content_type, b"any bytes").unwrap();
                assert_eq!(
                    (answer.status, answer.header("content-type")),
                    (404, Some(content_type))
                );
                let text = answer.text();
                assert!(
                    text.contains(&format!("OTEL_{variable}_EXPORTER=none")),
                    "{text}"
                );
                assert!(text.contains("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"), "{text}");
            }
        }
    }
    block_on(async {
        let mut connection = Connection::open(door.grpc).await;
        let headers = [("content-type", "application/grpc")];
        for method in OTHER_METHODS {
            let called = connection
                .call(method, &headers, framed(0, b"any bytes"))
                .await;
            assert_eq!(called.code(), 12);
            assert!(called.status().message().contains("_EXPORTER=none"));
        }
        // Logs share the connection.
        let called = connection
            .call(EXPORT, &headers, framed(0, &one_record()))
            .await;
        assert_eq!(called.code(), 0);
    });
}

#[test]
fn b_05_other_signals_can_be_swallowed_and_are_counted() {
    let door = Door::open("otlp:\n  other_signals: discard\nauth:\n  ingest_tokens: [s3cret]\n");
    let token = ("authorization", "Bearer s3cret");
    for (content_type, text) in [(PROTOBUF, ""), (JSON, "{}")] {
        for path in OTHER_PATHS {
            let headers = [("content-type", content_type), token];
            let answer = http::request(door.http, "POST", path, &headers, b"any bytes").unwrap();
            assert_eq!((answer.status, answer.text().as_str()), (200, text));
            assert_eq!(answer.header("content-type"), Some(content_type));
            let answer = http::post(door.http, path, content_type, b"any bytes").unwrap();
            assert_eq!(answer.status, 401);
        }
    }
    for method in OTHER_METHODS {
        let called = call(door.grpc, method, &[token], framed(0, b"any bytes"));
        assert_eq!((called.code(), &called.body[..]), (0, &[0; 5][..]));
        assert_eq!(call(door.grpc, method, &[], framed(0, b"")).code(), 16);
    }
    for signal in ["traces", "metrics", "profiles"] {
        let name = format!(
            "watchtower_receiver_other_signal_requests_total{{signal=\"{signal}\",outcome=\"discarded\"}}"
        );
        assert_eq!(door.metric(&name), 3);
    }
}

#[test]
fn b_06_r_009_what_holds_no_logs_is_told_so_and_counted() {
    let door = Door::open("");
    let send = |body: &str| http::post(door.http, "/v1/logs", JSON, body.as_bytes()).unwrap();
    for bad in ["[]", "hello", ""] {
        assert_eq!(send(bad).status, 400, "{bad}");
    }
    for (empty, warned) in [
        ("{}", false),
        (r#"{"logs":[{"msg":"hi"}]}"#, true),
        (r#"{"resourceSpans":[{}]}"#, true),
        (
            r#"{"resourceLogs":[{"instrumentationLibraryLogs":[{"logRecords":[{"body":{"stringValue":"old name"}}]}]}]}"#,
            true,
        ),
    ] {
        let answer = send(empty);
        assert_eq!(answer.status, 200);
        let message = &answer.json()["partialSuccess"]["errorMessage"];
        assert_eq!(message.is_string(), warned, "{empty}: {}", answer.text());
    }
    // A span's fields are of other wire types than a log record's.
    let span = [&[0x0a, 12, 0x12, 10, 0x12, 8, 0x0a][..], &[6], b"abcdef"].concat();
    let answer = http::post(door.http, "/v1/logs", PROTOBUF, &span).unwrap();
    assert_eq!(answer.status, 400, "{answer:?}");
    let receiver = "receiver=\"otlp_http\"";
    for (name, count) in [
        (
            format!("refused_requests_total{{{receiver},reason=\"bad_data\"}}"),
            4,
        ),
        (format!("empty_requests_total{{{receiver}}}"), 4),
        (
            format!("repaired_values_total{{{receiver},kind=\"legacy_logs\"}}"),
            1,
        ),
    ] {
        assert_eq!(
            door.metric(&format!("watchtower_receiver_{name}")),
            count,
            "{name}"
        );
    }
}

#[test]
fn b_03_a_store_that_is_away_costs_a_sender_nothing() {
    let door = Door::open("");
    for _ in 0..20 {
        let answer = http::post(door.http, "/v1/logs", PROTOBUF, &one_record()).unwrap();
        assert_eq!(answer.status, 200);
    }
    assert_eq!(door.status()["pipeline"]["queued"], 20);
}

#[test]
fn b_08_any_other_header_is_tolerated() {
    let door = Door::shared();
    let headers = [
        ("CONTENT-TYPE", PROTOBUF),
        ("x-api-key", "a%20b"),
        (
            "user-agent",
            "OTel Go OTLP over HTTP/protobuf logs exporter/0.1",
        ),
        ("x-odd", "caf\u{e9}"),
        ("baggage", "a=b;c,d"),
    ];
    let answer = http::request(door.http, "POST", "/v1/logs", &headers, &one_record()).unwrap();
    assert_eq!(answer.status, 200);
}

/// The requests of the SDKs that the examples do not run, as those send them.
#[test]
fn b_01_requests_as_java_go_and_dotnet_send_them() {
    let door = Door::open("");
    // Java: gzip in chunks, and an answer that may be packed.
    let packed = gzip(&one_record());
    let head = format!(
        "POST /v1/logs HTTP/1.1\r\nuser-agent: OTel-OTLP-Exporter-Java/1.53.0\r\ncontent-encoding: gzip\r\n\
         content-type: {PROTOBUF}\r\ntransfer-encoding: chunked\r\nhost: x\r\nconnection: Keep-Alive\r\n\
         accept-encoding: gzip, identity\r\n\r\n{:x}\r\n",
        packed.len()
    );
    let java = [head.as_bytes(), &packed, b"\r\n0\r\n\r\n"].concat();
    let answer = http::exchange(door.http, &java).unwrap();
    assert_eq!(
        (answer.status, answer.header("content-encoding")),
        (200, None)
    );
    // Go compares the content type as a whole, and reads the body as protobuf.
    let headers = [
        ("content-type", PROTOBUF),
        (
            "user-agent",
            "OTel Go OTLP over HTTP/protobuf logs exporter/0.14.0",
        ),
        ("accept-encoding", "gzip"),
    ];
    let answer = http::request(door.http, "POST", "/v1/logs", &headers, &one_record()).unwrap();
    assert_eq!(
        (answer.status, answer.header("content-type")),
        (200, Some(PROTOBUF))
    );
    // .NET: every length in four bytes, padded, over gRPC.
    let padded = |tag: u8, content: &[u8]| {
        let length = u8::try_from(content.len()).unwrap();
        [&[tag, length | 0x80, 0x80, 0x80, 0][..], content].concat()
    };
    let body = padded(0x2a, &padded(0x0a, b"from .NET"));
    let request = padded(0x0a, &padded(0x12, &padded(0x12, &body)));
    let headers = [
        ("user-agent", "OTel-OTLP-Exporter-Dotnet/1.12.0"),
        ("grpc-accept-encoding", "identity,gzip,deflate"),
    ];
    let called = call(door.grpc, EXPORT, &headers, framed(0, &request));
    assert_eq!((called.code(), &called.body[..]), (0, &[0; 5][..]));
    assert_eq!(door.status()["pipeline"]["queued"], 3);
}

#[test]
fn b_11_refusals_are_counted_and_a_few_are_logged_with_who_sent_them() {
    let door = Door::open("");
    for _ in 0..30 {
        let headers = [
            ("content-type", PROTOBUF),
            ("user-agent", "odd-client/1.0 \u{e9}"),
        ];
        http::request(door.http, "POST", "/v1/logs", &headers, b"\xff").unwrap();
    }
    http::post(door.http, "/v1/logs", PROTOBUF, &one_record()).unwrap();
    for (labels, count) in [
        (
            "answers_total{receiver=\"otlp_http\",encoding=\"protobuf\",status=\"400\"}",
            30,
        ),
        (
            "answers_total{receiver=\"otlp_http\",encoding=\"protobuf\",status=\"200\"}",
            1,
        ),
        (
            "refused_requests_total{receiver=\"otlp_http\",reason=\"bad_data\"}",
            30,
        ),
        ("accepted_records_total{receiver=\"otlp_http\"}", 1),
    ] {
        assert_eq!(
            door.metric(&format!("watchtower_receiver_{labels}")),
            count,
            "{labels}"
        );
    }
    assert!(door.metric("watchtower_receiver_received_bytes_total{receiver=\"otlp_http\"}") > 30);
    let log = door.log_text();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("refused a request"))
        .collect();
    assert!((1..=3).contains(&lines.len()), "{log}");
    assert!(
        lines[0].contains("odd-client/1.0") && lines[0].contains("127.0.0.1"),
        "{log}"
    );
}

#[test]
fn b_12_r_080_the_daemon_sends_itself_nothing() {
    let door = Door::open("log:\n  level: debug\n");
    http::post(door.http, "/v1/logs", PROTOBUF, b"\xff").unwrap();
    let answer = http::get(door.web, "/api/status").unwrap().json();
    for receiver in ["otlp_grpc", "otlp_http", "json"] {
        assert_eq!(answer["pipeline"]["accepted"][receiver], 0, "{answer}");
    }
}

#[test]
fn unknown_paths_and_methods_of_the_web_port_are_explained_in_json() {
    let door = Door::shared();
    for path in ["/nothing", "/api/nothing", "/a/b/c"] {
        for method in ["GET", "POST", "DELETE"] {
            let answer = http::request(door.web, method, path, &[], b"").unwrap();
            let error = answer.json();
            assert_eq!(
                (answer.status, error["code"].as_str()),
                (404, Some("not_found")),
                "{method} {path}"
            );
            assert!(error["hint"].as_str().unwrap().contains("POST /api/logs"));
        }
    }
    for (method, path, allow) in [
        ("PUT", "/api/logs", "GET,HEAD"),
        ("POST", "/", "GET,HEAD"),
        ("OPTIONS", "/api/status", "GET,HEAD"),
    ] {
        let answer = http::request(door.web, method, path, &[], b"").unwrap();
        assert_eq!(
            (answer.status, answer.json()["code"].as_str()),
            (405, Some("method_not_allowed")),
            "{method} {path}"
        );
        assert!(
            answer.header("allow").unwrap().contains(allow),
            "{answer:?}"
        );
    }
    let answer = http::post(door.web, "/api/logs", PROTOBUF, &one_record()).unwrap();
    assert_eq!(
        (answer.status, answer.json()["code"].as_i64()),
        (415, Some(12))
    );
    let answer = http::request(door.web, "HEAD", "/api/status", &[], b"");
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 200));
}

/// Ten bombs at once, each three times the limit, through every coding and door; meanwhile others are served.
#[test]
fn r_023_h_20_g_09_bombs_cost_little_and_others_are_served() {
    let door = Door::open("");
    let pack = |mut encoder: flate2::write::GzEncoder<Vec<u8>>| {
        let zeros = vec![b'0'; 1 << 20];
        (0..192).for_each(|_| encoder.write_all(&zeros).unwrap());
        encoder.finish().unwrap()
    };
    let fast = flate2::Compression::fast();
    let gzip_bomb = pack(flate2::write::GzEncoder::new(Vec::new(), fast));
    let zeros = vec![b'0'; 192 << 20];
    let zlib_bomb = zlib(&zeros);
    let zstd_bomb = zstd::encode_all(&zeros[..], 1).unwrap();
    drop(zeros);
    let before = door.memory_kib("VmRSS");
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            let mut slowest = Duration::ZERO;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                let start = Instant::now();
                let answer = http::post(door.http, "/v1/logs", PROTOBUF, &one_record()).unwrap();
                assert_eq!(answer.status, 200, "{answer:?}");
                slowest = slowest.max(start.elapsed());
                crate::support::pause(Duration::from_millis(20));
            }
            slowest
        });
        let bombs: Vec<_> = (0..10)
            .map(|index| {
                let (coding, bomb) = match index % 3 {
                    0 => ("gzip", &gzip_bomb),
                    1 => ("deflate", &zlib_bomb),
                    _ => ("zstd", &zstd_bomb),
                };
                let content_type = if index % 2 == 0 { PROTOBUF } else { JSON };
                let door = &door;
                scope.spawn(move || {
                    let headers = [("content-type", content_type), ("content-encoding", coding)];
                    http::request(door.http, "POST", "/v1/logs", &headers, bomb).unwrap()
                })
            })
            .collect();
        let statuses: Vec<u16> = bombs
            .into_iter()
            .map(|bomb| bomb.join().unwrap().status)
            .collect();
        let called = call(
            door.grpc,
            EXPORT,
            &[("grpc-encoding", "gzip")],
            framed(1, &gzip_bomb),
        );
        // Before anything is asserted, or a failure would leave the other sender running.
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        let slowest = others.join().unwrap();
        // One that finds the memory taken by others is told to come back.
        assert!(
            statuses.iter().all(|status| matches!(status, 413 | 503)),
            "{statuses:?}"
        );
        assert!(statuses.contains(&413), "{statuses:?}");
        assert_eq!(called.code(), 8);
        assert!(slowest < Duration::from_secs(5), "{slowest:?}");
    });
    for (coding, bomb) in [
        ("gzip", &gzip_bomb),
        ("deflate", &zlib_bomb),
        ("zstd", &zstd_bomb),
    ] {
        let headers = [("content-type", PROTOBUF), ("content-encoding", coding)];
        let answer = http::request(door.http, "POST", "/v1/logs", &headers, bomb).unwrap();
        assert_eq!(answer.status, 413, "{coding}");
    }
    let peak = door.memory_kib("VmHWM");
    assert!(
        peak < before + (300 << 10),
        "{peak} KiB at most, {before} KiB before"
    );
}

/// 6 MB, which other receivers refuse over gRPC, and 60 MB, just under the limit.
#[test]
fn r_027_g_07_h_19_batches_up_to_64_mib_are_taken_on_both_transports() {
    let door = Door::open("limits:\n  commit_timeout: 9s\n");
    for (count, length) in [(6_000, 1_000), (6_000, 10_000)] {
        let request = records(count, length);
        let body = request.encode_to_vec();
        for (headers, body) in [
            (&[("content-type", PROTOBUF)][..], body.clone()),
            (
                &[("content-type", PROTOBUF), ("content-encoding", "gzip")][..],
                gzip(&body),
            ),
        ] {
            let answer = http::request(door.http, "POST", "/v1/logs", headers, &body).unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
        }
        block_on(async {
            let client = LogsServiceClient::connect(format!("http://{}", door.grpc)).await;
            let mut client = client.unwrap();
            client.export(request.clone()).await.unwrap();
            let mut client = client.send_compressed(tonic::codec::CompressionEncoding::Gzip);
            client.export(request).await.unwrap();
        });
    }
    // Over it, the connection lives on.
    block_on(async {
        let client = LogsServiceClient::connect(format!("http://{}", door.grpc)).await;
        let mut client = client.unwrap();
        let status = client.export(records(6_900, 10_000)).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
        client.export(records(1, 5)).await.unwrap();
    });
    let body = records(6_900, 10_000).encode_to_vec();
    let answer = http::post(door.http, "/v1/logs", PROTOBUF, &body).unwrap();
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("67108864"));
}
