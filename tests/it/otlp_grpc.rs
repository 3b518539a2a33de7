//! OTLP over gRPC on the real daemon: section G of docs/conformance.md. Names carry the ids.

use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use prost::Message;
use tonic::codec::CompressionEncoding;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::grpc::{Called, Connection, EXPORT, Frames, PING, block_on, call, framed};
use crate::support::otlp::{Door, gzip, one_record, records};
use crate::support::redis::Redis;

fn export(door: &Door, headers: &[(&str, &str)], body: Vec<u8>) -> Called {
    call(door.grpc, EXPORT, headers, body)
}

#[test]
fn g_01_h_01_the_method_is_there_on_both_otlp_ports() {
    let door = Door::shared();
    for address in [door.grpc, door.http] {
        let called = call(address, EXPORT, &[], framed(0, &one_record()));
        assert_eq!((called.http, called.code()), (200, 0), "{called:?}");
    }
}

#[test]
fn g_02_other_content_types_are_415() {
    let door = Door::shared();
    for (content_type, http) in [
        ("application/grpc", 200),
        ("application/grpc+proto", 200),
        ("application/json", 415),
        ("application/grpc-web+proto", 415),
        ("application/x-protobuf", 415),
    ] {
        let headers = [("content-type", content_type)];
        let body = framed(0, &one_record());
        let called = block_on(async {
            let mut connection = Connection::open(door.grpc).await;
            connection.call(EXPORT, &headers, body).await
        });
        assert_eq!(called.http, http, "{content_type}");
    }
}

#[test]
fn g_03_g_04_plain_identity_gzip_and_zstd() {
    let door = Door::shared();
    let plain = one_record();
    let zstd = zstd::encode_all(&plain[..], 3).unwrap();
    for (encoding, flag, message) in [
        (None, 0, plain.clone()),
        (Some("identity"), 0, plain.clone()),
        (Some("gzip"), 1, gzip(&plain)),
        (Some("gzip"), 0, plain.clone()),
        (Some("zstd"), 1, zstd),
    ] {
        let headers: Vec<_> = encoding
            .map(|value| ("grpc-encoding", value))
            .into_iter()
            .collect();
        let called = export(&door, &headers, framed(flag, &message));
        assert_eq!(called.code(), 0, "{encoding:?}: {called:?}");
    }
    block_on(async {
        for compression in [CompressionEncoding::Gzip, CompressionEncoding::Zstd] {
            let client = LogsServiceClient::connect(format!("http://{}", door.grpc)).await;
            let mut client = client.unwrap().send_compressed(compression);
            client.export(records(100, 200)).await.unwrap();
        }
    });
}

#[test]
fn g_05_an_unknown_encoding_is_told_what_works() {
    let door = Door::shared();
    let called = export(&door, &[("grpc-encoding", "snappy")], framed(1, b"x"));
    assert_eq!(called.code(), 12);
    assert_eq!(
        called.headers["grpc-accept-encoding"],
        "identity,gzip,zstd,deflate"
    );
}

#[test]
fn g_06_a_flag_without_encoding_is_internal_and_damage_is_invalid() {
    let door = Door::shared();
    assert_eq!(export(&door, &[], framed(1, b"x")).code(), 13);
    assert_eq!(export(&door, &[], framed(7, b"x")).code(), 13);
    let mut cut = gzip(&one_record());
    cut.truncate(cut.len() - 4);
    for damaged in [b"no gzip".to_vec(), cut] {
        let called = export(&door, &[("grpc-encoding", "gzip")], framed(1, &damaged));
        assert_eq!(called.code(), 3, "{called:?}");
    }
}

#[test]
fn g_07_g_08_g_09_one_limit_for_the_frame_and_for_what_is_in_it() {
    let door = Door::open("limits:\n  body: 4MiB\n");
    let zeros = vec![0; 5 << 20];
    for (headers, body) in [
        (&[][..], framed(0, &zeros)),
        (&[("grpc-encoding", "gzip")][..], framed(1, &gzip(&zeros))),
    ] {
        let called = export(&door, headers, body);
        assert_eq!(called.code(), 8, "{called:?}");
        let status = called.status();
        assert!(status.message().contains("4194304"), "{status:?}");
        assert!(status.details().is_empty(), "no RetryInfo: {status:?}");
        assert!(!called.headers.contains_key("google.rpc.retryinfo-bin"));
    }
    let name =
        "watchtower_receiver_refused_requests_total{receiver=\"otlp_grpc\",reason=\"too_large\"}";
    assert_eq!(door.metric(name), 2);
    // The same limit for what is just under it.
    let called = export(&door, &[], framed(0, &records(39, 100_000).encode_to_vec()));
    assert_eq!(called.code(), 0, "{called:?}");
}

