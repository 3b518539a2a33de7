//! A server on loopback, and clients that do not keep to the rules.

use std::time::Instant;

use axum::routing::get;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

const HEADER_TIMEOUT: Duration = Duration::from_millis(300);

async fn connect() -> TcpStream {
    let stop = CancellationToken::new();
    let limits = Limits {
        header_timeout: "300ms".parse().unwrap(),
        ..Limits::default()
    };
    let server = Server::new(&limits, None, stop);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let slow = get(async || {
        tokio::time::sleep(3 * HEADER_TIMEOUT).await;
        "done"
    });
    tokio::spawn(server.serve(
        Port::Web,
        listener,
        Switch::new(axum::Router::new().route("/", slow)),
    ));
    TcpStream::connect(address).await.unwrap()
}

/// Sends bytes and waits for the server to end the connection; gives what it sent, and how long
/// that took.
async fn until_end(sent: &[u8]) -> (String, Duration) {
    let mut client = connect().await;
    client.write_all(sent).await.unwrap();
    let started = Instant::now();
    let mut answer = Vec::new();
    let read = client.read_to_end(&mut answer);
    // A reset is an end too.
    let ended = tokio::time::timeout(Duration::from_secs(20), read).await;
    assert!(ended.is_ok(), "still open after {:?}", started.elapsed());
    (
        String::from_utf8_lossy(&answer).into_owned(),
        started.elapsed(),
    )
}

#[tokio::test]
async fn a_client_that_does_not_say_what_it_wants_is_let_go() {
    for sent in [
        "",
        "P",
        "PRI * HTTP/2.0\r\n",
        "GET / HTT",
        "GET / HTTP/1.1\r\nhost: x\r\n",
    ] {
        let (_, took) = until_end(sent.as_bytes()).await;
        assert!(took >= HEADER_TIMEOUT / 2, "{sent}: {took:?}");
    }
}

#[tokio::test]
async fn an_answer_may_take_longer_than_the_headers() {
    let (answer, _) = until_end(b"GET / HTTP/1.0\r\n\r\n").await;
    assert!(answer.ends_with("done"), "{answer}");
}

#[tokio::test]
async fn an_idle_connection_is_let_go() {
    let (answer, took) = until_end(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n").await;
    assert!(answer.ends_with("done"), "{answer}");
    assert!(took < Duration::from_secs(10));
}
