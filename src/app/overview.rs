//! The daemon's figures in one place: status, readiness, metrics.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use super::pulse::Beats;
use crate::api::{DamageStatus, DiskStatus, RedisStatus, SpillStatus, Status, StoreStatus};
use crate::intake::{Intake, unix_millis};
use crate::live::Hub;
use crate::queue::Queue;
use crate::queue::dead::DeadLetters;
use crate::queue::disk::free_bytes;
use crate::record::Receiver;
use crate::server;
use crate::store::{GuardStatus, Reader, WriterStatus};
use crate::telemetry::Metrics;
use crate::telemetry::metrics::{self, Page};

/// How often the live view is told how queue and store are.
const REPORT_EVERY: Duration = Duration::from_secs(1);

/// Reads the stages' figures; cheap to clone.
#[derive(Clone)]
pub(super) struct Overview {
    pub(super) started: Instant,
    pub(super) metrics: Metrics,
    pub(super) queue: Queue,
    pub(super) hub: Hub,
    pub(super) intake: Intake,
    pub(super) writer: watch::Receiver<WriterStatus>,
    pub(super) beats: watch::Receiver<Beats>,
    pub(super) guard: watch::Receiver<GuardStatus>,
    pub(super) state_dir: PathBuf,
    pub(super) reader: Reader,
    pub(super) dead: DeadLetters,
    pub(super) embedded: bool,
    pub(super) connections: server::Places,
    pub(super) addresses: server::Addresses,
}

