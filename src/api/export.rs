//! `GET /api/logs/export`: all that a query finds, as a file, streamed page by page.
//!
//! NDJSON has one record a line in the form that `POST /api/logs` takes: attributes are keys of the
//! record, the resource is an object. CSV is RFC 4180's; a cell that a spreadsheet would take for a formula
//! begins with an apostrophe.

use axum::body::Body;
use axum::extract::{Query as Pairs, State};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, header};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::params::Params;
use super::search::{Position, SearchQuery, read};
use super::{ApiError, ApiState, Order};
use crate::live::StoredRecord;

const PAGE: usize = 1_000;
const DEFAULT_LIMIT: usize = 100_000;
const MAX_LIMIT: usize = 10_000_000;
const HEADER: &str =
    "timestamp,level,service,environment,message,trace_id,span_id,attributes,resource\r\n";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Ndjson,
    Csv,
}

struct Export {
    state: ApiState,
    query: SearchQuery,
    format: Format,
    left: usize,
    is_first: bool,
    is_last: bool,
}

pub(super) async fn get(
    State(state): State<ApiState>,
    Pairs(pairs): Pairs<Vec<(String, String)>>,
) -> Result<Response, ApiError> {
    let params = Params::new(pairs, &["from", "to", "order", "format", "limit"])?;
    let format = match params.get("format") {
        None | Some("ndjson") => Format::Ndjson,
        Some("csv") => Format::Csv,
        Some(other) => {
            let error = ApiError::bad_request(format!("there is no format `{other}`"));
            return Err(error.hint("formats are ndjson, csv"));
        }
    };
    let mut query = read(&params, Timestamp::now())?;
    if params.get("order").is_none() {
        query.order = Order::Oldest;
    }
    let left = params.number("limit", DEFAULT_LIMIT, 1..=MAX_LIMIT)?;
    let (kind, name) = match format {
        Format::Ndjson => ("application/x-ndjson", "ndjson"),
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
    };
    let mut export = Export {
        state,
        query,
        format,
        left,
        is_first: true,
        is_last: false,
    };
    // The first page comes before the head: what is wrong with the search is still an error then.
    let first = export.next().await?;
    let rest = stream::unfold(export, |mut export| async move {
        if export.is_last {
            return None;
        }
        let bytes = export.next().await.unwrap_or_else(|error| {
            export.is_last = true;
            export.remark(&format!("cut here: {}", error.text()))
        });
        Some((bytes, export))
    });
    let all = futures_util::StreamExt::chain(stream::iter([first]), rest);
    let all = futures_util::StreamExt::map(all, Ok::<_, std::convert::Infallible>);
    let mut response = Body::from_stream(all).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    let file = format!("attachment; filename=\"logs-up-to-{left}.{name}\"");
    if let Ok(file) = HeaderValue::from_str(&file) {
        headers.insert(header::CONTENT_DISPOSITION, file);
    }
    Ok(response)
}

impl Export {
    /// The next page, as text of the file.
    async fn next(&mut self) -> Result<Bytes, ApiError> {
        self.query.limit = self.left.clamp(1, PAGE);
        let page = self.state.search.search(self.query.clone()).await?;
        let mut out = Vec::new();
        if std::mem::take(&mut self.is_first) && self.format == Format::Csv {
            out.extend_from_slice(HEADER.as_bytes());
        }
        for record in page.records.iter().take(self.left) {
            match self.format {
                Format::Ndjson => ndjson(&mut out, record),
                Format::Csv => csv(&mut out, record),
            }
        }
        self.left = self.left.saturating_sub(page.records.len());
        let last = page.records.last().map(Position::from);
        match self.query.order {
            Order::Oldest => self.query.after = last.or(self.query.after),
            Order::Newest => self.query.before = last.or(self.query.before),
        }
        self.is_last = !page.has_more || self.left == 0;
        if !page.complete {
            out.extend_from_slice(&self.remark("cut here: the search took too long"));
        } else if page.has_more && self.left == 0 {
            out.extend_from_slice(&self.remark("cut here: the limit is reached"));
        }
        Ok(out.into())
    }

    /// A last line that says why it is the last.
    fn remark(&self, text: &str) -> Bytes {
        match self.format {
            Format::Ndjson => format!("{}\n", json!({"watchtower.export": text})).into(),
            Format::Csv => format!(",,,,{},,,,\r\n", cell(text)).into(),
        }
    }
}

fn time(nanoseconds: i64) -> String {
    Timestamp::from_nanosecond(i128::from(nanoseconds))
        .map_or_else(|_| nanoseconds.to_string(), |time| format!("{time:.9}"))
}

fn ndjson(out: &mut Vec<u8>, record: &StoredRecord) {
    let mut object = Map::new();
    let own = [
        ("timestamp", time(record.timestamp)),
        ("level", record.level.as_str().to_owned()),
        ("service", record.service.clone()),
        ("environment", record.environment.clone()),
        ("message", record.message.clone()),
        ("trace_id", record.trace_id.clone()),
        ("span_id", record.span_id.clone()),
    ];
    for (name, value) in own {
        if !value.is_empty() {
            object.insert(name.to_owned(), value.into());
        }
    }
    for (key, value) in &record.attributes {
        object
            .entry(key.clone())
            .or_insert_with(|| value.clone().into());
    }
    if !record.resource.is_empty() {
        object
            .entry("resource")
            .or_insert_with(|| map(&record.resource));
    }
    serde_json::to_writer(&mut *out, &object).expect("writing text to memory cannot fail");
    out.push(b'\n');
}

fn map(pairs: &[(String, String)]) -> Value {
    let pairs = pairs
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into()));
    Value::Object(pairs.collect())
}

fn csv(out: &mut Vec<u8>, record: &StoredRecord) {
    let cells = [
        time(record.timestamp),
        record.level.as_str().to_owned(),
        cell(&record.service),
        cell(&record.environment),
        cell(&record.message),
        record.trace_id.clone(),
        record.span_id.clone(),
        cell(&map(&record.attributes).to_string()),
        cell(&map(&record.resource).to_string()),
    ];
    out.extend_from_slice(cells.join(",").as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// A cell of a table, quoted where it must be, and never a formula.
fn cell(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if text.contains([',', '"', '\n', '\r']) {
        return format!("\"{guard}{}\"", text.replace('"', "\"\""));
    }
    format!("{guard}{text}")
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn cells_are_quoted_and_never_formulas() {
        for (text, expected) in [
            ("plain", "plain"),
            ("", ""),
            ("a,b", "\"a,b\""),
            ("say \"x\"\n", "\"say \"\"x\"\"\n\""),
            ("=1+1", "'=1+1"),
            ("-1,5", "\"'-1,5\""),
            ("@x", "'@x"),
            ("\tx", "'\tx"),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
    }
}
