//! The table of the catalogue.

/// Its name in SQL.
pub(in crate::store) fn name(database: &str) -> String {
    format!("{database}.field_names")
}

/// The statement that makes it. Rows of one name and day become one row when parts are merged; until
/// then whoever reads adds them up.
pub(in crate::store) fn create(database: &str, days: u64) -> String {
    let (table, ttl) = (name(database), ttl(days));
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (\n    day Date,\n    kind LowCardinality(String),\n    \
         name String,\n    records UInt64\n) ENGINE = SummingMergeTree(records)\n\
         PARTITION BY toYYYYMM(day)\nORDER BY (name, kind, day)\nTTL {ttl}"
    )
}

/// How long rows live, as ClickHouse prints it back.
pub(in crate::store) fn ttl(days: u64) -> String {
    format!("day + toIntervalDay({days})")
}
