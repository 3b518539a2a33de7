//! An answer that is read piece by piece, and never held as a whole.

use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use clickhouse::query::BytesCursor;
use tokio::time::timeout;

use super::Error;
use super::error::exception_behind;
use super::line::Line;

/// What is held back until the end is known. The head is sent before the answer is made, so that an
/// exception comes behind data, with status 200; ClickHouse writes at most 16 KiB of it.
const HELD: usize = 32 << 10;

/// The answer to a query. Dropping it ends the query.
pub struct Stream {
    line: Line,
    cursor: BytesCursor,
    held: BytesMut,
    /// Time that may still be spent waiting for ClickHouse; what the reader takes does not count.
    left: Duration,
    within: Duration,
    end: Option<Result<(), Error>>,
}

impl Stream {
    pub(super) fn new(line: Line, cursor: BytesCursor, within: Duration) -> Stream {
        Stream {
            line,
            cursor,
            held: BytesMut::new(),
            left: within,
            within,
            end: None,
        }
    }

    /// The next piece; `None` after the last.
    ///
    /// # Errors
    /// When ClickHouse does not answer, refuses, or fails after it has answered a part: then the pieces
    /// before are good, and something is missing behind them.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Error> {
        while self.end.is_none() {
            let asked = Instant::now();
            let piece = timeout(self.left, self.cursor.next()).await;
            self.left = self.left.saturating_sub(asked.elapsed());
            match piece {
                Ok(Ok(Some(piece))) => {
                    self.held.extend_from_slice(&piece);
                    let ready = self.held.len().saturating_sub(HELD);
                    if ready > 0 {
                        return Ok(Some(self.held.split_to(ready).freeze()));
                    }
                }
                Ok(Ok(None)) => self.end = Some(self.look_behind()),
                Ok(Err(error)) => self.end = Some(Err(Error::of(error, &self.line.heard))),
                Err(_) => {
                    let late = format!("the answer did not end within {:?}", self.within);
                    self.end = Some(Err(Error::Connection(late)));
                }
            }
        }
        if !self.held.is_empty() {
            return Ok(Some(self.held.split().freeze()));
        }
        match self.end.as_mut() {
            Some(end) => std::mem::replace(end, Ok(())).map(|()| None),
            None => Ok(None),
        }
    }

    /// Whether the data end in an exception, which is then cut off.
    fn look_behind(&mut self) -> Result<(), Error> {
        let Some(error) = exception_behind(&self.held, &self.line.heard) else {
            return Ok(());
        };
        let tag = self.line.heard.head().and_then(|head| head.tag);
        let mark = format!("__exception__\r\n{}", tag.unwrap_or_default());
        if let Some(at) = memchr::memmem::find(&self.held, mark.as_bytes()) {
            self.held.truncate(at);
        }
        Err(error)
    }
}
