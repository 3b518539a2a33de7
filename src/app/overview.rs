//! The daemon's figures in one place: status, readiness, metrics.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::api::{SearchBackend, SearchError, SearchPage, SearchQuery, Status, StoreStatus};
use crate::intake::{Intake, unix_millis};
use crate::live::Hub;
use crate::queue::Queue;
use crate::record::Receiver;
use crate::telemetry::Metrics;
use crate::telemetry::metrics::{self, Page};

/// Reads the stages' figures; cheap to clone.
#[derive(Clone)]
pub(super) struct Overview {
    started: Instant,
    metrics: Metrics,
    queue: Queue,
    hub: Hub,
    intake: Intake,
    pub(super) search: Arc<dyn SearchBackend>,
}

struct Away;
impl SearchBackend for Away {
    fn search(&self, _query: SearchQuery) -> BoxFuture<'_, Result<SearchPage, SearchError>> {
        std::future::ready(Err(SearchError::Unavailable("it is starting".to_owned()))).boxed()
    }
}

impl Overview {
    pub(super) fn new(metrics: Metrics, queue: Queue, hub: Hub, intake: Intake) -> Self {
        Self {
            started: Instant::now(),
            metrics,
            queue,
            hub,
            intake,
            search: Arc::new(Away),
        }
    }

    /// For `/api/status`.
    pub(super) fn status(self) -> BoxFuture<'static, Status> {
        async move {
            let depth = self.queue.depth().await;
            Status {
                uptime_seconds: self.started.elapsed().as_secs(),
                accepted: by_name(self.metrics.accepted()),
                refused: by_name(self.metrics.refused_requests()),
                stored: 0,
                dead: 0,
                queued: depth.records.iter().sum(),
                queue_bytes: depth.bytes,
                queue_age_ms: age_ms(depth.oldest),
                store: StoreStatus::default(),
            }
        }
        .boxed()
    }

    /// For `/readyz`.
    pub(super) fn ready(&self) -> Result<(), String> {
        Ok(())
    }

    /// For `/metrics`.
    pub(super) async fn metrics(self) -> String {
        let depth = self.queue.depth().await;
        let live = self.hub.stats();
        let mut page = Page::default();
        self.metrics.render(&mut page);
        page.single(metrics::IN_FLIGHT, self.intake.budget().used() as u64);
        page.by_receiver(metrics::QUEUE_RECORDS, depth.records);
        page.single(metrics::QUEUE_BYTES, depth.bytes);
        page.single(metrics::QUEUE_AGE, age_ms(depth.oldest) / 1000);
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
