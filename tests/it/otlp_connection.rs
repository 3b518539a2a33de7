//! Connections to the OTLP ports: TLS, the wrong protocol, slow clients, the end of the daemon.

use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::logs::v1::logs_service_client::LogsServiceClient;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::support::grpc::{EXPORT, Frames, GOAWAY, block_on};
use crate::support::http;
use crate::support::otlp::{Door, ONE_RECORD_JSON, PROTOBUF, one_record, records};

fn connect(address: std::net::SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

#[test]
fn g_01_tls_with_http2_works_beside_tls_with_http1() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (cert, key) = (file("cert.pem"), file("key.pem"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
        ])
        .args([
            "-nodes",
            "-keyout",
            &key,
            "-out",
            &cert,
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
        ])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .output()
        .expect("openssl is installed; scripts/test installs it");
    assert!(made.status.success(), "{made:?}");
    // Readiness is asked for in clear text, so this one is waited for by its port.
    let extra = format!("tls:\n  cert_file: {cert}\n  key_file: {key}\n");
    let door = Door::open_when(&extra, |daemon| TcpStream::connect(daemon.grpc).is_ok());
    let pem = std::fs::read(&cert).unwrap();
    block_on(async {
        let tls = tonic::transport::ClientTlsConfig::new()
            .ca_certificate(tonic::transport::Certificate::from_pem(pem))
            .domain_name("localhost");
        let endpoint = tonic::transport::Endpoint::new(format!("https://{}", door.grpc)).unwrap();
        let channel = endpoint.tls_config(tls).unwrap().connect().await.unwrap();
        let mut client = LogsServiceClient::new(channel);
        client.export(records(1, 5)).await.unwrap();
    });
    let curl = Command::new("curl")
        .args([
            "-s",
            "--http1.1",
            "--cacert",
            &cert,
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
        ])
        .args([
            "--connect-to",
            &format!("localhost:443:{}", door.http),
            "https://localhost/v1/logs",
        ])
        .args(["-H", "content-type: application/json", "-d", "{}"])
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&curl.stdout), "200", "{curl:?}");
}

#[test]
fn g_31_http1_on_the_grpc_port_is_served_and_grpc_over_http1_explained() {
    let door = Door::shared();
    let answer = http::post(door.grpc, "/v1/logs", PROTOBUF, &one_record()).unwrap();
    assert_eq!(answer.status, 200);
    let answer = http::post(door.grpc, EXPORT, "application/grpc", &[0; 5]).unwrap();
    assert_eq!(answer.status, 400);
    assert!(
        answer.text().contains("gRPC needs HTTP/2"),
        "{}",
        answer.text()
    );
}

#[test]
fn g_31_a_tls_hello_on_a_port_without_tls_is_explained() {
    let door = Door::open("");
    let mut stream = connect(door.grpc);
    stream
        .write_all(&[0x16, 0x03, 0x01, 0x02, 0x00, 0x01])
        .unwrap();
    let mut alert = Vec::new();
    stream.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&0x15), "a TLS alert: {alert:?}");
    door.wait_until("the log explains it", || {
        door.log_text().contains("speaks TLS to a port without it")
    });
}

#[test]
fn h_31_slow_clients_are_cut_off_and_quick_ones_keep_their_connection() {
    let door = Door::open("limits:\n  header_timeout: 1s\n  body_timeout: 1s\n");
    // None of these is a whole request; the last is the start of two protocols.
    for beginning in [
        "",
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\nx-",
        "P",
        "PRI * HTTP/2.0\r\n",
    ] {
        let mut stream = connect(door.http);
        stream.write_all(beginning.as_bytes()).unwrap();
        let start = Instant::now();
        let mut answer = Vec::new();
        // Closed or reset: both free the connection.
        stream.read_to_end(&mut answer).ok();
        assert!(start.elapsed() < Duration::from_secs(5), "{beginning:?}");
    }
    let head = "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{";
    let answer = http::exchange(door.http, head.as_bytes()).unwrap();
    // Not 408, which is final for senders.
    assert_eq!(
        (answer.status, answer.header("retry-after")),
        (503, Some("1"))
    );
    // Headers of more than 64 KiB.
    let long = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\nx-long: {}\r\n\r\n",
        "a".repeat(100_000)
    );
    let answer = http::exchange(door.http, long.as_bytes());
    assert!(answer.is_err() || answer.is_ok_and(|answer| answer.status == 431));
    // Two requests on one connection.
    let stream = connect(door.http);
    let mut reader = BufReader::new(&stream);
    for _ in 0..2 {
        let head = "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        (&stream).write_all(head.as_bytes()).unwrap();
        assert_eq!(http::read_answer(&mut reader).unwrap().status, 200);
    }
}

/// SIGTERM while a request is half sent: health says so, clients of HTTP/2 get GOAWAY, the request
/// is answered and its record kept, and nobody new gets in.
#[test]
fn g_25_r_056_the_end_is_told_and_requests_under_way_finish() {
    let door = Door::open("");
    let (first, rest) = ONE_RECORD_JSON.split_at(20);
    let half = connect(door.http);
    let head = format!(
        "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        ONE_RECORD_JSON.len()
    );
    (&half).write_all(head.as_bytes()).unwrap();
    (&half).write_all(first).unwrap();
    let mut idle = Frames::open(door.grpc);
    // The answer to our SETTINGS: the connection is under way.
    while idle.next().unwrap().0 != 4 {}
    block_on(async {
        let endpoint = tonic::transport::Endpoint::new(format!("http://{}", door.grpc)).unwrap();
        let mut health = HealthClient::new(endpoint.connect().await.unwrap());
        let watch = health.watch(HealthCheckRequest::default()).await.unwrap();
        let mut watch = watch.into_inner();
        assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
        door.terminate();
        assert_eq!(
            watch.message().await.unwrap().unwrap().status,
            2,
            "NOT_SERVING"
        );
    });
    while idle.next().unwrap().0 != GOAWAY {}
    door.wait_until("nobody new gets in", || {
        TcpStream::connect(door.grpc).is_err()
    });
    (&half).write_all(rest).unwrap();
    let answer = http::read_answer(&mut BufReader::new(&half)).unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("connection"), Some("close"));
    let Door { daemon, dir } = door;
    assert!(daemon.wait_end().success());
    drop(dir);
}

/// Case: clients of HTTP/2 that keep all places and never ask for anything.
/// Holds: they are told to go after a while, so that others come in.
#[test]
fn h_31_g_24_connections_without_requests_make_room() {
    let door = Door::open("limits:\n  connections: 20\n  header_timeout: 1s\n");
    let mut idle: Vec<_> = (0..8).map(|_| Frames::open(door.http)).collect();
    let post = || {
        let mut stream = connect(door.http);
        let soon = Some(Duration::from_secs(2));
        stream.set_read_timeout(soon).unwrap();
        let length = ONE_RECORD_JSON.len();
        let head = format!(
            "POST /v1/logs HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n"
        );
        stream.write_all(&[head.as_bytes(), ONE_RECORD_JSON].concat())?;
        http::read_answer(&mut BufReader::new(stream))
    };
    door.wait_until("a sender comes in", || {
        post().is_ok_and(|answer| answer.status == 200)
    });
    for frames in &mut idle {
        let told = loop {
            match frames.next() {
                Ok((GOAWAY, ..)) => break true,
                Ok(_) => {}
                Err(_) => break false,
            }
        };
        assert!(told);
    }
}
