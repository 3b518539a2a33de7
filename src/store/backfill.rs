//! What the live view needs of the store: records that its ring no longer holds.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use super::{Error, Reader, WriterStatus};
use crate::live::{Backfill, BackfillError, Backfilled, Cursor};
use crate::query::Query;

/// Longest wait for the writer to store what the ring has already forgotten.
const WRITER_WITHIN: Duration = Duration::from_secs(10);
/// Longest wait for a store that is away: after a restart viewers are back before it is.
const BACK_WITHIN: Duration = Duration::from_secs(5);
const ASK_AGAIN: Duration = Duration::from_millis(200);

/// The store as the live view sees it; cheap to clone.
#[derive(Debug, Clone)]
pub struct StoreBackfill {
    reader: Reader,
    writer: watch::Receiver<WriterStatus>,
    retention: Duration,
}

impl StoreBackfill {
    /// Reads with `reader`, and knows from `writer` how far the store is.
    #[must_use]
    pub fn new(reader: Reader, writer: watch::Receiver<WriterStatus>, retention: Duration) -> Self {
        Self {
            reader,
            writer,
            retention,
        }
    }

    /// Waits until the store has everything that `up_to` has passed: this process wrote it, or it is
    /// there already, written by another process or before a restart.
    async fn wait_for(&self, up_to: &Cursor) -> Result<(), BackfillError> {
        let mut writer = self.writer.clone();
        if writer.borrow().stored.covers(up_to) {
            return Ok(());
        }
        if self.last_ids().await?.covers(up_to) {
            return Ok(());
        }
        let wait = writer.wait_for(|status| status.stored.covers(up_to));
        match timeout(WRITER_WITHIN, wait).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(BackfillError::Store(format!(
                "the writer did not come far enough in {WRITER_WITHIN:?}"
            ))),
        }
    }

    /// What the store has of each node. Asks again while the store is away, but not for long.
    async fn last_ids(&self) -> Result<Cursor, BackfillError> {
        let end = Instant::now() + BACK_WITHIN;
        loop {
            match self.reader.last_ids().await {
                Ok(ids) => return Ok(ids),
                Err(error) if Instant::now() >= end => return Err(away(&error)),
                Err(_) => sleep(ASK_AGAIN).await,
            }
        }
    }

    /// Whether retention may have taken records that come after this cursor.
    fn is_expired(&self, after: &Cursor) -> bool {
        let oldest = jiff::Timestamp::now().as_millisecond()
            - i64::try_from(self.retention.as_millis()).unwrap_or(i64::MAX);
        after.iter().any(|(_, id)| received_ms(id) < oldest)
    }
}

/// When a record came, out of its id: see [`crate::frame::ID_STEP`].
fn received_ms(id: u64) -> i64 {
    i64::try_from(id >> 22).unwrap_or(i64::MAX)
}

fn away(error: &Error) -> BackfillError {
    BackfillError::Store(error.to_string())
}

impl Backfill for StoreBackfill {
    fn between<'a>(
        &'a self,
        after: &'a Cursor,
        up_to: &'a Cursor,
        query: &'a Query,
        limit: usize,
    ) -> BoxFuture<'a, Result<Backfilled, BackfillError>> {
        Box::pin(async move {
            if self.is_expired(after) {
                return Err(BackfillError::Expired);
            }
            self.wait_for(up_to).await?;
            let read = self
                .reader
                .between(Some(after), up_to, query, limit.saturating_add(1));
            let mut records = read.await.map_err(|error| away(&error))?;
            let complete = records.len() <= limit;
            records.truncate(limit);
            Ok(Backfilled { records, complete })
        })
    }

    fn newest<'a>(
        &'a self,
        up_to: &'a Cursor,
        query: &'a Query,
        limit: usize,
    ) -> BoxFuture<'a, Result<Backfilled, BackfillError>> {
        Box::pin(async move {
            let read = self.reader.between(None, up_to, query, limit);
            let records = read.await.map_err(|error| away(&error))?;
            let complete = records.len() < limit;
            Ok(Backfilled { records, complete })
        })
    }
}
