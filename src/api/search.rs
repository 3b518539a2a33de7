//! `GET /api/logs`: stored records, page by page.

use std::str::FromStr;
use std::time::Instant;

use axum::extract::{Query as Pairs, State};
use axum::response::{IntoResponse, Response};
use futures_util::future::BoxFuture;
use http::{HeaderValue, header};
use serde_json::{Value, json};

use super::explore::{Buckets, Context, Histogram};
use super::fields::{Counted, FieldName, FieldsQuery};
use super::params::Params;
use super::{ApiError, ApiState};
use crate::live::StoredRecord;
use crate::query::Query;

const DEFAULT_LIMIT: usize = 200;
const MAX_LIMIT: usize = 1_000;
pub(super) const KNOWN: [&str; 7] = ["from", "to", "order", "limit", "before", "after", "v"];

/// Which end of the range comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Newest record first.
    Newest,
    /// Oldest record first.
    Oldest,
}

/// A record's place in the order of `(timestamp, id)`; written `timestamp.id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Event time, nanoseconds since the epoch.
    pub timestamp: i64,
    /// The record's id.
    pub id: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.timestamp, self.id)
    }
}

impl FromStr for Position {
    type Err = ApiError;

    fn from_str(text: &str) -> Result<Self, ApiError> {
        let parse = || {
            let (timestamp, id) = text.split_once('.')?;
            Some(Position {
                timestamp: timestamp.parse().ok().filter(|time| *time >= 0)?,
                id: id.parse().ok()?,
            })
        };
        parse().ok_or_else(|| {
            ApiError::bad_request(format!("not a place `timestamp.id`: `{text}`"))
                .hint("places come from `next`: nanoseconds since the epoch, a dot, and an id")
        })
    }
}

/// What to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchQuery {
    /// Which records.
    pub query: Query,
    /// Earliest event time, inclusive, nanoseconds since the epoch.
    pub from: Option<i64>,
    /// Latest event time, exclusive.
    pub to: Option<i64>,
    /// Only records strictly before this place.
    pub before: Option<Position>,
    /// Only records strictly after this place.
    pub after: Option<Position>,
    /// Which end comes first.
    pub order: Order,
    /// Most records to answer, 1 to 1,000.
    pub limit: usize,
}

/// A page of results, in the order that was asked for.
#[derive(Debug, Clone, Default)]
pub struct SearchPage {
    /// The records.
    pub records: Vec<StoredRecord>,
    /// Whether there may be more beyond the last record.
    pub has_more: bool,
    /// How far the search came, where it did not come to the end of its range.
    pub searched_to: Option<i64>,
    /// Whether the whole range was searched, up to the limit.
    pub complete: bool,
}

/// Why there is no page.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SearchError {
    /// The store is away or overloaded; the same search may succeed later.
    #[error("the store does not answer: {0}")]
    Unavailable(String),
    /// The search took more time, rows or memory than a search may.
    #[error("the search was too large: {0}")]
    TooLarge(String),
}

/// The store, as the search sees it.
pub trait SearchBackend: Send + Sync {
    /// Answers one page. Dropping the future cancels the search.
    fn search(&self, query: SearchQuery) -> BoxFuture<'_, Result<SearchPage, SearchError>>;

    /// One whole record; its event time, where known, says where to look.
    fn record(
        &self,
        id: u64,
        timestamp: Option<i64>,
    ) -> BoxFuture<'_, Result<Option<StoredRecord>, SearchError>>;

    /// The records around another, oldest first and without it.
    fn context(&self, context: Context) -> BoxFuture<'_, Result<Vec<StoredRecord>, SearchError>>;

    /// The time of the oldest record.
    fn oldest(&self) -> BoxFuture<'_, Result<Option<i64>, SearchError>>;

    /// Counts records by time and level.
    fn histogram(&self, buckets: Buckets) -> BoxFuture<'_, Result<Histogram, SearchError>>;

    /// The most common names of the catalogue.
    fn fields(&self, query: FieldsQuery) -> BoxFuture<'_, Result<Vec<FieldName>, SearchError>>;

    /// The most common values of a field, or fields where none is named, that begin with `prefix`.
    fn values(
        &self,
        query: SearchQuery,
        field: Option<String>,
        prefix: String,
    ) -> BoxFuture<'_, Result<Counted, SearchError>>;
}

impl From<SearchError> for ApiError {
    fn from(error: SearchError) -> Self {
        match error {
            SearchError::Unavailable(_) => {
                ApiError::unavailable(error.to_string()).hint("live goes on meanwhile")
            }
            SearchError::TooLarge(_) => ApiError::new(
                http::StatusCode::UNPROCESSABLE_ENTITY,
                "too_large",
                error.to_string(),
            )
            .hint("narrow the time range or the filter"),
        }
    }
}

pub(super) async fn get(
    State(state): State<ApiState>,
    Pairs(pairs): Pairs<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let started = Instant::now();
    let params = Params::new(pairs, &KNOWN)?;
    let query = page(&params, jiff::Timestamp::now())?;
    let understood = query.query.to_json();
    let page = state.search.search(query).await?;
    Ok(answer(&page, &understood, started))
}

/// The page that is asked for.
pub(super) fn page(params: &Params, now: jiff::Timestamp) -> Result<SearchQuery, ApiError> {
    Ok(SearchQuery {
        limit: params.number("limit", DEFAULT_LIMIT, 1..=MAX_LIMIT)?,
        ..read(params, now)?
    })
}

/// What to search for; the limit is for the caller to read.
pub(super) fn read(params: &Params, now: jiff::Timestamp) -> Result<SearchQuery, ApiError> {
    let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
    let place = |name| params.get(name).map(Position::from_str).transpose();
    let (before, after) = (place("before")?, place("after")?);
    let order = match params.get("order") {
        Some("oldest") => Order::Oldest,
        None if after.is_some() && before.is_none() => Order::Oldest,
        None | Some("newest") => Order::Newest,
        Some(other) => {
            let error = ApiError::bad_request(format!("there is no order `{other}`"));
            return Err(error.hint("orders are newest, oldest"));
        }
    };
    let (from, to) = params.range(now)?;
    Ok(SearchQuery {
        query: params.query()?,
        from,
        to,
        before,
        after,
        order,
        limit: DEFAULT_LIMIT,
    })
}

fn answer(page: &SearchPage, understood: &Value, started: Instant) -> Response {
    let mut body = b"{\"records\":[".to_vec();
    for (i, record) in page.records.iter().enumerate() {
        if i > 0 {
            body.push(b',');
        }
        record.write_json(&mut body);
    }
    let last = page.records.last().map(|record| Position {
        timestamp: record.timestamp,
        id: record.id,
    });
    let next = last.filter(|_| page.has_more).map(|next| next.to_string());
    let rest = json!({
        "q": understood,
        "next": next,
        "searched_to": page.searched_to.map(|at| at.to_string()),
        "complete": page.complete,
        "took_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
    });
    body.extend_from_slice(b"],");
    body.extend_from_slice(rest.to_string().trim_start_matches('{').as_bytes());
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        HeaderValue::from_static("application/json"),
    );
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
