//! The tables: how they are made, and how older ones become newer ones.
//!
//! Every step may be repeated and may run on several nodes at once: `IF NOT EXISTS` everywhere, and a
//! migration that was applied is noted in `schema_migrations` only after it was.
//!
//! The records table is sorted by `(timestamp, id)`, so that the newest records of any range are read
//! backwards from its end and paging needs nothing else.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::{info, warn};

use super::life::Life;
use super::{Client, Error, Kind, catalogue};
use crate::config::Config;
use crate::frame::{COLUMNS, Column};

/// Inserts whose tokens a table remembers. At the fastest pace of small inserts, two a second, that
/// is more than an hour.
const DEDUPLICATION_WINDOW: u32 = 10_000;

const STATEMENT_LIMIT: Duration = Duration::from_secs(30);

/// What the text index has of a message: its words, as far as they are letters, in lower case. Numbers
/// would be most of the index, since nearly every one of them is another. A query that shall use the
/// index must say exactly this.
pub(crate) const WORDS: &str = "translate(message, '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ', \
     '          abcdefghijklmnopqrstuvwxyz')";

/// The tables of one database.
#[derive(Debug, Clone)]
pub struct Schema {
    database: String,
    /// Clones share it.
    life: Arc<Mutex<Life>>,
}

/// A change of the tables that earlier versions made. Additive, and harmless when repeated.
struct Migration {
    version: u32,
    name: &'static str,
    statements: fn(&Schema, &Abilities) -> Vec<String>,
}

/// What a server can do, by its version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Abilities {
    /// Text indexes without an experimental setting.
    pub(super) text_index: bool,
    /// Indexes on a part of a column, such as the values of a map.
    values_index: bool,
    /// Lengths of the strings within maps are a stream of their own, unless a setting says no.
    nested_sizes: bool,
}

impl Abilities {
    pub(super) fn of(version: &str) -> Abilities {
        let mut parts = version.split('.').map(|part| part.parse().unwrap_or(0));
        let major_minor: (u32, u32) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        Abilities {
            text_index: major_minor >= (26, 2),
            values_index: major_minor >= (26, 2),
            nested_sizes: major_minor >= (26, 3),
        }
    }
}

/// Oldest first. A released migration is never changed.
const MIGRATIONS: &[Migration] = &[
    Migration {
        version: 1,
        name: "logs",
        statements: |schema, server| vec![schema.logs(server)],
    },
    Migration {
        version: 2,
        name: "otel_logs with attributes of scopes",
        statements: |schema, _| vec![schema.otel_logs()],
    },
    Migration {
        version: 3,
        name: "young parts in one file",
        statements: |schema, _| vec![schema.compact_parts()],
    },
    Migration {
        version: 4,
        name: "values of resources in a dictionary",
        statements: |schema, server| schema.resource_of_few(server),
    },
    Migration {
        version: 5,
        name: "no counts beside the rows",
        statements: |schema, _| vec![schema.without_counts()],
    },
    Migration {
        version: 6,
        name: "values of attributes told apart better",
        statements: |schema, _| schema.attribute_values(),
    },
];

/// Every statement that makes the tables from nothing, in order, as `watchtower schema` prints them;
/// for a server as recent as the embedded engine.
#[must_use]
pub fn statements(config: &Config) -> Vec<String> {
    statements_for(config, "26.7")
}

/// As [`statements`], for a server of this version.
#[must_use]
pub fn statements_for(config: &Config, version: &str) -> Vec<String> {
    let (schema, server) = (Schema::new(config), Abilities::of(version));
    let mut all = schema.base();
    let steps = MIGRATIONS.iter();
    all.extend(steps.flat_map(|step| (step.statements)(&schema, &server)));
    all.push(schema.field_names());
    all
}

impl Schema {
    /// The tables that the configuration asks for.
    #[must_use]
    pub fn new(config: &Config) -> Schema {
        Schema {
            database: quoted(&config.store.database),
            life: Arc::new(Mutex::new(Life::of(config))),
        }
    }

