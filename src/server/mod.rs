//! The one HTTP server behind every listener: accepts, speaks TLS where set, serves HTTP/1.1 and
//! HTTP/2 (also in clear text with prior knowledge) and ends in bounded time.

mod activity;
mod addresses;
mod explain;
mod places;
mod sniff;
mod switch;
#[cfg(test)]
mod tests;
mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, warn};

pub use addresses::Addresses;
pub(crate) use addresses::{Origin, asking};
pub use places::{Places, Port};
pub use switch::{Quick, Routes, Switch};
pub use tls::{Error as TlsError, acceptor};

use crate::config::Limits;
use activity::Activity;
use explain::Explained;
use sniff::Opening;

/// Bytes a client may send ahead on one HTTP/2 stream, and on one connection: a large OTLP export
/// then needs no round trip for every 64 KiB of it.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// Bytes of one request's headers with HTTP/1.1.
const HEADER_BYTES: usize = 64 << 10;
/// The same with HTTP/2. The receivers take less, and say so, which the library here cannot.
const STREAM_HEADER_BYTES: u32 = 64 << 10;
/// After this much silence an HTTP/2 client is asked whether it is still there.
const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// A connection of HTTP/2 without a request is let go after so many times `limits.header_timeout`, as one of HTTP/1.1
/// is after that time itself: clients keep the former open between requests.
const IDLE_TIMES: u32 = 10;

/// What a connection is made under.
#[derive(Clone)]
struct Terms {
    header_timeout: Duration,
    /// Requests that one HTTP/2 connection may have under way.
    streams: u32,
    /// Connections that one address may have; 0 for any number.
    per_address: usize,
    tls: Option<tokio_rustls::TlsAcceptor>,
}

impl Terms {
    fn new(limits: &Limits, tls: Option<tokio_rustls::TlsAcceptor>) -> Terms {
        Terms {
            header_timeout: limits.header_timeout.duration(),
            streams: limits.streams,
            per_address: limits.connections_per_address,
            tls,
        }
    }
}

/// What all listeners share.
#[derive(Clone)]
pub struct Server {
    places: Places,
    addresses: Addresses,
    terms: Arc<watch::Sender<Terms>>,
    /// Cancelled: no new connections, and open ones end after their request.
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Server {
    /// A server for at most `limits.connections` clients at once over all listeners, a few of which
    /// only the web port may use.
    #[must_use]
    pub fn new(
        limits: &Limits,
        tls: Option<tokio_rustls::TlsAcceptor>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            places: Places::new(limits.connections),
            addresses: Addresses::default(),
            terms: Arc::new(watch::Sender::new(Terms::new(limits, tls))),
            stop,
            tasks: TaskTracker::new(),
        }
    }

    /// Has connections from now on made under other terms.
    pub fn change(&self, limits: &Limits, tls: Option<tokio_rustls::TlsAcceptor>) {
        self.terms.send_replace(Terms::new(limits, tls));
    }

    /// The connections, for whoever counts them.
    #[must_use]
    pub fn places(&self) -> &Places {
        &self.places
    }

