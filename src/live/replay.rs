//! What a new viewer gets of the past: the newest matching records, or what follows its cursor.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::event::{Gap, GapReason};
use super::hub::{Shared, Subscribe};
use super::{Backfill, BackfillError, Backfilled, Cursor, StoredRecord};
use crate::frame::{Block, Frame, ID_STEP};
use crate::query::Query;

/// Most records that a stream catches up on; beyond it the viewer is told of a gap.
const CATCH_UP: usize = 50_000;
/// Longest wait for the store. The page's watchdog is three ticks.
const STORE_WAIT: Duration = Duration::from_secs(10);
/// Frames looked at between two looks at the ring.
const FRAMES_AT_A_TIME: usize = 64;
/// Milliseconds since the epoch are an id's upper bits: a sequence of 12 bits follows, then the node.
const ID_PER_MS: u64 = ID_STEP << 12;

/// Rows of a frame to send.
#[derive(Debug)]
pub(super) struct Pick {
    pub(super) frame: Frame,
    pub(super) before: Cursor,
    pub(super) rows: Vec<u32>,
}

/// What to send before the frames that come through the outbox, in this order.
#[derive(Debug, Default)]
pub(super) struct Replay {
    pub(super) gap: Option<Gap>,
    pub(super) stored: Vec<StoredRecord>,
    pub(super) picks: VecDeque<Pick>,
}

/// Where a replay ends: before frame number `seq`.
#[derive(Debug, Clone)]
pub(super) struct End {
    pub(super) seq: u64,
    pub(super) position: Cursor,
}

/// Gathers a replay.
pub(super) async fn gather(shared: Arc<Shared>, end: End, request: Arc<Subscribe>) -> Replay {
    let Some(text) = &request.after else {
        return backlog(shared, end, &request).await;
    };
    match text.parse::<Cursor>() {
        Ok(after) => resume(shared, end, &request, &after).await,
        Err(_) => Replay {
            gap: Some(Gap {
                span: (None, None),
                count: None,
                reason: GapReason::Expired,
            }),
            ..backlog(shared, end, &request).await
        },
    }
}

async fn backlog(shared: Arc<Shared>, end: End, request: &Subscribe) -> Replay {
    let limit = request.backlog;
    let scan = scan(&shared, end, request.query.clone(), None, limit).await;
    let mut stored = Vec::new();
    if scan.num_found < limit
        && let Some(backfill) = &shared.backfill
    {
        let missing = limit - scan.num_found;
        let newest = backfill.newest(&scan.floor, &request.query, missing);
        match tokio::time::timeout(STORE_WAIT, newest).await {
            Ok(Ok(page)) => stored = page.records,
            Ok(Err(error)) => tracing::debug!(%error, "live view begins without stored records"),
            Err(_) => tracing::debug!("live view begins without stored records: no answer in time"),
        }
        stored.sort_by_key(|record| record.id);
    }
    Replay {
        gap: None,
        stored,
        picks: scan.picks,
    }
}

async fn resume(shared: Arc<Shared>, end: End, request: &Subscribe, after: &Cursor) -> Replay {
    let query = &request.query;
    let scan = scan(
        &shared,
        end,
        query.clone(),
        Some(after.clone()),
        CATCH_UP + 1,
    )
    .await;
    if scan.num_found > CATCH_UP {
        return too_much(scan, request, after);
    }
    if after.covers(&scan.floor) {
        return Replay {
            picks: scan.picks,
            ..Replay::default()
        };
    }
    let room = CATCH_UP - scan.num_found;
    let missed = match &shared.backfill {
        Some(backfill) => read_store(&**backfill, after, &scan.floor, query, room).await,
        None if after.covers(&shared.config.start) => Err(GapReason::Expired),
        None => Err(GapReason::Restart),
    };
    match missed {
        Ok(page) if page.complete => {
            let mut stored = page.records;
            stored.sort_by_key(|record| record.id);
            Replay {
                gap: None,
                stored,
                picks: scan.picks,
            }
        }
        Ok(_) => too_much(scan, request, after),
        Err(reason) => Replay {
            gap: Some(Gap {
                span: (time(after), time(&scan.floor)),
                count: None,
                reason,
            }),
            stored: Vec::new(),
            picks: scan.picks,
        },
    }
}

