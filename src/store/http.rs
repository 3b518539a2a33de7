//! HTTP to ClickHouse: one pool of sockets, request bodies that are not copied together.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Uri;
use http_body::{Body, Frame, SizeHint};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use super::Error;

pub(super) type Pool = Client<HttpsConnector<HttpConnector>, Chunks>;

/// ClickHouse closes idle sockets after 3 s (older ones) or more; ours must be gone before.
const IDLE: Duration = Duration::from_secs(2);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Finds a peer that vanished without a word.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);
/// An answer's head is far smaller; ClickHouse puts summaries and parameters into headers.
const MAX_HEADERS_BYTES: usize = 64 << 10;

/// Makes the pool. Sockets are opened when they are needed.
pub(super) fn pool() -> Result<Pool, Error> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // An insert's last small piece must not wait for an acknowledgement of the one before.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(TCP_KEEPALIVE));
    let tls = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(rustls::crypto::ring::default_provider())
        .map_err(Error::connection)?
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new())
        .pool_idle_timeout(IDLE)
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(8)
        .http1_max_buf_size(MAX_HEADERS_BYTES)
        .build(tls))
}

/// A request body in pieces, sent one after the other. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct Chunks {
    pieces: VecDeque<Bytes>,
}

impl FromIterator<Bytes> for Chunks {
    fn from_iter<T: IntoIterator<Item = Bytes>>(pieces: T) -> Self {
        let pieces = pieces.into_iter().filter(|piece| !piece.is_empty());
        Self {
            pieces: pieces.collect(),
        }
    }
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        Poll::Ready(self.pieces.pop_front().map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Exact, so that the request says its length: ClickHouse then knows a cut body from a whole one.
    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.pieces.iter().map(|piece| piece.len() as u64).sum())
    }
}

/// Writes a URL's query out of names and values.
#[derive(Debug)]
pub(super) struct Url {
    text: String,
    separator: char,
}

impl Url {
    pub(super) fn new(base: &str) -> Self {
        Self {
            text: format!("{}/", base.trim_end_matches('/')),
            separator: '?',
        }
    }

    pub(super) fn add(&mut self, name: &str, value: &str) {
        self.text.push(self.separator);
        self.separator = '&';
        self.encode(name);
        self.text.push('=');
        self.encode(value);
    }

    fn encode(&mut self, text: &str) {
        const HEX: &[u8; 16] = b"0123456789ABCDEF";
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                self.text.push(byte.into());
            } else {
                let [high, low] = [byte >> 4, byte & 15].map(|nibble| HEX[usize::from(nibble)]);
                self.text.extend(['%', high.into(), low.into()]);
            }
        }
    }

    pub(super) fn finish(self) -> Result<Uri, Error> {
        self.text.parse().map_err(Error::connection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_leave_their_place_in_a_url() {
        let mut url = Url::new("http://127.0.0.1:8123/");
        url.add("param_x", "a&b=c d'%\u{e9}");
        url.add("y", "");
        assert_eq!(
            url.finish().unwrap().to_string(),
            "http://127.0.0.1:8123/?param_x=a%26b%3Dc%20d%27%25%C3%A9&y="
        );
    }
}
