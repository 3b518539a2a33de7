//! What one sender may take, of the log too: connections at once (`limits.connections_per_address`) and requests a second
//! (`limits.requests_per_address`).

use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

use crate::support::grpc::{EXPORT, call, framed};
use crate::support::http;
use crate::support::otlp::{Door, JSON, ONE_RECORD_JSON, one_record};

/// A connection from another address of this machine.
fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let from: SocketAddr = format!("{from}:0").parse().unwrap();
    bind(&made, &from).unwrap();
    connect(&made, &to).unwrap();
    made.into()
}

/// Whether the daemon closed the connection, rather than waiting for a request.
fn is_closed(mut stream: &TcpStream) -> bool {
    stream
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    matches!(stream.read(&mut [0]), Ok(0))
}

/// Case: an address opens more connections than one may have.
/// Holds: those beyond are closed at once, on every port, another address is served meanwhile, and a place that
/// comes free is used again.
#[test]
fn an_address_has_so_many_connections_and_others_are_served() {
    let door = Door::open("limits:\n  connections_per_address: 3\n");
    // The test asks from 127.0.0.1 itself.
    let held: Vec<_> = [door.http, door.grpc, door.web]
        .map(|address| connect_from("127.0.0.2", address))
        .into();
    assert!(held.iter().all(|stream| !is_closed(stream)));
    for address in [door.http, door.grpc, door.web] {
        assert!(is_closed(&connect_from("127.0.0.2", address)));
        let answer = http::post(door.web, "/api/logs", JSON, br#"{"message":"m"}"#);
        assert_eq!(answer.unwrap().status, 202);
    }
    assert_eq!(
        door.metric("watchtower_server_address_limit_reached_total"),
        3
    );
    drop(held);
    door.wait_until("places are free again", || {
        !is_closed(&connect_from("127.0.0.2", door.http))
    });
    let log = door.log_text();
    assert!(log.contains("limits.connections_per_address"), "{log}");
}

/// Case: an address sends more requests in a second than one may.
/// Holds: it is told to come back, in the form of each protocol, and is taken then.
#[test]
fn g_16_h_24_an_address_that_sends_too_many_requests_is_told_to_come_back() {
    let door = Door::open("limits:\n  requests_per_address: 2\n");
    let post = || http::post(door.http, "/v1/logs", JSON, ONE_RECORD_JSON).unwrap();
    let answers: Vec<_> = (0..20).map(|_| post()).collect();
    let refused = answers.iter().find(|answer| answer.status == 429);
    let refused = refused.expect("20 requests take less than nine seconds");
    assert_eq!(refused.header("retry-after"), Some("1"));
    let body: serde_json::Value = serde_json::from_slice(&refused.body).unwrap();
    assert_eq!(body["code"], 8);
    assert!(
        body["message"].as_str().unwrap().contains("more than 2"),
        "{body}"
    );
    let send = || call(door.grpc, EXPORT, &[], framed(0, &one_record()));
    let called = (0..20).map(|_| send()).find(|called| called.code() == 8);
    let called = called.expect("20 calls take less than nine seconds");
    assert!(called.headers.contains_key("google.rpc.retryinfo-bin"));
    door.wait_until("it is taken again", || post().status == 200);
}

/// Case: a collector sends the daemon's own log to the daemon, line by line, and does it wrong: the token is
/// none of its tokens, or the content type is none.
/// Holds: a line about a line is not answered with another for ever.
#[test]
fn the_daemons_own_log_sent_to_itself_goes_round_no_more_than_a_few_times() {
    let door = Door::open("auth:\n  ingest_tokens: [right-s3cret]\n");
    let mut sent = 0;
    let mut rounds = 0;
    while rounds < 200 {
        let log = door.log_text();
        let lines: Vec<_> = log.lines().skip(sent).collect();
        sent += lines.len();
        for line in lines.iter().chain(&["nothing new"]) {
            for (token, kind) in [
                ("Bearer wrong", "text/plain"),
                ("Bearer right-s3cret", "image/png"),
            ] {
                let headers = [("authorization", token), ("content-type", kind)];
                let answer =
                    http::request(door.http, "POST", "/v1/logs", &headers, line.as_bytes());
                assert!([401, 415].contains(&answer.unwrap().status));
            }
        }
        rounds += 1;
    }
    let lines = door.log_text().lines().count();
    assert!(lines < 100, "{lines} lines after {rounds} rounds");
}
