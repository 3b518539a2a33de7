//! Lines to ClickHouse: sockets on which the `clickhouse` crate makes its requests, and on which what
//! it hides is heard.
//!
//! The crate tells that a request failed and in which words, but not with which code, and its trait
//! for HTTP clients is sealed: only the connector below its client can be ours. So a line is a client
//! of the crate with sockets of its own, it carries one request at a time, and whatever comes in on
//! its sockets is the answer to that request: [`Heard`] notes its head as it passes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::{CancellationToken, DropGuard, WaitForCancellationFutureOwned};
use tower::util::MapResponse;

use super::Error;
use super::heard::Heard;

/// ClickHouse closes idle sockets after 3 s (older ones) or more; ours must be gone before.
const IDLE: Duration = Duration::from_secs(2);
/// Lines kept for the next requests; more are made when more requests run at once.
const MAX_IDLE_LINES: usize = 8;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Finds a peer that vanished without a word.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// An answer's head is far smaller; ClickHouse puts summaries and parameters into headers.
const MAX_HEADERS_BYTES: usize = 64 << 10;

/// One client of the crate. Dropping it closes its sockets, and so ends whatever still runs there.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) client: clickhouse::Client,
    pub(super) heard: Arc<Heard>,
    _open: DropGuard,
}

/// The lines that idle; cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Lines {
    tls: HttpsConnector<HttpConnector>,
    idle: Arc<Mutex<Vec<Line>>>,
}

impl Lines {
    /// Reads the system's certificates where the server speaks TLS. Sockets are opened when they are needed.
    pub(super) fn new(https: bool) -> Result<Lines, Error> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // An insert's last small piece must not wait for an acknowledgement of the one before.
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let tls = crate::trust::connector(tcp, https, None).map_err(Error::connection)?;
        Ok(Lines {
            tls,
            idle: Arc::default(),
        })
    }

    /// A line for one request.
    pub(super) fn take(&self) -> Line {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.pop().unwrap_or_else(|| self.open())
    }

    /// Takes a line back whose request was answered.
    pub(super) fn give_back(&self, line: Line) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < MAX_IDLE_LINES {
            idle.push(line);
        }
    }

    fn open(&self) -> Line {
        let (heard, closed) = (Arc::<Heard>::default(), CancellationToken::new());
        let open = closed.clone().drop_guard();
        let ears = Arc::clone(&heard);
        let connector = MapResponse::new(self.tls.clone(), move |stream| {
            TokioIo::new(Tapped {
                stream: TokioIo::new(stream),
                heard: Arc::clone(&ears),
                closed: Box::pin(closed.clone().cancelled_owned()),
            })
        });
        let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .pool_idle_timeout(IDLE)
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(1)
            .http1_max_buf_size(MAX_HEADERS_BYTES)
            .build(connector);
        Line {
            client: clickhouse::Client::with_http_client(http)
                .with_product_info("watchtower", env!("CARGO_PKG_VERSION")),
            heard,
            _open: open,
        }
    }
}

/// A socket, with or without TLS, whose incoming bytes are heard.
struct Tapped<S> {
    stream: S,
    heard: Arc<Heard>,
    closed: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Tapped<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // hyper reads all the time, so that it is woken by this too.
        if self.closed.as_mut().poll(context).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let read = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.heard.hear(read))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tapped<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

impl<S: Connection> Connection for Tapped<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}
