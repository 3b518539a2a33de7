//! Doors for the fuzz targets to what is private here. Not part of any build but theirs.

use axum::extract::Query;
use http::Uri;

use super::SearchQuery;
use super::params::Params;
use super::search::{KNOWN, page};

/// Reads the query of a search at a moment in nanoseconds since the epoch; `None` where it is refused.
#[must_use]
pub fn search_query(query: &str, now: i64) -> Option<SearchQuery> {
    let uri: Uri = format!("/api/logs?{query}").parse().ok()?;
    let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(&uri).ok()?;
    let params = Params::new(pairs, &KNOWN).ok()?;
    let now = jiff::Timestamp::from_nanosecond(now.into()).ok()?;
    page(&params, now).ok()
}
