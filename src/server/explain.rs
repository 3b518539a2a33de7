//! Explains what the HTTP/1.1 parser refuses: its answers have no body, and a sender's log would say no
//! more than `400`.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What the parser answers, and what is said instead. OTLP has a `google.rpc.Status` in every refusal (OTLP
/// 1.11, "Failures"); the request's own encoding is not known where its headers cannot be read.
const ANSWERS: [(&[u8], &str); 4] = [
    (
        b"HTTP/1.1 400 ",
        r#"{"code":3,"message":"this is no HTTP/1.1 that can be read: the request line, a header, the content length or the transfer encoding is not as it must be"}"#,
    ),
    (
        b"HTTP/1.1 414 ",
        r#"{"code":3,"message":"the request's address is too long"}"#,
    ),
    (
        b"HTTP/1.1 431 ",
        r#"{"code":8,"message":"the request's headers are larger than 64 KiB, or more than 100"}"#,
    ),
    (
        b"HTTP/1.1 505 ",
        r#"{"code":12,"message":"HTTP/1.0, HTTP/1.1 and HTTP/2 are spoken here"}"#,
    ),
];
/// How every answer of the parser goes on, and none of the routes does.
const NO_BODY: &[u8] = b"content-length: 0\r\n";

/// A connection on which the parser's bare refusals get a body.
pub(super) struct Explained<S> {
    stream: S,
    /// What is written instead, as far as it is not yet.
    left: Vec<u8>,
}

impl<S> Explained<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            left: Vec::new(),
        }
    }
}

/// What to write in place of a bare refusal.
fn explained(answer: &[u8]) -> Option<Vec<u8>> {
    let (_, body) = ANSWERS
        .iter()
        .find(|(start, _)| answer.starts_with(start))?;
    let at = answer
        .windows(NO_BODY.len())
        .position(|window| window == NO_BODY)?;
    if !answer.ends_with(b"\r\n\r\n") {
        return None;
    }
    let (before, after) = (answer.get(..at)?, answer.get(at + NO_BODY.len()..)?);
    let length = format!(
        "content-type: application/json\r\ncontent-length: {}\r\n",
        body.len()
    );
    Some([before, length.as_bytes(), after, body.as_bytes()].concat())
}

impl<S: AsyncWrite + Unpin> Explained<S> {
    fn write_left(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.left))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.left.drain(..written.min(self.left.len()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Explained<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Explained<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.write_left(context))?;
        if let Some(instead) = explained(bytes) {
            self.left = instead;
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The parser's answers have nothing but a head.
        if let [only] = pieces {
            return self.poll_write(context, only);
        }
        ready!(self.write_left(context))?;
        Pin::new(&mut self.stream).poll_write_vectored(context, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_left(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.write_left(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn h_11_only_bare_refusals_are_explained() {
        let bare = b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\ndate: now\r\n\r\n";
        let said = String::from_utf8(explained(bare).unwrap()).unwrap();
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.ends_with("date: now"), "{head}");
        assert!(head.contains("content-type: application/json\r\n"));
        assert!(head.contains(&format!("content-length: {}\r\n", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["code"], 8);
        for (_, body) in ANSWERS {
            serde_json::from_str::<serde_json::Value>(body).unwrap();
        }
        for other in [
            &b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}"[..],
            b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\n\r\ncontent-length: 0\r\n",
        ] {
            assert_eq!(explained(other), None);
        }
    }
}
