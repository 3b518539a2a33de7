//! The counters that the receivers keep.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::metrics::{
    ACCEPTED, ANSWERS, EMPTY, Metric, OTHER_SIGNALS, Page, RECEIVED_BYTES, REFUSED, REJECTED,
    REPAIRED, REQUESTS, RESENT, TOKENS,
};
use crate::normalize::Repairs;
use crate::receivers::decode::Outcome;
use crate::receivers::{Encoding, Reject};
use crate::record::Receiver;

/// The statuses that receivers answer with: gRPC codes, then HTTP statuses.
const STATUSES: [u16; 24] = [
    0, 1, 3, 4, 7, 8, 12, 13, 14, 16, 200, 202, 400, 401, 403, 404, 405, 408, 413, 415, 429, 431,
    500, 503,
];
const ENCODINGS: [(Encoding, &str); 2] =
    [(Encoding::Protobuf, "protobuf"), (Encoding::Json, "json")];
const SIGNALS: [&str; 3] = ["traces", "metrics", "profiles"];
const NUM_REPAIRS: usize = 10;

#[derive(Debug, Default)]
struct Door {
    accepted: AtomicU64,
    rejected: AtomicU64,
    requests: AtomicU64,
    resent: AtomicU64,
    empty: AtomicU64,
    received_bytes: AtomicU64,
    repaired: [AtomicU64; NUM_REPAIRS],
    refused: [AtomicU64; Reject::REASONS.len()],
    answers: [[AtomicU64; STATUSES.len()]; ENCODINGS.len()],
}

/// The counters that the receivers keep. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    doors: Arc<[Door; 3]>,
    /// Requests of other signals: refused, discarded.
    other_signals: Arc<[[AtomicU64; 2]; SIGNALS.len()]>,
    /// Requests by the name of their token, of all that there were since the start.
    tokens: Arc<Mutex<BTreeMap<String, Arc<AtomicU64>>>>,
}

impl Metrics {
    /// Counts records that the queue has taken, by receiver: all of a frame, whether or not the
    /// senders of its requests still waited.
    pub fn queued(&self, records: [u32; 3]) {
        for (door, count) in self.doors.iter().zip(records) {
            door.accepted.fetch_add(count.into(), Ordering::Relaxed);
        }
    }

    /// Counts an acknowledged request; its records are counted when they are queued.
    pub fn outcome(&self, receiver: Receiver, outcome: &Outcome, accepted: usize) {
        let door = &self.doors[receiver as usize];
        door.requests.fetch_add(1, Ordering::Relaxed);
        door.rejected
            .fetch_add(outcome.rejected.into(), Ordering::Relaxed);
        if accepted == 0 && outcome.rejected == 0 {
            door.empty.fetch_add(1, Ordering::Relaxed);
        }
        if outcome.repairs == Repairs::default() {
            return;
        }
        for (counter, (_, count)) in door.repaired.iter().zip(outcome.repairs.named()) {
            counter.fetch_add(count.into(), Ordering::Relaxed);
        }
    }