    /// Has the tables keep records as long as this says, from the next [`Schema::ensure`] on.
    pub fn keep(&self, config: &Config) {
        *self.locked() = Life::of(config);
    }

    fn locked(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database's name in SQL.
    pub(super) fn database(&self) -> &str {
        &self.database
    }

    /// The records table's name in SQL.
    #[must_use]
    pub fn table(&self) -> String {
        format!("{}.logs", self.database)
    }

    /// Makes what is missing and changes what is old. Where all is as it should be, nothing but rights
    /// to read and to insert is needed.
    ///
    /// # Errors
    /// When ClickHouse does not answer or refuses; what was done stays, and the call may be repeated.
    pub async fn ensure(&self, client: &Client) -> Result<(), Error> {
        if let Some(table) = found(self.created(client, &self.table()).await)? {
            let applied = found(self.applied(client).await)?.unwrap_or_default();
            self.migrate(client, &applied).await?;
            self.apply_retention(client, &table).await?;
        } else {
            // From nothing, or again after somebody dropped the table.
            self.migrate(client, &BTreeSet::new()).await?;
        }
        // No migration: records are stored without it, too.
        if let Err(error) = self.keep_names(client).await {
            warn!(%error, "no table for the names of fields");
        }
        Ok(())
    }

    async fn migrate(&self, client: &Client, applied: &BTreeSet<u32>) -> Result<(), Error> {
        let steps = MIGRATIONS.iter();
        let missing: Vec<_> = steps
            .filter(|step| !applied.contains(&step.version))
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let version = client.version().await?;
        for statement in self.base() {
            client.execute(&statement).await?;
        }
        for step in missing {
            for statement in (step.statements)(self, &Abilities::of(&version)) {
                client.execute(&statement).await?;
            }
            let (database, version, name) = (&self.database, step.version, step.name);
            let note = format!(
                "INSERT INTO {database}.schema_migrations (version, name) VALUES ({version}, '{name}')"
            );
            client.execute(&note).await?;
            info!(version, name, "tables migrated");
        }
        Ok(())
    }

    /// The statement that would make a table as it is.
    async fn created(&self, client: &Client, table: &str) -> Result<String, Error> {
        let sql = format!("SHOW CREATE TABLE {table} FORMAT TabSeparatedRaw");
        let answer = client.select(&sql, &[], &[], STATEMENT_LIMIT).await?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
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
    async fn apply_retention(&self, client: &Client, created: &str) -> Result<(), Error> {
        let Life { ttl, is_mixed, .. } = self.locked().clone();
        let table = self.table();
        let whole_parts = format!("ttl_only_drop_parts = {}", u8::from(!is_mixed));
        if !created.contains(&whole_parts) {
            let alter = format!("ALTER TABLE {table} MODIFY SETTING {whole_parts}");
            client.execute(&alter).await?;
        }
        if created.contains(&format!("TTL {ttl}\n")) {
            return Ok(());
        }
        let alter = format!(
            "ALTER TABLE {table} MODIFY TTL {ttl} SETTINGS materialize_ttl_after_modify = 0"
        );
        client.execute(&alter).await?;
        info!(%ttl, "retention changed");
        Ok(())
    }

    /// Makes the catalogue's table, and keeps the names as long as the records that had them.
    async fn keep_names(&self, client: &Client) -> Result<(), Error> {
        let table = catalogue::name(&self.database);
        let Some(created) = found(self.created(client, &table).await)? else {
            return client.execute(&self.field_names()).await;
        };
        let ttl = catalogue::ttl(self.locked().days);
        if created.contains(&format!("TTL {ttl}\n")) {
            return Ok(());
        }
        let alter = format!("ALTER TABLE {table} MODIFY TTL {ttl}");
        client.execute(&alter).await
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

    fn logs(&self, server: &Abilities) -> String {
        let columns: String = COLUMNS.iter().map(|column| line(*column)).collect();
        let (table, Life { ttl, is_mixed, .. }) = (self.table(), self.locked().clone());
        let whole_parts = u8::from(!is_mixed);
        let resource_index = resource_index(server);
        let words = if server.text_index {
            format!("{WORDS} TYPE text(tokenizer = splitByNonAlpha)")
        } else {
            "message TYPE tokenbf_v1(32768, 3, 0) GRANULARITY 1".to_owned()
        };
        // With them, the lengths of a resource's values take more than the values.
        let nested_sizes = if server.nested_sizes {
            ",\n    propagate_types_serialization_versions_to_nested_types = 0"
        } else {
            ""
        };
        format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n{columns}    \
             INDEX id_range id TYPE minmax GRANULARITY 1,\n    \
             INDEX trace_id_bloom trace_id TYPE bloom_filter(0.01) GRANULARITY 1,\n    \
             INDEX attribute_bloom mapValues(attributes) TYPE bloom_filter(0.025) GRANULARITY 1,\n    \
             INDEX {resource_index},\n    \
             INDEX message_words {words}\n\
             ) ENGINE = MergeTree\n\
             PARTITION BY toDate(timestamp)\n\
             ORDER BY (timestamp, id)\n\
             TTL {ttl}\n\
             SETTINGS index_granularity = 8192, ttl_only_drop_parts = {whole_parts},\n    \
             non_replicated_deduplication_window = {DEDUPLICATION_WINDOW},\n    \
             fsync_after_insert = 1, fsync_part_directory = 1{nested_sizes}"
        )
    }

    /// A part that is not merged yet has its columns in one file: some sixty files fewer to make and to
    /// sync for each insert. The limit is of bytes before compression.
    fn compact_parts(&self) -> String {
        let table = self.table();
        format!("ALTER TABLE {table} MODIFY SETTING min_bytes_for_wide_part = 268435456")
    }

    /// Resources repeat, so their values go through ClickHouse as numbers. Rows that are there already are
    /// changed in the background, and read as if they were.
    fn resource_of_few(&self, server: &Abilities) -> Vec<String> {
        let table = self.table();
        let column = COLUMNS.iter().find(|column| column.name == "resource");
        let Column { name, kind } = column.expect("records have a resource");
        let (codec, index) = (codec(name), resource_index(server));
        let change = format!(
            "ALTER TABLE {table} DROP INDEX IF EXISTS resource_bloom, \
             MODIFY COLUMN `{name}` {kind} CODEC({codec}), \
             ADD INDEX IF NOT EXISTS {index} SETTINGS alter_sync = 0"
        );
        vec![change, self.otel_logs()]
    }

    /// A filter of the attributes' values that is wrong in one of a thousand granules, not in one of forty:
    /// those were most of what a search for a rare value read. Older parts get it in the background.
    fn attribute_values(&self) -> Vec<String> {
        let table = self.table();
        vec![
            format!(
                "ALTER TABLE {table} DROP INDEX IF EXISTS attribute_bloom, \
                 ADD INDEX IF NOT EXISTS attribute_values mapValues(attributes) \
                 TYPE bloom_filter(0.001) GRANULARITY 1 SETTINGS alter_sync = 0"
            ),
            format!(
                "ALTER TABLE {table} MATERIALIZE INDEX attribute_values SETTINGS mutations_sync = 0"
            ),
        ]
    }

    /// Parts with a projection and parts without one are never merged with each other, so that one that only merges
    /// make leaves more and more parts.
    fn without_counts(&self) -> String {
        let table = self.table();
        format!("ALTER TABLE {table} DROP PROJECTION IF EXISTS counts SETTINGS mutations_sync = 0")
    }

    /// The catalogue of fields.
    pub(super) fn field_names(&self) -> String {
        catalogue::create(&self.database, self.locked().days)
    }

    /// The records under the names that the OpenTelemetry Collector's exporter gives them. A record's
    /// attributes hold its scope's, prefixed; here they stand apart again.
    fn otel_logs(&self) -> String {
        let (database, table) = (&self.database, self.table());
        format!(
            "CREATE OR REPLACE VIEW {database}.otel_logs AS SELECT\n    \
             timestamp AS Timestamp,\n    \
             toDateTime(timestamp) AS TimestampTime,\n    \
             trace_id AS TraceId,\n    \
             span_id AS SpanId,\n    \
             trace_flags AS TraceFlags,\n    \
             if(severity_text = '', upper(level), severity_text) AS SeverityText,\n    \
             severity_number AS SeverityNumber,\n    \
             service AS ServiceName,\n    \
             message AS Body,\n    \
             resource['otel.resource.schema_url'] AS ResourceSchemaUrl,\n    \
             CAST(resource, 'Map(LowCardinality(String), String)') AS ResourceAttributes,\n    \
             attributes['otel.scope.schema_url'] AS ScopeSchemaUrl,\n    \
             scope_name AS ScopeName,\n    \
             scope_version AS ScopeVersion,\n    \
             CAST(mapApply((k, v) -> (substring(k, 12), v), \
             mapFilter((k, v) -> startsWith(k, 'otel.scope.'), attributes)), \
             'Map(LowCardinality(String), String)') AS ScopeAttributes,\n    \
             mapFilter((k, v) -> NOT startsWith(k, 'otel.scope.'), attributes) AS LogAttributes,\n    \
             event_name AS EventName\n\
             FROM {table}"
        )
    }
}

/// `None` where the error is that there is no such table.
fn found<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == Kind::Schema => Ok(None),
        Err(error) => Err(error),
    }
}

