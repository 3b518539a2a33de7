//! The two ways to insert frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::super::schema::Abilities;
use super::super::{Client, Error};
use crate::config;
use crate::frame::{COLUMNS, Frame};

/// Settings of every insert. `async_insert` is said explicitly because recent servers default to 1,
/// and acknowledge before the data are safe. One INSERT is one block, and so one part a partition,
/// which is what the token is remembered for. A frame's times are within the retention already, so
/// that replayed days are no reason to refuse it.
const SETTINGS: [(&str, &str); 5] = [
    ("async_insert", "0"),
    ("min_insert_block_size_rows", "16777216"),
    ("min_insert_block_size_bytes", "1073741824"),
    ("max_insert_threads", "1"),
    ("max_partitions_per_insert_block", "0"),
];

/// Indexes are left to the merges, for which a young part does not wait long: to make them at the insert and
/// then again at each merge is more than a third of all of ClickHouse's work. Until then the part's columns
/// are read; they are short. The range of ids costs nothing.
const WITHOUT_INDEXES: (&str, &str) = (
    "exclude_materialize_skip_indexes_on_insert",
    "message_words, trace_id_bloom, attribute_values, resource_values",
);

/// Inserts frames into the records table.
#[derive(Debug, Clone)]
pub(super) struct Insert {
    client: Client,
    whole: String,
    missing: String,
    within: Duration,
    /// Whether the server knows [`WITHOUT_INDEXES`].
    without_indexes: Arc<AtomicBool>,
}

impl Insert {
    pub(super) fn new(client: Client, table: &str, config: &config::Store) -> Insert {
        let names = COLUMNS.map(|column| column.name).join(", ");
        let structure = COLUMNS
            .map(|column| format!("{} {}", column.name, column.kind))
            .join(", ")
            .replace('\'', "\\'");
        Insert {
            client,
            whole: format!("INSERT INTO {table} ({names}) FORMAT Native"),
            missing: format!(
                "INSERT INTO {table} ({names}) SELECT {names} FROM input('{structure}') WHERE id NOT IN \
                 (SELECT id FROM {table} WHERE id BETWEEN {{first:UInt64}} AND {{last:UInt64}}) \
                 FORMAT Native"
            ),
            within: config.insert_timeout.duration(),
            without_indexes: Arc::default(),
        }
    }

    /// Takes note of the server's version.
    pub(super) fn suit(&self, version: &str) {
        let has_text_index = Abilities::of(version).text_index;
        self.without_indexes
            .store(has_text_index, Ordering::Relaxed);
    }

    /// Inserts all frames, for the first time, under their token.
    pub(super) async fn whole(&self, token: &str, frames: &[Frame]) -> Result<(), Error> {
        let query_id = query_id(token);
        let settings = self.with(&[
            ("insert_deduplicate", "1"),
            ("insert_deduplication_token", token),
            ("query_id", &query_id),
        ]);
        let pieces = frames.iter().map(Frame::payload);
        self.client
            .insert(&self.whole, &settings, pieces, self.within)
            .await
    }

    /// Inserts the rows whose ids are not in the table. Takes no token: another attempt may insert
    /// other rows, which ClickHouse would drop under the same one. Two attempts cannot run at once,
    /// because both have the same query id.
    pub(super) async fn missing(&self, frames: &[Frame]) -> Result<(), Error> {
        let headers = || frames.iter().map(Frame::header);
        let first = headers().map(|header| header.first_id).min().unwrap_or(0);
        let last = headers().map(|header| header.last_id).max().unwrap_or(0);
        let query_id = query_id(&crate::queue::token(frames));
        let (first, last) = (first.to_string(), last.to_string());
        let settings = self.with(&[
            ("insert_deduplicate", "0"),
            ("query_id", &query_id),
            ("param_first", &first),
            ("param_last", &last),
        ]);
        let pieces = frames.iter().map(Frame::payload);
        self.client
            .insert(&self.missing, &settings, pieces, self.within)
            .await
    }

    fn with<'a>(&self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let without_indexes = self.without_indexes.load(Ordering::Relaxed);
        let version = without_indexes.then_some(&WITHOUT_INDEXES);
        SETTINGS
            .iter()
            .chain(version)
            .chain(more)
            .copied()
            .collect()
    }
}

/// The name under which ClickHouse runs an insert of these frames; it runs no two of one name.
fn query_id(token: &str) -> String {
    format!("watchtower-{token}")
}