    /// Counts a request that was taken before.
    pub(crate) fn resent(&self, receiver: Receiver) {
        let door = &self.doors[receiver as usize];
        door.resent.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a body that was read.
    pub(crate) fn received(&self, receiver: Receiver, bytes: usize) {
        let counter = &self.doors[receiver as usize].received_bytes;
        counter.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Counts a request that was refused whole. `reason` is an index into [`Reject::REASONS`].
    pub(crate) fn refused(&self, receiver: Receiver, reason: usize) {
        if let Some(counter) = self.doors[receiver as usize].refused.get(reason) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts an answer by its status: an HTTP status, or a gRPC code.
    pub(crate) fn answered(&self, receiver: Receiver, encoding: Encoding, status: u16) {
        let slot = STATUSES.iter().position(|known| *known == status);
        debug_assert!(slot.is_some(), "status {status} is not in the list");
        let answers = &self.doors[receiver as usize].answers[encoding as usize];
        if let Some(counter) = slot.and_then(|slot| answers.get(slot)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The counter of requests that come with the token of this name.
    pub(crate) fn token(&self, name: &str) -> Arc<AtomicU64> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(tokens.entry(name.to_owned()).or_default())
    }

    /// Counts a request of another signal.
    pub(crate) fn other_signal(&self, signal: &str, discarded: bool) {
        let found = SIGNALS.iter().position(|known| *known == signal);
        if let Some(found) = found {
            self.other_signals[found][usize::from(discarded)].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Records that the queue has taken since the start, by receiver.
    #[must_use]
    pub fn accepted(&self) -> [u64; 3] {
        std::array::from_fn(|i| self.doors[i].accepted.load(Ordering::Relaxed))
    }

    /// Requests refused since the start, by receiver.
    #[must_use]
    pub fn refused_requests(&self) -> [u64; 3] {
        let sum = |counters: &[AtomicU64]| -> u64 {
            let counts = counters.iter().map(|count| count.load(Ordering::Relaxed));
            counts.sum()
        };
        std::array::from_fn(|i| sum(&self.doors[i].refused))
    }

    /// Requests refused since the start, by reason and receiver; only those that there were.
    #[must_use]
    pub fn refusals(&self) -> BTreeMap<&'static str, BTreeMap<&'static str, u64>> {
        let mut refusals: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for receiver in Receiver::ALL {
            let counters = &self.doors[receiver as usize].refused;
            for (reason, counter) in Reject::REASONS.iter().zip(counters) {
                let count = counter.load(Ordering::Relaxed);
                if count > 0 {
                    let by_receiver = refusals.entry(*reason).or_default();
                    by_receiver.insert(receiver.as_str(), count);
                }
            }
        }
        refusals
    }

    /// Records since the start that could not be taken, of requests that were, by receiver.
    #[must_use]
    pub fn rejected(&self) -> [u64; 3] {
        std::array::from_fn(|i| self.doors[i].rejected.load(Ordering::Relaxed))
    }

    /// Adds the receivers' samples to a page.
    pub fn render(&self, page: &mut Page) {
        type Read = fn(&Door) -> &AtomicU64;
        let plain: [(Metric, Read); 6] = [
            (ACCEPTED, |door| &door.accepted),
            (REJECTED, |door| &door.rejected),
            (REQUESTS, |door| &door.requests),
            (RESENT, |door| &door.resent),
            (EMPTY, |door| &door.empty),
            (RECEIVED_BYTES, |door| &door.received_bytes),
        ];
        for (metric, read) in plain {
            let by_receiver =
                |receiver: Receiver| read(&self.doors[receiver as usize]).load(Ordering::Relaxed);
            page.by_receiver(metric, Receiver::ALL.map(by_receiver));
        }
        let kinds = Repairs::default().named().map(|(kind, _)| kind);
        self.labelled(page, REPAIRED, "kind", &kinds, |door| &door.repaired);
        let reasons = &Reject::REASONS;
        self.labelled(page, REFUSED, "reason", reasons, |door| &door.refused);
        self.answers(page);
        page.header(TOKENS);
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, uses) in tokens.iter() {
            // Names are letters, digits and signs that need no escaping.
            let labels = format!("{{token=\"{name}\"}}");
            page.sample(TOKENS, &labels, uses.load(Ordering::Relaxed));
        }
        drop(tokens);
        page.header(OTHER_SIGNALS);
        for (signal, counters) in SIGNALS.iter().zip(self.other_signals.iter()) {
            for (outcome, counter) in ["refused", "discarded"].iter().zip(counters) {
                let labels = format!("{{signal=\"{signal}\",outcome=\"{outcome}\"}}");
                page.sample(OTHER_SIGNALS, &labels, counter.load(Ordering::Relaxed));
            }
        }
    }

    /// One metric by receiver and a second label.
    fn labelled(
        &self,
        page: &mut Page,
        metric: Metric,
        label: &str,
        values: &[&str],
        read: impl Fn(&Door) -> &[AtomicU64],
    ) {
        page.header(metric);
        for receiver in Receiver::ALL {
            let counters = read(&self.doors[receiver as usize]);
            for (value, counter) in values.iter().zip(counters) {
                let labels = format!("{{receiver=\"{}\",{label}=\"{value}\"}}", receiver.as_str());
                page.sample(metric, &labels, counter.load(Ordering::Relaxed));
            }
        }
    }

    /// Answers, those that there were: most combinations cannot be.
    fn answers(&self, page: &mut Page) {
        page.header(ANSWERS);
        for receiver in Receiver::ALL {
            for (encoding, name) in ENCODINGS {
                let answers = &self.doors[receiver as usize].answers[encoding as usize];
                for (status, counter) in STATUSES.iter().zip(answers) {
                    let count = counter.load(Ordering::Relaxed);
                    if count > 0 {
                        let receiver = receiver.as_str();
                        let labels = format!(
                            "{{receiver=\"{receiver}\",encoding=\"{name}\",status=\"{status}\"}}"
                        );
                        page.sample(ANSWERS, &labels, count);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b_11_requests_are_counted_by_transport_encoding_and_status() {
        let metrics = Metrics::default();
        metrics.refused(Receiver::Json, 4);
        metrics.answered(Receiver::Json, Encoding::Json, 413);
        metrics.answered(Receiver::OtlpGrpc, Encoding::Protobuf, 0);
        metrics.received(Receiver::OtlpHttp, 77);
        metrics.other_signal("traces", true);
        let mut outcome = Outcome::default();
        outcome.repairs.invalid_utf8 = 2;
        metrics.outcome(Receiver::OtlpHttp, &outcome, 0);
        metrics.queued([1, 0, 30]);
        assert_eq!(
            metrics.refusals(),
            BTreeMap::from([("too_large", BTreeMap::from([("json", 1)]))])
        );
        let mut page = Page::default();
        metrics.render(&mut page);
        let text = page.into_text();
        for line in [
            "# TYPE watchtower_receiver_refused_requests_total counter",
            "watchtower_receiver_refused_requests_total{receiver=\"json\",reason=\"too_large\"} 1",
            "watchtower_receiver_refused_requests_total{receiver=\"otlp_grpc\",reason=\"too_large\"} 0",
            "watchtower_receiver_answers_total{receiver=\"json\",encoding=\"json\",status=\"413\"} 1",
            "watchtower_receiver_answers_total{receiver=\"otlp_grpc\",encoding=\"protobuf\",status=\"0\"} 1",
            "watchtower_receiver_received_bytes_total{receiver=\"otlp_http\"} 77",
            "watchtower_receiver_repaired_values_total{receiver=\"otlp_http\",kind=\"invalid_utf8\"} 2",
            "watchtower_receiver_empty_requests_total{receiver=\"otlp_http\"} 1",
            "watchtower_receiver_accepted_records_total{receiver=\"otlp_http\"} 0",
            "watchtower_receiver_accepted_records_total{receiver=\"json\"} 30",
            "watchtower_receiver_other_signal_requests_total{signal=\"traces\",outcome=\"discarded\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
    }
}
