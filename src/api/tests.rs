//! Tests of the routes over a real socket.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::frame::{BlockBuilder, ID_STEP, Seal};
use crate::live::{Cursor, HubConfig, StoredRecord};
use crate::record::{Group, Level, Receiver, Record, Sink};

/// A store that answers one page and remembers the question.
#[derive(Default)]
struct OnePage {
    page: SearchPage,
    asked: Mutex<Option<SearchQuery>>,
}

impl SearchBackend for OnePage {
    fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<SearchPage, SearchError>> {
        *self.asked.lock().unwrap() = Some(query);
        Box::pin(async { Ok(self.page.clone()) })
    }

    fn record(
        &self,
        _: u64,
        _: Option<i64>,
    ) -> BoxFuture<'_, Result<Option<StoredRecord>, SearchError>> {
        Box::pin(async { Ok(self.page.records.first().cloned()) })
    }

    fn context(&self, _: Context) -> BoxFuture<'_, Result<Vec<StoredRecord>, SearchError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn oldest(&self) -> BoxFuture<'_, Result<Option<i64>, SearchError>> {
        Box::pin(async { Ok(None) })
    }

    fn histogram(&self, _: Buckets) -> BoxFuture<'_, Result<Histogram, SearchError>> {
        Box::pin(async { Ok(Histogram::default()) })
    }

    fn fields(&self, _: FieldsQuery) -> BoxFuture<'_, Result<Vec<FieldName>, SearchError>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn values(
        &self,
        _: SearchQuery,
        _: Option<String>,
        _: String,
    ) -> BoxFuture<'_, Result<Counted, SearchError>> {
        Box::pin(async { Ok(Counted::default()) })
    }
}

