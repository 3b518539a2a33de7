//! The seam to the store: records that the ring no longer holds.

use futures_util::future::BoxFuture;

use super::{Cursor, StoredRecord};
use crate::query::Query;

/// Why the store could not help. The viewer is told with a `gap`.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackfillError {
    /// The store does not answer, or the writer did not come far enough in time.
    #[error("the store is away: {0}")]
    Store(String),
    /// Retention took the records.
    #[error("the records are older than the store keeps")]
    Expired,
}

/// Records of the store.
#[derive(Debug, Clone, Default)]
pub struct Backfilled {
    /// The records; the hub puts them in the order of their ids.
    pub records: Vec<StoredRecord>,
    /// Whether that is all of them. `false`: there were more than the limit.
    pub complete: bool,
}

/// Reads from the store what the ring no longer holds.
pub trait Backfill: Send + Sync {
    /// The oldest matching records that `up_to` has passed and `after` has not, at most `limit`.
    /// Waits a bounded time until the store has everything that `up_to` has passed.
    fn between<'a>(
        &'a self,
        after: &'a Cursor,
        up_to: &'a Cursor,
        query: &'a Query,
        limit: usize,
    ) -> BoxFuture<'a, Result<Backfilled, BackfillError>>;

    /// The newest matching records that `up_to` has passed, at most `limit`. Does not wait.
    fn newest<'a>(
        &'a self,
        up_to: &'a Cursor,
        query: &'a Query,
        limit: usize,
    ) -> BoxFuture<'a, Result<Backfilled, BackfillError>>;
}
