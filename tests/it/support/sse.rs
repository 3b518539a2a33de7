//! A Server-Sent Events client that collects events on a thread.

use std::io::{BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use super::http;

/// One event, as a browser would see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) id: Option<String>,
    pub(crate) data: String,
}

impl Event {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.data)
            .unwrap_or_else(|error| panic!("{error} in {:?}", self.data))
    }
}

/// An open stream.
pub(crate) struct Stream {
    events: Receiver<Event>,
    headers: Vec<(String, String)>,
}

impl Stream {
    /// Opens a stream; the answer must be 200.
    pub(crate) fn open(address: SocketAddr, path: &str, headers: &[(&str, &str)]) -> Stream {
        let mut socket = TcpStream::connect(address).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let mut head =
            format!("GET {path} HTTP/1.1\r\nhost: {address}\r\naccept: text/event-stream\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        socket.write_all(head.as_bytes()).unwrap();
        let mut reader = BufReader::new(socket);
        let (status, headers) = http::read_head(&mut reader).unwrap();
        assert_eq!(status, 200, "{headers:?}");
        let (send, events) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            while let Ok(Some(chunk)) = http::read_chunk(&mut reader) {
                text.extend(chunk);
                while let Some(end) = text.windows(2).position(|pair| pair == b"\n\n") {
                    let block: Vec<u8> = text.drain(..end + 2).collect();
                    if let Some(event) = parse(&String::from_utf8_lossy(&block))
                        && send.send(event).is_err()
                    {
                        return;
                    }
                }
            }
        });
        Stream { events, headers }
    }

    /// Its headers keep proxies from holding events back, and it is in clear text.
    pub(crate) fn assert_nothing_holds_it_back(&self) {
        for (name, value) in [
            ("content-type", "text/event-stream"),
            ("cache-control", "no-store, no-transform"),
            ("x-accel-buffering", "no"),
            ("content-encoding", ""),
        ] {
            assert_eq!(self.header(name).unwrap_or_default(), value, "{name}");
        }
    }

    /// A header of the answer.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self
            .headers
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The next event of any kind.
    pub(crate) fn next(&self, within: Duration) -> Option<Event> {
        self.events.recv_timeout(within).ok()
    }

    /// Records of `logs` events until there are `count` of them.
    pub(crate) fn records(&self, count: usize, within: Duration) -> Vec<serde_json::Value> {
        let end = Instant::now() + within;
        let mut records = Vec::new();
        while records.len() < count {
            let left = end.saturating_duration_since(Instant::now());
            let Some(event) = self.next(left) else {
                panic!(
                    "{} of {count} records came within {within:?}",
                    records.len()
                )
            };
            if event.kind == "logs" {
                records.extend(event.json().as_array().unwrap().iter().cloned());
            }
        }
        records
    }
}

/// Reads one block of lines; `None` for comments and mere fields such as `retry`.
fn parse(block: &str) -> Option<Event> {
    let mut event = Event {
        kind: "message".to_owned(),
        id: None,
        data: String::new(),
    };
    let mut has_data = false;
    for line in block.lines() {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => event.kind = value.to_owned(),
            "id" => event.id = Some(value.to_owned()),
            "data" => {
                if has_data {
                    event.data.push('\n');
                }
                event.data.push_str(value);
                has_data = true;
            }
            _ => {}
        }
    }
    has_data.then_some(event)
}
