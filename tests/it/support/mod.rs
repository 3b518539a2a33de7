//! What the tests run against.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU32, Ordering};

/// A ClickHouse server.
pub(crate) struct ClickHouse {
    address: String,
    user: String,
    password: String,
}

/// The server that `WATCHTOWER_TEST_CLICKHOUSE` names, as in `http://user:password@127.0.0.1:8123`.
pub(crate) fn clickhouse() -> ClickHouse {
    let url = std::env::var("WATCHTOWER_TEST_CLICKHOUSE")
        .expect("WATCHTOWER_TEST_CLICKHOUSE names the server that tests may use");
    let url = url.trim_start_matches("http://").trim_end_matches('/');
    let (user, address) = url.rsplit_once('@').unwrap_or(("default:", url));
    let (user, password) = user.split_once(':').unwrap_or((user, ""));
    ClickHouse {
        address: address.into(),
        user: user.into(),
        password: password.into(),
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
            "POST /?{parameters} HTTP/1.0\r\nX-ClickHouse-User: {}\r\nX-ClickHouse-Key: {}\r\nContent-Length: {}\r\n\r\n",
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