async fn read_store(
    backfill: &dyn Backfill,
    after: &Cursor,
    up_to: &Cursor,
    query: &Query,
    limit: usize,
) -> Result<Backfilled, GapReason> {
    let between = backfill.between(after, up_to, query, limit);
    match tokio::time::timeout(STORE_WAIT, between).await {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(BackfillError::Expired)) => Err(GapReason::Expired),
        Ok(Err(BackfillError::Store(error))) => {
            tracing::debug!(error, "live view resumes with a gap");
            Err(GapReason::Store)
        }
        Err(_) => Err(GapReason::Store),
    }
}

/// A gap, and then the newest records as for a new viewer.
fn too_much(mut scan: Scan, request: &Subscribe, after: &Cursor) -> Replay {
    let mut excess = scan.num_found.saturating_sub(request.backlog);
    scan.picks.retain_mut(|pick| {
        let cut = excess.min(pick.rows.len());
        pick.rows.drain(..cut);
        excess -= cut;
        !pick.rows.is_empty()
    });
    let shown_from = scan.picks.front().map(|pick| pick.before.clone());
    Replay {
        gap: Some(Gap {
            span: (time(after), shown_from.as_ref().and_then(time)),
            count: None,
            reason: GapReason::Limit,
        }),
        stored: Vec::new(),
        picks: scan.picks,
    }
}

/// When a cursor's newest record was taken in, in nanoseconds since the epoch.
fn time(cursor: &Cursor) -> Option<i64> {
    let newest = cursor.iter().map(|(_, id)| id / ID_PER_MS).max()?;
    i64::try_from(newest).ok()?.checked_mul(1_000_000)
}

/// What the ring holds of a query's records.
#[derive(Debug)]
struct Scan {
    /// Oldest first.
    picks: VecDeque<Pick>,
    num_found: usize,
    /// Everything after this, up to the end, was looked at or was not asked for.
    floor: Cursor,
}

/// Looks through the ring from `end` backwards, until `limit` records are found or all that `after`
/// has not passed were looked at. On a thread for blocking work: there may be many records.
async fn scan(
    shared: &Arc<Shared>,
    end: End,
    query: Query,
    after: Option<Cursor>,
    limit: usize,
) -> Scan {
    let shared = Arc::clone(shared);
    let floor = end.position.clone();
    let scan = move || scan_ring(&shared, end, &query, after.as_ref(), limit);
    tokio::task::spawn_blocking(scan)
        .await
        .unwrap_or_else(|error| {
            tracing::error!(%error, "live view cannot read recent records");
            Scan {
                picks: VecDeque::new(),
                num_found: 0,
                floor,
            }
        })
}

fn scan_ring(
    shared: &Shared,
    mut end: End,
    query: &Query,
    after: Option<&Cursor>,
    limit: usize,
) -> Scan {
    let mut scan = Scan {
        picks: VecDeque::new(),
        num_found: 0,
        floor: end.position,
    };
    let is_done = |scan: &Scan| {
        scan.num_found >= limit || after.is_some_and(|after| after.covers(&scan.floor))
    };
    'ring: while !is_done(&scan) {
        let entries = shared.frames_before(end.seq, FRAMES_AT_A_TIME);
        let Some(first) = entries.first() else {
            break;
        };
        end.seq = first.seq;
        for entry in entries.into_iter().rev() {
            let mut rows = Vec::new();
            match Block::decode(&entry.frame) {
                Ok(block) => {
                    query.rows(&block, &mut rows);
                    if let Some(after) = after {
                        rows.retain(|row| !after.has_passed(block.id(*row as usize)));
                    }
                }
                Err(error) => tracing::error!(%error, "live view cannot read a frame"),
            }
            rows.drain(..rows.len().saturating_sub(limit - scan.num_found));
            scan.num_found += rows.len();
            scan.floor.clone_from(&entry.before);
            if !rows.is_empty() {
                scan.picks.push_front(Pick {
                    frame: entry.frame,
                    before: entry.before,
                    rows,
                });
            }
            if is_done(&scan) {
                break 'ring;
            }
        }
    }
    scan
}
