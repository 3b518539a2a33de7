//! Fields and their values.

use axum::extract::{Path, Query as Pairs, State};
use axum::response::Response;
use serde_json::{Value, json};

use super::explore::{Request, no_store};
use super::params::Params;
use super::search::{SearchQuery, read};
use super::{ApiError, ApiState};

const DEFAULT_VALUES: usize = 10;
const MAX_VALUES: usize = 1_000;

/// What every record has a place for.
const COLUMNS: [&str; 10] = [
    "level",
    "service",
    "environment",
    "message",
    "trace_id",
    "span_id",
    "event",
    "scope",
    "receiver",
    "id",
];

/// Which names of the catalogue are asked for.
#[derive(Debug, Clone)]
pub struct FieldsQuery {
    /// Earliest time, nanoseconds since the epoch; all of its day counts.
    pub from: Option<i64>,
    /// Latest time, exclusive; all of its day counts.
    pub to: Option<i64>,
    /// What a name begins with, in any case.
    pub prefix: String,
    /// Most names.
    pub limit: usize,
}

/// A name of the catalogue.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldName {
    /// As a query has it.
    pub name: String,
    /// `attribute`, `resource` or `scope`; the first of them where records have it as several.
    pub kind: String,
    /// Records that have it, about.
    pub count: u64,
    /// The first day with such records, as in `2026-12-01`, UTC.
    pub first_seen: String,
    /// The last such day.
    pub last_seen: String,
}

/// Texts and how often they occur, the most common first.
#[derive(Debug, Clone, Default)]
pub struct Counted {
    /// Text and records.
    pub counts: Vec<(String, u64)>,
    /// Counted in so many of the newest matching records at most.
    pub sample: usize,
}

/// Without a query the catalogue answers, which has every name. Which of them the records of a query
/// have, only these can tell, and the newest of them are asked.
pub(super) async fn fields((State(state), Pairs(pairs)): Request) -> Result<Response, ApiError> {
    let (query, prefix) = facet(pairs)?;
    let columns = COLUMNS.iter().filter(|name| name.starts_with(&prefix));
    let mut fields: Vec<Value> = columns
        .map(|name| json!({"name": name, "kind": "column"}))
        .collect();
    let sample = if query.query.is_everything() {
        let names = state.search.fields(FieldsQuery {
            from: query.from,
            to: query.to,
            prefix,
            limit: query.limit,
        });
        fields.extend(names.await?.into_iter().map(|field| {
            json!({
                "name": field.name,
                "kind": field.kind,
                "count": field.count,
                "first_seen": field.first_seen,
                "last_seen": field.last_seen,
            })
        }));
        None
    } else {
        let found = state.search.values(query, None, prefix).await?;
        let keys = found.counts.into_iter();
        fields.extend(
            keys.map(|(name, count)| json!({"name": name, "kind": "attribute", "count": count})),
        );
        Some(found.sample)
    };
    Ok(no_store(
        json!({"fields": fields, "approximate": true, "sample": sample}),
    ))
}

pub(super) async fn values(
    State(state): State<ApiState>,
    Path(name): Path<String>,
    Pairs(pairs): Pairs<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    if matches!(name.as_str(), "message" | "id") {
        let error = ApiError::bad_request(format!("values of `{name}` are not counted"));
        return Err(error.hint("nearly every record has another"));
    }
    let (query, prefix) = facet(pairs)?;
    let name = if name == "env" {
        "environment".to_owned()
    } else {
        name
    };
    let found = state.search.values(query, Some(name), prefix).await?;
    let total: u64 = found.counts.iter().map(|(_, count)| count).sum();
    let values = found.counts.into_iter();
    let values: Vec<Value> = values
        .map(|(value, count)| json!({"value": value, "count": count}))
        .collect();
    Ok(no_store(json!({
        "values": values,
        "approximate": total >= found.sample as u64,
        "sample": found.sample,
    })))
}

fn facet(pairs: Vec<(String, String)>) -> Result<(SearchQuery, String), ApiError> {
    let params = Params::new(pairs, &["from", "to", "prefix", "limit"])?;
    let mut query = read(&params, jiff::Timestamp::now())?;
    query.limit = params.number("limit", DEFAULT_VALUES, 1..=MAX_VALUES)?;
    Ok((query, params.get("prefix").unwrap_or_default().to_owned()))
}
