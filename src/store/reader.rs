//! Searches the records: page by page, one record, and what comes after a cursor.

use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use serde::Deserialize;

use super::condition::Where;
use super::explore::search_error;
use super::schema::Schema;
use super::select::{COLUMNS, parse};
use super::windows::{now_ns, windows};
use super::{Client, Error, Kind, Param, catalogue};
use crate::api::{
    Buckets, Context, Counted, FieldName, FieldsQuery, Histogram, Order, Position, SearchBackend,
    SearchError, SearchPage, SearchQuery,
};
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
    pub(super) table: String,
    /// The catalogue's table.
    pub(super) field_names: String,
    pub(super) limits: ReaderLimits,
}

impl Reader {
    /// A reader of the tables that the configuration names.
    #[must_use]
    pub fn new(client: Client, config: &Config, limits: ReaderLimits) -> Reader {
        Reader {
            client,
            table: Schema::new(config).table(),
            field_names: catalogue::name(Schema::new(config).database()),
            limits,
        }
    }

    /// One page of records in the order of `(timestamp, id)`. The search goes from its beginning in
    /// growing windows of time; where it runs into a limit, it answers what it has and how far it came.
    ///
    /// # Errors
    /// When ClickHouse does not answer.
    pub async fn page(&self, query: &SearchQuery) -> Result<SearchPage, Error> {
        let limit = query.limit.clamp(1, 1_000);
        let direction = match query.order {
            Order::Newest => "DESC",
            Order::Oldest => "ASC",
        };
        let order = format!("l.timestamp {direction}, l.id {direction}");
        let end = Instant::now() + self.limits.time;
        let mut page = SearchPage {
            complete: true,
            ..SearchPage::default()
        };
        for window in windows(query, now_ns()) {
            // One more than asked for tells whether there is more.
            let missing = limit + 1 - page.records.len();
            let left = end.saturating_duration_since(Instant::now());
            let found = self.select(conditions(&window), &order, missing, left);
            match found.await {
                Ok(found) => page.records.extend(found),
                Err(error) if matches!(error.kind(), Kind::Limit | Kind::Memory) => {
                    page.complete = false;
                    page.searched_to = match query.order {
                        Order::Newest => window.to,
                        Order::Oldest => window.from,
                    };
                    return Ok(page);
                }
                Err(error) => return Err(error),
            }
            if page.records.len() > limit {
                page.has_more = true;
                page.records.truncate(limit);
                break;
            }
        }
        Ok(page)
    }

    /// The record with this id. Its event time, where known, says where to look.
    ///
    /// # Errors
    /// As [`Reader::page`].
    pub async fn by_id(
        &self,
        id: u64,
        timestamp: Option<i64>,
    ) -> Result<Option<StoredRecord>, Error> {
        let mut condition = Where::default();
        condition.with("l.id = {}", "UInt64", |name| Param::number(name, id));
        if let Some(timestamp) = timestamp {
            time(&mut condition, "l.timestamp = {}", timestamp);
        }
        let mut found = self.select(condition, "l.id", 1, self.limits.time).await?;
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
        self.select(condition, order, limit, self.limits.time).await
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
        let answer = self.run(&sql, &[], self.limits.time).await?;
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
        within: Duration,
    ) -> Result<Vec<StoredRecord>, Error> {
        let (condition, params) = condition.finish();
        let sql = format!(
            "SELECT {COLUMNS}\nFROM {} AS l\nWHERE {condition}\nORDER BY {order}\nLIMIT {limit}\n\
             FORMAT JSONEachRow",
            self.table
        );
        parse(&self.run(&sql, &params, within).await?)
    }

    pub(super) async fn run(
        &self,
        sql: &str,
        params: &[Param],
        time: Duration,
    ) -> Result<bytes::Bytes, Error> {
        let seconds = format!("{:.1}", time.as_secs_f64().max(0.1));
        let memory = self.limits.memory.to_string();
        let rows = self.limits.rows.to_string();
        let mut settings = vec![
            ("max_execution_time", seconds.as_str()),
            ("max_memory_usage", &memory),
            ("max_rows_to_read", &rows),
            ("output_format_json_quote_64bit_integers", "0"),
            ("output_format_json_escape_forward_slashes", "0"),
            // Reads large columns of the few rows that are shown only.
            ("query_plan_optimize_lazy_materialization", "1"),
        ];
        if sql.contains("arrayExists(") {
            // What looks into all values has those of a resource copied for every row of a block.
            settings.push(("max_block_size", "8192"));
        }
        // Somewhat more than the server's own limit, whose error says more.
        let within = time + Duration::from_secs(5);
        self.client.select(sql, &settings, params, within).await
    }
}

/// Adds a condition on a time in nanoseconds since the epoch.
pub(super) fn time(condition: &mut Where, sql: &str, at: i64) {
    let sql = sql.replace("{}", "fromUnixTimestamp64Nano({}, 'UTC')");
    condition.with(&sql, "Int64", |name| Param::number(name, at));
}

/// The conditions of a page.
pub(super) fn conditions(query: &SearchQuery) -> Where {
    let mut condition = Where::default();
    if let Some(from) = query.from {
        time(&mut condition, "l.timestamp >= {}", from);
    }
    if let Some(to) = query.to {
        time(&mut condition, "l.timestamp < {}", to);
    }
    for (place, sign) in [(query.before, "<"), (query.after, ">")] {
        if let Some(Position { timestamp, id }) = place {
            // The first condition is implied by the second, and is the one the primary key reads.
            let sql = format!("l.timestamp {sign}= {{}}");
            time(&mut condition, &sql, timestamp);
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
            self.page(&query)
                .await
                .map_err(|error| search_error(&error))
        })
    }

    fn record(
        &self,
        id: u64,
        timestamp: Option<i64>,
    ) -> BoxFuture<'_, Result<Option<StoredRecord>, SearchError>> {
        Box::pin(async move {
            let found = self.by_id(id, timestamp).await;
            found.map_err(|error| search_error(&error))
        })
    }

    fn context(&self, context: Context) -> BoxFuture<'_, Result<Vec<StoredRecord>, SearchError>> {
        Box::pin(async move {
            let around = self.around(&context).await;
            around.map_err(|error| search_error(&error))
        })
    }

    fn oldest(&self) -> BoxFuture<'_, Result<Option<i64>, SearchError>> {
        Box::pin(async move {
            let oldest = self.oldest_time().await;
            oldest.map_err(|error| search_error(&error))
        })
    }

    fn histogram(&self, buckets: Buckets) -> BoxFuture<'_, Result<Histogram, SearchError>> {
        Box::pin(async move {
            let counted = self.count(&buckets).await;
            counted.map_err(|error| search_error(&error))
        })
    }

    fn fields(&self, query: FieldsQuery) -> BoxFuture<'_, Result<Vec<FieldName>, SearchError>> {
        Box::pin(async move {
            let names = self.names(&query).await;
            names.map_err(|error| search_error(&error))
        })
    }

    fn values(
        &self,
        query: SearchQuery,
        field: Option<String>,
        prefix: String,
    ) -> BoxFuture<'_, Result<Counted, SearchError>> {
        Box::pin(async move {
            let counted = self.most_common(&query, field.as_deref(), &prefix).await;
            counted.map_err(|error| search_error(&error))
        })
    }
}
