//! Metrics: every name, unit and help text in one table, counted in atomics, printed in the
//! Prometheus text format. Labels come from closed lists, never from a record or an error's text.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::receivers::decode::Outcome;
use crate::record::Receiver;

/// A metric's name, kind and help.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Prometheus name; counters end in `_total`.
    pub name: &'static str,
    /// `counter` or `gauge`.
    pub kind: &'static str,
    /// One line for the person who reads it.
    pub help: &'static str,
}

macro_rules! metrics {
    ($($ident:ident $kind:literal $name:literal $help:literal;)*) => {
        $(#[doc = $help] pub const $ident: Metric = Metric { name: $name, kind: $kind, help: $help };)*
        /// Every metric, in the order in which they are printed.
        pub const ALL: &[Metric] = &[$($ident),*];
    };
}

metrics! {
    ACCEPTED "counter" "watchtower_receiver_accepted_records_total" "Records acknowledged to senders.";
    REJECTED "counter" "watchtower_receiver_rejected_records_total" "Records of accepted requests that could not be taken; the sender was told.";
    REPAIRED "counter" "watchtower_receiver_repaired_values_total" "Odd values (text, ids, times) mended so that their records could be kept.";
    REQUESTS "counter" "watchtower_receiver_requests_total" "Requests acknowledged.";
    RESENT "counter" "watchtower_receiver_resent_requests_total" "Requests that were sent again and acknowledged without being stored again.";
    REFUSED "counter" "watchtower_receiver_refused_requests_total" "Requests refused whole, by reason.";
    IN_FLIGHT "gauge" "watchtower_intake_in_flight_bytes" "Bytes of requests that are not yet committed to the queue.";
    QUEUE_RECORDS "gauge" "watchtower_queue_depth_records" "Records in the queue, sealed ones included.";
    QUEUE_BYTES "gauge" "watchtower_queue_depth_bytes" "Bytes in the queue, sealed ones included.";
    QUEUE_AGE "gauge" "watchtower_queue_oldest_seconds" "Age of the oldest frame in the queue; 0 when it is empty.";
    STORED "counter" "watchtower_store_inserted_records_total" "Records that ClickHouse confirmed since the start.";
    DEAD "gauge" "watchtower_dead_letter_records" "Records set aside because ClickHouse refused them for good.";
    STORE_UP "gauge" "watchtower_store_up" "Whether the last insert succeeded or none has failed since (1) or inserts fail (0).";
    VIEWERS "gauge" "watchtower_live_viewers" "Live streams that are open.";
    SKIPPED "counter" "watchtower_live_skipped_records_total" "Records not shown to viewers that were too slow; they are in the store.";
}

/// The reasons for which a request is refused: the `reason` label's closed list.
const REASONS: [&str; 9] = [
    "bad_data",
    "unauthenticated",
    "too_large",
    "media_type",
    "coding",
    "method",
    "path",
    "body_timeout",
    "unavailable",
];

#[derive(Debug, Default)]
struct Door {
    accepted: AtomicU64,
    rejected: AtomicU64,
    repaired: AtomicU64,
    requests: AtomicU64,
    resent: AtomicU64,
    refused: [AtomicU64; REASONS.len()],
}

/// The counters that the receivers keep. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    doors: Arc<[Door; 3]>,
}

impl Metrics {
    /// Counts an acknowledged request.
    pub fn outcome(&self, receiver: Receiver, outcome: &Outcome, accepted: usize) {
        let door = &self.doors[receiver as usize];
        door.requests.fetch_add(1, Ordering::Relaxed);
        door.accepted.fetch_add(accepted as u64, Ordering::Relaxed);
        door.rejected
            .fetch_add(outcome.rejected.into(), Ordering::Relaxed);
        let repaired: u64 = outcome
            .repairs
            .named()
            .iter()
            .map(|(_, count)| u64::from(*count))
            .sum();
        door.repaired.fetch_add(repaired, Ordering::Relaxed);
    }

