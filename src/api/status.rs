//! The daemon about itself: status, what never changes, health.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use serde_json::json;

use super::{ApiError, ApiState};

/// The status panel's figures, at one moment.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Status {
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Records accepted, by receiver.
    pub accepted: BTreeMap<&'static str, u64>,
    /// Requests refused, by receiver.
    pub refused: BTreeMap<&'static str, u64>,
    /// The same by reason, then by receiver; only those that there were.
    pub refused_reasons: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
    /// Records that could not be taken, of requests that were, by receiver.
    pub rejected: BTreeMap<&'static str, u64>,
    /// Records stored, over all.
    pub stored: u64,
    /// Records set aside as dead letters.
    pub dead: u64,
    /// Records waiting in the queue, sealed claims included.
    pub queued: u64,
    /// Bytes in the queue.
    pub queue_bytes: u64,
    /// Milliseconds that the oldest record of the queue has waited.
    pub queue_age_ms: u64,
    /// Records on their way to Redis by the disk; nothing with the disk queue.
    pub spill: Option<SpillStatus>,
    /// What could not be read in the queue's files.
    pub damaged: DamageStatus,
    /// The disk that the state directory is on.
    pub disk: DiskStatus,
    /// Redis; nothing with the disk queue.
    pub redis: Option<RedisStatus>,
    /// ClickHouse.
    pub store: StoreStatus,
}

/// The disk queue before Redis.
#[derive(Debug, Clone, Default, Serialize)]
pub struct SpillStatus {
    /// Why frames go to the disk, in Redis's own words; nothing while Redis takes them.
    pub reason: Option<String>,
    /// Records in it; they are among the queued.
    pub records: u64,
    /// Bytes in it.
    pub bytes: u64,
}

/// Damage found in the queue's files since the start.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct DamageStatus {
    /// Stretches that were set aside.
    pub stretches: u64,
    /// Records that were among the queued and were lost with them.
    pub records: u64,
}

/// The disk that the state directory is on.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct DiskStatus {
    /// Bytes free to the daemon; nothing where the system does not say.
    pub free_bytes: Option<u64>,
}

/// Redis as it last answered.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RedisStatus {
    /// Whether it answers.
    pub ok: bool,
    /// Milliseconds that its last answer took.
    pub latency_ms: Option<f64>,
    /// Why it does not answer.
    pub error: Option<String>,
}

/// ClickHouse as the writer last saw it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct StoreStatus {
    /// Whether it answers.
    pub ok: bool,
    /// Its version, once known.
    pub version: Option<String>,
    /// Whether it is the embedded engine.
    pub embedded: bool,
    /// What it last said when it failed, and nothing since it works again.
    pub error: Option<String>,
    /// Bytes of records on its disk, once known.
    pub bytes: Option<u64>,
    /// Records dropped since the start to make room.
    pub dropped_records: u64,
    /// Milliseconds that its last answer to a small question took.
    pub latency_ms: Option<f64>,
    /// Milliseconds that the last insert took.
    pub insert_ms: Option<u64>,
    /// Milliseconds from the acceptance of the last insert's oldest record to its being stored.
    pub lag_ms: Option<u64>,
}

/// What does not change while the daemon runs.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Meta {
    /// Ports, for the settings that the empty page shows.
    pub ports: Ports,
    /// Whether the listeners speak TLS.
    pub tls: bool,
    /// Whether senders need a token.
    pub ingest_token_needed: bool,
    /// Whether readers need a token.
    pub read_token_needed: bool,
    /// Days that records are kept.
    pub retention_days: u64,
    /// Addresses on which senders on other machines cannot reach the daemon.
    pub loopback_only: bool,
    /// Addresses of other programs by name, with a record's fields in braces.
    pub links: BTreeMap<&'static str, String>,
}

/// Ports that were bound.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Ports {
    /// OTLP over gRPC.
    pub otlp_grpc: u16,
    /// OTLP over HTTP.
    pub otlp_http: u16,
    /// The page and the API.
    pub web: u16,
}

pub(super) async fn status(State(state): State<ApiState>) -> Response {
    let status = (state.status)().await;
    let live = state.hub.stats();
    no_store(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "pipeline": status,
        "live": {
            "viewers": live.viewers,
            "filters": live.filters,
            "published": live.published,
            "skipped": live.skipped,
        },
    }))
}

pub(super) async fn meta(State(state): State<ApiState>) -> Response {
    no_store(json!({
        "version": env!("CARGO_PKG_VERSION"),
        "assets": crate::web::version(),
        "meta": state.meta,
    }))
}

/// The process runs.
pub(super) async fn healthz() -> &'static str {
    "ok\n"
}

/// The daemon takes logs. A second line has what is worth knowing all the same.
pub(super) async fn readyz(State(state): State<ApiState>) -> Result<String, ApiError> {
    match (state.ready)() {
        Ok(None) => Ok("ready\n".to_owned()),
        Ok(Some(note)) => Ok(format!("ready\n{note}\n")),
        Err(reason) => Err(ApiError::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "not_ready",
            reason,
        )),
    }
}

fn no_store(body: serde_json::Value) -> Response {
    let mut response = Json(body).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
