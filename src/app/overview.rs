//! The daemon's figures in one place: status, readiness, metrics.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;
use tracing::warn;

use crate::api::{DamageStatus, SpillStatus, Status, StoreStatus};
use crate::intake::{Intake, unix_millis};
use crate::live::Hub;
use crate::queue::Queue;
use crate::queue::dead::DeadLetters;
use crate::record::Receiver;
use crate::server;
use crate::store::{Reader, WriterStatus};
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
    pub(super) reader: Reader,
    pub(super) dead: DeadLetters,
    pub(super) embedded: bool,
    pub(super) connections: server::Places,
}

impl Overview {
    /// For `/api/status`.
    pub(super) fn status(self) -> BoxFuture<'static, Status> {
        async move {
            let depth = self.queue.depth().await;
            let writer = self.writer.borrow().clone();
            Status {
                uptime_seconds: self.started.elapsed().as_secs(),
                accepted: by_name(self.metrics.accepted()),
                refused: by_name(self.metrics.refused_requests()),
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
                store: StoreStatus {
                    ok: writer.ready && writer.error.is_none(),
                    version: if writer.ready {
                        self.reader.version().await.ok()
                    } else {
                        None
                    },
                    embedded: self.embedded,
                    error: writer.error,
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
        Ok(self.spill_note())
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
            let store_ok = {
                let writer = self.writer.borrow();
                writer.ready && writer.error.is_none()
            };
            self.hub.report(queued, store_ok);
        }
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
        page.single(
            metrics::STORE_UP,
            u64::from(writer.ready && writer.error.is_none()),
        );
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

/// Milliseconds since then; 0 where the clock was set back, or there is nothing.
fn age_ms(since: Option<i64>) -> u64 {
    since
        .and_then(|since| u64::try_from(since).ok())
        .map_or(0, |since| unix_millis().saturating_sub(since))
}
