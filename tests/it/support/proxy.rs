//! A proxy before ClickHouse that makes the faults of a bad network and a bad server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use watchtower::store::{Client, Endpoint, EndpointSource};

/// What happens to inserts. Everything else passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Nothing.
    None,
    /// ClickHouse gets it, its answer is lost.
    CutAnswer,
    /// The connection is closed before ClickHouse gets anything.
    Refuse,
    /// ClickHouse gets it without its last piece, as from a daemon that ends in the middle.
    CutRequest,
    /// Read, and never answered.
    Silence,
    /// Not passed on; answered with this status and exception code.
    Exception(u16, u16),
}

/// A running proxy; it ends with the test.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    fault: watch::Sender<Fault>,
    inserts: Arc<AtomicU64>,
    silent: watch::Sender<u32>,
}

/// What is added to the URL of every request, as if the server's defaults were others.
pub(crate) type Extra = &'static str;

impl Proxy {
    /// Starts a proxy before the endpoint that is current at each request.
    pub(crate) async fn start(upstream: EndpointSource, fault: Fault, extra: Extra) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap(),
            fault: watch::Sender::new(fault),
            inserts: Arc::default(),
            silent: watch::Sender::default(),
        };
        let (fault, inserts) = (proxy.fault.subscribe(), Arc::clone(&proxy.inserts));
        let silent = proxy.silent.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (upstream, fault) = (upstream.clone(), fault.clone());
                let (inserts, silent) = (Arc::clone(&inserts), silent.clone());
                tokio::spawn(async move {
                    serve(stream, upstream, fault, inserts, silent, extra).await
                });
            }
        });
        proxy
    }

    /// Makes another fault from now on.
    pub(crate) fn set(&self, fault: Fault) {
        self.fault.send_replace(fault);
    }

    /// Inserts that came so far.
    pub(crate) fn inserts(&self) -> u64 {
        self.inserts.load(Ordering::Relaxed)
    }

    /// Sockets of requests that wait for an answer in vain.
    pub(crate) fn silent(&self) -> watch::Receiver<u32> {
        self.silent.subscribe()
    }

    /// A client that goes through the proxy with the user of this endpoint.
    pub(crate) fn client(&self, endpoint: Endpoint) -> Client {
        let config = watchtower::config::Store {
            url: Some(format!("http://{}", self.address)),
            user: endpoint.user,
            password: endpoint.password,
            ..watchtower::config::Store::default()
        };
        Client::of(&config).unwrap().unwrap()
    }
}

/// Serves one connection: one request, after which it is closed without a word, as a server does with
/// a socket that idled. So every next request meets a stale socket.
async fn serve(
    mut stream: TcpStream,
    upstream: EndpointSource,
    fault: watch::Receiver<Fault>,
    inserts: Arc<AtomicU64>,
    silent: watch::Sender<u32>,
    extra: Extra,
) -> Option<()> {
    let (request, last_piece) = read_request(&mut stream).await?;
    let line_end = request.iter().position(|byte| *byte == b'\r')?;
    let line = String::from_utf8_lossy(&request[..line_end]).into_owned();
    let fault = *fault.borrow();
    if line.contains("query=INSERT") {
        inserts.fetch_add(1, Ordering::Relaxed);
        match fault {
            Fault::None | Fault::CutAnswer | Fault::CutRequest => {}
            Fault::Refuse => return None,
            Fault::Silence => {
                silent.send_modify(|silent| *silent += 1);
                stream.read_u8().await.ok();
                silent.send_modify(|silent| *silent -= 1);
                return None;
            }
            Fault::Exception(status, code) => {
                let body = format!("Code: {code}. DB::Exception: made by the test");
                let answer = format!(
                    "HTTP/1.1 {status} X\r\nX-ClickHouse-Exception-Code: {code}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                return stream.write_all(answer.as_bytes()).await.ok();
            }
        }
    }
    let url = upstream.borrow().clone()?.url;
    let mut server = TcpStream::connect(url.trim_start_matches("http://"))
        .await
        .ok()?;
    let line = line.replace(" HTTP/1.1", &format!("{extra} HTTP/1.1"));
    server.write_all(line.as_bytes()).await.ok()?;
    server.write_all(b"\r\nConnection: close").await.ok()?;
    if fault == Fault::CutRequest && line.contains("query=INSERT") {
        server
            .write_all(&request[line_end..last_piece])
            .await
            .ok()?;
        server.shutdown().await.ok()?;
    } else {
        server.write_all(&request[line_end..]).await.ok()?;
    }
    let mut answer = Vec::new();
    server.read_to_end(&mut answer).await.ok()?;
    if fault == Fault::CutAnswer && line.contains("query=INSERT") {
        return None;
    }
    // The client must think that the socket stays open.
    let answer = replace(&answer, b"Connection: Close", b"Connection: Keep-Alive");
    stream.write_all(&answer).await.ok()
}

/// Reads a request, whole, and tells where its last piece begins.
async fn read_request(stream: &mut TcpStream) -> Option<(Vec<u8>, usize)> {
    let mut request = Vec::new();
    loop {
        if stream.read_buf(&mut request).await.ok()? == 0 {
            return None;
        }
        let Some(head) = request.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let text = String::from_utf8_lossy(&request[..head]).to_ascii_lowercase();
        let length = text
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "));
        let mut at = head + 4;
        if let Some(length) = length {
            read_to(stream, &mut request, at + length.parse::<usize>().ok()?).await?;
            return Some((request, at));
        }
        // In pieces, each after its length; the last is empty.
        let mut last = at;
        loop {
            let Some(end) = request[at..].windows(2).position(|two| two == b"\r\n") else {
                let more = request.len() + 1;
                read_to(stream, &mut request, more).await?;
                continue;
            };
            let length = std::str::from_utf8(&request[at..at + end]).ok()?;
            let length = usize::from_str_radix(length, 16).ok()?;
            let next = at + end + 2 + length + 2;
            read_to(stream, &mut request, next).await?;
            if length == 0 {
                return Some((request, last));
            }
            (last, at) = (at, next);
        }
    }
}

async fn read_to(stream: &mut TcpStream, request: &mut Vec<u8>, length: usize) -> Option<()> {
    while request.len() < length {
        if stream.read_buf(request).await.ok()? == 0 {
            return None;
        }
    }
    Some(())
}

fn replace(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    match text.windows(from.len()).position(|part| part == from) {
        Some(at) => [&text[..at], to, &text[at + from.len()..]].concat(),
        None => text.to_vec(),
    }
}
