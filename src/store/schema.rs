//! The tables: how they are made, and how older ones become newer ones.
//!
//! Every step may be repeated and may run on several nodes at once: `IF NOT EXISTS` everywhere, and a
//! migration that was applied is noted in `schema_migrations` only after it was.
//!
//! The records table is sorted by `(timestamp, id)`, so that the newest records of any range are read
//! backwards from its end and paging needs nothing else.

use std::collections::BTreeSet;
use std::time::Duration;

use tracing::info;

use super::{Client, Error};
use crate::config::Config;
use crate::frame::{COLUMNS, Column};

/// Inserts whose tokens a table remembers. At the fastest pace of small inserts, two a second, that
/// is more than an hour.
const DEDUPLICATION_WINDOW: u32 = 10_000;

const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// The tables of one database.
#[derive(Debug, Clone)]
pub struct Schema {
    database: String,
    retention: Duration,
}

/// A change of the tables that earlier versions made. Additive, and harmless when repeated.
struct Migration {
    version: u32,
    name: &'static str,
    statements: fn(&Schema) -> Vec<String>,
}

/// Oldest first. A released migration is never changed.
const MIGRATIONS: &[Migration] = &[Migration {
    version: 1,
    name: "logs and otel_logs",
    statements: |schema| vec![schema.logs(), schema.otel_logs()],
}];

/// Every statement that makes the tables from nothing, in order, as `watchtower schema` prints them.
#[must_use]
pub fn statements(config: &Config) -> Vec<String> {
    let schema = Schema::new(config);
    let mut all = schema.base();
    all.extend(
        MIGRATIONS
            .iter()
            .flat_map(|step| (step.statements)(&schema)),
    );
    all
}

impl Schema {
    /// The tables that the configuration asks for.
    #[must_use]
    pub fn new(config: &Config) -> Schema {
        Schema {
            database: quoted(&config.store.database),
            retention: config.retention.duration(),
        }
    }

    /// The records table's name in SQL.
    #[must_use]
    pub fn table(&self) -> String {
        format!("{}.logs", self.database)
    }

    /// Makes what is missing and changes what is old.
    ///
    /// # Errors
    /// When ClickHouse does not answer or refuses; what was done stays, and the call may be repeated.
    pub async fn ensure(&self, client: &Client) -> Result<(), Error> {
        for statement in self.base() {
            client.execute(&statement).await?;
        }
        let applied = self.applied(client).await?;
        for step in MIGRATIONS {
            if applied.contains(&step.version) {
                continue;
            }
            for statement in (step.statements)(self) {
                client.execute(&statement).await?;
            }
            let (database, version, name) = (&self.database, step.version, step.name);
            let note = format!(
                "INSERT INTO {database}.schema_migrations (version, name) VALUES ({version}, '{name}')"
            );
            client.execute(&note).await?;
            info!(version, name, "tables migrated");
        }
        self.apply_retention(client).await
    }

    async fn applied(&self, client: &Client) -> Result<BTreeSet<u32>, Error> {
        let sql = format!(
            "SELECT version FROM {}.schema_migrations FORMAT TabSeparated",
            self.database
        );
        let answer = client.select(&sql, &[], &[], STATEMENT_LIMIT).await?;
        Ok(String::from_utf8_lossy(&answer)
            .lines()
            .filter_map(|line| line.parse().ok())
            .collect())
    }

    /// Changes the table's TTL where the retention is another now. Old parts are dropped when they
    /// are merged next or within a few hours.
    async fn apply_retention(&self, client: &Client) -> Result<(), Error> {
        let table = self.table();
        let sql = format!("SHOW CREATE TABLE {table} FORMAT TabSeparatedRaw");
        let answer = client.select(&sql, &[], &[], STATEMENT_LIMIT).await?;
        let current = String::from_utf8_lossy(&answer).into_owned();
        // ClickHouse prints the expression back in its own way.
        let wanted = self.ttl("toIntervalSecond({})");
        if current.contains(&wanted) {
            return Ok(());
        }
        client
            .execute(&format!(
                "ALTER TABLE {table} MODIFY TTL {} SETTINGS materialize_ttl_after_modify = 0",
                self.ttl("toIntervalSecond({})")
            ))
            .await?;
        info!(retention = ?self.retention, "retention changed");
        Ok(())
    }