/// The index on resources' values. On the values as they are it takes them from their dictionary; as a function
/// of the map, each would be copied for every row: gigabytes for a command line of 16 kB. All granules have
/// nearly the same few values, so that a value that is taken for one of them is so in every granule, and all
/// is read; that must be seldom, and costs nothing.
fn resource_index(server: &Abilities) -> String {
    let values = if server.values_index {
        "resource.values"
    } else {
        "mapValues(resource)"
    };
    format!("resource_values {values} TYPE bloom_filter(0.00001) GRANULARITY 1")
}

/// A column's line in the table's definition.
fn line(column: Column) -> String {
    format!(
        "    `{}` {} CODEC({}){},\n",
        column.name,
        column.kind,
        codec(column.name),
        settings(column.name)
    )
}

/// Times and ids nearly rise, so their second differences are small. Of text, level 3 is worth its
/// time over level 1 where much of it repeats; higher ones are not: docs/schema.md has the figures.
fn codec(column: &str) -> &'static str {
    match column {
        "timestamp" | "id" | "received_at" => "DoubleDelta, ZSTD(1)",
        "message" | "attributes" | "resource" => "ZSTD(3)",
        _ => "ZSTD(1)",
    }
}

/// One block for all messages of a granule, which is read as a whole anyway: messages that come again
/// are found again within a block only.
fn settings(column: &str) -> &'static str {
    match column {
        "message" => " SETTINGS (max_compress_block_size = 4194304)",
        _ => "",
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
        let create = statements_for(&Config::default(), "25.8.1.1").join(";");
        for column in COLUMNS {
            let line = format!("    `{}` {} CODEC(", column.name, column.kind);
            assert!(create.contains(&line), "{line} in {create}");
        }
    }

    #[test]
    fn every_migration_has_a_number_of_its_own() {
        let versions: Vec<u32> = MIGRATIONS.iter().map(|step| step.version).collect();
        assert!(versions.is_sorted_by(|a, b| a < b), "{versions:?}");
    }

    #[test]
    fn servers_are_asked_for_what_they_have() {
        for (version, text_index, nested_sizes) in [
            ("26.7.2.1", true, true),
            ("27.1.1.1-stable", true, true),
            ("26.3", true, true),
            ("26.2", true, false),
            ("26.1.9.9", false, false),
            ("25.12.1.1", false, false),
            ("", false, false),
        ] {
            let expected = Abilities {
                text_index,
                values_index: text_index,
                nested_sizes,
            };
            assert_eq!(Abilities::of(version), expected, "{version}");
        }
    }
}