struct Server {
    address: SocketAddr,
    hub: Hub,
    search: Arc<OnePage>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn serve(read_tokens: &[&str], page: SearchPage) -> Server {
    let config = HubConfig {
        ring_bytes: 1 << 20,
        buffer_bytes: 1 << 20,
        start: Cursor::at(ID_STEP),
    };
    let hub = Hub::start(config, None).unwrap();
    let search = Arc::new(OnePage {
        page,
        ..OnePage::default()
    });
    let state = ApiState::new(ApiParts {
        hub: hub.clone(),
        seats: Seats::new(3, 2),
        search: Arc::clone(&search) as Arc<dyn SearchBackend>,
        status: Arc::new(|| Box::pin(async { Status::default() })),
        ready: Arc::new(|| Err("the queue is full".to_owned())),
        meta: Meta::default(),
        read_tokens: tokio::sync::watch::channel(
            read_tokens
                .iter()
                .map(|token| Secret::new((*token).to_owned()))
                .collect(),
        )
        .1,
        host_names: Vec::new(),
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = router(state).into_make_service_with_connect_info::<SocketAddr>();
    let serving = tokio::spawn(async move {
        axum::serve(listener, service).await.unwrap();
    });
    Server {
        address,
        hub,
        search,
        serving,
    }
}

/// A connection that has sent one request.
async fn send(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut request = format!(
        "{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n",
        body.len()
    );
    if !headers.iter().any(|header| header.starts_with("Host:")) {
        request.push_str("Host: localhost\r\n");
    }
    for header in headers {
        request.push_str(header);
        request.push_str("\r\n");
    }
    request.push_str("\r\n");
    request.push_str(body);
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Reads until the text ends with, or holds, `mark`.
async fn read_until(stream: &mut TcpStream, mark: &str) -> String {
    let mut bytes = Vec::new();
    while !String::from_utf8_lossy(&bytes).contains(mark) {
        let read = tokio::time::timeout(Duration::from_secs(10), stream.read_buf(&mut bytes));
        let read = read
            .await
            .unwrap_or_else(|_| panic!("no `{mark}` in {}", String::from_utf8_lossy(&bytes)));
        assert!(
            read.unwrap() > 0,
            "no `{mark}` in {}",
            String::from_utf8_lossy(&bytes)
        );
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A whole answer: its head and its body.
async fn ask(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &str,
) -> (String, String) {
    let mut headers = headers.to_vec();
    headers.push("Connection: close");
    let mut stream = send(server, method, path, &headers, body).await;
    let mut answer = String::new();
    let read = tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut answer));
    read.await.unwrap().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

async fn get_json(server: &Server, path: &str, headers: &[&str]) -> (u16, Value) {
    let (head, body) = ask(server, "GET", path, headers, "").await;
    (status_of(&head), serde_json::from_str(&body).unwrap())
}

fn status_of(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_stream_starts_at_once_and_no_text_breaks_it() {
    let server = serve(&[], SearchPage::default()).await;
    let mut stream = send(&server, "GET", "/api/logs/stream?backlog=10", &[], "").await;
    let head = read_until(&mut stream, "event: hello")
        .await
        .to_ascii_lowercase();
    assert!(head.starts_with("http/1.1 200"));
    for header in [
        "content-type: text/event-stream",
        "x-accel-buffering: no",
        "cache-control: no-store, no-transform",
        "retry: 1000",
    ] {
        assert!(head.contains(header), "{header} in {head}");
    }
    assert!(!head.contains("content-encoding"));

    let text = "one\ntwo\r\nthree\revent: pwn\rdata: x\n\nretry: 1\u{2028}<img src=x onerror=alert(1)>\u{0}";
    let mut builder = BlockBuilder::new();
    builder.group(&Group {
        service: text.into(),
        environment: "".into(),
        scope_name: "".into(),
        scope_version: "".into(),
        resource: vec![(text.into(), text.into())],
        receiver: Receiver::Json,
        received_at: 5,
    });
    builder.push(&Record {
        timestamp: 1_761_800_000_123_456_789,
        level: Level::Warn,
        message: text.into(),
        attributes: vec![(text.into(), "9223372036854775807".into())],
        ..Record::default()
    });
    server.hub.publish(builder.seal(&Seal {
        node: 0,
        first_id: 7 * ID_STEP,
        sealed_at: 1,
        digests: Vec::new(),
    }));
    let events = read_until(&mut stream, "id: 0:7168\n\n").await;
    let lines: Vec<_> = events
        .lines()
        .skip_while(|line| *line != "event: logs")
        .take(4)
        .collect();
    assert_eq!(
        (lines[0], lines[2], lines[3]),
        ("event: logs", "id: 0:7168", "")
    );
    let records: Value = serde_json::from_str(lines[1].strip_prefix("data: ").unwrap()).unwrap();
    let expected = json!([{
        "id": "7168", "timestamp": "1761800000123456789", "level": "warn", "service": text,
        "message": text, "receiver": "json", "received_at": 5,
        "attributes": {text: "9223372036854775807"}, "resource": {text: text},
    }]);
    assert_eq!(records, expected);
}

#[tokio::test]
async fn last_event_id_wins_over_after() {
    let server = serve(&[], SearchPage::default()).await;
    let probe = "/api/logs/stream?probe=1&after=nonsense";
    let (_, fresh) = get_json(&server, probe, &[]).await;
    assert_eq!(fresh["resumed"], false);
    let (status, resumed) = get_json(&server, probe, &["Last-Event-ID: 0:1024"]).await;
    assert_eq!((status, &resumed["resumed"]), (200, &json!(true)));
    assert_eq!(resumed["cursor"], "0:1024");
}

#[tokio::test]
async fn one_viewer_too_many_is_told_so() {
    let server = serve(&[], SearchPage::default()).await;
    let path = "/api/logs/stream";
    let mut first = send(&server, "GET", path, &[], "").await;
    let mut second = send(&server, "GET", path, &[], "").await;
    read_until(&mut first, "hello").await;
    read_until(&mut second, "hello").await;
    let (status, error) = get_json(&server, path, &[]).await;
    assert_eq!((status, &error["code"]), (429, &json!("too_many_viewers")));
    let forwarded = ["X-Forwarded-For: 192.0.2.1"];
    let mut third = send(&server, "GET", path, &forwarded, "").await;
    read_until(&mut third, "hello").await;
    let (status, _) = get_json(&server, path, &["X-Forwarded-For: 192.0.2.2"]).await;
    assert_eq!(status, 429);
    drop(first);
    let freed = async {
        while get_json(&server, &format!("{path}?probe=1"), &[]).await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), freed)
        .await
        .expect("the seat is free again");
}

#[tokio::test]
async fn reading_needs_a_token_where_there_are_any() {
    let server = serve(&["other", "s3cret ü"], SearchPage::default()).await;
    for path in ["/api/logs", "/api/logs/stream", "/api/status", "/api/meta"] {
        let (status, error) = get_json(&server, path, &[]).await;
        assert_eq!(
            (status, &error["code"]),
            (401, &json!("unauthorized")),
            "{path}"
        );
    }
    let (status, _) = get_json(&server, "/api/meta", &["Authorization: Bearer wrong"]).await;
    assert_eq!(status, 401);
    let (status, _) = get_json(&server, "/api/meta", &["Authorization: bearer other"]).await;
    assert_eq!(status, 200);
    assert_eq!(get_json(&server, "/api/logs?token=other", &[]).await.0, 401);

    let (head, _) = ask(&server, "POST", "/api/session", &[], r#"{"token":"wrong"}"#).await;
    assert_eq!(status_of(&head), 401);
    let (head, _) = ask(
        &server,
        "POST",
        "/api/session",
        &[],
        r#"{"token":"s3cret ü"}"#,
    )
    .await;
    let cookie = head
        .lines()
        .find_map(|line| line.strip_prefix("set-cookie: "))
        .unwrap();
    for attribute in ["HttpOnly", "SameSite=Strict"] {
        assert!(cookie.contains(attribute), "{cookie}");
    }
    let cookie = format!("Cookie: a=b; {}", cookie.split(';').next().unwrap());
    let (status, _) = get_json(&server, "/api/meta", &[&cookie]).await;
    assert_eq!(status, 200);

    let (head, _) = ask(
        &server,
        "DELETE",
        "/api/session",
        &["Origin: http://evil.example"],
        "",
    )
    .await;
    assert_eq!(status_of(&head), 403);
    let (head, _) = ask(
        &server,
        "DELETE",
        "/api/session",
        &["Origin: http://localhost"],
        "",
    )
    .await;
    assert_eq!(status_of(&head), 200);
    assert!(head.contains("Max-Age=0"));
}

#[tokio::test]
async fn without_tokens_a_foreign_host_name_is_refused() {
    let server = serve(&[], SearchPage::default()).await;
    let (status, error) = get_json(&server, "/api/logs", &["Host: rebind.example.com"]).await;
    assert_eq!((status, &error["code"]), (403, &json!("unknown_host")));
    let (status, _) = get_json(&server, "/api/logs", &["Host: 10.0.0.5:4319"]).await;
    assert_eq!(status, 200);
    let protected = serve(&["t"], SearchPage::default()).await;
    let headers = ["Host: logs.example.com", "Authorization: Bearer t"];
    assert_eq!(get_json(&protected, "/api/logs", &headers).await.0, 200);
}

#[tokio::test]
async fn a_search_is_read_and_answered() {
    let record = StoredRecord {
        id: u64::MAX,
        timestamp: 1_761_800_000_123_456_789,
        level: Level::Info,
        message: "m".to_owned(),
        ..StoredRecord::default()
    };
    let page = SearchPage {
        records: vec![record.clone(), record],
        has_more: true,
        searched_to: Some(5),
        complete: false,
    };
    let server = serve(&[], page).await;
    let path = "/api/logs?from=2025-10-30T04:53:20Z&min_level=error&service=a&service=b&text=%C3%A9%20x&limit=1000&after=9.7";
    let (status, body) = get_json(&server, path, &[]).await;
    assert_eq!(status, 200);
    assert_eq!(body["records"][1]["id"], "18446744073709551615");
    assert_eq!(body["next"], "1761800000123456789.18446744073709551615");
    assert_eq!(body["searched_to"], "5");
    assert_eq!(body["complete"], false);
    assert!(body["took_ms"].is_u64());
    let asked = server.search.asked.lock().unwrap().clone().unwrap();
    assert_eq!(asked.from, Some(1_761_800_000_000_000_000));
    assert_eq!(
        asked.after,
        Some(Position {
            timestamp: 9,
            id: 7
        })
    );
    assert_eq!((asked.order, asked.limit), (Order::Oldest, 1000));
    assert_eq!(
        asked.query.to_string(),
        r#"level>=error service:(a OR b) "é x""#
    );
}

#[tokio::test]
async fn what_makes_no_sense_is_refused_in_one_shape() {
    let server = serve(&[], SearchPage::default()).await;
    for path in [
        "/api/logs?from=whenever",
        "/api/logs?order=random",
        "/api/logs?before=12",
        "/api/logs?sevrice=a",
        "/api/logs/stream?level=loud",
        "/api/logs/stream?backlog=many",
        "/api/logs/stream?v=2",
    ] {
        let (status, error) = get_json(&server, path, &[]).await;
        assert_eq!(
            (status, &error["code"]),
            (400, &json!("bad_request")),
            "{path}"
        );
        assert!(
            error["text"].as_str().is_some_and(|text| !text.is_empty()),
            "{path}"
        );
    }
    let (status, error) = get_json(&server, "/readyz", &[]).await;
    assert_eq!((status, &error["text"]), (503, &json!("the queue is full")));
    let (head, body) = ask(&server, "GET", "/healthz", &["Host: any.example"], "").await;
    assert_eq!((status_of(&head), body.as_str()), (200, "ok\n"));
}

#[tokio::test]
async fn the_page_is_served_with_its_policy_and_not_twice() {
    let server = serve(&["t"], SearchPage::default()).await;
    let (head, body) = ask(&server, "GET", "/", &[], "").await;
    assert_eq!(status_of(&head), 200);
    assert!(body.contains("<title>"));
    for part in [
        "content-security-policy: default-src 'none'; script-src 'self';",
        "require-trusted-types-for 'script'; trusted-types watchtower",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "referrer-policy: no-referrer",
        "cache-control: no-cache",
    ] {
        assert!(head.contains(part), "{part} in {head}");
    }
    let etag = head
        .lines()
        .find_map(|line| line.strip_prefix("etag: "))
        .unwrap();
    let (head, body) = ask(
        &server,
        "GET",
        "/",
        &[&format!("If-None-Match: {etag}")],
        "",
    )
    .await;
    assert_eq!((status_of(&head), body.as_str()), (304, ""));
    let (head, _) = ask(&server, "GET", "/..%2fmod.rs", &[], "").await;
    assert_eq!(status_of(&head), 404);
}

#[tokio::test]
async fn closing_the_hub_ends_open_streams() {
    let server = serve(&[], SearchPage::default()).await;
    let close = ["Connection: close"];
    let mut stream = send(&server, "GET", "/api/logs/stream", &close, "").await;
    read_until(&mut stream, "hello").await;
    server.hub.close();
    let mut rest = String::new();
    let ended = tokio::time::timeout(Duration::from_secs(10), stream.read_to_string(&mut rest));
    ended.await.expect("the stream ends").unwrap();
    assert!(
        rest.contains("event: bye\ndata: {\"reason\":\"shutdown\""),
        "{rest}"
    );
    assert!(rest.ends_with("\r\n0\r\n\r\n"), "a whole answer: {rest}");
}