impl Overview {
    /// For `/api/status`.
    pub(super) fn status(self) -> BoxFuture<'static, Status> {
        async move {
            let depth = self.queue.depth().await;
            let writer = self.writer.borrow().clone();
            let beats = self.beats.borrow().clone();
            let guard = *self.guard.borrow();
            let error = self.store_error();
            Status {
                uptime_seconds: self.started.elapsed().as_secs(),
                accepted: by_name(self.metrics.accepted()),
                refused: by_name(self.metrics.refused_requests()),
                refused_reasons: self.metrics.refusals(),
                rejected: by_name(self.metrics.rejected()),
                stored: writer.stored_records.iter().sum(),
                dead: self.dead_records(),
                queued: depth.records.iter().sum(),
                queue_bytes: depth.bytes,
                queue_age_ms: age_ms(depth.oldest),
                spill: self.spill(),
                damaged: DamageStatus {
                    stretches: self.queue.damaged().0,
                    records: self.queue.damaged().1.iter().sum(),
                },
                disk: DiskStatus {
                    free_bytes: free_bytes(&self.state_dir).ok(),
                },
                redis: beats.redis.map(|redis| RedisStatus {
                    ok: redis.error.is_none(),
                    latency_ms: redis.took.map(millis),
                    error: redis.error,
                }),
                store: StoreStatus {
                    ok: error.is_none() && writer.ready,
                    bytes: guard.bytes,
                    dropped_records: guard.dropped_records,
                    latency_ms: beats.store.took.map(millis),
                    insert_ms: (writer.inserts > 0).then(|| whole_millis(writer.last_took)),
                    lag_ms: (writer.inserts > 0).then(|| whole_millis(writer.lag)),
                    version: match beats.version {
                        // Just started.
                        None if writer.ready => self.reader.version().await.ok(),
                        known => known,
                    },
                    embedded: self.embedded,
                    error,
                },
            }
        }
        .boxed()
    }

    /// For `/readyz`: what is worth knowing although records are taken, or why none are.
    pub(super) fn ready(&self) -> Result<Option<String>, String> {
        if let Some(error) = self.queue.last_error() {
            return Err(format!("the queue takes no records: {error}"));
        }
        if self.intake.is_without_ids() {
            return Err(
                "no records are taken: `id-floor` in `state_dir` cannot be written; is the disk full?"
                    .to_owned(),
            );
        }
        let notes: Vec<String> = [self.spill_note(), self.store_note()]
            .into_iter()
            .flatten()
            .collect();
        Ok((!notes.is_empty()).then(|| notes.join("\n")))
    }

    /// That records are not stored at the moment, and why.
    fn store_note(&self) -> Option<String> {
        let error = self.store_error()?;
        Some(format!("records wait in the queue: {error}"))
    }

    /// Why frames go to the disk before they go to Redis, and how many wait there.
    fn spill_note(&self) -> Option<String> {
        let spill = self.spill()?;
        let reason = spill.reason?;
        let (stretches, lost) = self.queue.damaged();
        let mut note = format!(
            "records go to the disk until redis takes them: {reason}; {} records, {} bytes wait there",
            spill.records, spill.bytes
        );
        if stretches > 0 {
            let lost: u64 = lost.iter().sum();
            note.push_str(&format!(
                "; {stretches} stretches were damaged, {lost} records lost"
            ));
        }
        Some(note)
    }

    /// Keeps the live view's ticks true.
    pub(super) async fn report(self) {
        let mut interval = tokio::time::interval(REPORT_EVERY);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            let queued = self.queue.depth().await.records.iter().sum();
            let store_ok = self.is_store_ok();
            self.hub.report(queued, store_ok);
        }
    }

    /// What is wrong with ClickHouse: what the writer ran into, else that it does not answer.
    fn store_error(&self) -> Option<String> {
        let error = self.writer.borrow().error.clone();
        error.or_else(|| self.beats.borrow().store.error.clone())
    }

    fn is_store_ok(&self) -> bool {
        self.writer.borrow().ready && self.store_error().is_none()
    }

    fn spill(&self) -> Option<SpillStatus> {
        let Queue::Redis(redis) = &self.queue else {
            return None;
        };
        let depth = redis.spill_depth();
        Some(SpillStatus {
            reason: redis.spills_because(),
            records: depth.records.iter().sum(),
            bytes: depth.bytes,
        })
    }

    fn dead_records(&self) -> u64 {
        match self.dead.counts() {
            Ok(counts) => counts.records.iter().sum(),
            Err(error) => {
                warn!(%error, "could not count the dead letters");
                0
            }
        }
    }

    /// For `/metrics`.
    pub(super) async fn metrics(self) -> String {
        let depth = self.queue.depth().await;
        let live = self.hub.stats();
        let mut page = Page::default();
        self.metrics.render(&mut page);
        page.single(metrics::CONNECTIONS, self.connections.taken());
        page.single(metrics::CONNECTION_LIMIT, self.connections.reached());
        page.single(metrics::ADDRESS_LIMIT, self.addresses.refused());
        page.single(metrics::IN_FLIGHT, self.intake.budget().used() as u64);
        page.by_receiver(metrics::QUEUE_RECORDS, depth.records);
        page.single(metrics::QUEUE_BYTES, depth.bytes);
        if let Some(spill) = self.spill() {
            page.single(metrics::SPILLING, u64::from(spill.reason.is_some()));
            page.single(metrics::SPILL_RECORDS, spill.records);
            page.single(metrics::SPILL_BYTES, spill.bytes);
        }
        let (stretches, lost) = self.queue.damaged();
        page.single(metrics::DAMAGED, stretches);
        page.by_receiver(metrics::DAMAGED_RECORDS, lost);
        page.single(metrics::QUEUE_AGE, age_ms(depth.oldest) / 1000);
        let writer = self.writer.borrow().clone();
        page.by_receiver(metrics::STORED, writer.stored_records);
        page.single(metrics::DEAD, self.dead_records());
        page.single(metrics::STORE_UP, u64::from(self.is_store_ok()));
        let guard = *self.guard.borrow();
        if let Some(bytes) = guard.bytes {
            page.single(metrics::STORE_BYTES, bytes);
        }
        page.single(metrics::DROPPED, guard.dropped_records);
        if let Ok(free) = free_bytes(&self.state_dir) {
            page.single(metrics::DISK_FREE, free);
        }
        page.single(metrics::VIEWERS, live.viewers as u64);
        page.single(metrics::SKIPPED, live.skipped);
        page.into_text()
    }
}

fn by_name(counts: [u64; 3]) -> BTreeMap<&'static str, u64> {
    Receiver::ALL
        .into_iter()
        .map(Receiver::as_str)
        .zip(counts)
        .collect()
}

fn millis(took: Duration) -> f64 {
    (took.as_secs_f64() * 1e5).round() / 100.0
}

fn whole_millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since then; 0 where the clock was set back, or there is nothing.
fn age_ms(since: Option<i64>) -> u64 {
    since
        .and_then(|since| u64::try_from(since).ok())
        .map_or(0, |since| unix_millis().saturating_sub(since))
}
