//! Metrics: every name, unit and help text in one table, printed in the
//! Prometheus text format. Labels come from closed lists, never from a record or an error's text.

use std::fmt::Write;

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
    ACCEPTED "counter" "watchtower_receiver_accepted_records_total" "Records that the queue has taken, also where the sender had given up waiting.";
    REJECTED "counter" "watchtower_receiver_rejected_records_total" "Records of accepted requests that could not be taken; the sender was told.";
    REPAIRED "counter" "watchtower_receiver_repaired_values_total" "Odd values mended so that their records could be kept, by kind.";
    REQUESTS "counter" "watchtower_receiver_requests_total" "Requests acknowledged.";
    RESENT "counter" "watchtower_receiver_resent_requests_total" "Requests that were sent again and acknowledged without being stored again.";
    EMPTY "counter" "watchtower_receiver_empty_requests_total" "Requests acknowledged that held no record.";
    RECEIVED_BYTES "counter" "watchtower_receiver_received_bytes_total" "Bytes of request bodies, as received.";
    ANSWERS "counter" "watchtower_receiver_answers_total" "Answers by encoding and status (HTTP status, or gRPC code).";
    OTHER_SIGNALS "counter" "watchtower_receiver_other_signal_requests_total" "Requests with traces, metrics or profiles, by what became of them.";
    REFUSED "counter" "watchtower_receiver_refused_requests_total" "Requests refused whole, by reason.";
    TOKENS "counter" "watchtower_receiver_token_requests_total" "Requests by the name of their ingest token, or its place in the list.";
    CONNECTIONS "gauge" "watchtower_server_connections" "Connections that are open or kept for the next one, over all listeners.";
    CONNECTION_LIMIT "counter" "watchtower_server_connection_limit_reached_total" "Times at which new connections had to wait because all were taken.";
    ADDRESS_LIMIT "counter" "watchtower_server_address_limit_reached_total" "Connections closed at once because their address had all that one may have.";
    IN_FLIGHT "gauge" "watchtower_intake_in_flight_bytes" "Bytes of requests that are not yet committed to the queue.";
    QUEUE_RECORDS "gauge" "watchtower_queue_depth_records" "Records in the queue, sealed ones included.";
    QUEUE_BYTES "gauge" "watchtower_queue_depth_bytes" "Bytes in the queue, sealed ones included.";
    SPILLING "gauge" "watchtower_queue_spilling" "Whether frames go to the disk because redis takes none (1) or not (0).";
    SPILL_RECORDS "gauge" "watchtower_queue_spill_records" "Records in the spill; they are in the depth too.";
    SPILL_BYTES "gauge" "watchtower_queue_spill_bytes" "Bytes in the spill; they are in the depth too.";
    DAMAGED "counter" "watchtower_queue_damaged_stretches_total" "Stretches of queue files that could not be read and were set aside, and losses found in redis.";
    DAMAGED_RECORDS "counter" "watchtower_queue_damaged_records_total" "Records that were in the depth and were lost in these ways.";
    QUEUE_AGE "gauge" "watchtower_queue_oldest_seconds" "Age of the oldest frame in the queue; 0 when it is empty.";
    STORED "counter" "watchtower_store_inserted_records_total" "Records that ClickHouse confirmed since the start.";
    DEAD "gauge" "watchtower_dead_letter_records" "Records set aside because ClickHouse refused them for good.";
    STORE_UP "gauge" "watchtower_store_up" "Whether ClickHouse answers and takes inserts (1), or not (0).";
    STORE_BYTES "gauge" "watchtower_store_bytes" "Bytes of records on ClickHouse's disk.";
    DROPPED "counter" "watchtower_store_dropped_records_total" "Records dropped with the oldest days, to stay within store.max_disk or to keep store.min_free.";
    DISK_FREE "gauge" "watchtower_disk_free_bytes" "Bytes free on the disk of the state directory.";
    VIEWERS "gauge" "watchtower_live_viewers" "Live streams that are open.";
    SKIPPED "counter" "watchtower_live_skipped_records_total" "Records not shown to viewers that were too slow; they are in the store.";
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

    pub(super) fn header(&mut self, metric: Metric) {
        let Metric { name, kind, help } = metric;
        writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}")
            .expect("writing to memory");
    }

    pub(super) fn sample(&mut self, metric: Metric, labels: &str, value: u64) {
        writeln!(self.text, "{}{labels} {value}", metric.name).expect("writing to memory");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
