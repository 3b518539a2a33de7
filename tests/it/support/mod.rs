//! What the tests run against.

pub(crate) mod daemon;
pub(crate) mod engine;
pub(crate) mod grpc;
pub(crate) mod http;
pub(crate) mod otlp;
pub(crate) mod proxy;
pub(crate) mod records;
pub(crate) mod redis;
pub(crate) mod sse;
pub(crate) mod writer;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use watchtower::store::{Client, Endpoint};

use engine::TestEngine;

/// A ClickHouse server.
pub(crate) struct ClickHouse {
    address: String,
    user: String,
    password: String,
}

/// The one engine that tests share which need nothing but a ClickHouse. It ends with this process.
pub(crate) fn clickhouse() -> ClickHouse {
    static ENDPOINT: OnceLock<Endpoint> = OnceLock::new();
    let endpoint = ENDPOINT.get_or_init(|| {
        let (send, receive) = channel();
        // The engine is watched by a runtime that must live as long as the engine.
        std::thread::spawn(move || {
            tokio::runtime::Runtime::new().unwrap().block_on(async {
                let engine = TestEngine::start().await;
                let client = Client::new(engine.engine().endpoint()).unwrap();
                client
                    .execute("CREATE DATABASE IF NOT EXISTS watchtower")
                    .await
                    .unwrap();
                send.send(engine.endpoint().await).unwrap();
                std::future::pending::<()>().await;
            });
        });
        receive.recv().unwrap()
    });
    ClickHouse {
        address: endpoint.url.trim_start_matches("http://").to_owned(),
        user: endpoint.user.clone(),
        password: endpoint.password.expose().to_owned(),
    }
}

impl ClickHouse {
    /// Runs a query and returns what it prints.
    #[track_caller]
    pub(crate) fn query(&self, sql: &str) -> String {
        let answer = self.post("", sql.as_bytes());
        String::from_utf8(answer).expect("ClickHouse prints text")
    }

    /// Inserts data in any format; settings are `name=value`, joined with `&`.
    #[track_caller]
    pub(crate) fn insert(&self, sql: &str, settings: &str, data: &[u8]) {
        let sql = sql.replace(' ', "%20");
        self.post(&format!("query={sql}&{settings}"), data);
    }

    /// A name for a table that no other test has.
    pub(crate) fn table(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        format!("test_{}_{next}", std::process::id())
    }

    #[track_caller]
    fn post(&self, parameters: &str, body: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(&self.address).expect("ClickHouse listens");
        // In HTTP/1.0 an answer ends with its connection, so there are no chunks to read.
        let head = format!(
            "POST /?database=watchtower&{parameters} HTTP/1.0\r\nX-ClickHouse-User: {}\r\nX-ClickHouse-Key: {}\r\nContent-Length: {}\r\n\r\n",
            self.user,
            self.password,
            body.len()
        );
        stream.write_all(head.as_bytes()).expect("ClickHouse reads");
        stream.write_all(body).expect("ClickHouse reads");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("ClickHouse answers");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n");
        let body = answer.split_off(end.expect("an answer has a head") + 4);
        let head = String::from_utf8_lossy(&answer);
        assert!(
            head.split(' ').nth(1) == Some("200"),
            "{}",
            String::from_utf8_lossy(&body)
        );
        body
    }
}

/// Waits. Tests look again and again at a process of their own; there is nothing to be woken by.
#[expect(
    clippy::disallowed_methods,
    reason = "tests are threads of their own, not tasks"
)]
pub(crate) fn pause(time: Duration) {
    std::thread::sleep(time);
}