/// A client with the usual libraries is told, rather than cut off, and its connection lives.
#[test]
fn g_10_a_client_reads_the_status_of_a_message_that_is_too_large() {
    let door = Door::open("limits:\n  body: 4MiB\n");
    block_on(async {
        let client = LogsServiceClient::connect(format!("http://{}", door.grpc)).await;
        let mut client = client.unwrap();
        let status = client.export(records(100, 100_000)).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::ResourceExhausted, "{status:?}");
        client.export(records(1, 5)).await.unwrap();
    });
    let script = r#"
import sys, grpc
channel = grpc.insecure_channel(sys.argv[1])
export = channel.unary_unary(sys.argv[2], request_serializer=bytes, response_deserializer=bytes)
try:
    export(b"\0" * (10 << 20), timeout=20)
except grpc.RpcError as error:
    print(error.code().name)
print(export(b"", timeout=20) == b"")
"#;
    let python = concat!(env!("CARGO_MANIFEST_DIR"), "/.venv/bin/python");
    let output = std::process::Command::new(python)
        .args(["-c", script, &door.grpc.to_string(), EXPORT])
        .output()
        .expect("scripts/test installs the Python SDK, which brings gRPC");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "RESOURCE_EXHAUSTED\nTrue\n",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn g_11_g_12_success_has_an_empty_message_also_for_empty_requests() {
    let door = Door::shared();
    // Nothing; an empty ResourceLogs; one with an empty ScopeLogs.
    for empty in [&b""[..], &[0x0a, 0], &[0x0a, 2, 0x12, 0], &one_record()] {
        let called = export(&door, &[], framed(0, empty));
        assert_eq!(&called.body[..], [0; 5], "{called:?}");
        assert_eq!(
            (called.http, called.trailers["grpc-status"].as_bytes()),
            (200, &b"0"[..])
        );
    }
}

#[test]
fn g_14_logs_in_the_form_of_before_2022_are_a_warning_without_a_count() {
    let door = Door::shared();
    // ResourceLogs { 1000: "" }
    let called = export(&door, &[], framed(0, &[0x0a, 3, 0xc2, 0x3e, 0]));
    assert_eq!(called.code(), 0);
    let answer = ExportLogsServiceResponse::decode(&called.body[5..]).unwrap();
    let partial = answer.partial_success.unwrap();
    assert_eq!(partial.rejected_log_records, 0);
    assert!(partial.error_message.contains("before 2022"), "{partial:?}");
}

#[test]
fn g_15_what_cannot_be_decoded_is_invalid_and_named() {
    let door = Door::shared();
    let called = export(&door, &[], framed(0, b"\x0a\xff\xff\xff\xff\x0f"));
    assert_eq!(called.code(), 3);
    let details = String::from_utf8_lossy(called.status().details()).into_owned();
    assert!(details.contains("google.rpc.BadRequest"), "{details}");
    for body in [
        vec![],
        framed(0, b"")[..3].to_vec(),
        [framed(0, b""), vec![1]].concat(),
    ] {
        assert_eq!(export(&door, &[], body.clone()).code(), 3, "{body:?}");
    }
}

#[test]
fn g_16_g_18_g_23_no_room_is_unavailable_with_a_delay() {
    let (door, _waits, _redis) = Door::open_and_fill();
    let called = export(&door, &[], framed(0, &records(1, 300_000).encode_to_vec()));
    assert_eq!(called.code(), 14, "{called:?}");
    let status = called.status();
    assert!(status.message().contains("limits.in_flight"), "{status:?}");
    assert!(!status.details().is_empty());
    assert!(
        status
            .metadata()
            .get_bin("google.rpc.retryinfo-bin")
            .is_some()
    );
}

#[test]
fn g_20_errors_come_in_the_first_headers() {
    let door = Door::shared();
    let called = export(&door, &[], framed(0, b"\xff"));
    assert!(called.headers.contains_key("grpc-status") && called.trailers.is_empty());
    assert!(called.body.is_empty());
}

