//! Connections and senders: plain hyper, so that the generator costs as little as it can.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, anyhow};
use bytes::{BufMut, Bytes, BytesMut};
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::sync::Mutex;

use crate::records::{Random, Template};
use crate::{Args, Counts, Protocol};

/// Templates each sender goes through in turn.
const TEMPLATES: usize = 4;

/// One TCP connection, made anew when it breaks.
#[derive(Clone)]
pub(crate) struct Connection {
    address: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// Shared by all streams.
    Http2(Arc<Mutex<http2::SendRequest<Full<Bytes>>>>),
    Http1(Arc<Mutex<http1::SendRequest<Full<Bytes>>>>),
}

impl Connection {
    pub(crate) async fn open(args: &Args) -> Result<Connection> {
        let kind = match args.protocol {
            Protocol::Grpc => Kind::Http2(Arc::new(Mutex::new(open_http2(&args.address).await?))),
            _ => Kind::Http1(Arc::new(Mutex::new(open_http1(&args.address).await?))),
        };
        Ok(Connection {
            address: args.address.clone(),
            kind,
        })
    }

    /// Sends one request; its status, gRPC status and body.
    async fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> Result<(StatusCode, Option<String>, Bytes)> {
        let response = match &self.kind {
            Kind::Http2(sender) => {
                let mut handle = sender.lock().await;
                if handle.is_closed() {
                    *handle = open_http2(&self.address).await?;
                }
                let mut own = handle.clone();
                drop(handle);
                own.ready().await?;
                own.send_request(request).await?
            }
            Kind::Http1(sender) => {
                let mut handle = sender.lock().await;
                if handle.is_closed() || handle.ready().await.is_err() {
                    *handle = open_http1(&self.address).await?;
                }
                handle.send_request(request).await?
            }
        };
        let (parts, body) = response.into_parts();
        let body = body.collect().await?;
        let grpc_status = parts
            .headers
            .get("grpc-status")
            .or_else(|| {
                body.trailers()
                    .and_then(|trailers| trailers.get("grpc-status"))
            })
            .map(|status| String::from_utf8_lossy(status.as_bytes()).into_owned());
        // A refusal explains itself in this header; the answer of success is in the body.
        let explained = parts
            .headers
            .get("grpc-message")
            .map(|text| Bytes::copy_from_slice(text.as_bytes()));
        Ok((
            parts.status,
            grpc_status,
            explained.unwrap_or(body.to_bytes()),
        ))
    }
}

async fn connect(address: &str) -> Result<TokioIo<TcpStream>> {
    let stream = TcpStream::connect(address)
        .await
        .with_context(|| format!("could not connect to {address}"))?;
    stream.set_nodelay(true)?;
    Ok(TokioIo::new(stream))
}

