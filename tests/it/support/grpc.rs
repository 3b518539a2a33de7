//! A gRPC client that sends exactly the headers and bytes a test means, and one that speaks bare
//! HTTP/2 frames.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};

pub(crate) const EXPORT: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// What came back of a call.
#[derive(Debug)]
pub(crate) struct Called {
    pub(crate) http: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl Called {
    /// `grpc-status`, wherever it is.
    pub(crate) fn code(&self) -> i32 {
        let found = self.headers.get("grpc-status");
        let found = found.or_else(|| self.trailers.get("grpc-status"));
        found.map_or(-1, |value| value.to_str().unwrap().parse().unwrap())
    }

    /// The status with its details, of a Trailers-Only answer.
    pub(crate) fn status(&self) -> tonic::Status {
        tonic::Status::from_header_map(&self.headers).expect("the answer is Trailers-Only")
    }
}

/// A message in its frame.
pub(crate) fn framed(compressed: u8, message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[compressed][..], &length, message].concat()
}

/// Runs a future on a runtime of its own.
pub(crate) fn block_on<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let bounded = async {
        tokio::time::timeout(Duration::from_secs(60), work)
            .await
            .expect("the daemon answers in time")
    };
    runtime.block_on(bounded)
}

/// One connection.
pub(crate) struct Connection {
    sender: hyper::client::conn::http2::SendRequest<Full<Bytes>>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Connection {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
                .await
                .unwrap();
        tokio::spawn(connection);
        Connection { sender }
    }

    pub(crate) async fn call(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> Called {
        let mut request =
            Request::post(format!("http://watchtower{path}")).header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).unwrap();
        let answer = self.sender.send_request(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned().unwrap_or_default();
        Called {
            http: parts.status.as_u16(),
            headers: parts.headers,
            body: body.to_bytes(),
            trailers,
        }
    }
}

/// One call on a connection of its own, with the content type of gRPC.
pub(crate) fn call(
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Called {
    let headers = [&[("content-type", "application/grpc")], headers].concat();
    block_on(async {
        Connection::open(address)
            .await
            .call(path, &headers, body)
            .await
    })
}

/// A client of bare HTTP/2 frames.
pub(crate) struct Frames(TcpStream);

pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;

impl Frames {
    pub(crate) fn open(address: SocketAddr) -> Frames {
        let mut stream = TcpStream::connect(address).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .unwrap();
        let mut frames = Frames(stream);
        frames.send(4, 0, &[]);
        frames
    }

    /// Sends a frame on stream 0.
    pub(crate) fn send(&mut self, kind: u8, flags: u8, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&length[1..], &[kind, flags, 0, 0, 0, 0]].concat();
        self.0.write_all(&[&head, payload].concat()).unwrap();
    }

    /// The next frame: kind, flags, payload.
    pub(crate) fn next(&mut self) -> std::io::Result<(u8, u8, Vec<u8>)> {
        let mut head = [0; 9];
        self.0.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload)?;
        Ok((head[3], head[4], payload))
    }
}