#[test]
fn g_21_r_074_tokens_are_asked_for_before_anything_is_read() {
    let door = Door::open("auth:\n  ingest_tokens: [s3cret]\n");
    let damaged = || framed(1, b"no gzip at all");
    for (value, code) in [
        (None, 16),
        (Some("Bearer nope"), 16),
        (Some("Bearer "), 16),
        (Some("s3cret"), 16),
        (Some("Bearer s3cret"), 3),
        (Some("BEARER  s3cret"), 3),
    ] {
        let mut headers = vec![("grpc-encoding", "gzip")];
        headers.extend(value.map(|value| ("authorization", value)));
        let called = export(&door, &headers, damaged());
        assert_eq!(called.code(), code, "{value:?}");
    }
    assert!(!door.log_text().contains("s3cret"));
}

/// Redis hangs, so that no push is confirmed: every answer still comes long before a client gives up.
#[test]
fn g_22_h_32_an_answer_comes_well_within_ten_seconds() {
    let redis = Redis::start();
    let url = redis.url();
    let door = Door::open(&format!(
        "queue:\n  kind: redis\n  redis:\n    url: {url}\n"
    ));
    assert_eq!(export(&door, &[], framed(0, &one_record())).code(), 0);
    redis.freeze(true);
    let start = Instant::now();
    let called = export(&door, &[], framed(0, &one_record()));
    assert!(
        start.elapsed() < Duration::from_secs(8),
        "{:?}",
        start.elapsed()
    );
    assert!([0, 14].contains(&called.code()), "{called:?}");
    redis.freeze(false);
}

#[test]
fn g_23_many_calls_share_a_connection() {
    let door = Door::shared();
    block_on(async {
        let client = LogsServiceClient::connect(format!("http://{}", door.grpc)).await;
        let client = client.unwrap();
        let calls = (0..300).map(|_| {
            let mut client = client.clone();
            async move { client.export(records(10, 100)).await }
        });
        for called in futures_util::future::join_all(calls).await {
            called.unwrap();
        }
    });
}

#[test]
fn g_24_pings_are_answered_and_never_punished() {
    let door = Door::shared();
    let mut frames = Frames::open(door.grpc);
    for round in 0..100_u64 {
        frames.send(PING, 0, &round.to_be_bytes());
    }
    let mut answered = 0;
    while answered < 100 {
        let (kind, flags, payload) = frames.next().unwrap();
        assert_ne!(kind, crate::support::grpc::GOAWAY, "{payload:?}");
        answered += u32::from(kind == PING && flags == 1);
    }
}

#[test]
fn g_26_r_074_health_is_told_to_anybody() {
    let door = Door::open("auth:\n  ingest_tokens: [s3cret]\n");
    block_on(async {
        let channel = tonic::transport::Endpoint::new(format!("http://{}", door.grpc)).unwrap();
        let mut client = HealthClient::new(channel.connect().await.unwrap());
        for service in ["", "opentelemetry.proto.collector.logs.v1.LogsService"] {
            let request = HealthCheckRequest {
                service: service.to_owned(),
            };
            let answer = client.check(request).await.unwrap().into_inner();
            assert_eq!(answer.status, 1, "SERVING: {service}");
        }
    });
}

#[test]
fn g_27_unknown_methods_are_told_the_right_one() {
    let door = Door::shared();
    block_on(async {
        let mut connection = Connection::open(door.grpc).await;
        let headers = [("content-type", "application/grpc")];
        let called = connection
            .call("/some.Service/Method", &headers, framed(0, b""))
            .await;
        assert_eq!(called.code(), 12);
        assert!(called.status().message().contains(EXPORT));
        let called = connection
            .call(EXPORT, &headers, framed(0, &one_record()))
            .await;
        assert_eq!(called.code(), 0, "the connection is still good");
    });
}

/// An answer is a promise: a daemon killed right after it still has the batch.
#[test]
fn g_30_h_32_success_means_that_the_queue_has_the_whole_batch() {
    let door = Door::open("");
    let called = export(&door, &[], framed(0, &records(5000, 50).encode_to_vec()));
    assert_eq!(called.code(), 0);
    let Door { daemon, dir } = door;
    let daemon = daemon.kill_and_restart_unready();
    assert_eq!(daemon.status()["pipeline"]["queued"], 5000);
    drop((daemon, dir));
}
