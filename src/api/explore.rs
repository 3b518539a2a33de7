//! Around the search: one record, its context, a histogram.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query as Pairs, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use super::params::Params;
use super::search::{Position, read};
use super::{ApiError, ApiState};
use crate::live::StoredRecord;
use crate::query::{Column, Query};

const DEFAULT_AROUND: usize = 50;
const MAX_AROUND: usize = 500;
const DEFAULT_BUCKETS: usize = 60;
const MAX_BUCKETS: usize = 120;
/// What a histogram shows where no beginning is asked for and nothing is older than its end.
const DAY: i64 = 86_400_000_000_000;

/// Which records around another.
#[derive(Debug, Clone)]
pub struct Context {
    /// The other.
    pub anchor: Position,
    /// What they have in common with it.
    pub query: Query,
    /// Most records before it.
    pub before: usize,
    /// Most records after it.
    pub after: usize,
}

/// What a histogram counts.
#[derive(Debug, Clone)]
pub struct Buckets {
    /// Which records.
    pub query: Query,
    /// Start of the first bucket, nanoseconds since the epoch.
    pub start: i64,
    /// End of the range, exclusive.
    pub end: i64,
    /// Length of a bucket.
    pub step: i64,
}

/// Counts by bucket and level; empty buckets are left out.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    /// Number of the bucket, level, records.
    pub counts: Vec<(u32, String, u64)>,
    /// Whether all was counted. Otherwise nothing was.
    pub complete: bool,
}

pub(super) type Request = (State<ApiState>, Pairs<Vec<(String, String)>>);

pub(super) async fn histogram((State(state), Pairs(pairs)): Request) -> Result<Response, ApiError> {
    let params = Params::new(pairs, &["from", "to", "buckets"])?;
    let now = jiff::Timestamp::now();
    let query = read(&params, now)?;
    let now = i64::try_from(now.as_nanosecond()).unwrap_or(i64::MAX);
    let end = query.to.unwrap_or(now);
    let start = match query.from {
        Some(from) => from,
        None => {
            let oldest = state.search.oldest().await?;
            let before = oldest.filter(|oldest| *oldest < end);
            before.unwrap_or(end.saturating_sub(DAY))
        }
    };
    if start >= end {
        return Err(ApiError::bad_request(
            "the range is empty: `from` is not before `to`",
        ));
    }
    let most = params.number("buckets", DEFAULT_BUCKETS, 1..=MAX_BUCKETS)?;
    let step = step(end - start, i64::try_from(most).unwrap_or(1));
    let buckets = Buckets {
        query: query.query.clone(),
        start: start - start.rem_euclid(step),
        end,
        step,
    };
    let start = buckets.start;
    let found = state.search.histogram(buckets).await?;
    let mut counts: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
    for (bucket, level, count) in found.counts {
        counts.entry(bucket).or_default().insert(level, count);
    }
    let counts: Vec<Value> = counts
        .into_iter()
        .map(|(bucket, levels)| {
            let at = start.saturating_add(step.saturating_mul(i64::from(bucket)));
            json!({"start": at.to_string(), "levels": levels})
        })
        .collect();
    Ok(no_store(json!({
        "q": query.query.to_json(),
        "start": start.to_string(),
        "end": end.to_string(),
        "step": step.to_string(),
        "buckets": counts,
        "complete": found.complete,
    })))
}

/// The shortest round length of which not more than `most` buckets are needed, the first cut included.
fn step(range: i64, most: i64) -> i64 {
    const SECOND: i64 = 1_000_000_000;
    let rounds = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1_800, 3_600, 7_200, 10_800, 21_600, 43_200,
        86_400,
    ];
    let fits = |step: &i64| range / step + 2 <= most;
    rounds
        .map(|seconds| seconds * SECOND)
        .into_iter()
        .find(fits)
        .unwrap_or_else(|| DAY * (range / DAY / (most - 1).max(1) + 1))
}

