//! A deadline for the first bytes of a connection.
//!
//! Whether a client speaks HTTP/1.1 or HTTP/2 is told by its first bytes, and hyper waits for these
//! without a limit: its header timeout begins behind them. Clients that connect and say nothing would
//! take every connection there is, for ever.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// What every HTTP/2 connection begins with (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A connection whose reads fail if it is not clear in time which protocol it speaks.
pub(super) struct Opening<S> {
    inner: S,
    /// `None` once the protocol is clear.
    deadline: Option<Pin<Box<Sleep>>>,
    /// How much of the preface came.
    matched: usize,
}

impl<S> Opening<S> {
    pub(super) fn new(inner: S, timeout: Duration) -> Self {
        Self {
            inner,
            deadline: Some(Box::pin(sleep(timeout))),
            matched: 0,
        }
    }

    /// Looks at what was read: anything but a part of the preface makes the protocol clear.
    fn look_at(&mut self, read: &[u8]) {
        let rest = PREFACE.get(self.matched..).unwrap_or_default();
        if read.len() < rest.len() && rest.starts_with(read) && !read.is_empty() {
            self.matched += read.len();
        } else {
            self.deadline = None;
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Opening<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        if let Poll::Ready(read) = Pin::new(&mut this.inner).poll_read(cx, buf) {
            if this.deadline.is_some() {
                this.look_at(buf.filled().get(before..).unwrap_or_default());
            }
            return Poll::Ready(read);
        }
        let Some(deadline) = &mut this.deadline else {
            return Poll::Pending;
        };
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Opening<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}
