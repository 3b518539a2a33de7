//! Searches the records: page by page, one record, and what comes after a cursor.

use std::time::Duration;

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::condition::Where;
use super::schema::Schema;
use super::select::{COLUMNS, parse};
use super::{Client, Error, Kind, Param};
use crate::api::{Order, Position, SearchBackend, SearchError, SearchPage, SearchQuery};
use crate::config::Config;
use crate::frame::ID_STEP;
use crate::live::{Cursor, StoredRecord, node_of};
use crate::query::Query;

/// What one search may take of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReaderLimits {
    /// Time at the server.
    pub time: Duration,
    /// Bytes of memory at the server.
    pub memory: u64,
    /// Rows read at the server.
    pub rows: u64,
}

impl Default for ReaderLimits {
    fn default() -> Self {
        Self {
            time: Duration::from_secs(20),
            memory: 1 << 30,
            rows: 2_000_000_000,
        }
    }
}

/// Reads the records table; cheap to clone.
#[derive(Debug, Clone)]
pub struct Reader {
    client: Client,
    table: String,
    limits: ReaderLimits,
}

impl Reader {
    /// A reader of the tables that the configuration names.
    #[must_use]
    pub fn new(client: Client, config: &Config, limits: ReaderLimits) -> Reader {
        Reader {
            client,
            table: Schema::new(config).table(),
            limits,
        }
    }

    /// One page of records in the order of `(timestamp, id)`.
    ///
    /// # Errors
    /// When ClickHouse does not answer, or the search ran into its limits.
    pub async fn page(&self, query: &SearchQuery) -> Result<SearchPage, Error> {
        let limit = query.limit.clamp(1, 1_000);
        let direction = match query.order {
            Order::Newest => "DESC",
            Order::Oldest => "ASC",
        };
        let order = format!("l.timestamp {direction}, l.id {direction}");
        // One more than asked for tells whether there is more.
        let mut records = self.select(conditions(query), &order, limit + 1).await?;
        let has_more = records.len() > limit;
        records.truncate(limit);
        Ok(SearchPage {
            records,
            has_more,
            searched_to: None,
            complete: true,
        })
    }

    /// The record with this id.
    ///
    /// # Errors
    /// As [`Reader::page`].
    pub async fn by_id(&self, id: u64) -> Result<Option<StoredRecord>, Error> {
        let mut condition = Where::default();
        condition.with("l.id = {}", "UInt64", |name| Param::number(name, id));
        let mut found = self.select(condition, "l.id", 1).await?;
        Ok(found.pop())
    }

    /// Matching records that `up_to` has passed and `after` has not, at most `limit`: the oldest by id
    /// where there is an `after`, else the newest.
    ///
    /// # Errors
    /// As [`Reader::page`].
    pub async fn between(
        &self,
        after: Option<&Cursor>,
        up_to: &Cursor,
        query: &Query,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        let mut condition = Where::default();
        let mut ranges = Vec::new();
        for (node, last) in up_to.iter() {
            let first = after.map_or(0, |after| after.get(node).map_or(0, |id| id + 1));
            // Numbers of ours, made here; a parameter would add nothing.
            if first <= last {
                ranges.push(format!(
                    "(l.id BETWEEN {first} AND {last} AND l.id % {ID_STEP} = {})",
                    node_of(last)
                ));
            }
        }
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        condition.condition(format!("({})", ranges.join(" OR ")));
        condition.query(query);
        let order = if after.is_some() { "l.id" } else { "l.id DESC" };
        self.select(condition, order, limit).await
    }

    /// The last id of each node that the store holds.
    ///
    /// # Errors
    /// As [`Reader::page`].
    pub async fn last_ids(&self) -> Result<Cursor, Error> {
        #[derive(Deserialize)]
        struct Last {
            last: String,
        }
        let sql = format!(
            "SELECT toString(max(id)) AS last FROM {} GROUP BY id % {ID_STEP} FORMAT JSONEachRow",
            self.table
        );
        let answer = self.run(&sql, &[]).await?;
        let mut cursor = Cursor::default();
        for line in answer.split(|byte| *byte == b'\n') {
            if let Ok(Last { last }) = serde_json::from_slice(line)
                && let Ok(id) = last.parse()
            {
                cursor.advance(id);
            }
        }
        Ok(cursor)
    }

    /// ClickHouse's version.
    ///
    /// # Errors
    /// When ClickHouse does not answer.
    pub async fn version(&self) -> Result<String, Error> {
        self.client.version().await
    }

    async fn select(
        &self,
        condition: Where,
        order: &str,
        limit: usize,
    ) -> Result<Vec<StoredRecord>, Error> {
        let (condition, params) = condition.finish();
        let sql = format!(
            "SELECT {COLUMNS}\nFROM {} AS l\nWHERE {condition}\nORDER BY {order}\nLIMIT {limit}\n\
             FORMAT JSONEachRow",
            self.table
        );
        parse(&self.run(&sql, &params).await?)
    }

    async fn run(&self, sql: &str, params: &[Param]) -> Result<bytes::Bytes, Error> {
        let seconds = self.limits.time.as_secs().max(1).to_string();
        let memory = self.limits.memory.to_string();
        let rows = self.limits.rows.to_string();
        let settings = [
            ("max_execution_time", seconds.as_str()),
            ("max_memory_usage", &memory),
            ("max_rows_to_read", &rows),
            ("output_format_json_quote_64bit_integers", "0"),
            ("output_format_json_escape_forward_slashes", "0"),
            // Reads large columns of the few rows that are shown only.
            ("query_plan_optimize_lazy_materialization", "1"),
        ];
        // Somewhat more than the server's own limit, whose error says more.
        let within = self.limits.time + Duration::from_secs(5);
        self.client.select(sql, &settings, params, within).await
    }
}

/// The conditions of a page.
fn conditions(query: &SearchQuery) -> Where {
    let mut condition = Where::default();
    let time = |sql: &str, at: i64, condition: &mut Where| {
        let sql = sql.replace("{}", "fromUnixTimestamp64Nano({}, 'UTC')");
        condition.with(&sql, "Int64", |name| Param::number(name, at));
    };
    if let Some(from) = query.from {
        time("l.timestamp >= {}", from, &mut condition);
    }
    if let Some(to) = query.to {
        time("l.timestamp < {}", to, &mut condition);
    }
    for (place, sign) in [(query.before, "<"), (query.after, ">")] {
        if let Some(Position { timestamp, id }) = place {
            // The first condition is implied by the second, and is the one the primary key reads.
            time(
                &format!("l.timestamp {sign}= {{}}"),
                timestamp,
                &mut condition,
            );
            let sql = format!(
                "(l.timestamp != fromUnixTimestamp64Nano({timestamp}, 'UTC') OR l.id {sign} {{}})"
            );
            condition.with(&sql, "UInt64", |name| Param::number(name, id));
        }
    }
    condition.query(&query.query);
    condition
}

impl SearchBackend for Reader {
    fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<SearchPage, SearchError>> {
        Box::pin(async move {
            let page = self.page(&query).await;
            page.map_err(|error| match error.kind() {
                Kind::Limit | Kind::Memory => SearchError::TooLarge(error.to_string()),
                _ => SearchError::Unavailable(error.to_string()),
            })
        })
    }
}