pub(super) async fn record(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Pairs(pairs): Pairs<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let params = Params::new(pairs, &["timestamp"])?;
    let record = find(&state, &id, &params).await?;
    let mut body = Vec::new();
    record.write_whole_json(&mut body);
    Ok(json_bytes(body))
}

pub(super) async fn context(
    State(state): State<ApiState>,
    Path(id): Path<String>,
    Pairs(pairs): Pairs<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let params = Params::new(pairs, &["timestamp", "before", "after", "same"])?;
    let anchor = find(&state, &id, &params).await?;
    let context = Context {
        anchor: Position::from(&anchor),
        query: same(&anchor, params.get("same").unwrap_or("service"))?,
        before: params.number("before", DEFAULT_AROUND, 0..=MAX_AROUND)?,
        after: params.number("after", DEFAULT_AROUND, 0..=MAX_AROUND)?,
    };
    let query = context.query.to_json();
    let mut records = state.search.context(context).await?;
    let place = records.partition_point(|record| Position::from(record) < Position::from(&anchor));
    records.insert(place, anchor);
    let mut body = format!("{{\"q\":{query},\"anchor\":{place},\"records\":[").into_bytes();
    for (at, record) in records.iter().enumerate() {
        if at > 0 {
            body.push(b',');
        }
        record.write_json(&mut body);
    }
    body.extend_from_slice(b"]}");
    Ok(json_bytes(body))
}

/// What a record's context has in common with it.
fn same(anchor: &StoredRecord, what: &str) -> Result<Query, ApiError> {
    let column = |column, value: &String| Query::one_of(column, std::slice::from_ref(value));
    let host = || anchor.resource.iter().find(|(key, _)| key == "host.name");
    Ok(match what {
        "all" => Query::default(),
        "trace" => column(Column::TraceId, &anchor.trace_id),
        "host" => Query::resource("host.name", host().map_or("", |(_, name)| name)),
        "service" => column(Column::Service, &anchor.service)
            .and(column(Column::Environment, &anchor.environment)),
        other => {
            let error = ApiError::bad_request(format!("there is no context `{other}`"));
            return Err(error.hint("`same` is service, host, trace or all"));
        }
    })
}

async fn find(state: &ApiState, id: &str, params: &Params) -> Result<StoredRecord, ApiError> {
    let number = |name: &str, text: &str| {
        ApiError::bad_request(format!("`{name}` is not a number: `{text}`"))
    };
    let id: u64 = id.parse().map_err(|_| number("id", id))?;
    let timestamp = params
        .get("timestamp")
        .map(|text| {
            let timestamp = text.parse().ok().filter(|time: &i64| *time >= 0);
            timestamp.ok_or_else(|| number("timestamp", text))
        })
        .transpose()?;
    let found = state.search.record(id, timestamp).await?;
    found.ok_or_else(|| {
        ApiError::new(
            StatusCode::NOT_FOUND,
            "not_found",
            format!("there is no record {id}"),
        )
        .hint("it may not be stored yet, or retention took it")
    })
}

pub(super) fn no_store(body: Value) -> Response {
    let mut response = Json(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn json_bytes(body: Vec<u8>) -> Response {
    let mut response = body.into_response();
    let headers = response.headers_mut();
    let json = HeaderValue::from_static("application/json");
    headers.insert(header::CONTENT_TYPE, json);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_round_and_never_make_too_many_buckets() {
        const SECOND: i64 = 1_000_000_000;
        for seconds in [1, 59, 60, 3_600, 86_400, 7 * 86_400, 400 * 86_400] {
            for most in [1, 2, 10, 60, 120] {
                let (range, step) = (seconds * SECOND, step(seconds * SECOND, most));
                // A range may begin within a bucket.
                assert!(
                    most <= 2 || range / step + 2 <= most + 1,
                    "{seconds} {most} {step}"
                );
                assert_eq!(step % SECOND, 0);
            }
        }
        assert_eq!(step(3_600 * SECOND, 62), 60 * SECOND);
    }
}
