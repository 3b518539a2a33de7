//! A slower network: passes TCP on and holds everything that goes to the server for a while.
//!
//! Answers pass at once, so a round trip takes longer by the delay. The bytes on their way are bounded
//! as a link's would be, generously: the delay is to be felt, not a lack of bandwidth.

use std::time::Duration;

use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Pieces on their way in one direction, each up to the size of a read.
const PIECES: usize = 1024;
const READ: usize = 256 * 1024;

/// Listens on `listen` and passes on to `upstream` until the process ends.
pub(crate) async fn run(listen: &str, upstream: &str, delay: Duration) -> Result<()> {
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("could not listen on {listen}"))?;
    loop {
        let (client, _) = listener.accept().await?;
        let Ok(server) = TcpStream::connect(upstream).await else {
            continue;
        };
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        pass(from_client, to_server, delay);
        pass(from_server, to_client, Duration::ZERO);
    }
}

fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, delay: Duration) {
    let (sender, mut pieces) = mpsc::channel::<(Instant, Bytes)>(PIECES);
    tokio::spawn(async move {
        let mut buffer = BytesMut::new();
        loop {
            buffer.reserve(READ);
            match from.read_buf(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            let piece = (Instant::now() + delay, buffer.split().freeze());
            if sender.send(piece).await.is_err() {
                return;
            }
        }
    });
    tokio::spawn(async move {
        while let Some((due, piece)) = pieces.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // The other side closed; dropping this half passes that on.
    });
}
