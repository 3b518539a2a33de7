//! A tap on the wire between a client and the daemon: it tells how a request was really compressed.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A message that every client sends; where it can be read on the wire, nothing is compressed.
const MESSAGE: &[u8] = b"payment took 2.5 s";

/// A proxy that keeps what clients send. It ends with the test.
pub(super) struct Tap {
    pub(super) address: SocketAddr,
    sent: Arc<Mutex<Vec<u8>>>,
}

impl Tap {
    pub(super) fn before(upstream: SocketAddr) -> Tap {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent = Arc::<Mutex<Vec<u8>>>::default();
        let kept = Arc::clone(&sent);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(upstream).unwrap();
                let (answer_from, answer_to) =
                    (server.try_clone().unwrap(), client.try_clone().unwrap());
                let kept = Arc::clone(&kept);
                thread::spawn(move || {
                    pass(client, server, |bytes| kept.lock().unwrap().extend(bytes))
                });
                thread::spawn(move || pass(answer_from, answer_to, |_| ()));
            }
        });
        Tap { address, sent }
    }

    /// Checks that what came since the last check was compressed like this, and no other way.
    pub(super) fn assert_compressed(&self, compression: &str) {
        let sent = std::mem::take(&mut *self.sent.lock().unwrap());
        let holds = |part: &[u8]| sent.windows(part.len()).any(|window| window == part);
        let seen = holds(MESSAGE);
        let is_so = match compression {
            "none" => seen,
            "gzip" => !seen && holds(&[0x1f, 0x8b, 8]),
            "zstd" => holds(&[0x28, 0xb5, 0x2f, 0xfd]),
            "deflate" => !seen && (holds(&[0x78, 0x9c]) || holds(&[0x78, 0x5e])),
            other => panic!("no such compression: {other}"),
        };
        assert!(is_so, "not {compression}: {}", sent.escape_ascii());
    }
}

/// Passes everything on until one side closes.
fn pass(mut from: TcpStream, mut to: TcpStream, keep: impl Fn(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        keep(&buffer[..length]);
        if to.write_all(&buffer[..length]).is_err() {
            break;
        }
    }
    to.shutdown(std::net::Shutdown::Write).ok();
}