    fn base(&self) -> Vec<String> {
        let database = &self.database;
        vec![
            format!("CREATE DATABASE IF NOT EXISTS {database}"),
            format!(
                "CREATE TABLE IF NOT EXISTS {database}.schema_migrations (\n    \
                 version UInt32,\n    name String,\n    applied_at DateTime('UTC') DEFAULT now()\n\
                 ) ENGINE = ReplacingMergeTree ORDER BY version"
            ),
        ]
    }

    /// The TTL expression. `interval` is a function with `{}` for the seconds.
    fn ttl(&self, interval: &str) -> String {
        let seconds = self.retention.as_secs().to_string();
        format!(
            "toDateTime(timestamp) + {}",
            interval.replace("{}", &seconds)
        )
    }

    fn logs(&self) -> String {
        let columns: String = COLUMNS.iter().map(|column| line(*column)).collect();
        let (table, ttl) = (self.table(), self.ttl("toIntervalSecond({})"));
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n{columns}    \
             INDEX id_range id TYPE minmax GRANULARITY 1,\n    \
             INDEX trace_id_bloom trace_id TYPE bloom_filter(0.01) GRANULARITY 1,\n    \
             INDEX message_words message TYPE text(tokenizer = splitByNonAlpha)\n\
             ) ENGINE = MergeTree\n\
             PARTITION BY toDate(timestamp)\n\
             ORDER BY (timestamp, id)\n\
             TTL {ttl}\n\
             SETTINGS index_granularity = 8192, ttl_only_drop_parts = 1,\n    \
             non_replicated_deduplication_window = {DEDUPLICATION_WINDOW},\n    \
             fsync_after_insert = 1, fsync_part_directory = 1"
        )
    }

    /// The records under the names that the OpenTelemetry Collector's exporter gives them.
    fn otel_logs(&self) -> String {
        let (database, table) = (&self.database, self.table());
        format!(
            "CREATE VIEW IF NOT EXISTS {database}.otel_logs AS SELECT\n    \
             timestamp AS Timestamp,\n    \
             toDateTime(timestamp) AS TimestampTime,\n    \
             trace_id AS TraceId,\n    \
             span_id AS SpanId,\n    \
             trace_flags AS TraceFlags,\n    \
             if(severity_text = '', upper(level), severity_text) AS SeverityText,\n    \
             severity_number AS SeverityNumber,\n    \
             service AS ServiceName,\n    \
             message AS Body,\n    \
             '' AS ResourceSchemaUrl,\n    \
             resource AS ResourceAttributes,\n    \
             '' AS ScopeSchemaUrl,\n    \
             scope_name AS ScopeName,\n    \
             scope_version AS ScopeVersion,\n    \
             CAST(map(), 'Map(LowCardinality(String), String)') AS ScopeAttributes,\n    \
             attributes AS LogAttributes,\n    \
             event_name AS EventName\n\
             FROM {table}"
        )
    }
}

/// A column's line in the table's definition.
fn line(column: Column) -> String {
    format!(
        "    `{}` {} CODEC({}),\n",
        column.name,
        column.kind,
        codec(column.name)
    )
}

/// Times and ids nearly rise, so their second differences are small. Text of the message is worth a
/// higher level: it is most of the bytes, and written once. Measured with a million records of five
/// services: 25 bytes a record, and 9 for the indexes.
fn codec(column: &str) -> &'static str {
    match column {
        "timestamp" | "id" | "received_at" => "DoubleDelta, ZSTD(1)",
        "message" | "attributes" => "ZSTD(3)",
        _ => "ZSTD(1)",
    }
}

/// A name as an identifier in SQL.
pub(super) fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_name_cannot_leave_its_quotes() {
        let mut config = Config::default();
        config.store.database = "a`; DROP TABLE x; --".to_owned();
        let statements = statements(&config);
        assert_eq!(
            statements[0],
            "CREATE DATABASE IF NOT EXISTS `a\\`; DROP TABLE x; --`"
        );
    }

    #[test]
    fn the_table_has_the_columns_of_a_frame() {
        let create = Schema::new(&Config::default()).logs();
        for column in COLUMNS {
            let line = format!("    `{}` {} CODEC(", column.name, column.kind);
            assert!(create.contains(&line), "{line} in {create}");
        }
    }
}