async fn open_http2(address: &str) -> Result<http2::SendRequest<Full<Bytes>>> {
    let (sender, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(4 << 20)
        .handshake(connect(address).await?)
        .await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn open_http1(address: &str) -> Result<http1::SendRequest<Full<Bytes>>> {
    let (sender, connection) = http1::handshake(connect(address).await?).await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// What one sender did.
#[derive(Default)]
pub(crate) struct Done {
    /// Microseconds of each acknowledged request.
    pub(crate) latencies: Vec<u32>,
    /// First number and count of each acknowledged request, when asked for.
    pub(crate) acknowledged: Vec<(u64, usize)>,
    pub(crate) last_error: Option<String>,
}

pub(crate) struct Sender {
    pub(crate) args: Args,
    pub(crate) connection: Connection,
    pub(crate) counts: Arc<Counts>,
    pub(crate) number: usize,
    pub(crate) started: Instant,
    pub(crate) end: Instant,
}

impl Sender {
    pub(crate) async fn run(self) -> Done {
        let mut random = Random(0x9E37_79B9_7F4A_7C15 ^ ((self.number as u64 + 1) << 17));
        let mut templates = Vec::new();
        for _ in 0..TEMPLATES {
            match Template::new(&self.args, &mut random) {
                Ok(template) => templates.push(template),
                Err(error) => {
                    return Done {
                        last_error: Some(format!("{error:#}")),
                        ..Done::default()
                    };
                }
            }
        }
        let mut done = Done::default();
        let mut turn = 0;
        let senders = (self.args.connections * self.args.streams) as f64;
        while let Some(due) = self.next_due(turn, senders).await {
            let records = self.args.records as u64;
            let first = self.counts.next.fetch_add(records, Ordering::Relaxed);
            if first >= self.args.total || self.counts.stop.load(Ordering::Relaxed) {
                break;
            }
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default()
                .as_nanos() as u64;
            let body = self.body(templates[turn % TEMPLATES].patched(first, now));
            turn += 1;
            self.request(body, due, first, &mut done).await;
        }
        done
    }

    /// When the next request is due; `None` once time is up.
    async fn next_due(&self, turn: usize, senders: f64) -> Option<Instant> {
        let due = if self.args.rate > 0.0 {
            let gap = self.args.records as f64 / self.args.rate;
            let due = self.started
                + Duration::from_secs_f64((turn as f64 * senders + self.number as f64) * gap);
            tokio::time::sleep_until(due.into()).await;
            due
        } else {
            Instant::now()
        };
        (due < self.end && Instant::now() < self.end).then_some(due)
    }

    async fn request(&self, body: Bytes, due: Instant, first: u64, done: &mut Done) {
        let records = self.args.records as u64;
        for attempt in 0..=self.args.retries {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(100 << attempt.min(5))).await;
            }
            self.counts
                .bytes
                .fetch_add(body.len() as u64, Ordering::Relaxed);
            match self.once(body.clone()).await {
                Ok(()) => {
                    self.counts
                        .acknowledged
                        .fetch_add(records, Ordering::Relaxed);
                    done.latencies
                        .push(u32::try_from(due.elapsed().as_micros()).unwrap_or(u32::MAX));
                    if self.args.acknowledged.is_some() {
                        done.acknowledged.push((first, self.args.records));
                    }
                    return;
                }
                Err(Failure::Refused(text)) => {
                    self.counts.refused.fetch_add(records, Ordering::Relaxed);
                    done.last_error = Some(text);
                }
                Err(Failure::Broken(error)) => {
                    self.counts.failed.fetch_add(records, Ordering::Relaxed);
                    done.last_error = Some(format!("{error:#}"));
                    // A connection that cannot be made fails at once; do not spin on it.
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            }
        }
    }

    async fn once(&self, body: Bytes) -> Result<(), Failure> {
        let (path, content_type) = match self.args.protocol {
            Protocol::Grpc => (
                "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
                "application/grpc",
            ),
            Protocol::Http => ("/v1/logs", "application/x-protobuf"),
            Protocol::HttpJson => ("/v1/logs", "application/json"),
            Protocol::Json => ("/api/logs", "application/json"),
        };
        let grpc = self.args.protocol == Protocol::Grpc;
        let uri = if grpc {
            format!("http://{}{path}", self.args.address)
        } else {
            path.to_owned()
        };
        let mut request = Request::post(uri).header("content-type", content_type);
        if grpc {
            request = request.header("te", "trailers");
        } else {
            request = request.header("host", &self.args.address);
        }
        if self.args.gzip {
            request = request.header(
                if grpc {
                    "grpc-encoding"
                } else {
                    "content-encoding"
                },
                "gzip",
            );
        }
        if let Some(token) = &self.args.token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request
            .body(Full::new(body))
            .map_err(|error| Failure::Broken(error.into()))?;
        let (status, grpc_status, answer) = self
            .connection
            .send(request)
            .await
            .map_err(Failure::Broken)?;
        match grpc_status {
            Some(code) if code == "0" => Ok(()),
            Some(code) => Err(Failure::Refused(format!(
                "gRPC status {code}: {}",
                String::from_utf8_lossy(&answer)
            ))),
            None if grpc => Err(Failure::Broken(anyhow!(
                "HTTP {status} without a gRPC status"
            ))),
            None if status.is_success() => Ok(()),
            None => Err(Failure::Refused(format!(
                "{status}: {}",
                String::from_utf8_lossy(&answer)
            ))),
        }
    }

    /// The body as sent: compressed if asked, framed for gRPC.
    fn body(&self, plain: &[u8]) -> Bytes {
        let packed;
        let bytes = if self.args.gzip {
            let mut encoder =
                flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain).expect("writing to memory");
            packed = encoder.finish().expect("writing to memory");
            &packed[..]
        } else {
            plain
        };
        if self.args.protocol != Protocol::Grpc {
            return Bytes::copy_from_slice(bytes);
        }
        let mut framed = BytesMut::with_capacity(bytes.len() + 5);
        framed.put_u8(u8::from(self.args.gzip));
        framed.put_u32(u32::try_from(bytes.len()).expect("requests are small"));
        framed.put_slice(bytes);
        framed.freeze()
    }
}

enum Failure {
    /// The receiver said no.
    Refused(String),
    /// There was no answer.
    Broken(anyhow::Error),
}
