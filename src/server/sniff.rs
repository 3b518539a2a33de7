//! What a client opens a connection with. It decides between HTTP/1.1 and HTTP/2 within a bounded
//! time, and finds the client that speaks TLS to a port that does not.

use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tracing::{debug, warn};

/// How an HTTP/2 client begins (RFC 9113 §3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// First bytes of a TLS handshake: its record type, and the version's first byte.
const TLS_HELLO: &[u8] = &[0x16, 0x03];
/// A TLS alert, fatal, `protocol_version`: the client then names TLS as the matter.
const TLS_ALERT: &[u8] = &[0x15, 0x03, 0x01, 0x00, 0x02, 0x02, 0x46];
/// Pause before looking again at a beginning that may yet become either.
const LOOK_AGAIN: Duration = Duration::from_millis(5);
/// One line in the log in this time.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    Http1,
    Http2,
    Tls,
}

impl Opening {
    /// Told from the first bytes; `None` while they may be the start of several.
    fn of(bytes: &[u8]) -> Option<Opening> {
        if bytes.starts_with(PREFACE) {
            return Some(Opening::Http2);
        }
        if bytes.starts_with(TLS_HELLO) {
            return Some(Opening::Tls);
        }
        let undecided = PREFACE.starts_with(bytes) || TLS_HELLO.starts_with(bytes);
        (!undecided).then_some(Opening::Http1)
    }
}

/// Waits for the first bytes, and leaves them where they are.
///
/// # Errors
/// When the connection ends before.
pub(super) async fn opening(stream: &TcpStream) -> std::io::Result<Opening> {
    let mut bytes = [0; PREFACE.len()];
    loop {
        let read = stream.peek(&mut bytes).await?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if let Some(opening) = Opening::of(bytes.get(..read).unwrap_or_default()) {
            return Ok(opening);
        }
        // Peeking returns at once while the same bytes are there.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
}

/// Tells a client of TLS, and the log, that there is none here.
pub(super) async fn refuse_tls(stream: &mut TcpStream, peer: SocketAddr) {
    if may_log() {
        warn!(
            %peer,
            "a client speaks TLS to a port without it; use http:// (in Go: WithInsecure), or set `tls.cert_file`"
        );
    }
    // What is left unread would turn the end of the connection into a reset, and the alert be lost.
    let mut hello = [0; 4096];
    while matches!(stream.try_read(&mut hello), Ok(read) if read > 0) {}
    let told = async {
        stream.write_all(TLS_ALERT).await?;
        stream.shutdown().await
    };
    if let Err(error) = told.await {
        debug!(%peer, %error, "could not send the TLS alert");
    }
}

/// Whether a line about a client that cannot connect may be written now.
pub(super) fn may_log() -> bool {
    static LAST: Mutex<Option<Instant>> = Mutex::new(None);
    let Ok(mut last) = LAST.lock() else {
        return false;
    };
    let due = last.is_none_or(|last| last.elapsed() >= LINE_EVERY);
    if due {
        *last = Some(Instant::now());
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g_31_the_first_bytes_tell_what_is_spoken() {
        for (bytes, opening) in [
            (&b"P"[..], None),
            (b"PRI * HTTP/2.0\r\n", None),
            (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Opening::Http2)),
            (b"PRI * HTTP/1.1\r\n", Some(Opening::Http1)),
            (b"PO", Some(Opening::Http1)),
            (b"GET / HTTP/1.1", Some(Opening::Http1)),
            (&[0x16], None),
            (&[0x16, 0x03, 0x01], Some(Opening::Tls)),
            (&[0x16, 0x04], Some(Opening::Http1)),
        ] {
            assert_eq!(Opening::of(bytes), opening, "{bytes:?}");
        }
    }
}