    /// Counts a request that was taken before.
    pub fn resent(&self, receiver: Receiver) {
        let door = &self.doors[receiver as usize];
        door.resent.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request that was refused whole. `reason` is one of a closed list.
    pub fn refused(&self, receiver: Receiver, reason: &'static str) {
        let index = REASONS.iter().position(|known| *known == reason);
        debug_assert!(index.is_some(), "{reason} is not in the list");
        if let Some(index) = index {
            self.doors[receiver as usize].refused[index].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records acknowledged since the start, by receiver.
    #[must_use]
    pub fn accepted(&self) -> [u64; 3] {
        std::array::from_fn(|i| self.doors[i].accepted.load(Ordering::Relaxed))
    }

    /// Requests refused since the start, by receiver.
    #[must_use]
    pub fn refused_requests(&self) -> [u64; 3] {
        std::array::from_fn(|i| {
            self.doors[i]
                .refused
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
                .sum()
        })
    }

    /// Adds the receivers' samples to a page.
    pub fn render(&self, page: &mut Page) {
        type Read = fn(&Door) -> &AtomicU64;
        let plain: [(Metric, Read); 5] = [
            (ACCEPTED, |door| &door.accepted),
            (REJECTED, |door| &door.rejected),
            (REPAIRED, |door| &door.repaired),
            (REQUESTS, |door| &door.requests),
            (RESENT, |door| &door.resent),
        ];
        for (metric, read) in plain {
            let by_receiver =
                |receiver: Receiver| read(&self.doors[receiver as usize]).load(Ordering::Relaxed);
            page.by_receiver(metric, Receiver::ALL.map(by_receiver));
        }
        page.header(REFUSED);
        for receiver in Receiver::ALL {
            for (reason, count) in REASONS.iter().zip(&self.doors[receiver as usize].refused) {
                let labels = format!("{{receiver=\"{}\",reason=\"{reason}\"}}", receiver.as_str());
                page.sample(REFUSED, &labels, count.load(Ordering::Relaxed));
            }
        }
    }
}

/// A page in the Prometheus text format.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// One metric without labels.
    pub fn single(&mut self, metric: Metric, value: u64) {
        self.header(metric);
        self.sample(metric, "", value);
    }

    /// One metric by receiver.
    pub fn by_receiver(&mut self, metric: Metric, values: [u64; 3]) {
        self.header(metric);
        for (receiver, value) in Receiver::ALL.into_iter().zip(values) {
            self.sample(
                metric,
                &format!("{{receiver=\"{}\"}}", receiver.as_str()),
                value,
            );
        }
    }

    /// The text.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }

    fn header(&mut self, metric: Metric) {
        let Metric { name, kind, help } = metric;
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}")
            .expect("writing to memory");
    }

    fn sample(&mut self, metric: Metric, labels: &str, value: u64) {
        writeln!(self.text, "{}{labels} {value}", metric.name).expect("writing to memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_help_type_and_samples() {
        let metrics = Metrics::default();
        metrics.refused(Receiver::Json, "too_large");
        let mut page = Page::default();
        metrics.render(&mut page);
        page.single(VIEWERS, 3);
        let text = page.into_text();
        for line in [
            "# TYPE watchtower_receiver_refused_requests_total counter",
            "watchtower_receiver_refused_requests_total{receiver=\"json\",reason=\"too_large\"} 1",
            "watchtower_receiver_refused_requests_total{receiver=\"otlp_grpc\",reason=\"too_large\"} 0",
            "watchtower_live_viewers 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn names_follow_the_convention() {
        for metric in ALL {
            assert!(metric.name.starts_with("watchtower_"), "{}", metric.name);
            assert_eq!(
                metric.name.ends_with("_total"),
                metric.kind == "counter",
                "{}",
                metric.name
            );
        }
    }
}