    /// The connections by address, likewise.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Serves `routes` on a listener until the server is stopped. Connections may outlive it;
    /// [`Server::drained`] waits for them.
    pub async fn serve(self, port: Port, listener: TcpListener, routes: Switch) {
        loop {
            let Some(permit) = self.permit(port).await else {
                return;
            };
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                () = self.stop.cancelled() => return,
            };
            match accepted {
                Ok((stream, peer)) => {
                    let connection = self
                        .clone()
                        .connection(stream, peer, routes.clone(), permit);
                    self.tasks.spawn(connection);
                }
                Err(error) => {
                    // Out of file descriptors, or the client is gone already: neither ends the daemon.
                    if sniff::may_log() {
                        warn!(%error, "could not accept a connection");
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    }

    /// Waits until every connection has ended.
    pub async fn drained(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn permit(&self, port: Port) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            permit = self.places.take(port) => permit,
            () = self.stop.cancelled() => None,
        }
    }

    async fn connection(
        self,
        stream: TcpStream,
        peer: SocketAddr,
        routes: Switch,
        permit: OwnedSemaphorePermit,
    ) {
        let terms = self.terms.borrow().clone();
        let Some(_place) = self.addresses.take(peer.ip(), terms.per_address) else {
            if sniff::may_log() {
                let limit = terms.per_address;
                warn!(peer = %peer.ip(), limit, "closed a connection: the address has all that one may have; see `limits.connections_per_address`");
            }
            return;
        };
        let _permit = permit;
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%peer, %error, "could not set TCP_NODELAY");
        }
        if let Err(error) = rustix::net::sockopt::set_socket_keepalive(&stream, true) {
            debug!(%peer, %error, "could not set SO_KEEPALIVE");
        }
        let Some(tls) = &terms.tls else {
            return self.clear_text(stream, peer, routes, terms).await;
        };
        match tokio::time::timeout(terms.header_timeout, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                self.http(stream, peer, routes, terms, is_http2).await;
            }
            Ok(Err(error)) => {
                if sniff::may_log() {
                    warn!(%peer, %error, "TLS handshake failed; does the client use https, and trust the certificate?");
                }
            }
            Err(_) => debug!(%peer, "TLS handshake timed out"),
        }
    }

    async fn clear_text(
        self,
        mut stream: TcpStream,
        peer: SocketAddr,
        routes: Switch,
        terms: Terms,
    ) {
        let opening = tokio::select! {
            opening = tokio::time::timeout(terms.header_timeout, sniff::opening(&stream)) => opening,
            () = self.stop.cancelled() => return,
        };
        match opening {
            Ok(Ok(Opening::Http2)) => self.http(stream, peer, routes, terms, true).await,
            Ok(Ok(Opening::Http1)) => self.http(stream, peer, routes, terms, false).await,
            Ok(Ok(Opening::Tls)) => sniff::refuse_tls(&mut stream, peer).await,
            Ok(Err(error)) => debug!(%peer, %error, "connection ended before its first request"),
            Err(_) => debug!(%peer, "no request came in time"),
        }
    }

    /// Waits until a connection has had no request for too long; for less, where others wait for its place.
    async fn useless(&self, activity: Option<Arc<Activity>>, header_timeout: Duration) {
        let Some(activity) = activity else {
            return std::future::pending().await;
        };
        loop {
            tokio::time::sleep(header_timeout / 2).await;
            let idle = activity.idle();
            let is_wanted = idle >= header_timeout && self.places.is_full();
            if is_wanted || idle >= header_timeout * IDLE_TIMES {
                return;
            }
        }
    }

    async fn http<S>(
        self,
        stream: S,
        peer: SocketAddr,
        routes: Switch,
        terms: Terms,
        is_http2: bool,
    ) where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let activity = is_http2.then(Activity::new);
        // Known already, so that no client can stall in between.
        let mut builder = if is_http2 {
            auto::Builder::new(TokioExecutor::new()).http2_only()
        } else {
            auto::Builder::new(TokioExecutor::new()).http1_only()
        };
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(terms.header_timeout)
            .max_buf_size(HEADER_BYTES)
            .http2()
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_concurrent_streams(terms.streams)
            .max_header_list_size(STREAM_HEADER_BYTES)
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_TIMEOUT);
        let connection = builder.serve_connection_with_upgrades(
            TokioIo::new(Explained::new(stream)),
            TowerToHyperService::new(routes.serve(peer, activity.clone())),
        );
        tokio::pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = self.stop.cancelled() => {
                // HTTP/2 gets GOAWAY, HTTP/1.1 `connection: close`; requests under way finish.
                connection.as_mut().graceful_shutdown();
                connection.await
            }
            () = self.useless(activity, terms.header_timeout) => {
                debug!(%peer, "closed a connection without requests");
                connection.as_mut().graceful_shutdown();
                // A client that does not answer to that is not waited for.
                tokio::time::timeout(PING_TIMEOUT, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            debug!(%peer, error = %error, "connection ended early");
        }
    }
}
