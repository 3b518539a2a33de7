//! Rows of the records table, as a select returns them.

use serde::Deserialize;

use super::Error;
use crate::live::StoredRecord;
use crate::record::Level;

/// The columns of a record, for [`parse`]. Whole numbers of 64 bits come as text, times as numbers
/// since the epoch, maps as lists of pairs in their stored order.
pub(super) const COLUMNS: &str = "toString(id) AS id, \
     toString(toUnixTimestamp64Nano(l.timestamp)) AS timestamp, \
     level, severity_number, severity_text, service, environment, message, trace_id, span_id, \
     trace_flags, event_name, scope_name, scope_version, \
     CAST(l.attributes, 'Array(Tuple(String, String))') AS attributes, \
     CAST(l.resource, 'Array(Tuple(String, String))') AS resource, \
     receiver, toString(toUnixTimestamp64Milli(l.received_at)) AS received_at";

#[derive(Deserialize)]
struct Row {
    id: String,
    timestamp: String,
    level: String,
    severity_number: u8,
    severity_text: String,
    service: String,
    environment: String,
    message: String,
    trace_id: String,
    span_id: String,
    trace_flags: u8,
    event_name: String,
    scope_name: String,
    scope_version: String,
    attributes: Vec<(String, String)>,
    resource: Vec<(String, String)>,
    receiver: String,
    received_at: String,
}

/// Reads what a select of [`COLUMNS`] in `FORMAT JSONEachRow` returned.
pub(super) fn parse(answer: &[u8]) -> Result<Vec<StoredRecord>, Error> {
    answer
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| {
            let row: Row = serde_json::from_slice(line).map_err(unreadable)?;
            record(row)
        })
        .collect()
}

fn record(row: Row) -> Result<StoredRecord, Error> {
    Ok(StoredRecord {
        id: row.id.parse().map_err(unreadable)?,
        timestamp: row.timestamp.parse().map_err(unreadable)?,
        level: Level::from_name(&row.level).unwrap_or_default(),
        severity_number: row.severity_number,
        severity_text: row.severity_text,
        service: row.service,
        environment: row.environment,
        message: row.message,
        trace_id: row.trace_id,
        span_id: row.span_id,
        trace_flags: row.trace_flags,
        event_name: row.event_name,
        scope_name: row.scope_name,
        scope_version: row.scope_version,
        attributes: row.attributes,
        resource: row.resource,
        receiver: row.receiver,
        received_at: row.received_at.parse().map_err(unreadable)?,
    })
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::Format(crate::telemetry::one_line(&error.to_string()))
}
