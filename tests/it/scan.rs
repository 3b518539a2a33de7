//! Everything at once that a hostile network may send: the daemon serves as before, and has no more memory.

use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::support::daemon::Daemon;
use crate::support::http;

/// Connections that only stand there. Each is a file of this process and one of the daemon.
const IDLE: usize = 1_500;
/// What a busy daemon may keep for later, and the allocator's slack.
const SLACK_KIB: u64 = 64 << 10;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
        .set_write_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    stream
}

/// Sends bytes, and reads to the end or until nothing comes any more. The daemon may hang up at any moment.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = connect(address);
    stream
        .set_read_timeout(Some(Duration::from_millis(300)))
        .unwrap();
    let mut answer = Vec::new();
    if stream.write_all(bytes).is_ok() {
        let mut part = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut part) {
            answer.extend_from_slice(&part[..read]);
        }
    }
    answer
}

/// All doors take what they should, and say no to what they should not.
fn serves(daemon: &Daemon, message: &str) {
    let body = format!(r#"{{"message":"{message}"}}"#);
    let native = http::post(daemon.web, "/api/logs", "application/json", body.as_bytes());
    assert_eq!(native.unwrap().status, 202);
    let otlp = br#"{"resourceLogs":[]}"#;
    for address in [daemon.http, daemon.grpc] {
        let answer = http::post(address, "/v1/logs", "application/json", otlp);
        assert_eq!(answer.unwrap().status, 200);
    }
    for path in ["/healthz", "/readyz", "/", "/api/status"] {
        assert_eq!(http::get(daemon.web, path).unwrap().status, 200, "{path}");
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// Floods of HTTP/2 frames: each connection's bytes after the preface.
fn floods() -> Vec<(&'static str, Vec<u8>)> {
    // `:method POST`, `:scheme http`, `:path /`, by their places in HPACK's static table.
    let headers = [0x83, 0x86, 0x84];
    let streams = || (0..3_000u32).map(|n| 2 * n + 1);
    let resets = streams().flat_map(|stream| {
        let opened = frame(1, 4, stream, &headers);
        [opened, frame(3, 0, stream, &8u32.to_be_bytes())].concat()
    });
    let opened = streams().flat_map(|stream| frame(1, 4, stream, &headers));
    let pings = (0..20_000).flat_map(|_| frame(6, 0, 0, &[7; 8]));
    let settings = (0..20_000).flat_map(|_| frame(4, 0, 0, &[]));
    let mut continued = frame(1, 0, 1, &headers);
    continued.extend((0..2_000).flat_map(|_| frame(9, 0, 1, &[0; 1024])));
    let windows = (0..20_000).flat_map(|_| frame(8, 0, 0, &1u32.to_be_bytes()));
    let empty = (0..20_000).flat_map(|_| frame(0, 0, 1, &[]));
    vec![
        ("streams that are reset at once", resets.collect()),
        ("streams without end", opened.collect()),
        ("pings", pings.collect()),
        ("settings", settings.collect()),
        ("headers that never end", continued),
        ("window updates", windows.collect()),
        (
            "empty data",
            [frame(1, 4, 1, &headers), empty.collect()].concat(),
        ),
        ("a frame longer than allowed", frame(0, 0, 1, &[0; 1 << 20])),
        ("an unknown kind", frame(200, 255, 7, &[1; 100])),
    ]
}

/// Requests of HTTP/1.1 that two programs could read in two ways, or that are none.
fn shapes() -> Vec<Vec<u8>> {
    let post = "POST /api/logs HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    let inner = r#"{"message":"smuggled"}"#;
    let hidden = format!(
        "POST /api/logs HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{inner}",
        inner.len()
    );
    let mut all: Vec<String> = [
        "Content-Length: 4\r\nContent-Length: 5\r\n",
        "Content-Length: +5\r\n",
        "Content-Length: 0x5\r\n",
        "Content-Length: 5, 6\r\n",
        "Content-Length: -1\r\n",
        "Content-Length: 99999999999999999999999\r\n",
        "Transfer-Encoding: xchunked\r\n",
        "Transfer-Encoding: chunked, identity\r\n",
        "Transfer-Encoding : chunked\r\n",
        "Transfer-Encoding:\x0bchunked\r\n",
        " Transfer-Encoding: chunked\r\n",
        "X: a\r\n Content-Length: 5\r\n",
        "Bad Name: 1\r\n",
        "X: \0\r\n",
    ]
    .map(|header| format!("{post}{header}\r\n{hidden}"))
    .to_vec();
    let chunked = format!("{post}Transfer-Encoding: chunked\r\n\r\n");
    for chunk in [
        "ffffffffffffffffff\r\n",
        "-1\r\n",
        "5\r\nab",
        "zz\r\n",
        "5;a=\"\r\n\"\r\n",
    ] {
        all.push(format!("{chunked}{chunk}"));
    }
    all.push("GET  / HTTP/1.1\r\n\r\n".to_owned());
    all.push("GET / HTTP/9.9\r\n\r\n".to_owned());
    all.push("\r\n\r\n\r\n".to_owned());
    all.push(format!(
        "GET /{} HTTP/1.1\r\nHost: x\r\n\r\n",
        "a".repeat(1 << 20)
    ));
    all.push(format!(
        "GET / HTTP/1.1\r\n{}\r\n",
        "A: b\r\n".repeat(20_000)
    ));
    all.push(format!(
        "GET / HTTP/1.1\r\nHost: {}\r\n\r\n",
        "h".repeat(200_000)
    ));
    let mut all: Vec<Vec<u8>> = all.into_iter().map(String::into_bytes).collect();
    all.push((0..=255).cycle().take(100_000).collect());
    all
}

/// Case: floods of HTTP/2 frames, requests that can be read in two ways, half of a request, headers a byte
/// at a time, bodies that never come, and many connections that only stand there, on every port.
/// Holds: every door serves all the while and afterwards, none of the smuggled requests arrives by a body's
/// wrong end, nothing panics, and the memory is what it was.
#[test]
fn a_hostile_network_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let daemon = Daemon::start(dir.path(), "limits: {header_timeout: 2s}\n");
    let ports = [daemon.grpc, daemon.http, daemon.web];
    // What it takes for its work it takes once.
    for _ in 0..3 {
        serves(&daemon, "before");
        send(
            daemon.http,
            &[PREFACE, &frame(4, 0, 0, &[]), &floods()[2].1].concat(),
        );
    }
    let before = daemon.memory_kib("VmRSS");

    let mut standing = Vec::new();
    for n in 0..IDLE {
        let mut stream = connect(ports[n % 3]);
        // Some say nothing, some half of something.
        let begun: &[u8] = [
            &b""[..],
            b"G",
            b"POST /v1/logs HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{",
            PREFACE,
        ][n % 4];
        stream.write_all(begun).unwrap();
        standing.push(stream);
    }
    serves(&daemon, "beside idle connections");
    for (name, flood) in floods() {
        for address in ports {
            send(address, &[PREFACE, &frame(4, 0, 0, &[]), &flood].concat());
        }
        let alive = http::get(daemon.web, "/healthz").unwrap().status;
        assert_eq!(alive, 200, "after {name}");
    }
    for shape in shapes() {
        for address in ports {
            send(address, &shape);
        }
    }
    // A byte at a time, for longer than the headers may take.
    let mut slow = connect(daemon.http);
    for byte in b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\n"
        .iter()
        .cycle()
        .take(60)
    {
        if slow.write_all(&[*byte]).is_err() {
            break;
        }
        crate::support::pause(Duration::from_millis(60));
    }
    let answer = http::read_answer(&mut BufReader::new(slow));
    assert!(
        answer.is_err() || answer.is_ok_and(|answer| answer.status == 408),
        "slow headers were waited for"
    );
    serves(&daemon, "after");
    drop(standing);
    daemon.wait_until("the connections are let go", || {
        daemon.metric("watchtower_server_connections") < 20
    });
    serves(&daemon, "at the end");
    daemon.wait_stored();
    let stored = daemon
        .sql("SELECT count() FROM logs WHERE message = 'smuggled'")
        .concat();
    assert_eq!(stored, ["0"]);
    let log = daemon.log_text();
    assert!(!log.contains("panic"), "{log}");
    let after = daemon.memory_kib("VmRSS");
    assert!(after < before + SLACK_KIB, "{before} KiB, then {after} KiB");
}
